#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --resume goes on with a run as if it had not stopped, whatever
# stopped it; lockstep eval evaluates what a run has saved.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf straight stopped longer killed moved whole

# trains ARGUMENT...
trains() {
  "$lockstep" train --quiet "$@" >out.txt 2>err.txt || fail "train $*: code $?"
}

# same WHAT FOLDER FOLDER
same() {
  cmp -s "$2/model.safetensors" "$3/model.safetensors" ||
    fail "$1: the model is another one"
}

# step_of FOLDER: that of its newest checkpoint
step_of() {
  sed -n 's/^model_checkpoint_path: "model.ckpt-\([0-9]*\)"$/\1/p' "$1/checkpoint"
}

# Stopped by a signal or killed, somewhere in an epoch of a run without end, and
# resumed: the model is that of a run that goes straight to the same step.
tiny="--model tiny --data synthetic --seed 3 --schedule constant"
# shellcheck disable=SC2086
for how in "1 INT sgd" "2 TERM adam" "1 KILL adam"; do
  set -- $how
  rm -rf straight stopped
  env --default-signal=INT "$lockstep" train $tiny --replicas $1 \
    --optimizer $3 --epochs 1000000 --run-dir stopped --save-every 1 --quiet \
    >out.txt 2>err.txt &
  process=$!
  file=stopped/metrics.jsonl
  [ "$2" = KILL ] && file=stopped/checkpoint
  waits_for test -s $file
  kill -s "$2" $process
  wait $process
  code=$?
  [ "$code" -gt 128 ] || fail "SIG$2: code $code"
  step=$(step_of stopped)
  [ "${step:-0}" -gt 0 ] || fail "SIG$2: the checkpoint has no step"
  [ "$2" != KILL ] || echo half >stopped/model.ckpt-99.safetensors.tmp
  trains --resume stopped --threads 1 --steps $((step + 500))
  grep -q '^test accuracy: ' out.txt || fail "SIG$2: no accuracy at the end"
  trains $tiny --replicas $1 --optimizer $3 --steps $((step + 500)) \
    --run-dir straight
  same "SIG$2 with $3 at $1 replicas" straight stopped
  [ -z "$(find stopped -name '*.tmp')" ] || fail "SIG$2: half a file is left"
done

# Another end, with a rate that stays.
tiny="--model tiny --data synthetic --schedule constant --replicas 2"
# shellcheck disable=SC2086
{
  trains $tiny --steps 1100 --run-dir longer
  trains --resume longer --steps 1500
  trains --resume longer --epochs 2 --seed 0 --data synthetic
  rm -rf straight
  trains $tiny --epochs 2 --run-dir straight
}
same "a longer run" straight longer
[ "$(grep -c test_loss longer/metrics.jsonl)" = 2 ] ||
  fail "the metrics are not those of one run"
trains --resume longer
same "a finished run" straight longer

# What contradicts the run is refused, and changes nothing.
ends 2 "--allow-inexact is for --resume" train --allow-inexact
ends 2 "--keep-best is 'best', expected" train --keep-best best
ends 2 "--batch-size is '16', the run in 'longer' has '8'" \
  train --resume longer --batch-size 16
ends 2 "--replicas is '1', the run in 'longer' has '2'" \
  train --resume longer --replicas 1
ends 2 "--optimizer is 'adam', the run in 'longer' has none" \
  train --resume longer --optimizer adam
ends 2 "--model is 'mlp', the run in 'longer' has 'tiny'" \
  train --resume longer --model mlp
ends 2 "--seed is '1', the run in 'longer' has '0'" \
  train --resume longer --seed 1
ends 2 "--learning-rate is '0.5', the run" \
  train --resume longer --learning-rate 0.5
ends 1 "is already at step 2048, beyond the requested 10" \
  train --resume longer --steps 10
ends 1 "'nowhere' is no run folder: it has no config.json" \
  train --resume nowhere
trains --resume longer
same "after refusals" straight longer

# An older checkpoint is gone on from in another folder, the run stays.
rm -rf older
# shellcheck disable=SC2086
trains $tiny --steps 40 --save-every-steps 10 --run-dir older
for from in older@20 older/model.ckpt-20 older/model.ckpt-20.json; do
  rm -rf branch
  trains --resume $from --run-dir branch
  same "$from" older branch
  [ ! -e branch/model.ckpt-20.json ] || fail "$from: its checkpoint is copied"
done
trains --resume older@30 --run-dir branch --overwrite
same "an overwritten run" older branch
ends 1 "'older' has no checkpoint of step 15" \
  train --resume older@15 --run-dir nothing
[ ! -e nothing ] || fail "a checkpoint that is not there leaves a folder"
ends 2 "--run-dir cannot be given with it, unless it names a step, older@STEP" \
  train --resume older --run-dir branch
[ "$(step_of older)" = 40 ] || fail "the run that others go on from is changed"

