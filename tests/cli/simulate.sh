#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep simulate tries trainings with faults drawn by seeds: they end with
# the right bytes or the right error, equal seeds give equal logs, and wrong
# bytes are found.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run other "other's run" log.txt again.txt one.txt

# simulates CODE TEXT ARGUMENT...: with this code and text
simulates() {
  want=$1 text=$2
  shift 2
  "$lockstep" simulate "$@" >out.txt 2>err.txt
  code=$?
  [ $code = "$want" ] || fail "simulate $*: code $code, wanted $want"
  cat out.txt err.txt | grep -qF -- "$text" ||
    fail "simulate $*: wanted '$text', got $(cat out.txt err.txt)"
}

tiny="--model tiny --data synthetic --replicas 4 --batch-size 16 --steps 6"

# Equal logs of equal seeds, and of one seed alone.
for log in log.txt again.txt; do
  # shellcheck disable=SC2086
  simulates 0 "0 WRONG" --seed 7 --seeds 30 --ranks 3 --faults 2 --log $log \
    -- train $tiny
done
cmp -s log.txt again.txt || fail "equal seeds have other logs"
grep -q "^seed 12, [1-5] restarts: the right bytes$" log.txt ||
  fail "seed 12 has no restart"
# shellcheck disable=SC2086
simulates 0 "1 seeds: 1 with the right bytes" --seed 12 --ranks 3 --faults 2 \
  --log one.txt -- train $tiny
sed -n '/^seed 12,/,/^seed 13,/p' log.txt | sed '$d' | cmp -s - one.txt ||
  fail "a seed alone has another log"
# A message lost before the ranks know how to begin is no usage error.
# shellcheck disable=SC2086
simulates 0 "1 with the right bytes" --seed 87 --ranks 3 --faults 6 \
  --log one.txt -- train $tiny
grep -q "lost from event [1-9] on: event [1-9] at" one.txt || fail "another fault"
for kind in late lost twice cut disk full kill power stop jump; do
  grep -q "fault $kind of rank [0-2]" log.txt || fail "no fault $kind"
done

# A real run has the bytes of the simulated ones, one with another seed not.
# shellcheck disable=SC2086
"$lockstep" train $tiny --seed 3 --checksum 1 --quiet --run-dir run \
  >out.txt 2>err.txt || fail "no run"
# shellcheck disable=SC2086
"$lockstep" train $tiny --seed 4 --checksum 1 --quiet --run-dir other \
  >out.txt 2>err.txt || fail "no other run"
# shellcheck disable=SC2086
simulates 0 "4 seeds: 4 with the right bytes" --seeds 4 --reference run \
  -- train $tiny --seed 3
# shellcheck disable=SC2086
simulates 1 "lockstep simulate --seed 1 --ranks 2 --faults 1 --reference other" \
  --seed 1 --reference other -- train $tiny --seed 3
grep -q "^metrics.jsonl: first at step 1: checksum is" out.txt ||
  fail "the difference is not shown"
grep -q "^seed 1, . restarts: WRONG: metrics.jsonl differs at step 1$" out.txt ||
  fail "the seed is not shown"

# Initial weights alone; the words to do it again are quoted for a shell.
simulates 0 "2 seeds: 2 with the right bytes" --seeds 2 --ranks 3 --faults 0 \
  -- train --model tiny --data synthetic --replicas 3 --steps 0
cp -r other "other's run"
# shellcheck disable=SC2086
simulates 1 "--reference 'other'\\''s run' -- train --model tiny" \
  --seed 1 --reference "other's run" -- train $tiny --seed 3

# The last place of a lost rank is a list of lines.
simulates 0 "0 WRONG" --seeds 60 --log lost.log \
  -- train --model tiny --data synthetic --replicas 2 --steps 4
grep -q 'is lost: nothing was heard of it for 4.5 s; the last place:$' lost.log &&
  grep -q 'says: rank [01]: ' lost.log || fail "a lost rank has no place"
! grep -q '()' lost.log || fail "empty notes"

# A pod's cores, and a single rank.
simulates 0 "0 WRONG" --seeds 5 --ranks 1 --faults 2 \
  -- train --model tiny --data synthetic --tpu virtual:2x2 --steps 6

# What cannot be simulated.
ends 2 "the training is missing" simulate --ranks 2
ends 2 "only a training is simulated, not eval: lockstep simulate --ranks 2" \
  simulate -- eval run
ends 2 "train --run-dir: a simulated training has one new run" simulate -- \
  train --run-dir run
ends 2 "train --resume: a simulated training has one new run" simulate -- \
  train --resume=run
ends 2 "train --data a.npz: the disk of a simulated training is in memory" \
  simulate -- train --model tiny --data a.npz
ends 2 "--ranks is '0', expected a whole number from 1 on" simulate --ranks 0
ends 2 "train: the disk of a simulated training is in memory and has no files" \
  simulate -- train --model tiny
printf '{"data":"synthetic","replicas":2,"steps":1}' >config.json
for config in "--config config.json" --config=config.json; do
  # shellcheck disable=SC2086
  simulates 0 "1 seeds: 1 with the right" -- train $config --model tiny
done
ends 2 "train --data a.npz: the disk of a simulated training is in memory" \
  simulate -- train --config config.json --data a.npz
ends 1 "the training fails without faults" simulate -- train --model none \
  --data synthetic
ends 1 "--replicas is 1, but there are 2 ranks" simulate -- \
  train --model tiny --data synthetic
ends 1 "there is no 'none/metrics.jsonl'" simulate --reference none -- \
  train --model tiny --data synthetic --replicas 2 --steps 1
exit $failed
