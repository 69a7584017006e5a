#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# tools/lint finds each kind of offence when it is planted in a clean tree.

set -eu
lint=${LS_SOURCE_DIR:?}/tools/lint
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
failed=0
options=

spdx='// SPDX-License-Identifier: Apache-2.0'

# put PATH LINE...: writes a file that starts with the SPDX line.
put() {
  path=$root/$1
  shift
  mkdir -p "$(dirname "$path")"
  printf '%s\n' "$spdx" "$@" >"$path"
}

clean_tree() {
  rm -rf "${root:?}"/*
  put include/lockstep/status.h '// Threads: any.' '#include <stddef.h>'
  put include/lockstep/graph.h '// Layer: graph' '// Threads: any.' \
    '#include "lockstep/status.h"'
  put include/lockstep/lockstep.h '// Threads: any.' '#include "lockstep/graph.h"'
  put src/base/memory/arena.h '#include "lockstep/status.h"'
  put src/base/memory/allocator.c '#include <stdlib.h>' 'int *p = malloc(4);'
  put src/base/debug.c 'char *p = getenv("X");'
  put src/graph/op.h '#include "base/memory/arena.h"' '#include "lockstep/graph.h"'
  put src/engine/cpu/onednn.c '#include <oneapi/dnnl/dnnl.h>'
  put src/cli/main.c '#include "cli/args.h"' '#include "lockstep/lockstep.h"'
  put src/train/loop.c '#include "graph/op.h"' '// free(x) is not a call' \
    'const char *s = "malloc(4) // \" free(";' 'ls_free(a); t->free(a);' \
    '/* getenv("A")' 'free(x) */ int y;'
  for layer in attic base cli distribute engine graph io net nn pjrt train; do
    mkdir -p "$root/src/$layer"
    echo "# $layer: one idea" >"$root/src/$layer/README.md"
  done
  put tests/base/arena_test.c '#include "graph/op.h"' 'void f() { free(0); }'
}

# passes NAME / finds NAME WANTED: runs the checker on the tree as it stands.
passes() {
  # shellcheck disable=SC2086
  if ! out=$("$lint" $options "$root" 2>&1); then
    printf 'FAIL %s: wanted no fault, got:\n%s\n' "$1" "$out"
    failed=1
  else
    echo "ok   $1"
  fi
}
finds() {
  # shellcheck disable=SC2086
  if out=$("$lint" $options "$root" 2>&1); then
    printf 'FAIL %s: the checker passed\n' "$1"
    failed=1
  elif ! printf '%s\n' "$out" | grep -qF -- "$2"; then
    printf 'FAIL %s: wanted "%s", got:\n%s\n' "$1" "$2" "$out"
    failed=1
  elif [ "$(printf '%s\n' "$out" | tail -n 1)" != "lint: 1 fault" ]; then
    printf 'FAIL %s: wanted one fault, got:\n%s\n' "$1" "$out"
    failed=1
  else
    echo "ok   $1"
  fi
}

clean_tree
passes "a clean tree passes"

put src/base/bad.c '#include "graph/op.h"'
finds "an upward include is found" \
  'src/base/bad.c:2: upward include: base includes "graph/op.h" of graph'

clean_tree
put src/io/bad.h '' '  #  include "lockstep/graph.h"  // Why not.'
finds "an upward include of a public header is found" \
  'src/io/bad.h:3: upward include: io includes "lockstep/graph.h" of graph'

clean_tree
put include/lockstep/bad.h '#include <stddef.h>'
finds "a header that does not speak of threads is found" \
  'include/lockstep/bad.h:1: no line says what threads may do'

clean_tree
put src/state/good.c 'int x;'
finds "a folder without a README is found" 'src/state: it has no README.md'

clean_tree
for i in $(seq 46); do put "src/base/memory/part$i.c" 'int x;'; done
finds "a folder with too many files is found" \
  'src/base/memory: it has more than 45 source files'

clean_tree
for i in $(seq 301); do echo "LS_API int ls_f$i(void);"; done \
  >>"$root/include/lockstep/status.h"
finds "too many functions for the first header are found" \
  'lockstep.h:1: it declares 301 functions'
put include/lockstep/lockstep.h '// Threads: any.'
passes "they are none of its own where it does not include them"

clean_tree
put include/lockstep/ops.def '// Layer: graph' 'OP(A)'
put src/base/bad.c '#include "lockstep/ops.def"'
finds "an upward include of a public table is found" 'of graph'

clean_tree
put src/nn/bad.c '#include "lockstep/lockstep.h"'
finds "the header of headers belongs to the top" 'of cli'

clean_tree
put include/lockstep/bad.h '// Threads: any.' '#include "lockstep/graph.h"'
finds "a public header includes no higher one" 'base includes'

