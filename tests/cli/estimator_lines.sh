#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# metrics.jsonl of estimators: its lines, checksums of all variables, the same
# after a resumption and in replicas, and what show and diff make of it.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs e.so
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so
line="--model e.so:line --batch-size 8"

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $line --run-dir "runs/$name" --quiet "$@" >out.txt \
    2>err.txt || fail "train $*"
}
# lines NAME: those of a run, without times.
lines() {
  sed 's/,"examples_per_second".*/}/' "runs/$1/metrics.jsonl"
}
# same A B: both have the same lines.
same() {
  lines "$1" >first.txt
  lines "$2" >second.txt
  cmp first.txt second.txt >out.txt || fail "$2 has other lines than $1"
}

trains first --steps 250 --checksum 50 --save-every-steps 50 --keep 0 \
  --keep-best test_loss
lines first | sed 's/":[^,}]*/"/g' >out.txt
sum='{"step","checksum"}'
steps='{"step","loss","steps"}'
test='{"step","test_accuracy","test_loss"}'
printf '%s\n' "$sum" "$test" "$sum" "$steps" "$test" "$sum" "$test" "$sum" \
  "$steps" "$test" "$sum" "$steps" "$test" >wanted.txt
# The line of the last steps comes before the last save.
cmp out.txt wanted.txt >err.txt || fail "other lines: $(cat wanted.txt)"
grep -q '^{"step":100,"loss":[0-9.]*,"steps":100,"examples_per_second":' \
  runs/first/metrics.jsonl || fail "no line of step 100"

# The same in another process, and cut off where a run goes on.
trains again --steps 250 --checksum 50 --save-every-steps 50 --keep 0 \
  --keep-best test_loss
same first again
"$lockstep" diff runs/first runs/again >out.txt 2>err.txt || fail "diff"
grep -q '^equal: 13 lines of metrics, ' out.txt || fail "diff: other lines"
rm -rf runs/again/model.ckpt-150.* runs/again/model.ckpt-2*
"$lockstep" train --resume runs/again --model e.so:line --checksum 50 --quiet \
  --save-every-steps 50 --keep 0 >out.txt 2>err.txt || fail "--resume"
same first again
# Where two runs part.
trains other --steps 100 --checksum 50 --seed 7
"$lockstep" diff runs/first runs/other >out.txt 2>err.txt &&
  fail "two seeds are equal"
grep -q 'step 50' out.txt || fail "diff does not name step 50"

# In replicas and on cores, with evaluations and what is shown of them.
for way in "--replicas 2" "--tpu virtual:2x1 --iterations-per-loop 5"; do
  name=$(echo "$way" | sed 's/[^0-9a-z]//g')
  # shellcheck disable=SC2086
  trains "$name" $way --batch-size 64 --steps 20 --eval-every 60 --checksum 10 \
    --events
  grep -aq examples_per_second "runs/$name/events/train/"* &&
    grep -aq a/kernel "runs/$name/events/train/"* || fail "$way: no events"
  grep -aq accuracy "runs/$name/events/test/"* || fail "$way: no test's events"
  "$lockstep" show "runs/$name" --table >out.txt 2>err.txt || fail "show"
  for metric in loss test_loss test_accuracy examples_per_second; do
    [ "$(grep -c "	20	$metric	" out.txt)" = 1 ] || fail "$way: $metric"
  done
  "$lockstep" show "runs/$name" >out.txt 2>err.txt || fail "show"
  grep -q 'line on data of its own, batch size 64' out.txt || fail "show: no flags"
  grep -q 'complete, step 20 of 20' out.txt || fail "show: no end"
done

# Traced tensors are shown beside the progress.
TENSOR_TRACER_FLAGS="--enable --trace_mode=norm" "$lockstep" train --estimator \
  --model tiny --data synthetic --steps 2 --quiet --run-dir runs/traced \
  >out.txt 2>err.txt || fail "a traced run"
grep -q "^lockstep: info: tensor_tracer: replica 0: '.*' norm = [0-9]" err.txt ||
  fail "no traced tensors"

exit $failed
