# SPDX-License-Identifier: Apache-2.0
#
# What `make install` puts where. The pkg-config file and the CMake package
# find everything relative to themselves, so an installed tree can be moved.
# `cmake --install --strip` leaves out what is for debuggers.

include(CMakePackageConfigHelpers)

install(TARGETS lockstep lockstep_io EXPORT lockstep-targets
        LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
foreach(prefix IN LISTS LS_MPIS)  # liblockstep finds them beside itself.
  string(TOLOWER "${prefix}" name)
  install(TARGETS lockstep_mpi_${name}
          LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
endforeach()
# It finds liblockstep beside itself.
set_target_properties(lockstep_io PROPERTIES INSTALL_RPATH "$ORIGIN")
install(TARGETS lockstep_static lockstep_io_static
        EXPORT lockstep-static-targets
        ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(CODE "set(strip \"${CMAKE_STRIP}\")
set(folder \"${CMAKE_INSTALL_LIBDIR}\")
set(archives $<TARGET_FILE_NAME:lockstep_static>
             $<TARGET_FILE_NAME:lockstep_io_static>)")
install(CODE [[
if(CMAKE_INSTALL_DO_STRIP AND strip)  # Which leaves archives alone.
  foreach(archive IN LISTS archives)
    execute_process(
      COMMAND "${strip}" --strip-debug
              "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${folder}/${archive}"
      COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
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
  install(FILES "${LS_REFERENCE}"
          DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep")
endif()
# Sources for other languages, the examples, and what is to be read.
install(FILES "${PROJECT_SOURCE_DIR}/python/lockstep.py"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep/python")
install(FILES "${PROJECT_SOURCE_DIR}/fortran/lockstep.f90"
        DESTINATION "${CMAKE_INSTALL_DATADIR}/lockstep/fortran")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md"
              "${PROJECT_SOURCE_DIR}/CHANGELOG.md"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/examples" "${PROJECT_SOURCE_DIR}/docs"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}")
# What `docs` has made, if it was built.
install(DIRECTORY "${LS_SHARE}/man/" DESTINATION "${CMAKE_INSTALL_MANDIR}"
        OPTIONAL)
install(DIRECTORY "${LS_SHARE}/doc/lockstep/"
        DESTINATION "${CMAKE_INSTALL_DOCDIR}" OPTIONAL)
foreach(shell bash-completion zsh fish)
  install(DIRECTORY "${LS_SHARE}/${shell}"
          DESTINATION "${CMAKE_INSTALL_DATADIR}" OPTIONAL)
endforeach()

set(LS_PKGCONFIG_DIR "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH LS_PKGCONFIG_TO_PREFIX "/${LS_PKGCONFIG_DIR}" "/")
string(REGEX REPLACE "/$" "" LS_PKGCONFIG_TO_PREFIX
       "${LS_PKGCONFIG_TO_PREFIX}")
set(LS_IO_MODULES "")
foreach(library IN LISTS LS_IO_LIBRARIES)
  list(APPEND LS_IO_MODULES "${${library}_MODULE_NAME}")
endforeach()
list(JOIN LS_IO_MODULES ", " LS_IO_MODULES)
foreach(library lockstep lockstep-io)
  configure_file(cmake/${library}.pc.in "${PROJECT_BINARY_DIR}/${library}.pc"
                 @ONLY)
  install(FILES "${PROJECT_BINARY_DIR}/${library}.pc"
          DESTINATION "${LS_PKGCONFIG_DIR}")
  # Of both pkg-config takes this one, for the build where it is.
  file(READ "${PROJECT_BINARY_DIR}/${library}.pc" text)
  string(REGEX REPLACE "libdir=[^\n]*" "libdir=\${pcfiledir}" text "${text}")
  string(REGEX REPLACE "Cflags:[^\n]*"
         "Cflags: -I${PROJECT_SOURCE_DIR}/include -I\${pcfiledir}/include" text
         "${text}")
  file(WRITE "${PROJECT_BINARY_DIR}/${library}-uninstalled.pc" "${text}")
endforeach()

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
