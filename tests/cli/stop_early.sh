#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --stop-early: when a run ends, what it writes and keeps, the
# same step after each resumption, and --test-steps.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs ./*.csv

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  "$lockstep" train --run-dir "runs/$name" "$@" >out.txt 2>err.txt ||
    fail "train $*"
}
# tests RUN: its lines of evaluations without times.
tests() {
  grep test_loss "runs/$1/metrics.jsonl" | sed 's/,"seconds".*//'
}
# numbers NAME RUN: the values of a member of its evaluations, in one line.
numbers() {
  grep test_loss "runs/$2/metrics.jsonl" |
    sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" | tr '\n' ' '
}

# rows FILE SEED COUNT: rows of 16 numbers and a label, all drawn: a label that
# cannot be learnt lets the loss on the test set grow.
rows() {
  awk -v x="$2" -v count="$3" 'BEGIN {
    for (row = 0; row < count; ++row)
      for (i = 0; i < 17; ++i) {
        x = (x * 16807) % 2147483647
        printf i < 16 ? "%.3f," : "%d\n", i < 16 ? x / 2147483647 : x % 4
      }
  }' >"$1"
}
rows train.csv 1 160
rows test.csv 2 80
epoch=10 # Steps.
tiny="--model tiny --data train.csv --test test.csv --batch-size 16
      --learning-rate 1 --schedule constant --epochs 40"
# shellcheck disable=SC2086
trains first $tiny --stop-early test_loss --patience 2
# The rule, computed from the lines: the best so far, and epochs since then.
tests first | awk -F '[:,]' '{
  value = $6
  if (NR == 1 || value < best) { best = value; at = $2; waited = 0 }
  else ++waited
  line = "\"best_step\":" at ",\"waited\":" waited
  if (index($0, line) == 0) exit 1
  over = index($0, "\"stopped_early\":true") > 0
  if (over != (waited == 2)) exit 1
} END { if (!over) exit 1 }' || { tests first; fail "the count is wrong"; }
steps=$(numbers step first | wc -w)
[ "$steps" -lt 40 ] || fail "the run does not end"
best=$(numbers best_step first | awk '{print $NF}')
grep -qE "^lockstep train: stopped early after [0-9]+ steps in .*: test_loss was best at step $best, " err.txt ||
  fail "the end is not told"
[ -s "runs/first/model.ckpt-$best.safetensors" ] || fail "the best is not kept"
grep -qF '"keep_best":"test_loss","keep_every_hours":0,"stop_early":"test_loss","patience":2,"min_delta":0' \
  runs/first/config.json || fail "config.json lacks the rule"

# Resumed at any step, it ends at the same one, with the same lines and bytes.
last=$(numbers step first | awk '{print $NF}')
for stop in 1 $epoch $((last - 1)); do
  rm -rf runs/cut
  # shellcheck disable=SC2086
  trains cut $tiny --stop-early test_loss --patience 2 --steps "$stop" --quiet
  "$lockstep" train --resume runs/cut --epochs 40 --quiet >out.txt 2>err.txt ||
    fail "resume at $stop"
  tests first >first.txt
  # A run that ended within an epoch has an evaluation there.
  tests cut >cut.txt
  if [ $((stop % epoch)) = 0 ]; then
    cmp -s first.txt cut.txt || fail "resumed at $stop: other lines"
    cmp -s runs/first/model.safetensors runs/cut/model.safetensors ||
      fail "resumed at $stop: another model"
  fi
done
# One that was killed resumes without an evaluation within an epoch.
rm -rf runs/cut
# shellcheck disable=SC2086
trains cut $tiny --stop-early test_loss --patience 2 --keep 0 \
  --save-every-steps 7 --quiet
