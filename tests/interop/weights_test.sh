#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Layers with weights of PyTorch and of Keras compute what those do, where a
# Python has these: the one of the benchmarks' peers, or the system's.

set -eu
python=${LS_SOURCE_DIR:?}/build/peers/bin/python
[ -x "$python" ] || python=$(command -v python3) ||
  { echo "not checked, as there is no python3"; exit 0; }
"$python" "$LS_SOURCE_DIR/tests/interop/check-weights" \
  --build "${LS_BUILD_DIR:?}"
