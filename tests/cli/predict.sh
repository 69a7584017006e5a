#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Predictions of data without labels equal those of the same data with labels,
# byte by byte, and each line names the example's file or row, and its class.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
images=$(cd "$(dirname "$0")/../images" && pwd)
rm -rf held words words-* words@* animals animals-export pets photos album some rest ./*.csv ./*.npy ./*.txt

# predicts FILE ARGUMENT...: writes the lines of `lockstep predict` to a file.
predicts() {
  file=$1
  shift
  "$lockstep" predict "$@" >"$file" 2>err.txt || fail "predict $*"
  [ -s "$file" ] || fail "predict $* prints nothing"
}
# equal FILE OTHER: the same bytes.
equal() {
  cmp -s "$1" "$2" || fail "$1 and $2 differ: $(head -n 1 "$1" "$2")"
}

# ---- Rows --------------------------------------------------------------------
# rows SEED COUNT: rows of 16 numbers and a text label, with a header.
rows() {
  awk -v seed="$1" -v count="$2" 'BEGIN {
    split("dog cat bird", name, " ")
    for (i = 1; i <= 16; ++i) printf "x%d,", i
    print "label"
    for (row = 0; row < count; ++row) {
      kind = (row * 7 + seed) % 3
      for (i = 1; i <= 16; ++i)
        printf "%g,", (i % 3 == kind) * 2 + (row * i * 13 + seed) % 10 / 10
      print name[kind + 1]
    }
  }'
}
rows 1 60 >words.csv
rows 2 20 >test.csv
cut -d, -f1-16 test.csv >bare.csv
tail -n +2 bare.csv >headless.csv
sed 's/dog\|cat\|bird/fish/' test.csv >fish.csv
cut -d, -f1-15 test.csv | tail -n +2 >narrow.csv
"$lockstep" train --model tiny --data words.csv --test test.csv --batch-size 8 \
  --epochs 4 --quiet --run-dir words >out.txt 2>err.txt || fail "train words"
predicts run.txt words
[ "$(wc -l <run.txt)" = 20 ] || fail "not 20 lines"
grep -q '^{"class":[012],"probability":[0-9.e-]*,"name":"\(bird\|cat\|dog\)","row":0}$' \
  run.txt || fail "the first line is $(head -n 1 run.txt)"
grep -q '"row":19}$' run.txt || fail "the last line is $(tail -n 1 run.txt)"
predicts labels.txt words --data test.csv
equal run.txt labels.txt
for data in bare.csv headless.csv fish.csv; do
  predicts bare.txt words --data $data
  equal run.txt bare.txt
done
predicts bare.txt words --data - <bare.csv
equal run.txt bare.txt
# An export, in place of the run, has the same lines.
"$lockstep" export words --out words-export >export.txt 2>err.txt ||
  fail "export words"
for data in test.csv bare.csv headless.csv; do
  predicts bare.txt words-export --data $data
  equal run.txt bare.txt
done
predicts bare.txt "$(cat export.txt)" --data - --limit 3 <bare.csv
head -n 3 run.txt >three.txt
equal three.txt bare.txt
mkdir -p "words-ex port"
cp -r "$(cat export.txt)" "words-ex port/1 2"
predicts bare.txt "words-ex port/1 2" --data - --limit 3 <bare.csv
ends 1 "'1 2' is no name of a model, which stands in addresses" serve \
  "words-ex port/1 2" --port 0
ends 1 "is an export, which has no data: name them with --data" \
  predict words-export
"$lockstep" train --estimator --model tiny --data synthetic --steps 2 --quiet \
  --run-dir words-estimator >out.txt 2>err.txt &&
  "$lockstep" export words-estimator >export.txt 2>err.txt ||
  fail "export of an estimator"
ends 1 "for an estimator's name the run itself" predict "$(cat export.txt)" \
  --data bare.csv
ends 2 "--model is for runs; 'words-export' is an export" predict words-export \
  --data test.csv --model tiny
# The best classes, as many as there are, and the logits stand beside the class.
predicts top.txt words --data bare.csv --top 2
predicts logits.txt words --data bare.csv --top 9 --logits
for flags in "--top 2" "--top 9 --logits"; do
  # shellcheck disable=SC2086
  predicts bare.txt words-export --data bare.csv $flags
  cmp -s bare.txt top.txt || equal bare.txt logits.txt
done
number='[0-9.e-]*'
grep -q "^{\"class\":0,\"probability\":\($number\),\"classes\":\[0,[12]\],\
\"probabilities\":\[\1,$number\],\"name\":\"bird\",\"names\":\[\"bird\",\"\(cat\|dog\)\"\],\
\"row\":" top.txt || fail "no two best classes: $(head -n 1 top.txt)"
grep -q "\"classes\":\[[0-2],[0-2],[0-2]\],.*\"logits\":\[$number,$number,$number\],\
\"name\":" logits.txt || fail "no logits: $(head -n 1 logits.txt)"
sed 's/"classes".*"name":/"name":/; s/,"names":[^]]*]//' logits.txt >bare.txt
equal run.txt bare.txt
predicts bare.txt words --data - --limit 3 <test.csv
head -n 3 run.txt >three.txt
equal three.txt bare.txt
predicts named.txt words --data bare.csv --features '*,label'
equal run.txt named.txt
# A file with labels is evaluated; one without is refused, as in training.
"$lockstep" eval words --data test.csv >out.txt 2>err.txt || fail "eval test.csv"
ends 1 "" eval words --data bare.csv
ends 1 "takes examples f32[16] of 3 classes; these are f32[14] (of 'narrow.csv', where \
the features are columns 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ... \
and the label is 15; --features COLUMN,...,LABEL gives others)" \
  predict words --data narrow.csv
ends 1 "'fish' is none of the 3 classes" eval words --data fish.csv
: >empty.txt
ends 1 "'/dev/stdin' has no row" predict words --data - <empty.txt
gzip -c bare.csv >bare.csv.gz
ends 1 "standard input is packed: pipe it through gunzip" \
  predict words --data - <bare.csv.gz
printf '\211\001\002\003junk' >junk
ends 1 "'/dev/stdin' has neither: images are PNG or JPEG" predict words \
  --data - <junk
# Names are printed without control characters, and bytes that are no UTF-8.
{ printf 'a\001\211\303\251,b,label\n' && printf '1,2,cat\n'; } >odd.csv
ends 1 'it has a??é, b, label' predict words --data odd.csv

# What is held out has the rows of its file.
"$lockstep" train --model tiny --data words.csv --batch-size 8 --epochs 1 \
  --quiet --run-dir held >out.txt 2>err.txt || fail "train a part of words"
predicts part.txt held
predicts all.txt held --data words.csv
[ "$(wc -l <part.txt)" = 6 ] || fail "not 6 lines"
while read -r line; do
  grep -qxF -- "$line" all.txt || fail "not in all: $line"
done <part.txt
grep -q '"row":0}$' part.txt && fail "the first row is held out"
"$lockstep" report held --out held.html >out.txt 2>err.txt || fail "report held"
grep -o '<b>row [0-9]*' held.html | sed 's/.* //' | while read -r row; do
  grep -q "\"row\":$row}" part.txt || echo "$row"
done >odd-rows.txt
[ ! -s odd-rows.txt ] || fail "a report has other rows: $(cat odd-rows.txt)"
# Rows are no pictures.
ends 1 "learns from rows: give rows (.csv, .jsonl), not the images of" \
  predict words --data "$images/rgb.png"

# An array alone: 4 rows of 16 bytes.
{
  printf '\223NUMPY\001\000\166\000'
  printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 16), }"
  awk 'BEGIN { for (i = 0; i < 64; ++i) printf "%c", 65 + i % 26 }'
} >x.npy
predicts x.txt words --data x.npy
[ "$(wc -l <x.txt)" = 4 ] || fail "not 4 lines for x.npy"
predicts y.txt words --data - <x.npy
equal x.txt y.txt
ends 1 "'x.npy' is one array" eval words --data x.npy
# An example without the dimension of a batch.
{
  printf '\223NUMPY\001\000\166\000'
  printf '%-117s\n' "{'descr': '|u1', 'fortran_order': False, 'shape': (16,), }"
  printf 'abcdefghijklmnop'
} >flat.npy
ends 1 "if all of them are one example, give it a first dimension of 1" \
  predict words --data flat.npy
ends 2 "unexpected argument 'x.npy'; several files are one --data: 'A.png,B" \
  predict words --data x.npy x.npy

# ---- Images ------------------------------------------------------------------
mkdir -p pets/cats pets/dogs pets/newts pets/owls photos album
number=0
for kind in cats dogs newts owls; do
  for name in rgb.png 420.jpg gray.png rgb.jpg; do
    number=$((number + 1))
    cp "$images/$name" "pets/$kind/$number-$name"
    cp "$images/$name" "photos/$number-$name"
  done
done
echo "not an image" >photos/notes.txt
echo "not an image" >album/broken.png
cp photos/1-rgb.png album/a.png
"$lockstep" train --model tiny --data pets --split 0.25 --batch-size 4 \
  --epochs 3 --quiet --run-dir animals >out.txt 2>err.txt || fail "train pets"
grep -qF '"classes":"cats\ndogs\nnewts\nowls"' animals/config.json ||
  fail "config.json does not name the classes of a folder"
predicts pets.txt animals --data pets
grep -q '"name":"\(cats\|dogs\|newts\|owls\)","file":"cats/1-rgb.png"}$' pets.txt ||
  fail "the first line is $(head -n 1 pets.txt)"
[ "$(wc -l <pets.txt)" = 16 ] || fail "not 16 lines"
predicts photos.txt animals --data photos
[ "$(wc -l <photos.txt)" = 16 ] || fail "not 16 lines for a folder of photos"
grep -q '"file":"photos/1-rgb.png"}$' photos.txt || fail "no photos/1-rgb.png"
"$lockstep" export animals --out animals-export >out.txt 2>err.txt ||
  fail "export animals"
predicts one.txt animals-export --data photos
equal photos.txt one.txt
# Each photo has the line of its copy in the folder by class.
sed 's,"file":"[a-z]*/,,' pets.txt | sort >a.txt
sed 's,"file":"[a-z]*/,,' photos.txt | sort >b.txt
equal a.txt b.txt
predicts one.txt animals --data photos/7-gray.png
grep -F 'photos/7-gray.png' photos.txt >two.txt
equal two.txt one.txt
predicts one.txt animals --data 'photos/*.jpg,photos/1-*.png'
[ "$(wc -l <one.txt)" = 9 ] || fail "not 9 lines for two patterns"
# An image from standard input.
for name in 7-gray.png 4-rgb.jpg; do
  predicts one.txt animals --data "photos/$name"
  predicts two.txt animals --data - <"photos/$name"
  grep -q '"file":"/dev/stdin"}$' two.txt || fail "standard input has no file"
  sed "s,/dev/stdin,photos/$name," two.txt >three.txt
  equal one.txt three.txt
