# SPDX-License-Identifier: Apache-2.0
#
# Cross-compiles for AArch64 Linux; tests run in qemu. From Debian:
#   dpkg --add-architecture arm64 && apt-get update
#   apt-get install gcc-aarch64-linux-gnu qemu-user-static \
#     zlib1g-dev:arm64 libpng-dev:arm64 libturbojpeg0-dev:arm64 \
#     libmicrohttpd-dev:arm64 \
#     libcmocka-dev:arm64 libmpfr-dev:arm64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(ENV{PKG_CONFIG_LIBDIR} /usr/lib/aarch64-linux-gnu/pkgconfig)
