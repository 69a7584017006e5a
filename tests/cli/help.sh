#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every command explains itself, on standard output and with code 0.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"

# explains WANTED ARGUMENT...: what was just run is not run again.
run=
explains() {
  wanted=$1
  shift
  if [ "$run" != "$*" ]; then
    run=$*
    "$lockstep" "$@" >out.txt 2>err.txt
    code=$?
  fi
  if [ "$code" = 0 ] && [ ! -s err.txt ] && grep -qF -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: wanted: $wanted"
  fi
}

explains "usage: lockstep COMMAND" help
explains "usage: lockstep COMMAND" --help
explains "usage: lockstep COMMAND" -h
explains "3 interrupted before" help
explains "If a flag is given twice, the last value counts." help
explains "LS_THREADS=" help env
explains "LS_LOG=off|error|warning|info|debug" help env
for command in train eval predict export; do
  explains "  --estimator " $command --help
done
# Names of the library: calls, types, constants and macros.
explains "ls_status ls_train(const ls_train_options *options," help ls_train
explains "  model.safetensors    the model's variables alone" help ls_train
explains '#include "lockstep/train.h"' help ls_train
explains "} ls_train_options;" help ls_train_options
explains "LS_DATA_LOSS = 15," help LS_DATA_LOSS
explains "#define LS_AXES(...)" help LS_AXES
explains "|x|" help ls_abs
explains "ls_tensor ls_dropout(" help dropout
version=$(sed -n 's/^#define LS_VERSION_M[AI][JN]OR //p' \
          "${LS_SOURCE_DIR:?}/include/lockstep/version.h" | paste -sd.)
explains "lockstep $version." --version
explains "--version" help
for command in train eval generate export show report checkpoint diff bench graph compile devices doctor launch simulate help; do
  explains "usage: lockstep $command" $command --help
  explains "usage: lockstep $command" help $command
done
for command in train eval generate export show report checkpoint diff bench graph compile devices doctor launch simulate help; do
  explains "  $command " help
done
for flag in model data replicas threads batch-size epochs steps optimizer \
            warm-start only map learning-rate schedule warmup weight-decay clip-norm accumulate \
            precision math seed run-dir overwrite resume save-every trace quiet tpu \
            iterations-per-loop; do
  explains "--$flag" train --help
done
for field in model replicas threads precision math batch_size steps min_ms \
             median_ms in_a_row_ms first_step_ms rss_mb gflops; do
  explains "$field" bench --help
done
for field in topology kind devices flops bytes_accessed argument_bytes \
             result_bytes alias_bytes temporary_bytes code_bytes compile_seconds; do
  explains "$field" compile --help
done
for optimizer in sgd momentum nesterov adam adamw lamb adagrad rmsprop lion; do
  explains "$optimizer" train --help
done
# Each model stands there with what it is.
explains "tiny      16 inputs, dense 16 relu, dense 4; SGD" help
for model in mlp cnn resnet20 unet gpt; do
  explains "  $model " help
done
explains "compute thread" devices
explains "1 compute thread," devices --threads 1
explains "3 replicas, in this process:" devices --replicas 3
explains "      2  /job:localhost/replica:0/task:0/device:CPU:2" \
  devices --replicas 3
explains "They share the 2 threads" devices --replicas 3 --threads 2
explains "The thread runs one after another" devices --replicas 3 --threads 1
explains "--tpu NAME" devices --help
explains "TPU system 'local', initialized" devices --tpu local
explains "y 1  0:4,5  0:6,7" devices --tpu local
for line in "mesh    4 x 2 x 1: 8 chips of 2 cores, 16 cores" \
            "hosts   2 hosts of 8 cores: /job:worker/task:0 to /task:1" \
            "y 0  0:0,1  0:2,3  |  1:0,1  1:2,3"; do
  explains "$line" devices --tpu virtual:4x2,hosts=2
done
run=
LS_ISA=base
export LS_ISA
explains "kernels base" devices
unset LS_ISA

# Lines fit a terminal of 80 columns.
for command in list show diff verify convert; do
  explains "usage: lockstep checkpoint $command" checkpoint $command --help
  if "$lockstep" checkpoint $command --help | grep -n '.\{81,\}'; then
    echo "FAIL a line of 'lockstep checkpoint $command --help' is too long"
    failed=1
  fi
done
for command in $("$lockstep" help |
                 sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
  if "$lockstep" help $command | grep -n '.\{81,\}'; then
    echo "FAIL a line of 'lockstep help $command' is too long"
    failed=1
  fi
done

exit $failed
