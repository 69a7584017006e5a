// SPDX-License-Identifier: Apache-2.0
// Steps that touch only the rows of a variable that have a gradient: those that
// a gather looked up. The bits are those of the step over all rows.
#include "base/half.h"
#include "lockstep/strategy.h"
#include "nn/optimizer.h"

// Whether a gradient is that of few rows, so few that looking after them costs
// less than all of them: up to half as many, over all replicas.
static bool has_few_rows(ls_tensor gradient, int32_t replicas,
                         ls_tensor *out_indices, ls_tensor *out_values) {
  if (!ls_tensor_is_slices(gradient, out_indices, out_values)) return false;
  const ls_shape shape = ls_tensor_shape(*out_indices);
  const int64_t rows = ls_tensor_shape(gradient).dim[0];
  return shape.rank == 1 && shape.dim[0] > 0 &&
         shape.dim[0] <= rows / 2 / replicas;
}

// ---- Replicas --------------------------------------------------------------
// The replicas' x, one behind the other: each stands in its place among zeros,
// and is added to those of the others there.
static ls_tensor gather_replicas(ls_tensor x, int32_t replicas) {
  const ls_shape shape = ls_tensor_shape(x);
  ls_shape one = {.rank = shape.rank + 1, .dim = {1}}, all = shape;
  for (int i = 0; i < shape.rank; ++i)
    one.dim[i + 1] = shape.dim[i];
  ls_shape room = one;
  room.dim[0] = replicas;
  all.dim[0] *= replicas;
  ls_tensor starts[LS_MAX_RANK] = {ls_replica_id()};
  for (int i = 1; i < one.rank; ++i)
    starts[i] = ls_scalar_i64(LS_DTYPE_I32, 0);
  const ls_tensor placed = ls_dynamic_update_slice(
      ls_fill(ls_tensor_dtype(x), room, 0), ls_reshape(x, one), starts);
  return ls_reshape(ls_all_reduce(LS_REDUCE_SUM, placed), all);
}

ls_tensor ls_gradient_of_all(const ls_optimizer *optimizer,
                             const ls_shares *shares, ls_tensor gradient) {
  const int32_t replicas = shares->replicas;
  const bool is_sum = optimizer->over_replicas != LS_GRADIENTS_MEAN;
  if (replicas == 1) return gradient;
  ls_tensor indices, values;
  if (shares->differ || !has_few_rows(gradient, replicas, &indices, &values) ||
      ls_tensor_shape(values).rank == LS_MAX_RANK ||
      !ls_shape_is_known(ls_tensor_shape(values)))
    return is_sum ? ls_shares_sum(shares, gradient)
                  : ls_shares_mean(shares, gradient);
  if (!is_sum) values = ls_mul_scalar(values, 1 / (double)replicas);
  return ls_indexed_slices(gather_replicas(indices, replicas),
                           gather_replicas(values, replicas), gradient);
}

// ---- Rows ------------------------------------------------------------------
static ls_tensor zeros_like(ls_tensor x) {
  return ls_broadcast_like(ls_scalar(ls_tensor_dtype(x), 0), x);
}

// Adds up what belongs to one row, in the order it came in: rows sorted by
// index, and each one's number among the different ones. Where there are fewer
// of those, the rest has the index -1, which writes skip.
static void merge_equal(ls_update_rows *rows) {
  const ls_dtype dtype = ls_tensor_dtype(rows->gradient);
  const int64_t count = ls_tensor_shape(rows->indices).dim[0];
  const ls_tensor order = ls_argsort(rows->indices, 0, false);
  const ls_tensor sorted = ls_gather(rows->indices, order, 0);
  const ls_tensor parts[] = {ls_slice_axis(sorted, 0, 0, 1),
                             ls_slice_axis(sorted, 0, 0, count - 1)};
  const ls_tensor is_new = ls_not_equal(sorted, ls_concatenate(parts, 2, 0));
  const ls_tensor place =
      ls_cumsum(ls_convert(is_new, LS_DTYPE_I64), 0, false, false);
  const ls_tensor values = ls_convert(ls_gather(rows->gradient, order, 0),
                                      ls_is_half(dtype) ? LS_DTYPE_F32 : dtype);
  rows->indices =
      ls_scatter(LS_SCATTER_UPDATE, ls_fill(LS_DTYPE_I64, LS_SHAPE(count), -1),
                 place, sorted);
  rows->gradient = ls_convert(
      ls_scatter(LS_SCATTER_ADD, zeros_like(values), place, values), dtype);
}

bool ls_update_find_rows(ls_tensor gradient, ls_update_rows *out_rows) {
  if (!has_few_rows(gradient, 1, &out_rows->indices, &out_rows->gradient))
    return false;
  out_rows->indices = ls_convert(out_rows->indices, LS_DTYPE_I64);
  merge_equal(out_rows);
  return true;
}

ls_tensor ls_update_read_rows(const ls_update *update, size_t slot,
                              const ls_update_rows *rows) {
  return ls_gather(ls_update_read(update, slot), rows->indices, 0);
}

void ls_update_slot_rows(const ls_update *update, size_t slot,
                         const ls_update_rows *rows, ls_tensor values) {
  update->ops[1 + slot] = ls_tensor_op(
      ls_variable_scatter_update(update->slots[slot], rows->indices, values));
}

void ls_update_move_rows(const ls_update *update, const ls_update_rows *rows,
                         ls_tensor delta) {
  ls_tensor moved = ls_variable_scatter(update->variable, LS_SCATTER_SUB,
                                        rows->indices, delta);
  // A constraint is about the whole value.
  if (ls_variable_has_constraint(update->variable))
    moved = ls_variable_assign(update->variable,
                               ls_variable_constrain(update->variable, moved));
  update->ops[0] = ls_tensor_op(moved);
}
