#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Data for a run are taken as those of its training: columns by their names,
# numbers as bytes, labels as names of classes, tokens as classes.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs served ./*.csv ./*.jsonl ./*.npy ./*.gz

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  "$lockstep" train --model tiny --batch-size 8 --epochs 4 --quiet \
    --run-dir "runs/$name" "$@" >out.txt 2>err.txt || fail "train $*"
}
# predicts RUN FILE: to out.txt.
predicts() {
  "$lockstep" predict "$1" --data "$2" >out.txt 2>err.txt ||
    fail "predict $1 --data $2"
}
# same RUN FILE: is predicted as answers.txt.
same() {
  predicts "$1" "$2"
  cmp -s out.txt answers.txt || fail "predict $1 --data $2 differs"
}

# ---- Columns -----------------------------------------------------------------
awk 'BEGIN {
  print "a,b,label"
  for (i = 0; i < 40; ++i)
    printf "%d.5,%d.25,%s\n", i % 7, i * 3 % 5, (i % 7 > 3) ? "cat" : "dog"
}' >base.csv
trains base --data base.csv
head -n 5 base.csv | cut -d , -f 1,2 >two.csv
predicts runs/base two.csv
cp out.txt answers.txt
# Others are left out, wherever they stand.
awk -F , '{ print NR == 1 ? "id,b,note,a" : NR "," $2 ",text," $1 }' two.csv >more.csv
awk -F , 'NR > 1 { print "{\"zz\":null,\"yy\":[{}],\"b\":" $2 ",\"a\":" $1 "}" }' two.csv \
  >more.jsonl
sed 's/,/ , /; s/^/ /' two.csv >spaces.csv
same runs/base more.csv
same runs/base more.jsonl
same runs/base spaces.csv
"$lockstep" export runs/base --out served >out.txt 2>err.txt || fail "export"
same served more.csv
# One that is missing is no other's place.
sed 's/^a,b/c,a/' base.csv >other.csv
sed 's/"a":/"c":/' more.jsonl >other.jsonl
cut -d , -f 1,2 other.csv >bare.csv
ends 1 "'other.csv' has no column 'b'; it has c, a, label" eval runs/base \
  --data other.csv
ends 1 "'bare.csv' has no column 'b'; it has c, a" predict runs/base \
  --data bare.csv
ends 1 "'other.jsonl' has no column 'a'" predict runs/base --data other.jsonl
ends 1 "'bare.csv' has no column 'b'" predict served --data bare.csv
ends 1 "'other.csv' has no column 'b'" train --model tiny --data base.csv \
  --test other.csv --quiet --run-dir runs/other
# A label of another name is found if it alone is left.
sed 's/label/kind/' base.csv >kind.csv
sed 's/label/kind/; s/$/,1/; 1s/,1$/,id/' base.csv >kinds.csv
"$lockstep" eval runs/base --data kind.csv >out.txt 2>err.txt || fail "eval kind"
ends 1 "'kinds.csv' has more than one column besides the training's examples" \
  eval runs/base --data kinds.csv
"$lockstep" eval runs/base --data kinds.csv --features kind >out.txt \
  2>err.txt || fail "eval kinds.csv --features kind"
ends 1 "'two.csv' has no column besides the training's examples" eval \
  runs/base --data two.csv
# A space before a name hides no label.
awk -F , '{ print NR == 1 ? "a, label, b" : $1 "," $3 "," $2 }' base.csv >space.csv
trains space --data space.csv
grep -qF '"columns":"a\nb"' runs/space/config.json || fail "a space in a header"
# Names that are no names.
printf 'a,b,a\n1,2,cat\n' >twice.csv
printf 'a,b,label\r1,2,cat\r' >returns.csv
printf 'a,b,label\n' >names.csv
ends 1 "columns 1 and 3 of 'twice.csv' have the same name, 'a'" data twice.csv
ends 1 "'returns.csv' line 1 has a CR without LF" data returns.csv
ends 1 "'names.csv' has no row, but a line of names" data names.csv
gzip -c base.csv >base.csv.gz
printf 'PK\003\004' >zip.csv
ends 1 "'base.csv.gz' is packed: unpack it by gunzip" data base.csv.gz
ends 1 "'zip.csv' is a zip file" data zip.csv
printf '\377\376a\000,\000b\000\n\000' >wide.csv
ends 1 "'wide.csv' is no text: it has bytes of zero, as UTF-16" data wide.csv
: >void.csv
ends 1 "'void.csv' is empty: it has no names of columns" data base.csv,void.csv
ends 2 "- is for eval and predict" train --model tiny --data - --quiet <base.csv

