#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep verify checks a run against its chain of hashes, names what was
# changed since, and finds by making steps again what a chain cannot tell. It
# changes nothing.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run kept changed plain none branch guess made.csv other.csv line cores e.so

# trains ARGUMENT...
trains() {
  "$lockstep" train --quiet "$@" >out.txt 2>err.txt || fail "train $*: code $?"
}

# verifies CODE TEXT ARGUMENT...: with this code and text
verifies() {
  want=$1 text=$2
  shift 2
  "$lockstep" verify --quiet "$@" >out.txt 2>err.txt
  code=$?
  [ $code = "$want" ] || fail "verify $*: code $code, wanted $want"
  cat out.txt err.txt | grep -qF -- "$text" ||
    fail "verify $*: wanted '$text', got $(cat out.txt err.txt)"
}

# is_named TEXT COMMAND...: a copy of the run, changed by the command in it, is
# not verified and the change is named
is_named() {
  text=$1
  shift
  rm -rf changed
  cp -r run changed
  (cd changed && "$@") || fail "cannot change the run: $*"
  verifies 1 "$text" changed --segments 0
  grep -q "^not verified: 'changed' has 1 difference from" out.txt ||
    fail "more than one difference: $*: $(cat out.txt)"
}

# chains: writes the hashes of the lines in chain.jsonl again
chains() {
  before=
  while IFS= read -r line; do
    body="${line%,\"before\":*},\"before\":\"$before\""
    before=$(printf %s "$body" | sha256sum | cut -c1-64)
    printf '%s,"sha256":"%s"}\n' "$body" "$before"
  done <chain.jsonl >chain.new
  mv chain.new chain.jsonl
}

# ---- An intact run -----------------------------------------------------------
awk 'BEGIN {
  srand(5)
  for (i = 0; i < 800; ++i) {
    for (k = 0; k < 16; ++k) printf "0.%03d,", int(rand() * 1000)
    print i % 4
  }
}' >made.csv
tiny="--model tiny --data made.csv --split 0.2 --seed 3"
# shellcheck disable=SC2086
trains $tiny --replicas 2 --optimizer adam --learning-rate 0.01 --epochs 3 --save-every-steps 50 \
  --keep 0 --checksum 20 --attest --run-dir run
