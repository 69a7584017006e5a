#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every public name has its place in the reference, once: a symbol of the
# libraries, and a type or macro of the headers. Links lead somewhere, pages of
# the manual are well-formed, and nothing needs a network. So has every flag of
# every command, in the manual and in the completions of three shells.

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

"$source/tools/reference" "$table" "$work/share" "${LOCKSTEP:?}"
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
  mandoc -Tlint lockstep_*.3 ../man1/*.1 >"$work/lint" 2>&1 || true
  none "mandoc -Tlint" "$work/lint"
else
  echo "skipped: no mandoc"
fi

# Flags as the tables of the command's sources have them, and those that each
# command says it has.
bash=$work/share/bash-completion/completions/lockstep
zsh=$work/share/zsh/site-functions/_lockstep
fish=$work/share/fish/vendor_completions.d/lockstep.fish
cd "$manual/../man1"
find "$source/src/cli" -name '*.[ch]' -exec cat {} + | tr -d '\n' |
  sed 's/{"[a-z]/\n&/g' |
  sed -n 's/^{"\([a-z-]*\)", *CLI_\(FLAG\|COUNT\|REAL\|TEXT\|MAYBE\),.*/\1/p' |
  sort -u >"$work/flags"
[ "$(wc -l <"$work/flags")" -gt 60 ] || { echo "FAIL few flags"; failed=1; }
while read -r flag; do
  escaped=$(echo "$flag" | sed 's/-/\\\\-/g')
  grep -q "^\.B \\\\-\\\\-$escaped\( \|\$\)" ./*.1 || echo "man: --$flag"
  grep -q "[' ]--$flag[' ]" "$bash" || echo "bash: --$flag"
  grep -q "'--${flag}[=[]" "$zsh" || echo "zsh: --$flag"
  grep -q " -l $flag " "$fish" || echo "fish: --$flag"
done <"$work/flags" >"$work/missing"
none "flags that are not found" "$work/missing"
"$LOCKSTEP" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' >"$work/commands"
while read -r command; do
  "$LOCKSTEP" "$command" --help | sed -n 's/^  --\([a-z-]*\).*/\1/p' |
    while read -r flag; do
      escaped=$(echo "$flag" | sed 's/-/\\\\-/g')
      grep -q "^\.B \\\\-\\\\-$escaped\( \|\$\)" "lockstep-$command.1" ||
        echo "lockstep-$command.1: --$flag"
    done
done <"$work/commands" >"$work/missing"
none "flags that are not found" "$work/missing"

# completes WANTED WORD...: bash, of the last word.
completes() {
  wanted=$1
  shift
  got=$(bash -c '. "$0"; COMP_WORDS=(lockstep "$@"); COMP_CWORD=$#; _lockstep
    echo "${COMPREPLY[*]}"' "$bash" "$@")
  [ "$got" = "$wanted" ] ||
    { echo "FAIL bash: lockstep $*: '$got', wanted '$wanted'"; failed=1; }
}
if command -v bash >/dev/null; then
  completes "train" tr
  completes "--replicas" train --rep
  completes "--param" train --par
  completes "tiny mlp cnn resnet20 unet gpt" train --model ""
  completes "cnn" bench c
  completes "verify" checkpoint v
  completes "--help --json" checkpoint verify --
  mkdir "$work/share/lockstep"
  cp "$table" "$work/share/lockstep"
  completes "ls_train_load" help ls_train_loa
else
  echo "skipped: no bash"
fi
if command -v zsh >/dev/null; then
  zsh -n "$zsh" || { echo "FAIL zsh"; failed=1; }
fi
if command -v fish >/dev/null; then
  fish -c 'source $argv[1]; complete -C "lockstep train --rep"' "$fish" |
    grep -q '^--replicas' || { echo "FAIL fish"; failed=1; }
fi
exit $failed
