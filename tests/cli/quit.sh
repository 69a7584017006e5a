#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Ctrl-\ tells where a run is and does not end it.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run
model=mlp
[ -z "$sanitized" ] || model=tiny
env --default-signal=INT,QUIT "$lockstep" train --model $model --data synthetic \
  --replicas 2 ${sanitized:+--batch-size 256} --epochs 1000000 --run-dir run \
  --overwrite >out.txt 2>err.txt &
process=$!
waits_for test -s run/metrics.jsonl
# A signal between two steps finds nothing that runs.
tells() {
  kill -s QUIT $process
  sleep 0.1
  grep -q 'shared code: ' err.txt
}
waits_for tells
tells || fail "nothing is told"
grep -q '^step [0-9]' err.txt || fail "no step is told"
grep -q 'the last events, newest first:' err.txt || fail "no events are told"
lines=$(wc -l <run/metrics.jsonl)
goes_on() { [ "$(wc -l <run/metrics.jsonl)" -gt "$lines" ]; }
waits_for goes_on
goes_on || fail "the run does not go on"
kill -s INT $process
wait $process
code=$?
[ "$code" = 130 ] || fail "code $code, wanted 130"
exit $failed
