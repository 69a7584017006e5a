#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What README.md shows in C is a program that compiles without a warning, runs,
# and lowers its loss.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
CC=${CC:-cc}
build=${LS_BUILD_DIR:?}

# Each C block, into a file of its own.
awk -v work="$work" '
/^```c$/ { file = work "/" ++count ".c"; next }
/^```/ { file = "" }
file != "" { print > file }
' "${LS_SOURCE_DIR:?}/README.md"
[ -e "$work/1.c" ] || { echo "README.md has no program in C"; exit 1; }

for block in "$work"/*.c; do
  program=${block%.c}
  "$CC" -std=c11 -O1 -Wall -Wextra -Werror -o "$program" "$block" \
    -I"$LS_SOURCE_DIR/include" -I"$build/include" \
    -L"$build" -llockstep -Wl,-rpath,"$build"
  "$program" >"$program.out" || { cat "$program.out"; exit 1; }
  awk '/^loss / { if (!n++) first = $2; last = $2 }
       END { exit !(n > 1 && last < first / 2) }' "$program.out" ||
    { echo "the loss stays:"; cat "$program.out"; exit 1; }
done