done
# Images before a broken one have their lines.
cp photos/2-420.jpg album/b.jpg
cp photos/3-gray.png album/c.png
"$lockstep" predict animals --data album >out.txt 2>err.txt &&
  fail "a broken image is predicted"
grep -q "'album/broken.png' is no image.*ff d8 ff$" err.txt ||
  fail "no broken.png, or the names of data sets after it"
sed 's,[1-3]-rgb.png,a.png,; s,2-420.jpg,b.jpg,; s,photos/,album/,' photos.txt |
  grep -e album/a.png -e album/b.jpg >good.txt
equal good.txt out.txt
ends 1 "'photos' has images without labels" train --model tiny --data photos
ends 1 "'photos/1-rgb.png' has images without labels" eval animals \
  --data photos/1-rgb.png
# A folder that lacks some of the run's classes: names say which are there, so
# that counts of right predictions add up to those of all.
mkdir -p some/test rest
cp -r pets/newts pets/cats some/test/
mkdir some/train some/train/cats
cp -r pets/dogs pets/owls rest/
for data in pets some/test some rest; do
  "$lockstep" eval animals --data $data --json >out.txt 2>err.txt ||
    fail "eval of $data"
  sed 's/.*"examples":\([0-9]*\),.*"accuracy":\([0-9.e-]*\).*/\1 \2/' out.txt \
    >>counts.txt
