#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Exports of runs: a folder that holds the model as it is used.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run out large

"$lockstep" train --model tiny --data synthetic --quiet --run-dir run \
  --batch-size 32 --steps 5 --save-every-steps 2 >out.txt 2>err.txt || fail "train"

# has FOLDER FILE...: these and no others.
has() {
  folder=$1
  shift
  [ "$(ls "$folder" | tr '\n' ' ')" = "$* " ] || fail "$folder: $(ls "$folder")"
}

"$lockstep" export run >out.txt 2>err.txt || fail "export run"
has "$(cat out.txt)" serve.ls variables.safetensors
grep -q '"serving_default"' "$(cat out.txt)/serve.ls" || fail "no signature"
# But for the optimizer's step the values are the run's.
"$lockstep" checkpoint diff run "$(cat out.txt)/variables.safetensors" \
  >diff.txt 2>err.txt
[ "$(cut -d: -f1 diff.txt)" = sgd/step ] || fail "values: $(cat diff.txt)"

"$lockstep" export run --out out --onnx --stablehlo --batch-size 8 \
  >out.txt 2>err.txt || fail "export --onnx --stablehlo"
has "$(cat out.txt)" model.onnx model.predict.onnx serve.ls \
  serve.predict.stablehlo.mlir serve.stablehlo.mlir variables.safetensors
grep -q 'tensor<8x' "$(cat out.txt)/serve.stablehlo.mlir" ||
  fail "StableHLO is not of a batch of 8"

# An older checkpoint, for export and the other commands that take a run.
cp -r run older
rm older/model.ckpt-5.* older/model.safetensors
for from in run@4 run/model.ckpt-4 run/model.ckpt-4.json; do
  "$lockstep" export $from >out.txt 2>err.txt || fail "export $from"
  grep -q '^run/' out.txt || fail "export $from: $(cat out.txt)"
  "$lockstep" checkpoint diff run/model.ckpt-4 \
    "$(cat out.txt)/variables.safetensors" >diff.txt 2>err.txt
  [ "$(cut -d: -f1 diff.txt)" = sgd/step ] ||
    fail "values of $from: $(cat diff.txt)"
  for command in "eval --json" "predict --data synthetic"; do
    # shellcheck disable=SC2086
    "$lockstep" $command older >older.txt 2>err.txt || fail "$command older"
    # shellcheck disable=SC2086
    "$lockstep" $command $from >out.txt 2>err.txt || fail "$command $from"
    cmp -s older.txt out.txt || fail "$command $from: another model"
  done
done
"$lockstep" eval --json run >out.txt 2>err.txt || fail "eval run"
"$lockstep" eval --json older >older.txt 2>err.txt || fail "eval older"
cmp -s older.txt out.txt && fail "the checkpoints are equal"
"$lockstep" eval run@3 >out.txt 2>err.txt && fail "eval run@3"
grep -q 'has no checkpoint of step 3; it has' err.txt || fail "says $(cat err.txt)"

# A signal leaves no half an export.
"$lockstep" train --model mlp --data synthetic --quiet --run-dir large \
  --steps 2 >out.txt 2>err.txt || fail "train a large model"
for n in 1 2 3 4 5 6; do
  rm -rf half
  env --default-signal=INT "$lockstep" export large --out half --onnx \
    --stablehlo >out.txt 2>err.txt &
  process=$!
  while kill -s 0 $process 2>/dev/null && ! [ "$(ls half 2>/dev/null)" ]; do
    :
  done
  kill -s INT $process 2>/dev/null
  wait $process
  code=$?
  [ $code = 130 ] || [ $code = 0 ] || fail "a signal: code $code"
  ls half | grep -q temp && fail "a signal leaves $(ls half)"
done

# What it is not asked for rightly.
"$lockstep" export run --batch-size 8 >out.txt 2>err.txt &&
  fail "a batch size without StableHLO"
grep -q "is for --stablehlo" err.txt || fail "says $(cat err.txt)"
"$lockstep" export nowhere >out.txt 2>err.txt && fail "export nowhere"
grep -q nowhere err.txt || fail "says $(cat err.txt)"

exit $failed
