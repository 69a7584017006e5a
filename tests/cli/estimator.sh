#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Estimators of shared libraries: trained, stopped and resumed, evaluated,
# asked, exported, on a CPU, on a TPU system and in replicas; and refused where
# something is not as it should be.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
libraries=${LS_BUILD_DIR:?}/tests/cli/libraries
rm -rf huge huger cpu pod mirrored stopped straight told runs out e.so
cp "$libraries/estimators.so" e.so
cp "$libraries/mine.so" mine.so
model="--model e.so:line"

# does WANTED ARGUMENT...: prints that.
does() {
  wanted=$1
  shift
  # shellcheck disable=SC2086
  if "$lockstep" "$@" $model >out.txt 2>err.txt &&
     grep -qE -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: wanted: $wanted"
  fi
}

# refused CODE WANTED ARGUMENT...: warnings may stand before the reason.
refused() {
  wanted_code=$1
  wanted=$2
  shift 2
  # shellcheck disable=SC2086
  "$lockstep" "$@" >out.txt 2>err.txt
  code=$?
  [ "$code" = "$wanted_code" ] && grep -qF -- "$wanted" err.txt ||
    fail "lockstep $*: code $code, wanted $wanted_code and: $wanted"
}

# ---- A NaN ------------------------------------------------------------------
rm -rf nan
refused 1 "no number (variable 'a/bias' is NaN at [1] of f32[8])" \
  train --run-dir nan --find-nan --param rate=1e38 --quiet $model

# ---- Everywhere: the same, to what is printed ------------------------------
loss='^loss: 0\.0463$'
does "$loss" train --run-dir cpu
does "$loss" train --run-dir pod --tpu virtual:2x2 --iterations-per-loop 7
does '^accuracy: 0\.9961$' train --run-dir mirrored --replicas 3 --eval-every 60
does '^accuracy: 0\.9961$' eval cpu
does '"accuracy":0\.99609375,"global_step":40,' eval pod --json \
  --tpu virtual:2x2 --batch-size 64
does '^loss: ' eval mirrored --replicas 3 --steps 2 --name other
[ -d mirrored/eval_other ] || fail "no mirrored/eval_other"
touch cpu/eval_file
does '^accuracy: 0\.9961$' eval cpu --name file
grep -q "the metrics are not written: .*cpu/eval_file" err.txt ||
  fail "no word of event files that cannot be written"
does '^\{"class":0,"scores":\[0\.999[0-9]*,' predict cpu --limit 2
[ "$(wc -l <out.txt)" = 2 ] || fail "--limit 2"
"$lockstep" predict cpu $model --keys class >cpu.txt 2>err.txt ||
  fail "predict cpu"
"$lockstep" predict pod $model --keys class --tpu virtual:2x2 --batch-size 64 \
  >pod.txt 2>err.txt || fail "predict pod"
[ "$(wc -l <cpu.txt)" = 256 ] && cmp cpu.txt pod.txt || fail "predictions"
does '^cpu/[0-9]+$' export cpu
does '^out/[0-9]+$' export pod --out out --onnx --stablehlo --batch-size 8 \
  --tpu virtual:2x2
for file in model.onnx serve+tpu.ls serve.ls serve.stablehlo.mlir; do
  [ -s "$(cat out.txt)/$file" ] || fail "no $file"
done

# ---- Parameters, seeds, warm starts ----------------------------------------
does '^loss: ' train --param width=12,rate=0.01 --steps 3
[ -s runs/line-1/model.ckpt-3.safetensors ] || fail "no runs/line-1"
does '^loss: ' eval runs/line-1  # With the run's parameters.
refused 1 "a/kernel" eval runs/line-1 $model --param width=11
refused 2 "RUN@STEP and --checkpoint each name a checkpoint" \
  eval runs/line-1@1 $model --checkpoint runs/line-1/model.ckpt-1
does '^loss: ' train --warm-start cpu --only 'a/*' --steps 1 --quiet
! grep -q 'the run is in' err.txt || fail "--quiet"

# ---- Stopped, and resumed to the undisturbed bytes -------------------------
# Shells start background programs with SIGINT ignored.
# shellcheck disable=SC2086
env --default-signal=INT "$lockstep" train $model --tpu virtual:2x2 \
  --steps 100000000 --run-dir stopped >out.txt 2>err.txt &
id=$!
waits_for test -s stopped/model.ckpt-0.safetensors
sleep 0.1
kill -INT $id
wait $id
code=$?
[ $code = 130 ] && grep -q 'stopped at step [0-9]*; .*--resume' err.txt ||
  fail "SIGINT: code $code"
step=$(sed -n 's/.*stopped at step \([0-9]*\);.*/\1/p' err.txt)
[ -s "stopped/model.ckpt-$step.safetensors" ] || fail "step $step is not saved"
end=$((step + 10))
does '^loss: ' train --resume stopped --steps $end
does '^loss: ' train --run-dir straight --tpu virtual:2x2 --steps $end
cmp "stopped/model.ckpt-$end.safetensors" \
  "straight/model.ckpt-$end.safetensors" || fail "a resumed run ends otherwise"

# How far it is, where somebody looks.
if command -v script >out.txt; then
  TERM=xterm script -qec "stty cols 80; '$lockstep' train $model --steps 40 \
    --run-dir told" typescript </dev/null >out.txt 2>err.txt
  grep -qE 'step .* [0-9]+/40 loss [0-9]+\.[0-9]{4} [0-9]+ ex/s ' typescript ||
    fail "no progress: $(cat typescript)"
fi

# ---- Refused ---------------------------------------------------------------
refused 2 "has 4 models; name one, as in 'e.so:NAME': line, bare, unsized, fixed" \
  train --model e.so