# ---- Bytes -------------------------------------------------------------------
# pixels SUFFIX COLUMNS: a row of 200 and 55, then 1 in all of them.
pixels() {
  awk -v suffix="$1" -v columns="$2" 'BEGIN {
    for (i = 1; i <= columns; ++i) printf "p%d%s", i, i < columns ? "," : "\n"
    for (i = 1; i <= columns; ++i)
      printf "%d%s%s", i == 1 ? 200 : i == 2 ? 55 : 1, suffix,
        i < columns ? "," : "\n"
  }'
}
awk 'BEGIN {
  for (i = 1; i <= 64; ++i) printf "p%d,", i
  print "label"
  for (row = 0; row < 40; ++row) {
    for (i = 1; i <= 64; ++i) printf "%d,", row * i * 37 % 256
    print (row * 37 % 256 > 120)
  }
}' >bytes.csv
trains bytes --data bytes.csv
pixels "" 64 >whole.csv
pixels .0 64 >point.csv
{ cat whole.csv && sed -n 's/^200/0.5/p' whole.csv; } >mixed.csv
predicts runs/bytes whole.csv
cp out.txt answers.txt
same runs/bytes point.csv
for value in 200.0 200; do
  awk -F , -v value=$value 'NR == 1 { split($0, name) }
    NR == 2 {
      printf "{\"p1\":%s", value
      for (i = 2; i <= NF; ++i) printf ",\"%s\":%s", name[i], $i
      print ",\"c\":[{}],\"d\":[],\"e\":true}"
    }' whole.csv >point.jsonl
  same runs/bytes point.jsonl
done
predicts runs/bytes mixed.csv
head -n 1 out.txt | cmp -s - answers.txt || fail "a fraction changes other rows"
{ cat whole.csv && sed -n 's/^200/300/p' whole.csv; } >large.csv
"$lockstep" predict runs/bytes --data large.csv >out.txt 2>err.txt &&
  fail "300 is a byte"
grep -qF "'300' is no u8; the command takes whole numbers as bytes" err.txt ||
  fail "300 without a hint"
# An image of as many pixels is a row, too.
"$lockstep" predict runs/bytes --data "$(dirname "$0")/../images/gray.png" \
  >out.txt 2>err.txt || fail "a picture of a model of pixels"
# Few columns with names are numbers, and so is all that is normalized.
cut -d , -f 1-2,65 bytes.csv >few.csv
trains few --data few.csv
trains normal --data bytes.csv --normalize
for name in few normal; do
  grep -qF '"bytes":"no"' runs/$name/config.json || fail "$name: bytes"
done
printf 'p1,p2\n300,1.5\n' >large.csv
predicts runs/few large.csv
# A run from before has taken them as bytes.
sed 's/"bytes":"no"/"bytes":"yes"/; s/,"crc32c":[^}]*//' runs/few/config.json \
  >config.json
cp config.json runs/few/config.json
printf 'p1,p2\n300,1\n' >large.csv
ends 1 "'300' is no u8" predict runs/few --data large.csv

# ---- Fields without a value --------------------------------------------------
awk 'BEGIN {
  print "id,a,b,city,label"
  for (i = 0; i < 40; ++i)
    printf "%s,%s,%s,%s,%s\n", i == 3 ? "" : i, i % 7 == 2 ? 9 : i % 7 ".5",
      i % 5 == 1 ? -1 : i % 5, i % 6 == 1 ? "none" : i % 2 ? "Rom" : "Ulm",
      (i % 7 > 3) ? "cat" : "dog"
}' >full.csv
# Gaps in place of these values: of all kinds, of a column of whole numbers only
# empty ones.
awk -F , -v OFS=, '{
  split("NA,nan, ,,null", gap, ",")
  if ($2 == 9) $2 = gap[NR % 5 + 1]
  if ($3 == -1) $3 = ""
  if ($4 == "none") $4 = NR % 4 == 1 ? "" : "N/A"
  print
}' full.csv >gaps.csv
awk -F , 'NR > 1 {
  printf "{\"b\":%s", $3 == "" ? "null" : $3
  if ($2 ~ /[0-9]/) printf ",\"a\":%s", $2
  if ($4 ~ /^[RU]/) printf ",\"city\":\"%s\"", $4
  printf ",\"label\":\"%s\"}\n", $5
}' gaps.csv >gaps.jsonl
columns="--features a,b,city,label --one-hot city"
missing="--missing a=9,b=-1,city=none"
# shellcheck disable=SC2086
{
  trains full --data full.csv $columns
  trains gaps --data gaps.csv $columns $missing
  trains others --data gaps.csv $columns --missing 'a=9,*=-1,city=none'
  trains lines --data gaps.jsonl $columns $missing
  cp -r runs/gaps runs/part
  "$lockstep" train --resume runs/part --epochs 5 --quiet >out.txt 2>err.txt ||
    fail "resume with gaps"
}
for name in gaps others lines; do
  cmp -s runs/full/model.safetensors runs/$name/model.safetensors ||
    fail "$name are learnt otherwise than their values"
