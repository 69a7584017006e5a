#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Tasks beside classification: numbers and several labels of each example, in
# training, evaluation, prediction, export, resumption, plans and reports.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs served ./*.csv

# Houses with prices and rents, and three yes-or-no labels.
awk 'function drawn() { x = (x * 16807) % 2147483647; return x / 2147483647 }
BEGIN {
  x = 7
  print "size,age,price,rent,large,old,cheap"
  for (row = 0; row < 96; ++row) {
    size = drawn(); age = drawn()
    price = 2 * size - age
    printf("%.3f,%.3f,%.3f,%.3f,%d,%d,%d\n", size, age, price, price / 4 + 1,
      size > 0.5, age > 0.5, price < 0.4)
  }
}' >houses.csv
cut -d , -f 1-3 houses.csv >prices.csv
cut -d , -f 1,2,5-7 houses.csv >signs.csv
cut -d , -f 1,2 houses.csv >bare.csv
small="--model tiny --batch-size 10 --schedule constant --quiet"

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $small --run-dir "runs/$name" "$@" >out.txt 2>err.txt ||
    fail "train $*"
}
# has FILE TEXT: a file contains that text.
has() {
  grep -qF -- "$2" "$1" || fail "$1 has no: $2"
}
# runs ARGUMENT...: succeeds.
runs() {
  "$lockstep" "$@" >out.txt 2>err.txt || fail "lockstep $*"
}

# ---- Regression --------------------------------------------------------------
price="--task regression --data prices.csv --label price"
# shellcheck disable=SC2086
trains price $price --epochs 30 --learning-rate 0.2 --checksum 20 \
  --stop-early test_mae --patience 30
awk '/^test mae: / { exit !($3 < 0.15) }' out.txt || fail "prices are not learnt"
has runs/price/config.json '"task":"regression"'
has runs/price/config.json '"outputs":1'
has runs/price/config.json '"features":"*;price"'
has runs/price/metrics.jsonl '"test_mae":'
grep -q accuracy runs/price/metrics.jsonl && fail "numbers have an accuracy"
# Numbers far from 1 do not diverge without flags.
awk -F , 'NR > 1 { $3 *= 40 } { print $1 "," $2 "," $3 }' prices.csv >far.csv
trains far --task regression --data far.csv --label price --epochs 200
awk '/^test mae: / { exit !($3 < 20) }' out.txt || fail "far prices are not learnt"
runs eval runs/price --json
has out.txt '"mae":'
runs eval runs/price --data houses.csv --features 'size,age;price'
has out.txt 'test mae: '
sed '3s/^[^,]*/inf/' prices.csv >inf.csv
runs eval runs/price --data inf.csv
has out.txt 'test loss: nan'
runs predict runs/price --data bare.csv --limit 2
[ "$(wc -l <out.txt)" = 2 ] || fail "not two predictions"
grep -qE '^\{"value":-?[0-9.e-]+,"row":0\}$' out.txt || fail "no value"
cp out.txt values.txt
runs predict runs/price --data prices.csv --limit 2
cmp -s out.txt values.txt || fail "a label changes predictions"
runs export runs/price --out runs/price-export
runs predict runs/price-export --data bare.csv --limit 2
cmp -s out.txt values.txt || fail "an export predicts otherwise"
ends 1 "--top is for one class an example; model 'tiny' is for regression" \
  predict runs/price --data bare.csv --top 3
ends 1 "--out is for classes of pixels; model 'tiny' has labels f32[1]" \
  predict runs/price --data bare.csv --out masks
runs replay runs/price --to 20
runs show runs/price
has out.txt test_mae
runs report runs/price --out report.html
has report.html 'a matrix is for classification'
mkfifo pipe
ends 1 "cannot write 'pipe': it is no regular file" \
  report runs/price --out pipe
[ -p pipe ] || fail "a pipe was replaced"
# Neither a link nor somebody's file of a likely name is written.
echo mine >mine.txt
ln -s mine.txt link
ends 1 "cannot write 'link': it is a link" report runs/price --out link
for name in report.html.tmp report.html.1.tmp; do
  ln -s mine.txt $name
