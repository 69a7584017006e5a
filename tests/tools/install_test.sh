#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What `make install` installs can be used from another place: with pkg-config
# against the shared and the static library, and with find_package, from C and
# C++. The shared library exports nothing but ls_ names, and nothing is there
# for debuggers alone.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}

# What is installed is built, no test is, and the user is told of ldconfig.
make -n -C "${LS_SOURCE_DIR:?}" install PREFIX=/opt/ls >"$work/make.txt"
tr -s '\\\n ' ' ' <"$work/make.txt" >"$work/make.line"
for wanted in "--target lockstep lockstep_static lockstep_cli " "ldconfig" \
              "cmake --install build/release --prefix \"/opt/ls\" --strip"; do
  grep -qF -- "$wanted" "$work/make.line" ||
    { echo "make install: no $wanted"; cat "$work/make.txt"; exit 1; }
done

DESTDIR=$work/dest cmake --install "${LS_BUILD_DIR:?}" --prefix /opt/ls \
  --strip >"$work/install.log" || { cat "$work/install.log"; exit 1; }
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

# One version everywhere.
version=$(PKG_CONFIG_PATH="$libdir/pkgconfig" pkg-config --modversion lockstep)
[ -e "$so.$version" ] || { echo "no $so.$version"; exit 1; }

for file in "$so" "$libdir/liblockstep.a"; do
  if readelf -S "$file" 2>/dev/null | grep -q debug_info; then
    echo "$file: $(wc -c <"$file") bytes, of which some are for debuggers"
    exit 1
  fi
done

mkdir "$work/user"
cat >"$work/user/main.c" <<'END'
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <string.h>
int main(void) {
  return strcmp(ls_version(), LS_VERSION) == 0 && puts("in lock step") >= 0 ? 0
                                                                            : 1;
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
  "$libdir/liblockstep.a" -pthread -lm \
  $(pkg-config --libs $(pkg-config --print-requires-private lockstep))
expect_output "$work/static"

# The examples, as their README says.
cp -r "$LS_SOURCE_DIR/examples" "$work/examples"
make -C "$work/examples" CC="$CC" CXX="${CXX:-none}" >"$work/make.log" 2>&1 ||
  { cat "$work/make.log"; exit 1; }
for example in eager ${CXX:+replicas}; do
  LD_LIBRARY_PATH="$libdir" "$work/examples/$example" >"$work/example.log" ||
    { cat "$work/example.log"; exit 1; }
done

cat >"$work/user/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.21)
project(user C)
find_package(lockstep 0.1 REQUIRED)
add_executable(user main.c)
target_link_libraries(user PRIVATE lockstep::lockstep)
add_executable(whole main.c)
target_link_libraries(whole PRIVATE lockstep::lockstep_static)
END
{ cmake -S "$work/user" -B "$work/user/build" -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_PREFIX_PATH="$root" && cmake --build "$work/user/build"; \
} >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; exit 1; }
expect_output "$work/user/build/user"
expect_output "$work/user/build/whole"

# The installed program finds its library by itself.
if [ -n "${LOCKSTEP:-}" ]; then
  says=$(env -u LD_LIBRARY_PATH "$root/bin/lockstep" --version) ||
    { echo "the installed program does not run"; exit 1; }
  [ "$says" = "lockstep $version" ] ||
    { echo "lockstep --version: '$says', wanted $version"; exit 1; }
fi
