#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fortran/lockstep.f90: types as large as those of C, constants with their
# values; and examples/mlp.f90, whose weights have the bytes of those that the
# command trains.

set -eu
source=${LS_SOURCE_DIR:?}
build=${LS_BUILD_DIR:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
command -v gfortran >/dev/null ||
  { echo "not checked, as there is no gfortran"; exit 0; }
cd "$work"
flags="-std=f2008 -O1 -ffp-contract=off -Wall -Wextra -Werror"
# shellcheck disable=SC2086
gfortran $flags -c "$source/fortran/lockstep.f90"

# Each type with bind(c), by both compilers.
types=$(sed -n 's/^ *type, bind(c) :: \(ls_[a-z_]*\)$/\1/p' \
  "$source/fortran/lockstep.f90")
[ "$(echo "$types" | wc -l)" -gt 10 ]
{
  echo 'program sizes'
  echo 'use lockstep'
  for type in $types; do echo "type($type) :: a_$type"; done
  for type in $types; do
    echo "print '(a,1x,i0)', '$type', c_sizeof(a_$type)"
  done
  echo 'end program'
} >sizes.f90
{
  printf '%s\n' '#include "lockstep/full.h"' '#include <stdio.h>' 'int main(void) {'
  for type in $types; do
    printf 'printf("%%s %%zu%%c", "%s", sizeof(%s), 10);\n' "$type" "$type"
  done
  echo '}'
} >sizes.c
gfortran sizes.f90 lockstep.o -L"$build" -llockstep -Wl,-rpath,"$build" \
  -o sizes_f
"${CC:-cc}" -I"$source/include" -I"$build/include" sizes.c -o sizes_c
./sizes_f >f.txt
./sizes_c >c.txt
diff c.txt f.txt
# Constants, too: "name value".
sed -n '/enumerator/,/end enum/p' "$source/fortran/lockstep.f90" | tr -d ' &\n' |
  sed 's/enumerator:://g; s/endenum/,/g' | tr ',' '\n' | grep = |
  tr '=' ' ' >constants
[ "$(wc -l <constants)" -gt 10 ]
{
  echo '#include "lockstep/full.h"'
  while read -r name value; do
    echo "_Static_assert((int)$(echo "$name" | tr a-z A-Z) == $value, \"$name\");"
  done <constants
} >constants.c
"${CC:-cc}" -std=c11 -fsyntax-only -I"$source/include" -I"$build/include" \
  constants.c

# A shape of too many sizes is left to the library's refusal.
mkdir bounds
cat >shapes.f90 <<'EOF'
program shapes
  use lockstep
  type(ls_shape) :: shape
  shape = ls_shape_of([1, 2, 3, 4, 5, 6, 7, 8, 9])
  if (shape%rank /= 9 .or. shape%dim(8) /= 8) error stop "ls_shape_of"
end program
EOF
# shellcheck disable=SC2086
gfortran $flags -fcheck=bounds -J bounds "$source/fortran/lockstep.f90" \
  shapes.f90 -L"$build" -llockstep -Wl,-rpath,"$build" -o shapes
./shapes

# shellcheck disable=SC2086
gfortran $flags "$source/examples/mlp.f90" lockstep.o -L"$build" -llockstep \
  -Wl,-rpath,"$build" -o mlp
./mlp "$work/fortran" 6
"${LOCKSTEP:?}" train --quiet --model mlp --data synthetic --replicas 8 \
  --steps 6 --schedule constant --run-dir "$work/c" >out.txt 2>&1 ||
  { cat out.txt; exit 1; }
cmp c/model.safetensors fortran/model.safetensors
# Garbage ends it with the library's text.
if ./mlp "$work/c" 6 >out.txt 2>&1; then
  echo "FAIL: a run was overwritten"
  exit 1
fi
grep -q 'holds a run' out.txt || { cat out.txt; exit 1; }
