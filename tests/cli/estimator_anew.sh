#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs of estimators made anew: by the file of flags of a run, --config, and in
# the folder of one, --overwrite, which is back if the new one fails.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs run copy e.so ./*.json
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  "$lockstep" train --run-dir "runs/$name" --quiet "$@" >out.txt 2>err.txt ||
    fail "train $*"
}
# same A B: their checkpoints and flags.
same() {
  for file in estimator.json model.ckpt-6.safetensors; do
    cmp -s "runs/$1/$file" "runs/$2/$file" || fail "$2 has another $file than $1"
  done
}

# ---- Flags of a file --------------------------------------------------------
trains tiny --estimator --model tiny --data synthetic --steps 6 --seed 3 \
  --optimizer adam --learning-rate 0.01 --replicas 2 --keep 2
trains again --config runs/tiny/estimator.json
same tiny again
trains named --estimator --model tiny --config runs/tiny/estimator.json
same tiny named
trains line --model e.so:line --steps 6 --param rate=0.01,width=4 --batch-size 8
trains line2 --model e.so:line --config runs/line/estimator.json
same line line2
# The command line wins.
trains won --config runs/tiny/estimator.json --seed 4 --steps 5
grep -q '"seed": 4,' runs/won/estimator.json &&
  [ -e runs/won/model.ckpt-5.json ] || fail "the command line does not win"
# A rate by --learning-rate replaces one by --param, and the reverse.
trains param --config runs/tiny/estimator.json --param learning_rate=0.5
grep -q '"param": "learning_rate=0.5"' runs/param/estimator.json &&
  ! grep -q '"learning_rate"' runs/param/estimator.json || fail "no --param"
trains rate --config runs/param/estimator.json --learning-rate 0.01
same tiny rate
# --find-lr chooses the rates, of one step each, of any configuration.
trains loops --estimator --model tiny --data synthetic --steps 6 \
  --tpu virtual:1x1 --iterations-per-loop 2
for config in tiny param loops; do
  "$lockstep" train --estimator --find-lr --steps 20 \
    --config runs/$config/estimator.json >out.txt 2>err.txt ||
    fail "find-lr of $config"
done
# A model's configuration trains its model as an estimator.
trains model --model tiny --data synthetic --steps 6 --optimizer sgd
trains of --estimator --config runs/model/config.json
grep -q '"model": "tiny"' runs/of/estimator.json || fail "another model"
grep -q '"optimizer": "sgd"' runs/of/estimator.json || fail "another optimizer"

echo '{"optimizer":"adam","label":""}' >adam.json
ends 2 "'adam.json': --optimizer is not for estimators of shared libraries: its model" \
  train --model e.so:line --config adam.json
ends 2 "is for the estimator \"line\", this is for tiny: give that by --model" \
  train --estimator --model tiny --config runs/line/estimator.json
ends 2 "is for the estimator \"line\", this is no estimator: give that" \
  train --config runs/line/estimator.json

# ---- In the folder of a run -------------------------------------------------
trains first --model e.so:line --steps 6 --eval-every 60
"$lockstep" eval runs/first --model e.so:line --name other >out.txt 2>err.txt ||
  fail "eval"
trains fresh --model e.so:line --steps 6 --seed 4
echo notes >runs/first/notes.txt
cp -r runs/first copy
# is_old WHEN: all is as it was.
is_old() {
  diff -r copy runs/first >out.txt 2>err.txt || fail "$1: the old run is another"
}
ends 1 "there is a run in 'runs/first': --resume runs/first continues it, and --overwrite replaces it" \
  train --model e.so:line --run-dir runs/first --quiet
is_old "without --overwrite"
ends 1 "'runs/first' has the run again that was to be overwritten" train \
  --model e.so:line --run-dir runs/first --overwrite --quiet --find-spike 1e-9
is_old "after a failure"
trains first --model e.so:line --steps 6 --seed 4 --overwrite
same first fresh
[ -e runs/first/notes.txt ] || fail "a file of the user's is gone"
[ ! -e runs/first/eval ] && [ ! -e runs/first/eval_other ] &&
  [ ! -e runs/first/.overwritten ] || fail "the old run is still there"
[ "$(find runs/first -name 'events.*' | wc -l)" = 1 ] || fail "its events are"
# A model's run gives way to an estimator's, and the other way round.
trains model --model e.so:line --steps 6 --overwrite
[ ! -e runs/model/config.json ] || fail "the model's run is still there"
ends 1 "already holds a run" train --model tiny --data synthetic --quiet \
  --run-dir runs/model
trains model --model tiny --data synthetic --steps 6 --overwrite
[ ! -e runs/model/estimator.json ] || fail "the estimator's run is still there"
# With evaluations, too, also between parts of a training.
trains first --model e.so:line --steps 6 --overwrite --tpu virtual:2x1 \
  --save-every-steps 2 --keep-best test_loss --batch-size 64
[ -e runs/first/eval ] && [ ! -e runs/first/.overwritten ] ||
  fail "--overwrite with --keep-best"
ends 2 "remove that of --run-dir" train --model e.so:line --resume \
  runs/fresh@6 --run-dir runs/first --overwrite

# A run that could not begin leaves no folder, nor does it take one of others.
mkdir -p runs/here
echo notes >runs/here/notes.txt
for name in none here; do
  ends 1 "cannot open 'absent'" train --estimator --model tiny --data synthetic \
    --quiet --attest --events --run-dir runs/$name --warm-start absent
done
[ ! -e runs/none ] || fail "a run that could not begin left a folder"
[ -e runs/here/notes.txt ] || fail "a file of the user's is gone"

# Killed before its first step: the old run is back.
rm -rf copy
cp -r runs/fresh copy
touch be-slow
"$lockstep" train --model e.so:line --run-dir runs/fresh --overwrite --quiet \
  >out.txt 2>err.txt &
process=$!
waits_for test -e runs/fresh/model.ckpt-0.json
kill -s KILL $process
wait $process
rm -f be-slow
"$lockstep" eval runs/fresh --model e.so:line >out.txt 2>err.txt ||
  fail "eval of a killed overwriting"
[ -e runs/fresh/model.ckpt-6.json ] || fail "the old run is gone"

# A run that names its model itself is found before it is back.
for words in "eval runs/tiny" "predict runs/tiny --limit 1" \
  "train --resume runs/tiny --steps 7 --quiet"; do
  mkdir runs/tiny/.overwritten
  mv runs/tiny/estimator.json runs/tiny/model.ckpt-* runs/tiny/.overwritten
  echo whole >runs/tiny/.overwritten/phase
  # shellcheck disable=SC2086
  "$lockstep" $words >out.txt 2>err.txt || fail "$words of a killed overwriting"
  [ -e runs/tiny/estimator.json ] || fail "$words: the old run is gone"
done
# A command that is started again goes on overwriting.
mkdir runs/tiny/.overwritten
mv runs/tiny/estimator.json runs/tiny/model.ckpt-* runs/tiny/.overwritten
echo whole >runs/tiny/.overwritten/phase
touch runs/tiny/model.ckpt-0.json runs/tiny/model.ckpt-0.safetensors
LS_RESTART=1
export LS_RESTART
trains tiny --estimator --model tiny --data synthetic --steps 6 --seed 9 \
  --overwrite
unset LS_RESTART
grep -q '"seed": 9,' runs/tiny/estimator.json || fail "the old run goes on"

exit $failed
