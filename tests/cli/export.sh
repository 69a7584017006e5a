#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Exports of runs: a folder that holds the model as it is used.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run out large direct half-run written est kept lost rate=0.1

"$lockstep" train --model tiny --data synthetic --quiet --run-dir run \
  --batch-size 32 --steps 5 --save-every-steps 2 >out.txt 2>err.txt || fail "train"

# has FOLDER FILE...: these and no others.
has() {
  folder=$1
  shift
  [ "$(ls "$folder" | tr '\n' ' ')" = "$* " ] || fail "$folder: $(ls "$folder")"
}

"$lockstep" export run >out.txt 2>err.txt || fail "export run"
has "$(cat out.txt)" assets.extra serve.ls variables.safetensors
has "$(cat out.txt)/assets.extra" config.json
grep -q '"serving_default"' "$(cat out.txt)/serve.ls" || fail "no signature"
# But for the optimizer's step the values are the run's.
"$lockstep" checkpoint diff run "$(cat out.txt)/variables.safetensors" \
  >diff.txt 2>err.txt
[ "$(cut -d: -f1 diff.txt)" = sgd/step ] || fail "values: $(cat diff.txt)"

# Files are made in the folder of the export only.
shut='mount -t tmpfs -o ro none /tmp && [ -x "$0" ]'
if unshare -rm sh -c "$shut" "$lockstep" >out.txt 2>err.txt; then
  unshare -rm sh -c "$shut && exec \"\$0\" export run --out out" "$lockstep" \
    >out.txt 2>err.txt || fail "export with /tmp read-only"
  rm -rf out
fi

"$lockstep" export run --out out --onnx --stablehlo --batch-size 8 \
  >out.txt 2>err.txt || fail "export --onnx --stablehlo"
has "$(cat out.txt)" assets.extra model.onnx model.predict.onnx serve.ls \
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

# An export computes by the math of its run, unless another one is given.
# same_as RUN EXPORT COMMAND...: the command prints the same of both.
same_as() {
  run=$1
  export=$2
  command=$3
  shift 3
  "$lockstep" "$command" "$run" "$@" >run.txt 2>err.txt || fail "$command $run"
  "$lockstep" "$command" "$export" "$@" >out.txt 2>err.txt || fail "$command $export"
  [ -s run.txt ] && cmp run.txt out.txt || fail "$command of $run and $export differ"
}
# other_than EXPORT COMMAND...: the command prints something else than same_as.
other_than() {
  export=$1
  command=$2
  shift 2
  "$lockstep" "$command" "$export" "$@" >out.txt 2>err.txt || fail "$command $export"
  ! cmp -s run.txt out.txt || fail "$command $export $*: as the run"
}
"$lockstep" train --model cnn --data synthetic --math direct --quiet --steps 2 \
  --batch-size 4 --test none --run-dir direct >out.txt 2>err.txt || fail "train direct"
"$lockstep" export direct --out direct/export >out.txt 2>err.txt || fail "export direct"
same_as direct direct/export predict --data synthetic --limit 8 --logits
other_than direct/export predict --data synthetic --limit 8 --logits --math fast
"$lockstep" train --model tiny --data synthetic --precision bf16 --quiet \
  --steps 4 --run-dir half-run >out.txt 2>err.txt || fail "train half-run"
"$lockstep" export half-run --out half-run/export >out.txt 2>err.txt || fail "export half-run"
same_as half-run half-run/export predict --data synthetic --limit 8 --logits
other_than half-run/export predict --data synthetic --limit 8 --logits --math fast
if [ -z "$sanitized" ]; then
  "$lockstep" train --model gpt --data synthetic --precision bf16 --quiet \
    --steps 1 --batch-size 1 --test none --run-dir written >out.txt 2>err.txt ||
    fail "train written"
  "$lockstep" export written --out written/export >out.txt 2>err.txt || fail "export written"
  printf 'a line of text\n' >line.txt
  same_as written written/export generate --prompt quick --tokens 20 --quiet
  same_as written written/export predict --data line.txt
fi
"$lockstep" train --model tiny --estimator --data synthetic --precision bf16 \
  --quiet --steps 4 --run-dir est >out.txt 2>err.txt || fail "train est"
"$lockstep" export est --model tiny --estimator --out est/export >out.txt 2>err.txt ||
  fail "export est"
has "$(cat out.txt)/assets.extra" estimator.json
cp -r direct/export/* kept
ends 1 "is of math direct, 'est/export" serve kept half=est/export --port 0
ends 1 "' of bf16, and a server computes by one" serve kept half-run/export --port 0
sed -i 's/"math":"direct"/"math":"slow"/; s/,"crc32c":.*/}/' kept/assets.extra/config.json
ends 1 "'kept/assets.extra/config.json': \"math\" is 'slow', expected fast, direct" \
  predict kept --data synthetic

# A configuration that is damaged or missing is the copy in the checkpoint.
sed -i 's/"seed":0/"seed":7/' half-run/config.json
"$lockstep" export half-run --out lost >out.txt 2>err.txt || fail "export a damaged run"
same_as half-run lost predict --data synthetic --limit 8
rm -r lost half-run/config.json
"$lockstep" export half-run --out lost >out.txt 2>err.txt || fail "export without config.json"
same_as half-run lost predict --data synthetic --limit 8
# A run is one still, whatever is exported into it.
"$lockstep" predict half-run --data synthetic --limit 8 >run.txt 2>err.txt ||
  fail "predict without config.json"
cp -r "$(ls -d direct/export/*)" half-run/1
"$lockstep" predict half-run --data synthetic --limit 8 >out.txt 2>err.txt ||
  fail "predict of a run with an export"
cmp -s run.txt out.txt || fail "a run's export is taken for it"
# A folder may be named as NAME=EXPORT is.
mv lost rate=0.1
same_as half-run rate=0.1 predict --data synthetic --limit 8

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
