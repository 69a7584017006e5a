#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep show: curves of runs in any width, with and without a terminal; runs
# that are damaged, empty, or go on meanwhile.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run estimated made empty other
escape=$(printf '\033')

# shows WANTED ARGUMENT...: with code 0, and WANTED in what is printed.
shows() {
  wanted=$1
  shift
  "$lockstep" show "$@" >out.txt 2>err.txt && grep -qF -- "$wanted" out.txt ||
    fail "lockstep show $*: wanted: $wanted"
}

# narrow COLUMNS FILE: no line is longer.
narrow() {
  LC_ALL=C.UTF-8 grep ".\{$(($1 + 1)),\}" "$2" >long.txt &&
    fail "lines of more than $1 columns"
}

# ---- A real run --------------------------------------------------------------
"$lockstep" train --model tiny --data synthetic --epochs 2 --run-dir run \
  --quiet >out.txt 2>err.txt || fail "a run fails"
shows "run: complete, step 2048 of 2048 (100%), epoch 2, time 0:0" run
grep -q "tiny on synthetic, batch size 8, learning rate 0.1 linear" out.txt ||
  fail "no configuration"
grep -q "^\* loss 0\.[0-9]*  o test_loss 0\.[0-9]*$" out.txt || fail "no loss"
grep -q "^learning_rate " out.txt || fail "no learning rate"
grep -q " ms per step, compute " out.txt || fail "no time of a step"
grep -q "$escape" out.txt && fail "escapes into a pipe"
for width in 24 40 80 160; do
  shows "loss" run --width $width
  narrow $width out.txt
done
shows "test_accuracy" run --metric '*accuracy'
grep -q "learning_rate" out.txt && fail "a metric that is not wanted"
shows '"state":"complete","step":2048,"epoch":2,"total_steps":2048,' run --json
shows "run	2048	test_loss	0." run --table
shows "run: complete, " run --live

# ---- An estimator's folder ---------------------------------------------------
"$lockstep" train --model tiny --estimator --data synthetic --steps 300 \
  --run-dir estimated >out.txt 2>err.txt || fail "an estimator fails"
shows "tiny on synthetic, batch size 8, seed 0" estimated --metric loss
grep -q "^loss 0\.[0-9]*$" out.txt || fail "no loss of an estimator"

# ---- Runs made by hand: 40 lines and garbage ---------------------------------
for name in made other; do
  mkdir $name
  echo '{"model":"my \"net\"","data":"<data>","batch_size":32,"epochs":0,"steps":500,"learning_rate":0.5}' \
    >$name/config.json
  awk 'BEGIN { for (i = 1; i <= 40; ++i)
    printf "{\"step\":%d,\"epoch\":1,\"loss\":%g,\"steps\":10,\"examples_per_second\":100,\"seconds\":%d}\n", i * 10, 5 / i, i }' \
    >$name/metrics.jsonl
done
{
  echo 'garbage'
  echo '{"step":410,"loss":null,"steps":10}'
  echo '{"step":420,"loss":1e999,"steps":10}'
  echo '{"step":'
  echo '[1]'
  printf '{"step":430,"loss":1'
} >>made/metrics.jsonl
shows 'my "net" on <data>, batch size 32, learning rate 0.5, seed 0' made
grep -qF "made: ended, 3 lines of metrics.jsonl cannot be read, step 420 of 500 (84%)," \
  out.txt || fail "no progress, or no garbage"
grep -q "^loss nan$" out.txt || fail "the last loss is NaN"
shows '"loss":{"last":null,"best":0.125,"best_step":400,"values":42,"missing":2}' \
  made --json
shows "0.316+" other --log --metric loss
# The curve falls from the upper left to the lower right.
shows "loss 0.125" other --metric loss
awk '/\*/ { column = index($0, "*"); if (column < before) bad = 1
            before = column; ++rows }
     END { exit bad || rows < 5 }' out.txt || fail "the curve does not fall"
shows "loss  * nan  o 0.125" made other
grep -q "^o other: ended" out.txt || fail "runs have no signs"
mkdir empty
echo '{}' >empty/config.json
shows "empty: empty, no line of metrics yet" empty
: >empty/metrics.jsonl
shows "unknown model on unknown data" empty
rm empty/config.json
shows "no configuration (config.json is missing)" empty

# Zeros of a crash do not end the file; metrics are known by long parts of their
# names, or whole words; steps may take seconds, and names may be anything.
{
  printf '{"step":10,"previous_loss":5,"test_mae":5,"x_iou":5,"a\177b":1}\n'
  printf '\0\0{"step":15,"previous_loss":1}\n'
  printf '{"step":20,"previous_loss":4,"test_mae":6,"x_iou":6,"steps":10,"valloss":3,"accuracy5":2,"budget":{"whole":12.345}}\n'
} >empty/metrics.jsonl
shows '"state":"ended","step":20,' empty --json
for best in '"previous_loss":{"last":4,"best":4,' '"test_mae":{"last":6,"best":5,' \
            '"x_iou":{"last":6,"best":6,' '"garbage_lines":1,' \
            '"valloss":{"last":3,"best":3,' '"accuracy5":{"last":2,"best":2,'; do
  grep -qF "$best" out.txt || fail "wanted: $best"