before=$(cd run && ls -l && cksum ./*)
verifies 0 "8 lines of the chain, 5 checkpoints and the metrics are the same" \
  run
head=$(sed -n 's/.*head \([0-9a-f]*\)$/\1/p' out.txt)
grep -q "^1 part of the data is the same$" out.txt || fail "the data: no line"
grep -q "^verified: 'run' is as its chain says" out.txt || fail "no verdict"
verifies 0 "and 240 of its 240 steps made again have its bits" run --all
verifies 0 "and 0 of its 240 steps made again" run --segments 0 --head "$head"
verifies 1 "its head is $head, not 1234" run --segments 0 --head 1234
verifies 0 "and 240 of its 240 steps" run --segments 9 --threads 1
verifies 0 "steps " run --segments 2 --seed 4
cp out.txt one.txt
verifies 0 "steps " run --segments 2 --seed 4
cmp -s out.txt one.txt || fail "the same seed draws other segments"
[ "$before" = "$(cd run && ls -l && cksum ./*)" ] || fail "the run is changed"

# ---- Each change is named ----------------------------------------------------
# flips FILE OFFSET: another byte there
flips() {
  byte=$(dd if="$1" bs=1 skip="$2" count=1 2>/dev/null | od -An -tu1)
  # shellcheck disable=SC2059
  printf "\\$(printf %o $((byte ^ 1)))" |
    dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}
size=$(wc -c <run/model.ckpt-100.safetensors)
is_named "model.ckpt-100.safetensors differs in bytes 960 to 1023 of $size" \
  flips model.ckpt-100.safetensors 1000
is_named "model.ckpt-150.safetensors differs in bytes" \
  flips model.ckpt-150.safetensors $((size - 3))
is_named "model.ckpt-50.json differs in bytes 128 to 191 of" \
  flips model.ckpt-50.json 130
is_named "model.safetensors differs in bytes" flips model.safetensors 900
is_named "has 900 bytes, it had $size" truncate -s 900 \
  model.ckpt-200.safetensors
is_named "metrics.jsonl differs in bytes" \
  sed -i '/"step":80,.*"loss"/s/"loss":/"loss":1/' metrics.jsonl
grep -q "in lines of steps 51 to 100$" out.txt || fail "no steps of metrics"
is_named "metrics.jsonl: " truncate -s 700 metrics.jsonl
is_named 'config.json: "learning_rate" is 0.25, it was 0.01' \
  sed -i 's/"learning_rate":[0-9.e-]*/"learning_rate":0.25/' config.json
is_named 'config.json: "seed" is 4, it was 3' \
  sed -i 's/"seed":3/"seed":4/' config.json
is_named 'config.json: "flip" is true, it was false' \
  sed -i 's/"flip":false/"flip":true/' config.json
is_named 'config.json: "crc32c" is "0' \
  sed -i 's/"crc32c":"[0-9a-f]*/"crc32c":"00000000/' config.json
is_named 'config.json: "more" is 1, it was missing' \
  sed -i 's/{/{"more":1,/' config.json
is_named "config.json: 'changed/config.json' is damaged" \
  sed -i 's/,/, /' config.json
is_named "config.json: " truncate -s 100 config.json
is_named "config.json: " rm config.json
is_named "chain.jsonl: line 8 was changed" \
  sed -i '8s/"step":240/"step":241/' chain.jsonl

# More than one difference each.
# is_found TEXT COMMAND...
is_found() {
  text=$1
  shift
  rm -rf changed
  cp -r run changed
  (cd changed && "$@") || fail "cannot change the run: $*"
  verifies 1 "$text" changed --segments 0
}
is_found "chain.jsonl: line 4 does not follow the line before it" \
  sed -i '3{h;d};4{G}' chain.jsonl
is_found "chain.jsonl: line 1 does not follow the line before it" \
  sed -i 1d chain.jsonl
is_found "chain.jsonl: line 7 does not follow the line before it" \
  sed -i 7d chain.jsonl
is_found "the checkpoint of step 50 has no line in the chain" \
  sed -i '/"event":"save"/s/"step":50/"step":51/' chain.jsonl
is_found "the checkpoint of step 200 has no line in the chain" \
  sed -i '6,$d' chain.jsonl
is_found "the checkpoint of step 70 has no line in the chain" \
  cp model.ckpt-50.json model.ckpt-70.json
is_found "model.ckpt-100.json: cannot open" rm model.ckpt-100.json
is_found "has no line" truncate -s 0 chain.jsonl
is_found "line 1 was changed" sh -c 'head -c 9000 /dev/urandom >chain.jsonl
  echo >>chain.jsonl'
is_found "line 8 was changed" sh -c 'echo "{}" >>chain.jsonl; sed -i 8d \
  chain.jsonl'

# ---- Data --------------------------------------------------------------------
# A label is named by its bytes and by the first step that saw it.
awk -F , -v OFS=, 'NR == 50 { $17 = ($17 + 1) % 4 } { print }' made.csv \
  >other.csv
size=$(wc -c <made.csv)
verifies 1 "other.csv differs in bytes" run --data other.csv --all
grep -q "differs in bytes [0-9]* to [0-9]* of $size$" out.txt ||
  fail "no range of bytes"
head -c 20000 made.csv >other.csv
verifies 1 "other.csv has 20000 bytes, it had $size" run --data other.csv

# Steps that cannot be made again are not called wrong.
mv made.csv moved.csv
verifies 1 "as its chain says, but its steps could not be made again" run
mv moved.csv made.csv

# ---- A chain that was made again ---------------------------------------------
# It is as good as any, but its head; steps made again tell what is wrong.
forges() {
  sed -i '1s/"learning_rate":[0-9.e-]*/"learning_rate":0.25/' chain.jsonl
  chains
  sed -i 's/"learning_rate":[0-9.e-]*/"learning_rate":0.25/
    s/,"crc32c":"[0-9a-f]*"//' config.json
}
rm -rf changed
cp -r run changed
(cd changed && forges)
verifies 0 "and 0 of its 240 steps" changed --segments 0
verifies 1 "its head is" changed --segments 0 --head "$head"
verifies 1 "has another program" changed --seed 5
verifies 1 "metrics.jsonl: first at step 20: checksum is" changed --all

# A better result.
forges_loss() {
  sed -i '/"step":80,.*"loss"/s/"loss":[0-9]*\./"loss":0./' metrics.jsonl
  sed -n 's/.*"metrics":{"bytes":\([0-9]*\),.*/\1/p' chain.jsonl >sizes
  while read -r bytes; do
    new=$(head -c "$bytes" metrics.jsonl | sha256sum | cut -c1-64)
    sed -i "s/\"bytes\":$bytes,\"sha256\":\"[0-9a-f]*\"}/\"bytes\":$bytes,\
\"sha256\":\"$new\"}/" chain.jsonl
  done <sizes
  chains
}
rm -rf changed
cp -r run changed
(cd changed && forges_loss)
verifies 1 "metrics.jsonl: first at step 80: loss is 0." changed --all

# ---- Runs that were stopped, go on, and keep few -----------------------------
# shellcheck disable=SC2086
trains $tiny --steps 100 --save-every-steps 10 --keep 3 --attest --run-dir kept
verifies 0 "3 checkpoints and the metrics are the same; 7 checkpoints are gone" \
  kept
rm kept/model.ckpt-90.*
verifies 1 "model.ckpt-90.safetensors: cannot open" kept
trains --resume kept --steps 140 --save-every-steps 10
verifies 0 "3 checkpoints and the metrics are the same; 11 checkpoints are gone" \
  kept --all
grep -q "note: steps 0 to 120 cannot be made again: the run went on to another" \
  out.txt || fail "steps with two ends"
grep -q "and 20 of its 140 steps made again have its bits" out.txt ||
  fail "other steps are made again"
# Back to an earlier step, as the last one is damaged.
flips kept/model.ckpt-140.safetensors 1000
trains --resume kept --steps 170 --save-every-steps 10
verifies 0 "are the same" kept --segments 9
# Its last line may be incomplete, its last checkpoint without one.
sed -i '$d' kept/chain.jsonl
last=$(tail -n 1 kept/chain.jsonl)
sed -i '$d' kept/chain.jsonl
printf '%.99s' "$last" >>kept/chain.jsonl
verifies 0 "note: the checkpoint of step 170 has no line in the chain: the run" \
  kept
grep -q "note: chain.jsonl: the last line is incomplete" out.txt ||
  fail "an incomplete line"
trains --resume kept --steps 180 --save-every-steps 10
verifies 0 "are the same" kept

# With other flags to the same end, from the checkpoint before a damaged one.
rm -rf kept
# shellcheck disable=SC2086
trains $tiny --steps 100 --save-every-steps 10 --keep 3 --attest --run-dir kept
flips kept/model.ckpt-100.safetensors 1000
trains --resume kept --allow-inexact --learning-rate 0.2 --save-every-steps 2
verifies 0 "and 4 of its 100 steps made again have its bits" kept --all
grep -q "note: steps 0 to 96 cannot be made again: the run went on with other" \
  out.txt || fail "steps with two rates"

# ---- A run that goes on from another one's step --------------------------------
# Its first steps begin with a checkpoint that it lacks.
trains --resume run@100 --checksum 1 --save-every-steps 300 --run-dir branch --attest
verifies 0 "verified: 'branch' is as its chain says, and 0 of its 140 steps" \
  branch --all
grep -q "note: steps 100 to 240 cannot be made again: the run goes on from a" \
  out.txt || fail "steps without their checkpoint"
rm -rf branch
trains --resume run@100 --save-every-steps 50 --run-dir branch --attest
verifies 0 "and 139 of its 140 steps made again have its bits" branch --all

# ---- A run without a step ------------------------------------------------------
trains --model tiny --data made.csv --split 0.2 --steps 0 --attest --run-dir none
verifies 0 "4 lines of the chain, 1 checkpoint and the metrics are the same" none
trains --resume none --steps 5
verifies 0 "and 5 of its 5 steps made again have its bits" none --all
trains --model tiny --data made.csv --split 0.2 --steps 0 --attest --overwrite \
  --run-dir none
verifies 0 "1 checkpoint and the metrics are the same" none

# ---- Others ------------------------------------------------------------------
# shellcheck disable=SC2086
trains $tiny --steps 20 --run-dir plain
verifies 1 "the run in 'plain' has no chain.jsonl" plain
verifies 1 "'nothing'" nothing
verifies 2 "RUN is missing"

# ---- Estimators --------------------------------------------------------------
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so
line="--model e.so:line"
# shellcheck disable=SC2086
trains $line --steps 20 --save-every-steps 5 --keep 2 --attest --run-dir line
trains --resume line $line --steps 30 --save-every-steps 5
verifies 0 "and 30 of its 30 steps made again have its bits" line $line --all
grep -q "1 part of the data is the same" out.txt || fail "no data of a library"
verifies 2 "name its shared library, as --model" line
rm -rf changed
cp -r line changed
sed -i 's/"batch_size": 32/"batch_size": 16/' changed/estimator.json
verifies 1 'estimator.json: "batch_size" is 16, it was 32' changed $line
cp line/estimator.json changed
sed -i '/"step":20/s/"loss":/"loss":1/' changed/metrics.jsonl
verifies 1 "metrics.jsonl differs in bytes" changed $line
# A schedule's end, and a flag, from a checkpoint that is gone.
rm -rf kept
trains --model tiny --data made.csv --estimator --optimizer adam \
  --schedule cosine --steps 20 --keep 1 --attest --run-dir kept
trains --estimator --resume kept --steps 40
verifies 0 "and 0 of its 40 steps made again have its bits" kept --all
grep -q "note: steps 0 to 40 cannot be made again: the run went on to another" \
  out.txt || fail "an estimator's steps with two ends"
rm -rf kept
trains --model tiny --data made.csv --estimator --steps 20 --keep 1 --attest \
  --run-dir kept
trains --estimator --resume kept --steps 40
verifies 0 "and 40 of its 40 steps made again have its bits" kept --all
trains --estimator --resume kept --steps 50 --gradient-norm
verifies 0 "and 50 of its 50 steps made again have its bits" kept --all
trains --estimator --resume kept --steps 60 --allow-inexact --learning-rate 0.3
verifies 0 "and 0 of its 60 steps made again have its bits" kept --all
grep -q "note: steps 0 to 60 cannot be made again: the run went on with other" \
  out.txt || fail "an estimator's steps with two flags"
# On cores evaluations are between parts of a training.
trains --model tiny --data made.csv --estimator --tpu virtual:2x2 --steps 20 \
  --iterations-per-loop 5 --save-every-steps 10 --keep 0 \
  --keep-best test_loss --attest --run-dir cores
verifies 0 "and 20 of its 20 steps made again have its bits" cores --all
[ "$(grep -c test_loss cores/metrics.jsonl)" = 2 ] || fail "lines of evaluations"
awk -F , -v OFS=, 'NR == 50 { $17 = ($17 + 1) % 4 } { print }' made.csv \
  >other.csv
verifies 1 "other.csv differs in bytes" cores --data other.csv
! ls -d steps-* >out.txt 2>err.txt || fail "a folder is left"
exit $failed
