#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Texts, whose bytes are tokens: trained on, tested on, continued.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
library=${LS_BUILD_DIR:?}/tests/cli/libraries/language.so
rm -rf ./*.txt ./*.npy run* book poems export tiny empty

# works ARGUMENT...
works() {
  "$lockstep" "$@" >out.txt 2>err.txt || fail "lockstep $*"
}

# ---- Data --------------------------------------------------------------------
# Each byte has one successor, which the tiny model can learn.
phrase='jumps over;'
yes "$phrase" | tr -d '\n' | head -c 4000 >book
mkdir poems
head -c 1500 book >poems/one.txt
tail -c +1501 book >poems/two.txt
echo 'no text' >poems/notes.md
works data book
grep -q '^book: text, 1 element of ' out.txt || fail "no summary of book"
grep -qF 'as tokens of a language model: 4000 bytes, 11 different, the largest 118, in 1 file' \
  out.txt || fail "no tokens of book"
works data poems
grep -q '^poems: texts, 2 elements of ' out.txt || fail "no summary of poems"
grep -qF '4000 bytes, 11 different, the largest 118, in 2 files' out.txt ||
  fail "no tokens of poems"

# trains FOLDER ARGUMENT...
trains() {
  folder=$1
  shift
  works train --model "$library:words" --quiet --run-dir "$folder" "$@"
}
trains run --data book --steps 200
grep -q '^test accuracy: 0\.9\|^test accuracy: 1' out.txt || fail "no accuracy"
# A folder's files, and a list of files, are one text: the same bytes.
for data in poems poems/one.txt,poems/two.txt 'poems/*.txt'; do
  trains run-2 --data "$data" --steps 3 --overwrite
  trains run-3 --data book --steps 3 --overwrite
  cmp -s run-2/model.safetensors run-3/model.safetensors ||
    fail "$data is another text than book"
done
# Tokens of arrays are none but those that the model has.
# tokens FILE TOKEN: an example whose last token is that, of eight bytes.
tokens() {
  {
    printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' \
      "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 16), }"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
      printf 'a\000\000\000\000\000\000\000'
    done
    # shellcheck disable=SC2059
    printf "$2"
  } >"$1"
}
tokens good.npy 'b\000\000\000\000\000\000\000'
tokens wraps.npy 'b\000\000\000\001\000\000\000'
tokens large.npy '\054\001\000\000\000\000\000\000'
tokens less.npy '\373\377\377\377\377\377\377\377'
works predict run --model "$library:words" --data good.npy
for row in wraps:4294967394 large:300 less:-5; do
  ends 1 "number 16 of example 0 is ${row#*:}: the model's tokens are 0 to 255" \
    predict run --model "$library:words" --data "${row%:*}.npy"
done
ends 1 "number 16 of example 0 is 300: the model's tokens are 0 to 255" \
  train --model "$library:words" --data large.npy,good.npy --test none --quiet \
  --run-dir run-large --steps 1
# The test set is the text's end, a tenth or --split of it, or another text.
# The book has 249 pieces of 16 bytes.
tested() {
  wanted=$1
  shift
  works eval --model "$library:words" --json "$@"
  grep -qF "\"examples\":$wanted,\"loss\":" out.txt || fail "not $wanted examples"
  grep -q '"perplexity":[0-9.]*}$' out.txt || fail "no perplexity"
}
tested 25 run
tested 249 run --data book
trains run-2 --data book --split 0.5 --steps 1 --overwrite
tested 125 run-2
trains run-2 --data book --test poems/one.txt --steps 1 --overwrite
tested 93 run-2
trains run-2 --data book --test none --steps 1 --overwrite
works eval run --model "$library:words"
grep -q '^test perplexity: 1\.' out.txt || fail "no perplexity"

# Bytes that are no classes of the model, and texts that are too short.
printf 'caf\303\251, and more than sixteen bytes' >poems/french.txt
printf ' caf\303\251\n' >accent.txt
ends 1 "byte 3 of 'poems/french.txt', counted from 0, is 195: the model has 128 classes" \
  train --model "$library:ascii" --data poems
works train --model "$library:ascii" --data book --steps 1 --quiet --run-dir run-4
rm poems/french.txt
printf '0123456789' >short.txt
ends 1 "'short.txt' has 10 bytes: a piece of 16 and the byte after it need 17" \
  train --model "$library:words" --data short.txt
printf '01234567890123456' >short.txt
ends 1 "'short.txt' has 1 examples, too few for a test set" \
  train --model "$library:words" --data short.txt
mkdir empty
ends 1 "model 'words' learns from text, folder 'empty' has no .txt file" \
  train --model "$library:words" --data empty
ends 1 "model 'tiny' learns from images or numbers, 'poems' has neither" \
  train --model tiny --data poems
ends 1 "--features is for" train --model "$library:words" --data book --features a

# Of a run the bytes of its files are checked, wherever they are.
trains run-5 --data poems --steps 4 --attest
works verify run-5 --model "$library:words"
sed 's/over/ovex/' poems/one.txt >changed.txt
mv poems/one.txt one.txt
mv changed.txt poems/one.txt
"$lockstep" verify run-5 --model "$library:words" >out.txt 2>err.txt &&
  fail "a changed text is verified"
grep -q '^source 1 of the data (text [0-9a-f]*) differs in elements 0 to 0 of 249$' \
  out.txt err.txt || fail "no place of the change"
ends 1 "its hash of the data is" train --resume run-5 --steps 6 --quiet \
  --model "$library:words"
mv one.txt poems/one.txt
works train --resume run-5 --steps 6 --quiet --model "$library:words" \
  --data poems/one.txt,poems/two.txt

# ---- Scores of lines ---------------------------------------------------------
printf 'jumps over;jumps over;jumps over;\nmoves\n\n' >lines.txt
works predict run --model "$library:words" --data lines.txt
[ "$(sed 's/[0-9][0-9.e+-]*,/N,/g' out.txt | tr '\n' ' ')" = \
  '{"loss":N,"perplexity":N,"row":0} {"loss":N,"perplexity":N,"row":1} {"loss":N,"perplexity":N,"row":2} ' ] ||
  fail "other lines"
sort -t: -k3 -g out.txt | head -n 1 | grep -q '"row":0}' ||
  fail "the phrase is not the likeliest"
cp out.txt scores.txt
works predict run --model "$library:words" --data - --limit 2 <lines.txt
head -n 2 scores.txt | cmp -s - out.txt || fail "other scores of standard input"
ends 1 "byte 4, counted from 0, is 195: the model has 128 classes, so its texts have bytes below that (in line 0, counted from 0)" \
  predict run-4 --model "$library:ascii" --data accent.txt
# A line's scores do not depend on the lines before it.
printf 'ab\n' >short.txt
printf 'jumps over;jumps\nab\n' >lines.txt
works predict run-4 --model "$library:ascii" --data short.txt
sed 's/"row":0/"row":1/' out.txt >scores.txt
works predict run-4 --model "$library:ascii" --data lines.txt
tail -n 1 out.txt | cmp -s - scores.txt || fail "a line depends on the one before"
# A line's end is no class of this model.
tr 'jumps over;' '\001-\007\001-\004' <book >few.txt
works train --model "$library:few" --data few.txt --steps 1 --quiet --run-dir run-6
ends 1 "a line's end is byte 10, and scores count it: the model has 8 classes, so its texts have bytes below that (in line 0, counted from 0)" \
  predict run-6 --model "$library:few" --data few.txt
ends 1 "a text without a prompt begins after a line's end, byte 10, and the model has 8 classes: give a prompt" \
  generate run-6 --model "$library:few"
works generate run-6 --model "$library:few" --prompt "$(printf '\001')" --tokens 2
printf 'jumps over;jumps over;jumps over;\nmoves\n\n' >lines.txt
ends 1 "--features is not for texts, such as 'lines.txt'" \
  predict run --model "$library:words" --data lines.txt --features a
# Examples of the test set have a class for each position.
for flag in "--top 2" --logits "--out masks"; do
  # shellcheck disable=SC2086
  ends 1 "${flag%% *} is not for texts, such as 'lines.txt'" \
    predict run --model "$library:words" --data lines.txt $flag
done
works predict run --model "$library:words" --limit 1
grep -q '^{"class":\[[0-9,]*\],"probability":\[[0-9.,e-]*\],"row":[0-9]*}$' out.txt ||
  fail "no classes"

# A model that is certain of the wrong byte has no finite perplexity; JSON has no
# infinity and no NaN.
works train --model "$library:words" --data book --steps 1 --quiet \
  --learning-rate 1e5 --optimizer sgd --run-dir run-7
works predict run-7 --model "$library:words" --data lines.txt
grep -q '"perplexity":null,' out.txt || fail "no infinite perplexity"
works eval run-7 --model "$library:words" --json
grep -q '"perplexity":null}' out.txt || fail "an infinite perplexity as JSON"

# ---- Generating --------------------------------------------------------------
# generates WANTED ARGUMENT...: exactly this text.
generates() {
  wanted=$1
  shift
  works generate "$@"
  [ "$(cat out.txt)" = "$wanted" ] || fail "generate $*: wanted: $wanted"
}
model="--model $library:words"
# shellcheck disable=SC2086
generates "jumps over;jumps over;jumps over;jumps" run $model \
  --prompt jumps --tokens 33 --temperature 0
grep -qE '^lockstep generate: [0-9.]+ ms per token$' err.txt || fail "no time"
works export run $model --out export
export=$(cat out.txt)
generates "jumps over;jumps over;jumps over;jumps" "$export" \
  --prompt jumps --tokens 33 --temperature 0 --quiet
[ -s err.txt ] && fail "--quiet prints"
# While it waits for its prompt Ctrl-C ends it.
rm -f pipe
mkfifo pipe
env --default-signal=INT "$lockstep" generate export --prompt - <pipe \
  >out.txt 2>err.txt &
process=$!
exec 3>pipe
sleep 0.3
kill -s INT $process
sleep 0.1
exec 3>&-
wait $process
code=$?
[ "$code" = 130 ] && grep -q 'ended by SIGINT' err.txt ||
  fail "generate waits for its prompt in spite of Ctrl-C: code $code"
rm pipe
# The prompt is as long as it likes, and may come through a pipe; no prompt is a
# line's end.
printf 'what is it, and who jumps ov' |
  "$lockstep" generate export --prompt - --tokens 5 --temperature 0 \
    >out.txt 2>err.txt || fail "a prompt by a pipe"
[ "$(cat out.txt)" = "what is it, and who jumps over;ju" ] ||
  fail "another text after a pipe's prompt"
works generate export --tokens 1
[ "$(wc -c <out.txt)" = 2 ] || fail "not one byte and a newline"
# Drawn texts depend on the seed alone, and differ; a wide temperature draws
# other bytes, of which --top-k 1 leaves the likeliest.
drawn="--prompt jump --tokens 30 --temperature 3 --quiet"
# shellcheck disable=SC2086
{
  works generate export $drawn --threads 1 --count 2
  cp out.txt two.txt
  works generate run $model $drawn --threads 2 --count 2
  cmp -s out.txt two.txt || fail "other texts with other threads, or of the run"
  grep -qxF -- '---' two.txt || fail "no line between two texts"
  works generate export $drawn
  head -c 34 two.txt | cmp -s -n 34 - out.txt || fail "the first of two texts differs"
  works generate export $drawn --seed 1
  head -c 34 two.txt | cmp -s -n 34 - out.txt && fail "another seed, the same text"
  generates "jumps over;jumps ov" export $drawn --top-k 1 --tokens 15
}
"$lockstep" train --model tiny --data synthetic --steps 1 --quiet --run-dir tiny \
  >out.txt 2>err.txt || fail "train tiny"
ends 1 "'tiny' is not a language model: generating text needs one that takes tokens i32[N] and has logits of the token after each" \
  generate tiny
works export tiny
ends 1 "is not a language model" generate "$(cat out.txt)"
ends 1 "byte 1 of the prompt, counted from 0, is 195: the model has 128 classes" \
  generate run-4 --model "$library:ascii" --prompt "$(printf 'a\303\251')"
ends 2 "--model is for runs; 'export' is an export" generate export \
  --model "$library"
ends 2 "--temperature is '-1', expected 0 or a number above it" generate run \
  --temperature -1
ends 1 "config.json" generate no-run
# A signal ends the text, not the line.
"$lockstep" generate export --tokens 100000000 >endless.txt 2>err.txt &
waits_for test -s endless.txt
kill -TERM $!
wait $!
[ $? = 143 ] || fail "a signal does not end a text with its code"
[ "$(tail -c 1 endless.txt | tr '\n' E)" = E ] || fail "no line's end"
rm endless.txt
ends 1 "has no checkpoint of step 7" generate run@7 --model "$library:words"

exit $failed
