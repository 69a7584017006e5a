#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The folder of an estimator's training: locked while one writes to it, with the
# flags on which bits depend, which a resumed run takes and is refused others.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf held kept whole alone other slow old branch full file own copy linked looped seeds be-slow e.so
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so
model="--model e.so:line"

# trains ARGUMENT...: succeeds.
trains() {
  # shellcheck disable=SC2086
  "$lockstep" train $model "$@" >out.txt 2>err.txt || fail "train $*"
}

# refused CODE WANTED ARGUMENT...: a line on standard error says why.
refused() {
  # shellcheck disable=SC2086
  ends "$1" "$2" train $model "$3" "$4" $5
}

# ---- One writer ------------------------------------------------------------
# shellcheck disable=SC2086
env --default-signal=INT "$lockstep" train $model --steps 100000000 \
  --run-dir held >long.txt 2>&1 &
id=$!
waits_for test -s held/checkpoint
refused 1 "'held/lock' is locked by process $id " --resume held "--steps 3"
# shellcheck disable=SC2086
"$lockstep" eval held $model >out.txt 2>err.txt || fail "eval of a running one"
"$lockstep" show held >out.txt 2>err.txt || fail "show"
grep -q '^held: running' out.txt || fail "show of a running one"
kill -INT $id
wait $id
[ $? = 130 ] || fail "a training that another one tried to continue"
[ ! -e held/lock ] || fail "the lock stays"

# ---- The same flags --------------------------------------------------------
trains --run-dir whole --replicas 4 --param rate=0.01,width=6 --seed 3 \
  --batch-size 16 --steps 20
trains --run-dir kept --replicas 4 --param rate=0.01,width=6 --seed 3 \
  --batch-size 16 --steps 10
trains --resume kept --param width=6 --steps 15
trains --resume kept --param rate=1e-2 --replicas 4 --steps 20
cmp whole/model.ckpt-20.safetensors kept/model.ckpt-20.safetensors ||
  fail "a run with the flags of its folder gives other bytes"
# The run of a program of its own has no estimator.json.
cp -r whole alone
rm alone/estimator.json
"$lockstep" diff whole alone >out.txt 2>err.txt && grep -q '^equal: ' out.txt ||
  fail "diff of a run without flags"
ends 1 "--op makes the steps of models again: the run in 'alone' is" \
  diff --op alone whole
trains --run-dir other --steps 3
trains --resume other --batch-size 32 --math fast --steps 6  # Defaults.

# ---- Settings --------------------------------------------------------------
trains --run-dir slow --save-every-steps 4 --checksum 2 --keep 0 --events \
  --steps 8
trains --resume slow --steps 12
[ "$(find slow/events/train -type f | wc -l)" = 2 ] || fail "events are not kept"
[ -e slow/model.ckpt-4.json ] && [ -e slow/model.ckpt-12.json ] &&
  [ "$(grep -c checksum slow/metrics.jsonl)" = 6 ] || fail "a setting is lost"
trains --resume slow --save-every 60 --steps 20
[ ! -e slow/model.ckpt-16.json ] || fail "saves by steps and by seconds"

# ---- Other flags -----------------------------------------------------------
so="it can only continue with the same, or with --allow-inexact"
refused 2 "--replicas is '8', the run in 'kept' has '4': $so" \
  --resume kept "--steps 30 --replicas 8"
refused 2 "--replicas is '4', the run in 'other' has none: $so" \
  --resume other "--steps 30 --replicas 4"
refused 2 "--tpu is 'virtual:2x2', the run in 'kept' has none: $so" \
  --resume kept "--steps 30 --tpu virtual:2x2"
refused 2 "--param is 'rate=0.1', the run in 'kept' has 'rate=1e-2': $so" \
  --resume kept "--steps 30 --param width=6,rate=0.1"
refused 2 "--param is 'rate=0.1', the run in 'other' has none: $so" \
  --resume other "--steps 30 --param rate=0.1"
refused 2 "--batch-size is '32', the run in 'kept' has '16': $so" \
  --resume kept "--steps 30 --batch-size 32"
refused 2 "--seed is '0', the run in 'kept' has '3': $so" \
  --resume kept "--steps 30 --seed 0"
refused 2 "--math is 'direct', the run in 'kept' has 'fast': $so" \
  --resume kept "--steps 30 --math direct"
ends 2 "the run in 'kept' is of estimator 'line', not of 'bare'" \
  train --model e.so:bare --resume kept
refused 2 "--allow-inexact is for --resume" --run-dir old --allow-inexact
[ -e kept/model.ckpt-20.safetensors ] && [ ! -e kept/model.ckpt-30.safetensors ] ||
  fail "a refused run has trained"
trains --resume kept --allow-inexact --tpu virtual:2x2 --param rate=0.02 \
  --steps 22
grep -qF "train: --tpu is 'virtual:2x2', the run in 'kept' has none: results \
will differ" err.txt || fail "--allow-inexact"
trains --resume kept --param rate=0.02,width=6 --tpu virtual:2x2 --steps 24

# ---- From a step, in a folder of its own -----------------------------------
# No file may grow: a copy that fails leaves nothing, nor does a step that the
# run lacks.
(
  ulimit -f 0
  # shellcheck disable=SC2086
  "$lockstep" train $model --resume kept@10 --run-dir branch/in --steps 12 2>&1
) | grep -qF "cannot write 'branch/in/model.ckpt-10.safetensors': File too large" ||
  fail "a copy that cannot be written"
