// SPDX-License-Identifier: Apache-2.0
// Batches and replicas: dealing one out, and what it is as a whole.
#include <math.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"

static ls_nest split_leaf(ls_nest leaf, void *user) {
  ls_nest parts = {0};
  if (leaf.kind != LS_KIND_ARRAY) return ls_nest_retain(leaf);
  const ls_status status =
      ls_strategy_split(user, ls_nest_as_array(leaf), &parts);
  return ls_status_is_ok(status) ? parts : ls_fail(status);
}

ls_status ls_train_split(ls_strategy *strategy, ls_nest batch,
                         ls_nest *out_args) {
  LS_REQUIRE_OUT(out_args);
  LS_REQUIRE(strategy);
  const ls_nest args = ls_strategy_num_replicas(strategy) == 1
                           ? ls_nest_retain(batch)
                           : ls_nest_map(batch, split_leaf, strategy);
  ls_status status = ls_nest_status(args);
  *out_args = ls_status_is_ok(status) ? args : ls_none();
  if (!ls_status_is_ok(status)) ls_nest_release(args);
  return status;
}

// ---- Means -----------------------------------------------------------------
// The first leaf with a component for each replica; none.
static ls_nest find_distributed(ls_nest nest) {
  if (nest.kind == LS_KIND_DISTRIBUTED) return nest;
  ls_nest found = ls_none();
  for (size_t i = 0; i < ls_nest_count(nest) && found.kind == LS_KIND_NONE; ++i)
    found = find_distributed(ls_nest_item(nest, i));
  return found;
}

static ls_status split_number(ls_nest leaf, double *out_number) {
  const ls_array *array = ls_nest_as_array(leaf);
  *out_number = (double)NAN;
  if (array == NULL || ls_array_num_elements(array) != 1)
    return ls_invalid_argument("a mean over examples of what is no number");
  *out_number = ls_array_f64(array, 0);
  return ls_ok();
}

// How many examples replica `r` has; 1 where there is no telling.
static int64_t examples_of(ls_nest parts, size_t r) {
  if (parts.kind == LS_KIND_NONE) return 1;
  const ls_array *array = ls_nest_as_array(ls_distributed_component(parts, r));
  const ls_shape shape = array == NULL ? LS_SCALAR : ls_array_shape(array);
  return shape.rank < 1 ? 1 : shape.dim[0];
}

ls_status ls_train_mean(ls_nest args, ls_nest value, double *out_mean) {
  LS_REQUIRE_OUT(out_mean);
  const ls_nest parts = find_distributed(args);
  const size_t count = ls_distributed_count(value);
  if (count == 0) return split_number(value, out_mean);
  *out_mean = (double)NAN;
  if (parts.kind != LS_KIND_NONE && ls_distributed_count(parts) != count)
    return ls_invalid_argument("a mean of %zu numbers over the examples of %zu "
                               "replicas",
                               count, ls_distributed_count(parts));
  double sum = 0;
  int64_t all = 0;
  for (size_t r = 0; r < count; ++r) {
    const int64_t examples = examples_of(parts, r);
    double mean = 0;
    LS_RETURN_IF_ERROR(split_number(ls_distributed_component(value, r), &mean));
    if (examples > 0) sum += mean * (double)examples;
    all += examples;
  }
  *out_mean = sum / (double)all;
  return ls_ok();
}
