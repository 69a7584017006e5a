#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# --events writes event files for TensorBoard: to the run's folder, or to one
# that it names; a word that begins with '-' is the next flag.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run runs other there killed again branch

tiny="--model tiny --data synthetic --quiet --steps 30"

# count N FOLDER: it holds so many event files, each of some size.
count() {
  found=$(find "$2" -name 'events.out.tfevents.*' -size +0 | wc -l)
  [ "$found" -eq "$1" ] || fail "$2 holds $found event files, expected $1"
}

# shellcheck disable=SC2086
"$lockstep" train --run-dir run --events $tiny >out.txt 2>err.txt ||
  fail "train failed"
count 1 run/events/train
count 1 run/events/test

"$lockstep" train --resume run --steps 40 --quiet --events >out.txt 2>err.txt ||
  fail "resume failed"
count 2 run/events/train

# A run that had events goes on with them without being asked again.
"$lockstep" train --resume run --steps 60 --quiet >out.txt 2>err.txt ||
  fail "a run with events cannot go on"
count 3 run/events/train

# Killed when only its flags and its first checkpoint were written, a run has
# its events and its chain all the same.
for kind in "" --estimator; do
  rm -rf run killed
  # shellcheck disable=SC2086
  "$lockstep" train --run-dir run --events --attest --save-every-steps 10 \
    $tiny $kind >out.txt 2>err.txt || fail "train $kind failed"
  mkdir killed
  [ -n "$kind" ] || cp run/config.json killed
  [ -z "$kind" ] || cp run/estimator.json run/model.ckpt-10.* killed
  "$lockstep" train --resume killed --quiet >out.txt 2>err.txt ||
    fail "a killed run $kind cannot go on"
  count 1 killed/events/train
  "$lockstep" verify killed >out.txt 2>err.txt || fail "no chain $kind"
  cmp -s run/model.ckpt-30.safetensors killed/model.ckpt-30.safetensors ||
    fail "a killed run $kind has other bytes"
  # So has a run that goes on from one of its steps.
  rm -rf branch
  "$lockstep" train --resume run@10 --run-dir branch --quiet >out.txt \
    2>err.txt || fail "a branch $kind failed"
  count 1 branch/events/train
  "$lockstep" verify branch >out.txt 2>err.txt ||
    fail "a branch $kind has no chain"
done
# A run by its configuration has them, too.
"$lockstep" train --config run/estimator.json --estimator --run-dir again \
  --steps 5 --quiet >out.txt 2>err.txt || fail "--config failed"
count 1 again/events/train
[ -s again/chain.jsonl ] || fail "--config: no chain"

# Another folder, in both forms.
# shellcheck disable=SC2086
"$lockstep" train --run-dir other --events there/a $tiny >out.txt 2>err.txt ||
  fail "train failed"
# shellcheck disable=SC2086
"$lockstep" train --run-dir other --overwrite --events=there/b $tiny \
  >out.txt 2>err.txt || fail "train failed"
count 1 there/a/train
count 1 there/b/train
[ ! -e other/events ] || fail "other holds events"

"$lockstep" train --help >out.txt 2>err.txt || fail "help failed"
grep -q -e '--events \[DIR\]' out.txt || fail "--help does not tell of --events"

exit $failed
