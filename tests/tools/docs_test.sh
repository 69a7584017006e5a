#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# The pages as a whole: each code block runs (docs/page.sh runs those of a page, in
# a test of its own); commands parse, flags and names exist. Links lead somewhere, each page is at most two links from docs/README.md,
# and so is the answer to each common question.

set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
source=${LS_SOURCE_DIR:?} build=${LS_BUILD_DIR:?} lockstep=${LOCKSTEP:?}
here=$source/tests/tools/docs
failed=0

# none WHAT FILE: fails if the file has lines, which are faults.
none() {
  [ ! -s "$2" ] || { echo "FAIL $1:"; head -n 30 "$2"; failed=1; }
}

cd "$source"
pages="README.md examples/README.md $(echo docs/*.md)"
# shellcheck disable=SC2086
for page in $(printf "%s\n" *.md $pages | sort -u); do
  rm -rf "$work/blocks"
  mkdir "$work/blocks"
  awk -v out="$work/blocks" -f "$here/blocks.awk" "$page" >>"$work/faults"
  for kind in commands blocks; do
    [ ! -e "$work/blocks/$kind" ] || cat "$work/blocks/$kind" >>"$work/all.$kind"
  done
done
none "blocks" "$work/faults"
awk -F '\t' '
{ ++count[$3] }
END {
  printf "all pages: %d blocks run, %d outputs compared, %d shown\n",
    count["run"], count["compared"], count["shown"]
}' "$work/all.blocks"

# ---- The marks ---------------------------------------------------------------
unset LS_ALL_BLOCKS  # These pages have conditions of their own.
# page TEXT: runs a page of this text.
page() {
  printf "$1" >"$work/page.md"
  sh "$here/page.sh" "$work/page.md" >"$work/says" 2>&1
}
# refused TEXT WHY: a page that must fail, and say why.
refused() {
  ! page "$1" && grep -q "$2" "$work/says" ||
    { echo "FAIL not refused as '$2': $1"; cat "$work/says"; failed=1; }
}
page '```sh run\necho 1 2\n```\n\n```text like\n3 4\n```\n' &&
  grep -q ' 1 blocks run, 1 outputs compared' "$work/says" ||
  { cat "$work/says"; failed=1; }
page '```sh run if: no_such_program\nfalse\n```\n' &&
  grep -q 'there is no no_such_program' "$work/says" ||
  { cat "$work/says"; failed=1; }
export LS_ALL_BLOCKS=1
refused '```sh run if: no_such_program\nfalse\n```\n' 'FAIL .*skipped'
unset LS_ALL_BLOCKS
refused '```sh\ntrue\n```\n' 'does not say "run"'
refused '```sh needs: a GPU\ntrue\n```\n' 'does not say "run"'
refused '```ruby\nputs\n```\n' 'which nothing runs'
refused '```sh run\nfalse\ntrue\n```\n' 'FAIL .*:1'
refused '```sh run fails\ntrue\n```\n' 'succeeds'
refused '```sh run\necho 1\n```\n\n```\n2\n```\n' 'wanted: 2'
refused '```c\nint x = y;\n```\n' 'page.md:2'
refused '```c\nreturn ls_out_of_memory();\n```\n' 'line 1: '

# ---- Commands ----------------------------------------------------------------
"$source/tools/docs/commands" "$lockstep" >"$work/flags"
# shellcheck disable=SC2086  # Words are wanted.
sed -n 's/`\(lockstep [^`]*\)`/\n\1\n/gp' $pages | grep '^lockstep ' |
  cat - "$work/all.commands" |
  awk '
