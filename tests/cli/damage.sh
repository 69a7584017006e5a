#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A run folder with three checkpoints that something has damaged: bits flipped
# anywhere in it, files cut off, emptied, with tails of zeros, garbage beside
# them. The run goes on and ends with the same bytes; one line names the file,
# and the array, that the run could not go on with.
#
# LS_TEST_DAMAGES says how many bits are flipped (default 24), and a tenth as
# often each file is cut off; LS_TEST_SEED where.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf base run straight
flips=${LS_TEST_DAMAGES:-24}
cuts=$(((flips + 9) / 10))

# draw LIMIT: the next number below it
state=${LS_TEST_SEED:-1}
draw() {
  state=$(((state * 1103515245 + 12345) % 2147483648))
  drawn=$(((state / 256) % $1))
}

# As a run that was killed behind step 12 has left it.
saving="--save-every-steps 4 --keep 0 --quiet"
# shellcheck disable=SC2086
"$lockstep" train --model tiny --data synthetic --steps 16 --replicas 2 \
  --optimizer adam --seed 7 $saving --run-dir straight >out.txt 2>err.txt ||
  fail "a run fails"
cp -r straight base
rm base/model.ckpt-16.* base/model.safetensors
"$lockstep" train --resume base --quiet >out.txt 2>err.txt ||
  fail "a run that was killed does not go on"
cmp -s base/model.safetensors straight/model.safetensors ||
  fail "a run that was killed ends with another model"
rm base/model.ckpt-16.* base/model.safetensors
head -n 4 straight/checkpoint | sed 's/-16"/-12"/' >base/checkpoint

# begins: `run` is as `base`
begins() {
  rm -rf run
  cp -r base run
}

# flip FILE OFFSET BIT
flip() {
  byte=$(od -An -tu1 -j "$2" -N 1 "$1")
  # shellcheck disable=SC2059
  printf "\\$(printf %03o $((byte ^ (1 << $3))))" |
    dd of="$1" bs=1 seek="$2" conv=notrunc 2>/dev/null
}

# cut_off FILE SIZE [zeros]: the rest is gone, or zeros
cut_off() {
  whole=$(wc -c <"$1")
  head -c "$2" "$1" >cut
  if [ "${3:-}" = zeros ] && [ "$whole" -gt "$2" ]; then
    head -c "$((whole - $2))" /dev/zero >>cut
  fi
  cat cut >"$1"
}

# goes_on ARGUMENT...: the run, and what it says.
goes_on() {
  "$lockstep" train --resume run "$@" >out.txt 2>all.txt
  code=$?
  # What AddressSanitizer says about fibers, once, is none of ours.
  grep -v '^==[0-9]*==WARNING: ASan' all.txt >err.txt
  return $code
}

# ends_well WHAT FILE: it does, with the lines that it has to say.
ends_well() {
  what="$1 of $2"
  changed=1
  if [ -e "base/$2" ]; then cmp -s "base/$2" "run/$2" && changed=0; fi
  # shellcheck disable=SC2086
  goes_on $saving
  tried=$((tried + 1))
  [ $code = 0 ] || fail "$what: code $code"
  for values in model.safetensors model.ckpt-16.safetensors; do
    cmp -s run/$values straight/$values || fail "$what: another $values"
  done
  lines=$(wc -l <err.txt)
  case $changed$2 in
  1model.ckpt-12.*)
    [ "$lines" = 1 ] && grep -qE "'run/model.ckpt-12' is skipped for 'run/model.ckpt-8'.*'?run/$2.*(array|header|checksum|is cut off|:1: )" err.txt ||
      fail "$what: not one line that names it"
    ;;
  1config.json)
    # Its checksum may have lost its name, and all else be right.
    [ "$lines" = 0 ] || { [ "$lines" = 1 ] && grep -q "run/$2" err.txt; } ||
      fail "$what: not one line that names it"
    ;;
  *all)  # Among the garbage are values without a .json.
    [ "$lines" = 1 ] && grep -q "removing 'run/model.ckpt-14.safetensors'" err.txt ||
      fail "$what: not one line that names what goes"
    ;;
  *) [ "$lines" = 0 ] || fail "$what: a line about nothing" ;;
  esac
}

