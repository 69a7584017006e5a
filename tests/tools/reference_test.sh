#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every public name has its place in the reference, once: a symbol of the
# libraries, and a type or macro of the headers. Links lead somewhere, pages of
# the manual are well-formed, and nothing needs a network.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=${LS_SOURCE_DIR:?}
table=${LS_BUILD_DIR:?}/share/lockstep/reference.txt
failed=0

# none WHAT FILE: fails if the file has lines, which are faults.
none() {
  [ ! -s "$2" ] || { echo "FAIL $1:"; head -n 20 "$2"; failed=1; }
}

"$source/tools/reference" "$table" "$work/share"
pages=$work/share/doc/lockstep/reference
manual=$work/share/man/man3

sed -n 's/^E //p' "$table" | tr ' ' '\n' | sort >"$work/names"
uniq -d "$work/names" >"$work/twice"
none "described twice" "$work/twice"

# Names as the linker and the preprocessor know them; those that end in "_" are
# private, and so are symbols of a private version.
{
  for library in lockstep lockstep-io; do
    nm -D --defined-only "$LS_BUILD_DIR/lib$library.so" |
      awk '$2 != "A" && $3 !~ /PRIVATE/ { sub(/@.*/, "", $3); print $3 }'
  done
  sed -n 's/^#define \(ls_[a-z0-9_]*\|LS_[A-Z0-9_]*\).*/\1/p
          s/^} \(ls_[a-z0-9_]*\);.*/\1/p
          s/^typedef .* \**(*\**\(ls_[a-z0-9_]*\)[);].*/\1/p
          s/^  \(LS_[A-Z0-9_]*\)\( = [^,]*\)*,.*/\1/p' \
    "$source"/include/lockstep/*.h
} | grep -v '_$' | grep -vx 'LS_OP\|LS_OP_COUNT' | sort -u >"$work/public"
[ "$(wc -l <"$work/public")" -gt 1500 ] || { echo "FAIL few names"; failed=1; }
comm -23 "$work/public" "$work/names" >"$work/missing"
none "not in the reference" "$work/missing"

# Each name has a place in a page and in the search, and each link leads to one.
cd "$pages"
awk '{
  text = $0
  while (match(text, / (href|src|id)="[^"]*"/)) {
    link = substr(text, RSTART, RLENGTH - 1)
    text = substr(text, RSTART + RLENGTH)
    kind = link ~ /^ id/ ? "id" : "to"
    sub(/^[^"]*"/, "", link)
    print kind, (kind == "id" ? FILENAME "#" link : link)
  }
}' *.html | sort -u >"$work/links"
sed -n 's/^id .*#//p' "$work/links" | sort -u >"$work/places"
comm -23 "$work/names" "$work/places" >"$work/missing"
none "not in the pages" "$work/missing"
sed -n 's/^\["\([A-Za-z0-9_]*\)",.*/\1/p' names.js | sort >"$work/searched"
comm -23 "$work/names" "$work/searched" >"$work/missing"
none "not in the search" "$work/missing"
{ ls && sed -n 's/^id //p' "$work/links"; } | sort -u >"$work/targets"
sed -n 's/^to //p' "$work/links" | sort -u | comm -23 - "$work/targets" \
  >"$work/broken"
none "broken links" "$work/broken"
grep -l 'http' ./* >"$work/far" || true
none "pages that name the network" "$work/far"

# `man NAME` finds the page that explains it.
cd "$manual"
find . -name '[lL][sS]_*.3' | sed 's|^\./||; s|\.3$||' | sort >"$work/found"
comm -3 "$work/names" "$work/found" >"$work/missing"
none "no page of the manual" "$work/missing"
find -L . -type l >"$work/broken"
none "links to no page" "$work/broken"
grep -q '^Trains\. Each epoch' ls_train.3 ||
  { echo "FAIL ls_train.3 does not explain it"; failed=1; }
if command -v mandoc >/dev/null; then
  mandoc -Tlint lockstep_*.3 >"$work/lint" 2>&1 || true
  none "mandoc -Tlint" "$work/lint"
else
  echo "skipped: no mandoc"
fi
exit $failed
