#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --gradient-norm: the same weights, a number more in each line
# of steps, and a run that resumes with it; the same norm of a model of the
# library as an estimator, whose optimizer has slots and counts.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs

tiny="--model tiny --data synthetic --batch-size 64 --quiet"
# shellcheck disable=SC2086
{
  "$lockstep" train $tiny --steps 250 --run-dir runs/plain >out.txt 2>err.txt &&
    "$lockstep" train $tiny --steps 250 --run-dir runs/norm --gradient-norm \
      --events >out.txt 2>err.txt || fail "train"
}
cmp -s runs/plain/model.safetensors runs/norm/model.safetensors ||
  fail "the norm changes weights"
[ "$(grep -c '"learning_rate":[^,]*,"gradient_norm":[0-9]' runs/norm/metrics.jsonl)" = 4 ] ||
  { cat runs/norm/metrics.jsonl; fail "lines lack the norm"; }
! grep -q gradient_norm runs/plain/metrics.jsonl || fail "a norm unasked"
! grep test_loss runs/norm/metrics.jsonl | grep -q gradient_norm ||
  fail "an evaluation has a norm"
grep -qF '"gradient_norm":true' runs/norm/config.json || fail "config.json"
strings -n 8 runs/norm/events/train/* 2>/dev/null | grep -q gradient_norm ||
  ! command -v strings >/dev/null || fail "events lack the norm"

# A run that resumes has it again; others cannot begin with it.
"$lockstep" train --resume runs/norm --steps 384 --quiet >out.txt 2>err.txt ||
  fail "resume"
tail -n 2 runs/norm/metrics.jsonl | head -n 1 | grep -q gradient_norm ||
  fail "a resumed run has no norm"
ends 2 "--gradient-norm makes other steps: the run in 'runs/plain' was begun without" \
  train --resume runs/plain --gradient-norm
"$lockstep" train --config runs/norm/config.json --steps 250 --run-dir runs/again \
  --quiet >out.txt 2>err.txt || fail "--config"
grep -qF '"gradient_norm":true' runs/again/config.json || fail "--config lost it"

# ---- Estimators -------------------------------------------------------------
# trains NAME ARGUMENT...: the norm of its line, in NAME.txt.
trains() {
  name=$1
  shift
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --optimizer adam --accumulate 4 --schedule constant \
    --steps 10 --gradient-norm --run-dir "runs/$name" "$@" >out.txt 2>err.txt ||
    fail "train $*"
  sed -n 's/.*\("gradient_norm":[^,]*\),.*/\1/p' \
    "runs/$name/metrics.jsonl" >"$name.txt"
}
for replicas in 1 2; do
  trains model --replicas $replicas
  trains estimator --replicas $replicas --estimator
  [ -s model.txt ] && cmp -s model.txt estimator.txt ||
    { cat model.txt estimator.txt; fail "an estimator learns otherwise"; }
  rm -rf runs/model runs/estimator
done
trains cores --estimator --tpu virtual:2x1 --iterations-per-loop 5
grep -q '"gradient_norm":[0-9.]*[1-9]' cores.txt || fail "no norm on cores"
grep -qF '"gradient_norm": true' runs/cores/estimator.json ||
  fail "estimator.json"
"$lockstep" train --resume runs/cores --steps 20 --quiet >out.txt 2>err.txt &&
  tail -n 1 runs/cores/metrics.jsonl | grep -q gradient_norm ||
  fail "an estimator that resumes has no norm"

exit $failed
