# SPDX-License-Identifier: Apache-2.0
#
# What `make install` puts where. The pkg-config file and the CMake package
# find everything relative to themselves, so an installed tree can be moved.
# `cmake --install --strip` leaves out what is for debuggers.

include(CMakePackageConfigHelpers)

install(TARGETS lockstep EXPORT lockstep-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(TARGETS lockstep_static EXPORT lockstep-static-targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(CODE "set(strip \"${CMAKE_STRIP}\")
set(archive \"${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:lockstep_static>\")")
install(CODE [[
if(CMAKE_INSTALL_DO_STRIP AND strip)  # Which leaves archives alone.
  execute_process(
    COMMAND "${strip}" --strip-debug
            "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${archive}"
    COMMAND_ERROR_IS_FATAL ANY)
endif()]])
install(FILES ${LS_PUBLIC_HEADERS} ${LS_PLACES_HEADERS}
        DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/lockstep")

if(TARGET lockstep_cli)
  file(RELATIVE_PATH bin_to_lib
       "/${CMAKE_INSTALL_BINDIR}" "/${CMAKE_INSTALL_LIBDIR}")
  set_target_properties(lockstep_cli PROPERTIES
    INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  install(TARGETS lockstep_cli
          RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

set(LS_PKGCONFIG_DIR "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH LS_PKGCONFIG_TO_PREFIX "/${LS_PKGCONFIG_DIR}" "/")
string(REGEX REPLACE "/$" "" LS_PKGCONFIG_TO_PREFIX
       "${LS_PKGCONFIG_TO_PREFIX}")
set(LS_PRIVATE_MODULES zlib)
foreach(library IN LISTS LS_IO_LIBRARIES)
  string(APPEND LS_PRIVATE_MODULES ", ${${library}_MODULE_NAME}")
endforeach()
configure_file(cmake/lockstep.pc.in "${PROJECT_BINARY_DIR}/lockstep.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/lockstep.pc"
        DESTINATION "${LS_PKGCONFIG_DIR}")

set(LS_PACKAGE_DIR "${CMAKE_INSTALL_LIBDIR}/cmake/lockstep")
configure_package_config_file(cmake/lockstep-config.cmake.in
  "${PROJECT_BINARY_DIR}/lockstep-config.cmake"
  INSTALL_DESTINATION "${LS_PACKAGE_DIR}")
write_basic_package_version_file(
  "${PROJECT_BINARY_DIR}/lockstep-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/lockstep-config.cmake"
              "${PROJECT_BINARY_DIR}/lockstep-config-version.cmake"
        DESTINATION "${LS_PACKAGE_DIR}")
foreach(targets lockstep-targets lockstep-static-targets)
  install(EXPORT ${targets} NAMESPACE lockstep:: DESTINATION "${LS_PACKAGE_DIR}")
endforeach()
