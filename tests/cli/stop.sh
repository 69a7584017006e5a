#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-C ends a run after the step it is in: the model is saved, the code is
# 130; with SIGTERM it is 143.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run

# Shells start background programs with SIGINT ignored, so a helper sets it
# free: env from coreutils.
# stops SIGNAL CODE
stops() {
  env --default-signal=INT "$lockstep" train --model tiny --data synthetic \
    --epochs 1000000 --run-dir run --overwrite >out.txt 2>err.txt &
  process=$!
  waits_for test -s run/metrics.jsonl
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
