#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Models in shared libraries: trained, resumed, evaluated, timed, printed; and
# refused where they are not what they should be.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
libraries=${LS_BUILD_DIR:?}/tests/cli/libraries
rm -rf run straight runs rate mine.so pipe.so
echo 'no library' >out.so

# works WANTED ARGUMENT...
works() {
  wanted=$1
  shift
  if "$lockstep" "$@" >out.txt 2>err.txt && grep -qE -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: wanted: $wanted"
  fi
}

# refuses WANTED MODEL: by each command, with one line.
refuses() {
  for command in "train --data synthetic --model $2" "bench $2" "graph $2"; do
    # shellcheck disable=SC2086
    ends 2 "$1" $command
  done
}

cp "$libraries/mine.so" mine.so
accuracy='^test accuracy: 0\.[3-9]'
works "$accuracy" train --model ./mine.so --data synthetic --quiet \
  --schedule constant --steps 900 --run-dir run
works "$accuracy" train --resume run --model mine.so --steps 1500 --quiet
works "$accuracy" train --model mine.so:line --data synthetic --quiet \
  --schedule constant --steps 1500 --run-dir straight
cmp -s run/model.safetensors straight/model.safetensors ||
  fail "a resumed run with dropout ends otherwise"
works "$accuracy" eval run --model mine.so
works "$accuracy" train --model mine.so --data synthetic --quiet --steps 900 \
  --optimizer momentum --learning-rate 0.01
[ -s runs/line-1/model.safetensors ] || fail "no runs/line-1"
works '"model":"\./mine\.so",' bench ./mine.so --steps 3 --json
works "softmax_cross_entropy" graph mine.so
works "^test accuracy" train --model "$libraries/another.so:curve" --quiet \
  --data synthetic --steps 5 --run-dir run --overwrite

refuses "cannot load './none.so': No such file" ./none.so
refuses "cannot load 'out.so' as a shared library" out.so
mkfifo pipe.so
refuses "cannot load './pipe.so': it is no regular file" ./pipe.so
rm pipe.so
refuses "has 2 models; name one" "$libraries/another.so"
refuses "has no model 'circle'; it has: line, curve" \
  "$libraries/another.so:circle"
refuses "does not export 'ls_exported_models'; see LS_EXPORT_MODELS" \
  "$libraries/no_models.so"
refuses "has models of version 2, this program needs 1" \
  "$libraries/other_version.so"
refuses "has models of an older Lockstep" "$libraries/small.so"

# What a model of a user's does not do is said, not passed over.
"$lockstep" train --model mine.so --data synthetic --precision f64 >out.txt \
  2>err.txt
[ $? = 1 ] && grep -q "model 'line' computes in f32, not in f64" err.txt ||
  fail "a model that has no f64 is not refused"
ends 1 "ignores --schedule linear: its optimizer has a constant rate" \
  train --model mine.so --data synthetic --schedule linear
own=$libraries/own_rate.so
ends 1 "ignores --schedule constant: its optimizer has a schedule of its" \
  train --model "$own" --data synthetic --schedule constant
ends 1 "ignores --learning-rate: its optimizer has a rate of 0.02" \
  train --model "$own" --data synthetic --learning-rate 0.5
# What was not asked for is told as it is.
# schedule WANTED ARGUMENT...
schedule() {
  wanted=$1
  shift
  "$lockstep" train --data synthetic --quiet --steps 4 --run-dir rate \
    --overwrite "$@" >out.txt 2>err.txt || fail "train $*"
  grep -qF "\"schedule\":\"$wanted\"" rate/config.json ||
    fail "train $*: the schedule is not $wanted"
}
schedule constant --model mine.so
schedule own --model "$own"
"$lockstep" train --resume rate --model "$own" --steps 8 --quiet >out.txt \
  2>err.txt || fail "a schedule of the model's own does not go on"
schedule linear --model "$own" --optimizer adam
schedule linear --model tiny
schedule constant --model tiny --schedule constant --learning-rate 0.3

# A model's own optimizer gives the bits of the same one of the library, on
# replicas, and after it went on from a checkpoint.
rule=$libraries/own_rule.so
works "$accuracy" train --model "$rule" --data synthetic --quiet --steps 300 \
  --schedule constant --run-dir run --overwrite --replicas 2
works "$accuracy" train --resume run --model "$rule" --steps 500 --quiet
works "$accuracy" train --model mine.so --data synthetic --quiet --steps 500 \
  --schedule constant --optimizer momentum --learning-rate 0.01 \
  --run-dir straight --overwrite --replicas 2
cmp -s run/model.safetensors straight/model.safetensors ||
  fail "a model's own momentum is not the library's"

exit $failed
