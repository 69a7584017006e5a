#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train on ranks, with each MPI whose mpirun is there: the bytes of one
# process, whoever is killed or stopped on the way; one progress, one run
# folder, each failure once.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
# shellcheck source=tests/support/mpi.sh
. "$(dirname "$0")/../support/mpi.sh"

rm -rf alone warm-1 warm-2
"$lockstep" train --model tiny --data synthetic --seed 1 --steps 2 \
  --run-dir warm-1 >out.txt 2>err.txt || fail "warm-1"
"$lockstep" train --model tiny --data synthetic --seed 2 --steps 2 \
  --run-dir warm-2 >out.txt 2>err.txt || fail "warm-2"
set -- train --model tiny --data synthetic --replicas 5 --batch-size 50 \
  --steps 400 --save-every-steps 20
"$lockstep" "$@" --run-dir alone >out.txt 2>err.txt || fail "alone"

equals() {
  cmp ../alone/model.safetensors "$run/model.safetensors" || fail "$mpi: $1"
}

trains() {
  run=$PWD/run
  rm -rf "$run" new
  gives 0 3 "$lockstep" "$@" --run-dir "$run"
  equals "ranks give other bytes"
  says 'test accuracy' out.txt 1
  says "the run is in $run" err.txt 1
  says '3 ranks, 1 or 2 replicas each' err.txt 1

  # Another name of the folder is none to the others.
  rm -rf "$run"
  gives 0 1 "$lockstep" "$@" --run-dir "$run" : \
    -n 2 "$lockstep" "$@" --run-dir "./run"
  equals "another name of the folder gives other bytes"

  # What is wrong is said once, with the program's own code.
  gives 1 2 "$lockstep" "$@" --run-dir "$run"
  says 'holds a run' err.txt 1
  # What there is to note, too, and it ends nothing.
  gives 0 2 "$lockstep" train --resume "$run" --steps 410
  says 'the linear schedule ends at step 410, not 400' err.txt 1
  if $is_first; then
    gives 2 3 "$lockstep" train --nosuch
    says 'there is no flag' err.txt 1
    gives 1 3 "$lockstep" train --model tiny --data synthetic --replicas 2
    says 'replicas is 2, but there are 3 ranks.*give --replicas 3' err.txt 1
    gives 2 1 "$lockstep" "$@" --run-dir "$run" : -n 1 "$lockstep" "$@"
    says 'rank 0 has --run-dir, rank 1 has not' err.txt 1
    gives 2 1 "$lockstep" "$@" --run-dir new : \
      -n 1 "$lockstep" train --resume "$run"
    says 'rank 0 has --run-dir, rank 1 has not' err.txt 1
    gives 2 2 "$lockstep" eval "$run"
    says 'this command runs in one process' err.txt 2
    for flag in "--find-spike 0.1" "--seeds 2" "--warm-start ../warm-1" \
                --estimator --find-nan --find-lr --events; do
      # shellcheck disable=SC2086
      gives 2 1 "$lockstep" "$@" --run-dir new : \
        -n 1 "$lockstep" "$@" --run-dir new $flag
      says "rank 1 has ${flag%% *}, rank 0 has not" err.txt 1
    done
    gives 2 1 "$lockstep" "$@" --seeds 2 : -n 1 "$lockstep" "$@" --seeds 3
    says 'ranks 0 and 1 have another --seeds' err.txt 1
    for flag in --attest "--test none" "--test-steps 2" \
                "--stop-early test_loss"; do
      # shellcheck disable=SC2086
      gives 5 1 "$lockstep" "$@" --run-dir new : \
        -n 1 "$lockstep" "$@" --run-dir new $flag
      says 'ranks 0 and 1 train with another' err.txt 1
    done
    gives 5 1 "$lockstep" "$@" --run-dir new --warm-start ../warm-1 : \
      -n 1 "$lockstep" "$@" --run-dir new --warm-start ../warm-2
    says "ranks 0 and 1 begin with another value of variable 'hidden1/kernel'" \
      err.txt 1
    [ ! -e new ] || fail "ranks that differ leave a run"
  fi

  # A failure to save is told by the rank that has it.
  rm -rf "$run" pid
  starts 3 0 sh -c '
    [ "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" != 2 ] || echo $$ >pid
    exec "$0" "$@"' "$lockstep" "$@" --steps 40000 --run-dir "$run"
  waits_for test -s "$run/checkpoint"
  prlimit --fsize=0 --pid "$(cat pid)" || fail "$mpi: no limit"
  wait $process
  code=$?
  [ $code = 1 ] || fail "$mpi: a failure to save: code $code"
  says 'File too large' err.txt 1
  says 'lockstep train: rank 2 .*: cannot write .*File too large' err.txt 1
  says 'lockstep launch: rank 2 of 3 ended with code 1' err.txt 1

  # Killed and started again, by itself.
  rm -rf "$run"
  starts 3 3 "$lockstep" "$@" --run-dir "$run"
  waits_for test -s "$run/checkpoint"
  is_killed "$run"
  equals "a killed run gives other bytes"

  # Stopped.
  rm -rf "$run"
  starts 2 0 "$lockstep" "$@" --steps 40000 --run-dir "$run"
  waits_for test -s "$run/checkpoint"
  stops 130
  says 'resume continues it' err.txt 1

  # A signal to one rank alone stops all, with its code.
  rm -rf "$run"
  starts 2 0 "$lockstep" "$@" --steps 40000 --run-dir "$run"
  waits_for test -s "$run/checkpoint"
  kill -s INT "$(sed 's/process \([0-9]*\) .*/\1/' "$run/lock")"
  wait $process
  code=$?
  [ $code = 130 ] || fail "$mpi: one rank stopped: code $code"
  says 'code 128' err.txt 0
}

with_each_mpi trains "$@"
exit $failed
