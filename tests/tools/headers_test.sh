#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every public header can be included alone, from C11 and, where a C++ compiler
# is there, from C++11 and C++20, without a warning; all of them, with a program
# that uses them (examples/*.cpp), also from C++14 and C++17.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}
source=${LS_SOURCE_DIR:?}
failed=0

# compiles COMPILER STANDARD FILE...: all in one go, for a start takes longest.
compiles() {
  compiler=$1 standard=$2
  shift 2
  "$compiler" "-std=$standard" -Wall -Wextra -Wpedantic -Wshadow -Werror \
    -fsyntax-only -I"$source/include" -I"${LS_BUILD_DIR:?}/include" "$@" ||
    { echo "FAIL $compiler -std=$standard"; failed=1; }
}

for header in "$source"/include/lockstep/*.h \
              "$LS_BUILD_DIR"/include/lockstep/places.h; do
  name=$(basename "$header" .h)
  # Twice, for the guard.
  printf '#include "lockstep/%s.h"\n#include "lockstep/%s.h"\n%s\n' \
    "$name" "$name" "typedef int not_empty;" >"$work/$name.c"
  cp "$work/$name.c" "$work/$name.cpp"
done

compiles "$CC" c11 "$work"/*.c
if [ -n "${CXX:-}" ]; then
  for standard in c++11 c++20; do
    compiles "$CXX" $standard "$work"/*.cpp "$source"/examples/*.cpp
  done
  for standard in c++14 c++17; do
    compiles "$CXX" $standard "$work/lockstep.cpp" "$source"/examples/*.cpp
  done
else
  echo "skipped: no C++ compiler"
fi
exit $failed
