#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Models and estimators have the same flags, run folder and commands: each flag
# that the program lists trains or uses a model, a model of the library as an
# estimator and an estimator of a shared library, or is refused with a reason.
# Flags and commands come from the program: a new one without a row here fails.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
rm -rf runs base-* e.so m.so rows.csv flags.txt decided.txt one.json
cp "${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so" e.so
cp "$LS_BUILD_DIR/tests/cli/libraries/mine.so" m.so
echo '{"seed":5}' >one.json
awk 'BEGIN { print "a,b,kind,y"
  for (i = 0; i < 40; ++i) print i / 40 "," i % 7 "," (i % 2 ? "x" : "z") "," \
    (i % 3 ? "even" : "odd") }' >rows.csv
rows="--data rows.csv --features a,b,y"

# words_of KIND: the words that name a model, a model of the library as an
# estimator, or an estimator of a shared library.
words_of() {
  case $1 in
    m) echo "--model tiny" ;;
    l) echo "--model tiny --estimator" ;;
    s) echo "--model e.so:line" ;;
  esac
}
name_of() {
  case $1 in m) echo models ;; *) echo estimators ;; esac
}

# values FOLDER: the checksum of its newest checkpoint.
values() {
  for file in "$1"/model.ckpt-*.safetensors; do
    last=$file
  done
  cksum <"$last"
}

# decided COMMAND FLAG KIND: notes it for the comparison with the program's list.
decided() { echo "$1 $2 $3" >>decided.txt; }

# refused COMMAND KIND FLAG WORD...: by a reason that names the kind.
refused() {
  command=$1
  kind=$2
  flag=$3
  shift 3
  ends 2 "lockstep $command: --$flag is not for $(name_of "$kind")" \
    "$command" "$@" >said.txt
  [ ! -s said.txt ] || grep -q '^ok' said.txt || cat said.txt
  grep -qE ': .{15,}$' err.txt || fail "--$flag: no reason"
}

# trains KIND FLAG WANTED WORD...: two steps end with the values of the base run
# ("same"), with others ("other"), or with a message.
trains() {
  kind=$1
  flag=$2
  wanted=$3
  shift 3
  folder=runs/$kind-$flag
  rm -rf "$folder"
  # shellcheck disable=SC2046
  "$lockstep" train $(words_of "$kind") --steps 2 --run-dir "$folder" "$@" \
    >out.txt 2>err.txt
  code=$?
  case $wanted in
    same | other)
      [ $code = 0 ] || { fail "train ($kind) $*: code $code"; return; }
      is=other
      [ "$(values "$folder")" != "$(values "$base-$kind")" ] || is=same
      [ $is = $wanted ] || fail "train ($kind) $*: $is values, wanted $wanted"
      ;;
    *)
      [ $code -gt 0 ] && grep -qF -- "$wanted" err.txt ||
        fail "train ($kind) $*: code $code, wanted: $wanted"
      ;;
  esac
}

# row MODEL LINKED SHARED FLAG WORD...: for each kind same, other, no (refused),
# a part of a message with _ for spaces, or a dot: another row has it.
row() {
  cells="m:$1 l:$2 s:$3"
  flag=$4
  shift 4
  for cell in $cells; do
    kind=${cell%%:*}
    wanted=$(echo "${cell#*:}" | tr _ ' ')
    [ "$wanted" != . ] || continue
    decided train "$flag" "$kind"
    data=$given
    [ "$kind" != s ] || data=
    # shellcheck disable=SC2046,SC2086
    if [ "$wanted" = no ]; then
      refused train "$kind" "$flag" $(words_of "$kind") "--$flag" "$@"
    else
      trains "$kind" "$flag" "$wanted" $data "--$flag" "$@"
    fi
  done
}

# begins DATA: base runs, which rows are compared with.
begins() {
  base=$1
  given=$2
  for kind in m l s; do
    data=$given
    [ "$kind" != s ] || data=
    # shellcheck disable=SC2046,SC2086
    "$lockstep" train $(words_of $kind) --steps 2 $data \
      --run-dir "$base-$kind" >out.txt 2>err.txt || fail "the base run of $kind"
  done
}

