#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What the world refuses, memory or room for a file, is one line and a code, and
# nothing is half-written.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run base

# What AddressSanitizer says about fibers, once, is none of ours.
lines() { grep -cv '^==[0-9]*==WARNING: ASan' err.txt; }

train="train --model tiny --data synthetic --steps 3 --replicas 2 --quiet"

# ---- Memory ------------------------------------------------------------------
# Request n fails: the run fails with one line, or could do without. What it
# leaves is a whole run or none. Sanitizers see a part of them.
n=1
halves=3
[ -z "$sanitized" ] || halves=5
refused=0
while [ $n -lt 60000 ]; do
  rm -rf run
  # shellcheck disable=SC2086
  LS_FAULT=alloc:$n "$lockstep" $train --run-dir run >out.txt 2>err.txt
  code=$?
  case $code in
  0)
    [ -s run/model.safetensors ] || fail "alloc:$n: no model, but code 0"
    ;;
  1)
    refused=$((refused + 1))
    [ "$(lines)" = 1 ] && grep -q 'memory' err.txt ||
      fail "alloc:$n: not one line about memory"
    [ ! -s out.txt ] || fail "alloc:$n: a result is printed"
    ;;
  *) fail "alloc:$n: code $code" ;;
  esac
  if [ -e run ]; then
    [ -z "$(find run -name '*.tmp')" ] || fail "alloc:$n: half a file is left"
    "$lockstep" train --resume run --quiet >out.txt 2>err.txt ||
      fail "alloc:$n: what is left cannot be resumed"
  fi
  n=$((n * halves / 2 + 1))
done
[ $refused -ge 5 ] || fail "memory failed $refused times only"

for command in "bench tiny --steps 2" "graph tiny" "eval base" \
               "devices --replicas 3" "devices --tpu virtual:4x2"; do
  [ -e base ] || "$lockstep" train --model tiny --data synthetic --steps 3 \
    --quiet --run-dir base >out.txt 2>err.txt || fail "a run fails"
  for n in 1 4 40 400; do
    # shellcheck disable=SC2086
    LS_FAULT=alloc:$n "$lockstep" $command >out.txt 2>err.txt
    code=$?
    if [ $code = 1 ]; then
      [ "$(lines)" = 1 ] && grep -q 'memory' err.txt ||
        fail "$command, alloc:$n: not one line about memory"
    elif [ $code != 0 ]; then
      fail "$command, alloc:$n: code $code"
    fi
  done
done

# The sizes of data are found or the run fails: it has not another network.
awk 'BEGIN { for (i = 0; i < 24; ++i) {
  for (k = 0; k < 16; ++k) printf "%d,", (i * k) % 7
  print substr("xyz", i % 3 + 1, 1) } }' >sizes.csv
n=1
while [ $n -lt 6000 ]; do
  rm -rf run
  LS_FAULT=alloc:$n "$lockstep" train --model tiny --data sizes.csv --test none \
    --steps 1 --quiet --run-dir run >out.txt 2>err.txt
  code=$?
  if [ $code = 0 ]; then
    grep -q '"outputs":3' run/config.json ||
      fail "alloc:$n: data of 3 classes, but another number of outputs"
  elif [ $code != 1 ] || ! grep -q memory err.txt; then
    fail "alloc:$n: data of 3 classes: code $code"
  fi
  n=$((n * 3 / 2 + 1))
done

# ---- Room --------------------------------------------------------------------
# Files may not grow beyond some blocks of 512 bytes, as on a disk that fills.
# The run that is there stays as it was.
for blocks in 0 1 2 4 6; do
  rm -rf run
  cp -r base run
  (
    ulimit -f $blocks
    "$lockstep" train --resume run --steps 9 --quiet 2>&1 >/dev/null
  ) | cat >err.txt
  : >out.txt
  if [ -s err.txt ]; then
    [ "$(lines)" = 1 ] && grep -q "'run/.*': File too large" err.txt ||
      fail "$blocks blocks: not one line about a file"
    grep -q "the run in 'run' is saved up to step [39], its newest checkpoint; .*'lockstep train --resume' continues" \
      err.txt || fail "$blocks blocks: no word of how to go on"
  fi
  [ -z "$(find run -name '*.tmp')" ] || fail "$blocks blocks: half a file"
  "$lockstep" eval run >out.txt 2>err.txt ||
    fail "$blocks blocks: the model is damaged"
  "$lockstep" train --resume run --steps 9 --quiet >out.txt 2>err.txt ||
    fail "$blocks blocks: the run cannot go on"
done
# So does an estimator, which saves while it is in a session.
for way in "" "--tpu virtual:1x1"; do
  rm -rf run
  # shellcheck disable=SC2086
  "$lockstep" train --estimator --model tiny --data synthetic --steps 3 $way \
    --quiet --run-dir run >out.txt 2>err.txt ||
    fail "an estimator's run"
  : >out.txt
  (
    ulimit -f 4
    "$lockstep" train --resume run --steps 9 --quiet 2>&1 >/dev/null
  ) | cat >err.txt
  [ "$(lines)" = 1 ] && grep -q "a checkpoint cannot be saved: .*the run in 'run' is saved up to step 3" \
    err.txt || fail "an estimator's full disk: no word of how to go on"
done
rm -rf run
(
  ulimit -f 0
  # shellcheck disable=SC2086
  "$lockstep" $train --run-dir run 2>&1 >/dev/null
) | cat >err.txt
grep -q "cannot write 'run/config.json': File too large" err.txt ||
  fail "a full disk is not named"
[ ! -e run ] || fail "a run that could not begin left a folder"

# ---- Streams -----------------------------------------------------------------
# Files of a run do not take the place of standard streams that are closed.
rm -rf run
: >out.txt
"$lockstep" train --model tiny --data synthetic --epochs 1000000 \
  --run-dir run <&- >&- 2>&- &
process=$!
waits_for test -s run/metrics.jsonl
for stream in 0 1 2; do
  ls -l /proc/$process/fd/$stream >err.txt 2>&1
  grep -q '/dev/null$' err.txt || fail "stream $stream is a file of the run"
done
kill -s TERM $process
wait $process
code=$?
[ $code = 143 ] || fail "without streams: code $code"
"$lockstep" help >&- 2>err.txt && fail "help without a stream succeeds"
grep -q 'cannot write to standard output' err.txt ||
  fail "help without a stream: not said"

# ---- A folder ----------------------------------------------------------------
# A folder that is a file.
: >file
# shellcheck disable=SC2086
"$lockstep" $train --run-dir file/run >out.txt 2>err.txt
[ $? = 1 ] && grep -q "cannot make folder 'file/run': Not a directory" err.txt ||
  fail "a folder in a file is not named"

exit $failed
