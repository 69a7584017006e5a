#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep summary: layers, their work and memory, at any width.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"
libraries=${LS_BUILD_DIR:?}/tests/cli/libraries

# shows WANTED: one line of the last output.
shows() {
  grep -qxE -- "$1" out.txt || fail "no line: $1"
}
summarize() {
  "$lockstep" summary "$@" >out.txt 2>err.txt || fail "lockstep summary $*"
}

summarize cnn --batch-size 4
shows 'cnn, 1 replica, f32, batch of 4'
shows 'layer +output +parameters +other +forward +step +activations'
shows 'conv2 +\[4,28,28,64\] +18,496 +0 +116 Mflop +173 Mflop +2.* KiB'
shows 'reduce_window +\[4,14,14,64\] +0 +0'
shows 'hidden +\[4,128\] +1,605,760 +0 +12.8 Mflop +38.5 Mflop +2.00 KiB'
shows '\(optimizer\) +0 +3,251,733'
shows '\(total\) +1,625,866 +0 +130 Mflop +216 Mflop +.*iB'
shows 'memory of parameters  6.20 MiB'
grep -qE "[^[:print:]]" out.txt && fail "colours or other escapes in a file"

# The output is a replica's, the work that of all replicas.
summarize gpt --batch-size 4 --replicas 2
shows 'gpt, 2 replicas, f32, batch of 4'
shows 'block1/attention +\[2,128,256\] +262,144 +0 +302 Mflop +924 Mflop +.*'
shows 'block2/gelu +\[2,128,1024\] +0 +0'
shows 'positions +32,768 +0'
grep -q '^replicate' out.txt && fail "the code around the replicas is a layer"

# Statistics that are averaged are other numbers of their layer.
if [ -z "$sanitized" ]; then
  summarize resnet20 --batch-size 2
  shows 'stem/norm +\[2,32,32,16\] +32 +32 +.*'
  shows 'relu_8 +.*'
fi

# As JSON: one line, with the totals of the table.
summarize tiny --batch-size 6 --json
[ "$(wc -l <out.txt)" = 1 ] || fail "more than one line of JSON"
layer='"layer":"hidden1","dtype":"f32","output":\[6,16\],"parameters":272,'
grep -qE "\{$layer\"other\":0,\"forward_flops\":3072," out.txt ||
  fail "no layer hidden1"
grep -qE '"total":\{"parameters":340,"other":0,"forward_flops":3840,' out.txt ||
  fail "no total"

# The model of a run has its sizes, as in graph and bench.
rm -rf runs
printf 'a,b,label\n1.5,2,0\n2.5,1,1\n3,4,2\n' >three.csv
"$lockstep" train --model tiny --data three.csv --outputs 3 --test none \
  --batch-size 2 --quiet --run-dir runs/three >out.txt 2>err.txt || fail "a run"
summarize runs/three
shows 'runs/three, 1 replica, f32, batch of 2'
shows 'hidden1 +\[2,16\] +48 .*'
shows 'logits +\[2,3\] +51 .*'
"$lockstep" graph runs/three --plan >out.txt 2>err.txt || fail "graph of a run"
"$lockstep" bench runs/three --steps 1 >out.txt 2>err.txt || fail "bench"
for command in "plan runs/three" "train --model runs/three"; do
  # shellcheck disable=SC2086
  ends 2 "is a run, no model: --config runs/three/config.json" $command
done
ends 2 "the model stands by itself, as in 'lockstep plan mlp'" plan --model cnn

# Models and estimators of a shared library. A function that makes a layer and
# applies it has two scopes of its name, and the layer is the second one.
summarize "$libraries/mine.so" --batch-size 8
shows 'only +\[8,4\] +68 +0 +1.02 kflop .*'
for replicas in 1 2; do
  summarize "$libraries/estimators.so:line" --replicas $replicas
  shows "a_1 +\\[$((32 / replicas)),8\\] +136 +0 +8.19 kflop +16.4 kflop .*"
  shows '\(optimizer\) +0 +346'
  shows '\(total\) +172 +0 +10.2 kflop +.*'
done
summarize "$libraries/estimators.so:line" --param width=16 --json
grep -q '"total":{"parameters":340,' out.txt || fail "--param of an estimator"
# The batch is that of the input, whatever the estimator says.
for replicas in 1 2; do
  summarize "$libraries/estimators.so:fixed" --replicas $replicas --param rows=500
  shows ".*:fixed, $replicas replicas?, f32, batch of 100"
  shows "a_1 +\\[$((100 / replicas)),8\\] +136 .*"
done
summarize "$libraries/estimators.so:fixed" --batch-size 32 --json
grep -q '"batch_size":32,' out.txt || fail "another batch size"
ends 1 "--batch-size is 512, but the input of \
'$libraries/estimators.so:fixed' gives a batch of 32" \
  summary "$libraries/estimators.so:fixed" --batch-size 512
ends 2 "there is no model 'x'" summary x
ends 2 "MODEL is missing" summary
ends 2 "--batch-size is '0'" summary tiny --batch-size 0

# On a terminal no line is wider than it. Needs script, from util-linux.
command -v script >/dev/null || exit $failed
for columns in 20 40 80 160; do
  TERM=xterm script -qec "stty cols $columns; '$lockstep' summary cnn \
    --batch-size 2" typescript </dev/null >out.txt 2>err.txt ||
    fail "a summary on a terminal fails"
  tr -d '\r' <out.txt | grep -vE '^(memory|  )' |
    grep -E ".{$((columns + 1))}" |
    grep -v '^cnn, ' && fail "wider than $columns columns"
  grep -q "$(printf '\033')" out.txt && fail "escapes on a terminal"
  [ $columns = 160 ] || shows_left=$(grep -c '^not shown: ' out.txt)
  case $columns in
  40) [ "$shows_left" = 1 ] || fail "columns are left out silently" ;;
  esac
done

exit $failed