# ---- train ------------------------------------------------------------------
: >decided.txt
begins base-synthetic "--data synthetic"
#   model  library's  shared
row same   same       .      model tiny
row .      .          same   model e.so:line
row other  .          .      estimator
row .      same       .      estimator
row .      .          same   estimator
row same   same       no     data synthetic
row other  other      other  config one.json
row other  other      no     task regression
row other  other      no     outputs 3
row same   same       same   threads 2
row same   same       same   device cpu
row is_for_devices is_for_devices is_for_devices devices 1
row is_for_devices is_for_devices is_for_devices bits exact
row same   same       same   math fast
row other  other      other  batch-size 64
row other  other      no     precision bf16
row same   same       same   steps 2
row same   same       no     epochs 1
row other  other      other  seed 7
row same   same       same   quiet
row same   same       same   keep 1
row same   .          .      keep-every-hours 0.5
row .      same       same   keep-every-hours 2
row same   same       same   grace 5
row same   same       same   save-every 30
row same   same       same   save-every-steps 1
row same   same       same   trace trace.json
row same   same       same   find-nan
row above_0.0001 above_0.0001 above_0.0001 find-spike 0.0001
row same   same       same   check-ranks 1
row same   same       same   checksum 1
row same   same       same   gradient-norm
row same   same       same   attest
row same   same       same   keep-best loss
row same   same       same   keep-best test_loss
row same   same       same   events
row same   same       same   stop-early test_loss
row same   same       same   patience 2 --stop-early test_loss
row same   same       same   min-delta 1 --stop-early test_loss
row same   same       same   overwrite
row other  other      no     optimizer adam
row other  other      no     learning-rate 0.5
row other  .          .      schedule constant
row .      same       no     schedule constant
row other  other      no     warmup 2 --optimizer sgd
row other  other      no     weight-decay 0.1 --optimizer adamw
row other  other      no     clip-norm 0.1 --optimizer sgd
row other  other      no     accumulate 2 --optimizer sgd
row other  other      other  replicas 3
row other  other      other  tpu virtual:2x2
row same   .          .      iterations-per-loop 2
row .      other      other  iterations-per-loop 2 --tpu virtual:2x2
row other  other      .      warm-start base-synthetic-m
row .      .          other  warm-start base-synthetic-s
row other  other      .      only 'logits/*' --warm-start base-synthetic-m
row .      .          other  only 'a/*' --warm-start base-synthetic-s
row other  other      .      except 'logits/*' --warm-start base-synthetic-m
row .      .          other  except 'a/*' --warm-start base-synthetic-s
row other  other      .      map /=/ --warm-start base-synthetic-m
row .      .          other  map /=/ --warm-start base-synthetic-s
row other  other      .      layout own --warm-start base-synthetic-m
row .      .          other  layout own --warm-start base-synthetic-s
row same   .          .      test-steps 1
row .      same       same   test-steps 1 --eval-every 60
row no     same       same   eval-every 60
row no     .          other  param rate=0.5
row .      other      .      param learning_rate=0.5
row is_for_images is_for_images no crop 2
row is_for_images is_for_images no flip

# Rows of a file.
begins base-rows "$rows"
row same   same       no     features a,b,y
row same   same       no     label y --features a,b
row other  other      no     one-hot kind --features a,b,kind,y
row same   same       no     missing a=0
row other  other      no     test rows.csv
row other  other      no     split 0.5
row other  other      no     normalize

# --seeds trains in folders of its own; --resume in that of another run.
for kind in m l s; do
  data=$rows
  [ $kind != s ] || data=
  rm -rf runs/seeds
  # shellcheck disable=SC2046,SC2086
  "$lockstep" train $(words_of $kind) $data --steps 2 --seeds 2 \
    --run-dir runs/seeds >out.txt 2>err.txt || fail "--seeds of $kind"
  grep -q 'deviation .*, of 2 seeds$' out.txt || fail "--seeds of $kind: no mean"
  [ "$(values runs/seeds/seed-0)" = "$(values base-rows-$kind)" ] ||
    fail "--seeds of $kind: the first run"
  model=
  [ $kind != s ] || model="--model e.so:line"
  # shellcheck disable=SC2086
  {
    "$lockstep" eval runs/seeds/seed-1 $model >out.txt 2>err.txt ||
      fail "--seeds of $kind: the second run"
    "$lockstep" train --resume base-rows-$kind $model --steps 4 --allow-inexact \
      >out.txt 2>err.txt || fail "--resume of $kind"
    "$lockstep" train --resume base-rows-$kind@2 $model --steps 4 \
      --run-dir runs/branch-$kind >out.txt 2>err.txt || fail "RUN@2 of $kind"
  }
  [ "$(values runs/branch-$kind)" = "$(values base-rows-$kind)" ] ||
    fail "RUN@2 of $kind: other values"
  for flag in seeds run-dir resume allow-inexact; do
    decided train $flag $kind
  done
