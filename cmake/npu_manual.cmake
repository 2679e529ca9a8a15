# Manual pages and completion, printed by the programs themselves from their own options and tables (npu help-tree).
# Included once npu and npud are known.
find_program(NPU_SCDOC scdoc)
if(NOT TARGET npu OR NOT NPU_SCDOC)
  message(STATUS "npu: no manual pages, scdoc or a part of the client is missing")
  return()
endif()
set(manual ${CMAKE_BINARY_DIR}/manual)
file(MAKE_DIRECTORY ${manual})
# The same sources give the same bytes: the pages carry the date of the release.
file(STRINGS ${PROJECT_SOURCE_DIR}/cmake/package/changelog.in release_line REGEX "^ -- ")
list(GET release_line 0 release_line)
string(REGEX REPLACE "^ -- .*>  " "" release_date "${release_line}")
execute_process(COMMAND date -u -d "${release_date}" +%s OUTPUT_VARIABLE release_seconds OUTPUT_STRIP_TRAILING_WHITESPACE
                COMMAND_ERROR_IS_FATAL ANY)

add_custom_command(OUTPUT ${manual}/npud.txt DEPENDS npud VERBATIM
                   COMMAND $<TARGET_FILE:npud> --help > ${manual}/npud.txt)
set(pages npu.1 npu-job.5 npud.8)
set(made)
foreach(page ${pages})
  set(source ${PROJECT_SOURCE_DIR}/docs/man/${page}.scd)
  add_custom_command(OUTPUT ${manual}/${page}.gz DEPENDS npu ${source} ${manual}/npud.txt VERBATIM
    WORKING_DIRECTORY ${manual}
    COMMAND $<TARGET_FILE:npu> help-tree ${source} --daemon-help npud.txt > ${page}.scd
    COMMAND ${CMAKE_COMMAND} -E env SOURCE_DATE_EPOCH=${release_seconds} ${NPU_SCDOC} < ${page}.scd > ${page}
    COMMAND gzip -9nkf ${page})
  list(APPEND made ${manual}/${page}.gz)
endforeach()
add_custom_command(OUTPUT ${manual}/npu.bash DEPENDS npu VERBATIM
                   COMMAND $<TARGET_FILE:npu> help-tree --completion > ${manual}/npu.bash)
add_custom_target(manual ALL DEPENDS ${made} ${manual}/npu.bash)

install(FILES ${manual}/npu.1.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT client)
install(FILES ${manual}/npu-job.5.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man5 COMPONENT client)
install(FILES ${manual}/npud.8.gz DESTINATION ${CMAKE_INSTALL_MANDIR}/man8 COMPONENT daemon)
install(FILES ${manual}/npu.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions RENAME npu
        COMPONENT client)
