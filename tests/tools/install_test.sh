#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What is installed can be used from another place: with pkg-config against
# the shared and the static library, and with find_package. The shared library
# exports nothing but ls_ names.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}

DESTDIR=$work/dest cmake --install "${LS_BUILD_DIR:?}" --prefix /opt/ls \
  >"$work/install.log" || { cat "$work/install.log"; exit 1; }
root=$work/dest/opt/ls
so=$(find "$root" -name liblockstep.so)
libdir=$(dirname "$so")

# Only our names, and some of them.
nm -D --defined-only "$so" | awk '$2 != "A" { print $3 }' >"$work/symbols"
if foreign=$(grep -v '^ls_' "$work/symbols"); then
  printf 'exported without ls_:\n%s\n' "$foreign"
  exit 1
fi
[ -s "$work/symbols" ] || { echo "nothing is exported"; exit 1; }

mkdir "$work/user"
cat >"$work/user/main.c" <<'END'
#include <lockstep/lockstep.h>
#include <stdio.h>
int main(void) {
  return ls_status_is_ok(ls_ok()) && puts("in lock step") >= 0 ? 0 : 1;
}
END

# expect_output COMMAND...: runs the program and compares what it prints.
expect_output() {
  got=$("$@")
  [ "$got" = "in lock step" ] || { echo "$*: printed '$got'"; exit 1; }
}

export PKG_CONFIG_PATH="$libdir/pkgconfig"
# shellcheck disable=SC2046  # Words are wanted.
"$CC" -std=c11 -Wall -Wextra -Werror -o "$work/shared" "$work/user/main.c" \
  $(pkg-config --cflags --libs lockstep)
expect_output env LD_LIBRARY_PATH="$libdir" "$work/shared"

# The archive with shared dependencies: what --static adds to them is theirs.
# shellcheck disable=SC2046
"$CC" -o "$work/static" "$work/user/main.c" $(pkg-config --cflags lockstep) \
  "$libdir/liblockstep.a" $(pkg-config --libs zlib) -pthread -lm
expect_output "$work/static"

# The examples, as their README says.
cp -r "$LS_SOURCE_DIR/examples" "$work/examples"
make -C "$work/examples" CC="$CC" >"$work/make.log" 2>&1 ||
  { cat "$work/make.log"; exit 1; }
LD_LIBRARY_PATH="$libdir" "$work/examples/eager" >"$work/eager.log" ||
  { cat "$work/eager.log"; exit 1; }

cat >"$work/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(user C)
find_package(lockstep 0.1 REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE lockstep::lockstep)
END
{ cmake -S "$work/user" -B "$work/user/build" -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_PREFIX_PATH="$root" && cmake --build "$work/user/build"; \
} >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; exit 1; }
expect_output "$work/user/build/user"

# The installed program finds its library by itself.
if [ -n "${LOCKSTEP:-}" ]; then
  env -u LD_LIBRARY_PATH "$root/bin/lockstep" help >"$work/help" ||
    { echo "the installed program does not run"; exit 1; }
fi
