// SPDX-License-Identifier: Apache-2.0
#include "nn/shares.h"

#include "base/memory/own.h"
#include "base/values/nest_builder.h"
#include "base/values/numbers.h"
#include "distribute/cross_device/cross_device.h"
#include "distribute/replicas/rounds.h"
#include "graph/make/make.h"
#include "lockstep/losses.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "nn/optimizer.h"

ls_shares ls_shares_find(bool mean) {
  ls_shares shares = {.replicas = ls_num_replicas()};
  shares.differ = shares.replicas > 1 && ls_replica_examples(&shares.count);
  if (shares.differ && mean)
    shares.total = ls_all_reduce(LS_REDUCE_SUM, shares.count);
  return shares;
}

ls_tensor ls_shares_examples(const ls_shares *shares,
                             ls_tensor (*sum)(ls_tensor count)) {
  ls_tensor count;
  bool alike = false;
  if (!ls_examples_find(&count, &alike)) return ls_scalar(LS_DTYPE_F64, 1);
  if (shares->replicas > 1 && !alike) count = sum(count);
  count = ls_convert(count, LS_DTYPE_F64);
  return shares->replicas > 1 && alike ? ls_mul_scalar(count, shares->replicas)
                                       : count;
}

// Returns x if there are examples, else -0, because y + -0 is y for every y, -0
// included.
static ls_tensor if_present(const ls_shares *shares, ls_tensor x) {
  const ls_tensor none = ls_scalar(ls_tensor_dtype(shares->count), 0);
  const ls_tensor missing = ls_scalar(ls_tensor_dtype(x), -0.0);
  return ls_select(ls_greater(shares->count, none), x, missing);
}

// Returns the contribution of a replica to a mean by examples.
static ls_tensor weighted_share(const ls_shares *shares, ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_dtype wide = ls_wide_dtype(dtype);
  const ls_tensor count = ls_convert(shares->count, wide);
  return if_present(shares, ls_mul(ls_convert(x, wide), count));
}

ls_tensor ls_shares_divided(ls_tensor total, ls_tensor sum, ls_dtype dtype) {
  const ls_dtype wide = ls_tensor_dtype(sum);
  total = ls_convert(total, wide);
  const ls_tensor one = ls_div(ls_scalar(wide, 1), total);
  return ls_convert(ls_mul(sum, one), dtype);
}

ls_tensor ls_shares_sum(const ls_shares *shares, ls_tensor x) {
  if (shares->replicas == 1) return x;
  return ls_all_reduce(LS_REDUCE_SUM,
                       shares->differ ? if_present(shares, x) : x);
}

ls_tensor ls_shares_mean(const ls_shares *shares, ls_tensor x) {
  if (shares->replicas == 1) return x;
  if (!shares->differ) return ls_all_reduce(LS_REDUCE_MEAN, x);
  return ls_shares_divided(
      shares->total, ls_all_reduce(LS_REDUCE_SUM, weighted_share(shares, x)),
      ls_tensor_dtype(x));
}

// ---- Forward pass ----------------------------------------------------------
static ls_nest mean_of_inputs(ls_nest inputs, ls_tensor x) {
  const ls_shares shares = {.replicas = ls_num_replicas(),
                            .differ = true,
                            .count = ls_nest_tensor(inputs, 1),
                            .total = ls_nest_tensor(inputs, 2)};
  return ls_leaf(ls_shares_mean(&shares, x));
}

static ls_nest take_mean(ls_nest inputs, void *user) {
  (void)user;
  return mean_of_inputs(inputs, ls_nest_tensor(inputs, 0));
}

// Computes the gradient of a mean over the batch. Losses are means over the
// examples of a part, and optimizers average them, so that each part gets the
// mean of the gradients.
static ls_nest mean_gradient(ls_nest inputs, ls_nest outputs, ls_nest gradients,
                             void *user) {
  (void)outputs;
  (void)user;
  return LS_TUPLE(mean_of_inputs(inputs, gradients.as.tensor), ls_none(),
                  ls_none());
}

ls_tensor ls_shares_statistic(const ls_shares *shares, ls_tensor x) {
  if (!shares->differ) return ls_shares_mean(shares, x);
  LS_OWN(ls_nest, made) = ls_custom_gradient(
      take_mean, mean_gradient, NULL,
      LS_TUPLE(ls_leaf(x), ls_leaf(shares->count), ls_leaf(shares->total)));
  return made.kind == LS_KIND_TENSOR
             ? made.as.tensor
             : ls_make_failed("mean", ls_nest_status(made));
}

