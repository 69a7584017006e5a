#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# ONNX and StableHLO files as models: trained further, evaluated, asked and
# exported again.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run more out again elsewhere hlo

"$lockstep" train --model tiny --data synthetic --quiet --run-dir run \
  --batch-size 32 --steps 5 >out.txt 2>err.txt || fail "train"
"$lockstep" export run --out out --onnx --stablehlo >out.txt 2>err.txt || fail "export"
mv "$(cat out.txt)/model.onnx" net.onnx
mv "$(cat out.txt)/serve.stablehlo.mlir" net.mlir
mv "$(cat out.txt)/variables.safetensors" net.safetensors

"$lockstep" train --model net.onnx --data synthetic --quiet --run-dir more \
  --batch-size 32 --steps 5 --optimizer sgd >out.txt 2>err.txt ||
  fail "train --model net.onnx: $(cat err.txt)"
grep -q 'test accuracy' out.txt || fail "no accuracy: $(cat out.txt)"
grep -q '"model":"/.*/net.onnx"' more/config.json ||
  grep -q '"model": *"/.*/net.onnx"' more/config.json ||
  fail "the path is not kept: $(cat more/config.json)"
"$lockstep" eval more >out.txt 2>err.txt || fail "eval: $(cat err.txt)"
"$lockstep" predict more --limit 2 >out.txt 2>err.txt ||
  fail "predict: $(cat err.txt)"
[ "$(wc -l <out.txt)" -eq 2 ] || fail "predicts $(cat out.txt)"
"$lockstep" export more --out again --onnx >out.txt 2>err.txt ||
  fail "export again: $(cat err.txt)"

# StableHLO: the same begin, and the same loss as from ONNX.
"$lockstep" train --model net.mlir --data synthetic --quiet --run-dir hlo \
  --batch-size 32 --steps 5 --optimizer sgd >out.txt 2>err.txt ||
  fail "train --model net.mlir: $(cat err.txt)"
grep -q 'test accuracy' out.txt || fail "no accuracy: $(cat out.txt)"
"$lockstep" eval hlo >out.txt 2>err.txt || fail "eval: $(cat err.txt)"
"$lockstep" eval more >wanted.txt 2>err.txt || fail "eval: $(cat err.txt)"
cmp -s out.txt wanted.txt ||
  fail "evaluates to $(cat out.txt), not $(cat wanted.txt)"
"$lockstep" predict hlo --limit 2 >out.txt 2>err.txt ||
  fail "predict: $(cat err.txt)"
[ "$(wc -l <out.txt)" -eq 2 ] || fail "predicts $(cat out.txt)"
"$lockstep" export hlo --out again --onnx >out.txt 2>err.txt ||
  fail "export again: $(cat err.txt)"
"$lockstep" graph net.mlir >out.txt 2>err.txt || fail "graph"
grep -q matmul out.txt || fail "graph prints $(cat out.txt)"
sed 's/stablehlo.dot_general/stablehlo.fft/' net.mlir >bad.mlir
cp net.safetensors bad.safetensors
"$lockstep" train --model bad.mlir --data synthetic >out.txt 2>err.txt &&
  fail "train --model bad.mlir"
grep -q "op stablehlo.fft" err.txt || fail "says $(cat err.txt)"

"$lockstep" train --resume more --steps 8 --quiet >out.txt 2>err.txt ||
  fail "resume: $(cat err.txt)"

# The file has moved.
mkdir -p elsewhere
mv net.onnx elsewhere/net.onnx
"$lockstep" eval more >out.txt 2>err.txt && fail "eval without the file"
grep -q 'net.onnx' err.txt || fail "says $(cat err.txt)"
"$lockstep" eval more --model elsewhere/net.onnx >out.txt 2>err.txt ||
  fail "eval --model elsewhere/net.onnx: $(cat err.txt)"
"$lockstep" eval run --model elsewhere/net.onnx >out.txt 2>err.txt &&
  fail "another model"
"$lockstep" bench elsewhere/net.onnx --steps 2 >out.txt 2>err.txt ||
  fail "bench: $(cat err.txt)"
"$lockstep" graph elsewhere/net.onnx >out.txt 2>err.txt || fail "graph"
grep -q matmul out.txt || fail "graph prints $(cat out.txt)"

# Files that are none.
echo nonsense >bad.onnx
"$lockstep" train --model bad.onnx --data synthetic >out.txt 2>err.txt &&
  fail "train --model bad.onnx"
grep -q "'bad.onnx' is no ONNX model" err.txt || fail "says $(cat err.txt)"

exit $failed