# Files of the same size and name with other numbers are other data.
csv() {
  awk -v seed="$1" 'BEGIN {
    srand(seed)
    for (i = 0; i < 40; ++i) {
      for (k = 0; k < 16; ++k) printf "0.%03d,", int(rand() * 1000)
      print i % 4
    }
  }' >made.csv
}
rm -rf stopped
csv 1
trains --model tiny --data made.csv --steps 2 --run-dir stopped
csv 2
ends 1 "'stopped/model.ckpt-2.json' belongs to another run: its hash of the data is" \
  train --resume stopped --steps 4 --quiet
"$lockstep" train --resume stopped --steps 4 --allow-inexact --quiet \
  >out.txt 2>err.txt || fail "--allow-inexact is refused"
grep -q 'so results will differ: .* its hash of the data is' err.txt ||
  fail "--allow-inexact says nothing"
# So is a test set, with whose values those of the run are compared.
rm -rf tested moved
csv 1
cp made.csv held.csv
trains --model tiny --data made.csv --test held.csv --steps 2 --run-dir tested
mkdir moved
cp held.csv moved
trains --resume tested --test moved/held.csv --steps 3
csv 2
mv made.csv moved/held.csv
csv 1
ends 1 "'tested' belongs to another run: its hash of the test data is '" \
  train --resume tested --steps 4 --quiet
ends 1 "its hash of the test data is '" train --resume tested@3 --run-dir branch \
  --overwrite --steps 4 --quiet
"$lockstep" train --resume tested --steps 4 --allow-inexact --quiet \
  >out.txt 2>err.txt || fail "--allow-inexact is refused for a test set"
grep -q 'so results will differ: .* its hash of the test data is' err.txt ||
  fail "--allow-inexact does not mention the test set"
csv 2
# Others than the run had are taken only so, and kept.
"$lockstep" train --resume stopped --steps 6 --replicas 2 --batch-size 16 \
  --allow-inexact --keep 1 --quiet >out.txt 2>err.txt ||
  fail "other replicas are refused"
grep -q '"replicas":2,.*"batch_size":16,.*"keep":1' stopped/config.json ||
  fail "other replicas are not kept"
[ "$(ls stopped/model.ckpt-*.json)" = stopped/model.ckpt-6.json ] ||
  fail "more than one checkpoint is kept"
# The end of long files and of folders of many images counts, too.
rm -rf changed
row=0.11,0.12,0.13,0.14,0.15,0.16,0.17,0.18,0.19,0.21,0.22,0.23,0.24,0.25,0.26
yes "$row,0.27,1" | head -n 210010 >long.csv
trains --model tiny --data long.csv --steps 2 --run-dir changed
sed -i '$s/1$/2/' long.csv
ends 1 "its hash of the data is" train --resume changed --steps 4 --quiet
rm -rf changed photos
images=$(dirname "$0")/../images
mkdir -p photos/a photos/b
for i in $(seq 101 163); do
  cp "$images/gray.png" "photos/a/$i.png"
  cp "$images/gray.png" "photos/b/$i.png"
done
trains --model cnn --data photos --batch-size 4 --test none --steps 1 \
  --run-dir changed
cp "$images/rgb.png" photos/b/163.png
ends 1 "its hash of the data is" train --resume changed --steps 2 --quiet
trains --resume stopped --steps 7

# Math is the run's: kept in config.json, and what it goes on with.
cnn="--model cnn --data synthetic --batch-size 8 --schedule constant"
rm -rf straight stopped
# shellcheck disable=SC2086
{
  trains $cnn --steps 1 --math direct --run-dir stopped
  trains $cnn --steps 2 --math direct --run-dir straight
}
grep -qF '"math":"direct"' stopped/config.json ||
  fail "the math is not in config.json"
trains --resume stopped --steps 2
grep -qF '"math":"direct"' stopped/config.json ||
  fail "a resumed run has other math"
same "direct math" straight stopped
ends 2 "--math is 'fast', the run in 'stopped' has 'direct'" \
  train --resume stopped --math fast
# shellcheck disable=SC2086
trains $cnn --steps 2 --run-dir straight --overwrite
grep -qF '"math":"fast"' straight/config.json || fail "math is not fast"
cmp -s straight/model.safetensors stopped/model.safetensors &&
  fail "both maths give the same bits"
"$lockstep" eval stopped --math fast >out.txt 2>err.txt ||
  fail "eval --math fails"
sed -i 's/"math":"direct"/"math":"slow"/; s/,"crc32c":.*/}/' stopped/config.json
ends 1 "'stopped/config.json': \"math\" is 'slow', expected fast, direct, bf16 or bf16-direct" \
  train --resume stopped

# ---- auto --------------------------------------------------------------------
# A new run if there is none, and the same command goes on with it.
again="--model tiny --data synthetic --schedule constant --warm-start longer --except logits/bias"
rm -rf auto once
for steps in 40 90; do
  rm -f auto/checkpoint  # As of a run killed before it was written.
  # shellcheck disable=SC2086
  trains $again --steps $steps --run-dir auto --resume auto --allow-inexact
done
# shellcheck disable=SC2086
trains $again --steps 90 --run-dir once
same "--resume auto" once auto
grep -q '"step":40,' auto/metrics.jsonl || fail "--resume auto begins again"
ends 2 "--resume auto needs --run-dir, to find the run" train --resume auto

