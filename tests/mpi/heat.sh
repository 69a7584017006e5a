#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# heat.sh MPIRUN PROGRAM: the example prints the same weights on 1, 2, 3 and 4
# ranks.

set -u
mpirun=$1 program=$2
case $mpirun in *openmpi*) mpirun="$mpirun --oversubscribe -q" ;; esac
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
failed=0
for ranks in 1 2 3 4; do
  $mpirun -n $ranks "$program" >"$ranks.txt" 2>err.txt ||
    { cat err.txt; echo "FAIL $ranks ranks"; failed=1; }
  [ "$(wc -l <$ranks.txt)" = 4 ] && cmp 1.txt $ranks.txt ||
    { cat 1.txt $ranks.txt; echo "FAIL $ranks ranks: other weights"; failed=1; }
done
exit $failed
