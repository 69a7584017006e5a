#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Rows as JSON objects, one a line, and columns of texts that are one-hot: with
# the bits of the same numbers in CSV, in training, eval, predict and resumed.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs ./*.csv ./*.jsonl

# rows FORMAT COUNT: 2 numbers, a text of three, a number, a text as label.
# Formats: texts, csv of texts; numbers, csv with one-hot columns; json, lines
# with an array of the first two.
rows() {
  awk -v format="$1" -v count="$2" 'BEGIN {
    split("blue green red", colors, " ")
    split("big small tiny odd", labels, " ")
    x = 7
    if (format == "texts") print "a,b,color,c,label"
    if (format == "numbers") print "a,b,blue,green,red,c,label"
    for (row = 0; row < count; ++row) {
      for (i = 0; i < 3; ++i) {
        x = (x * 16807) % 2147483647
        v[i] = sprintf("%.5f", x / 2147483647)
      }
      k = row < 3 ? 3 - row : x % 3 + 1
      label = labels[(row + k) % 4 + 1]
      if (format == "texts")
        printf "%s,%s,%s,%s,%s\n", v[0], v[1], colors[k], v[2], label
      if (format == "numbers")
        printf "%s,%s,%d,%d,%d,%s,%s\n", v[0], v[1], k == 1, k == 2, k == 3,
          v[2], label
      if (format == "json")
        printf "{\"ab\": [%s, %s], \"color\": \"%s\", \"c\": %s, " \
          "\"label\": \"%s\"}\n", v[0], v[1], colors[k], v[2], label
    }
  }'
}
rows texts 80 >texts.csv
rows numbers 80 >numbers.csv
rows json 80 >rows.jsonl

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  "$lockstep" train --model mlp --batch-size 8 --quiet --steps 12 \
    --schedule constant --run-dir "runs/$name" "$@" >"$name.txt" 2>err.txt ||
    fail "train $*"
}
same() {
  cmp -s "runs/$1/model.safetensors" "runs/$2/model.safetensors" ||
    fail "$1 and $2 differ"
}
trains numbers --data numbers.csv
trains texts --data texts.csv --one-hot color
trains json --data rows.jsonl --one-hot color
same numbers texts
same numbers json
cmp -s numbers.txt json.txt || fail "tests differ"
categories='"one_hot":"color","categories":"color\nblue\ngreen\nred\n\n"'
for name in texts json; do
  grep -qF "$categories" "runs/$name/config.json" || fail "$name: config.json"
  "$lockstep" eval "runs/$name" --json >out.txt 2>err.txt || fail "eval $name"
done

# Eval and predict take the run's texts, also of data that lack some.
head -n 3 rows.jsonl >few.jsonl
"$lockstep" eval runs/texts --data few.jsonl \
  --features ab,color,c,label >out.txt 2>err.txt || fail "eval of other data"
sed 's/, "label.*/}/' few.jsonl >bare.jsonl
head -n 4 texts.csv | cut -d , -f 1-4 >bare.csv
head -n 4 numbers.csv | cut -d , -f 1-6 >bare_numbers.csv
"$lockstep" predict runs/json --data bare.jsonl >json.txt 2>err.txt ||
  fail "predict jsonl"
"$lockstep" predict runs/texts --data bare.csv >csv.txt 2>err.txt ||
  fail "predict csv"
"$lockstep" predict runs/numbers --data bare_numbers.csv >numbers.txt \
  2>err.txt || fail "predict numbers"
cmp -s json.txt numbers.txt && cmp -s csv.txt numbers.txt ||
  fail "predictions differ"
"$lockstep" export runs/texts --out runs/texts-export >out.txt 2>err.txt ||
  fail "export texts"
"$lockstep" predict runs/texts-export --data bare.csv >csv.txt 2>err.txt ||
  fail "predict an export"
cmp -s json.txt csv.txt || fail "the export's predictions differ"
mv runs/texts/config.json config.json
rm -rf runs/texts-export
"$lockstep" export runs/texts --out runs/texts-export >out.txt 2>err.txt ||
  fail "export texts by the checkpoint's copy of config.json"
mv config.json runs/texts
"$lockstep" predict runs/texts-export --data bare.csv >csv.txt 2>err.txt ||
  fail "predict that export"
cmp -s json.txt csv.txt || fail "that export's predictions differ"

# A run goes on with its texts, and begins again by its configuration.
trains half --data rows.jsonl --one-hot color --steps 5
"$lockstep" train --resume runs/half --steps 12 --quiet >out.txt 2>err.txt ||
  fail "resume"
