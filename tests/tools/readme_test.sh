#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What README.md shows in C is a program that compiles without a warning, runs,
# and lowers its loss; and which says so, without a sink for the log, where each
# replica does the work of all.

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

# build PROGRAM: from PROGRAM.c.
build() {
  "$CC" -std=c11 -O1 -Wall -Wextra -Werror -o "$1" "$1.c" \
    -I"$LS_SOURCE_DIR/include" -I"$build/include" \
    -L"$build" -llockstep -Wl,-rpath,"$build"
}

for block in "$work"/*.c; do
  program=${block%.c}
  build "$program"
  "$program" >"$program.out" 2>"$program.err" ||
    { cat "$program.out" "$program.err"; exit 1; }
  [ ! -s "$program.err" ] || { cat "$program.err"; exit 1; }
  awk '/^loss / { if (!n++) first = $2; last = $2 }
       END { exit !(n > 1 && last < first / 2) }' "$program.out" ||
    { echo "the loss stays:"; cat "$program.out"; exit 1; }
done

# Each replica is given the whole batch: a warning, once, unless it is silenced.
sed 's/ls_dataset_parts(data, 8)/data/' "$work/1.c" >"$work/whole.c"
cmp -s "$work/1.c" "$work/whole.c" && { echo "no ls_dataset_parts"; exit 1; }
build "$work/whole"
"$work/whole" >/dev/null 2>"$work/whole.err"
if [ "$(grep -c 'lockstep: warning: .*8 times the work' "$work/whole.err")" != 1 ] ||
   [ "$(wc -l <"$work/whole.err")" != 1 ]; then
  echo "no warning of work done eight times:"
  cat "$work/whole.err"
  exit 1
fi
LS_LOG=off "$work/whole" >/dev/null 2>"$work/whole.err"
[ ! -s "$work/whole.err" ] || { cat "$work/whole.err"; exit 1; }