# ---- Data that were changed --------------------------------------------------
# A label in a file of its own is seen like a pixel.
printf '\000\000\010\002\000\000\000\050\000\000\000\020' >pixels.idx
awk 'BEGIN { for (i = 0; i < 640; ++i) printf "%c", 33 + i * 7 % 90 }' >>pixels.idx
printf '\000\000\010\001\000\000\000\050' >labels.idx
awk 'BEGIN { for (i = 0; i < 40; ++i) printf "%c", 1 + i % 3 }' >>labels.idx
rm -rf pairs
trains --model tiny --data pixels.idx,labels.idx --test none --batch-size 8 \
  --schedule constant --steps 5 --run-dir pairs
trains --resume pairs --steps 10
for file in pixels labels; do
  cp $file.idx kept.idx
  printf '\002' | dd of=$file.idx bs=1 seek=38 conv=notrunc 2>/dev/null
  ends 1 "data" train --resume pairs --steps 15 --quiet
  cp kept.idx $file.idx
done
trains --resume pairs --steps 15

# ---- Flags -------------------------------------------------------------------
# A run keeps its settings, another value of one holds from then on.
rm -rf kept
trains --model tiny --data synthetic --schedule constant --steps 20 \
  --checksum 10 --save-every-steps 10 --keep 0 --run-dir kept
trains --resume kept --steps 40
trains --resume kept --steps 50 --checksum 5
[ "$(grep -c checksum kept/metrics.jsonl)" = 6 ] || fail "--checksum is not kept"
for step in 10 20 30 40 50; do
  [ -e kept/model.ckpt-$step.json ] || fail "--save-every-steps is not kept"
done
grep -qF '"save_every_steps":10,"checksum":5,' kept/config.json ||
  fail "config.json: $(cat kept/config.json)"
# The docs list each flag.
for flag in $("$lockstep" train --help; "$lockstep" train --estimator --help); do
  case $flag in
  --help | --resume) ;;
  --[a-z]*[!a-z-]*) ;;
  --[a-z]*)
    grep -qF "| \`$flag\`
\` \`$flag\`" "${LS_SOURCE_DIR:?}/docs/checkpoints.md" ||
      fail "docs/checkpoints.md does not say if $flag is kept"
    ;;
  esac
done

# ---- eval --------------------------------------------------------------------
"$lockstep" train --resume longer --quiet >trained.txt 2>err.txt
"$lockstep" eval longer >out.txt 2>err.txt || fail "eval fails"
grep -qE '^test loss: [0-9]+\.[0-9]{4}$' out.txt || fail "no loss"
grep -qxF "$(cat trained.txt)" out.txt || fail "another accuracy than the run's"
"$lockstep" eval longer --json --threads 1 >out.txt 2>err.txt ||
  fail "eval --json fails"
[ "$(wc -l <out.txt)" = 1 ] &&
  grep -qE '^\{"model":"tiny","data":"synthetic","examples":1024,"loss":[0-9.e-]+,"accuracy":[0-9.]+,"classes":\[' \
    out.txt || fail "eval --json prints something else"
ends 1 "'nowhere' is no run folder" eval nowhere
ends 1 "there is no file or folder 'nodata'" eval longer --data nodata

# Of damaged checkpoints the one before is taken; where there is none they are
# named.
rm -rf straight
cp -r longer straight
last=$(step_of straight)
head -c 700 longer/model.ckpt-$last.safetensors \
  >straight/model.ckpt-$last.safetensors
"$lockstep" train --resume straight --quiet >out.txt 2>err.txt ||
  fail "a damaged checkpoint ends the run"
grep -q "'straight/model.ckpt-$last' is skipped for" err.txt ||
  fail "a damaged checkpoint is passed over without a word"
same "from the checkpoint before" longer straight
trains $tiny --steps 5 --run-dir killed
step=$(step_of killed)
cp killed/model.ckpt-$step.safetensors whole
head -c 700 whole >killed/model.ckpt-$step.safetensors
"$lockstep" train --resume killed >out.txt 2>err.txt
[ $? = 1 ] && tail -n 1 err.txt | grep -q "'killed/model.ckpt-$step.safetens" ||
  fail "a damaged checkpoint is not named"
"$lockstep" eval killed >out.txt 2>err.txt || fail "eval without a checkpoint"
rm killed/model.ckpt-*
head -c 300 longer/model.safetensors >killed/model.safetensors
ends 1 "killed/model.safetensors" eval killed
ends 1 "its checkpoints are gone" train --resume killed
rm killed/model.safetensors
ends 1 "has saved no model" eval killed
printf '{"model":"tiny","seed":' >killed/config.json
ends 1 "killed/config.json:1" train --resume killed
ends 1 "killed/config.json:1" eval killed
printf '{"model":"mlp","data":"synthetic"}' >killed/config.json
cp longer/model.* killed
ends 1 "is of model 'tiny', not of 'mlp'" eval killed

exit $failed