files="config.json metrics.jsonl checkpoint"
for step in 4 8 12; do
  files="$files model.ckpt-$step.json model.ckpt-$step.safetensors"
done
# shellcheck disable=SC2086
set -- $files
tried=0

# ---- Bits --------------------------------------------------------------------
n=0
while [ $n -lt "$flips" ] && [ $failed = 0 ]; do
  n=$((n + 1))
  draw $#
  eval "file=\${$((drawn + 1))}"
  begins
  draw "$(wc -c <"run/$file")"
  offset=$drawn
  draw 8
  flip "run/$file" "$offset" "$drawn"
  ends_well "bit $drawn of byte $offset" "$file"
done
echo "$tried bits were flipped"

# ---- Ends --------------------------------------------------------------------
tried=0
for file in "$@"; do
  size=$(wc -c <"base/$file")
  n=0
  while [ $n -lt $cuts ] && [ $failed = 0 ]; do
    n=$((n + 1))
    draw "$size"
    begins
    cut_off "run/$file" "$drawn"
    ends_well "a cut at $drawn" "$file"
    [ $((n % 4)) = 1 ] || continue
    begins
    cut_off "run/$file" "$drawn" zeros
    ends_well "zeros from $drawn on" "$file"
  done
  [ $failed = 0 ] || break
  begins
  : >"run/$file"
  ends_well "nothing" "$file"
done
echo "$tried files were cut off, emptied, or ended in zeros"

# A checkpoint has a copy of the configuration.
begins
rm run/config.json
# shellcheck disable=SC2086
goes_on $saving && cmp -s run/model.safetensors straight/model.safetensors &&
  [ "$(wc -l <err.txt)" = 1 ] && [ -s run/config.json ] &&
  grep -q "in the checkpoint of step 12: config.json is missing" err.txt ||
  fail "a run without config.json"

# ---- Beside it ---------------------------------------------------------------
# Files that nobody has asked for, of names that a run has.
begins
head -c 3000 /dev/urandom >run/model.ckpt-14.safetensors
head -c 300 /dev/urandom >run/model.ckpt-12.json.tmp
head -c 300 /dev/urandom >run/model.ckpt-15.safetensors.tmp
head -c 300 /dev/urandom >run/model.safetensors
head -c 300 /dev/urandom >run/model.ckpt-007.json
head -c 300 /dev/urandom >run/notes.txt
head -c 300 /dev/urandom >run/checkpoint.ranks
mkdir run/model.ckpt-13.json
ends_well "garbage beside" "all"
for name in model.ckpt-14.json model.ckpt-99999.json; do
  begins
  head -c 300 /dev/urandom >run/$name
  goes_on --quiet ||
    fail "garbage in $name ends the run"
  [ "$(wc -l <err.txt)" = 1 ] && grep -q "'run/${name%.json}' is skipped for 'run/model.ckpt-12'.*'run/$name'" err.txt ||
    fail "garbage in $name: not one line that names it"
  cmp -s run/model.safetensors straight/model.safetensors ||
    fail "garbage in $name: another model"
  grep -qx 'model_checkpoint_path: "model.ckpt-16"' run/checkpoint ||
    fail "garbage in $name is the newest"
done

# ---- All of it ---------------------------------------------------------------
# Two of three; then there is nothing to go on from, and it says so.
begins
for step in 8 12; do
  cut_off run/model.ckpt-$step.safetensors 900
done
goes_on --quiet ||
  fail "two damaged ones end the run"
[ "$(grep -c "'run/model.ckpt-12' and 1 other are skipped for 'run/model.ckpt-4'" err.txt)" = 1 ] &&
  [ "$(wc -l <err.txt)" = 1 ] || fail "not one line that names both"
cmp -s run/model.safetensors straight/model.safetensors ||
  fail "after two damaged ones: another model"
begins
for step in 4 8 12; do
  flip run/model.ckpt-$step.safetensors 2000 3
done
goes_on --quiet
[ $? = 1 ] && tail -n 1 err.txt | grep -q "array '.*does not match" ||
  fail "three damaged ones are not named"

exit $failed
