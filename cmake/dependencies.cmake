# SPDX-License-Identifier: Apache-2.0
#
# What we link with. Required: zlib, threads, libm. liblockstep-io also reads
# images, with libraries that may be missing: then something is off, which the
# summary at the end of configuring names.

find_package(PkgConfig REQUIRED)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# Finds `module` as target PkgConfig::<prefix>; `package` is Debian's name.
function(ls_require prefix module package)
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${prefix}_FOUND)
    message(FATAL_ERROR "${module} is missing: apt-get install ${package}")
  endif()
endfunction()

ls_require(ZLIB zlib zlib1g-dev)

add_library(ls_dependencies INTERFACE)
target_link_libraries(ls_dependencies INTERFACE
  PkgConfig::ZLIB Threads::Threads m)

set(LS_MISSING "")  # Lines of the summary.

# Finds `module`, which `source` of src/formats/images reads files with, as
# PkgConfig::<prefix> and as LS_HAVE_<prefix> in that file; without it, or with
# LS_<prefix> off, `lost` is turned off. liblockstep-io alone links it.
add_library(ls_io_dependencies INTERFACE)
set(LS_IO_LIBRARIES "")
function(ls_want prefix module package source lost)
  option(LS_${prefix} "Use ${module}, where it is found" ON)
  if(LS_${prefix})
    pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
  endif()
  if(NOT LS_${prefix} OR NOT ${prefix}_FOUND)
    list(APPEND LS_MISSING "${module} (${package}): ${lost}")
    set(LS_MISSING "${LS_MISSING}" PARENT_SCOPE)
    return()
  endif()
  set_source_files_properties(
    "${PROJECT_SOURCE_DIR}/src/formats/images/${source}"
    PROPERTIES COMPILE_DEFINITIONS LS_HAVE_${prefix}=1)
  target_link_libraries(ls_io_dependencies INTERFACE PkgConfig::${prefix})
  list(APPEND LS_IO_LIBRARIES ${prefix})
  set(LS_IO_LIBRARIES "${LS_IO_LIBRARIES}" PARENT_SCOPE)
  set(${prefix}_VERSION "${${prefix}_VERSION}" PARENT_SCOPE)
endfunction()

ls_want(PNG libpng libpng-dev png.c "PNG files are not read")
ls_want(TURBOJPEG libturbojpeg libturbojpeg0-dev jpeg.c
        "JPEG files are not read")

if(LS_TESTS)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    list(APPEND LS_MISSING "cmocka (libcmocka-dev): no unit tests are built")
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