done
refused train s find-lr --model e.so:line --find-lr
for kind in m l s; do
  decided train find-lr $kind
  [ $kind != s ] || continue
  # shellcheck disable=SC2046
  "$lockstep" train $(words_of $kind) --data synthetic --steps 10 --find-lr \
    >out.txt 2>err.txt || fail "--find-lr of $kind"
done

# ---- The folder -------------------------------------------------------------
# holds KIND FILE...: the files of its run.
holds() {
  kind=$1
  shift
  for file in "$@"; do
    [ -e "base-synthetic-$kind/$file" ] || fail "run of $kind: no $file"
  done
}
for kind in m l s; do
  holds $kind checkpoint model.ckpt-2.json model.ckpt-2.safetensors \
    metrics.jsonl
done
holds m config.json model.safetensors
for kind in l s; do
  holds $kind estimator.json graph.ls
  ls base-synthetic-$kind/events.* >out.txt || fail "run of $kind: no events"
done

# members FILE: keys of its object.
members() { grep -o '"[a-z_]*":' "$1" | sort; }
# A flag has one name in both files; --tpu and --param are of estimators.
members base-rows-m/config.json >ours.txt
for kind in l s; do
  members base-rows-$kind/estimator.json >theirs.txt
  comm -13 ours.txt theirs.txt | grep -vx '"\(estimator\|tpu\|param\)":' \
    >out.txt &&
    fail "estimator.json of $kind has members that config.json has not"
done

# ---- eval, predict, export --------------------------------------------------
at=base-synthetic
# use COMMAND MODEL LINKED SHARED FLAG WORD...: "ok" or "no".
use() {
  command=$1
  cells="m:$2 l:$3 s:$4"
  flag=$5
  shift 5
  for cell in $cells; do
    kind=${cell%%:*}
    [ "${cell#*:}" != . ] || continue
    decided "$command" "$flag" "$kind"
    model=
    [ $kind != s ] || model="--model e.so:line"
    # shellcheck disable=SC2086
    if [ "${cell#*:}" = no ]; then
      refused "$command" $kind "$flag" $at-$kind $model "--$flag" "$@"
    else
      "$lockstep" "$command" $at-$kind $model "--$flag" "$@" \
        >out.txt 2>err.txt && [ -s out.txt ] ||
        fail "$command of $kind --$flag $*"
    fi
  done
}
for command in eval predict; do
  use $command ok ok no  data synthetic
  at=base-rows
  use $command ok ok no  features a,b,y
  at=base-synthetic
  use $command ok ok ok  threads 2
  use $command ok ok ok  device cpu
  use $command ok ok ok  math direct
  use $command no ok ok  tpu virtual:2x2 --batch-size 64
  use $command no ok ok  batch-size 64
done
for command in eval predict export; do
  use $command ok ok .   model tiny
  use $command .  .  ok  model e.so:line
  use $command .  ok ok  estimator
  use $command no ok ok  param learning_rate=1
  use $command no .  .   checkpoint x
  use $command .  ok .   checkpoint base-synthetic-l/model.ckpt-2
  use $command .  .  ok  checkpoint base-synthetic-s/model.ckpt-2
done
use eval    ok ok ok     json
use eval    no ok ok     replicas 2
use eval    no ok ok     steps 1
use eval    no ok ok     name other
use predict ok ok ok     limit 1
use predict no .  .      keys class
use predict .  ok ok     keys class
use predict .  no no     out masks
use predict ok no no     top 2
use predict ok no no     logits
use export  ok ok ok     out exports
use export  ok ok ok     onnx
use export  ok ok ok     stablehlo
use export  ok ok ok     batch-size 2 --stablehlo
use export  no ok ok     tpu virtual:2x2

# RUN@STEP names a checkpoint, without a flag.
for kind in m l s; do
  model=
  [ $kind != s ] || model="--model e.so:line"
  for command in eval predict export; do
    # shellcheck disable=SC2086
    "$lockstep" $command base-synthetic-$kind@2 $model >out.txt 2>err.txt ||
      fail "$command of $kind: RUN@2"
  done
done

# ---- All that the program lists ---------------------------------------------
# lists COMMAND KIND: its flags, by its own help.
lists() {
  # shellcheck disable=SC2046
  "$lockstep" "$1" $(words_of "$2") --help | sed -n 's/^  --\([a-z-]*\).*/\1/p'
}
for command in train eval predict export; do
  for kind in m l s; do
    lists $command $kind
  done | sort -u >flags.txt
  for kind in m l s; do
    lists $command $kind | sort >own.txt
    while read -r flag; do
      if grep -qx "$flag" own.txt; then
        grep -qx "$command $flag $kind" decided.txt && continue
        # Operands that eval and others have in place of it.
        case "$command $flag $kind" in
          "predict out m" | *" estimator m" | "export device"* | \
            "export devices"* | "export bits"* | "export threads"*) ;;
          *" devices "* | *" bits "*) ;;
          *) fail "nobody decided on $command --$flag for $kind" ;;
        esac
      elif ! grep -qx "$command $flag $kind" decided.txt; then
        fail "$command --$flag is not for $kind, and no row says so"
      fi
    done <flags.txt
  done
