#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Optimizers in shared libraries: runs of models and estimators that are trained
# by them have them with the hash of the file, go on with them, and are made
# again; another file, or none, is refused by one line.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf moved run steady like rules rated same other whole model estimator
mkdir moved
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/optimizers.so" own.so
cp own.so moved/here.so
cp own.so changed.so
echo more >>changed.so
hash=$(sha256sum own.so | cut -d ' ' -f 1)

# works WANTED ARGUMENT...
works() {
  wanted=$1
  shift
  if "$lockstep" "$@" >out.txt 2>err.txt && grep -qE -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: wanted: $wanted"
  fi
}

# trains WANTED ARGUMENT...
trains() {
  wanted=$1
  shift
  works "$wanted" train --model tiny --data synthetic --quiet "$@"
}

# has FILE OPTIMIZER: it is recorded, with its hash.
has() {
  tr -d ' \n' <"$1" >one.txt
  grep -qF "\"optimizer\":\"$2\"" one.txt &&
    grep -qF "\"optimizer_sha256\":\"$hash\"" one.txt ||
    fail "$1 has not the optimizer $2 with the hash $hash"
}

here=$(pwd -P)
named="which is code and is loaded only if you name it"

# The rule of a library gives the bits of the same one of Lockstep.
for as in model estimator; do
  rm -rf run whole
  [ $as = model ] && file=config.json || file=estimator.json
  [ $as = model ] && flag=--quiet || flag=--estimator
  trains . $flag --optimizer ./own.so:heavy --clip-norm 1 --replicas 2 \
    --steps 40 --run-dir run
  has run/$file "$here/own.so:heavy"
  trains . $flag --optimizer momentum --learning-rate 0.01 --clip-norm 1 \
    --replicas 2 --steps 40 --run-dir whole
  "$lockstep" checkpoint diff run/model.ckpt-40 whole/model.ckpt-40 \
    >out.txt 2>err.txt
  grep -q "^hidden1/kernel:" out.txt && fail "it has other bits"

  # Nothing that makes no steps needs it; what makes steps needs the same one.
  works "accuracy: 0" eval run
  works '"class":' predict run
  ends 2 "the optimizer of the run in 'run' is in a shared library, $named: \
lockstep train --resume run --optimizer $here/own.so:heavy" train --resume run
  ends 2 "$named: lockstep train --resume run@40 --optimizer" \
    train --resume run@40 --run-dir on
  ends 2 "$named: lockstep replay run --optimizer $here/own.so:heavy" replay run
  ends 2 "--optimizer is 'heavy' with SHA-256 '$(sha256sum changed.so |
    cut -d ' ' -f 1)', the run in 'run' has 'heavy' with SHA-256 '$hash': it \
can only continue with the same" \
    train --resume run --optimizer ./changed.so:heavy
  ends 2 "cannot load './none.so': No such file" \
    train --resume run --optimizer ./none.so
  ends 2 "--optimizer is 'steady' with SHA-256 " \
    train --resume run --optimizer ./own.so:steady
  ends 2 "--optimizer is 'adam', the run in 'run' has '$here/own.so:heavy'" \
    train --resume run --optimizer adam
  ends 2 "the run in 'whole' has 'momentum'" \
    train --resume whole --optimizer ./own.so:heavy
  works . train --resume run --optimizer moved/here.so:heavy --steps 60 --quiet
  has run/$file "$here/moved/here.so:heavy"
  works "^steps [04]0 to 60 are the same" \
    replay run --from 40 --optimizer moved/here.so:heavy --quiet
  works . train --resume run --optimizer ./changed.so:heavy --steps 80 --quiet \
    --allow-inexact
  grep -q "results will differ" err.txt || fail "nothing is said of another file"
  grep -qF "$here/changed.so:heavy" run/$file || fail "it is not recorded"
done

# Schedules, chains, files of flags and other commands take it as any other.
trains . --optimizer own.so:steady --schedule cosine --learning-rate 0.01 \
  --attest --save-every-steps 10 --steps 30 --run-dir steady
ends 2 "the optimizer of 'steady/config.json' is in a shared library, $named: \
add --optimizer $here/own.so:steady" train --config steady --run-dir like
works . train --config steady --run-dir like --optimizer own.so:steady --quiet
cmp -s steady/config.json like/config.json || fail "--config: another run"
cmp -s steady/model.safetensors like/model.safetensors ||
  fail "--config: other bits"
works "^verified" verify steady --all --optimizer own.so:steady
"$lockstep" verify steady >out.txt 2>err.txt
[ $? = 2 ] && grep -qF "lockstep verify steady --optimizer" err.txt ||
  fail "verify does not say that the library has to be named"
works "3 with the right bytes" simulate --seeds 3 -- train --model tiny \
  --data synthetic --replicas 2 --steps 4 --optimizer own.so:steady

# Another rule of the same library is another optimizer: steps by both are not
# made again at once, and the rate of the one is not the other's.
trains . --estimator --optimizer own.so:heavy --attest --keep 1 --steps 40 \
  --run-dir rules
works . train --resume rules --optimizer own.so:steady --steps 80 --quiet \
  --allow-inexact
works "^verified" verify rules --optimizer own.so:steady
grep -q "the run went on with other flags" out.txt ||
  fail "verify does not see another rule"
trains . --optimizer own.so:heavy --learning-rate 0.05 --steps 4 --run-dir rated
works . train --config rated --run-dir same --optimizer own.so:heavy --quiet
works . train --config rated --run-dir other --optimizer own.so:steady --quiet
grep -q '"learning_rate": *0.05' same/config.json || fail "the rate is lost"
grep -q '"learning_rate": *0[,}]' other/config.json || fail "the rate is kept"

works "optimizer" plan tiny --data synthetic --optimizer own.so:heavy --no-steps
works "own.so:steady" show steady
trains . --optimizer own.so:heavy --steps 20 --checksum 1 --run-dir run \
  --overwrite
trains . --optimizer own.so:heavy --steps 20 --checksum 1 --seed 1 \
  --run-dir whole --overwrite
"$lockstep" diff run whole --op --optimizer own.so >out.txt 2>err.txt
grep -q "name one, as in 'own.so:NAME': heavy, steady" err.txt ||
  fail "diff --op does not look for the optimizer"

ends 2 "'own.so' exports no models" train --model own.so
ends 2 "exports no optimizers" \
  train --optimizer "$LS_BUILD_DIR/tests/cli/libraries/mine.so"
ends 2 "'own.so' has no optimizer 'light'; it has: heavy, steady" \
  train --optimizer own.so:light

exit $failed
