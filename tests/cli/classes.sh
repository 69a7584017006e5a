#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Labels of CSV files that are texts: what classes they become, that a run keeps
# their names, and what is no class.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs ./*.csv ./*.json

# rows FILE SEED NAME...: 40 rows of 16 numbers and a label, with a header.
rows() {
  file=$1
  seed=$2
  shift 2
  awk -v seed="$seed" -v names="$*" 'BEGIN {
    count = split(names, name, " ")
    for (i = 1; i <= 16; ++i) printf "x%d,", i
    print "label"
    for (row = 0; row < 40; ++row) {
      kind = (row * 7 + seed) % count
      for (i = 1; i <= 16; ++i)
        printf "%g,", (i % count == kind) * 2 + (row * i * 13 + seed) % 10 / 10
      print name[kind + 1]
    }
  }' >"$file"
}
rows words.csv 1 dog cat "bird"
rows test.csv 2 dog cat "bird"
rows numbers.csv 1 2 1 0
rows numbers-test.csv 2 2 1 0
rows fish.csv 3 dog cat fish
rows five.csv 1 a b c d e
grep -v cat words.csv >two.csv
sed '3s/,[^,]*$/,/' words.csv >empty.csv
tail -n +2 words.csv >bare.csv
tiny="--model tiny --schedule constant --batch-size 8 --steps 6"

# said FILE TEXT: a file has a line with that text.
said() {
  grep -qF -- "$2" "$1" || fail "$1 does not say: $2"
}
# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --run-dir "runs/$name" "$@" >out.txt 2>err.txt ||
    fail "train $*"
}

# They are what their numbers would be, with names or without.
trains words --data words.csv --test test.csv
said err.txt "labels of 'words.csv' are texts, 3 classes: 0 bird, 1 cat, 2 dog"
said runs/words/config.json '"classes":"bird\ncat\ndog"'
cp out.txt words.txt
trains numbers --data numbers.csv --test numbers-test.csv --outputs 3
said runs/words/config.json '"outputs":3'
said runs/numbers/config.json '"classes":""'
cmp -s out.txt words.txt || fail "texts are learnt otherwise than numbers"
cmp -s runs/words/model.safetensors runs/numbers/model.safetensors ||
  fail "texts make another model than numbers"
trains bare --data bare.csv --test test.csv
cmp -s runs/words/model.safetensors runs/bare/model.safetensors ||
  fail "without names of columns it is another model"

# A run that goes on, and one that is tested, mean the same by them.
"$lockstep" train --resume runs/words --steps 12 --quiet >out.txt 2>err.txt ||
  fail "resume"
trains long --data words.csv --test test.csv --steps 12
cmp -s runs/words/model.safetensors runs/long/model.safetensors ||
  fail "a run that went on has another model"
"$lockstep" eval runs/words >out.txt 2>err.txt || fail "eval"
said out.txt 'test accuracy: '
"$lockstep" eval runs/words --data numbers-test.csv >other.txt 2>err.txt ||
  fail "eval of numbers"
cmp -s out.txt other.txt || fail "numbers are tested otherwise than texts"
# Of a file that has not all of them they keep their numbers.
"$lockstep" eval runs/words --data two.csv >out.txt 2>err.txt ||
  fail "eval of fewer classes"
[ ! -s err.txt ] || fail "eval finds classes anew"

# How many of each are right, and of which none is.
awk 'BEGIN {
  print "a,b,label"
  for (i = 0; i < 100; ++i) print i % 7 ".5," i % 5 ".5," (i % 10 ? "ok" : "bad")
}' >rare.csv
trains rare --data rare.csv
said err.txt "90 examples to train on, 10 held out to test (--split 0.1)"
"$lockstep" eval runs/rare --data rare.csv >out.txt 2>err.txt || fail "eval rare"
said out.txt "class bad: 0 of 10 right"
said out.txt "class ok: 90 of 90 right"
said err.txt "classes that are never predicted right: bad"
"$lockstep" eval runs/rare --data rare.csv --json >out.txt 2>err.txt ||
  fail "eval rare --json"
said out.txt ',"classes":[{"class":0,"name":"bad","examples":10,"right":0},{"class":1,"name":"ok","examples":90,"right":90}]}'
[ ! -s err.txt ] || fail "eval --json says: $(cat err.txt)"

# Whole numbers may be floats; of others, several or too many there is a hint.
sed '2,$s/$/.0/' numbers.csv >floats.csv
trains floats --data floats.csv --test numbers-test.csv --outputs 3
cmp -s runs/floats/model.safetensors runs/numbers/model.safetensors ||
  fail "floats make another model than whole numbers"
sed '2,$s/$/.5/' numbers.csv >halves.csv
sed '2,$s/,[^,]*$/,7/' numbers.csv >sevens.csv
echo '[{"a":1}]' >rows.json
# shellcheck disable=SC2086
{
  ends 1 "has f32: labels of classification are whole numbers" \
    train $tiny --quiet --data halves.csv
  ends 1 "4 classes, which count from 0; from the command: --outputs 8, or more" \
    train $tiny --quiet --data sevens.csv --run-dir runs/no
  ends 1 "'rows.json' is no .jsonl file" train $tiny --quiet --data rows.json
}

# What is no class.
ends 1 "label 'fish' is none of the 3 classes" \
  eval runs/words --data fish.csv
ends 1 "'label' of 'words.csv' is read as labels and has texts; the run was" \
  eval runs/numbers --data words.csv
# shellcheck disable=SC2086
ends 1 "model 'tiny' has 4 classes, the labels of 'five.csv' are 5 texts" \
  train $tiny --quiet --data five.csv --outputs 4
# shellcheck disable=SC2086
printf 'a,b\n1,x\n2,\374\n' >latin.csv
ends 1 "row 2 of column 'b' is no UTF-8; iconv -f LATIN1" train $tiny --quiet \
  --data latin.csv
{ printf '\374,b\n' && printf '%s\n' 1,x 2,y 1,x 2,y; } >latin.csv
"$lockstep" train $tiny --quiet --data latin.csv --batch-size 2 --steps 1 \
  --run-dir latin --overwrite >out.txt 2>err.txt || fail "a column in Latin-1"
LC_ALL=C grep -q "$(printf '\374')" latin/config.json && fail "no UTF-8"
ends 1 "row 2 of column 'label' is empty: --missing label=TEXT" \
  train $tiny --quiet --data empty.csv
# shellcheck disable=SC2086
ends 1 "label 'fish' is none of the 3 classes" \
  train $tiny --quiet --data words.csv --test fish.csv --run-dir runs/no
grep -q "column 'label' of 'fish.csv'" err.txt || fail "no file of the label"
[ ! -s runs/no/metrics.jsonl ] || fail "steps before the test set was read"
exit $failed
