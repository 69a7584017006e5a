#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The program that docs/devices.md shows compiles without a warning and, where
# there is a plug-in, lowers its loss on a device.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${LS_BUILD_DIR:?}

awk '/^```c line.c$/ { inside = 1; next } /^```/ { inside = 0 } inside' \
  "${LS_SOURCE_DIR:?}/docs/devices.md" >"$work/program.c"
"${CC:-cc}" -std=c11 -O1 -Wall -Wextra -Werror -o "$work/program" \
  "$work/program.c" -I"$LS_SOURCE_DIR/include" -I"$build/include" \
  -L"$build" -llockstep -Wl,-rpath,"$build"

if [ -z "${LS_PJRT_PLUGIN:-}" ]; then
  echo "skipped: LS_PJRT_PLUGIN names no plug-in"
  exit 0
fi
"$work/program" >"$work/out" || { cat "$work/out"; exit 1; }
grep -qx "loss 0.00[0-9]*" "$work/out" || { cat "$work/out"; exit 1; }
