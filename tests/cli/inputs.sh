#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Rows of any width: mlp and tiny take as many numbers as the data have, in
# training, evaluation, prediction, export, resumption and replay.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs ./*.csv

# Three kinds of flowers, by three numbers.
awk 'function drawn() { x = (x * 16807) % 2147483647; return x / 2147483647 }
BEGIN {
  x = 7
  print "length,width,depth,kind"
  for (row = 0; row < 150; ++row) {
    kind = row % 3
    printf "%.3f,%.2f,%.4f,%s\n", 5 + kind + drawn(),
      100 * (3 - kind) + 90 * drawn(), drawn() / 100,
      kind == 0 ? "lily" : kind == 1 ? "rose" : "tulip"
  }
}' >flowers.csv
cut -d , -f 1-3 flowers.csv >bare.csv
cut -d , -f 2- flowers.csv >narrow.csv
flowers="--data flowers.csv --batch-size 16 --schedule constant --normalize"
# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $flowers --quiet --run-dir "runs/$name" "$@" >out.txt \
    2>err.txt || fail "train $*"
}
for model in tiny mlp; do
  trains $model --model $model --epochs 8 --learning-rate 0.3
  awk '{ exit !($3 > 0.9) }' out.txt || fail "$model does not learn"
  grep -qF '"inputs":3,' runs/$model/config.json || fail "$model has no inputs"
  "$lockstep" eval runs/$model --data flowers.csv >out.txt 2>err.txt ||
    fail "eval $model"
  awk '/accuracy/ { exit !($3 > 0.9) }' out.txt || fail "eval $model is worse"
  for data in flowers.csv bare.csv; do
    "$lockstep" predict runs/$model --data $data >$data.txt 2>err.txt ||
      fail "predict $model $data"
  done
  cmp -s flowers.csv.txt bare.csv.txt || fail "a label changes predictions"
  tail -n +2 flowers.csv | cut -d , -f 4 >kinds.txt
  sed 's/.*"name":"\([^"]*\)".*/\1/' bare.csv.txt | paste -d , - kinds.txt |
    awk -F , '$1 == $2 { ++right } END { exit !(right / NR > 0.9) }' ||
    fail "predictions of $model are wrong"
  "$lockstep" export runs/$model >out.txt 2>err.txt || fail "export $model"
  grep -qF '[?,3]' "$(cat out.txt)"/*.ls || fail "the export takes others"
done

# It resumes with the same bytes, replays, and goes on by --config.
trains half --model tiny --steps 13
"$lockstep" train --resume runs/half --steps 30 --quiet >out.txt 2>err.txt ||
  fail "resume"
trains full --model tiny --steps 30 --checksum 10
cmp -s runs/half/model.safetensors runs/full/model.safetensors ||
  fail "a resumed run has other bytes"
"$lockstep" replay runs/full --to 20 >out.txt 2>err.txt || fail "replay"
trains again --config runs/full/config.json
cmp -s runs/again/model.safetensors runs/full/model.safetensors ||
  fail "--config makes another run"
# Other data have other inputs.
trains narrow --config runs/full/config.json --data narrow.csv
grep -qF '"inputs":2,' runs/narrow/config.json || fail "narrow has 3 inputs"

# The model's own number is none to store; other models have one size alone.
trains own --model tiny --data synthetic --steps 2
grep -qF '"inputs":0,' runs/own/config.json || fail "tiny has inputs"
ends 1 "'narrow.csv' has no column 'length'; it has width, depth, kind" eval runs/tiny \
  --data narrow.csv --json
ends 1 "model 'cnn' takes examples f32[28,28,1]" train --model cnn \
  --data flowers.csv --quiet
# With more classes than the model's it has as many.
printf 'a,label\n1,p\n2,q\n3,r\n4,s\n5,t\n' >many.csv
trains many --model tiny --data many.csv --test none --batch-size 5 --steps 2
grep -qF '"outputs":5,' runs/many/config.json || fail "five classes are four"
ends 1 "model 'tiny' has 4 classes, the labels of 'many.csv' are 5 texts" train \
  --model tiny --data many.csv --quiet --outputs 4
# Numbers of a test set are names of classes if the training set has texts, and
# texts no classes if it has numbers.
awk 'BEGIN {
  print "a,label"
  for (i = 0; i < 60; ++i)
    printf "%d,%s\n", i % 3, i % 3 == 0 ? "3b" : 3 - i % 3
}' >named.csv
grep -v 3b named.csv >ones.csv
sed s/3b/0/ named.csv >numbered.csv
trains names --model tiny --data named.csv --test ones.csv --epochs 30 \
  --batch-size 12 --learning-rate 0.5
grep -q "^test accuracy: 1.0000" out.txt || fail "1 and 2 are not classes"
ends 1 "column 'label' of 'named.csv' is read as labels and has texts; the run" \
  train --model tiny --data numbered.csv --test named.csv --quiet

# Rows are bytes, or not, as those of the training, however few or dark.
awk 'BEGIN {
  print "a,b,label"
  for (i = 0; i < 60; ++i) print (i * 7 % 200) "," (i * 11 % 200) "," i % 2
}' >bytes.csv
awk -F , '$1 < 100 && $2 < 100 || NR == 1' bytes.csv >dark.csv
trains bytes --model tiny --data bytes.csv --test none --steps 9
"$lockstep" predict runs/bytes --data bytes.csv --limit 2 >bright.txt 2>err.txt
"$lockstep" predict runs/bytes --data dark.csv --limit 2 >out.txt 2>err.txt
cmp -s bright.txt out.txt || fail "dark rows are no bytes"
sed 's/^\([0-9]*\),/\1.5,/' dark.csv >some.csv
trains some --model tiny --data some.csv --test bytes.csv --steps 9
"$lockstep" eval runs/some --data bytes.csv >out.txt 2>err.txt
sed 's/^\([0-9]*\),/\1.0,/' bytes.csv >same.csv
"$lockstep" eval runs/some --data same.csv >same.txt 2>err.txt
cmp -s same.txt out.txt || fail "whole numbers are bytes"

# Columns with names may have another order than in the training.
awk -F , '{ print $2 "," $3 "," $1 }' same.csv >turned.csv
sed -n 's/\(.*\),\(.*\),\(.*\)/{"label":\3,"b":\2,"a":\1}/; 2,$p' same.csv \
  >turned.jsonl
for data in turned.csv turned.jsonl; do
  "$lockstep" eval runs/some --data $data >out.txt 2>err.txt
  cmp -s same.txt out.txt || fail "$data has other columns"
done

# Standard input is read whole, or not at all.
awk 'BEGIN { for (i = 0; i < 50000; ++i) print i ",1," i % 2 }' >long.csv
(trap '' XFSZ && ulimit -f 100 && "$lockstep" data - <long.csv) >out.txt \
  2>err.txt
grep -q "cannot copy standard input" err.txt || fail "a part of it is read"

# No class becomes another one by its low bits.
printf '1,2,0\n3,4,4294967296\n' >far.csv
ends 1 "model 'tiny' has 4 classes, which count from 0 (example 1 of" train \
  --model tiny --data far.csv --test none --quiet

# A row with a missing value is no header; one with an index or with quotes is.
printf '1,,3\n4,5,0\n' >missing.csv
printf '\n\n,"say ""a, b""",label\n0,4,1\n' >index.csv
ends 1 "'missing.csv' line 1, byte 2, column '2': '' is no i64; fill" train \
  --model tiny --data missing.csv --test none --quiet
"$lockstep" data index.csv >out.txt 2>err.txt
grep -q "^index.csv: CSV, 1 element of (f32\[2\], i64" out.txt ||
  fail "index.csv has other rows"

exit $failed
