#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train of an estimator on the cores of a pod, on ranks, with each MPI
# whose mpirun is there: the bytes of one process, straight, killed, stopped and
# resumed on another number of ranks; one progress, one model folder, each
# failure once.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
# shellcheck source=tests/support/mpi.sh
. "$(dirname "$0")/../support/mpi.sh"
rm -rf alone long e.so
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so
model=$PWD/e.so:line

# trains_by COMMAND WORD...: runs `COMMAND lockstep train` of the estimator.
trains_by() {
  command=$1
  shift
  # shellcheck disable=SC2086
  $command "$lockstep" train --model "$model" --iterations-per-loop 7 \
    --tpu virtual:4x1,cores=1,hosts=2 --save-every-steps 10 "$@"
}

trains_by "" --steps 40 --run-dir alone >out.txt 2>err.txt || fail "alone"
loss=$(cat out.txt)
trains_by "" --steps 300 --run-dir long >out.txt 2>err.txt || fail "long"
awk 'BEGIN { print "a,b,label"
  for (i = 0; i < 60; ++i) print i % 7 ".5," i % 5 "," i % 2 }' >rows.csv

# equals LONG STEPS TEXT: the run's last checkpoint is that of one process.
equals() {
  cmp "../$1/model.ckpt-$2.safetensors" "$run/model.ckpt-$2.safetensors" ||
    fail "$mpi: $3"
}

trains() {
  run=$PWD/run
  rm -rf "$run"
  trains_by "gives 0 3" --steps 40 --run-dir "$run"
  equals alone 40 "ranks give other bytes"
  cmp ../alone/graph.ls "$run/graph.ls" || fail "$mpi: another graph"
  [ "$(cat out.txt)" = "$loss" ] || fail "$mpi: another loss"
  says "the run is in $run" err.txt 1
  [ "$(find "$run" -name 'events.*' | wc -l)" = 1 ] || fail "$mpi: event files"

  # What is wrong is said once.
  trains_by "gives 1 2" --steps 40 --run-dir "$run"
  says 'there is a run in' err.txt 1
  if $is_first; then
    gives 1 2 "$lockstep" train --model "$model" --steps 3 --run-dir cpu
    says 'on the cores of a TPU' err.txt 1
    for flag in "--seed 3" "--save-every-steps 7" "--eval-every 1" \
                "--stop-early test_accuracy" --attest; do
      rm -rf "$run"
      # shellcheck disable=SC2086
      trains_by "gives 5 1" --steps 40 --run-dir "$run" : -n 1 "$lockstep" \
        train --model "$model" --iterations-per-loop 7 \
        --tpu virtual:4x1,cores=1,hosts=2 --save-every-steps 10 --steps 40 \
        --run-dir "$run" $flag
      says 'ranks 0 and 1 train with another' err.txt 1
    done
    sed 's/^0/9/' ../rows.csv >other.csv
    for data in ../rows.csv other.csv; do
      set -- "$@" : -n 1 "$lockstep" train --estimator --model tiny --data \
        $data --batch-size 8 --steps 2 --tpu virtual:2x1,hosts=2 --run-dir odd
    done
    shift 3
    gives 5 1 "$@"
    says 'ranks 0 and 1 begin with another data' err.txt 1
  fi

  # With evaluations, for which ranks stay together.
  rm -rf "$run"
  trains_by "gives 0 2" --tpu virtual:4x1,cores=1 --steps 40 \
    --run-dir "$run" --eval-every 60
  says '^accuracy: 0\.9[0-9]*$' out.txt 1

  # Steps that leave no run are in one folder that goes.
  mkdir -p passing
  export TMPDIR="$PWD/passing"
  gives 0 2 "$lockstep" train --estimator --model tiny --data synthetic \
    --tpu virtual:2x1,hosts=2 --find-lr --steps 60
  says "^ 1\.00e-06 " out.txt 1
  says 'suggestion' out.txt 1
  rmdir passing || fail "$mpi: steps that stay: $(ls passing)"
  unset TMPDIR

  # What there is to note about data is said once, and ends nothing.
  rm -rf rows
  gives 0 2 "$lockstep" train --estimator --model tiny --data ../rows.csv \
    --batch-size 8 --steps 2 --tpu virtual:2x1,hosts=2 --run-dir rows
  says '54 examples to train on, 6 held out' err.txt 1

  # Killed and started again, by itself.
  rm -rf "$run"
  trains_by "starts 3 3" --steps 300 --run-dir "$run"
  waits_for test -s "$run/checkpoint"
  is_killed "$run"
  equals long 300 "a killed run gives other bytes"

  # Stopped, and resumed on another number of ranks.
  rm -rf "$run"
  trains_by "starts 2 0" --steps 300 --run-dir "$run"
  waits_for test -s "$run/checkpoint"
  stops 130
  says 'resume continues it' err.txt 1
  trains_by "gives 0 3" --steps 300 --resume "$run"
  equals long 300 "a stopped run gives other bytes"
}

with_each_mpi trains
exit $failed
