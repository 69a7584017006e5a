#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep train --config: a run's config.json as flags, a file written by hand,
# flags of the command line beside it, and what is no such file.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs ./*.json "a \"b"

# trains NAME ARGUMENT...: into runs/NAME.
trains() {
  name=$1
  shift
  "$lockstep" train --quiet --run-dir "runs/$name" "$@" >out.txt 2>err.txt ||
    fail "train $*"
}
# same A B: both runs have the same configuration, model and checkpoint.
same() {
  for file in config.json model.safetensors model.ckpt-12.safetensors \
              checkpoint; do
    cmp -s "runs/$1/$file" "runs/$2/$file" || fail "$1 and $2 differ in $file"
  done
}
# has RUN TEXT: its config.json has that text.
has() {
  grep -qF -- "$2" "runs/$1/config.json" || fail "$1 has no $2"
}

# A run's own configuration makes the same run: with an optimizer of its own
# and flags of all kinds.
trains first --model tiny --data synthetic --steps 12 --seed 3 --replicas 2 \
  --optimizer adamw --learning-rate 0.003 --schedule cosine --warmup 2 \
  --weight-decay 0.01 --clip-norm 1 --keep 0 --keep-best test_loss
trains again --config runs/first/config.json
same first again
trains once-more --config runs/first
same first once-more
# Of a run that has all its steps nothing is trained.
"$lockstep" train --resume runs/first >out.txt 2>err.txt || fail "a complete run"
grep -q "the run in runs/first is complete, with 12 steps; --epochs or" err.txt ||
  fail "a complete run is not told"

# With the model's own optimizer, whose rate is in the file, and bf16.
trains bf16 --model tiny --data synthetic --steps 12 --precision bf16 \
  --math direct --keep-every-hours 1
trains bf16-2 --config runs/bf16/config.json
same bf16 bf16-2

# A warm start, and a path that JSON writes with escapes.
mkdir 'a "b'
cp runs/first/model.safetensors 'a "b/m.safetensors'
trains warm --model tiny --data synthetic --steps 12 \
  --warm-start 'a "b/m.safetensors' --except 'logits/*'
trains warm2 --config runs/warm/config.json
same warm warm2
has warm2 '"warm_except":"logits/*"'
# Has begun the run that is resumed.
"$lockstep" train --config runs/warm/config.json --resume runs/warm2 --steps 14 \
  --quiet >out.txt 2>err.txt || fail "resume with the run's configuration"
ends 2 "--warm-start cannot be given with it" train --config \
  runs/warm/config.json --resume runs/warm2 --warm-start runs/first
trains warm3 --config runs/warm/config.json --resume auto
same warm warm3

# Flags of the command line win, whatever their order; an end replaces an end,
# and an optimizer the rate of the other one.
trains won --seed 9 --config runs/first/config.json --epochs 1 --replicas 1
has won '"seed":9'
has won '"steps":0'
has won '"epochs":1'
has won '"replicas":1'
has won '"weight_decay":0.01'
trains sgd --config runs/bf16/config.json --optimizer adam
grep -q '"learning_rate":0,' runs/sgd/config.json ||
  fail "adam has the rate of another optimizer"
trains tested --model tiny --data synthetic --steps 12 --test-steps 1
trains untested --config runs/tested --test none
"$lockstep" plan tiny --config runs/tested --test none --no-steps \
  >out.txt 2>err.txt || fail "a plan without the file's test"

# A file by hand has any flag.
printf '{ "model": "tiny", "data": "synthetic", "steps": 12, "quiet": true,
  "overwrite": false, "run_dir": "runs/\\u0068and", "attest": true }\n' >hand.json
"$lockstep" train --config hand.json >out.txt 2>err.txt || fail "by hand"
[ ! -s err.txt ] || fail "quiet is ignored"
[ -s runs/hand/chain.jsonl ] || fail "attest or run_dir is ignored"

# A folder that has a run is one still; --resume compares flags as always.
ends 1 "already holds a run" train --config runs/first/config.json \
  --run-dir runs/first
ends 2 "--seed is '4', the run in 'runs/first' has '3'" train --resume runs/first \
  --config runs/first/config.json --seed 4

# refuses TEXT JSON [CODE]: the file is refused.
refuses() {
  printf '%b' "$2" >bad.json
  ends "${3:-2}" "$1" train --config bad.json --data synthetic
}
refuses "'bad.json' has \"batchsize\", which is no flag of a file; did you mean 'batch-size'?" \
  '{"batchsize":3}'
refuses "'bad.json' has \"config\", which is no flag of a file" '{"config":"other.json"}'
refuses "\"zzzzzzzz\", which is no flag" '{"zzzzzzzz":{"a":[1,2]}}'
refuses "\"seed\" is \"1\", expected a number" '{"seed":"1"}'
refuses "\"seed\" is 1.5, expected a whole number from 0 on" '{"seed":1.5}'
refuses "\"seed\" is -1, expected a whole number from 0 on" '{"seed":-1}'
refuses "\"replicas\" is 1e3, expected a whole number from 1 on" '{"replicas":1e3}'
refuses "\"split\" is nan, expected a number above 0" '{"split":nan}'
for value in true null abc '[1]' '{"a":1}' 1e-400 '"0"' -1; do
  for name in learning_rate clip_norm min_delta; do
    refuses "\"$name\" is $value, expected a number" "{\"$name\":$value}"
  done
done
refuses "\"normalize\" is \"false\", expected true or false" '{"normalize":"false"}'
refuses "\"bytes\" is 5, expected a text" '{"bytes":5}'
refuses "\"model\" is 3, expected a text" '{"model":3}'
refuses "\"model\" is null, expected a text" '{"model":null}'
refuses "\"quiet\" is 1, expected true or false" '{"quiet":1}'
refuses "an error at line 1, byte 1" '{"model":"ti\\xny"}'
refuses "expected a text of UTF-8" '{"model":"\\u0000"}'
refuses "expected a text of UTF-8" '{"model":"\\udc00"}'
refuses "an error at line 1, byte 1" ''
refuses "an error at line 1, byte 1" '[]'
refuses "an error at line 1, byte" '{"seed":1'
refuses "an error at line 1, byte" '{"seed":1}}'
refuses "an error at line 1, byte" '{"seed" 1}'
refuses "an error at line 1, byte" '{"seed":1,}'
refuses "an error at line 1, byte" '{,"seed":1}'
refuses "is no text" 'ab\0000c' 1
refuses "--schedule is 'steep', expected constant, linear or cosine" \
  '{"schedule":"steep"}'
refuses "is loaded only if you name it: add --model ./mine.so" \
  '{"model":"./mine.so"}'
ends 1 "cannot read 'none.json'" train --config none.json
ends 1 "it is no regular file" train --config runs
ends 2 "--config needs a value: FILE" train --config
printf '{}' >empty.json
trains empty --config empty.json --model tiny --data synthetic --steps 12

exit $failed
