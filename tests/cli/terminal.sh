#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Progress on a terminal: a line that is rewritten and fits, where the terminal
# can do that. Needs script, from util-linux.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
command -v script >out.txt || exit 0
rm -rf run
: >err.txt

# on_terminal KIND COLUMNS: a run there; all that it shows is in out.txt.
on_terminal() {
  TERM=$1 script -qec "stty cols $2; '$lockstep' train --model tiny --data \
    synthetic --epochs 2 --run-dir run --overwrite" typescript </dev/null \
    >out.txt 2>err.txt || fail "a run on a terminal fails"
}
escape=$(printf '\033')

on_terminal xterm 50
grep -q "$escape" out.txt || fail "no line is rewritten"
# Pieces end where the cursor goes back to the line's start.
tr '\r' '\n' <out.txt | grep '^epoch ' | sed "s/$escape.*//" >lines.txt
[ -s lines.txt ] || fail "no progress"
# The last one of an epoch stays, and is whole.
last='test acc [0-9.]*%$'
grep '.\{50\}' lines.txt | grep -v "$last" &&
  fail "a line is wider than the terminal"
[ "$(grep -c "$last" lines.txt)" = 2 ] || fail "no test accuracy"
on_terminal dumb 200
grep -q "$escape" out.txt && fail "a dumb terminal gets escapes"
grep -q '^epoch 2/2 ' out.txt || fail "no progress on a dumb terminal"

exit $failed
