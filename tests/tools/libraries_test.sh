#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# liblockstep and programs of it alone need no library of images; the private
# functions that liblockstep exports are those that liblockstep-io calls, no
# more and no less; and no library takes a function that rounds from libm, whose
# last bits differ from release to release.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
build=${LS_BUILD_DIR:?}
failed=0

fail() {
  echo "FAIL: $*"
  failed=1
}

# needed FILE: the libraries that it is linked with.
needed() {
  readelf -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'
}

# expect_without FILE PATTERN
expect_without() {
  found=$(needed "$1" | grep -E "$2" || true)
  [ -z "$found" ] || fail "$1 is linked with" $found
}

images='^lib(png|turbojpeg|jpeg)'
expect_without "$build/liblockstep.so" "$images|^liblockstep"
needed "$build/liblockstep-io.so" | grep -q '^liblockstep\.so' ||
  fail "liblockstep-io.so is not linked with liblockstep"
for program in "$build"/examples/eager "$build"/examples/unet; do
  [ -e "$program" ] || continue
  expect_without "$program" "$images|^liblockstep-io"
  # What it loads in the end, too.
  if ldd "$program" | grep -E 'lib(png|turbojpeg|jpeg|lockstep-io)'; then
    fail "$program loads libraries that it does not use"
  fi
done

# "ADDRESS TYPE NAME@@VERSION" of a private function.
nm -D --defined-only "$build/liblockstep.so" >"$work/exported"
sed -n 's/.* \(ls_[a-z0-9_]*\)@*LOCKSTEP_PRIVATE.*/\1/p' "$work/exported" |
  LC_ALL=C sort -u >"$work/private"
nm -D --undefined-only "$build/liblockstep-io.so" |
  sed -n 's/.* \(ls_[a-z0-9_]*\)@*LOCKSTEP_PRIVATE.*/\1/p' |
  LC_ALL=C sort -u >"$work/called"
[ -s "$work/private" ] || fail "no private function is exported"
cmp -s "$work/private" "$work/called" ||
  fail "cmake/symbols.map.in and what liblockstep-io calls differ:" \
    "$(diff "$work/private" "$work/called" | grep '^[<>]')"

# All others are public, under the version of the minor release.
minor=$(sed -n 's/^#define LS_VERSION_MAJOR //p' \
  "${LS_SOURCE_DIR:?}/include/lockstep/version.h").$(
  sed -n 's/^#define LS_VERSION_MINOR //p' \
    "$LS_SOURCE_DIR/include/lockstep/version.h")
nm -D --defined-only "$build/liblockstep-io.so" |
  cat "$work/exported" - | grep ' [TDBRVW] ls_' | grep -v @LOCKSTEP_PRIVATE |
  grep -v "@@LOCKSTEP_$minor\$" >"$work/unversioned" || true
[ ! -s "$work/unversioned" ] ||
  fail "not of version LOCKSTEP_$minor:" "$(head "$work/unversioned")"
cat "${LS_SOURCE_DIR:?}"/include/lockstep/*.h "$build"/include/lockstep/*.h |
  grep -oE '\bls_[a-z0-9_]+' | LC_ALL=C sort -u >"$work/public"
sed -n 's/.* [TDBRVW] \(ls_[a-z0-9_]*\)@@LOCKSTEP_[0-9.]*$/\1/p' "$work/exported" |
  LC_ALL=C sort -u >"$work/open"
LC_ALL=C comm -23 "$work/open" "$work/public" >"$work/undeclared"
[ ! -s "$work/undeclared" ] ||
  fail "exported, and neither public nor in cmake/symbols.map.in:" \
    "$(cat "$work/undeclared")"

# Functions of libm that are exact, or rounded once, are the same everywhere.
exact='fma fmax fmin fmod nextafter floor ceil trunc rint nearbyint round sqrt
       fabs copysign ldexp scalbn frexp lrint'
for name in $exact; do
  echo "$name"
  echo "${name}f"
done | LC_ALL=C sort >"$work/exact"
libm=$(ldd "$build/liblockstep.so" | awk '/libm\.so/ { print $3 }')
if [ -n "$libm" ]; then
  nm -D --defined-only "$libm" | sed 's/.* \([a-z0-9_]*\)@.*/\1/' |
    LC_ALL=C sort -u >"$work/libm"
  for library in liblockstep.so liblockstep-io.so; do
    rounding=$(nm -D --undefined-only "$build/$library" |
      sed 's/.* \([a-z0-9_]*\)@.*/\1/' | LC_ALL=C sort -u |
      LC_ALL=C comm -12 - "$work/libm" | LC_ALL=C comm -23 - "$work/exact")
    [ -z "$rounding" ] || fail "$library takes from libm:" $rounding
  done
fi
exit $failed
