#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# What is asked for wrongly ends with code 2 and one line that names it.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"

# refuses WANTED ARGUMENT...
refuses() { ends 2 "$@"; }

refuses "lockstep: a command is missing"
: >usage.csv
refuses "there is no command 'trian'; did you mean 'train'?" trian
refuses "there is no command 'frobnicate'; see 'lockstep help'" frobnicate
refuses "lockstep train: there is no flag '--replica'; did you mean '--replicas'?" \
  train --replica 2
refuses "did you mean '--batch-size'?" train --batchsize=3
refuses "there is no flag '--color'; see 'lockstep train --help'" train --color
refuses "there is no flag '-r'" train -r
refuses "--replicas is '0', expected a whole number from 1 on" \
  train --replicas 0
refuses "--replicas is '2x', expected a whole number from 1 on" \
  train --replicas 2x
refuses "--replicas is '-1', expected" train --replicas=-1
refuses "'99999999999', expected a whole number up to 2147483647" \
  train --replicas 99999999999
refuses "--replicas needs a value: a whole number from 1 on" train --replicas
refuses "--learning-rate is 'fast', expected a number above 0" \
  train --learning-rate fast
refuses "--learning-rate is '0', expected" train --learning-rate 0
refuses "'1e-46', expected a number from 1.18e-38 to 3.4e+38" \
  train --learning-rate 1e-46
refuses "'1e300', expected a number from 1.18e-38 to 3.4e+38" \
  train --learning-rate 1e300
refuses "the last seed would be above 2147483647" \
  train --model tiny --data synthetic --seed 2147483646 --seeds 3
"$lockstep" train --model tiny --data synthetic --steps 1 --quiet \
  --seed 2147483646 --seeds 2 >/dev/null || fail "the last seed of all"
refuses "--learning-rate is 'nan', expected" train --learning-rate nan
refuses "--schedule is 'step', expected constant, linear or cosine" \
  train --schedule step
refuses "--schedule cosine needs an --optimizer" train --schedule cosine
refuses "--warmup needs an --optimizer" train --warmup 5
refuses "--accumulate needs an --optimizer" train --accumulate 2
refuses "--optimizer is 'adma', expected sgd, momentum, nesterov, adam," \
  train --optimizer adma
refuses "--precision is 'f16', expected f32, f64 or bf16" train --precision f16
refuses "--precision is 'half', expected" bench tiny --precision half
for command in train "eval run" "bench tiny" "graph tiny"; do
  # shellcheck disable=SC2086
  refuses "--math is 'slow', expected fast or direct" $command --math slow
done
refuses "--resume continues in the folder it names; --run-dir cannot be given" \
  train --resume a --run-dir b
refuses "--overwrite cannot be given with it" train --resume a --overwrite
refuses "there is no flag '--resum'; did you mean '--resume'?" train --resum a
refuses "there is no flag '--optimiser'; did you mean '--optimizer'?" \
  train --optimiser adam
refuses "--save-every is '0', expected a whole number from 1 on" \
  train --save-every 0
refuses "lockstep eval: RUN is missing" eval
refuses "there is no flag '--jsn'; did you mean '--json'?" eval run --jsn
refuses "--run-dir is '', expected" train --run-dir ""
refuses "--run-dir needs a value: DIR" train --run-dir --quiet
refuses "there is no flag '--trac'; did you mean '--trace'?" train --trac x
refuses "--quiet takes no value, got 'yes'" train --quiet=yes
refuses "unexpected argument 'mlp'; did you mean '--model mlp'?" train mlp
refuses "unexpected argument 'extra'; see 'lockstep train --help'" train \
  --model mlp extra
refuses "unexpected argument 'extra'; see 'lockstep train --help'" train \
  extra --model=mlp
refuses "there is no command '-V'; did you mean '--version'?" -V
refuses "there is no command 'version'; did you mean '--version'?" version
for flag in gpu gpus cuda; do
  refuses "there is no flag '--$flag'; did you mean '--device gpu'?" \
    train --$flag
done
# Other programs' names, and short ones, which are like too many others.
refuses "there is no flag '--lr'; did you mean '--learning-rate'?" train --lr 1
refuses "did you mean '--precision bf16'?" train --amp
refuses "did you mean '--run-dir'?" train --output-dir=x
refuses "did you mean '--address'?" serve --host x
refuses "there is no flag '--fog'; see 'lockstep train --help'" train --fog
refuses "unexpected argument '1'; see 'lockstep train --help'" train --quiet 1
refuses "unexpected argument 'usage.csv'; did you mean '--data usage.csv'?" \
  predict run usage.csv
refuses "there is no command 'fit'; did you mean 'train'?" fit
refuses "'train'; put -- before the program" launch --ranks 2 train
refuses "--bits is for devices with a plug-in: add --device" \
  bench mlp --bits exact
refuses "--devices is for devices with a plug-in" train --devices 2
refuses "--bits is for devices with a plug-in, not for --device cpu" \
  train --device cpu --bits exact
refuses "--test-steps needs a test, and --test none makes none" \
  train --test none --test-steps 3
refuses "--find-spike looks at steps, and --steps 0 makes none" \
  train --steps 0 --find-spike 1
refuses "--bits is 'all'" bench mlp --device pjrt --bits all
refuses "there is no model 'mpl'; there are: tiny, mlp," train --model mpl
refuses "lockstep bench: MODEL is missing" bench
ends 1 "and a batch of 2147483647 take 6.13 TiB, but there are" \
  bench mlp --steps 1 --batch-size 2147483647
refuses "there is no model 'none'; there are:" bench none
refuses "lockstep graph: MODEL is missing" graph --dot
refuses "give one" graph tiny --dot --plan
refuses "--lowered, --plan, --cost, --dot and --gathered exclude each other; give one" \
  graph cnn --cost --dot
refuses "unexpected argument 'x'" devices x
refuses "--replicas is '0', expected" devices --replicas 0
refuses "there is no command 'nothing'" help nothing
refuses "there is no 'ls_trian'; did you mean 'lockstep help ls_train'?" help ls_trian
refuses "there is no 'ls_frobnicate' in the library" help ls_frobnicate

# A folder of checkpoints without a config.json is mostly an estimator's.
rm -rf estimated
mkdir estimated
: >estimated/model.ckpt-3.json
for command in predict eval export; do
  ends 1 "it has checkpoints: if an estimator was trained there, name it by \
--model ./mine.so, or by --model NAME --estimator" $command estimated
done

ends 1 "if an estimator was trained there" train --resume estimated/model.ckpt-3
ends 1 "name the folder, for its newest checkpoint" eval estimated/model.ckpt-3

# LS_LOG is heard by the command, too.
for level in "" warning off error; do
  LS_LOG=$level LS_THREADS=x "$lockstep" devices >out.txt 2>err.txt ||
    fail "LS_LOG=$level lockstep devices"
  case $level in
    off | error) [ ! -s err.txt ] || fail "LS_LOG=$level: a warning is shown" ;;
    *) grep -q "warning: debug: LS_THREADS=x is ignored" err.txt ||
      fail "LS_LOG=$level: no warning is shown" ;;
  esac
done

exit $failed
