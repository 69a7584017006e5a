#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-C ends a run after the step it is in: the model is saved, the code is
# 130; with SIGTERM it is 143.

set -u
lockstep=${LOCKSTEP:?}
failed=0
rm -rf run
fail() {
  echo "FAIL $*"
  cat out.txt err.txt
  failed=1
}

# Shells start background programs with SIGINT ignored, so a helper sets it
# free: env from coreutils.
# stops SIGNAL CODE
stops() {
  env --default-signal=INT "$lockstep" train --model tiny --data synthetic \
    --epochs 1000000 --run-dir run --overwrite >out.txt 2>err.txt &
  process=$!
  waited=0
  while [ ! -s run/metrics.jsonl ] && [ $waited -lt 300 ]; do
    sleep 0.1
    waited=$((waited + 1))
  done
  kill -s "$1" $process
  wait $process
  code=$?
  [ "$code" = "$2" ] || fail "SIG$1: code $code, wanted $2"
  [ -s run/model.safetensors ] || fail "SIG$1: the model is not saved"
  [ ! -s out.txt ] || fail "SIG$1: a result is printed"
  grep -q 'stopped after [0-9]* steps' err.txt || fail "SIG$1: not said"
}

stops INT 130
rm -rf run
stops TERM 143

exit $failed
