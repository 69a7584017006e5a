#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep/lockstep.hpp: without a warning in C++17 and C++20; its owners,
# lambdas and exceptions; and examples/mlp.cpp, whose weights have the bytes of
# those that the command trains.

set -eu
[ -n "${CXX:-}" ] || { echo "not checked, as there is no C++ compiler"; exit 0; }
source=${LS_SOURCE_DIR:?}
build=${LS_BUILD_DIR:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# compile STANDARD SOURCE PROGRAM
compile() {
  "$CXX" "-std=$1" -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror \
    "$2" -I"$source/include" -I"$build/include" \
    -L"$build" -llockstep -Wl,-rpath,"$build" -o "$3"
}

for standard in c++17 c++20; do
  compile $standard "$source/tests/languages/cpp_test.cpp" "$work/test"
  "$work/test"
done

compile c++17 "$source/examples/mlp.cpp" "$work/mlp"
"$work/mlp" "$work/cpp" 12
"${LOCKSTEP:?}" train --model mlp --data synthetic --replicas 8 --steps 12 \
  --schedule constant --run-dir "$work/c" >"$work/out" 2>&1 ||
  { cat "$work/out"; exit 1; }
cmp "$work/c/model.safetensors" "$work/cpp/model.safetensors"
