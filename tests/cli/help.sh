#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Every command explains itself, on standard output and with code 0.

set -u
lockstep=${LOCKSTEP:?}
failed=0

# explains WANTED ARGUMENT...
explains() {
  wanted=$1
  shift
  if "$lockstep" "$@" >out.txt 2>err.txt && [ ! -s err.txt ] &&
     grep -qF -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    echo "FAIL lockstep $*: wanted: $wanted"
    cat out.txt err.txt
    failed=1
  fi
}

explains "usage: lockstep COMMAND" help
explains "usage: lockstep COMMAND" --help
explains "usage: lockstep COMMAND" -h
explains "LS_THREADS=" help env
for command in train bench graph devices help; do
  explains "usage: lockstep $command" $command --help
  explains "usage: lockstep $command" help $command
  explains "  $command " help
done
for flag in model data replicas threads batch-size epochs steps learning-rate \
            schedule seed run-dir overwrite quiet; do
  explains "--$flag" train --help
done
explains "compute thread" devices
explains "1 compute thread," devices --threads 1

# Lines fit a terminal of 80 columns.
for command in train bench graph devices help; do
  if "$lockstep" help $command | grep -n '.\{81,\}'; then
    echo "FAIL a line of 'lockstep help $command' is too long"
    failed=1
  fi
done

exit $failed
