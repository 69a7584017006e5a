// SPDX-License-Identifier: Apache-2.0
#include "support/buckets.h"

#include <math.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/distributed.h"
#include "runtime/program.h"
#include "support/expect.h"
#include "support/values.h"

size_t buckets_num_programs(void) {
  ls_runtime_state *state = NULL;
  expect_ok(ls_runtime_state_get(ls_runtime_current(), &state));
  return state->programs.count;
}

ls_nest buckets_component(ls_nest value, int r) {
  return value.kind == LS_KIND_DISTRIBUTED
             ? ls_distributed_component(value, (size_t)r)
             : value;
}

// The bits of a NaN are not promised.
static bool are_same(const ls_array *a, const ls_array *b) {
  if (!ls_shape_equal(ls_array_shape(a), ls_array_shape(b))) return false;
  const size_t size = ls_dtype_size(ls_array_dtype(a));
  const char *x = ls_array_data(a), *y = ls_array_data(b);
  for (int64_t i = 0; i < ls_array_num_elements(a); ++i)
    if (memcmp(x + (size_t)i * size, y + (size_t)i * size, size) != 0 &&
        !(isnan(ls_array_f64(a, i)) && isnan(ls_array_f64(b, i))))
      return false;
  return true;
}

void buckets_expect_same(const char *name, const ls_array *got,
                         const ls_array *wanted, const char *what, size_t i) {
  if (!are_same(got, wanted))
    fail_msg("'%s': %s %zu differs, %.9g and not %.9g", name, what, i,
             ls_array_f64(got, 0), ls_array_f64(wanted, 0));
}

ls_tensor buckets_table(void) {
  double values[12];
  fill_numbers(values, 12, 3);
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SHAPE(3, 4), values);
  return ls_constant(array);
}

ls_nest buckets_values(const int64_t *sizes) {
  ls_nest x[2], y[2], z[2];
  for (int r = 0; r < 2; ++r) {
    const uint32_t seed = (uint32_t)(10 * sizes[r] + r);
    x[r] = ls_nest_array(
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(sizes[r], 4), seed));
    z[r] = ls_nest_array(
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(sizes[1 - r], 4), seed + 5));
    y[r] = ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(sizes[r]));
    for (int64_t i = 0; i < sizes[r]; ++i)
      ((int32_t *)ls_nest_data(y[r], 0))[i] = (int32_t)(i % 3);
  }
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, x, 2),
                  ls_nest_distributed(LS_PER_REPLICA, y, 2),
                  ls_nest_distributed(LS_PER_REPLICA, z, 2));
}
