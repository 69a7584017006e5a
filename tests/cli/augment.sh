#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --flip and --crop: images that are random by seed, epoch and
# example: the same on replicas and threads, when resumed, replayed and by
# --config.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs ./*.csv

awk 'BEGIN {
  x = 5
  for (i = 0; i < 16; ++i) printf "x%d,", i
  print "label"
  for (row = 0; row < 60; ++row) {
    for (i = 0; i < 16; ++i) {
      x = (x * 16807) % 2147483647
      printf "%.6f,", x / 2147483647
    }
    print row % 4
  }
}' >images.csv

# trains NAME ARGUMENT...: into runs/NAME, on images of 4 x 4.
trains() {
  name=$1
  shift
  "$lockstep" train --model tiny --data images.csv --batch-size 12 --quiet \
    --features '*=f32[4,4],label' --schedule constant --run-dir "runs/$name" \
    "$@" >out.txt 2>err.txt || fail "train $*"
}
# same NAME NAME: both ended with the same bytes.
same() {
  cmp -s "runs/$1/model.safetensors" "runs/$2/model.safetensors" ||
    fail "$1 and $2 differ"
}
differ() {
  ! cmp -s "runs/$1/model.safetensors" "runs/$2/model.safetensors" ||
    fail "$1 and $2 are the same"
}

trains plain --steps 10
trains flip --steps 10 --flip
trains crop --steps 10 --crop 1
trains both --steps 10 --flip --crop 1
differ plain flip
differ plain crop
differ flip both
differ crop both
grep -qF '"crop":1,"flip":true' runs/both/config.json || fail "config.json"
grep -qF '"crop":0,"flip":false' runs/plain/config.json || fail "config.json"

# The same bits, however they are made.
trains threads --steps 10 --flip --crop 1 --threads 3
same both threads
# Sums of replicas are rounded otherwise.
trains replicas --steps 10 --flip --crop 1 --replicas 3
for name in both replicas; do
  sed -n 's/.*"loss":\([0-9.]\{6\}\).*/\1/p' "runs/$name/metrics.jsonl" \
    >"$name.txt"
done
[ -s both.txt ] && cmp -s both.txt replicas.txt ||
  fail "replicas have other images"
trains half --steps 6 --flip --crop 1
"$lockstep" train --resume runs/half --steps 10 --quiet >out.txt 2>err.txt ||
  fail "resume"
same both half
trains again --config runs/both/config.json
same both again
"$lockstep" replay runs/both --to 10 >out.txt 2>err.txt || fail "replay"
trains seed --steps 10 --flip --crop 1 --seed 1
differ both seed

# Tests see images as they are: a rate of almost 0 leaves the test as it was.
trains still --steps 10 --learning-rate 1e-30
cp out.txt still.txt
trains moved --steps 10 --learning-rate 1e-30 --flip --crop 1
cmp -s out.txt still.txt || fail "a test has random images"

# What cannot be.
ends 1 "--flip is for images, of u8 or floats [height, width]" train \
  --model tiny --data images.csv --flip --quiet
ends 1 "images.csv' are f32[16]" train --model tiny \
  --data images.csv --crop 2 --quiet
ends 1 "images.csv' are 4 x 4: nothing might be left of them" train \
  --model tiny --data images.csv --features '*=f32[4,4],label' --crop 4 --quiet
ends 2 "--crop is '0'" train --crop 0
ends 2 "--flip makes other steps: the run in 'runs/plain' was begun without" \
  train --resume runs/plain --flip
ends 2 "--crop is '2', the run in 'runs/both' has '1'" train --resume \
  runs/both --crop 2

exit $failed
