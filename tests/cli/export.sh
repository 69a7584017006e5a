#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Exports of runs: a folder that holds the model as it is used.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run out

"$lockstep" train --model tiny --data synthetic --quiet --run-dir run \
  --batch-size 32 --steps 5 >out.txt 2>err.txt || fail "train"

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

# What it is not asked for rightly.
"$lockstep" export run --batch-size 8 >out.txt 2>err.txt &&
  fail "a batch size without StableHLO"
grep -q "is for --stablehlo" err.txt || fail "says $(cat err.txt)"
"$lockstep" export nowhere >out.txt 2>err.txt && fail "export nowhere"
grep -q nowhere err.txt || fail "says $(cat err.txt)"

exit $failed
