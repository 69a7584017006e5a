#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A run folder may be a stranger's, and may have moved: a shared library of
# models is loaded only if the user names it, and it and the data may be named
# anew.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
libraries=${LS_BUILD_DIR:?}/tests/cli/libraries
rm -rf run own text-run hostile elsewhere was-loaded language
mkdir elsewhere

# works ARGUMENT...
works() {
  if "$lockstep" "$@" >out.txt 2>err.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*"
  fi
}

# loaded, untouched: whether a library has run since the last time.
loaded() {
  [ -e was-loaded ] || fail "the library was not loaded"
  rm -f was-loaded
}
untouched() {
  [ ! -e was-loaded ] || fail "code of the run folder's was run"
  rm -f was-loaded
}

cp "$libraries/tells.so" mine.so
works train --model ./mine.so --data synthetic --steps 3 --quiet --run-dir run
loaded

# Nothing is loaded that was not named.
here=$(pwd -P)
ends 2 "loaded only if you name it: lockstep eval run --model $here/mine.so" \
  eval run
untouched
ends 2 "you name it: lockstep train --resume run --model $here/mine.so" \
  train --resume run
untouched
ends 2 "lockstep train --resume run@3 --model $here/mine.so" \
  train --resume run@3 --run-dir on
ends 2 "lockstep eval run@3 --model $here/mine.so" eval run@3
untouched
works eval run --model ./mine.so
loaded
works train --resume run --model ./mine.so --steps 6 --quiet
loaded
works train --model tiny --data synthetic --steps 3 --quiet --run-dir own
ends 2 "--model is './mine.so', the run in 'own' has 'tiny'" \
  eval own --model ./mine.so
ends 2 "--model is './mine.so', the run in 'own' has 'tiny'" \
  train --resume own --model ./mine.so
untouched
ends 2 "--model is 'tiny', the run in 'run' has '$here/mine.so'" \
  eval run --model tiny
untouched
works eval own --model tiny

# Whatever the folder says, the command is one that can be typed, and the
# terminal stays what it is.
cp -r run hostile
sed -i 's|"model":"[^"]*"|"model":"/x; rm -rf \\u001b[2J it'"'"'s/a.so"|; s|,"crc32c":.*|}|' \
  hostile/config.json
ends 2 "--model '/x; rm -rf ?[2J it'\\''s/a.so'" eval hostile
untouched

# Moved: the library and the data are where the user says.
mv mine.so elsewhere/yours.so
ends 1 "cannot load '$here/mine.so'" eval run --model "$here/mine.so"
works eval run --model elsewhere/yours.so --json
grep -qF '"model":"elsewhere/yours.so"' out.txt || fail "another model is named"
works train --resume run --model elsewhere/yours.so --steps 9 --quiet
grep -qF "\"model\":\"$here/elsewhere/yours.so\"" run/config.json ||
  fail "the place of the library is not kept"
ends 1 "is of model 'line', not of 'curve'" \
  eval run --model "$libraries/another.so:curve"
yes 'the cat sat on the mat, and the dog sat on the cat;' | head -c 1500 >text
works train --model gpt --data text --steps 1 --batch-size 1 --quiet \
  --run-dir text-run
mv text elsewhere/prose
ends 1 "$here/text'" train --resume text-run --steps 2
works train --resume text-run --data elsewhere/prose --steps 2 --quiet
grep -qF "\"data\":\"$here/elsewhere/prose\"" text-run/config.json ||
  fail "the place of the data is not kept"
ends 2 "--data is 'synthetic', the run in 'text-run' has" \
  train --resume text-run --data synthetic
head -c 1400 elsewhere/prose >elsewhere/shorter
ends 1 "its number of examples is 10, here it is 9" \
  train --resume text-run --data elsewhere/shorter --steps 3 --quiet

# A library that sets a language of decimal commas for the whole program.
mkdir -p language/comma
{
  printf '\024\021\003\040\006\000\000\000\040\000\000\000\041\000\000\000'
  printf '\041\000\000\000\044\000\000\000\050\000\000\000\054\000\000\000'
  printf ',\000\000\000,\000\000\000\000\000\000\000UTF-8\000\000\000'
} >language/comma/LC_NUMERIC
LOCPATH=$here/language
export LOCPATH
works train --model elsewhere/yours.so --data synthetic --steps 20 --quiet \
  --learning-rate 0.1 --run-dir run --overwrite
grep -qE '^test accuracy: [01]\.[0-9]{4}$' out.txt || fail "a decimal comma"
grep -qF '"learning_rate":0.1,' run/config.json || fail "another rate"
works train --resume run --model elsewhere/yours.so --quiet --steps 40
works eval run --model elsewhere/yours.so --json
grep -qE '"loss":[0-9]+\.[0-9e-]+,"accuracy":[0-9.]+,"classes":\[' out.txt ||
  fail "a decimal comma"

exit $failed
