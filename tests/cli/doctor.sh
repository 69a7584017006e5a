#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep doctor: findings about this machine, whatever they are; code 1 only
# for a problem.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf here
mkdir here
cd here || exit 1
unset LS_PJRT_PLUGIN LS_ISA

# finds PATTERN: in the last output.
finds() {
  grep -qE -- "$1" out.txt || fail "lockstep doctor: wanted: $1"
}

"$lockstep" doctor >out.txt 2>err.txt || fail "a problem on this machine"
for subject in processor "cpu quota" frequency kernels memory "huge pages" \
               "open files" stack "locked memory" "address space" "file size" \
               disk MPI gpu tpu data training; do
  finds "^(ok|note) +$subject"
done
finds "training +model tiny made 8 steps on 2 replicas"
finds "note.*, 0 problems: training is possible here"
awk 'length($0) > 80' out.txt >long.txt
[ ! -s long.txt ] || fail "a line is wider than 80 columns"
rm -f out.txt err.txt long.txt
[ -z "$(ls -A)" ] || fail "it leaves files: $(ls -A)"

"$lockstep" doctor --json >out.txt 2>err.txt || fail "a problem in JSON"
[ "$(wc -l <out.txt)" = 1 ] || fail "JSON is one line"
finds '"problems":0,"notes":[0-9]+,"findings":\[\{"level":"ok","subject":"processor"'

# Notes, with advice.
LS_PJRT_PLUGIN=/nowhere.so "$lockstep" doctor >out.txt 2>err.txt || fail "a note ends it"
finds "^note +plug-in +LS_PJRT_PLUGIN cannot be loaded: /nowhere.so"
finds "unset the variable"
LS_PJRT_PLUGIN=${LS_BUILD_DIR:?}/liblockstep.so "$lockstep" doctor >out.txt \
  2>err.txt || fail "a note ends it"
finds "GetPjrtApi"
# shellcheck disable=SC3045  # The shells of Linux have it.
(ulimit -n 100 && "$lockstep" doctor >out.txt 2>err.txt) || fail "a note ends it"
finds "^note +open files +at most 100"
if [ "$(uname -m)" = x86_64 ] && ! grep -q "kernels +base" out.txt; then
  LS_ISA=base "$lockstep" doctor >out.txt 2>err.txt || fail "a note ends it"
  finds "kernels +base"
fi

# A small disk is not filled.
mkdir small
if unshare -rm mount -t tmpfs -o size=9m none small 2>err.txt; then
  unshare -rm sh -c "mount -t tmpfs -o size=9m none small && cd small &&
    '$lockstep' doctor" >out.txt 2>err.txt || fail "a small disk is a problem"
  finds "^note +disk +0.00[0-9]+ GB free in the current folder; written and "
fi

# A problem: not even root writes files in /proc.
if [ -d /proc/self/task ]; then
  (cd /proc/self/task && "$lockstep" doctor) >out.txt 2>err.txt
  code=$?
  [ $code = 1 ] || fail "no problem in a folder that cannot be written"
  finds "^problem +disk +the current folder cannot be written"
  finds "1 problem: training is not possible here"
fi

exit $failed