ls_tensor ls_examples_mean(ls_tensor x) {
  if (ls_tensor_is_failed(x)) return x;
  if (!ls_dtype_is_float(ls_tensor_dtype(x)))
    return ls_make_failed(
        "examples_mean",
        ls_invalid_argument(
            "examples_mean takes floats, got %s",
            LS_SHAPE_TEXT(ls_tensor_dtype(x), ls_tensor_shape(x))));
  const ls_shares shares = ls_shares_find(true);
  return ls_shares_statistic(&shares, x);
}

// ---- Contributions to sums -------------------------------------------------
ls_tensor ls_shares_given(const ls_shares *shares, bool mean, ls_tensor x) {
  if (!shares->differ) return x;
  return mean ? weighted_share(shares, x) : if_present(shares, x);
}

bool ls_shares_has_own_ops(const ls_shares *shares) {
  const ls_replica *replica =
      shares->replicas > 1 ? ls_replica_context() : NULL;
  if (replica == NULL) return false;
  const ls_cross_device *ops =
      ls_strategy_cross_device(ls_replica_strategy(replica));
  return ops != NULL && !ops->built_in;
}

ls_status ls_shares_reduce_by_own(const ls_shares *shares, bool mean,
                                  ls_tensor *xs, size_t count) {
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < count; ++i)
    ls_nest_builder_append(&items,
                           ls_leaf(ls_shares_given(shares, mean, xs[i])));
  LS_OWN(ls_nest, all) = ls_nest_builder_finish(&items, LS_KIND_LIST);
  const bool divides = mean && shares->differ;
  LS_OWN(ls_nest, made) = ls_replica_all_reduce(
      ls_replica_context(), mean && !divides ? LS_REDUCE_MEAN : LS_REDUCE_SUM,
      all);
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  for (size_t i = 0; i < count; ++i) {
    const ls_tensor x = ls_nest_tensor(made, i);
    const ls_dtype dtype = ls_tensor_dtype(xs[i]);
    xs[i] = divides ? ls_shares_divided(shares->total, x, dtype) : x;
  }
  return ls_ok();
}

// ---- Gradients of rows ------------------------------------------------------
// Steps that update only the rows of a variable that have a gradient: the rows
// that a gather looked up. The bits are those of a step over all rows.

// Returns true for a gradient of few rows: at most half of all rows, counted
// over all replicas. Then handling rows separately is cheaper.
static bool has_few_rows(ls_tensor gradient, int32_t replicas,
                         ls_tensor *out_indices, ls_tensor *out_values) {
  if (!ls_tensor_is_slices(gradient, out_indices, out_values)) return false;
  const ls_shape shape = ls_tensor_shape(*out_indices);
  const int64_t rows = ls_tensor_shape(gradient).dim[0];
  return shape.rank == 1 && shape.dim[0] > 0 &&
         shape.dim[0] <= rows / 2 / replicas;
}

// ---- Distinct rows ---------------------------------------------------------
// The distinct indices in a list of indices.
typedef struct row_set {
  ls_tensor order;  // Permutation that sorts the indices.
  // For each sorted index, its number among the distinct indices.
  ls_tensor places;
  // As many entries as the list had; unused entries are -1, which writes skip.
  ls_tensor indices;
} row_set;

static row_set find_different(ls_tensor indices) {
  const int64_t count = ls_tensor_shape(indices).dim[0];
  row_set set = {.order = ls_argsort(indices, 0, false)};
  const ls_tensor sorted = ls_gather(indices, set.order, 0);
  const ls_tensor parts[] = {ls_slice_axis(sorted, 0, 0, 1),
                             ls_slice_axis(sorted, 0, 0, count - 1)};
  const ls_tensor is_new = ls_not_equal(sorted, ls_concatenate(parts, 2, 0));
  set.places = ls_cumsum(ls_convert(is_new, LS_DTYPE_I64), 0, false, false);
  set.indices =
      ls_scatter(LS_SCATTER_UPDATE, ls_fill(LS_DTYPE_I64, LS_SHAPE(count), -1),
                 set.places, sorted);
  return set;
}

