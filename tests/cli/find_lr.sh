#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --find-lr: a table of rates and losses, a suggestion, and no
# run folder.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs held ./*.txt ./*.csv

tiny="--model tiny --data synthetic"
# finds NAME ARGUMENT...: prints into NAME.txt.
finds() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $tiny "$@" >out.txt 2>err.txt || fail "train $*"
  [ ! -s err.txt ] || fail "train $* says more"
  cp out.txt "$name.txt"
}
finds own --find-lr
[ "$(wc -l <own.txt)" = 22 ] || fail "no table of 20 rows"
grep -qE '^ 1\.00e-06 +[0-9]+\.[0-9]{4}  #+$' own.txt || fail "no first row"
# Rows grow by the same factor.
awk 'NR > 2 && NF == 3 && $1 ~ /e/ {
  if (last > 0 && ($1 / last < 2.2 || $1 / last > 2.3)) exit 1
  last = $1
}' own.txt || fail "rates do not grow exponentially"
suggested=$(sed -n 's/^suggestion: --learning-rate \([^,]*\), a tenth of .*/\1/p' own.txt)
awk -v rate="$suggested" 'BEGIN { exit !(rate > 0.01 && rate < 1) }' ||
  fail "the suggestion is '$suggested'"
[ ! -e runs ] || fail "a run is left"
# The suggestion is the flag.
# shellcheck disable=SC2086
"$lockstep" train $tiny --learning-rate "$suggested" --steps 400 --run-dir runs/1 \
  --quiet >out.txt 2>err.txt || fail "the suggestion cannot be used"
awk '{ exit !($3 > 0.8) }' out.txt || fail "the suggestion does not learn"

# The same numbers on any number of threads, replicas of a batch aside.
finds threads --find-lr --threads 3
cmp -s own.txt threads.txt || fail "threads change the losses"
finds loops --find-lr --iterations-per-loop 8
cmp -s own.txt loops.txt || fail "loops change the losses"

# A model of the library as an estimator leaves no run either.
finds estimator --estimator --find-lr --steps 60
[ "$(wc -l <estimator.txt)" = 22 ] && grep -q '^suggestion: ' estimator.txt ||
  fail "no table of an estimator"
! ls -d steps-* runs/tiny-1 >out.txt 2>err.txt || fail "a folder is left"
finds cores --estimator --find-lr --steps 60 --tpu virtual:1x1
cmp -s estimator.txt cores.txt || fail "cores change the losses"
finds estimator --estimator --find-lr=1e20:1e30
grep -q '^no rate lowers the loss' estimator.txt || fail "a high range is good"

# Examples that are held out are not used; one that is used and no number ends
# the test, as a high rate does.
awk 'BEGIN { for (i = 0; i < 60; ++i) {
  for (k = 0; k < 16; ++k) printf "%g,", (i * 7 + k * k) % 10 / 10
  print i % 3 } }' >rows.csv
"$lockstep" train --model tiny --data rows.csv --steps 1 --quiet \
  --run-dir held >out.txt 2>err.txt || fail "train held"
"$lockstep" predict held >predicted.txt 2>err.txt || fail "predict held"
sed 's/.*"row":\([0-9]*\)}/\1/' predicted.txt >held.txt
held=$(head -n 1 held.txt)
used=$(seq 0 59 | grep -vxFf held.txt | head -n 1)
rm -rf held
# finds_nan ROW COUNT: the losses are no number COUNT times if that row has NaN.
finds_nan() {
  awk -v row="$1" 'NR == row + 1 { sub(/^[^,]*/, "nan") } { print }' rows.csv >nan.csv
  for kind in "" --estimator; do
    # shellcheck disable=SC2086
    "$lockstep" train --model tiny --data nan.csv --find-lr --steps 60 $kind \
      >out.txt 2>err.txt || fail "find-lr of row $1"
    [ "$(grep -c '^the loss is no number at ' out.txt)" = "$2" ] || fail "row $1"
  done
}
finds_nan "$held" 0
finds_nan "$used" 1
finds split --find-lr --data rows.csv --split 0.5
ends 1 "there is no file or folder 'nosuch.csv'" train --model tiny \
  --data rows.csv --test nosuch.csv --find-lr
# A run's configuration is that of its model and data.
"$lockstep" train --model tiny --data rows.csv --epochs 1 --optimizer adam \
  --learning-rate 0.01 --stop-early test_loss --events --quiet --run-dir held \
  >out.txt 2>err.txt || fail "train held"
finds flags --find-lr --data rows.csv --optimizer adam
"$lockstep" train --find-lr --config held/config.json >out.txt 2>err.txt ||
  fail "find-lr of a configuration"
cmp -s out.txt flags.txt || fail "a configuration finds another rate"

# Another optimizer and range; rates that are too high end the test.
finds adam --find-lr 1e-4:100 --optimizer adam --steps 60
grep -q '^the loss grows without bound from ' adam.txt || fail "adam goes on"
[ "$(wc -l <adam.txt)" -lt 22 ] || fail "adam is not cut"
finds high --find-lr=1e20:1e30
grep -qF 'no rate lowers the loss: try a lower range, --find-lr 1e+17:1e+20' \
  high.txt || fail "a high range is good"

# Steps of several batches each: as many rates, up to the highest.
finds several --find-lr 1e-4:100 --optimizer adam --accumulate 4
grep -q '^the loss grows without bound from ' several.txt ||
  fail "the highest rates are not reached"
awk 'NR > 2 && NF == 3 && $1 ~ /e/ {
  if (last > 0 && ($1 / last < 1.95 || $1 / last > 2.05)) exit 1
  last = $1
}' several.txt || fail "rates of several batches do not grow exponentially"

for range in 1 1:2:3 1-2 2:1 0:1 -1:1 1:1e999 nan:1 a:b 1e-300:1e300; do
  # shellcheck disable=SC2086
  ends 2 "--find-lr is '$range', expected LOW:HIGH" train $tiny \
    "--find-lr=$range"
done
# shellcheck disable=SC2086
{
  ends 2 "--run-dir cannot be given with --find-lr" train $tiny --find-lr \
    --run-dir runs/x
  ends 2 "--learning-rate cannot be given" train $tiny --find-lr \
    --learning-rate 1
  ends 2 "--schedule cannot be given" train $tiny --find-lr --schedule constant
  for flag in "--epochs 2" --overwrite "--keep 0" "--keep-every-hours 1" \
    "--save-every 3" "--save-every-steps 3" "--checksum 2" --gradient-norm \
    "--check-ranks 2" "--keep-best test_loss"; do
    for kind in "" --estimator; do
      ends 2 "${flag%% *} cannot be given with --find-lr" train $tiny --find-lr \
        $flag $kind
    done
  done
  ends 2 "--test-steps cannot be given" train $tiny --find-lr --test-steps 3
  ends 2 "--eval-every cannot be given" train $tiny --find-lr --estimator \
    --eval-every 9
  ends 2 "--find-spike cannot be given" train $tiny --find-lr --find-spike 20
  ends 2 "needs --steps of 40 or more" train $tiny --find-lr --steps 39 \
    --optimizer sgd --accumulate 4
  ends 2 "needs --steps of 10 or more" train $tiny --find-lr --steps 9
}

exit $failed
