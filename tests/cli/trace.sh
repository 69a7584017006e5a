#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# --trace writes what was done when, as JSON that Perfetto reads: also when the
# run is stopped, or fails. A place where nothing can be written is refused
# before anything begins.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run runs plain new ./*.json

tiny="--model tiny --data synthetic --quiet"

# has FILE KIND NAME: a span of that kind and name.
has() {
  grep -q "\"ph\":\"X\",.*\"name\":\"$3\",\"cat\":\"$2\"," "$1" ||
    fail "$1 has no $2 '$3'"
}

# is_json FILE: it is JSON, as python3 sees it, of events with all that they
# need.
is_json() {
  [ -s "$1" ] || fail "there is no $1"
  command -v python3 >/dev/null || return 0
  python3 - "$1" 2>err.txt <<'END' || fail "$1 is no trace"
import json, sys
trace = json.load(open(sys.argv[1], encoding="utf-8"))
events = trace["traceEvents"]
assert trace["otherData"]["lost_spans"] == 0
for event in events:
    assert {"ph", "pid", "tid", "name"} <= event.keys(), event
    if event["ph"] == "X":
        assert event["ts"] >= 0 and event["dur"] >= 0, event
named = {e["tid"] for e in events if e["name"] == "thread_name"}
assert {e["tid"] for e in events if e["ph"] == "X"} <= named
END
}

# shellcheck disable=SC2086
"$lockstep" train $tiny --steps 30 --replicas 2 --run-dir run \
  --trace run.json >out.txt 2>err.txt || fail "a traced run fails"
# AddressSanitizer says once that it does not know fibers.
! grep -qv '^==[0-9]*==WARNING: ASan' err.txt && [ "$(wc -l <out.txt)" = 1 ] ||
  fail "a trace is not silent"
is_json run.json
has run.json call train_step
has run.json trace train_step
has run.json compile train_step
has run.json step step
has run.json input input
has run.json evaluate evaluate
has run.json save save
has run.json save run/model.safetensors
grep -q '"cat":"turn"' run.json || fail "no turn"
[ "$(grep -c '"cat":"step"' run.json)" = 30 ] || fail "not 30 steps"
grep -q '"args":{"step":30}' run.json || fail "steps have no number"

"$lockstep" bench tiny --steps 20 --trace bench.json >out.txt 2>err.txt ||
  fail "a traced bench fails"
is_json bench.json
has bench.json call train_step

# It changes no bit.
# shellcheck disable=SC2086
"$lockstep" train $tiny --steps 30 --replicas 2 --run-dir plain >out.txt \
  2>err.txt
cmp -s run/model.safetensors plain/model.safetensors ||
  fail "a traced run gives another model"

# shellcheck disable=SC2086
{
  ends 1 "cannot write 'no/such/t.json'" \
    train $tiny --run-dir new --trace no/such/t.json
  ends 1 "cannot write '.'" train $tiny --run-dir new --trace .
  ends 1 "cannot write 'no/such/t.json'" bench tiny --trace no/such/t.json
  ends 2 "--trace needs a value" train $tiny --run-dir new --trace
}
[ ! -e new ] || fail "a run that was refused has begun"

# A run that fails leaves its trace.
# shellcheck disable=SC2086
"$lockstep" train $tiny --learning-rate 1e30 --run-dir run --overwrite \
  --trace failed.json >out.txt 2>err.txt && fail "a loss of inf is fine"
is_json failed.json
has failed.json step step

# So does one that is stopped.
rm -rf run
env --default-signal=INT "$lockstep" train --model tiny --data synthetic \
  --epochs 1000000 --run-dir run --overwrite --trace stopped.json >out.txt \
  2>err.txt &
process=$!
waits_for test -s run/metrics.jsonl
kill -s INT $process
wait $process
code=$?
[ "$code" = 130 ] || fail "SIGINT: code $code, wanted 130"
sed -i 's/"lost_spans":[0-9]*/"lost_spans":0/' stopped.json
is_json stopped.json
has stopped.json step step
has stopped.json save save

exit $failed