done
chmod 600 report.html
runs report runs/price --out report.html
[ "$(stat -c %a report.html)" = 600 ] || fail "the permissions are lost"
[ "$(cat mine.txt)" = mine ] || fail "a file beside the report is overwritten"
[ -h report.html.tmp ] && [ -h report.html.1.tmp ] && [ ! -e report.html.2.tmp ] ||
  fail "a file beside the report is lost or left"
runs summary tiny --task regression --outputs 3
runs plan tiny --data prices.csv --task regression --label price --no-steps
runs export runs/price
has "$(cat out.txt)/serve.ls" value

# It resumes with the same bytes, and is a task of its own.
# shellcheck disable=SC2086
trains full $price --steps 24
# shellcheck disable=SC2086
trains half $price --steps 12
runs train --resume runs/half --steps 24 --quiet
cmp -s runs/half/model.safetensors runs/full/model.safetensors ||
  fail "a resumed run has other bytes"
trains again --config runs/full/config.json
cmp -s runs/again/model.safetensors runs/full/model.safetensors ||
  fail "--config makes another run"
runs diff runs/again runs/full
ends 2 "--task is 'multi-label', the run in 'runs/half' has 'regression'" train \
  --resume runs/half --task multi-label

# Several numbers, on replicas; the labels of a run are those of its --label.
trains two --task regression --data houses.csv --features size,age \
  --label price,rent --epochs 20 --learning-rate 0.2 --replicas 3
awk '{ exit !($3 < 0.15) }' out.txt || fail "prices and rents are not learnt"
has runs/two/config.json '"classes":"price\nrent"'
runs predict runs/two --data bare.csv --limit 1
grep -qE '"value":\[[^,]*,[^,]*\],"row":0' out.txt || fail "not two values"

# ---- Several labels ----------------------------------------------------------
trains signs --task multi-label --data signs.csv --label large,old,cheap \
  --epochs 60 --learning-rate 1
awk '/^test accuracy: / { exit !($3 > 0.8) }' out.txt || fail "signs are not learnt"
runs eval runs/signs --data signs.csv
awk '/accuracy/ { exit !($3 > 0.85) }' out.txt || fail "eval of signs"
printf 'size,age\n0.95,0.05\n0.05,0.95\n' >ends.csv
runs predict runs/signs --data ends.csv
head -n 1 out.txt | grep -qF '"labels":["large"]' || fail "a house is not large"
tail -n 1 out.txt | grep -qF '"labels":["old","cheap"]' ||
  fail "a house is not old and cheap"
runs export runs/signs
has "$(cat out.txt)/assets.extra/classes.txt" cheap

# Lists of texts in one column are the same labels, sorted.
awk -F, 'NR == 1 { print "size,age,tags"; next }
{ print $1 "," $2 "," ($4 ? "old; " : "") ($3 ? "large;" : "") ($5 ? "cheap" : "") }
' signs.csv >tags.csv
grep -q ',$' tags.csv || fail "no house without a label"
trains columns --task multi-label --data signs.csv --label cheap,large,old
trains tags --task multi-label --data tags.csv --label tags
cmp -s runs/columns/model.safetensors runs/tags/model.safetensors ||
  fail "lists of texts are other labels than columns"
runs predict runs/tags --data ends.csv
runs eval runs/tags --data tags.csv
printf 'size,age,tags\n0.95,0.05,"large;new"\n' >unknown.csv
ends 1 "its label 'new' is none of the 3 classes (of example 0)" \
  eval runs/tags --data unknown.csv

# So are lists of lines of JSON.
awk -F, 'NR > 1 {
  tags = ($4 ? ", \"old\"" : "") ($3 ? ",\"l\\u0061rge\"" : "") ($5 ? ",\"cheap\"" : "")
  print "{\"size\":" $1 ",\"age\":" $2 ",\"tags\":[" substr(tags, 2) "]}"
}' signs.csv >tags.jsonl
trains lists --task multi-label --data tags.jsonl --label tags
cmp -s runs/columns/model.safetensors runs/lists/model.safetensors ||
  fail "lists of JSON are other labels than columns"
