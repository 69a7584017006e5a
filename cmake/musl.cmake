# SPDX-License-Identifier: Apache-2.0
#
# Compiles against musl in place of glibc, on a Debian machine: apt-get install
# musl-tools. Debian builds no library for musl, so that zlib, libpng,
# TurboJPEG and libmicrohttpd are left out, and MPI, and the unit tests with them.
set(CMAKE_C_COMPILER musl-gcc)
foreach(library ZLIB PNG TURBOJPEG MICROHTTPD MPI TESTS)
  set(LS_${library} OFF CACHE BOOL "Not for musl")
endforeach()