# The checkpoint, of 2 KiB, is copied, estimator.json is not.
cp -r kept full
head -c 5000 /dev/zero | tr '\0' ' ' >>full/estimator.json
(
  ulimit -f 8
  # shellcheck disable=SC2086
  "$lockstep" train $model --resume full@10 --run-dir branch/in --steps 12 2>&1
) | grep -qF "cannot write 'branch/in/estimator.json': File too large" ||
  fail "a copy of flags that cannot be written"
refused 1 "cannot read 'kept/model.ckpt-11.safetensors': No such file" \
  --resume kept@11 "--run-dir branch/in --steps 12"
[ ! -e branch/in ] || fail "a copy that fails leaves $(ls branch/in)"
touch file
refused 1 "cannot make folder 'file/in': Not a directory" \
  --resume kept@10 "--run-dir file/in --steps 12"
trains --resume kept@10 --run-dir branch --steps 12
refused 1 "'branch/model.ckpt-10.safetensors' is there already: choose another" \
  --resume kept@10 "--run-dir branch --steps 12"

# ---- Names that nothing reads ----------------------------------------------
# Loops on cores are kept, too; replicas have none.
trains --run-dir looped --tpu virtual:2x2 --iterations-per-loop 2 --steps 4
grep -q '"iterations_per_loop": "2"' looped/estimator.json || fail "no loops"
trains --resume looped --allow-inexact --replicas 2 --steps 6

for tpu in '' '--tpu virtual:2x2'; do
  rm -rf unread
  # shellcheck disable=SC2086
  trains --run-dir unread --param rats=1,rate=0.1,batches=3 --steps 2 $tpu
  grep -c 'has read$' err.txt | grep -qx 2 || fail "names that nothing reads"
  grep -q "params has 'rats', which neither the model function" err.txt ||
    fail "a name that nothing reads"
done

# ---- Without the file, and with a damaged one ------------------------------
rm other/estimator.json
trains --resume other --param rate=0.02 --steps 9
refused 2 "the run in 'other' has 'rate=0.02'" --resume other "--param rate=1"
for text in '' '{' '{"replicas": 4' '[]' '{"seed": 1} x' '{"seed": 1.5}' \
  '{"batch_size": -5}' '{"steps": 3e9}' '{"learning_rate": "x"}' \
  '{"flip": 1}'; do
  printf '%s' "$text" >other/estimator.json
  refused 1 "'other/estimator.json' is damaged" --resume other "--steps 12"
done

printf '%s' '{"flip": false, "gradient_norm": false}' >other/estimator.json
trains --resume other --steps 12

# Seeds whose runs have ended have no last loss, which is said.
trains --seeds 2 --run-dir seeds --steps 3 --quiet
trains --seeds 3 --run-dir seeds --steps 3 --quiet --resume auto
for seed in 0 1; do
  grep -qx "lockstep train: seed $seed made no step: its loss is not in the mean" \
    err.txt || fail "seed $seed is left out of the mean without a line"
done
[ "$(grep -c 'made no step' err.txt)" = 2 ] || fail "a new seed is left out"

# ---- A model's run ---------------------------------------------------------
tiny="--model tiny --data synthetic"
# shellcheck disable=SC2086
"$lockstep" train $tiny --steps 3 --run-dir own --quiet >out.txt 2>err.txt ||
  fail "a model's run"
cp -r own copy
# shellcheck disable=SC2086
{
  ends 1 "the run in 'own' is a model's, not an estimator's" train --estimator \
    $tiny --resume own --steps 6
  ends 1 "the run in 'own' is a model's, not an estimator's" train --estimator \
    $tiny --run-dir own --resume auto --steps 6
  ends 1 "the run in 'own' is a model's, not an estimator's" train --estimator \
    --model tiny --data missing.csv --resume own --steps 6
}
diff -r copy own >out.txt 2>err.txt || fail "a model's run is another one"
echo '{"estimator": "tiny", "model": "tiny"}' >own/estimator.json
"$lockstep" replay own >out.txt 2>err.txt ||
  fail "replay takes a model's run for an estimator's"

# The model's own optimizer ignores these flags; nothing to evaluate with.
# shellcheck disable=SC2086
"$lockstep" train --estimator $tiny --steps 3 --run-dir linked --quiet \
  >out.txt 2>err.txt || fail "--estimator"
ends 2 "--accumulate needs an --optimizer: the model's own has no such" train \
  --resume copy --allow-inexact --accumulate 2 --steps 9 --quiet
"$lockstep" train --resume linked --allow-inexact --accumulate 2 --steps 9 \
  --quiet >out.txt 2>err.txt
[ $? = 2 ] && tail -n 1 err.txt | grep -q "accumulate needs an --optimizer" ||
  fail "an estimator's own optimizer takes --accumulate"
for flags in "--stop-early test_loss" "--keep-best test_loss" "--eval-every 9"; do
  # shellcheck disable=SC2086
  ends 2 "need a test set, and --test is none" train --estimator $tiny \
    --steps 3 --test none $flags
done

exit $failed
