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
              "$LS_BUILD_DIR"/include/lockstep/places*.h; do
  name=$(basename "$header" .h)
  # Twice, for the guard.
  printf '#include "lockstep/%s.h"\n#include "lockstep/%s.h"\n%s\n' \
    "$name" "$name" "typedef int not_empty;" >"$work/$name.c"
  cp "$work/$name.c" "$work/$name.cpp"
done

# Both circles, in both orders.
for names in "lockstep full" "full lockstep"; do
  for name in $names; do echo "#include \"lockstep/$name.h\""; done \
    >"$work/order_${names% *}.c"
  echo 'typedef int not_empty;' >>"$work/order_${names% *}.c"
  cp "$work/order_${names% *}.c" "$work/order_${names% *}.cpp"
done

# All scopes there are begin on one line, twice.
list=$(sed -n 's/^#define \(LS_[A-Z_]*_SCOPE\)\((.*)\)\{0,1\}  *[\\L].*/\1\2;/p' \
  "$source"/include/lockstep/*.h | tr '\n' ' ')
case $list in
*"LS_NAME_SCOPE(name);"*"LS_CREATOR_SCOPE(create, user);"*) ;;
*) echo "FAIL not a list of scopes: $list"; failed=1 ;;
esac
cat >"$work/scopes.c" <<EOF
#include "lockstep/full.h"
void begin(ls_graph *graph, ls_op op, const ls_op *ops, ls_strategy *strategy,
           ls_nest with, ls_summary_writer *writer, ls_variable_creator create,
           ls_export_policy policy, const ls_replica *replica, int32_t k,
           ls_tensor examples, int64_t steps);
void begin(ls_graph *graph, ls_op op, const ls_op *ops, ls_strategy *strategy,
           ls_nest with, ls_summary_writer *writer, ls_variable_creator create,
           ls_export_policy policy, const ls_replica *replica, int32_t k,
           ls_tensor examples, int64_t steps) {
  const char *name = "a", *device = "/CPU:0";
  const ls_reduce_op method = LS_REDUCE_SUM;
  const size_t count = 1;
  void *user = 0;
  $list $list
}
EOF
cp "$work/scopes.c" "$work/scopes.cpp"

compiles "$CC" c11 "$work"/*.c
if [ -n "${CXX:-}" ]; then
  compiles "$CXX" c++11 "$work"/*.cpp "$source/examples/replicas.cpp"
  compiles "$CXX" c++14 "$work/lockstep.cpp" "$work/full.cpp" \
    "$source/examples/replicas.cpp"
  # examples/mlp.cpp includes lockstep.hpp, which is for C++17.
  compiles "$CXX" c++17 "$work/lockstep.cpp" "$work/full.cpp" \
    "$source"/examples/*.cpp
  compiles "$CXX" c++20 "$work"/*.cpp "$source"/examples/*.cpp
else
  echo "skipped: no C++ compiler"
fi
exit $failed