NR == FNR {
  if (/^U /) command = $3 ~ /^[a-z]/ ? $2 " " $3 : $2
  if (/^F /) { split(substr($0, 3), flag, "\t"); known[command, flag[1]] = 1 }
  if (/^U /) is_command[command] = 1
  next
}
# The words after each "lockstep", up to what ends a command.
{
  sub(/ # .*/, "")
  command = ""
  for (i = 1; i <= NF; ++i) {
    word = $i
    if (word ~ /(^|\/)lockstep$/) {
      command = $(i + 1)
      if ((command " " $(i + 2)) in is_command) command = command " " $(i + 2)
    } else if (word ~ /^[|&;]/ || word == "--") {
      command = ""
    } else if (command in is_command && word ~ /^--[a-z]/) {
      sub(/^--/, "", word)
      sub(/[^a-z-].*/, "", word)
      if (word != "help" && !((command, word) in known))
        print "lockstep " command " has no --" word ": " $0
    }
  }
}' "$work/flags" - >"$work/faults"
none "flags that do not exist" "$work/faults"

# Blocks that are skipped are at least commands.
sh -n "$work/all.commands" || failed=1

# ---- Names -------------------------------------------------------------------
sed -n 's/^E //p' "$build/share/lockstep/reference.txt" | tr ' ' '\n' >"$work/names"
{
  cat "$work/names"
  grep -ohE '"LS_[A-Z_]+"' -r src bench tests/cli tests/support tests/tools | tr -d '"'
} | sort -u >"$work/known"
# shellcheck disable=SC2086
cat $pages | grep -oE '\b(ls|LS)_[A-Za-z0-9_]+(\.\.\.|\*|[A-Z]*)' |
  grep -v '[._*]$' | sort -u >"$work/used"
comm -23 "$work/used" "$work/known" >"$work/faults"
none "names that do not exist" "$work/faults"

# Tests that docs/promises.md names.
sed -n 's/^|.*| \(.*\) |$/\1/p' docs/promises.md | grep -o '`[a-z]*/[a-z_0-9]*' |
  tr -d '`*' | while read -r name; do
  # shellcheck disable=SC2144
  ls tests/"$name"* >/dev/null 2>&1 || [ -e "$name" ] || echo "$name"
done >"$work/faults"
none "tests that do not exist" "$work/faults"

# Each example has its line in the gallery.
for example in examples/*.c examples/*.cpp examples/short/*.c examples/mpi/*.c; do
  grep -qF "\`${example#examples/}\`" examples/README.md ||
    grep -qF "(${example#examples/})" examples/README.md || echo "$example"
done >"$work/faults"
none "examples that examples/README.md leaves out" "$work/faults"

# ---- Links -------------------------------------------------------------------
# Each link as "FROM TO", each heading as "# PAGE#ANCHOR", as GitHub makes them.
awk '
FNR == 1 { inside = 0 }
/^```/ { inside = !inside; next }
inside { next }
/^#+ / {
  heading = tolower($0)
  sub(/^#+ /, "", heading)
  gsub(/[^a-z0-9 _-]/, "", heading)
  gsub(/ /, "-", heading)
  print "# " FILENAME "#" heading
}
{
  text = $0
  while (match(text, /\]\([^)]*\)/)) {
    link = substr(text, RSTART + 2, RLENGTH - 3)
    text = substr(text, RSTART + RLENGTH)
    if (link ~ /^https?:/) continue
    folder = FILENAME
    if (!sub(/\/[^\/]*$/, "/", folder)) folder = ""
    to = link ~ /^#/ ? FILENAME link : folder link
    while (to ~ /[^\/]+\/\.\.\//) sub(/[^\/]+\/\.\.\//, "", to)
    print FILENAME, to
  }
}' README.md HACKING.md examples/README.md docs/*.md >"$work/links"
sed -n 's/^# //p' "$work/links" | sort -u >"$work/anchors"
grep -v '^# ' "$work/links" | while read -r from to; do
  case $to in
    *#*) grep -qxF -- "$to" "$work/anchors" || echo "$from: $to" ;;
    *) [ -e "$to" ] || echo "$from: $to" ;;
  esac
done >"$work/faults"
none "broken links" "$work/faults"

grep -q '^README.md docs/README.md$' "$work/links" ||
  { echo "FAIL README.md does not lead to docs/README.md"; failed=1; }
awk '$1 != "#" { sub(/#.*/, "", $2); print $1, $2 }' "$work/links" | sort -u |
  awk '
{ from[NR] = $1; to[NR] = $2 }
END {
  far["docs/README.md"] = 0
  for (clicks = 0; clicks < 2; ++clicks)
    for (i = 1; i <= NR; ++i)
      if (from[i] in far && far[from[i]] == clicks && !(to[i] in far))
        far[to[i]] = clicks + 1
  for (page in far) print page
}' | sort >"$work/near"
for page in docs/*.md; do echo "$page"; done | sort | comm -23 - "$work/near" \
  >"$work/faults"
none "pages more than two links away" "$work/faults"

# Each question has a link in its line.
while read -r question; do
  grep -iE "^- .*$question.*\]\([a-z]" docs/README.md >/dev/null ||
    echo "$question"
done >"$work/faults" <<'END'
learning rate
stop(s|ped|ping)? .*early
two machines
on a GPU
PyTorch
serve
thread-safe
how much memory
NaN
layer of my own
op of my own
optimizer of my own
END
none "questions without an answer in docs/README.md" "$work/faults"
exit $failed
