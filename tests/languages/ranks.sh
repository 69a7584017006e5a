#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ranks.sh MPIRUN: the programs of examples/ in C++, Fortran and Python that
# train mlp on 8 replicas, on 1 and on 3 ranks: the weights have the bytes of
# those that the command trains alone. So has, in Fortran, the simulation over
# MPI examples/mpi/heat.f90 those of heat.c.

set -eu
mpirun=$1
mpi=${mpirun##*.}
source=${LS_SOURCE_DIR:?}
build=${LS_BUILD_DIR:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
case $mpi in openmpi) mpirun="$mpirun --oversubscribe -q" ;; esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
steps=6

"${LOCKSTEP:?}" train --quiet --model mlp --data synthetic --replicas 8 \
  --steps $steps --schedule constant --run-dir alone >out.txt 2>&1 ||
  { cat out.txt; exit 1; }

# expect LANGUAGE COMMAND...: trains on ranks, and compares the bytes.
expect() {
  language=$1
  shift
  for ranks in 1 3; do
    # shellcheck disable=SC2086
    $mpirun -n $ranks "$@" "$work/$language$ranks" $steps >out.txt 2>&1 ||
      { cat out.txt; echo "FAIL $mpi: $language on $ranks ranks"; exit 1; }
    cmp alone/model.safetensors "$language$ranks/model.safetensors"
  done
}

# ---- C++ -------------------------------------------------------------------
if [ -e "$build/examples/mlp" ]; then
  expect cpp "$build/examples/mlp"
else
  echo "not checked, as there is no C++ compiler (g++): examples/mlp.cpp"
fi

# ---- Python ----------------------------------------------------------------
if python=$(command -v "${PYTHON:-python3}") &&
  "$python" -c 'import ctypes' 2>/dev/null; then
  export LOCKSTEP_LIBRARY="$build/liblockstep.so" PYTHONDONTWRITEBYTECODE=1
  export PYTHONPATH="$source/python"
  expect python "$python" "$source/examples/mlp.py"
else
  echo "not checked, as there is no python3 with ctypes: examples/mlp.py"
fi

# ---- Fortran ---------------------------------------------------------------
link="-L$build -llockstep -Wl,-rpath,$build"
flags="-O1 -ffp-contract=off -Wall -Wextra"
if ! command -v gfortran >/dev/null; then
  echo "not checked, as there is no gfortran: examples/mlp.f90, mpi/heat.f90"
  exit 0
fi
# shellcheck disable=SC2086
gfortran -std=f2008 $flags -Werror "$source/fortran/lockstep.f90" \
  "$source/examples/mlp.f90" $link -o mlp
expect fortran ./mlp

mpifort=$(command -v "mpifort.$mpi") ||
  { echo "not checked, as there is no mpifort.$mpi: mpi/heat.f90"; exit 0; }
# shellcheck disable=SC2086
"$mpifort" $flags "$source/fortran/lockstep.f90" \
  "$source/examples/mpi/heat.f90" $link -o heat
"$build/examples/heat_$mpi" >heat.txt
[ "$(wc -l <heat.txt)" = 4 ]
for ranks in 1 3; do
  # shellcheck disable=SC2086
  $mpirun -n $ranks ./heat >out.txt 2>err.txt || { cat err.txt; exit 1; }
  diff heat.txt out.txt
done
