#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --stop-early and --keep-best of estimators: a training ends by
# its evaluations, at the same step and with the same bytes after a resumption
# and on cores; the best checkpoint is kept.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs e.so ./*.csv
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  "$lockstep" train --run-dir "runs/$name" "$@" >out.txt 2>err.txt ||
    fail "train $*"
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
# ended NAME: the last step, and that of the best evaluation, as is told.
ended() {
  sed -n 's/.*early after \([0-9]*\) steps: test_loss was best at step \([0-9]*\), .*/\1 \2/p' \
    err.txt
}
# same A B STEP: the checkpoints of two runs.
same() {
  cmp -s "runs/$1/model.ckpt-$3.safetensors" \
    "runs/$2/model.ckpt-$3.safetensors" || fail "$2 has other bytes than $1"
}

rows train.csv 1 160
rows test.csv 2 80
epoch=10 # Steps.
tiny="--estimator --model tiny --data train.csv --test test.csv --batch-size 16
      --learning-rate 1 --epochs 40 --keep 1"
rule="--stop-early test_loss --patience 2"
# shellcheck disable=SC2086
trains first $tiny $rule
last=$(ended | cut -d ' ' -f 1)
best=$(ended | cut -d ' ' -f 2)
[ "$last" = $((best + 2 * epoch)) ] && [ "$last" -lt $((40 * epoch)) ] ||
  fail "it ended after step $last, best at $best"
grep -q '^loss: ' out.txt || fail "the last evaluation is not printed"
for step in $best $last; do
  [ -s "runs/first/model.ckpt-$step.safetensors" ] || fail "no step $step"
done
[ "$(ls runs/first/model.ckpt-*.json | wc -l)" = 2 ] || fail "others are kept"
value=$(sed -n 's/.*best at step [0-9]*, \([0-9.]*\);.*/\1/p' err.txt)
"$lockstep" eval "runs/first@$best" --json >out.txt 2>err.txt || fail "eval best"
grep -qF "\"loss\":$(echo "$value" | cut -c 1-6)" out.txt ||
  fail "the best has not $value"
grep -q '"stop_early": "test_loss"' runs/first/estimator.json ||
  fail "estimator.json lacks the rule"

# Resumed at any step, it ends at the same one with the same bytes.
for stop in 3 $epoch $((last - 1)); do
  rm -rf runs/cut
  # shellcheck disable=SC2086
  trains cut $tiny $rule --steps "$stop" --quiet
  "$lockstep" train --resume runs/cut --epochs 40 >out.txt 2>err.txt ||
    fail "resume at $stop"
  [ $((stop % epoch)) != 0 ] || [ "$(ended)" = "$last $best" ] ||
    fail "resumed at $stop: ends elsewhere"
done
# A training that was killed before its evaluation makes that first.
rm -rf runs/cut
# shellcheck disable=SC2086
trains cut $tiny $rule --steps $((2 * epoch)) --quiet
rm "runs/cut/eval/$(find runs/cut/eval -name 'events*' | sort | tail -n 1 |
  sed 's:.*/::')"
"$lockstep" train --resume runs/cut --epochs 40 >out.txt 2>err.txt ||
  fail "resume without evaluations"
[ "$(ended)" = "$last $best" ] || fail "without an evaluation: ends elsewhere"
same first cut "$last"
# So does a run that branches off from a step after the best one.
# shellcheck disable=SC2086
trains all $tiny $rule --keep 0 --quiet
"$lockstep" train --resume "runs/all@$((best + epoch))" --run-dir runs/branch \
  --epochs 40 >out.txt 2>err.txt || fail "branch"
[ "$(ended)" = "$last $best" ] || fail "a branch ends elsewhere: $(ended)"
same first branch "$last"
# Resumed as it is, it has ended; with more patience it goes on.
"$lockstep" train --resume runs/first --epochs 40 >out.txt 2>err.txt ||
  fail "resume an ended run"
[ "$(ended)" = "$last $best" ] || fail "an ended run goes on"
"$lockstep" train --resume runs/first --epochs 40 --patience 3 >out.txt \
  2>err.txt || fail "resume with patience"
wanted=$(ended)
# shellcheck disable=SC2086
trains patient $tiny $rule --patience 3
[ "$(ended)" = "$wanted" ] && [ "${wanted% *}" -gt "$last" ] ||
  fail "--patience is ignored: $wanted"

# On cores evaluations are between parts of the training.
line="--model e.so:line --save-every-steps 5 --steps 40"
for way in "--replicas 4" "--tpu virtual:2x2"; do
  name=${way##*[ :]}
  # shellcheck disable=SC2086
  trains "$name" $line $way --stop-early test_loss:max --patience 2
  grep -q "early after 15 steps: test_loss:max was best at step 5" err.txt ||
    fail "$way does not end"
done

# So many batches as the test set has, the last one shorter, are evaluated.
rows other.csv 3 37
# shellcheck disable=SC2086
trains whole $tiny --test other.csv --tpu virtual:2x2 --eval-every 60 --steps 4
"$lockstep" eval runs/whole >eval.txt 2>err.txt || fail "eval"
grep accuracy out.txt >train.txt
grep accuracy eval.txt | cmp - train.txt || fail "another accuracy on cores"

# Metrics of a library's estimator are its own.
# shellcheck disable=SC2086
{
  trains line $line --stop-early test_accuracy --min-delta 2 --patience 1
  grep -q "early after 10 steps: test_accuracy was best at step 5" err.txt ||
    fail "--min-delta is ignored"
  trains kept $line --keep 1 --keep-best test_loss:max
  [ -s runs/kept/model.ckpt-5.safetensors ] || fail "--keep-best is ignored"
  ends 2 "--stop-early is 'loss', expected test_loss" train $line \
    --stop-early loss
  ends 2 "compared by loss or by their evaluations, as by test_loss" train \
    $line --keep-best accuracy
  trains best $line --keep 1 --keep-best loss --param rate=30
  [ -s runs/best/model.ckpt-35.safetensors ] &&
    [ ! -e runs/best/model.ckpt-30.safetensors ] ||
    fail "--keep-best loss: $(ls runs/best)"
  ends 2 "--patience is for --stop-early" train $line --patience 2
}
for word in test_f1 test_f1:max; do
  # shellcheck disable=SC2086
  "$lockstep" train $line --stop-early $word --quiet >out.txt 2>err.txt &&
    fail "--stop-early $word"
done
grep -q "the evaluation has no metric 'f1'; it has accuracy, loss" err.txt ||
  fail "test_f1:max"

exit $failed
