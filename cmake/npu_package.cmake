# What is installed beside programs, library and units, and the three Debian packages: cpack --preset deb.
# Components are packages: daemon is npud, client is npu, dev is libnpu-dev.
set(package ${PROJECT_SOURCE_DIR}/cmake/package)
set(made ${CMAKE_BINARY_DIR}/package)
set(NPU_DEBIAN_REVISION 0npu1)  # 0: not Debian's own
set(NPU_DEBIAN_VERSION ${PROJECT_VERSION}-${NPU_DEBIAN_REVISION})

# ---- find_package(npu), pkg-config npu
include(CMakePackageConfigHelpers)
set(config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/npu)
configure_package_config_file(${package}/npuConfig.cmake.in ${made}/npuConfig.cmake INSTALL_DESTINATION ${config_dir})
# Before 1.0 a minor version may change calls.
write_basic_package_version_file(${made}/npuConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(${package}/npu.pc.in ${made}/npu.pc @ONLY)
install(EXPORT npuTargets NAMESPACE npu:: DESTINATION ${config_dir} COMPONENT dev)
install(FILES ${made}/npuConfig.cmake ${made}/npuConfigVersion.cmake DESTINATION ${config_dir} COMPONENT dev)
install(FILES ${made}/npu.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)

# ---- documentation
set(doc ${CMAKE_INSTALL_DATADIR}/doc)
configure_file(${package}/changelog.in ${made}/changelog.Debian @ONLY)
execute_process(COMMAND gzip -9nkf ${made}/changelog.Debian COMMAND_ERROR_IS_FATAL ANY)
foreach(pair daemon:npud client:npu dev:libnpu-dev)
  string(REPLACE ":" ";" pair ${pair})
  list(GET pair 0 component)
  list(GET pair 1 name)
  install(FILES ${package}/copyright ${made}/changelog.Debian.gz DESTINATION ${doc}/${name} COMPONENT ${component})
endforeach()
install(FILES ${package}/npu.lintian-overrides DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME npu
        COMPONENT client)
install(FILES docs/operations.md docs/reliability.md docs/alerts.yml docs/grafana-dashboard.json
        DESTINATION ${doc}/npud COMPONENT daemon)
install(FILES docs/migration.md docs/pretrained.md DESTINATION ${doc}/npu COMPONENT client)
install(DIRECTORY config/jobs/ DESTINATION ${doc}/npu/examples COMPONENT client)
install(FILES docs/c-api.md docs/distribute.md DESTINATION ${doc}/libnpu-dev COMPONENT dev)
install(DIRECTORY docs/examples/ DESTINATION ${doc}/libnpu-dev/examples COMPONENT dev)

# ---- the packages
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME npu)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
set(CPACK_PACKAGE_CONTACT "npu maintainers <maintainers@users.noreply.a-seed-b727ed6c.example>")
set(CPACK_COMPONENTS_ALL daemon client dev)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_STRIP_FILES ON)
# Files of the packages lie in /etc and where systemd looks, too; so they are installed below a root of their own.
set(CPACK_SET_DESTDIR ON)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
    OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PROJECT_CONFIG_FILE ${package}/check_build.cmake)
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
  set(CPACK_NPU_REFUSED "the install prefix of '${CMAKE_BINARY_DIR}' is '${CMAKE_INSTALL_PREFIX}' and the units name programs in it")
elseif(NPU_FAILPOINTS OR NPU_SANITIZE)
  set(CPACK_NPU_REFUSED "'${CMAKE_BINARY_DIR}' was configured with failpoints or a sanitizer")
endif()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE ${NPU_DEBIAN_REVISION})
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each has its own

set(CPACK_DEBIAN_DAEMON_PACKAGE_NAME npud)
set(CPACK_DEBIAN_DAEMON_PACKAGE_SECTION science)
# procps: the unit reloads with /bin/kill.
set(CPACK_DEBIAN_DAEMON_PACKAGE_DEPENDS
    "procps, systemd | systemd-standalone-sysusers, systemd | systemd-standalone-tmpfiles")
set(CPACK_DEBIAN_DAEMON_PACKAGE_RECOMMENDS "npu (= ${NPU_DEBIAN_VERSION})")
set(CPACK_DEBIAN_DAEMON_PACKAGE_CONTROL_EXTRA
    ${package}/npud/postinst ${package}/npud/prerm ${package}/npud/postrm ${package}/npud/conffiles)
set(CPACK_DEBIAN_DAEMON_DESCRIPTION "daemon of eight emulated NPUs in shared memory
The daemon owns the emulated devices of a host, lends them to the ranks of
training jobs, runs the collectives between them (all-reduce, broadcast,
all-to-all and others) and writes their checkpoints.
.
It runs as a system service for the members of group npu. An upgrade drains
it: checkpoints that were handed over become durable, runs are told. Purging
the package removes all checkpoints below /var/lib/npud; removing or upgrading
it does not.")

set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME npu)
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION science)
set(CPACK_DEBIAN_CLIENT_PACKAGE_RECOMMENDS "npud (= ${NPU_DEBIAN_VERSION})")
set(CPACK_DEBIAN_CLIENT_PACKAGE_SUGGESTS "gnuplot-nox, dataset-fashion-mnist")
set(CPACK_DEBIAN_CLIENT_PACKAGE_CONTROL_EXTRA
    ${package}/npu/postinst ${package}/npu/prerm ${package}/npu/postrm ${package}/npu/triggers)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "train ResNets data-parallel on the emulated NPUs of this host
Launches a job with one process a device, shows its progress, restarts it from
the newest checkpoint, evaluates, lists and exports checkpoints, and times
collectives, training steps and the data loader. What worked on eight
accelerator cards works here with the same words.
.
Contains libnpu.so, the library of programs that use the collectives through a
C interface.")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libnpu-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "npu (= ${NPU_DEBIAN_VERSION})")
set(CPACK_DEBIAN_DEV_DESCRIPTION "C and C++ interface of the emulated NPUs
Headers, CMake package (find_package(npu)) and pkg-config file of libnpu:
communicators, device memory, streams, all collectives, send and receive,
shaped like the calls of NCCL and HCCL; and npu::distribute for C++.")
include(CPack)
