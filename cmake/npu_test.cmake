# npu_add_test(NAME name LABELS unit SOURCES a_test.cpp ... LIBS npu_shm ... [TIMEOUT s])
# One GoogleTest program; every TEST in it becomes a ctest entry with its own timeout.
include(GoogleTest)
add_custom_target(thread_tests)   # all that ThreadSanitizer can judge
add_custom_target(address_tests)  # what ./check runs with AddressSanitizer
function(npu_add_test)
  cmake_parse_arguments(ARG "" "NAME;LABELS;TIMEOUT" "SOURCES;LIBS;ENV" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 60)
  endif()
  add_executable(${ARG_NAME} ${ARG_SOURCES})
  target_link_libraries(${ARG_NAME} PRIVATE npu_options ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  if(ARG_LABELS MATCHES threads)
    add_dependencies(thread_tests ${ARG_NAME})
  endif()
  if(ARG_LABELS MATCHES "unit|multiproc")  # as the filter of the test preset asan
    add_dependencies(address_tests ${ARG_NAME})
  endif()
  gtest_discover_tests(${ARG_NAME} TEST_PREFIX "${ARG_NAME}." DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${ARG_ENV}")
endfunction()
