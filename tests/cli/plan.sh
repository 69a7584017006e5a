#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep plan: memory, time and disk of a run, and refusals before its first
# step.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
libraries=${LS_BUILD_DIR:?}/tests/cli/libraries

plan() {
  "$lockstep" plan "$@" >out.txt 2>err.txt || fail "lockstep plan $*"
}
shows() {
  grep -qxE -- "$1" out.txt || fail "no line: $1"
}
# refuses CODE WANTED ARGUMENT...: with this last line on standard error.
refuses() {
  wanted_code=$1
  wanted=$2
  shift 2
  "$lockstep" plan "$@" >out.txt 2>err.txt
  code=$?
  [ "$code" = "$wanted_code" ] && tail -n 1 err.txt | grep -qE -- "$wanted" ||
    fail "lockstep plan $*: code $code, wanted $wanted_code and: $wanted"
}
# field NAME: a number of the line of JSON.
field() {
  sed -n "s/.*\"$1\":\\([^,}]*\\).*/\\1/p" out.txt
}
size='[0-9.]+ [KMG]?i?B'

plan cnn --data synthetic --batch-size 16 --replicas 2 --no-steps --keep 3 \
  --save-every-steps 10
shows 'cnn, 2 replicas, f32, batch of 16'
shows '  parameters  6.20 MiB'
shows '  optimizer   12.4 MiB'
shows "  peak +$size  the sum"
shows "  available +$size"
shows '  checkpoint  18.6 MiB'
shows '  kept +3  and one being written'
shows '  most +80\.[67] MiB'
shows "  free +$size"
grep -q '^time' out.txt && fail "times without steps"

# The best checkpoint of --stop-early is kept besides.
plan tiny --data synthetic --no-steps --steps 900 --keep 2 \
  --save-every-steps 10 --stop-early test_loss --patience 4
shows '  kept +3  and one being written'

# Times are measured; all flags of train are known.
plan tiny --data synthetic --steps 50 --seed 3 --quiet --optimizer adam
shows 'time'
shows '  step +[0-9.e-]+ ms +measured here, mean of [0-9]+'
shows '  run +[0-9.e-]+ m?s +of 50 steps'
[ -e runs ] && fail "a plan makes a run folder"

# A batch that is not given is at most all examples.
awk 'BEGIN {
  print "a,b,label"
  for (i = 0; i < 40; ++i)
    print i / 10 "," i % 3 / 10 "," i % 2
}' >rows.csv
plan mlp --data rows.csv --no-steps
shows 'mlp, 1 replica, f32, batch of 36'

# The last batch of an epoch is smaller; the save at the end is the last
# epoch's.
set -- --data rows.csv --epochs 4 --batch-size 25 --keep 0 --keep-best test_loss
rm -rf run
plan mlp "$@" --json
"$lockstep" train --model mlp "$@" --run-dir run --quiet >/dev/null 2>err.txt ||
  fail "no run"
saved=$(find run -name 'model.ckpt-*.json' | wc -l)
[ "$saved" = 4 ] || fail "a run of 4 epochs with $saved checkpoints"
[ "$(field checkpoints)" = 4 ] || fail "not the checkpoints of a run"

# As JSON. A larger batch and evaluations need more memory.
plan mlp --data synthetic --batch-size 64 --no-steps --json --test none
[ "$(wc -l <out.txt)" = 1 ] || fail "more than one line of JSON"
[ "$(field evaluation_bytes)" = 0 ] || fail "an evaluation without a test set"
[ "$(field parameter_bytes)" = 2678824 ] || fail "other parameters"
[ "$(field step_seconds)" = null ] || fail "a time without steps"
least=$(field step_bytes)
plan mlp --data synthetic --batch-size 64 --no-steps --json --test none \
  --gradient-norm
[ "$(field step_bytes)" = $((least + 2678824)) ] || fail "no norm in the plan"
plan mlp --data synthetic --batch-size 512 --no-steps --json
[ "$(field step_bytes)" -gt "$least" ] || fail "a larger batch needs no more"
[ "$(field evaluation_bytes)" -gt 1000000 ] || fail "no evaluation"
plan "$libraries/mine.so" --data synthetic --no-steps
shows '  parameters +272 B'

# An estimator's: no epochs, no evaluation, a checkpoint of step 0.
plan "$libraries/estimators.so:line" --param width=100000 --steps 20 \
  --save-every-steps 10 --json
