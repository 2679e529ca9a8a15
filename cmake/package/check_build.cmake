# Read by cpack before it packs: what users get comes from a build that is meant for them.
if(CPACK_NPU_REFUSED)
  message(FATAL_ERROR "npu: no packages: ${CPACK_NPU_REFUSED}; use `cmake --preset release` and `cpack --preset deb`")
endif()
