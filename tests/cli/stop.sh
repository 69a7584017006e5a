#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-C ends a run after the step it is in: the model is saved, the code is
# 130; with SIGTERM it is 143.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run

# Shells start background programs with SIGINT ignored, and nohup what it starts
# with SIGHUP ignored, so a helper sets them
# free: env from coreutils.
# stops SIGNAL CODE
stops() {
  env --default-signal=INT,HUP "$lockstep" train --model tiny --data synthetic \
    --epochs 1000000 --run-dir run --overwrite >out.txt 2>err.txt &
  process=$!
  waits_for test -s run/metrics.jsonl
  kill -s "$1" $process
  wait $process
  code=$?
  [ "$code" = "$2" ] || fail "SIG$1: code $code, wanted $2"
  [ -s run/model.safetensors ] || fail "SIG$1: the model is not saved"
  [ ! -s out.txt ] || fail "SIG$1: a result is printed"
  grep -q 'stopped after [0-9]* steps' err.txt || fail "SIG$1: not said"
}

stops INT 130
rm -rf run
stops TERM 143

# A training whose progress nobody reads any more ends well, too.
mkfifo progress
for kind in "" --estimator; do
  rm -rf run
  head -n 1 <progress >/dev/null &
  # shellcheck disable=SC2086
  "$lockstep" train --model tiny --data synthetic $kind --epochs 3 \
    --run-dir run >out.txt 2>progress || fail "no reader $kind: code $?"
  grep -q 3072 run/checkpoint || fail "no reader $kind: it is not saved"
done
"$lockstep" train --model tiny --data synthetic --steps 3 --quiet \
  --run-dir unread >progress 2>err.txt &
process=$!
: <progress
wait $process
[ $? = 141 ] && [ ! -s err.txt ] && [ -s unread/model.safetensors ] ||
  fail "a training whose result nobody reads"
rm -rf run unread progress

# Steps that are made again, and those of a range of rates, end so too: nothing
# that was found up to there is printed as the result of all.
steps=100000
"$lockstep" train --model tiny --data synthetic --quiet --steps $steps \
  --attest --run-dir long >out.txt 2>err.txt || fail "a long run fails"
# stops_again ARGUMENT...
stops_again() {
  env --default-signal=INT "$lockstep" "$@" --quiet >out.txt 2>err.txt &
  process=$!
  sleep 0.3
  kill -s INT $process
  wait $process
  code=$?
  [ "$code" = 130 ] || fail "$1: code $code, wanted 130"
  grep -qE "stopped at step [0-9]|ended by SIGINT" err.txt || fail "$1: not said"
  ! grep -qE "verified|are the same: |rate" out.txt ||
    fail "$1: a result is printed"
}
stops_again verify long --all
stops_again replay long
stops_again train --model tiny --data synthetic --steps $steps --find-lr
rm -rf long

# Reading files through ends too, with the rates so far.
yes 'some words' | head -c 30000000 >long.txt
env --default-signal=INT "$lockstep" data long.txt --batch 1 --seconds 600 \
  >out.txt 2>err.txt &
process=$!
waits_for test -s out.txt
kill -s INT $process
wait $process
code=$?
[ "$code" = 130 ] || fail "data: code $code, wanted 130"
grep -q 'not all of them: [0-9]* examples/s' out.txt ||
  fail "data: no rates of what was read"
rm -f long.txt

# SIGHUP is as SIGTERM, but for a program that was told to ignore it.
rm -rf run
stops HUP 129
rm -rf run
(
  trap '' HUP
  exec "$lockstep" train --model tiny --data synthetic --epochs 1000000 \
    --run-dir run --quiet >out.txt 2>err.txt
) &
process=$!
waits_for test -s run/metrics.jsonl
kill -s HUP $process
lines=$(wc -l <run/metrics.jsonl)
goes_on() { [ "$(wc -l <run/metrics.jsonl)" -gt "$lines" ]; }
waits_for goes_on
goes_on || fail "an ignored SIGHUP ends the run"
kill -s TERM $process
wait $process
code=$?
[ "$code" = 143 ] || fail "SIGTERM after SIGHUP: code $code, wanted 143"

# Before a run has begun, and in other commands: one line, the same codes, and
# nothing is left. The library takes its time when it is loaded.
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/tells.so" mine.so
# ends_early SIGNAL CODE ARGUMENT...
ends_early() {
  signal=$1
  wanted_code=$2
  shift 2
  rm -f was-loaded
  env --default-signal=INT,HUP "$lockstep" "$@" >out.txt 2>err.txt &
  process=$!
  waits_for test -e was-loaded
  kill -s "$signal" $process
  wait $process
  code=$?
  [ "$code" = "$wanted_code" ] ||
    fail "early SIG$signal: code $code, wanted $wanted_code"
  [ "$(cat err.txt)" = "lockstep: ended by SIG$signal" ] && [ ! -s out.txt ] ||
    fail "early SIG$signal: not one line"
}
# Replicas are traced one by one: a signal ends that, too.
for kind in "" --estimator; do
  rm -rf run
  # shellcheck disable=SC2086
  env --default-signal=INT "$lockstep" train --model tiny --data synthetic \
    --replicas 4000 --batch-size 4000 $kind --run-dir run >out.txt 2>err.txt &
  process=$!
  waits_for test -s run/lock
  kill -s INT $process
  wait $process
  code=$?
  [ $code = 130 ] && [ ! -e run ] &&
    grep -q 'stopped before the first step; there is no run' err.txt ||
    fail "a signal while replicas are traced: code $code"
done

rm -rf run runs
"$lockstep" train --model ./mine.so --data synthetic --steps 2 --quiet \
  --run-dir trained --overwrite >out.txt 2>err.txt || fail "a run fails"
: >be-slow
ends_early TERM 143 train --model ./mine.so --data synthetic
ends_early INT 130 train --model ./mine.so --data synthetic --run-dir run
ends_early HUP 129 eval trained --model ./mine.so
ends_early TERM 143 bench ./mine.so
rm be-slow
[ ! -e run ] && [ ! -e runs ] || fail "a run that did not begin left a folder"

# All seeds of several go on by one command.
rm -rf seeds
env --default-signal=INT "$lockstep" train --model tiny --data synthetic \
  --epochs 1000000 --seeds 2 --run-dir seeds >out.txt 2>err.txt &
process=$!
waits_for test -s seeds/seed-0/metrics.jsonl
kill -s INT $process
wait $process
grep -q "seed 0, the run 1 of 2$" err.txt &&
  grep -q "the same command with --resume auto goes on with all" err.txt ||
  fail "stopped seeds: how they go on is not said"

# A seed after one that is saved is not saved.
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so
rm -rf seeds
env --default-signal=INT "$lockstep" train --model ./e.so:line --steps 3000 \
  --seeds 2 --run-dir seeds >out.txt 2>err.txt &
process=$!
waits_for test -s seeds/seed-0/metrics.jsonl
: >be-slow
waits_for test -e seeds/seed-1
kill -s INT $process
sleep 0.1
kill -s INT $process
wait $process
code=$?
[ $code = 3 ] && grep -q "the last steps are not saved" err.txt ||
  fail "a second signal in the second seed: code $code, wanted 3"
rm be-slow

exit $failed
