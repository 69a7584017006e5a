// SPDX-License-Identifier: Apache-2.0
//
// Reducing a distributed value's arrays from outside replicas.
#include "base/runtime_internal.h"
#include "dist/strategy.h"
#include "lockstep/eager.h"

// The components as eager tensors, added along the canonical tree by one op:
// the same kernel and order as in a program.
static ls_status reduce_leaf(ls_reduce_op op, ls_nest leaf,
                             ls_array **out_array) {
  const size_t count = ls_distributed_count(leaf);
  ls_allocator *allocator = ls_current_allocator();
  ls_tensor *items = ls_new_array(allocator, ls_tensor, count);
  if (items == NULL) return ls_out_of_memory();
  ls_status status = ls_frame_begin();
  if (!ls_status_is_ok(status)) {
    ls_release(allocator, items);
    return status;
  }
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    ls_array *array = ls_nest_as_array(ls_distributed_component(leaf, i));
    if (array == NULL)
      status = ls_invalid_argument("component %zu is no array", i);
    else
      items[i] = ls_constant(array);
  }
  if (ls_status_is_ok(status)) {
    ls_tensor sum = ls_add_n(items, count);
    const ls_dtype dtype = ls_tensor_dtype(sum);
    if (op == LS_REDUCE_MEAN)
      sum = ls_mul_scalar(sum, dtype == LS_DTYPE_F64
                                   ? 1.0 / (double)count
                                   : (double)(1.0f / (float)count));
    status = ls_tensor_value(sum, out_array);
  }
  const ls_status ended = ls_frame_end(NULL);
  ls_release(allocator, items);
  if (ls_status_is_ok(status)) return ended;
  ls_status_free(ended);
  return status;
}

static ls_nest reduce_any(ls_nest leaf, void *user) {
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  ls_array *array = NULL;
  const ls_status status =
      reduce_leaf(*(const ls_reduce_op *)user, leaf, &array);
  return ls_status_is_ok(status) ? ls_nest_array(array) : ls_fail(status);
}

ls_status ls_strategy_reduce(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest value, ls_nest *out_value) {
  (void)strategy;
  *out_value = ls_none();
  if (op != LS_REDUCE_SUM && op != LS_REDUCE_MEAN)
    return ls_invalid_argument("reduce op %d is neither LS_REDUCE_SUM nor "
                               "LS_REDUCE_MEAN",
                               (int)op);
  const ls_nest reduced = ls_nest_map(value, reduce_any, &op);
  const ls_status status = ls_nest_status(reduced);
  if (ls_status_is_ok(status))
    *out_value = reduced;
  else
    ls_nest_release(reduced);
  return status;
}