clean_tree
put include/lockstep/bad.h '// Threads: any.' '#include "base/memory/arena.h"'
finds "a public header includes no private one" 'private "base/memory/arena.h"'

clean_tree
put include/lockstep/bad.h '// Threads: any.' '// Layer: cellar'
finds "an unknown layer is found" 'unknown layer "cellar"'

clean_tree
put src/attic/bad.c 'int x;'
finds "a folder that is no layer is found" 'no layer is called "attic"'

clean_tree
put src/cli/bad.c '#include "base/memory/arena.h"'
finds "the program includes no private header" 'src/cli/bad.c:2: src/cli'

clean_tree
put src/graph/bad.c '#include "../base/memory/arena.h"'
finds "a way up by dots is found" 'not by ..'

for call in 'malloc(1)' 'calloc (1, 2)' 'realloc(p, 2)' 'free(p)' \
            'strdup("a")'; do
  clean_tree
  put src/graph/bad.c "  x = $call;"
  finds "a stray $call is found" 'memory comes from an ls_allocator'
done

clean_tree
put src/graph/bad.c 'char *p = getenv("HOME");'
finds "a stray getenv is found" 'the environment is read in src/base'
clean_tree
put src/graph/bad.c 'double d = strtod(text, NULL);'
finds "a number of the program's language is found" \
  'numbers are plain: base/plain.h'
clean_tree
put src/base/text.c 'vsnprintf(buffer, size, format, arguments);'
finds "a format of the program's language is found" \
  'numbers are plain: base/plain.h'

for call in 'pthread_create(&t, NULL, f, p)' 'pthread_join(t, NULL)'; do
  clean_tree
  put src/graph/bad.c "  x = $call;"
  finds "a stray $call is found" 'a thread is an ls_worker'
done
for call in 'pthread_cond_wait(&c, &m)' 'nanosleep(&a, &b)' 'sched_yield()'; do
  clean_tree
  put src/base/threads/bad.c "  $call;"
  finds "a stray $call is found" 'threads wait at the gate'
done
clean_tree
put src/base/threads/worker.c 'e = pthread_create(&t, NULL, f, p);'
put src/base/threads/threads.c 'e = pthread_cond_wait(&c, &m);'
passes "workers start and wait"

clean_tree
put src/engine/cpu/bad.c '#include <oneapi/dnnl/dnnl.h>'
finds "a stray dnnl.h is found" 'belongs in src/engine/cpu/onednn*'

clean_tree
put src/distribute/bad.c '#include <mpi.h>'
finds "a stray mpi.h is found" 'belongs in src/net'

clean_tree
put src/layers.c '#include "graph/op.h"' '#include "engine/backend.h"'
passes "what ties the layers together is of none"

clean_tree
put include/lockstep/bad.h '// Threads: any.' '' '// Whether it is.' 'int x;'
finds "a comment without a verb or noun is found" \
  'bad.h:4: a comment begins with "Whether": begin with a verb or a noun'
clean_tree
put src/net/bad.c 'int x;  // Of a communicator.'
finds "it is found at the end of a line" \
  'src/net/bad.c:2: a comment begins with "Of"'
clean_tree
put src/net/good.c '// Holds a rank.' '// Of one it is 0.' \
  'const char *s = "  // What";' 'int x;  // Returns what is there.'
put src/train/good.c '// What a run is.'
passes "later lines, strings, and layers that are not clean yet are no fault"

clean_tree
put src/graph/bad.c 'self->is.calls = 1;'
finds "a field called 'is' is found" \
  'src/graph/bad.c:2: a field or a variable is called "is"'
clean_tree
put src/graph/good.c '// is = 1' 'const char *s = "it is, so";' 'int is_ok = 1;'
passes "'is' in comments, texts and longer names is no fault"

clean_tree
for i in 1 2 3; do
  put src/graph/part$i.c 'static int fill(int x) {' 'static int fill(int x);'
done
finds "a bare verb in three files is found" \
  'src/graph/part3.c:2: static functions of three files are called "fill"'
put src/graph/part3.c 'static int fill_rows(int x) {' 'int y = fill(3);'
passes "it is no fault in two"

# A layer with rooms: the folder itself, and two below.
rooms() {
  clean_tree
  printf '%s\n' '# train: one idea' 'Rooms: . steps steps/kinds calls' \
    >"$root/src/train/README.md"
  put src/train/steps/step.h '#include "train/names.h"'
  put src/train/steps/kinds/kind.h '#include "train/steps/step.h"'
  put src/train/calls/call.h '#include "train/steps/kinds/kind.h"' \
    '#include "beside.h"' '#include "graph/op.h"'
}
rooms
passes "includes of rooms below are no fault"

