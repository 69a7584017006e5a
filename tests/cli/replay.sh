#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep replay makes steps of a run again and compares them bit by bit with
# what the run recorded; it changes nothing.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run guess short changed wrong made.csv

# trains ARGUMENT...
trains() {
  "$lockstep" train --quiet "$@" >out.txt 2>err.txt || fail "train $*: code $?"
}

# replays CODE TEXT ARGUMENT...: with this code and text
replays() {
  want=$1 text=$2
  shift 2
  "$lockstep" replay --quiet "$@" >out.txt 2>err.txt
  code=$?
  [ $code = "$want" ] || fail "replay $*: code $code, wanted $want"
  cat out.txt err.txt | grep -qF -- "$text" ||
    fail "replay $*: wanted '$text', got $(cat out.txt err.txt)"
}

tiny="--model tiny --data synthetic --seed 3"
# shellcheck disable=SC2086
trains $tiny --replicas 2 --optimizer adam --accumulate 2 --steps 200 \
  --save-every-steps 50 --keep 0 --checksum 20 --run-dir run
# As of a training that is saving.
touch run/model.ckpt-250.safetensors.tmp run/model.ckpt-250.json.tmp
before=$(cd run && ls -l && cksum ./*)
replays 0 "steps 0 to 200 are the same: 12 lines of metrics, 4 checkpoints" run
replays 0 "steps 100 to 160 are the same: 3 lines of metrics, 1 checkpoint" \
  run --from 120 --to 160 --threads 1
LS_ISA=base
export LS_ISA
replays 0 "steps 0 to 60 are the same: 3 lines of metrics, 1 checkpoint" \
  run --to 60
unset LS_ISA
[ "$before" = "$(cd run && ls -l && cksum ./*)" ] || fail "the run is changed"

# Another end has another schedule.
trains --resume run --steps 300 --save-every-steps 50 --checksum 30
replays 0 "steps 0 to 200 are the same" run
grep -q "went on from step 200 to another end: --from 200 makes its later" \
  err.txt || fail "another end is not told"
replays 0 "steps 200 to 300 are the same: 5 lines of metrics, 2 checkpoints" \
  run --from 200

# Other flags and another end: each part is made again with its own.
rm -rf parts branch
# shellcheck disable=SC2086
trains $tiny --steps 6 --keep 0 --run-dir parts
trains --resume parts --allow-inexact --batch-size 16 --steps 12
replays 0 "steps 6 to 12 are the same" parts --from 6
trains --resume parts --allow-inexact --replicas 2 --steps 18
replays 0 "steps 12 to 18 are the same" parts --from 12
trains --resume parts --allow-inexact --seed 9 --steps 24
replays 0 "steps 18 to 24 are the same" parts --from 18
replays 0 "steps 0 to 6 are the same" parts

# A run that goes on from another one's step lacks that checkpoint.
trains --resume run@100 --run-dir branch --checksum 1 \
  --save-every-steps 300
replays 1 "steps 100 to 300 cannot be made again: the run in 'branch' goes on \
from step 100 of another one, and has its first checkpoint at step 300" branch
rm -rf branch
trains --resume run@100 --run-dir branch --save-every-steps 50 --keep 0
replays 0 "steps 101 to 300 are the same" branch
grep -q "begins at the first checkpoint, of step 101: the run goes on from" \
  err.txt || fail "steps that are left out are not told"
replays 1 "steps 100 to 300 cannot be made again" branch --from 100

# What cannot be made again.
replays 1 "steps 0 to 301 cannot be made again: the run in 'run' recorded" \
  run --to 301
replays 1 "steps 300 to 300 cannot be made again" run --from 300
replays 1 "there is no step after step 200 up to step 100" \
  run --from 200 --to 100
replays 2 "lockstep replay: --data is '$PWD/other.csv', the run in 'run' has \
'synthetic': steps are made again with the same only" run --data other.csv
replays 1 "'nothing' is no run folder" nothing
replays 2 "RUN is missing"
# shellcheck disable=SC2086
trains $tiny --steps 10 --run-dir short
replays 1 "the run recorded nothing about steps 0 to 5 to compare with" \
  short --to 5

# Means at a step with a checksum are compared with those of a run without, and
# a replay makes checksums that the run lacks.
rm -rf summed
# shellcheck disable=SC2086
trains $tiny --steps 10 --checksum 5 --run-dir summed
"$lockstep" diff short summed >out.txt 2>err.txt
grep -q "^equal: 2 lines of metrics" out.txt || fail "not two lines in common"
sed -i 's/"loss":/"loss":1/' summed/metrics.jsonl
"$lockstep" diff short summed >out.txt 2>err.txt
grep -q "first at step 10: loss is" out.txt || fail "means are passed over"
replays 1 "metrics.jsonl: first at step 10: loss is" summed
sed -i '/"step":10,"checksum"/d' summed/metrics.jsonl
replays 1 "metrics.jsonl: first at step 10: loss is" summed

# Metrics of one run only, with a long name, and no lines at all.
differs() {
  "$lockstep" diff "$2" "$3" >out.txt 2>err.txt && fail "diff $2 $3: equal"
  grep -qF "$1" out.txt || fail "diff $2 $3: wanted '$1', got $(cat out.txt)"
}
# add NAME MEMBER: a copy of a run whose first line has another member
add() {
  rm -rf "$1"
  cp -r short "$1"
  sed -i "1s|}\$|,$2}|" "$1/metrics.jsonl"
}
long=encoder/block_3/attention/head_7/validation/per_class_recall_of_people
add long "\"$long\":0.25"
add other "\"$long\":0.75"
differs "$long is 0.25 (0x3fd0000000000000) and 0.75" long other
differs "$long is missing and 0.25" short long
differs "$long is 0.25 (0x3fd0000000000000) and missing" long short
"$lockstep" diff long short --json >out.txt 2>err.txt
grep -qF "\"member\":\"$long\",\"values\":[\"0.25 (0x3fd0000000000000)\",null]" \
  out.txt || fail "no JSON of a missing member"
replays 1 "$long is 0.25 (0x3fd0000000000000) and missing" long
add long '"gradient_norm":0.5'
"$lockstep" diff long short >out.txt 2>err.txt || fail "a flag's metric counts"
rm other/metrics.jsonl
differs "'short' continues at step 10, 'other' has ended" short other
differs "'short' continues at step 10, 'other' has ended" other short
rm -rf long other

# A checksum that differs, then a line, then values.
cp -r run changed
sed -i '/"step":60,"checksum"/s/m":"./m":"x/' changed/metrics.jsonl
replays 1 "metrics.jsonl: first at step 60: checksum is x" changed
grep -q "^all is equal up to step 50$" out.txt || fail "no last equal step"
replays 0 "steps 100 to 200 are the same" changed --from 100
sed -i '/"step":200,.*"loss"/s/"loss":/"loss":1/' changed/metrics.jsonl
replays 1 "metrics.jsonl: first at step 200: loss is 1" changed --from 100
printf x | dd of=changed/model.ckpt-100.safetensors bs=1 seek=700 conv=notrunc \
  2>dd.txt
replays 1 "model.ckpt-100" changed --from 60 --to 100

# An estimator's, whose optimizer has slots, in replicas.
# shellcheck disable=SC2086
trains $tiny --estimator --replicas 2 --optimizer adam --steps 20 --checksum 5 \
  --save-every-steps 10 --keep 0 --run-dir guess
replays 0 "steps 0 to 20 are the same: 5 lines of metrics, 2 checkpoints" guess
replays 0 "steps 10 to 20 are the same" guess --from 12
export TMPDIR=/nowhere
replays 1 "lockstep replay: cannot make a folder in '/nowhere': No such file" guess
unset TMPDIR
replays 2 "break is for a model's run" guess --at 5 --break
sed -i '/"step":15,"checksum"/s/m":"./m":"x/' guess/metrics.jsonl
replays 1 "metrics.jsonl: first at step 15: checksum is x" guess
printf x | dd of=guess/model.ckpt-10.safetensors bs=1 seek=1500 conv=notrunc \
  2>dd.txt
replays 1 "guess/model.ckpt-10.safetensors" guess

# One label of the data, in the batch of some step.
awk 'BEGIN {
  srand(5)
  for (i = 0; i < 160; ++i) {
    for (k = 0; k < 16; ++k) printf "0.%03d,", int(rand() * 1000)
    print i % 4
  }
}' >made.csv
rm -rf run
trains --model tiny --data made.csv --split 0.2 --epochs 1 --checksum 1 \
  --run-dir run
replays 0 "are the same" run
awk -F , -v OFS=, 'NR == 50 { $17 = ($17 + 1) % 4 } { print }' made.csv >other
mv other made.csv
replays 1 "metrics.jsonl: first at step" run

# A label that is no class of the model is named with its row.
awk -F , -v OFS=, 'NR == 60 { $17 = 7 } { print }' made.csv >wrong.csv
ends 1 "is 7: model 'tiny' has 4 classes, which count from 0; from the command: --outputs 8, or more, has it (example 59 of the \
data, counted from 0" train --model tiny --data wrong.csv --test none --quiet \
  --run-dir wrong

# The first NaN: one in the data, one that an op makes.
awk -F , -v OFS=, 'NR == 60 { $3 = "nan" } { print }' made.csv >other
mv other made.csv
rm -rf run
ends 1 "(input 0 is NaN at [" train --model tiny --data made.csv --split 0.2 \
  --run-dir run --find-nan --quiet
rm -rf run
ends 1 "the loss is nan at step 14: example 59 of the data has NaN" train \
  --model tiny --data made.csv --split 0.2 --run-dir run --quiet
grep -q "is NaN" err.txt && fail "a NaN is looked for without --find-nan"
rm -rf run
ends 1 "makes NaN at [0,3] of f32[8,128] on replica 0; from f32[8,12544] from" \
  train --model cnn --data synthetic --replicas 2 --learning-rate 1e15 \
  --batch-size 16 --steps 9 --run-dir run --find-nan --quiet
# A replay looks for it beyond the last step recorded, up to the run's end.
rm -rf far near
ends 1 "or run 'lockstep replay far --find-nan'" train --model tiny \
  --data synthetic --steps 50 --learning-rate 1e30 --run-dir far --quiet
ends 1 "the loss is nan at step" replay far --find-nan --quiet
grep -q "(op .* makes NaN at " err.txt || fail "replay names no op"
"$lockstep" train --model tiny --data synthetic --steps 7 --run-dir near \
  --quiet >out.txt 2>err.txt || fail "a run"
replays 0 "no NaN up to step 7" near --find-nan
replays 0 "no spike up to step 7" near --find-spike 1000
replays 0 "no NaN up to step 7" near --find-nan --from 6
ends 1 "the run in 'near' has no step after step 7 to make again" \
  replay near --find-nan --from 7
# What the training said about its data is not said again.
rm -rf rows
awk 'BEGIN { print "a,b,label"
  for (i = 0; i < 60; ++i) print i % 7 ".5," i % 5 "," i % 2 }' >rows.csv
"$lockstep" train --model tiny --estimator --data rows.csv --steps 7 \
  --run-dir rows >out.txt 2>err.txt || fail "a run of an estimator"
[ "$(grep -c 'held out' err.txt)" = 1 ] || fail "held out is not said once"
"$lockstep" replay rows >out.txt 2>err.txt || fail "replay rows"
grep 'held out' err.txt && fail "a replay says what is held out"
exit $failed