done
cut -d , -f 2-4 full.csv >full-bare.csv
cut -d , -f 2-4 gaps.csv >gaps-bare.csv
predicts runs/full full-bare.csv
cp out.txt answers.txt
same runs/gaps gaps-bare.csv
same runs/gaps gaps.jsonl
"$lockstep" export runs/gaps --out served >out.txt 2>err.txt || fail "export"
same served gaps-bare.csv
"$lockstep" eval runs/gaps --data gaps.csv >out.txt 2>err.txt || fail "eval"
# A column that the first line lacks, or every line.
row=$(grep -vn '"a"' gaps.jsonl | head -n 1 | cut -d : -f 1)
{ sed -n "${row}p" gaps.jsonl && cat gaps.jsonl; } >lacks.jsonl
{ sed -n "1p;$((row + 1))p" gaps.csv && sed 1d gaps.csv; } >lacks.csv
# shellcheck disable=SC2086
{
  trains lacks --data lacks.jsonl $columns $missing
  trains first --data lacks.csv $columns $missing
}
cmp -s runs/lacks/model.safetensors runs/first/model.safetensors ||
  fail "a column that the first line lacks is learnt otherwise"
predicts runs/gaps lacks.csv
cp out.txt answers.txt
same runs/gaps lacks.jsonl
head -n 1 lacks.jsonl >one.jsonl
head -n 1 answers.txt >one.txt && mv one.txt answers.txt
same runs/gaps one.jsonl
ends 1 "'lacks.jsonl' has no column 'c'; it has" train --model tiny \
  --data lacks.jsonl --missing c=0 --quiet
# Without the flag, and where it cannot be.
ends 1 "'city' is empty: --missing city=TEXT" train \
  --model tiny --data gaps.csv --features b,city,label --one-hot city --quiet
ends 1 "column 'b': '' is no f32; fill it in, give the column a value of missing \
fields (from the command: --missing b=0), or leave it out (--features)" train \
  --model tiny --data gaps.csv --features b,label --quiet --run-dir runs/no
ends 1 "'gaps.csv' has no column 'c'; it has id, a, b, city, label (--missing)" \
  train --model tiny --data gaps.csv --missing c=0 --quiet
ends 2 "--missing has 'b', expected COLUMN=VALUE" train --data gaps.csv --missing b
ends 1 "--missing cannot be given with --data synthetic" train --model tiny \
  --data synthetic --missing a=0 --quiet
# Columns that are left out may have anything, with names or without.
trains left --data gaps.csv --features b,label --missing b=0
sed 1d full.csv | cut -d , -f 1,3,5 >bare.csv
trains bare --data bare.csv --features 2,3
"$lockstep" data gaps.csv --features b,label --missing b=0 >out.txt 2>err.txt ||
  fail "data with gaps"

# ---- Names of classes that are numbers ---------------------------------------
awk 'BEGIN {
  split("1 2 3b", name, " ")
  for (i = 0; i < 30; ++i)
    print "{\"a\":" i % 3 ".5,\"kind\":\"" name[i % 3 + 1] "\"}"
}' >kinds.jsonl
trains kinds --data kinds.jsonl --label kind
printf '{"a":0.5,"kind":1}\n' >one.jsonl
ends 1 "column 'kind' is 1, expected a text" eval runs/kinds --data one.jsonl

# A label that is none of i32 is no other.
printf 'a,b,label\n1.5,2,0\n1,2.5,9999999999\n' >wide.csv
ends 1 "is 2147483647 or more: model 'tiny' has 4 classes" train --model tiny \
  --data wide.csv --test none --quiet --run-dir runs/wide --batch-size 2 \
  --steps 1

# ---- Lines of JSON -----------------------------------------------------------
printf '{"a":0.5,"kind":"x"}\n{"a":0.5,"kind":"a\\u0000b"}\n' >zero.jsonl
printf '{"a":0.5,"kind":"x"}\n{"a":0.5,"kind":"\\ud800"}\n' >half.jsonl
printf '{"a":1,"a":2}\n' >twice.jsonl
for name in zero half; do
  ends 1 "at line 2, byte 17: expected a text without" train --model tiny \
    --data $name.jsonl --quiet --run-dir runs/$name
done
ends 1 "'twice.jsonl'" data twice.jsonl
{
  printf '\357\273\277'
  sed 's/{/ { /' more.jsonl
} >marked.jsonl
predicts runs/base two.csv
cp out.txt answers.txt
same runs/base marked.jsonl
"$lockstep" predict runs/base --data - <marked.jsonl >out.txt 2>err.txt ||
  fail "lines of JSON on standard input"
