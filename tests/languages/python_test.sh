#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# python/lockstep.py, where there is a Python: see python_test.py
# and python_guards_test.py.

set -eu
python=${LS_SOURCE_DIR:?}/build/peers/bin/python
[ -x "$python" ] || python=$(command -v "${PYTHON:-python3}") ||
  { echo "not checked, as there is no python3"; exit 0; }
"$python" -c 'import ctypes' 2>/dev/null ||
  { echo "not checked, as $python has no ctypes"; exit 0; }
export LOCKSTEP_LIBRARY="${LS_BUILD_DIR:?}/liblockstep.so"
export PYTHONPATH="$LS_SOURCE_DIR/python:$LS_SOURCE_DIR/examples"
export PYTHONDONTWRITEBYTECODE=1
for test in python_test python_guards_test; do
  "$python" -X faulthandler "$LS_SOURCE_DIR/tests/languages/$test.py"
done