refused 2 "has no model 'lime'; it has: line, bare, unsized, fixed" train --model e.so:lime
refused 2 "--optimizer is not for estimators of shared libraries: its model \
function makes the optimizer" train $model --optimizer adam
refused 2 "has no input to train with" train --model e.so:bare
for command in eval predict export; do
  refused 2 "estimator 'bare' has no" $command cpu --model e.so:bare
done
refused 1 "there is a run in 'cpu': --resume cpu continues it" \
  train $model --run-dir cpu
refused 1 "there is no run of an estimator in 'none'" \
  train $model --resume none
refused 1 "there is no run of an estimator in 'none'" eval none $model
refused 1 "eval_batch_size was not given when the estimator was made: on TPUs \
it is needed (from the command: --batch-size N)" \
  eval cpu --model e.so:unsized --tpu virtual:2x2
refused 2 "--iterations-per-loop is for runs with --tpu" \
  train $model --iterations-per-loop 3
refused 2 "--param has 'width=wide', expected a number" \
  train $model --param width=wide
refused 2 "--param has 'width', expected NAME=N" train $model --param width
refused 2 "--only is ',', which has an empty name" \
  train $model --warm-start cpu --only ,
refused 2 "--map has 'a', expected OLD=NEW" \
  train $model --warm-start cpu --map a
refused 2 "--keys is ',', which has an empty name" predict cpu $model --keys ,
[ "$(wc -l <err.txt)" = 1 ] || fail "--keys , in more than a line"
refused 1 "none of the requested keys ('klass') is one of" \
  predict cpu $model --keys klass
grep -q "'class': .*'scores': " err.txt || fail "--keys klass"
refused 2 "--estimator is for models of the library: 'mine.so:line' is of a" \
  train --model mine.so:line --estimator
refused 2 "--batch-size is for --stablehlo" \
  export cpu $model --batch-size 8
"$lockstep" train $model --help >out.txt || fail "an estimator's --help"
grep -q -- '--iterations-per-loop N|TIME' out.txt || fail "its flags"
! grep -q '0: save the initial' out.txt || fail "a flag's value it refuses"
grep -q '^line: the line that divides examples$' out.txt || fail "what it is"
refused 2 "estimator 1 of '$libraries/greedy.so' sets 'options.params', which" \
  train --model "$libraries/greedy.so"

# ---- Models of the library as estimators -----------------------------------
rm -rf linked-*
model="--estimator --model tiny"
loss='^loss: 1\.2978$'
data="--data synthetic --steps 40"
# shellcheck disable=SC2086
{
  does "$loss" train $data --run-dir linked-cpu
  does "$loss" train $data --run-dir linked-pod --tpu virtual:2x2 \
    --iterations-per-loop 7
  does "$loss" train $data --run-dir linked-mirrored --replicas 3
}
does '^accuracy: 0\.6611$' eval linked-cpu --data synthetic
does '"accuracy":0\.6611' eval linked-pod --data synthetic --tpu virtual:2x2 \
  --json
does '^\{"class":1,"probability":0\.2' predict linked-pod --data synthetic \
  --limit 1
does '^linked-mirrored/[0-9]+$' export linked-mirrored --onnx
refused 2 "--data is not for estimators of shared libraries: its input \
functions have the data" train --model e.so:line --data synthetic
refused 2 "--learning-rate and --param learning_rate: give one of them" \
  train $model $data --param learning_rate=0.5 --learning-rate 0.1
refused 2 "--param has 'width': models of the library take only" \
  train $model $data --param width=3
refused 2 "--param has 'learning_rate=0', expected a number above 0" \
  train $model $data --param learning_rate=0
refused 2 "there is no model 'tinny'" train --estimator --model tinny
# shellcheck disable=SC2086
refused 1 "--batch-size is 100000000, but the data have " \
  train $model $data --run-dir huge --batch-size 100000000
# Labels of several dimensions, of examples with weights.
if [ -z "$sanitized" ]; then
  model="--estimator --model gpt"
  seq 300 >numbers.txt
  does '^loss: ' train --data numbers.txt --split 0.5 --steps 1 \
    --batch-size 2 --run-dir linked-gpt
  does '^accuracy: ' eval linked-gpt
  mv out.txt cpu.txt
  does '^accuracy: ' eval linked-gpt --tpu virtual:1x1 --batch-size 2
  cmp cpu.txt out.txt || fail "eval linked-gpt --tpu"
fi
# Of an input of its own nobody knows how many examples it has.
if [ -z "$sanitized" ]; then
  (
    ulimit -v 6000000
    refused 1 "(--batch-size is 100000000: give one that fits into memory)" \
      train --model e.so:line --run-dir huger --batch-size 100000000
    exit $failed
  ) || failed=1
fi

# ---- Predictions of a run of a model ---------------------------------------
rm -rf run
"$lockstep" train --model tiny --data synthetic --quiet --run-dir run \
  --steps 5 >out.txt 2>err.txt || fail "train tiny"
"$lockstep" predict run --limit 3 >out.txt 2>err.txt || fail "predict run"
[ "$(grep -cE '^\{"class":[0-9]+,"probability":0\.[0-9]+,"row":[0-2]\}$' out.txt)" = 3 ] ||
  fail "predict run --limit 3"
"$lockstep" predict run >all.txt 2>err.txt || fail "predict all of run"
[ "$(wc -l <all.txt)" = 1024 ] && head -n 3 all.txt | cmp - out.txt ||
  fail "predictions of all examples"
refused 1 "nowhere" predict nowhere

exit $failed