cmp -s out.txt answers.txt || fail "lines of JSON on standard input differ"
# Numbers slide from no array to another.
awk 'BEGIN {
  for (i = 0; i < 16; ++i)
    print "{\"v\":[1.5," i "],\"s\":" i % 3 ",\"label\":" i % 2 "}"
}' >arrays.jsonl
printf '{"v":[1.5],"s":[2,3],"label":0}\n' >moved.jsonl
trains arrays --data arrays.jsonl --test none
grep -qF '"columns":"v\u00092\ns"' runs/arrays/config.json || fail "no widths"
"$lockstep" eval runs/arrays --data arrays.jsonl >out.txt 2>err.txt ||
  fail "eval of arrays"
ends 1 "column 'v' of 'moved.jsonl' has 1 number a row; in the training's" \
  eval runs/arrays --data moved.jsonl
# Names with escapes are those of the columns.
sed 's/a,b,label/gr\xc3\xb6\xc3\x9fe,b,label/' base.csv >sizes.csv
trains sizes --data sizes.csv
sed 's/"a":/"gr\\u00f6\\u00dfe":/' more.jsonl >sizes.jsonl
predicts runs/sizes sizes.jsonl
cp out.txt answers.txt
sed 's/"a":/"gr\xc3\xb6\xc3\x9fe":/' more.jsonl >plain.jsonl
same runs/sizes plain.jsonl
printf '{"a":1,"\\ud800":2}\n' >half.jsonl
ends 1 "at line 1, byte 8: expected a text without" data half.jsonl
# An object of several lines is a text.
printf '{\n "a": 1\n}\n' >pretty.json
"$lockstep" data pretty.json >out.txt 2>err.txt || fail "data pretty.json"

# ---- What is shown -----------------------------------------------------------
{
  printf '\223NUMPY\001\000\166\000'
  printf '%-117s\n' "{'descr': '<u8', 'fortran_order': False, 'shape': (1,), }"
  printf '\377\377\377\377\377\377\377\377'
} >most.npy
"$lockstep" data most.npy >out.txt 2>err.txt || fail "data most.npy"
grep -qF '0: 18446744073709551615' out.txt || fail "an unsigned number"
# Texts as labels are counted, and shown as they are.
sed 's/cat/Gr\xc3\xbc\xc3\x9fe/; s/dog/\xff\xfe/' base.csv >texts.csv
"$lockstep" data base.csv >out.txt 2>err.txt || fail "data base.csv"
grep -qF "labels of 'base.csv' are texts; a training makes 2 classes of them: cat 16, dog 24" \
  err.txt || fail "no classes: $(cat err.txt)"
grep -qF '0: a=0.5 b=0.25 label="dog"' out.txt || fail "no rows: $(cat out.txt)"
"$lockstep" data texts.csv >out.txt 2>err.txt || fail "data texts.csv"
grep -qF '0: a=0.5 b=0.25 label="??"' out.txt || fail "no UTF-8: $(cat out.txt)"
{ head -n 1 base.csv && sed -n 6,7p texts.csv; } >few.csv
"$lockstep" data few.csv >out.txt 2>err.txt || fail "data few.csv"
grep -qF "$(printf 'label="Gr\303\274\303\237e"')" out.txt ||
  fail "no UTF-8: $(cat out.txt)"
# No control character of a name reaches a terminal.
printf 'a\033[31mb,name,label\n1,x,2\n' >escape.csv
header='{"a\u001b[31m":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
{
  printf '\100\000\000\000\000\000\000\000%-64s' "$header"
  printf '\000\000\000\000'
} >escape.safetensors
for words in "data escape.csv" "checkpoint show escape.safetensors"; do
  # shellcheck disable=SC2086
  "$lockstep" $words >out.txt 2>err.txt || fail "$words"
  grep -qF 'a?[31m' out.txt || fail "$words has no name"
  grep -q "$(printf '\033')" out.txt && fail "$words has a control character"
done

# Rows that train does not take yet are shown, without their missing values.
printf 'age,city,label\n3,Rome,yes\n,Oslo,no\n' >missing.csv
"$lockstep" data missing.csv >out.txt 2>err.txt || fail "data missing.csv"
grep -qF 'age=nan city="Oslo" label="no"' out.txt ||
  fail "data missing.csv: $(cat out.txt)"
grep -q "no examples for 'lockstep train' yet: column 'city'" err.txt ||
  fail "data missing.csv: $(cat err.txt)"

# Files of one pattern with other columns.
printf 'a,b,label\n1,2,0\n3,4,1\n' >part1.csv
printf 'b,a,label\n2,1,0\n4,3,1\n' >part2.csv
ends 1 "'part2.csv' has 'b' as column 1, the files before it have 'a'" \
  train --model tiny --data 'part*.csv' --quiet
printf 'a,label\n1,0\n' >part2.csv
ends 1 "'part2.csv' has 2 columns, the files before it have 3" \
  train --model tiny --data 'part*.csv' --quiet
exit $failed
