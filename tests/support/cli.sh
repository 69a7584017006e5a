# SPDX-License-Identifier: Apache-2.0
#
# What the scripts of tests/cli share, each of which begins with this and ends
# with 'exit $failed'. What a command prints is in out.txt and err.txt.
# shellcheck shell=sh disable=SC2034

set -u
lockstep=${LOCKSTEP:?}
# Sanitizers make the large models slow and see nothing new in them here.
sanitized=${LS_SANITIZE:-}
failed=0

# fail WHAT: says it, and what the last command printed.
fail() {
  echo "FAIL $*"
  cat out.txt err.txt
  failed=1
}

# ends CODE WANTED ARGUMENT...: with this code, nothing on standard output and
# one line with WANTED on standard error.
ends() {
  wanted_code=$1
  wanted=$2
  shift 2
  "$lockstep" "$@" >out.txt 2>err.txt
  code=$?
  if [ "$code" = "$wanted_code" ] && [ ! -s out.txt ] &&
     [ "$(wc -l <err.txt)" = 1 ] && grep -qF -- "$wanted" err.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: code $code, wanted $wanted_code and: $wanted"
  fi
}

# waits_for COMMAND...: for up to 30 s.
waits_for() {
  waited=0
  while ! "$@" && [ $waited -lt 600 ]; do
    sleep 0.05
    waited=$((waited + 1))
  done
}
