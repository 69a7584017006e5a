#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --normalize: examples with the mean and deviation of the
# training set, kept in config.json, for eval, predict, export, resumption and
# --config.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
images=$(cd "$(dirname "$0")/../images" && pwd)
rm -rf runs served files photos ./*.csv

# rows FILE SEED COUNT [NORMAL]: 16 numbers of sizes that differ by 10^6, whose
# largest relative one is the label; with NORMAL divided by these sizes, and
# shifted.
rows() {
  awk -v x="$2" -v count="$3" -v normal="${4:-0}" 'BEGIN {
    for (i = 0; i < 16; ++i) printf "x%d,", i
    print "label"
    for (row = 0; row < count; ++row) {
      x = (x * 16807) % 2147483647
      label = x % 4
      for (i = 0; i < 16; ++i) {
        x = (x * 16807) % 2147483647
        value = x / 2147483647 + (i % 4 == label) * 0.7
        printf "%.9g,", normal ? value : value * exp(i - 5)
      }
      print label
    }
  }' >"$1"
}
rows raw.csv 1 200
rows test.csv 2 80
cut -d , -f 1-16 test.csv >bare.csv
tiny="--model tiny --batch-size 20 --epochs 6 --schedule constant"
# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --quiet --run-dir "runs/$name" "$@" >out.txt \
    2>err.txt || fail "train $*"
}
trains norm --data raw.csv --test test.csv --normalize
awk '{ exit !($3 > 0.9) }' out.txt || fail "it does not learn"
accuracy=$(sed 's/.*: //' out.txt)
trains raw --data raw.csv --test test.csv --learning-rate 0.0001
awk '{ exit !($3 < 0.8) }' out.txt || fail "it learns without, too"

# The text has what awk computes.
sed -n 's/.*"normalize":"\([^"]*\)".*/\1/p' runs/norm/config.json |
  tr ';' '\n' >found.txt
awk -F , 'NR > 1 {
  for (i = 1; i <= 16; ++i) { sum[i] += $i; squares[i] += $i * $i }
} END {
  count = NR - 1
  for (i = 1; i <= 16; ++i) {
    mean = sum[i] / count
    printf "%.9g,%.9g\n", mean, sqrt(squares[i] / count - mean * mean)
  }
}' raw.csv >wanted.txt
[ "$(wc -l <found.txt)" = 16 ] || fail "not 16 numbers"
paste -d , found.txt wanted.txt | awk -F , '
  function near(a, b) { return a - b <= 1e-4 * b && b - a <= 1e-4 * b }
  { if (!near($1, $3) || !near($2, $4)) { print; exit 1 } }' ||
  fail "the statistics differ"

# eval, predict and export use them: on raw numbers, of any file.
"$lockstep" eval runs/norm --json >out.txt 2>err.txt || fail "eval"
grep -qF "\"accuracy\":$(printf '%.4g' "$accuracy")" out.txt ||
  fail "eval differs from $accuracy"
"$lockstep" predict runs/norm --data bare.csv >out.txt 2>err.txt ||
  fail "predict"
tail -n +2 test.csv | cut -d , -f 17 | paste -d ' ' - out.txt |
  awk -v wanted="$accuracy" '{
    sub(/.*"class":/, "", $2); if ($1 + 0 == $2 + 0) ++right
  } END { part = right / NR; exit !(part - wanted < 1e-3 && wanted - part < 1e-3) }' ||
  fail "predictions are not as accurate as $accuracy"
"$lockstep" export runs/norm --out served >out.txt 2>err.txt || fail "export"
grep -q '^ *%.* = sub' "$(cat out.txt)"/*.ls ||
  fail "the export does not subtract the mean"

# A file's model uses them, too.
trains short --data raw.csv --steps 2
"$lockstep" export runs/short --out files --onnx >out.txt 2>err.txt ||
  fail "export --onnx"
for name in plain scaled; do
  [ $name = plain ] && flag= || flag=--normalize
  # shellcheck disable=SC2086
  "$lockstep" train --model "$PWD"/files/*/model.onnx --data raw.csv $flag \
    --steps 5 --quiet --run-dir runs/$name >out.txt 2>err.txt ||
    fail "train --model model.onnx $flag: $(cat err.txt)"
done
cmp -s runs/plain/model.safetensors runs/scaled/model.safetensors &&
  fail "a file's model ignores --normalize"

# Steps resume with the same bytes, and --config makes them again.
trains half --data raw.csv --test test.csv --normalize --steps 25
"$lockstep" train --resume runs/half --epochs 6 --steps 60 --quiet >out.txt \
  2>err.txt || fail "resume"
trains full --data raw.csv --test test.csv --normalize --steps 60
cmp -s runs/full/model.safetensors runs/half/model.safetensors ||
  fail "a resumed run has other bytes"
trains again --config runs/norm/config.json
cmp -s runs/norm/config.json runs/again/config.json &&
  cmp -s runs/norm/model.safetensors runs/again/model.safetensors ||
  fail "--config makes another run"
trains replicas --data raw.csv --test test.csv --normalize --replicas 3
"$lockstep" replay runs/norm --to 20 >out.txt 2>err.txt || fail "replay"

# A column that never differs is only shifted; images have a mean a channel.
awk -F , -v OFS=, '{ if (NR > 1) $3 = 7; print }' raw.csv >same.csv
trains same --data same.csv --normalize --test none
grep -qF ';7,1;' runs/same/config.json || fail "a constant column is divided"
"$lockstep" train --model cnn --data synthetic --normalize --steps 1 --quiet \
  --run-dir runs/cnn >out.txt 2>err.txt || fail "cnn"
grep -qE '"normalize":"[^;"]*,[^;"]*"' runs/cnn/config.json ||
  fail "one channel has not one mean"

mkdir -p photos/a photos/b
for name in a b; do
  for copy in 1 2 3 4; do
    cp "$images/rgb.png" photos/$name/$copy.png
  done
done
trains photos --data photos --normalize --test none --batch-size 4
"$lockstep" predict runs/photos --data "$images/rgb.png" >out.txt 2>err.txt ||
  fail "a picture for normalized ones"

# What cannot be.
ends 2 "--normalize makes other steps: the run in 'runs/raw' was begun without" \
  train --resume runs/raw --normalize
ends 1 "model 'gpt' learns from tokens, which are not normalized" train \
  --model gpt --data synthetic --normalize --quiet
sed '5s/^[^,]*/inf/' raw.csv >inf.csv
# shellcheck disable=SC2086
ends 1 "number 1 of the examples has the mean" train $tiny --data inf.csv \
  --normalize --quiet --run-dir runs/x
# edits TEXT SED: a run whose config.json was edited is refused.
edits() {
  rm -rf runs/edited
  cp -r runs/norm runs/edited
  sed -e 's/,"crc32c".*/}/' -e "$2" runs/norm/config.json >runs/edited/config.json
  ends 1 "$1" eval runs/edited --json
}
edits "has no mean and deviation for number 16 of 16" \
  's/;[^;"]*"/"/'
edits "has no mean and deviation for number 1 of 16" \
  's/"normalize":"[^,]*,/"normalize":"1,-/'
edits "has no mean and deviation for number 1 of 16" \
  's/"normalize":"/"normalize":"x/'
edits "has more numbers than the examples of model 'tiny'" \
  's/"normalize":"\([^"]*\)"/"normalize":"\1;1,1"/'

exit $failed
