#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep compile prints figures of a model's step: of the CPU engine, and of
# TPUs that are not here, where there is a libtpu.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"

# prints WANTED ARGUMENT...: code 0, a line with WANTED on standard output.
prints() {
  wanted=$1
  shift
  if "$lockstep" compile "$@" >out.txt 2>err.txt &&
     grep -qE -- "$wanted" out.txt; then
    echo "ok   lockstep compile $*"
  else
    fail "lockstep compile $*: wanted: $wanted"
  fi
}

count='[0-9]+'
number='[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?'
prints "^\\{\"model\":\"tiny\",\"topology\":null,\"kind\":\"CPU\",\"devices\":1,\
\"replicas\":2,\"precision\":\"f32\",\"batch_size\":8,\"flops\":$count,\
\"bytes_accessed\":$count,\"argument_bytes\":$count,\"result_bytes\":$count,\
\"alias_bytes\":$count,\"temporary_bytes\":$count,\"code_bytes\":$count,\
\"compile_seconds\":$number\\}\$" tiny --replicas 2 --json
[ "$(wc -l <out.txt)" = 1 ] || fail "more than one line of JSON"
prints "^tiny, 1 replica on 1 of 1 devices 'CPU', f32, batch of 16\$" \
  tiny --batch-size 16

ends 2 "--topology is '', expected NAME" compile tiny --topology ''
ends 1 "no topology 'v5e:0x2'; a name has a kind and sizes, such as v5e:2x2" \
  compile tiny --topology v5e:0x2
ends 1 "topology 'v5e:2x2' is for devices with a plug-in" \
  compile tiny --topology v5e:2x2 --device cpu
ends 1 "/nowhere.so" compile tiny --topology v5e:2x2 --device pjrt:/nowhere.so

ends 2 "--steps: give a --topology, too" compile tiny --steps 100

libtpu=${LS_PJRT_TPU:-${LS_SOURCE_DIR:?}/build/plugins/libtpu/libtpu.so}
if [ ! -r "$libtpu" ] || [ -n "$sanitized" ]; then
  echo "TPUs are not checked: no libtpu in LS_PJRT_TPU or build/plugins"
  exit $failed
fi
prints "^\\{\"model\":\"mlp\",\"topology\":\"v5e:2x2\",\"kind\":\"TPU v5 lite\",\
\"devices\":4,\"replicas\":4,\"precision\":\"f32\",\"batch_size\":256,\
\"flops\":2[0-9]{8},\"bytes_accessed\":$count,\"argument_bytes\":2[0-9]{6},\
\"result_bytes\":2[0-9]{6},\"alias_bytes\":2[0-9]{6},\
\"temporary_bytes\":$count,\"code_bytes\":$count,\
\"compile_seconds\":$number\\}\$" \
  mlp --topology v5e:2x2 --replicas 4 --json --device "pjrt:$libtpu"
prints "^mlp, 2 replicas on 2 of 2 devices 'TPU v4' of topology v4:2x2x1, " \
  mlp --topology v4:2x2x1 --devices 2 --device "pjrt:$libtpu"
prints "\"devices\":4,\"replicas\":4,.*\"argument_bytes\":2[0-9]{7}," \
  mlp --topology v5e:2x2 --steps 100 --json --device "pjrt:$libtpu"
line=${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so:line
for steps in "" "--steps 100"; do
  # shellcheck disable=SC2086
  prints "^.*:line, 4 replicas on 4 of 4 devices .*, batch of 32\$" \
    "$line" --topology v5e:2x2 $steps --device "pjrt:$libtpu"
done
ends 1 "(of topology 'v5e:3x3')" \
  compile mlp --topology v5e:3x3 --device "pjrt:$libtpu"
ends 1 "a batch of 256 does not divide evenly among 3 replicas, and the CPU \
would compute it: use --batch-size 258 or --replicas 2" \
  compile mlp --topology v5e:2x2 --replicas 3 --device "pjrt:$libtpu"
if "$lockstep" devices --topology v4:2x2x1 --tpu local \
     --device "pjrt:$libtpu" >out.txt 2>err.txt &&
   grep -q "^tpu  8 TPU v4" out.txt && grep -qx "y 1  0:4,5  0:6,7" out.txt; then
  echo "ok   lockstep devices draws a topology"
else
  fail "lockstep devices --topology v4:2x2x1"
fi

exit $failed