done
awk '{ right[NR] = $1 * $2 }
     END { exit !(NR == 4 && right[1] - right[2] - right[4] < 0.01 &&
                  right[2] + right[4] - right[1] < 0.01 && right[2] == right[3]) }' \
  counts.txt || fail "some classes are others: $(tr '\n' ';' <counts.txt)"
"$lockstep" eval animals --data pets >out.txt 2>err.txt || fail "eval pets"
grep -qF "has colors, which are lost: model 'tiny' takes gray images; resnet20 takes 3" \
  err.txt || fail "colors are lost without a word: $(cat err.txt)"
mv rest/owls rest/mice
"$lockstep" eval animals --data rest >out.txt 2>err.txt &&
  fail "other classes are evaluated"
grep -qF "'rest' has a folder 'mice', which is none of the run's 4 classes" \
  err.txt || fail "the unknown class is not named: $(cat err.txt)"


# Folders in folders of classes are counted.
mkdir -p nested/a/inner nested/b
for place in a a/inner b; do cp "$images/rgb.png" "nested/$place"; done
"$lockstep" data nested >out.txt 2>err.txt || fail "data nested"
grep -q "'nested': images are read from nested/CLASS; folders in those are \
left out: 1" err.txt || fail "folders in folders of classes are not counted"
exit $failed
