#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# A run folder may be a stranger's: nothing is written through a link in it,
# whatever file or folder that names, and no fifo in it is waited for.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf run linked victim victims notes fifos estimated
tiny="--model tiny --data synthetic --batch-size 32 --quiet"

# works ARGUMENT...
works() {
  if timeout 20 "$lockstep" "$@" >out.txt 2>err.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*"
  fi
}

# shellcheck disable=SC2086
works train $tiny --steps 3 --run-dir run --events

# untouched WHAT ARGUMENT...: refuses the link, and its file is as it was.
untouched() {
  what=$1
  shift
  cp victim before
  timeout 20 "$lockstep" "$@" >out.txt 2>err.txt
  code=$?
  cmp -s victim before || fail "$what: the file that a link names has changed"
  [ -L "linked/$what" ] || fail "$what: the link is gone"
  [ $code = 1 ] || fail "$what: code $code"
  grep -q "$what.*': it is a link" err.txt || fail "$what: no word of the link"
}

for name in metrics.jsonl config.json checkpoint model.safetensors; do
  rm -rf linked
  cp -r run linked
  mv "linked/$name" victim
  ln -s ../victim "linked/$name"
  # Lines that go on from another step are to be cut off, too.
  [ "$name" = metrics.jsonl ] && echo '{"step":99,"loss":1}' >>victim
  untouched "$name" train --resume linked --steps 6 --quiet
done

# Files that are to be made. Values without notes are no checkpoint and go.
for name in model.ckpt-6.json model.ckpt-6.safetensors; do
  rm -rf linked
  cp -r run linked
  echo precious >victim
  ln -s ../victim "linked/$name"
  if [ "$name" = model.ckpt-6.json ]; then
    untouched "$name" train --resume linked --steps 6 --quiet
  else
    works train --resume linked --steps 6 --quiet
    [ "$(cat victim)" = precious ] || fail "$name: its file has changed"
  fi
done

# Folders of event files: none is made in, or taken from, a folder elsewhere.
for name in events events/train events/test; do
  rm -rf linked victims
  cp -r run linked
  rm -rf "linked/$name"
  mkdir -p victims/train victims/test
  for at in victims victims/train victims/test; do
    echo precious >$at/events.out.tfevents.0000000001.host.1.1
  done
  ln -s "$(pwd)/victims" "linked/$name"
  ls -R victims >before
  for how in "--resume linked --steps 6 --events --quiet" \
             "$tiny --steps 1 --run-dir linked --overwrite --events"; do
    # shellcheck disable=SC2086
    timeout 20 "$lockstep" train $how >out.txt 2>err.txt &&
      fail "$name: event files go through a link"
    ls -R victims | cmp -s - before || fail "$name: a folder elsewhere changed"
    grep -q "linked/$name': it is a link" err.txt || fail "$name: no word of it"
  done
done

# An estimator's evaluations.
rm -rf estimated victims
mkdir victims
# shellcheck disable=SC2086
works train $tiny --estimator --steps 3 --run-dir estimated
ln -s ../victims estimated/eval
works eval estimated --model tiny --estimator --data synthetic
grep -q "estimated/eval': it is a link" err.txt ||
  fail "an evaluation that is not written has no warning"
[ -z "$(ls victims)" ] || fail "an evaluation is written to a folder elsewhere"

# A folder that is a link itself is the user's choice.
ln -s run notes
works train --resume notes --steps 6 --quiet
rm notes

# Fifos.
cp -r run fifos
rm fifos/metrics.jsonl
mkfifo fifos/metrics.jsonl rows.csv some.bin
# waits_not WANTED ARGUMENT...
waits_not() {
  wanted=$1
  shift
  timeout 5 "$lockstep" "$@" >out.txt 2>err.txt
  code=$?
  [ $code != 124 ] || fail "lockstep $*: it waits for a fifo"
  [ $code != 0 ] || fail "lockstep $*: it reads a fifo"
  grep -qF "$wanted" err.txt || fail "lockstep $*: not: $wanted"
}
waits_not "fifos/metrics.jsonl': it is no regular file" diff run fifos
waits_not "fifos/metrics.jsonl': it is no regular file" diff fifos run
waits_not "fifo" train --resume fifos --steps 9 --quiet
waits_not "rows.csv" data rows.csv
waits_not "some.bin" data some.bin
waits_not "rows.csv" train --data rows.csv
waits_not "some.bin" checkpoint show some.bin
rm rows.csv some.bin

exit $failed