rooms
put src/train/steps/bad.c '#include "train/calls/call.h"'
finds "an upward include among rooms is found" \
  'src/train/steps/bad.c:2: upward include: train/steps includes "train/calls/call.h" of train/calls'
rooms
put src/train/bad.c '#include "train/steps/step.h"'
finds "an upward include from the folder of rooms is found" \
  'train/. includes "train/steps/step.h" of train/steps'
rooms
put src/train/steps/bad.c '#include "train/steps/kinds/kind.h"'
finds "an upward include of a room in a room is found" \
  'train/steps includes "train/steps/kinds/kind.h" of train/steps/kinds'
rooms
put src/train/steps/attic/good.c 'int x;'
passes "a folder without rooms of its own is of the one around it"
rooms
echo 'Rooms: steps calls' >>"$root/src/graph/README.md"
put src/graph/steps/good.c 'int x;'
finds "a file in no room is found" \
  'src/graph/op.h:1: it is in none of the rooms that src/graph/README.md names'

# Helpers of tests on two floors.
helpers() {
  clean_tree
  put tests/support/low.h '#include "support/beside.h"'
  put tests/support/beside.h 'int x;'
  put tests/support/high.c '#include "support/low.h"'
  printf '%s\n' '# tests/support: helpers' '## 1. Below' \
    '- `low`, `beside`: two' '## 2. Above' '- `high`: one' \
    >"$root/tests/support/README.md"
}
helpers
passes "includes of floors below are no fault"
helpers
put tests/support/low.h '#include "support/high.h"'
finds "an upward include among helpers is found" \
  'tests/support/low.h:2: upward include: "support/high.h" is on a floor above'
helpers
put tests/support/new.h 'int x;'
finds "a helper without a floor is found" \
  'tests/support/README.md has no floor for new'

# object PATH LINE...: a source and what it is compiled to.
object() {
  put "$@"
  object=$root/build/CMakeFiles/ls_$(echo "$1" | cut -d/ -f2).dir/$1.o
  mkdir -p "$(dirname "$object")"
  "${CC:-cc}" -c "$root/$1" -o "$object"
}
clean_objects() {
  clean_tree
  object src/base/low.c 'int ls_low(void); int ls_low(void) { return 1; }'
  object src/graph/high.c 'int ls_low(void);' \
    'int ls_high(void); int ls_high(void) { return ls_low(); }'
}
options="--symbols $root/build"

clean_objects
passes "symbols of layers below are no fault"

clean_objects
object src/base/up.c 'int ls_high(void);' \
  'int ls_up(void); int ls_up(void) { return ls_high(); }'
finds "an upward symbol is found" \
  'src/base/up.c:1: upward symbol: base needs ls_high of graph'
rm "$root/src/base/up.c"
passes "an object without a source is nobody's"

clean_objects
object src/base/data.c 'extern int ls_table[];' \
  'int *ls_where(void); int *ls_where(void) { return ls_table; }'
object src/engine/table.c 'int ls_table[2];'
finds "an upward table is found" 'base needs ls_table of engine'

clean_objects
object src/base/tied.c 'extern int ls_tie;' \
  'int *ls_where(void); int *ls_where(void) { return &ls_tie; }'
put src/layers.c 'int ls_tie;'
mkdir -p "$root/build/CMakeFiles/ls_layers.dir/src"
"${CC:-cc}" -c "$root/src/layers.c" \
  -o "$root/build/CMakeFiles/ls_layers.dir/src/layers.c.o"
passes "what lower layers ask of the tie is no fault"

clean_objects
printf '%s\n' '# train: one idea' 'Rooms: steps calls' >"$root/src/train/README.md"
rm "$root/src/train/loop.c"
object src/train/calls/call.c 'int ls_low(void); int ls_call(void);' \
  'int ls_call(void) { return ls_low(); }'
passes "symbols of rooms and layers below are no fault"
object src/train/steps/step.c 'int ls_call(void);' \
  'int ls_step(void); int ls_step(void) { return ls_call(); }'
finds "an upward symbol among rooms is found" \
  'src/train/steps/step.c:1: upward symbol: train/steps needs ls_call of train/calls'

options=
clean_tree
echo 'int x;' >"$root/src/base/bad.c"
finds "a missing SPDX line is found" 'src/base/bad.c:1: the first line'

clean_tree
if command -v git >/dev/null; then
  git -C "$root" init -q
  put whole/checkpoint 'A run left it.'
  git -C "$root" add whole
  finds "a file in no folder of the tree is found" \
    'whole/checkpoint: in no folder of the tree'
  rm -rf "$root/.git"
fi

exit $failed