[ "$(field parameter_bytes)" = 8400016 ] || fail "an estimator's parameters"
[ "$(field optimizer_bytes)" = 16800048 ] || fail "an estimator's optimizer"
[ "$(field checkpoints)" = 3 ] || fail "an estimator's checkpoints"
[ "$(field epoch_seconds)" = null ] || fail "an epoch of unknown data"
[ "$(field run_seconds)" != null ] || fail "no time of an estimator's run"
plan "$libraries/estimators.so:line" --no-steps
shows '  kept +5  and one being written'
grep -q '^  \(epoch\|evaluation\|model\) ' out.txt && fail "a model's rows"
# Replicas of an estimator have variables each.
plan "$libraries/estimators.so:line" --param width=100000 --no-steps \
  --replicas 3
shows '  parameters  8.01 MiB'
shows '  replicas    48.1 MiB  variables of the others'
plan "$libraries/estimators.so:line" --no-steps --replicas 3 --json
[ "$(field replicas_bytes)" = \
  $((2 * ($(field parameter_bytes) + $(field optimizer_bytes)))) ] ||
  fail "replicas of an estimator are not counted"
plan tiny --data synthetic --no-steps --replicas 3 --json
[ "$(field replicas_bytes)" = 0 ] || fail "a model's replicas have variables"
plan "$libraries/estimators.so:fixed" --no-steps
shows '.*:fixed, 1 replica, f32, batch of 32'
refuses 1 "gives a batch of 32" "$libraries/estimators.so:fixed" \
  --batch-size 512 --no-steps

# On a narrow terminal. Needs script, from util-linux.
if command -v script >/dev/null; then
  TERM=xterm script -qec "stty cols 40; '$lockstep' plan tiny --data \
    synthetic --no-steps" typescript </dev/null >out.txt 2>err.txt ||
    fail "a plan on a terminal fails"
  tr -d '\r' <out.txt | grep -E '.{41}' && fail "wider than 40 columns"
  grep -q '^  available ' out.txt || fail "a narrow plan lacks a row"
fi

# The flags of a run, of which the operand replaces the model.
"$lockstep" train --model mlp --data synthetic --batch-size 12 --steps 1 --quiet --overwrite \
  --run-dir run >out.txt 2>err.txt || fail "no run"
"$lockstep" plan mlp --config run/config.json --no-steps >out.txt 2>err.txt ||
  fail "a plan with the flags of a run"
grep -q '^mlp, 1 replica, f32, batch of 12$' out.txt || fail "not those flags"
line=$libraries/estimators.so:line
"$lockstep" train --model "$line" --steps 1 --batch-size 16 --quiet --overwrite \
  --run-dir line >out.txt 2>err.txt || fail "no run of an estimator"
plan "$line" --config line/estimator.json --no-steps
shows '.*:line, 1 replica, f32, batch of 16'
refuses 2 "'line/estimator.json' is for the estimator \"line\", this is for fixed" \
  "$libraries/estimators.so:fixed" --config line/estimator.json
refuses 2 "is for the estimator \"line\", this is no estimator" \
  mlp --config line/estimator.json
echo '{"batch_sise":12}' >flags.json
refuses 2 "^lockstep plan: 'flags.json' has \"batch_sise\", which is no flag" \
  mlp --config flags.json

# Refusals: memory, with a batch size that fits, and disk, before any step.
if [ -z "$sanitized" ]; then
  (
    ulimit -v 800000
    refuses 1 'needs .* of memory, of which .* available: --batch-size [0-9]+ would fit' \
      cnn --data synthetic --batch-size 4096 --test none
    exit $failed
  ) || failed=1
  shows '  peak .*'
  grep -q '^time' out.txt && fail "steps were run in spite of the refusal"
fi
if [ -d /proc/self ]; then
  refuses 1 'needs .* of disk, of which 0 B are free: give another --run-dir' \
    tiny --data synthetic --run-dir /proc/none/run --no-steps
fi
refuses 2 '^lockstep plan: --resume: a run that goes on is not planned' \
  tiny --resume run
refuses 2 "^lockstep plan: --tpu: " tiny --tpu virtual:2x2
refuses 2 "^lockstep plan: --seeds: " tiny --seeds 2
refuses 2 "^lockstep plan: --find-lr: " tiny --find-lr
refuses 2 "^lockstep plan: --stop-early and --keep-best: " \
  "$libraries/estimators.so:line" --stop-early test_loss
refuses 2 "MODEL is missing" --data synthetic
refuses 1 "but the data have 8192 examples" tiny --data synthetic \
  --batch-size 9000

exit $failed