for file in runs/cut/model.ckpt-*.json; do
  step=${file##*-}
  step=${step%.json}
  [ $((step % 7)) = 0 ] || [ "$step" = $((2 * epoch)) ] || continue
  rm -rf runs/on
  trains on --resume "runs/cut@$step" --quiet
  tests first | sed -n "$(((step + epoch - 1) / epoch)),\$p" >first.txt
  tests on >cut.txt
  cmp -s first.txt cut.txt || fail "from step $step: other lines"
  cmp -s runs/first/model.safetensors runs/on/model.safetensors ||
    fail "from step $step: another model"
done

# eval, predict and export use the best by its name.
wanted=$(grep "\"step\":$best,\"epoch\"" runs/first/metrics.jsonl |
  sed -n 's/.*"test_loss":\(.\{6\}\).*/\1/p')
for name in runs/first@best "runs/first@$best" "runs/first/model.ckpt-$best.safetensors"; do
  "$lockstep" eval "$name" --json >out.txt 2>err.txt || fail "eval $name"
  grep -qF "\"loss\":$wanted" out.txt || fail "eval $name is not $wanted"
done
"$lockstep" predict "runs/first@$best" >best.txt 2>err.txt || fail "predict"
"$lockstep" predict runs/first >out.txt 2>err.txt || fail "predict"
! cmp -s best.txt out.txt || fail "the best predicts what the last does"
"$lockstep" export "runs/first@$best" >out.txt 2>err.txt || fail "export"
[ "$(tail -n 1 err.txt)" = "" ] && [ -d "$(cat out.txt)" ] || fail "no export"
ends 1 "'runs/first' has no checkpoint of step 3; it has 10, " \
  eval runs/first@3
for name in runs/first runs/first@last; do
  "$lockstep" eval $name >"$(basename $name).txt" 2>err.txt || fail "eval $name"
done
cmp -s first.txt first@last.txt || fail "@last is not the last"

# Resumed as it is, it has ended; with more patience it goes on.
"$lockstep" train --resume runs/first --quiet >out.txt 2>err.txt ||
  fail "resume an ended run"
[ "$(numbers step first | wc -w)" = "$steps" ] || fail "an ended run goes on"
"$lockstep" train --resume runs/first --patience 4 --quiet >out.txt 2>err.txt ||
  fail "resume with patience"
[ "$(numbers step first | wc -w)" -gt "$steps" ] || fail "patience is ignored"

# What is better: higher accuracies, higher losses, gains above --min-delta.
# shellcheck disable=SC2086
{
  trains accuracy $tiny --stop-early test_accuracy --patience 1 --quiet
  trains high $tiny --stop-early test_loss:max --patience 1 --epochs 6
  trains delta $tiny --stop-early test_loss --min-delta 100 --patience 1 --quiet
  trains default $tiny --stop-early test_loss --min-delta 100 --quiet
}
sed -n 's/.*"test_accuracy":\([^,]*\),"best_step":\([0-9]*\),"waited":\([0-9]*\).*/\1 \2 \3/p' \
  runs/accuracy/metrics.jsonl | awk '{
    if (NR == 1 || $1 > best) { best = $1; waited = 0 } else ++waited
    if ($3 != waited) exit 1
  }' || fail "a higher accuracy is not better"
[ "$(numbers waited high | cut -c 1-2)" = "0 " ] || fail "the first is not best"
[ "$(numbers waited delta)" = "0 1 " ] || fail "--min-delta is ignored"
[ "$(numbers waited default)" = "0 1 2 3 " ] || fail "patience is not 3"
# --keep-best may be another.
# shellcheck disable=SC2086
trains other $tiny --stop-early test_loss --keep-best test_accuracy --epochs 1 \
  --quiet
grep -qF '"keep_best":"test_accuracy"' runs/other/config.json ||
  fail "--keep-best is ignored"
# The first of the highest accuracies is the best.
# shellcheck disable=SC2086
trains high-kept $tiny --keep-best test_accuracy --epochs 6 --keep 0 \
  --save-every-steps $epoch --quiet
