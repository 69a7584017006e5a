# SPDX-License-Identifier: Apache-2.0
#
# Libraries that are linked. Threads, libm and libdl are required. zlib, libpng and
# TurboJPEG for liblockstep-io, and libmicrohttpd for the command, may be missing
# or be turned off (LS_ZLIB, LS_PNG, LS_TURBOJPEG, LS_MICROHTTPD): the summary at
# the end of configuring names what is lost.

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(ls_dependencies INTERFACE)
target_link_libraries(ls_dependencies INTERFACE
  Threads::Threads m ${CMAKE_DL_LIBS})
add_library(ls_io_dependencies INTERFACE)
add_library(ls_cli_dependencies INTERFACE)
add_library(ls_cli_loaded INTERFACE)

set(LS_MISSING "")  # Lines of the summary.

# Finds `module` as PkgConfig::<prefix> and links `target` with it; `source`
# sees LS_HAVE_<prefix>. Without the module, or with LS_<prefix> off, `lost` is
# turned off. `package` is Debian's name.
function(ls_want prefix module package target source lost)
  option(LS_${prefix} "Use ${module}, where it is found" ON)
  if(LS_${prefix})
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(NOT LS_${prefix} OR NOT ${prefix}_FOUND)
    list(APPEND LS_MISSING "${module} (${package}): ${lost}")
    set(LS_MISSING "${LS_MISSING}" PARENT_SCOPE)
    set(${prefix}_FOUND "" PARENT_SCOPE)
    return()
  endif()
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/${source}"
    PROPERTIES COMPILE_DEFINITIONS LS_HAVE_${prefix}=1)
  target_link_libraries(${target} INTERFACE PkgConfig::${prefix})
  foreach(fact FOUND VERSION LIBRARIES INCLUDE_DIRS MODULE_NAME)
    set(${prefix}_${fact} "${${prefix}_${fact}}" PARENT_SCOPE)
  endforeach()
endfunction()

ls_want(ZLIB zlib zlib1g-dev ls_dependencies io/inflate.c
        "compressed files are neither read nor written")
ls_want(PNG libpng libpng-dev ls_io_dependencies formats/images/png.c
        "PNG files are not read")
ls_want(TURBOJPEG libturbojpeg libturbojpeg0-dev ls_io_dependencies
        formats/images/jpeg.c "JPEG files are not read")
# The command loads libmicrohttpd when a server starts, so it is not linked.
ls_want(MICROHTTPD libmicrohttpd libmicrohttpd-dev ls_cli_loaded
        cli/serve/server.c "`lockstep serve` is unimplemented")
if(MICROHTTPD_FOUND)
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/cli/serve/http.c"
    PROPERTIES COMPILE_DEFINITIONS LS_HAVE_MICROHTTPD=1)
  target_include_directories(ls_cli_dependencies SYSTEM INTERFACE
    ${MICROHTTPD_INCLUDE_DIRS})
endif()
set(LS_IO_LIBRARIES "")
foreach(library PNG TURBOJPEG)
  if(${library}_FOUND)
    list(APPEND LS_IO_LIBRARIES ${library})
  endif()
endforeach()

# MPI, for modules that are loaded. Sanitizers see the stand-in alone.
option(LS_MPI "Build a module for each MPI that is found" ON)
set(LS_MPIS "")
foreach(row "OPENMPI;ompi-c;libopenmpi-dev;Open MPI"
            "MPICH;mpich;libmpich-dev;MPICH")
  list(GET row 0 prefix)
  list(GET row 1 module)
  list(GET row 2 package)
  list(GET row 3 name)
  if(LS_MPI AND NOT LS_SANITIZE)
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
    if(${prefix}_FOUND)
      list(APPEND LS_MPIS ${prefix})
    else()
      list(APPEND LS_MISSING "${module} (${package}): no ranks over ${name}")
    endif()
  endif()
endforeach()

if(LS_TESTS)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    list(APPEND LS_MISSING "cmocka (libcmocka-dev): no unit tests are built")
  elseif(NOT ZLIB_FOUND)
    list(APPEND LS_MISSING "zlib (zlib1g-dev): no unit tests are built")
    set(CMOCKA_FOUND "")
  endif()
  pkg_check_modules(MPFR QUIET IMPORTED_TARGET mpfr)
  if(NOT MPFR_FOUND)
    list(APPEND LS_MISSING
      "GNU MPFR (libmpfr-dev): elementary functions are not compared with it")
  endif()
endif()

if(LS_EXAMPLES AND NOT CMAKE_CXX_COMPILER_LOADED)
  list(APPEND LS_MISSING
    "a C++ compiler (g++): nothing is tried from C++")
endif()
