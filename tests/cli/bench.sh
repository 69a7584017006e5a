#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# lockstep bench and lockstep graph print what they promise.

# shellcheck source=tests/support/cli.sh
. "$(dirname "$0")/../support/cli.sh"

# prints WANTED ARGUMENT...: code 0, WANTED on standard output, no error.
prints() {
  wanted=$1
  shift
  # AddressSanitizer says once that it does not know fibers.
  if "$lockstep" "$@" >out.txt 2>err.txt &&
     ! grep -qv '^==[0-9]*==WARNING: ASan' err.txt &&
     grep -qE -- "$wanted" out.txt; then
    echo "ok   lockstep $*"
  else
    fail "lockstep $*: wanted: $wanted"
  fi
}

number='[0-9]+(\.[0-9]+)?(e[+-][0-9]+)?'
prints "^\\{\"model\":\"tiny\",\"replicas\":4,\"threads\":2,\
\"precision\":\"f32\",\"math\":\"fast\",\"batch_size\":8,\"steps\":20,\"min_ms\":$number,\
\"median_ms\":$number,\"in_a_row_ms\":$number,\"first_step_ms\":$number,\"rss_mb\":$number,\
\"gflops\":$number\\}\$" \
  bench tiny --replicas 4 --threads 2 --steps 20 --json
[ "$(wc -l <out.txt)" = 1 ] || fail "more than one line of JSON"
prints "step +$number ms median, $number ms least, of 5\$" \
  bench tiny --steps 5 --batch-size 16
grep -qE "^  in a row +$number ms median, " out.txt || fail "no time in a row"
prints "^\\{\"model\":\"tiny\",.*,\"precision\":\"f64\",.*\\}\$" \
  bench tiny --precision f64 --steps 5 --json
prints "^\\{\"model\":\"gpt\",.*\"gflops\":$number\\}\$" \
  bench gpt --batch-size 2 --steps 1 --json
prints "\"math\":\"direct\"" bench tiny --math direct --steps 5 --json
# A processor without bf16 products has a warning.
export LS_LOG=error
prints "\"math\":\"bf16-direct\"" \
  bench tiny --precision bf16 --math direct --steps 5 --json
unset LS_LOG
prints "^tiny, 1 replica, 1 thread, f32, fast math, batch of 16\$" \
  bench tiny --steps 5 --batch-size 16 --threads 1

# More outputs are more work: products of 512 by 1000 in place of 512 by 10.
work() {
  prints gflops bench mlp --batch-size 8 --steps 2 --json "$@"
  millions=$(sed 's/.*"median_ms":\([^,]*\).*"gflops":\([^}]*\)}.*/\1 \2/' out.txt |
    awk '{ printf "%.0f", $1 * $2 }')
}
work
few=$millions
work --outputs 1000
[ $((10 * millions)) -gt $((15 * few)) ] || fail "$millions Mflop, $few before"

line=${LS_BUILD_DIR:?}/tests/cli/libraries/estimators.so:line
prints "^\\{\"model\":\"$line\",\"replicas\":2,.*\"batch_size\":16,.*\"gflops\":$number\\}\$" \
  bench "$line" --replicas 2 --batch-size 16 --steps 5 --json

prints "^.*:fixed, 1 replica, .* batch of 32\$" bench "${line%:*}:fixed" --steps 5

prints "softmax_cross_entropy" graph tiny
prints "read_variable" graph tiny
prints "^graph lowered" graph tiny --lowered
prints "^digraph" graph tiny --dot
prints "all_reduce" graph tiny --replicas 2 --plan
prints "tpu_replicated_output" graph tiny --replicas 2 --tpu
prints "= replicate\\(.*num_split = 2" graph tiny --replicas 2 --gathered

# The cost of a step: its memory, the machine, a table of kernels.
count='[0-9]+\.[0-9]+'
prints "^kernel +ms  share +runs +Gflop/s +GB/s of bound\$" \
  graph cnn --cost --batch-size 4 --threads 1
grep -qE '^memory, MB: variables [0-9.]+, constants ' out.txt &&
  grep -qE '^machine: .* Gflop/s in products, .*, 1 threads?$' out.txt ||
  fail "the costs have no head"
for kernel in conv_bias_act conv_pool_max conv_pool_grad_input conv_pool_grad_weights all; do
  grep -qE "^$kernel +$count +$count% +$count +$count +$count +[0-9]+%\$" \
    out.txt || fail "the costs have no row for $kernel"
done

"$lockstep" bench tiny --replicas 3 >out.txt 2>err.txt ||
  fail "a batch of 8 on 3 replicas is refused"

# A result that cannot be written is an error.
if [ -c /dev/full ]; then
  "$lockstep" graph tiny >/dev/full 2>err.txt
  [ $? = 1 ] && grep -q "cannot write to standard output: No space left" err.txt ||
    fail "a full disk is not noticed"
fi

exit $failed