wanted=$("$lockstep" checkpoint list runs/high-kept |
  sed -n 's/^ *\([0-9]*\).*test_accuracy=\([^ ]*\).*/\2 \1/p' |
  sort -k 1,1nr -k 2,2n | sed -n '1s/.* //p')
"$lockstep" eval "runs/high-kept@$wanted" >wanted.txt 2>err.txt || fail "eval"
"$lockstep" eval runs/high-kept@best >out.txt 2>err.txt || fail "eval @best"
cmp -s wanted.txt out.txt || fail "@best is not step $wanted"
"$lockstep" train --resume runs/high-kept@best --run-dir runs/high-on --quiet \
  --epochs 8 >out.txt 2>err.txt || fail "resume @best"
# One that is damaged, of a step that is not the best, is passed over.
other=$epoch
[ "$other" != "$wanted" ] || other=$((2 * epoch))
: >"runs/high-kept/model.ckpt-$other.json"
"$lockstep" eval runs/high-kept@best >out.txt 2>err.txt || fail "eval @best: damage"
cmp -s wanted.txt out.txt || fail "@best is not step $wanted, beside a damaged one"
# A new run begins with the best.
for from in "@$wanted" @best "/model.ckpt-$wanted"; do
  rm -rf runs/warm
  # shellcheck disable=SC2086
  trains warm $tiny --epochs 1 --quiet --warm-start "runs/high-kept$from"
  [ "$from" = "@$wanted" ] || cmp -s first runs/warm/model.safetensors ||
    fail "--warm-start RUN$from begins elsewhere"
  cp runs/warm/model.safetensors first
done
# shellcheck disable=SC2086
trains plain $tiny --epochs 1 --quiet
ends 1 "has no best checkpoint: it was trained without" eval runs/plain@best
# shellcheck disable=SC2086
trains estimator $tiny --estimator --keep-best loss --steps 8 --quiet
ends 2 "is no model's run, of which alone @best is found" \
  eval --estimator --model tiny runs/estimator@best
# Ranks, replicas and loops of steps end at the same step.
# shellcheck disable=SC2086
trains loops $tiny --stop-early test_loss --patience 2 --replicas 2 \
  --iterations-per-loop 7 --quiet
# shellcheck disable=SC2086
trains replicas $tiny --stop-early test_loss --patience 2 --replicas 2 --quiet
tests loops >first.txt
tests replicas >cut.txt
cmp -s first.txt cut.txt || fail "loops end elsewhere"

# --test-steps: so many batches of the test set.
trains few --model tiny --data synthetic --steps 4 --test-steps 2 --quiet
trains all --model tiny --data synthetic --steps 4 --quiet
[ "$(numbers test_loss few)" != "$(numbers test_loss all)" ] ||
  fail "--test-steps is ignored"
grep -qF '"test_steps":2,' runs/few/config.json || fail "no test_steps"
ends 2 "--test-steps is '3', the run in 'runs/few' has '2'" \
  train --resume runs/few --test-steps 3

ends 2 "--stop-early is 'loss', expected test_loss, test_accuracy or test_mae" \
  train --stop-early loss
ends 2 "--stop-early is 'test_loss:down', expected test_loss, test_accuracy or test_mae" \
  train --stop-early test_loss:down
ends 2 "--patience is for --stop-early" train --patience 3
ends 2 "--min-delta is for --stop-early" train --min-delta 3
ends 2 "--patience is '0', expected a whole number from 1 on" train --patience 0
ends 2 "--min-delta is '-1', expected a number above 0" train --min-delta -1
rm -rf runs/none
awk 'BEGIN { for (i = 0; i < 20; ++i) { for (k = 0; k < 16; ++k)
  printf "%d.5,", i * k; print i % 3 } }' >numbers.csv
ends 2 "--stop-early needs a test, and --test none makes none" train --model tiny \
  --data numbers.csv --test none --stop-early test_loss --quiet

exit $failed
