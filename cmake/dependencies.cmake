# SPDX-License-Identifier: Apache-2.0
#
# What we link with. Required: zlib, threads, libm. A missing optional
# one turns something off, which the summary at the end of configuring names.

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

if(LS_TESTS)
  pkg_check_modules(CMOCKA QUIET IMPORTED_TARGET cmocka)
  if(NOT CMOCKA_FOUND)
    list(APPEND LS_MISSING "cmocka (libcmocka-dev): no unit tests are built")
  endif()
endif()

if(LS_EXAMPLES AND NOT CMAKE_CXX_COMPILER_LOADED)
  list(APPEND LS_MISSING
    "a C++ compiler (g++): nothing is tried from C++")
endif()

if(LS_BENCH)
  find_path(DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.h)
  find_library(DNNL_LIBRARY dnnl)
  if(DNNL_INCLUDE_DIR AND DNNL_LIBRARY)
    add_library(ls_dnnl UNKNOWN IMPORTED)
    set_target_properties(ls_dnnl PROPERTIES
      IMPORTED_LOCATION "${DNNL_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${DNNL_INCLUDE_DIR}"
      INTERFACE_COMPILE_DEFINITIONS LS_HAVE_DNNL=1)
  else()
    list(APPEND LS_MISSING
      "oneDNN (libdnnl-dev): benchmarks do not compare with its kernels")
  endif()
endif()
