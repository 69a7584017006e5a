#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A run is overwritten when the new one has its first checkpoint: until then it
# comes back if the new one fails or is killed.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run copy killed

tiny="--model tiny --data synthetic --steps 20 --quiet"
# shellcheck disable=SC2086
"$lockstep" train $tiny --save-every-steps 10 --events --run-dir run \
  >out.txt 2>err.txt || fail "a run fails"
echo notes >run/notes.txt
cp -r run copy

# is_old WHEN: all is as it was, but for the lock file that a kill leaves.
is_old() {
  diff -r -x checkpoint.lock copy run >out.txt 2>err.txt || fail "$1: the old run is another"
}

# A new run whose steps go well until one does not.
ends 1 "'run' has the run again that was to be overwritten" train --model tiny \
  --data synthetic --optimizer sgd --learning-rate 1e30 --steps 50 --quiet \
  --run-dir run --overwrite
is_old "after a failure"

# kills: a new run, before its first checkpoint.
kills() {
  "$lockstep" train --model tiny --data synthetic --schedule constant --seed 7 \
    --epochs 1000000 --events --run-dir run --overwrite --quiet >out.txt \
    2>err.txt &
  process=$!
  waits_for grep -q '"seed":7' run/config.json
  waits_for test -s run/metrics.jsonl
  kill -s KILL $process
  wait $process
}
# finds ARGUMENT...: says that the old run is there, and goes on with it.
finds() {
  kills
  [ ! -e run/model.safetensors ] || fail "the new run has the old one's model"
  "$lockstep" "$@" >out.txt 2>err.txt || fail "lockstep $*"
  grep -q "the run in 'run' is the one that was being overwritten" err.txt ||
    fail "lockstep $*: not told"
}
finds eval run
is_old "eval"
finds predict run --data synthetic --limit 1
is_old "predict"
finds diff run copy
is_old "diff"
finds checkpoint list run
is_old "checkpoint list"
# shellcheck disable=SC2086
finds train $tiny --seed 7 --run-dir run --overwrite
grep -q '"seed":7' run/config.json || fail "the new run is not there"
[ -e run/notes.txt ] || fail "a file of the user's is gone"
rm -rf run
cp -r copy run
finds train --resume run --steps 30 --quiet
[ -e run/model.ckpt-30.json ] || fail "the old run does not go on"
rm -rf run
cp -r copy run
finds train --model tiny --data synthetic --resume auto --run-dir run \
  --steps 30 --quiet
[ -e run/model.ckpt-10.json ] && [ -e run/model.ckpt-30.json ] ||
  fail "--resume auto does not go on with the old run"

# With a checkpoint the new one stays, whatever ends it.
rm -rf run
cp -r copy run
"$lockstep" train --model tiny --data synthetic --schedule constant --seed 7 \
  --epochs 1000000 --save-every-steps 7 --run-dir run --overwrite --quiet \
  >out.txt 2>err.txt &
process=$!
waits_for grep -q '"seed":7' run/config.json
waits_for test -s run/checkpoint
gone() { [ ! -e run/.overwritten ]; }
waits_for gone
kill -s KILL $process
wait $process
gone || fail "the old run is not removed"
[ ! -e run/events ] || fail "events of the old run are left"
"$lockstep" eval run >out.txt 2>err.txt || fail "eval of the new run"
grep -q '"seed":7' run/config.json || fail "the new run is not there"

exit $failed
