#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train: a run, its folder, and what goes wrong in the world.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs run data locked idle

# fails WANTED ARGUMENT...: with code 1.
fails() {
  line=$1
  shift
  ends 1 "$line" train "$@"
}

tiny="--model tiny --data synthetic --epochs 2"

# The accuracy comes last, alone on standard output.
# shellcheck disable=SC2086
"$lockstep" train $tiny --replicas 2 --seed 7 --run-dir run >out.txt 2>err.txt \
  || fail "a run fails"
grep -qE '^test accuracy: (0\.[0-9]{4}|1\.0000)$' out.txt &&
  [ "$(wc -l <out.txt)" = 1 ] || fail "no accuracy on standard output"
grep -q '^epoch 2/2 ' err.txt || fail "no progress"
grep -q 'the run is in run$' err.txt || fail "the run folder is not named"
for file in config.json metrics.jsonl model.safetensors \
            checkpoint; do
  [ -s "run/$file" ] || fail "no run/$file"
done
grep -qF '"seed":7' run/config.json || fail "the seed is not in config.json"

ends 2 "--param is for estimators: 'run' is a run" bench run --param a=1

# --quiet says nothing but the result.
# shellcheck disable=SC2086
"$lockstep" train $tiny --quiet --run-dir run --overwrite >out.txt 2>err.txt ||
  fail "a quiet run fails"
[ ! -s err.txt ] || fail "a quiet run is not quiet"

# Runs that are given no folder get a new one each.
for number in 1 2; do
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --quiet >out.txt 2>err.txt || fail "run $number fails"
  [ -s "runs/tiny-$number/model.safetensors" ] || fail "no runs/tiny-$number"
done
cmp -s runs/tiny-1/model.safetensors runs/tiny-2/model.safetensors ||
  fail "two equal runs give two models"

# Neither threads nor the run folder change a bit.
for threads in 1 2 5; do
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --quiet --replicas 8 --threads $threads \
    --run-dir "runs/threads-$threads" >out.txt 2>err.txt || fail "a run fails"
  cmp -s runs/threads-1/model.safetensors \
    "runs/threads-$threads/model.safetensors" ||
    fail "$threads threads give another model than 1"
done

# shellcheck disable=SC2086
{
  fails "the run folder 'run' already holds a run" $tiny --run-dir run
  fails "cannot make folder '/dev/null/x'" $tiny --run-dir /dev/null/x
  fails "1e+30 may be too high; to find the op that makes the first NaN, add \
--find-nan" $tiny --quiet \
    --learning-rate 1e30 --run-dir run --overwrite
}
# Replicas without examples are warned about.
"$lockstep" train --model tiny --data synthetic --steps 1 --batch-size 6 \
  --replicas 8 --run-dir idle >out.txt 2>err.txt || fail "train on idle replicas"
grep -q "8 replicas for batches of 6 examples: 2 replicas have none" err.txt ||
  fail "no warning of idle replicas: $(cat err.txt)"

# A run keeps absolute paths, whose folder is no pattern and has no comma.
rm -rf 'x[1]' x1 'a,b'
mkdir 'x[1]' x1 'a,b'
for row in 1 2 3 4 5 6 7 8; do
  echo "$row,1,2,3,$((row % 4))"
done | tee 'a,b/rows.csv' >'x[1]/rows.csv'
echo 'a;b' >x1/rows.csv
(cd 'x[1]' && "$lockstep" train --model tiny --data 'r*.csv' --batch-size 4 \
  --steps 1 --quiet --run-dir run) >out.txt 2>err.txt || fail "train in x[1]"
"$lockstep" eval 'x[1]/run' >out.txt 2>err.txt || fail "eval of x[1]"
cd 'a,b' || exit 1
fails "a comma separates: rename the folder" --data 'r*.csv'
fails "a comma separates: rename the folder" --estimator --data 'r*.csv'
fails "a comma separates: rename the folder" --estimator --data rows.csv \
  --test 'r*.csv'
for kind in "" --estimator; do
  # shellcheck disable=SC2086
  fails "more than 4095 bytes with absolute paths" $kind --data \
    "/x/rows.csv$(printf ',/x/%0990d.csv' 1 2 3 4 5)"
done
"$lockstep" train --model tiny --data rows.csv --batch-size 4 --steps 1 \
  --quiet --run-dir run >../out.txt 2>../err.txt || fail "train in a,b"
cd .. || exit 1
"$lockstep" eval 'a,b/run' >out.txt 2>err.txt || fail "eval of a,b"

fails "there is no file or folder 'no-such-folder'" --data no-such-folder
mkdir data
fails "there is no 'data/train-labels-idx1-ubyte', nor the same with .gz" \
  --data data
fails "and it has no folder with images for each class" --data data
printf 'not a dataset' >data/train-labels-idx1-ubyte
fails "'data/train-labels-idx1-ubyte' is no IDX file" --data data
printf '\000\000\010\001\000\000\000\011abc' >data/train-labels-idx1-ubyte
fails "'data/train-labels-idx1-ubyte' is cut off" --data data
if [ "$(id -u)" != 0 ]; then
  mkdir locked
  chmod 500 locked
  # shellcheck disable=SC2086
  fails "Permission denied" $tiny --run-dir locked/run
