#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Runs on the cores of a TPU system, step by step and in loops of many steps:
# the same values and metrics as on replicas, however they end and go on.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf plain cores loops given ended killed two

# trains FOLDER FLAG...
trains() {
  folder=$1
  shift
  "$lockstep" train --model tiny --data synthetic --quiet --run-dir "$folder" \
    --batch-size 32 --steps 90 "$@" >out.txt 2>err.txt || fail "train $*"
}
# same FOLDER: as plain, by metrics, values and checkpoints.
same() {
  "$lockstep" diff plain "$1" >out.txt 2>err.txt || fail "$1 is not plain"
}

trains plain --replicas 8 --save-every-steps 25
trains cores --tpu virtual:2x2,hosts=2 --save-every-steps 25
same cores
trains loops --tpu virtual:2x2 --iterations-per-loop 40 --save-every-steps 25 \
  --events --trace trace.json
same loops
[ -n "$(find loops/events/train -name 'events.out.tfevents.*' -size +0)" ] ||
  fail "a run in loops has no events"
grep -q '"loop' trace.json || fail "the trace shows no loop"
trains given --replicas 8 --iterations-per-loop 7 --save-every-steps 25
same given

# A run goes on as another kind of strategy, and on another system.
trains two --replicas 8 --save-every-steps 25 --steps 25
"$lockstep" train --resume two --tpu virtual:4x1,hosts=4 --quiet --steps 50 \
  --iterations-per-loop 9 --save-every-steps 25 >out.txt 2>err.txt ||
  fail "replicas go on as cores"
"$lockstep" train --resume two --replicas 8 --quiet --steps 90 \
  --save-every-steps 25 >out.txt 2>err.txt || fail "cores go on as replicas"

# Ctrl-C ends a loop after the steps that its cores have batches for.
env --default-signal=INT "$lockstep" train --model tiny --data synthetic \
  --epochs 1000000 --run-dir ended --tpu virtual:2x2 --save-every-steps 100 \
  --iterations-per-loop 1000000 >out.txt 2>err.txt &
process=$!
waits_for test -s ended/metrics.jsonl
kill -s INT $process
wait $process
code=$?
[ "$code" = 130 ] || fail "SIGINT in a loop: code $code, wanted 130"
[ -s ended/model.safetensors ] || fail "SIGINT in a loop: nothing is saved"

# A killed one goes on from its last checkpoint.
"$lockstep" train --model tiny --data synthetic --run-dir killed --quiet \
  --batch-size 32 --steps 90 --tpu virtual:2x2 --iterations-per-loop 40 \
  --save-every-steps 25 >out.txt 2>err.txt &
process=$!
waits_for test -s killed/model.ckpt-25.json
kill -s KILL $process
wait $process
"$lockstep" train --resume killed --quiet --tpu virtual:2x2 \
  --iterations-per-loop 11 --save-every-steps 25 >out.txt 2>err.txt ||
  fail "a killed run does not go on"
cmp plain/model.safetensors killed/model.safetensors ||
  fail "a killed run ends with other values"

# A core that is lost ends the run; its checkpoint stands.
"$lockstep" train --model tiny --data synthetic --quiet --run-dir two \
  --overwrite --batch-size 32 --save-every-steps 10 --iterations-per-loop 4 \
  --tpu 'virtual:2x2,fault=lost@host0.core3:step30' >out.txt 2>err.txt &&
  fail "a run goes on without a core"
grep -q 'was lost' err.txt || fail "a lost core is not named"
[ -s two/checkpoint ] || fail "a run that lost a core has no checkpoint"

# ---- Refusals ---------------------------------------------------------------
ends 2 "TPU name 'virtual:2y2'" train --tpu virtual:2y2
ends 2 "TPU 'nowhere' is unknown" train --tpu nowhere
ends 2 "--replicas is 4, but --tpu virtual:2x2 has 8 cores" \
  train --tpu virtual:2x2 --replicas 4
ends 2 "--iterations-per-loop is '0'" train --iterations-per-loop 0
ends 2 "--tpu virtual:2x1 has 4 cores, the run in 'plain' has 8 replicas" \
  train --resume plain --tpu virtual:2x1
rm -rf plain cores loops given ended killed two trace.json
exit $failed
