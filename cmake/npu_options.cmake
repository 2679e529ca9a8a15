# One interface target carries warnings, sanitizers and feature switches; nothing is set globally.
option(NPU_WERROR "Treat warnings as errors" OFF)
set(NPU_SANITIZE "" CACHE STRING "Sanitizers: empty, address or thread")

# Where they are off their names are in no binary; see shm/base/failpoint.hpp and npu_check_no_failpoints below.
option(NPU_FAILPOINTS "Compile in the places at which tests let a process fail" OFF)

add_library(npu_options INTERFACE)
target_compile_features(npu_options INTERFACE cxx_std_20)
target_include_directories(npu_options INTERFACE ${PROJECT_SOURCE_DIR})
target_compile_options(npu_options INTERFACE -Wall -Wextra -Wconversion -Wshadow
                                             $<$<BOOL:${NPU_WERROR}>:-Werror>)
# Designated initialisers leave members at their defaults on purpose; g++ 12 warns about those without one.
target_compile_options(npu_options INTERFACE -Wno-missing-field-initializers)
# At -O3 GCC 12 sees both inside std::string and std::variant where there is nothing (such as its bug 105329); the
# other build types keep the warnings.
target_compile_options(npu_options INTERFACE
  $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-restrict> $<$<AND:$<CONFIG:Release>,$<CXX_COMPILER_ID:GNU>>:-Wno-maybe-uninitialized>)
if(NOT NPU_FAILPOINTS)
  target_compile_definitions(npu_options INTERFACE NPU_NO_FAILPOINTS)
endif()
# Contraction of a*b+c is decided in the kernels, never by the compiler: the bits must not depend on flags.
target_compile_options(npu_options INTERFACE -ffp-contract=off)
if(NPU_SANITIZE STREQUAL "address")
  # What the sanitizer inserts makes GCC 12 take std::function inside std::regex for uninitialised (its bug 105562).
  target_compile_options(npu_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_compile_options(npu_options INTERFACE -fsanitize=address,undefined
                                               -fno-sanitize-recover=undefined
                                               -fno-omit-frame-pointer)
  target_link_options(npu_options INTERFACE -fsanitize=address,undefined)
elseif(NPU_SANITIZE STREQUAL "thread")
  # GCC cannot instrument atomic_thread_fence; shared-memory protocols here use seq_cst accesses instead.
  target_compile_options(npu_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(npu_options INTERFACE -fsanitize=thread)
endif()

# Collects objects once; ccache where present makes rebuilds cheap, also those of another clone: paths below the source
# folder count relative to it.
find_program(NPU_CCACHE ccache)
if(NPU_CCACHE)
  set(NPU_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${NPU_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${NPU_LAUNCHER})
  set(CMAKE_C_COMPILER_LAUNCHER ${NPU_LAUNCHER})
endif()

# A program that was built without failpoints is looked through for their names once it is linked.
function(npu_check_no_failpoints program)
  if(NOT NPU_FAILPOINTS)
    add_custom_command(TARGET ${program} POST_BUILD VERBATIM
                       COMMAND ${PROJECT_SOURCE_DIR}/cmake/no_failpoints.sh ${PROJECT_SOURCE_DIR} $<TARGET_FILE:${program}>)
  endif()
endfunction()
