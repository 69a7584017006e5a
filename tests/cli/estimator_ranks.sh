#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train of an estimator on the cores of a pod, on ranks, with each MPI
# whose mpirun is there: the bytes of one process, straight, killed, stopped and
# resumed on another number of ranks; one progress, one model folder, each
# failure once.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
libraries=${LS_BUILD_DIR:?}/tests/cli/libraries
rm -rf alone long estimator_run e.so
cp "$libraries/estimators.so" e.so

set -- train --model e.so:line --tpu virtual:4x1,cores=1,hosts=2 \
  --iterations-per-loop 7 --save-every-steps 10
"$lockstep" "$@" --steps 40 --run-dir alone >out.txt 2>err.txt || fail "alone"
wanted=$(cat out.txt)
"$lockstep" "$@" --steps 300 --run-dir long >out.txt 2>err.txt || fail "long"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# gives CODE RANKS WORD...: runs the words by mpirun.
gives() {
  code_wanted=$1 ranks=$2
  shift 2
  options=
  [ "$mpi" = mpich ] || options="--oversubscribe -q"
  # shellcheck disable=SC2086
  timeout 120 mpirun.$mpi $options -n "$ranks" "$@" >out.txt 2>err.txt
  code=$?
  # The first rank to end may not be the one that failed, for which it is 4;
  # MPICH combines the codes of all.
  [ $code = "$code_wanted" ] ||
    { [ "$code_wanted" != 0 ] && [ $((code & 4)) = 4 ]; } ||
    fail "$mpi, $ranks ranks: code $code: $*"
}

# says TEXT FILE TIMES
says() {
  count=$(grep -c -e "$1" "$2")
  [ "$count" = "$3" ] || fail "$mpi: '$1' $count times in $2, not $3"
}

# equals WHAT: the run's last checkpoint is that of one process.
equals() {
  cmp alone/model.ckpt-40.safetensors estimator_run/model.ckpt-40.safetensors ||
    fail "$mpi: $1"
}

for mpi in openmpi mpich; do
  command -v mpirun.$mpi >/dev/null || continue
  [ -e "$(dirname "$lockstep")/liblockstep-mpi-$mpi.so" ] || continue
  for ranks in 2 3; do
    rm -rf estimator_run
    gives 0 $ranks "$lockstep" "$@" --steps 40 --run-dir estimator_run
    equals "$ranks ranks give other bytes"
    cmp alone/graph.ls estimator_run/graph.ls || fail "$mpi: another graph"
    [ "$(cat out.txt)" = "$wanted" ] || fail "$mpi: another loss"
    says 'the run is in estimator_run' err.txt 1
    [ "$(find estimator_run -name 'events.*' | wc -l)" = 1 ] || fail "$mpi: event files"
  done

  # On another number of ranks.
  rm -rf estimator_run
  gives 0 4 "$lockstep" "$@" --steps 20 --run-dir estimator_run
  gives 0 2 "$lockstep" "$@" --steps 40 --resume estimator_run
  equals "resumed on another number of ranks, it gives other bytes"

  # With evaluations, for which ranks stay together.
  rm -rf estimator_run
  gives 0 2 "$lockstep" "$@" --tpu virtual:4x1,cores=1 --steps 40 \
    --run-dir estimator_run --eval-every 60
  says '^accuracy: 0\.9[0-9]*$' out.txt 1

  # What is wrong is said once.
  gives 1 2 "$lockstep" "$@" --steps 40 --run-dir estimator_run
  says 'there is a run in' err.txt 1
  gives 1 2 "$lockstep" train --model e.so:line --steps 3 --run-dir cpu
  says 'on the cores of a TPU' err.txt 1

  # Killed and started again, by itself.
  rm -rf estimator_run
  "$lockstep" launch --ranks 3 --mpi $mpi --restarts 3 -- \
    "$lockstep" "$@" --steps 300 --run-dir estimator_run >out.txt 2>err.txt &
  process=$!
  waits_for test -s estimator_run/checkpoint
  # A busy machine may come too late.
  killed=0
  pkill -KILL -n -f "^$lockstep train .* --run-dir estimator_run\$" && killed=1
  wait $process
  code=$?
  [ $code = 0 ] || fail "$mpi: killed and started again: code $code"
  says 'was killed by signal 9' err.txt $killed
  cmp long/model.ckpt-300.safetensors estimator_run/model.ckpt-300.safetensors ||
    fail "$mpi: a killed run gives other bytes"

  # Stopped, and resumed on another number of ranks.
  rm -rf estimator_run
  env --default-signal=INT "$lockstep" launch --ranks 2 --mpi $mpi -- \
    "$lockstep" "$@" --steps 300 --run-dir estimator_run >out.txt 2>err.txt &
  process=$!
  waits_for test -s estimator_run/checkpoint
  kill -s INT $process
  wait $process
  code=$?
  [ $code = 130 ] || fail "$mpi: stopped with code $code"
  says 'resume continues it' err.txt 1
  gives 0 3 "$lockstep" "$@" --steps 300 --resume estimator_run
  cmp long/model.ckpt-300.safetensors estimator_run/model.ckpt-300.safetensors ||
    fail "$mpi: a stopped run gives other bytes"
done
exit $failed
