#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# fortran/lockstep.f90: types as large as those of C, and a simulation over Open
# MPI (examples/mpi/heat.f90) that prints the weights of examples/mpi/heat.c, on
# 1 and on 3 ranks.

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

mpifort=$(command -v mpifort.openmpi) && mpirun=$(command -v mpirun.openmpi) &&
  [ -e "$build/examples/heat_openmpi" ] ||
  { echo "no Open MPI: heat.f90 is not checked"; exit 0; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
"$mpifort" -O1 -ffp-contract=off -Wall -Wextra \
  "$source/examples/mpi/heat.f90" lockstep.o \
  -L"$build" -llockstep -Wl,-rpath,"$build" -o heat
"$build/examples/heat_openmpi" >c.txt
[ "$(wc -l <c.txt)" = 4 ]
for ranks in 1 3; do
  "$mpirun" --oversubscribe -q -n $ranks ./heat >"$ranks.txt" 2>err.txt ||
    { cat err.txt; exit 1; }
  diff c.txt "$ranks.txt"
done
