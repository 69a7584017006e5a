#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `make install` installs both libraries such that they can be used from another
# place: with pkg-config against the shared and the static ones, and with
# find_package, from C and C++. The shared libraries export nothing but ls_
# names, and nothing is there for debuggers alone.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}

# What is installed is built, no test is, and the user is told of ldconfig.
make -n -C "${LS_SOURCE_DIR:?}" install PREFIX=/opt/ls >"$work/make.txt"
tr -s '\\\n ' ' ' <"$work/make.txt" >"$work/make.line"
for wanted in "--target lockstep lockstep_static lockstep_io lockstep_io_static lockstep_mpi lockstep_cli " "ldconfig" "--target docs " \
              "cmake --install build/release --prefix \"/opt/ls\" --strip"; do
  grep -qF -- "$wanted" "$work/make.line" ||
    { echo "make install: no $wanted"; cat "$work/make.txt"; exit 1; }
done

DESTDIR=$work/dest cmake --install "${LS_BUILD_DIR:?}" --prefix /opt/ls \
  --strip >"$work/install.log" || { cat "$work/install.log"; exit 1; }
root=$work/dest/opt/ls
so=$(find "$root" -name liblockstep.so)
libdir=$(dirname "$so")

# The build can be used where it is, too.
PKG_CONFIG_PATH=$LS_BUILD_DIR pkg-config --libs lockstep |
  grep -qF -- "-L$LS_BUILD_DIR " || { echo "no -L of the build"; exit 1; }

export PKG_CONFIG_PATH="$libdir/pkgconfig"
for name in lockstep lockstep-io; do
  # Only our names, and some of them.
  nm -D --defined-only "$libdir/lib$name.so" | awk '$2 != "A" { print $3 }' \
    >"$work/symbols"
  if foreign=$(grep -v '^ls_' "$work/symbols"); then
    printf 'exported without ls_:\n%s\n' "$foreign"
    exit 1
  fi
  [ -s "$work/symbols" ] || { echo "$name exports nothing"; exit 1; }

  # One version everywhere.
  version=$(pkg-config --modversion "$name")
  [ -e "$libdir/lib$name.so.$version" ] ||
    { echo "no lib$name.so.$version"; exit 1; }
done

for file in "$libdir"/liblockstep*.so "$libdir"/liblockstep*.a; do
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

# A program that reads images, which the second library does.
cat >"$work/user/reads.c" <<'END'
#include <lockstep/image.h>
#include <stdio.h>
int main(void) {
  ls_shape shape;
  ls_status status = ls_image_shape("no image", 8, NULL, &shape);
  const int refused = ls_status_code(status) == LS_INVALID_ARGUMENT;
  ls_status_free(status);
  return refused && puts("in lock step") >= 0 ? 0 : 1;
}
END

# expect_output COMMAND...: runs the program and compares what it prints.
expect_output() {
  got=$("$@")
  [ "$got" = "in lock step" ] || { echo "$*: printed '$got'"; exit 1; }
}

# build PROGRAM LIBRARY: as lockstep.pc and lockstep-io.pc say. The archives come
# with shared dependencies, so pkg-config --static has more than it takes.
build() {
  # shellcheck disable=SC2046  # Words are wanted.
  "$CC" -std=c11 -Wall -Wextra -Werror -o "$work/shared_$1" \
    "$work/user/$1.c" $(pkg-config --cflags --libs "$2")
  expect_output env LD_LIBRARY_PATH="$libdir" "$work/shared_$1"
  # shellcheck disable=SC2046
  "$CC" -o "$work/static_$1" "$work/user/$1.c" $(pkg-config --cflags "$2") \
    $(pkg-config --static --libs-only-l "$2" |
      sed "s|-l\(lockstep[a-z-]*\)|$libdir/lib\1.a|g")
  expect_output "$work/static_$1"
}
build main lockstep
build reads lockstep-io

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
add_executable(reader reads.c)
target_link_libraries(reader PRIVATE lockstep::lockstep_io)
add_executable(whole_reader reads.c)
target_link_libraries(whole_reader PRIVATE lockstep::lockstep_io_static)
END
{ cmake -S "$work/user" -B "$work/user/build" -DCMAKE_C_COMPILER="$CC" \
    -DCMAKE_PREFIX_PATH="$root" && cmake --build "$work/user/build"; \
} >"$work/cmake.log" 2>&1 || { cat "$work/cmake.log"; exit 1; }
for program in user whole reader whole_reader; do
  expect_output "$work/user/build/$program"
done

# What is read, and the sources for other languages.
for file in doc/lockstep/LICENSE doc/lockstep/README.md \
            doc/lockstep/docs/README.md doc/lockstep/examples/eager.c \
            lockstep/fortran/lockstep.f90 lockstep/python/lockstep.py; do
  [ -s "$root/share/$file" ] || { echo "no share/$file"; exit 1; }
done
if command -v python3 >/dev/null; then
  says=$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$root/share/lockstep/python" \
    LD_LIBRARY_PATH="$libdir" python3 -c \
    'import lockstep; print(lockstep.version())') ||
    { echo "the installed module does not find the library"; exit 1; }
  [ "$says" = "$version" ] || { echo "from Python: '$says'"; exit 1; }
fi

# The installed program finds its library by itself.
if [ -n "${LOCKSTEP:-}" ]; then
  says=$(env -u LD_LIBRARY_PATH "$root/bin/lockstep" --version) ||
    { echo "the installed program does not run"; exit 1; }
  [ "$says" = "lockstep $version" ] ||
    { echo "lockstep --version: '$says', wanted $version"; exit 1; }
  "$root/bin/lockstep" help ls_version | grep -qx 'const char \*ls_version(void);' ||
    { echo "the installed program does not explain ls_version"; exit 1; }
fi