// ---- Replicas --------------------------------------------------------------
// Gathers the replicas' indices by a sum: each replica puts its indices at its
// position among zeros.
static ls_tensor gather_replicas(ls_tensor indices, int32_t replicas) {
  const int64_t count = ls_tensor_shape(indices).dim[0];
  const ls_tensor starts[] = {ls_replica_id(), ls_scalar_i64(LS_DTYPE_I32, 0)};
  const ls_tensor row = ls_reshape(indices, LS_SHAPE(1, count));
  const ls_tensor placed = ls_dynamic_update_slice(
      ls_fill(ls_tensor_dtype(indices), LS_SHAPE(replicas, count), 0), row,
      starts);
  return ls_reshape(ls_all_reduce(LS_REDUCE_SUM, placed),
                    LS_SHAPE(replicas * count));
}

// Finds the positions of this replica's indices among those of all replicas.
static ls_tensor own_places(const row_set *all, int64_t count) {
  const ls_tensor zeros =
      ls_broadcast_like(ls_scalar(LS_DTYPE_I64, 0), all->places);
  const ls_tensor places =
      ls_scatter(LS_SCATTER_UPDATE, zeros, all->order, all->places);
  const ls_tensor length = ls_scalar_i64(LS_DTYPE_I64, count);
  const ls_tensor start =
      ls_mul(ls_convert(ls_replica_id(), LS_DTYPE_I64), length);
  return ls_dynamic_slice(places, &start, LS_SHAPE(count));
}

// Reduces the rows that any replica has. Each replica contributes these rows as
// it would contribute all rows, with zeros for rows that it lacks.
static ls_tensor put_together(const ls_shares *shares, bool is_sum,
                              ls_tensor indices, ls_tensor values,
                              ls_tensor gradient) {
  const int64_t count = ls_tensor_shape(indices).dim[0];
  const row_set all = find_different(
      gather_replicas(ls_convert(indices, LS_DTYPE_I64), shares->replicas));
  ls_shape shape = ls_tensor_shape(values);
  shape.dim[0] = shares->replicas * count;
  const ls_tensor whole = ls_fill(ls_tensor_dtype(values), shape, 0);
  const ls_tensor own =
      ls_indexed_slices(own_places(&all, count), values, whole);
  return ls_indexed_slices(all.indices,
                           is_sum ? ls_shares_sum(shares, own)
                                  : ls_shares_mean(shares, own),
                           gradient);
}

ls_tensor ls_gradient_of_all(const ls_optimizer *optimizer,
                             const ls_shares *shares, ls_tensor gradient) {
  const bool is_sum = optimizer->over_replicas != LS_GRADIENTS_MEAN;
  if (shares->replicas == 1) return gradient;
  ls_tensor indices, values;
  if (!shares->differ &&
      has_few_rows(gradient, shares->replicas, &indices, &values) &&
      ls_shape_is_known(ls_tensor_shape(values)))
    return put_together(shares, is_sum, indices, values, gradient);
  return is_sum ? ls_shares_sum(shares, gradient)
                : ls_shares_mean(shares, gradient);
}

// ---- Rows ------------------------------------------------------------------
bool ls_find_rows(ls_tensor gradient, ls_tensor *out_rows,
                  ls_tensor *out_gradient) {
  ls_tensor indices, given;
  if (!has_few_rows(gradient, 1, &indices, &given)) return false;
  const ls_dtype dtype = ls_tensor_dtype(given);
  const row_set set = find_different(ls_convert(indices, LS_DTYPE_I64));
  const ls_tensor values =
      ls_convert(ls_gather(given, set.order, 0), ls_wide_dtype(dtype));
  const ls_tensor zeros =
      ls_broadcast_like(ls_scalar(ls_tensor_dtype(values), 0), values);
  // Adds the gradients of equal rows, in the order of the list.
  *out_gradient =
      ls_convert(ls_scatter(LS_SCATTER_ADD, zeros, set.places, values), dtype);
  *out_rows = set.indices;
  return true;
}

ls_tensor ls_rows_with_gradient(ls_tensor gradient) {
  const ls_tensor is_set =
      ls_not_equal(gradient, ls_scalar(ls_tensor_dtype(gradient), 0));
  ls_shape shape = ls_tensor_shape(gradient);
  if (shape.rank <= 1) return is_set;
  int axes[LS_MAX_RANK];
  size_t count = 0;
  for (int i = 1; i < shape.rank; ++i) {
    axes[count++] = i;
    shape.dim[i] = 1;
  }
  const ls_tensor row_is_set =
      ls_reduce_or(is_set, (ls_axes){.items = axes, .count = count});
  return ls_reshape(row_is_set, shape);
}
