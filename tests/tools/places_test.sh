#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# cmake/places.cmake makes a macro of every marked declaration, which compiles
# and records the caller's line, and refuses a mark that it cannot read.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/in"

places() {
  cmake "-DHEADER_DIR=$work/in" "-DOUT=$work/places.h" \
    "-DOUT_FULL=$work/places_full.h" -P "${LS_SOURCE_DIR:?}/cmake/places.cmake"
}

echo '#include "lockstep/ops.h"' >"$work/in/lockstep.h"
echo 'LS_PLACED ls_tensor ls_rare(void);' >"$work/in/rare.h"
cat >"$work/in/ops.h" <<'END'
#define LS_PLACED
#define LS_MUST_USE
typedef struct ls_tensor { int value, line; } ls_tensor;
typedef struct ls_nest { int line; } ls_nest;
typedef const char *ls_status;
// LS_PLACED ls_tensor ls_in_a_comment(int x);
/* LS_PLACED ls_tensor ls_in_a_block(int x); */
LS_PLACED ls_tensor ls_one(void);
LS_PLACED ls_tensor ls_sum(ls_tensor x,
                           ls_tensor y); LS_PLACED ls_nest ls_pack(int n[2]);
LS_PLACED LS_MUST_USE ls_status
ls_check(ls_tensor x);
ls_tensor ls_plain(int x);
ls_tensor ls_at_tensor(ls_tensor x, const char *file, int line);
ls_status ls_at_status(ls_status s, const char *file, int line);
END
places

macros=$(sed -n 's/^#define \(ls_[a-z_]*\)(.*/\1/p' "$work/places.h" | xargs)
want='ls_one ls_sum ls_pack ls_check'
[ "$macros" = "$want" ] || { echo "wanted $want, got $macros"; exit 1; }
grep -q 'ls_at_nest(ls_pack(' "$work/places.h"
grep -q '^#define ls_rare(' "$work/places_full.h"

cat >"$work/use.c" <<'END'
#include "in/ops.h"
ls_tensor ls_one(void) { return (ls_tensor){1, 0}; }
ls_tensor ls_sum(ls_tensor x, ls_tensor y) {
  return (ls_tensor){x.value + y.value, 0};
}
ls_status ls_check(ls_tensor x) { return x.value == 2 ? "two" : 0; }
ls_tensor ls_at_tensor(ls_tensor x, const char *file, int line) {
  return (ls_tensor){x.value, file ? line : 0};
}
ls_status ls_at_status(ls_status s, const char *file, int line) {
  return line > 0 ? s : file;
}
#include "places.h"
int main(void) {
#line 1000
  const ls_tensor two = ls_sum(ls_one(), ls_one());
  return two.value == 2 && two.line == 1000 && ls_check(two)[0] == 't' ? 0 : 1;
}
END
"${CC:-cc}" -std=gnu11 -Wall -Werror -I"$work" -o "$work/use" "$work/use.c"
"$work/use"

echo 'LS_PLACED int ls_count(void);' >"$work/in/bad.h"
if out=$(places 2>&1); then echo "an unreadable mark passed"; exit 1; fi
case $out in
  *"cannot place"*) ;;
  *) echo "wanted 'cannot place', got: $out"; exit 1 ;;
esac
