#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train on ranks, with each MPI whose mpirun is there: the bytes of one
# process, whoever is killed or stopped on the way; one progress, one run
# folder, each failure once.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"

set -- train --model tiny --data synthetic --replicas 5 --batch-size 50 \
  --steps 400 --save-every-steps 20
rm -rf alone
"$lockstep" "$@" --run-dir alone >out.txt 2>err.txt || fail "alone"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# gives CODE RANKS WORD...: runs the words by mpirun.
gives() {
  wanted=$1 ranks=$2
  shift 2
  options=
  [ "$mpi" = mpich ] || options="--oversubscribe -q"
  # shellcheck disable=SC2086
  timeout 120 mpirun.$mpi $options -n "$ranks" "$@" >out.txt 2>err.txt
  code=$?
  # The first rank to end may not be the one that failed, for which it is 4;
  # MPICH combines the codes of all.
  [ $code = "$wanted" ] || { [ "$wanted" != 0 ] && [ $((code & 4)) = 4 ]; } || fail "$mpi, $ranks ranks: code $code: $*"
}

# says TEXT FILE TIMES
says() {
  count=$(grep -c -e "$1" "$2")
  [ "$count" = "$3" ] || fail "$mpi: '$1' $count times in $2, not $3"
}

equals() {
  cmp alone/model.safetensors "$1/model.safetensors" || fail "$mpi: $2"
}

for mpi in openmpi mpich; do
  command -v mpirun.$mpi >/dev/null || continue
  [ -e "$(dirname "$lockstep")/liblockstep-mpi-$mpi.so" ] || continue
  for ranks in 2 3; do
    rm -rf ranks_run
    gives 0 $ranks "$lockstep" "$@" --run-dir ranks_run
    equals ranks_run "$ranks ranks give other bytes"
    says 'test accuracy' out.txt 1
    says 'the run is in ranks_run' err.txt 1
  done
  says '3 ranks, 1 or 2 replicas each' err.txt 1

  # What is wrong is said once, with the program's own code.
  gives 1 3 "$lockstep" "$@" --run-dir ranks_run
  says 'holds a run' err.txt 1
  gives 2 3 "$lockstep" train --nosuch
  says 'there is no flag' err.txt 1
  gives 1 3 "$lockstep" train --model tiny --data synthetic --replicas 2
  says 'replicas is 2, but there are 3 ranks' err.txt 1
  gives 2 2 "$lockstep" eval ranks_run
  says 'this command runs in one process' err.txt 2

  # Killed and started again, by itself.
  rm -rf ranks_run
  "$lockstep" launch --ranks 3 --mpi $mpi --restarts 3 -- \
    "$lockstep" "$@" --run-dir ranks_run >out.txt 2>err.txt &
  process=$!
  waits_for test -s ranks_run/checkpoint
  # A busy machine may come too late.
  killed=0
  pkill -KILL -n -f "^$lockstep train .* --run-dir ranks_run\$" && killed=1
  wait $process
  code=$?
  [ $code = 0 ] || fail "$mpi: killed and started again: code $code"
  equals ranks_run "a killed run gives other bytes"
  says 'was killed by signal 9' err.txt $killed

  # Stopped, and resumed on another number of ranks.
  rm -rf ranks_run
  env --default-signal=INT "$lockstep" launch --ranks 2 --mpi $mpi -- \
    "$lockstep" "$@" --steps 40000 --run-dir ranks_run >out.txt 2>err.txt &
  process=$!
  waits_for test -s ranks_run/checkpoint
  kill -s INT $process
  wait $process
  code=$?
  [ $code = 130 ] || fail "$mpi: stopped with code $code"
  says 'resume continues it' err.txt 1
done
exit $failed