done
shows "1.23 s per step" empty
shows "empty	10	a?b	1" empty --table
rm empty/metrics.jsonl

# ---- Refused -----------------------------------------------------------------
ends 1 "'empty' is no run folder: it has neither config.json nor metrics.jsonl, nor event files" \
  show empty
ends 1 "'nowhere' is no run folder" show nowhere
for flag in "" --json --table --live; do
  # shellcheck disable=SC2086
  ends 1 "there is no metric 'los' in 'run'; there are: loss, accuracy" show \
    run --metric los $flag
done
ends 2 "--log is for charts, not for --json" show run --log --json
ends 2 "--width is for charts, not for --table" show run --width 50 --table
ends 2 "--live, --json and --table exclude one another" show run --live --json
ends 2 "RUN... is missing" show

# ---- A run that goes on ------------------------------------------------------
rm -rf run
"$lockstep" train --model tiny --data synthetic --steps 100000000 --quiet \
  --run-dir run >train.txt 2>&1 &
train=$!
waits_for test -s run/metrics.jsonl
shows "run: running, step " run --metric loss
grep -qF ", eta " out.txt || fail "no time left"
"$lockstep" show run --live --metric loss >live.txt 2>err.txt &
live=$!
waits_for grep -q "running, step .*, loss " live.txt
kill -INT $live
wait $live
[ $? = 130 ] && [ ! -s err.txt ] || fail "a signal does not end it"
"$lockstep" show run --live --metric loss >live.txt 2>err.txt &
live=$!
waits_for grep -q "running, step .*, loss " live.txt
kill -INT $train
wait $train
wait $live || fail "it does not end with the run"
tail -n 1 live.txt | grep -q "^run: ended, step .* of 100000000 (" ||
  { cat live.txt; fail "the end of the run is not shown"; }

# ---- Many metrics, with long names -------------------------------------------
# many COUNT: a run with so many metrics in a line
many() {
  rm -rf many
  cp -r other many
  awk -v name=$long -v count="$1" 'BEGIN {
    printf "{\"step\":1"
    for (i = 0; i < count; ++i) printf ",\"%s%d\":%d", name, i, i
    print "}"
  }' >many/metrics.jsonl
}
long=encoder/block_3/attention/head_7/validation/per_class_recall_of_people
many 100
shows "many	1	${long}99	99" many --table
[ "$(wc -l <out.txt)" = 101 ] || fail "not all metrics"
shows "\"${long}7\":{\"last\":7," many --json
shows "per_class_recall_of_people99 99" many --width 160
many 4097
"$lockstep" show many >out.txt 2>err.txt && fail "garbage is a run"
grep -q "'many' has more than 4096 metrics" err.txt || fail "no reason"

# ---- A terminal --------------------------------------------------------------
command -v script >out.txt || exit $failed

# on_terminal COLUMNS NO_COLOR ARGUMENT...: in a locale of UTF-8.
on_terminal() {
  columns=$1 plain=$2
  shift 2
  NO_COLOR=$plain TERM=xterm LC_ALL=C.UTF-8 script -qec \
    "stty cols $columns rows 40; '$lockstep' show $*" typescript </dev/null \
    >out.txt 2>err.txt || fail "lockstep show on a terminal fails"
  tr -d '\r' <out.txt | sed "s/$escape\[[0-9;?]*[A-Za-z]//g" >lines.txt
}
braille=$(printf '\342\240') axis=$(printf '\342\224\202')
for width in 40 80 160; do
  on_terminal $width 1 other
  grep -q "$escape" out.txt && fail "escapes in spite of NO_COLOR"
  grep -q "$braille" out.txt && grep -q "$axis" out.txt || fail "no dots"
  narrow $width lines.txt
done
# Characters that take two columns.
wide=$(printf '\346\225\260%.0s' 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21)
rm -rf "$wide"
cp -r other "$wide"
on_terminal 40 1 "$wide"
grep -q "$wide" lines.txt && fail "a line of more than 40 columns"
grep -q "^${wide%???}\$" lines.txt || fail "no line of 40 columns"
on_terminal 80 "" other made
grep -q "$escape\[0;36m" out.txt && grep -q "$escape\[0;33m" out.txt ||
  fail "no colors"
on_terminal 80 "" other --live
grep -q "$escape\[?25l" out.txt && grep -q "$escape\[?25h" out.txt ||
  fail "the cursor is not hidden, or not shown again"

exit $failed
