#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# `pip install ./python` in a virtual environment, without an index: the module
# that it installs finds the library of the system, one that LOCKSTEP_LIBRARY
# names, and else says what to do; it can be uninstalled without a trace.

set -eu
source=${LS_SOURCE_DIR:?}
build=${LS_BUILD_DIR:?}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python=$(command -v "${PYTHON:-python3}") ||
  { echo "not checked, as there is no python3"; exit 0; }
"$python" -c 'import ctypes, venv' 2>/dev/null ||
  { echo "not checked, as $python has no ctypes or no venv"; exit 0; }
"$python" -m pip --python "$python" --version >"$work/log" 2>&1 ||
  { echo "not checked, as $python has no pip of 22.3 or later"; exit 0; }
unset LOCKSTEP_LIBRARY PYTHONPATH
export PYTHONDONTWRITEBYTECODE=1 PIP_NO_INDEX=1 PIP_NO_CACHE_DIR=1 \
  PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore
unset PIP_FIND_LINKS
cd "$work"
"$python" -m venv --without-pip venv
find venv -type f | LC_ALL=C sort >before
cp -r "$source/python" tree
pip() {
  "$python" -m pip --python venv/bin/python "$@" >log 2>&1 ||
    { cat log; echo "FAIL: pip $*"; exit 1; }
}
pip install ./tree

version=$(sed -n 's/^ *Version: *//p' "$build/lockstep.pc")
pip show lockstep
grep -qx "Version: $version" log || { cat log; exit 1; }

# expect PATTERN [NAME=VALUE...]: what the module's version, or its error, is.
expect() {
  pattern=$1
  shift
  env "$@" venv/bin/python -c 'import lockstep; print(lockstep.version())' \
    >says 2>&1 || true
  tail -n 1 says | grep -qE "$pattern" ||
    { cat says; echo "FAIL: wanted '$pattern' with $*"; exit 1; }
}
expect "^$version\$" LD_LIBRARY_PATH="$build"
expect "^$version\$" LOCKSTEP_LIBRARY="$build/liblockstep.so"
expect "LOCKSTEP_LIBRARY names .*/nowhere/liblockstep.so" \
  LOCKSTEP_LIBRARY=/nowhere/liblockstep.so
echo garbage >garbage.so
expect "LOCKSTEP_LIBRARY names .*garbage.so" LOCKSTEP_LIBRARY="$work/garbage.so"
echo 'int ls_no; int ls_no;' | "${CC:-cc}" -shared -fPIC -xc - -o other.so
expect "other.so is no liblockstep, or one that is older than this module" \
  LOCKSTEP_LIBRARY="$work/other.so"
if env venv/bin/python -c 'import ctypes; ctypes.CDLL("liblockstep.so.0")' \
  2>says; then
  echo "liblockstep is installed here: a missing one is not tried"
else
  expect "ImportError: .*make install.*ldconfig.*LOCKSTEP_LIBRARY" A=b
fi

pip uninstall -y lockstep
find venv -type f | LC_ALL=C sort >after
diff before after