same json half
trains again --config runs/json/config.json --steps 12
same json again

# Order, several columns, numbers as texts, files without names.
trains order --data rows.jsonl --one-hot color --features color,c,label
trains codes --data texts.csv --one-hot a,color --features a,color,c,label
tail -n +2 texts.csv >bare_rows.csv
trains bare --data bare_rows.csv --one-hot 3
same numbers bare
"$lockstep" data rows.jsonl >out.txt 2>err.txt || fail "data"

# What cannot be.
# refuses WANTED ARGUMENT...
refuses() {
  wanted=$1
  shift
  ends 1 "$wanted" train --model mlp --quiet --steps 1 --test none "$@"
}
sed 's/^\(.*\)red/\1violet/' few.jsonl >violet.jsonl
ends 1 "'violet.jsonl', row 1: 'violet' in column 'color' is none of its texts in the training set: blue, green, red" \
  eval runs/json --data violet.jsonl
refuses "column 'color' of 'rows.jsonl' has texts, and a model learns from numbers" \
  --data rows.jsonl
refuses "has no column 'shape'; it has a, b, color, c, label" --data texts.csv \
  --one-hot shape
refuses "--one-hot: 'label' is no column of the examples" --data texts.csv \
  --one-hot label
refuses "--one-hot names 'color' twice" --data texts.csv --one-hot color,color
refuses "--one-hot: 'c' has numbers in 'rows.jsonl', not texts" \
  --data rows.jsonl --one-hot c
refuses "--one-hot is for columns of .csv and .jsonl files; 'synthetic'" \
  --data synthetic --one-hot color
ends 2 "--one-hot is 'a', the run in 'runs/json' has 'color'" train --resume \
  runs/json --one-hot a
# breaks WANTED LINE SED: a file of JSON with an error in a line.
breaks() {
  sed "$2$3" rows.jsonl >broken.jsonl
  refuses "$1" --data broken.jsonl --one-hot color
}
breaks "the JSON has ']' at line 3, byte 12: expected a value" 3 's/\[.*, /[1, ]/'
breaks "at line 70, byte" 70 's/{/[/'
breaks "of 'broken.jsonl'" 70 's/{/[/'
breaks "line 70 has no 'c'" 70 's/"c"/"d"/'
breaks "column 'c' is there twice (at line 70)" 70 's/}/, "c": 1}/'
breaks "column 'ab' has more than the 2 items expected" 70 's/\[/[1, /'
breaks "column 'ab'[1] is no number" 70 's/\[.*\]/[1, "2"]/'
breaks "column 'color' is 5, expected a text (at line 70)" 70 's/"color": "[a-z]*"/"color": 5/'
breaks "expected the line's end" 70 's/$/ x/'
breaks "column 'ab' of 'broken.jsonl' has neither numbers nor a text in the first line" 1 's/\[.*\]/null/'
breaks "the JSON ends at line 70, byte 1: expected '{'" 70 's/.*//'
printf '' >empty.jsonl
refuses "has no row" --data empty.jsonl
refuses "labels are numbers or texts" --data rows.jsonl --one-hot color \
  --features color,c,ab
refuses "--one-hot: 'a' is no column of the examples" --data texts.csv \
  --one-hot a,color --features b,color,label

# ---- A first row of texts ---------------------------------------------------
# The second row has numbers, or tells nothing.
says="'words.csv': the first row is taken as names of the columns"
printf 'color,kind\nred,1\nblue,0\n' >words.csv
"$lockstep" data words.csv >out.txt 2>err.txt || fail "data words.csv"
grep -qF "$says" err.txt && fail "a header that is none but a header"
printf 'color,kind\nred,a\nblue,b\n' >words.csv
"$lockstep" data words.csv >out.txt 2>err.txt || fail "data words.csv"
[ "$(grep -cF "$says" err.txt)" = 1 ] || fail "a header that may be data"


# Names with a comma, and missing values.
sed '1s/color/"color, main"/' texts.csv >comma.csv
trains comma --data comma.csv --one-hot 'color, main'
same numbers comma
sed '2s/,[a-z]*,/,NA,/' texts.csv >na.csv
ends 1 "column 'color' of 'na.csv' has 'NA', a missing value: --missing \
color=TEXT takes a text for it, also this one" train --model mlp --data na.csv \
  --one-hot color --quiet
trains na --data na.csv --one-hot color --missing color=NA
exit $failed