done

# ---- Other commands ---------------------------------------------------------
runs_on() {
  "$lockstep" "$@" >out.txt 2>err.txt || fail "lockstep $*"
}
"$lockstep" help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p' >flags.txt
while read -r command; do
  case $command in
    train | eval | predict | export) ;;  # Above.
    diff)
      for kind in m l s; do
        runs_on diff base-synthetic-$kind runs/$kind-threads
        grep -q 'equal: .* [1-9][0-9]* files\{0,1\} of values' out.txt ||
          fail "diff of $kind"
        "$lockstep" diff base-synthetic-$kind runs/$kind-seed >out.txt 2>&1 &&
          fail "diff of $kind: two seeds are equal"
      done
      ;;
    show | report)
      for kind in m l s; do
        runs_on $command base-synthetic-$kind
      done
      ;;
    checkpoint)
      for kind in m l s; do
        runs_on checkpoint show base-synthetic-$kind
      done
      ;;
    replay | verify)
      for kind in m l s; do
        model=
        [ $kind != s ] || model="--model e.so:line"
        # shellcheck disable=SC2086
        "$lockstep" $command runs/$kind-attest $model >out.txt 2>err.txt ||
          fail "$command of $kind"
        grep -q '^steps 0 to 2 are the same: .* 1 checkpoint$' out.txt ||
          fail "$command of $kind: $(cat out.txt)"
      done
      ends 2 "name its shared library, as --model" $command runs/s-attest
      ;;
    graph)
      runs_on graph tiny
      runs_on graph e.so:line
      cmp out.txt base-synthetic-s/graph.ls || fail "graph: not the training's"
      runs_on graph e.so:line --tpu --replicas 2 --gathered
      for program in --lowered --plan --cost "--plan --tpu --replicas 2"; do
        # shellcheck disable=SC2086
        runs_on graph e.so:line $program
      done
      ! ls -d steps-* 2>err.txt || fail "graph: a folder is left"
      ;;
    bench | summary | compile)
      short=
      [ $command != bench ] || short="--steps 3"
      for model in tiny e.so:line; do
        # shellcheck disable=SC2086
        runs_on $command $model --replicas 2 --batch-size 16 $short
        grep -q "^$model, 2 replicas.* batch of 16" out.txt ||
          fail "$command of $model"
      done
      # shellcheck disable=SC2086
      runs_on $command e.so:line --param width=16 $short --json
      ends 2 "--param is for estimators" $command tiny --param width=16
      ends 2 "--task, --outputs and --precision are for models" \
        $command e.so:line --precision bf16
      ends 2 "has no input to train with" $command e.so:bare
      ;;
    plan)
      runs_on plan tiny --data synthetic --no-steps
      runs_on plan e.so:line --no-steps --param width=16
      while read -r verb flag kind; do
        [ "$verb $kind" = "train s" ] || continue
        "$lockstep" plan e.so:line --no-steps "--$flag" 1 >out.txt 2>err.txt
        grep -q 'there is no flag' err.txt && [ "$flag" != eval-every ] &&
          [ "$flag" != model ] && fail "plan has no flag --$flag"
      done <decided.txt
      ends 2 "--data is not for estimators of shared libraries: " \
        plan e.so:line --data synthetic
      ends 2 "--param is for estimators" plan tiny --param width=16
      ends 2 "--estimator: models of the library are planned as models" \
        plan tiny --estimator
      ;;
    generate)
      for kind in l s; do
        "$lockstep" generate base-synthetic-$kind --prompt a >out.txt 2>err.txt &&
          fail "generate"
      done
      ;;
    serve) ;;  # Exports of all kinds: cli/serve.
    simulate)
      for kind in l s; do
        # shellcheck disable=SC2046
        ends 2 "an estimator's training is not simulated" \
          simulate --ranks 2 -- train $(words_of $kind)
      done
      ;;
    data | devices | doctor | launch | help) ;;  # Know no runs.
    *) fail "nobody decided on the command $command" ;;
  esac
done <flags.txt

exit $failed
