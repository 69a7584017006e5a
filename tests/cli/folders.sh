#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Many runs at once keep out of each other's folders, and what is no file is not
# read as one.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs run pipe data

# Six runs that are given no folder, begun at once.
tiny="--model tiny --data synthetic --quiet"
for number in 1 2 3 4 5 6; do
  # shellcheck disable=SC2086
  "$lockstep" train $tiny --steps 30 --seed $number >"out$number.txt" \
    2>"err$number.txt" &
done
wait
: >out.txt
: >err.txt
for number in 1 2 3 4 5 6; do
  [ -s "out$number.txt" ] || fail "a run fails: $(cat "err$number.txt")"
  run=runs/tiny-$number
  for file in config.json model.safetensors checkpoint; do
    [ -s "$run/$file" ] || fail "no $run/$file"
  done
  [ "$(wc -l <"$run/metrics.jsonl")" = 2 ] || fail "$run has lines of others"
done
[ "$(cat runs/*/config.json | grep -o '"seed":[0-9]*' | sort -u | wc -l)" = 6 ] ||
  fail "two runs were in one folder"
[ "$(ls runs | wc -l)" = 6 ] || fail "not six folders"

# A run has its folder to itself, whatever the other one wants, until its end,
# however that comes.
# shellcheck disable=SC2086
"$lockstep" train $tiny --schedule constant --epochs 1000000 --save-every 1 \
  --run-dir run >out.txt 2>err.txt &
process=$!
waits_for test -s run/checkpoint
for arguments in "--resume run" "--resume run --steps 5" \
                 "--run-dir run --overwrite $tiny"; do
  # shellcheck disable=SC2086
  ends 1 "'run/lock' is locked by process $process on $(uname -n)" \
    train $arguments
done
ends 1 "the run folder 'run' already holds a run" \
  train --model tiny --data synthetic --run-dir run
"$lockstep" eval run >out.txt 2>err.txt || fail "eval beside a run fails"
kill -s KILL $process
wait $process
# The list may be of the one before.
step=$(ls run | sed -n 's/^model.ckpt-\([0-9]*\).json$/\1/p' | sort -n | tail -n 1)
"$lockstep" train --resume run --steps $((step + 10)) --quiet >out.txt \
  2>err.txt || fail "a run whose process was killed cannot go on"
[ ! -e run/lock ] || fail "a lock is left"

# A fifo would be waited for, where no signal ends it.
mkfifo pipe
mkdir data
mkfifo data/train-labels-idx1-ubyte
if command -v timeout >pipe.txt; then
  lockstep_itself=$lockstep
  limited() { timeout 20 "$lockstep_itself" "$@"; }
  lockstep=limited
fi
ends 1 "cannot read 'pipe': it is a fifo, not a regular file" \
  train --model gpt --data pipe
ends 1 "cannot read 'data/train-labels-idx1-ubyte': it is a fifo" \
  train --model mlp --data data
ends 1 "cannot read '/dev/null': it is a device" \
  train --model gpt --data /dev/null
ls runs | grep -v '^tiny-[1-6]$' && fail "a run that did not begin left a folder"

exit $failed
