#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A step of a run in files, and the step, op and example in which two runs
# differ.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run other guess4 guess5 step-* files made.csv changed.csv

# trains ARGUMENT...
trains() {
  "$lockstep" train --quiet "$@" >out.txt 2>err.txt || fail "train $*: code $?"
}

# gives CODE TEXT ARGUMENT...: with this code and text
gives() {
  want=$1 text=$2
  shift 2
  "$lockstep" "$@" >out.txt 2>err.txt
  code=$?
  [ $code = "$want" ] || fail "$*: code $code, wanted $want"
  cat out.txt err.txt | grep -qF -- "$text" || fail "$*: wanted '$text'"
}

tiny="--model tiny --data synthetic --batch-size 16 --steps 24"

# The variables before a step are those of a checkpoint there.
# shellcheck disable=SC2086
trains $tiny --replicas 2 --optimizer adam --save-every-steps 6 --checksum 1 \
  --run-dir run
before=$(cd run && ls -l && cksum ./*)
gives 0 "step 13: its batch, gradients, and" replay --quiet run --at 13 --break
grep -q "^gradients: norm 0\.[0-9]*; the largest:$" out.txt || fail "no norm"
grep -q "^the batch has examples [0-9]*, .* and 8 more$" out.txt ||
  fail "no examples"
for file in batch variables gradients; do
  for ending in npz safetensors; do
    [ -s step-13/$file.$ending ] || fail "no step-13/$file.$ending"
  done
done
[ "$(ls step-13 | wc -l)" = 6 ] || fail "other files: $(ls step-13)"
"$lockstep" checkpoint diff run/model.ckpt-12.safetensors \
  step-13/variables.safetensors >out.txt 2>err.txt || fail "other variables"
gives 0 "replica_1/examples" checkpoint show step-13/batch.npz
gives 0 "numbers" checkpoint show step-13/batch.npz
gives 0 "are in files" replay --quiet run --at 1 --break --out files
[ "$before" = "$(cd run && ls -l && cksum ./*)" ] || fail "the run is changed"
gives 2 "--at STEP and --break belong together" replay run --at 3
gives 2 "--at STEP and --break belong together" replay run --break
gives 2 "--at STEP and --break belong together" replay run --at 3 --break \
  --find-spike 0.1
gives 1 "cannot be made again" replay --quiet run --at 25 --break

# A spike: in a training, and in its replay, which writes the step's files.
rm -rf other spike
# shellcheck disable=SC2086
ends 1 "above 0.5: the batch has examples" train $tiny --replicas 2 \
  --optimizer adam --run-dir other --find-spike 0.5 --quiet
gives 0 "the loss is 1." replay --quiet run --find-spike 0.5 --out spike
grep -q "^step 1: its batch, gradients, and .* are in spike$" out.txt ||
  fail "no files of a spike"
gives 0 "steps 0 to 24 are the same" replay --quiet run --find-spike 50
# An estimator's loops have one step each while it looks for a spike.
for cores in "" "--tpu virtual:1x1 --iterations-per-loop 7"; do
  rm -rf other
  # shellcheck disable=SC2086
  ends 1 " at step 3, above 2.8" train $cores --model tiny \
    --estimator --data synthetic --learning-rate 8 --run-dir other \
    --find-spike 2.8 --quiet
done

# Data in a file: one label, then one number, of an example.
awk 'BEGIN {
  srand(5)
  for (i = 0; i < 160; ++i) {
    for (k = 0; k < 16; ++k) printf "0.%03d,", int(rand() * 1000)
    print i % 4
  }
}' >made.csv
awk -F , -v OFS=, 'NR == 50 { $17 = ($17 + 1) % 4 } { print }' made.csv \
  >changed.csv
csv="--model tiny --split 0.2 --epochs 1 --checksum 1 --replicas 2"
rm -rf run other
# shellcheck disable=SC2086
trains $csv --data made.csv --run-dir run
# shellcheck disable=SC2086
trains $csv --data changed.csv --run-dir other
gives 1 ", example 49:" diff run other --op
grep -q "^first at step [0-9]*, input [0-9]* on replica [01], example 49:$" \
  out.txt || fail "no step and input"

# Another rate.
rm -rf run other
# shellcheck disable=SC2086
trains $tiny --checksum 4 --save-every-steps 8 --run-dir run
# shellcheck disable=SC2086
trains $tiny --checksum 4 --save-every-steps 8 --learning-rate 0.05 \
  --run-dir other
gives 1 "first at step 1, op " diff run other --op
grep -q "^  result: 1 of 1 elements of f64" out.txt || fail "no element"
gives 2 "--op prints text" diff run other --op --json
cp -r run third
gives 0 "equal: " diff run third --op

# Another rate for one step, from a checkpoint that both runs have: each run is
# made again as it was configured then.
rm -rf run other
tiny="$tiny --optimizer adam --schedule constant --learning-rate 0.01"
# shellcheck disable=SC2086
trains $tiny --checksum 1 --save-every-steps 8 --keep 0 --run-dir run
cp -r run other
rm other/model.ckpt-16.* other/model.ckpt-24.* other/model.safetensors
trains --resume other --allow-inexact --learning-rate 0.02 --steps 9 \
  --checksum 1
trains --resume other --allow-inexact --learning-rate 0.01 --steps 24 \
  --checksum 1
gives 1 "first at step 9, op 'adam/" diff run other --op
gives 0 "steps 0 to 8 are the same" replay --quiet other
gives 0 "steps 8 to 9 are the same: 2 lines of" replay --quiet other --from 8
gives 0 "steps 9 to 24 are the same" replay --quiet other --from 9

# The same from there to the end.
rm -rf other
cp -r run other
rm other/model.ckpt-16.* other/model.ckpt-24.* other/model.safetensors
trains --resume other --allow-inexact --learning-rate 0.02 --checksum 1
gives 0 "went on from step 8 with other flags: --from 8 makes" \
  replay --quiet other
gives 0 "steps 8 to 24 are the same: 17 lines" replay --quiet other --from 8

# Batches of two sizes have values of two shapes.
rm -rf small other
# shellcheck disable=SC2086
trains $tiny --batch-size 8 --steps 4 --run-dir small
# shellcheck disable=SC2086
trains $tiny --batch-size 16 --steps 4 --run-dir other
gives 1 "  result: f32[16,16] and f32[8,16]" diff other small --op

# Runs that begin with other values differ before their first step.
rm -rf small other
"$lockstep" train --model tiny --data synthetic --steps 0 --quiet \
  --run-dir small >out.txt 2>err.txt || fail "no run without steps"
"$lockstep" train --model tiny --data synthetic --steps 0 --seed 9 --quiet \
  --run-dir other >out.txt 2>err.txt || fail "no run without steps"
gives 1 "first before step 1: the runs begin with other values" diff other \
  small --op

# A run that goes on from another one's step lacks that checkpoint.
rm -rf other
trains --resume run@8 --allow-inexact --learning-rate 0.02 --checksum 1 \
  --run-dir other
gives 1 "the steps of 'other' cannot be made again: it goes on from step 8" \
  diff other run --op

# Estimators' runs have no such steps, and other flags.
rm -rf small other
for steps in 4 5; do
  trains --model tiny --data synthetic --estimator --steps $steps \
    --run-dir guess$steps
done
gives 1 "estimator.json steps: 4 and 5" diff guess4 guess5
gives 1 "--op makes the steps of models again: the run in 'guess4' is an" \
  diff guess4 guess5 --op

# On cores an estimator's op is named, too, though a check of variables fails.
rm -rf run
ends 1 "(op 'softmax_cross_entropy' (softmax_cross_entropy)" train --estimator \
  --model tiny --data synthetic --optimizer sgd --learning-rate 1e30 \
  --run-dir run --tpu virtual:1x1 --find-nan --quiet

# A NaN in an example is named with it.
awk -F , -v OFS=, 'NR == 60 { $3 = "nan" } { print }' made.csv >changed.csv
rm -rf run
# shellcheck disable=SC2086
ends 1 "(example 59; the batch has examples" train $csv --data changed.csv \
  --run-dir run --find-nan --quiet
exit $failed