fi

fails "model 'tiny' learns from images or numbers, 'out.txt' has neither" \
  --model tiny --data out.txt
fails "model 'gpt' learns from text, 'fashion-mnist' has images" --model gpt
fails "model 'gpt' learns from text, folder 'data' has no .txt file" --model gpt --data data
fails "'no-such-text'" --model gpt --data no-such-text
ls runs | grep -v '^tiny-[12]$' | grep -v '^threads-' &&
  fail "a run that did not begin left a folder"

# Products of bf16: other bits than those of f32, the same in a run that goes on.
for precision in f32 bf16; do
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --steps 40 --precision $precision --quiet \
    --run-dir runs/$precision >out.txt 2>err.txt || fail "a run in $precision"
done
cmp -s runs/f32/model.safetensors runs/bf16/model.safetensors &&
  fail "bf16 has the bits of f32"
"$lockstep" train --model tiny --data synthetic --epochs 2 --steps 20 \
  --precision bf16 --schedule constant --quiet --run-dir runs/half >out.txt \
  2>err.txt && "$lockstep" train --resume runs/half --steps 40 --quiet \
  >out.txt 2>err.txt || fail "a run in bf16 that goes on"
"$lockstep" train --model tiny --data synthetic --epochs 2 --steps 40 \
  --precision bf16 --schedule constant --quiet --run-dir runs/whole >out.txt \
  2>err.txt
cmp -s runs/half/model.safetensors runs/whole/model.safetensors ||
  fail "a run in bf16 goes on with other bits"
"$lockstep" eval runs/bf16 >out.txt 2>err.txt || fail "eval of a run in bf16"

# A text, by its tokens: the accuracy is one of many.
if [ -z "$sanitized" ]; then
  yes 'the cat sat on the mat, and the dog sat on the cat;' | head -c 6000 >text
  "$lockstep" train --model gpt --data text --steps 2 --batch-size 2 --quiet \
    --run-dir runs/text >out.txt 2>err.txt || fail "a run on a text fails"
  grep -qE '^test accuracy: (0\.[0-9]{4}|1\.0000)$' out.txt ||
    fail "no accuracy per token"
fi

# f64 weights are kept as they are.
# shellcheck disable=SC2086
"$lockstep" train $tiny --quiet --precision f64 --optimizer adamw \
  --schedule cosine --warmup 10 --weight-decay 0.01 --clip-norm 1 --accumulate 2 \
  --run-dir runs/f64 >out.txt 2>err.txt || fail "a run in f64 fails"
head -c 300 runs/f64/model.safetensors | grep -q '"dtype":"F64"' ||
  fail "the model is not in f64"
grep -qF '"optimizer":"adamw"' runs/f64/config.json ||
  fail "the optimizer is not in config.json"
grep -qF '"accumulate":2' runs/f64/config.json ||
  fail "what is accumulated is not in config.json"

# The reference data set, where it is installed.
if [ -z "$sanitized" ] && [ -d /usr/share/datasets/fashion-mnist ]; then
  "$lockstep" train --model mlp --steps 40 --batch-size 64 --replicas 2 --quiet \
    >out.txt 2>err.txt ||
    fail "a run on Fashion-MNIST fails"
  grep -qE '^test accuracy: 0\.[5-9]' out.txt ||
    fail "40 steps on Fashion-MNIST give a poor accuracy"
  fails "model 'tiny' takes examples f32[16] of 4 classes; these are f32[28,28]" \
    --model tiny
fi

rm -rf seeds alone
# Of an estimator, too, the mean is of what each run prints.
"$lockstep" train --model tiny --estimator --data synthetic --steps 20 --seeds 2 \
  --eval-every 60 --run-dir seeds --quiet >out.txt 2>err.txt ||
  fail "--seeds of an estimator"
awk '/^seed 1: / { seeds = 1 } /^(seed [01]: )?loss:/ { sum += $NF }
     /^test loss: mean/ { mean = $4 }
     END { exit !(seeds && mean > sum / 2 - 1e-3 && mean < sum / 2 + 1e-3) }' \
  out.txt || fail "the mean is of other losses"

# One seed is a run in a folder of its own, too.
"$lockstep" train --model tiny --data synthetic --steps 2 --seeds 1 \
  --run-dir seeds --overwrite --quiet >out.txt 2>err.txt || fail "--seeds 1"
[ -s seeds/seed-0/model.safetensors ] || fail "--seeds 1 is not in seed-0"

# Several seeds: each run is that of its seed alone.
rm -rf seeds alone
"$lockstep" train --model tiny --data synthetic --steps 40 --seed 5 --seeds 2 \
  --run-dir seeds --quiet >out.txt 2>err.txt || fail "--seeds 2: code $?"
