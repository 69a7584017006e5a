#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs of a user's convolutional model with dropout that are ended from outside
# at random times, while they save each step: killed, or asked to end. They go
# on with other numbers of threads and end with the same model.
#
# LS_TEST_KILLS says how many are killed (default 6), LS_TEST_SEED when.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run straight be-slow is-traced
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/convolves.so" convolves.so
kills=${LS_TEST_KILLS:-6}
seed=${LS_TEST_SEED:-1}
model="--model ./convolves.so"
new="$model --data synthetic --steps 60 --seed 5 --replicas 4 --quiet"
saving="--save-every-steps 1 --keep 3 --attest --quiet"

# draw LIMIT: the next number below it
state=$seed
draw() {
  state=$(((state * 1103515245 + 12345) % 2147483648))
  drawn=$((state / 65536 % $1))
}

# shellcheck disable=SC2086
"$lockstep" train $new $saving --run-dir straight >out.txt 2>err.txt ||
  fail "a run fails"

# calls RUN: how often its functions were called, by which random ops draw, as
# its last checkpoint says
calls() {
  "$lockstep" checkpoint show "$1" 2>err.txt | grep '^state functions:'
}
wanted=$(calls straight)
case $wanted in
*'"evaluate":'*) ;;
*) fail "a run that is evaluated does not say how often: $wanted" ;;
esac

# The newest checkpoints and one more at most, and nothing else but, where a
# writer was `killed`, what it has left.
# known_files [killed]
known_files() {
  [ "$(ls run | grep -c 'model.ckpt-[0-9]*\.json$')" -le 4 ] ||
    fail "there are more checkpoints than are kept: $(ls run)"
  [ $# = 0 ] || return
  ! ls run | grep -vqE \
    '^(config.json|metrics.jsonl|chain.jsonl|checkpoint|model.safetensors|model.ckpt-[0-9]*\.(json|safetensors))$' ||
    fail "other files are left: $(ls run)"
}

# Whenever a run ends, it is as its chain says.
# is_verified SEGMENTS
is_verified() {
  [ -e run/chain.jsonl ] || return
  # shellcheck disable=SC2086
  "$lockstep" verify run $model --segments "$1" --quiet >out.txt 2>err.txt ||
    fail "a run that was ended is not verified"
}

# lives SIGNAL CODE: one life, ended by the signal after up to 0.2 s; `ended`:
# it came to its end.
lives() {
  draw 3
  threads=$((1 << drawn))
  [ $threads = 4 ] && threads=8
  draw 200
  if [ -e run/config.json ]; then
    arguments="--resume run $model"
  else
    arguments="$new --run-dir run"
  fi
  # shellcheck disable=SC2086
  "$lockstep" train $arguments $saving --threads $threads >out.txt 2>err.txt &
  process=$!
  sleep "0.$(printf %03d $drawn)"
  kill -s "$1" $process 2>/dev/null
  wait $process 2>/dev/null
  code=$?
  [ $code = 0 ] || [ $code = "$2" ] || fail "SIG$1: code $code, wanted $2"
  [ $code = 0 ] || count=$((count + 1))
  ended=$code
}

# ends_often SIGNAL CODE TIMES
ends_often() {
  count=0
  runs=0
  while [ $count -lt "$3" ] && [ $failed = 0 ]; do
    rm -rf run
    ended=1
    while [ "$ended" != 0 ] && [ $failed = 0 ]; do
      lives "$1" "$2"
      if [ "$1" = KILL ] && [ -d run ]; then known_files killed; fi
      if [ "$1" != KILL ] && [ -d run ]; then known_files; fi
      is_verified 0
    done
    known_files
    [ -e run/chain.jsonl ] || fail "there is no chain"
    is_verified 1
    cmp -s run/model.safetensors straight/model.safetensors ||
      fail "SIG$1: the model is another one"
    [ "$(calls run)" = "$wanted" ] ||
      fail "SIG$1: another number of calls: $(calls run), wanted $wanted"
    runs=$((runs + 1))
  done
  echo "SIG$1: $count lives were ended in $runs runs"
}
ends_often KILL 137 "$kills"
ends_often TERM 143 "$((kills / 2))"

# ---- Grace -------------------------------------------------------------------
# Its step takes its time to be traced.
# is_slow: in the background, once it is there
is_slow() {
  rm -rf run is-traced
  : >be-slow
  # shellcheck disable=SC2086
  "$lockstep" train $new --run-dir run "$@" >out.txt 2>err.txt &
  process=$!
  waits_for test -e is-traced
}
is_slow --grace 1
kill -s TERM $process
wait $process
code=$?
[ $code = 3 ] || fail "after the grace: code $code, wanted 3"
grep -q 'was not saved within --grace' err.txt || fail "the grace is not named"
is_slow
kill -s TERM $process
sleep 0.05
kill -s INT $process
wait $process
code=$?
[ $code = 3 ] || fail "a second signal: code $code, wanted 3"
grep -q 'ended by a second signal' err.txt || fail "the signal is not named"
rm be-slow
# What never came to save anything begins anew.
# shellcheck disable=SC2086
"$lockstep" train --resume run $model --quiet >out.txt 2>err.txt ||
  fail "a run that saved nothing cannot be resumed"
cmp -s run/model.safetensors straight/model.safetensors ||
  fail "a run that began anew has another model"

exit $failed
