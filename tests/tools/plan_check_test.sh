#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/plan-check: the plan of a run tells the memory that it takes. An emulator
# of another machine takes memory of its own.

set -eu
# The machine of a program: two bytes of its header.
machine_of() {
  od -An -tx1 -j18 -N2 "$1"
}
if ! command -v python3 >/dev/null ||
   [ "$(machine_of "${LOCKSTEP:?}")" != "$(machine_of "$(command -v sh)")" ]; then
  echo "skipped: no python3, or a build for another machine"
  exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
code=0
python3 -B "${LS_SOURCE_DIR:?}/tools/plan-check" --build "${LS_BUILD_DIR:?}" \
  --models mlp --batches 1024 --replicas 1,4 --limit 20 >"$work/out" 2>&1 ||
  code=$?
cat "$work/out"
grep -q "ptrace is not allowed here" "$work/out" && exit 0
[ "$(grep -c '^mlp ' "$work/out")" = 2 ] || exit 1
exit $code
