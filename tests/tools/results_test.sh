#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# Each public call that returns a status and has a result, a parameter that
# begins with "out_", has a row in a refused_results_test.c.

set -eu
source=${LS_SOURCE_DIR:?}
failed=0

calls=$(sed 's|//.*||' "$source"/include/lockstep/*.h | tr '\n' ' ' |
  tr ';{}' '\n\n\n' | grep 'ls_status .*\*out_' |
  sed -n 's/.*ls_status  *\(ls_[a-z0-9_]*\)(.*/\1/p' | sort -u)
[ "$(echo "$calls" | wc -l)" -gt 250 ] || { echo "FAIL: no calls found"; exit 1; }
for call in $calls; do
  grep -qs "[ (]$call(" "$source"/tests/*/refused_results_test.c ||
    { echo "FAIL $call has no row in tests/*/refused_results_test.c"; failed=1; }
done
exit $failed
