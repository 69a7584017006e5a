#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Symbol versions: a program that was linked with the library of one release
# runs with that of a later one of the same minor release, which has one more
# function. Both are built here, of the objects of the build. The loader refuses
# a program that calls the new function and finds the old library, a
# liblockstep-io of another release, and a program of another minor release.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${LS_BUILD_DIR:?}
source=${LS_SOURCE_DIR:?}
CC=${CC:-cc}
cd "$work"

private=$(sed -n 's/^LOCKSTEP_PRIVATE_\([0-9.]*\) {$/\1/p' "$build/lockstep.map")
minor=$(sed -n 's/^LOCKSTEP_\([0-9.]*\) {$/\1/p' "$build/lockstep.map")
[ "$minor.${private##*.}" = "$private" ] ||
  { echo "FAIL: lockstep.map is of $minor and of $private"; exit 1; }
next=$minor.$((${private##*.} + 1))

# make_library FOLDER SED_SCRIPT [SOURCE]: liblockstep under a changed map.
libraries=$(readelf -d "$build/liblockstep.so" |
  sed -n 's/.*(NEEDED).*\[\(lib[mz]\.so\.[0-9]*\)\]/-l:\1/p')
make_library() {
  mkdir "$1"
  sed "$2" "$build/lockstep.map" >"$1/map"
  # shellcheck disable=SC2086
  "$CC" -shared -fPIC -Wl,-soname,liblockstep.so.0 -Wl,--strip-debug \
    -Wl,-Bsymbolic-functions -Wl,--version-script="$1/map" ${3:-} \
    -Wl,--whole-archive "$build/liblockstep.a" -Wl,--no-whole-archive \
    $libraries -ldl -lpthread -o "$1/liblockstep.so.0"
  ln -s liblockstep.so.0 "$1/liblockstep.so"
}
echo 'int ls_added(void); int ls_added(void) { return 7; }' >added.c
make_library old ''
make_library new "s/PRIVATE_$private/PRIVATE_$next/" added.c
make_library other "s/^LOCKSTEP_$minor {/LOCKSTEP_$minor.other {/"

# link PROGRAM SOURCE FOLDER
link() {
  "$CC" -std=c11 -I"$source/include" -I"$build/include" "$2" -L"$3" -llockstep \
    -lm -Wl,-z,now -o "$1"
}

# expect FOLDER PROGRAM PATTERN: it runs with the library of the folder, or is
# refused with such a text.
expect() {
  code=0
  LD_LIBRARY_PATH="$work/$1" "$2" >says 2>&1 || code=$?
  if [ -z "$3" ] && [ $code = 0 ]; then return; fi
  if [ -n "$3" ] && [ $code != 0 ] && grep -qE "$3" says; then return; fi
  echo "FAIL: $2 with the $1 library ends with $code, wanted '$3':"
  cat says
  exit 1
}

link ./program "$source/examples/short/function.c" old
expect old ./program ''
expect new ./program ''
expect other ./program "version .LOCKSTEP_$minor. not found"

echo 'int ls_added(void); int main(void) { return ls_added() != 7; }' >uses.c
link ./uses uses.c new
expect new ./uses ''
expect old ./uses "undefined symbol: ls_added, version LOCKSTEP_$minor"

cat >reads.c <<'END'
#include <lockstep/image.h>
int main(void) {
  ls_shape shape;
  ls_status status = ls_image_shape("no image", 8, NULL, &shape);
  const int code = (int)ls_status_code(status);
  ls_status_free(status);
  return code != LS_INVALID_ARGUMENT;
}
END
"$CC" -I"$source/include" -I"$build/include" reads.c -Lold -llockstep \
  -L"$build" -llockstep-io -o reads
for folder in old new; do
  ln -s "$build/liblockstep-io.so.0" $folder
done
expect old ./reads ''
expect new ./reads "version .LOCKSTEP_PRIVATE_$private. not found"