runs eval runs/lists --data tags.csv
runs eval runs/tags --data tags.jsonl
printf '{"size":0.5,"age":0.5,"tags":["old"%s]}\n' '' ,1 >mixed.jsonl
ends 1 "column 'tags' is [\"old\",1], expected a list of texts" eval runs/tags \
  --data mixed.jsonl
# Names that look like numbers, in a file where all lists do.
awk 'BEGIN {
  print "size,age,tags"
  for (i = 0; i < 40; ++i)
    print i / 40 "," i % 3 "," (i % 3 == 0 ? "1;2" : i % 3)
}' >ones.csv
trains ones --task multi-label --data ones.csv --label tags
grep -v ';' ones.csv >single.csv
runs eval runs/ones --data single.csv
printf 'size,age,tags\n0.95,0.05,3\n' >three.csv
ends 1 "its label '3' is none of the 2 classes (of example 0)" \
  eval runs/ones --data three.csv
# One column of numbers by another name.
sed '1s/cheap/low/' signs.csv >low.csv
trains low --task multi-label --data signs.csv --features 'size,age;cheap'
runs eval runs/low --data low.csv --features 'size,age;low'

# ---- Refusals ----------------------------------------------------------------
# refused WANTED ARGUMENT...: a training is refused.
refused() {
  wanted=$1
  shift
  # shellcheck disable=SC2086
  ends 1 "$wanted" train $small "$@"
}
refused "learn numbers by --task regression" --data prices.csv
refused "2 columns of 'houses.csv' are labels: classification has one" \
  --data houses.csv --label large,old
refused "column 'price' is both a part of the examples and a label" \
  --data prices.csv --task regression --features 'size,price;price'
refused "column 'size' is a label twice" --data prices.csv --task regression \
  --features 'age;size,size'
sed '4s/,[^,]*$/,much/' prices.csv >text.csv
refused "'text.csv' line 4" --data text.csv --task regression
sed '4s/,[^,]*$/,nan/' prices.csv >nan.csv
refused "label nan of example 2, column 'price': labels of regression are finite" \
  --data nan.csv --task regression --test none
refused "column 'age': labels of multi-label are 0 or 1" --data signs.csv --label age,old \
  --task multi-label
# Members of other kinds.
refused "column 'tags' of 'tags.jsonl' has neither numbers nor a text" \
  --data tags.jsonl --label tags
refused "column 'tags' of 'tags.jsonl' has neither numbers nor a text" \
  --data tags.jsonl --one-hot tags --label age
printf '{"a":%d,"b":true,"label":%d}\n' 1 0 2 1 >kinds.jsonl
refused "column 'b' of 'kinds.jsonl' has neither numbers nor a text in the first" \
  --data kinds.jsonl --one-hot b
refused "nor a text in the first line: labels are numbers or texts" \
  --data kinds.jsonl --label b
refused "nor a text in the first line: labels are numbers or texts" \
  --data kinds.jsonl --label b --task multi-label
refused "'signs.csv' has no column 'new'" --data signs.csv --label new
refused "model 'gpt' is for classification, not for regression" --model gpt \
  --data synthetic --task regression
refused "expected loss, mae, test_loss or test_mae" --data prices.csv \
  --task regression --keep-best accuracy
ends 2 "--task is 'ranking', expected classification, regression or multi-label" \
  train --task ranking
ends 2 "--features is '*;a', which has labels: leave --label out" train \
  --features '*;a' --label b

# ---- More classes than the model's -------------------------------------------
awk 'BEGIN { print "a,kind"; for (i = 0; i < 60; ++i) print i / 60 ",k" i % 12 }' \
  >kinds.csv
trains kinds --data kinds.csv --epochs 1
has runs/kinds/config.json '"outputs":12'
runs predict runs/kinds --data kinds.csv --limit 1
has out.txt '"name":"k'
trains five --data synthetic --epochs 1 --outputs 5
has runs/five/config.json '"outputs":5'

# ---- Estimators --------------------------------------------------------------
linked="--estimator --model tiny --data synthetic --task regression"
# shellcheck disable=SC2086
runs train $linked --run-dir runs/linked --steps 20 --quiet
runs eval runs/linked
has out.txt 'mae: '
runs predict runs/linked --limit 1
has out.txt '"value":'
runs export runs/linked --estimator --model tiny

exit $failed