grep -q "^seed 6: test accuracy: 0" out.txt || fail "--seeds tells no seed"
grep -q "^test accuracy: mean 0.*, deviation 0.*, of 2 seeds$" out.txt ||
  fail "--seeds tells no mean"
"$lockstep" train --model tiny --data synthetic --steps 40 --seed 6 \
  --run-dir alone --quiet >out.txt 2>err.txt || fail "--seed 6: code $?"
cmp -s alone/model.safetensors seeds/seed-6/model.safetensors ||
  fail "a run of several seeds is another one"
for command in eval show; do
  ends 1 "it has runs of 2 seeds: seeds/seed-*" $command seeds
done
ends 2 "--resume continues one run; --seeds trains new ones" \
  train --resume alone --seeds 2
ends 2 "--trace writes a file of one run" train --model tiny --seeds 2 --trace x

# Of runs that were stopped, auto keeps those that have ended, and goes on with
# the others; so does a job that is started again.
for kind in "" --estimator; do
  rm -rf auto events
  several="--model tiny --data synthetic $kind --steps 40 --save-every-steps 20
    --seeds 3 --run-dir auto --events events --quiet"
  # shellcheck disable=SC2086
  "$lockstep" train $several >out.txt 2>err.txt || fail "--seeds 3: code $?"
  [ -d events/seed-1 ] && [ -d events/seed-2 ] || fail "events of seeds"
  rm -rf auto/seed-1/model.ckpt-40.* auto/seed-2
  before=$(ls -l --full-time auto/seed-0/model.ckpt-*)
  # shellcheck disable=SC2086
  "$lockstep" train $several --resume auto >out.txt 2>err.txt ||
    fail "--seeds with --resume auto: code $?"
  [ "$before" = "$(ls -l --full-time auto/seed-0/model.ckpt-*)" ] ||
    fail "a run that has ended is made again"
  [ -e auto/seed-1/model.ckpt-40.json ] && [ -e auto/seed-2/model.ckpt-40.json ] ||
    fail "not all seeds have ended"
  # shellcheck disable=SC2086
  LS_RESTART=1 "$lockstep" train $several >out.txt 2>err.txt ||
    fail "--seeds of a job that is started again: code $?"
done

# The learning rate of each line's last step: linear from 0.1 to 0 in 300 steps.
"$lockstep" train --model tiny --data synthetic --steps 300 --learning-rate 0.1 \
  --run-dir rates --overwrite --quiet >out.txt 2>err.txt || fail "rates"
rates=$(sed -n 's/.*"learning_rate":\([0-9.e-]*\),.*/\1/p' rates/metrics.jsonl |
  awk '{ printf "%.5f ", $1 }')
[ "$rates" = "0.06700 0.03367 0.00033 " ] || fail "the rates are $rates"

# Without a test set all examples are trained on, also if the run goes on.
rm -rf none all halves
awk 'BEGIN { for (i = 1; i <= 16; ++i) printf "x%d,", i; print "label"
  for (row = 0; row < 40; ++row) {
    for (i = 1; i <= 16; ++i) printf "%g,", (row * i * 13) % 10 / 10
    print row % 4
  } }' >rows.csv
tiny="--model tiny --batch-size 8 --schedule constant --quiet"
# shellcheck disable=SC2086
{
  "$lockstep" train $tiny --data rows.csv --test none --epochs 4 --run-dir none \
    >out.txt 2>err.txt || fail "--test none"
  [ -s out.txt ] && fail "--test none prints a result"
  grep -q '"step":20,' none/metrics.jsonl || fail "4 epochs are not 20 steps"
  grep -qF '"test":"none"' none/config.json || fail "--test none is not kept"
  "$lockstep" train $tiny --data rows.csv --test rows.csv --epochs 4 \
    --run-dir all >out.txt 2>err.txt || fail "--test rows.csv"
  cmp -s none/model.safetensors all/model.safetensors ||
    fail "--test none trains on other examples"
  "$lockstep" train $tiny --data rows.csv --test none --epochs 2 --run-dir halves \
    >out.txt 2>err.txt || fail "--test none, two epochs"
}
"$lockstep" train --resume halves --epochs 4 --quiet >out.txt 2>err.txt ||
  fail "--test none, resumed"
cmp -s none/model.safetensors halves/model.safetensors ||
  fail "--test none goes on otherwise"
ends 1 "the run has no test set (--test none): name data with --data" eval none
"$lockstep" eval none --data rows.csv >out.txt 2>err.txt || fail "eval --data"
ends 1 "--accumulate is 9, but the run has 2 batches" train --model tiny \
  --data synthetic --steps 2 --optimizer adam --accumulate 9
"$lockstep" train --model tiny --data synthetic --steps 4 --optimizer adam \
  --accumulate 2 --warmup 2 --run-dir warm-long >out.txt 2>err.txt
grep -q -- "--warmup is 2, but the run has 2 steps of the optimizer" err.txt ||
  fail "a warmup as long as the run is not told"
rm -rf warm-long
ends 1 "--split cannot be given with --test none" train --model tiny \
  --data rows.csv --test none --split 0.2

exit $failed
