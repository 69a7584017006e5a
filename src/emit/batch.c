// SPDX-License-Identifier: Apache-2.0
//
// Builders for all replicas of a device at once: a value that differs by
// replica is stacked along a new dimension 0. Products fold it into their rows
// where they share an operand; what has no such form is emitted for each
// replica apart (frame.c).
#include "emit/emit.h"

static bool is_stacked(const ls_emitter *e, ls_emitted x) {
  return ls_emit_look(e, x)->stacked;
}

ls_emitted ls_emit_stacked_of(const ls_emitter *e, const ls_emitted *in,
                              size_t count) {
  for (size_t i = 0; i < count; ++i)
    if (is_stacked(e, in[i])) return in[i];
  return 0;
}

// Reinterprets the sizes of a value as the language has them.
static ls_emitted reshape_all(ls_emitter *e, ls_emitted x, ls_batch_dims dims,
                              bool stacked) {
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (!ls_emit_is_ok(e)) return 0;
  e->language->reshape(e, x, out);
  e->values[out].stacked = stacked;
  return out;
}

ls_emitted ls_emit_spread(ls_emitter *e, ls_emitted x) {
  const ls_batch_dims dims = ls_emit_look(e, x)->dims;
  if (is_stacked(e, x)) return x;
  const ls_emitted out = ls_emit_value(
      e, ls_dtype_at(e, x), ls_emit_lead(e, dims, e->num_lanes), NULL);
  if (!ls_emit_is_ok(e)) return 0;
  e->language->broadcast(e, x, out);
  e->values[out].stacked = true;
  return out;
}

// ---- Rows of all replicas --------------------------------------------------
// Merges the replicas' rows: [replicas, rows, ...] to [replicas * rows, ...].
static ls_emitted merge_rows(ls_emitter *e, ls_emitted x) {
  ls_batch_dims dims = ls_batch_dims_at(e, x);
  if (!is_stacked(e, x)) return x;
  dims.dim[0].offset *= e->num_lanes;
  return reshape_all(e, x, dims, false);
}

static ls_emitted split_rows(ls_emitter *e, ls_emitted x) {
  ls_batch_dims dims = ls_batch_dims_at(e, x);
  dims.dim[0].offset /= e->num_lanes;
  return reshape_all(e, x, ls_emit_lead(e, dims, e->num_lanes), true);
}

// Remembers how a stacked value was made.
static void note_product(ls_emitter *e, ls_emitted out,
                         const ls_emitted_product *product) {
  const ls_emitted_product *kept =
      ls_arena_copy(e->memory, product, sizeof(*product));
  if (kept == NULL) ls_emit_fail(e, ls_out_of_memory());
  if (ls_emit_is_ok(e)) e->values[out].product = kept;
}

void ls_emit_note_transposed(ls_emitter *e, ls_emitted x, ls_emitted out,
                             const int64_t *permutation) {
  if (ls_emit_look(e, x)->product == NULL) return;
  ls_emitted_product product = *ls_emit_look(e, x)->product;
  if (product.is_transposed) return;
  product.is_transposed = true;
  memcpy(product.permutation, permutation,
         (size_t)product.dims.rank * sizeof(*permutation));
  note_product(e, out, &product);
}

ls_emitted ls_emit_dot(ls_emitter *e, ls_emitted a, ls_emitted b) {
  if (!ls_emit_is_ok(e)) return 0;
  ls_batch_dims dims = ls_batch_dims_at(e, a);
  const ls_batch_dims right = ls_batch_dims_at(e, b);
  dims.dim[dims.rank - 1] = right.dim[right.rank - 1];
  const bool folds = dims.rank == 2 && is_stacked(e, a) && !is_stacked(e, b);
  if (folds) return split_rows(e, ls_emit_dot(e, merge_rows(e, a), b));
  const bool is_product = is_stacked(e, a) && is_stacked(e, b);
  const ls_emitted like = ls_emit_stacked_of(e, (const ls_emitted[]){a, b}, 2);
  if (like != 0) a = ls_emit_spread(e, a);
  if (like != 0) b = ls_emit_spread(e, b);
  const ls_emitted out = ls_emit_value_like(e, like, ls_dtype_at(e, a), dims);
  if (ls_emit_is_ok(e)) e->language->dot(e, a, b, out);
  if (ls_emit_is_ok(e) && is_product && dims.rank == 2)
    note_product(e, out, &(ls_emitted_product){.a = a, .b = b, .dims = dims});
  return out;
}

static ls_emitted convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                           const ls_window *window, int64_t groups,
                           ls_batch_dims dims) {
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (ls_emit_is_ok(e) && !e->language->convolve(e, x, w, window, groups, out))
    ls_emit_refuse(e, "there is no such convolution");
  return out;
}

// Emits one convolution for each replica, as its weights are its own.
static ls_emitted convolve_apart(ls_emitter *e, ls_emitted x, ls_emitted w,
                                 const ls_window *window, int64_t groups,
                                 ls_batch_dims dims) {
  ls_emitted *lanes = ls_emit_new_list(e, (size_t)e->num_lanes);
  const ls_window *kept = ls_arena_copy(e->memory, window, sizeof(*window));
  if (kept == NULL) ls_emit_fail(e, ls_out_of_memory());
  if (!ls_emit_is_ok(e)) return 0;
  for (int32_t i = 0; i < e->num_lanes; ++i)
    lanes[i] = convolve(e, ls_emit_lane(e, x, i), ls_emit_lane(e, w, i), window,
                        groups, dims);
  const ls_emitted out = ls_emit_stack(e, lanes);
  if (ls_emit_is_ok(e) && groups == 1 && is_stacked(e, x))
    note_product(
        e, out,
        &(ls_emitted_product){.a = x, .b = w, .window = kept, .dims = dims});
  return out;
}

ls_emitted ls_emit_convolve(ls_emitter *e, ls_emitted x, ls_emitted w,
                            const ls_window *window, int64_t groups,
                            ls_batch_dims dims) {
  if (!ls_emit_is_ok(e)) return 0;
  if (is_stacked(e, w)) return convolve_apart(e, x, w, window, groups, dims);
  if (!is_stacked(e, x)) return convolve(e, x, w, window, groups, dims);
  dims.dim[0].offset *= e->num_lanes;
  return split_rows(e, convolve(e, merge_rows(e, x), w, window, groups, dims));
}

ls_emitted ls_emit_slide(ls_emitter *e, uint16_t op, ls_emitted x,
                         const ls_window *window, ls_batch_dims dims) {
  const bool stacked = is_stacked(e, x);
  if (stacked) dims.dim[0].offset *= e->num_lanes;
  x = merge_rows(e, x);
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (ls_emit_is_ok(e) && !e->language->slide(e, op, x, window, out))
    ls_emit_refuse(e, "there are no such windows");
  return stacked && ls_emit_is_ok(e) ? split_rows(e, out) : out;
}

// ---- Lookups ---------------------------------------------------------------
static ls_emitted gather_plain(ls_emitter *e, ls_emitted x, ls_emitted indices,
                               int64_t axis) {
  const ls_batch_dims from = ls_emit_look(e, x)->dims;
  const ls_batch_dims picks = ls_emit_look(e, indices)->dims;
  ls_batch_dims dims = {.rank = from.rank - 1 + picks.rank};
  if (dims.rank > LS_MAX_RANK)
    ls_emit_refuse(e, "a value of several replicas has too many dimensions");
  if (!ls_emit_is_ok(e)) return 0;
  for (int32_t i = 0; i < dims.rank; ++i)
    dims.dim[i] = i < axis                ? from.dim[i]
                  : i < axis + picks.rank ? picks.dim[i - axis]
                                          : from.dim[i + 1 - picks.rank];
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  if (ls_emit_is_ok(e)) e->language->gather(e, x, indices, axis, out);
  return out;
}

// Moves dimension `axis` of the language's to the front, as that of replicas.
static ls_emitted axis_to_front(ls_emitter *e, ls_emitted x, int64_t axis) {
  int64_t permutation[LS_MAX_RANK] = {axis};
  const int32_t rank = ls_emit_look(e, x)->dims.rank;
  for (int32_t i = 0, at = 1; i < rank; ++i)
    if (i != axis) permutation[at++] = i;
  if (axis > 0) x = ls_emit_transpose(e, x, permutation);
  if (ls_emit_is_ok(e)) e->values[x].stacked = true;
  return x;
}

ls_emitted ls_emit_gather(ls_emitter *e, ls_emitted x, ls_emitted indices,
                          int64_t axis) {
  if (is_stacked(e, x) && is_stacked(e, indices)) {
    ls_emitted *lanes = ls_emit_new_list(e, (size_t)e->num_lanes);
    for (int32_t i = 0; lanes != NULL && i < e->num_lanes; ++i)
      lanes[i] = gather_plain(e, ls_emit_lane(e, x, i),
                              ls_emit_lane(e, indices, i), axis);
    return ls_emit_is_ok(e) ? ls_emit_stack(e, lanes) : 0;
  }
  const bool moves = is_stacked(e, x);
  const ls_emitted out = gather_plain(e, x, indices, axis + moves);
  if (moves && ls_emit_is_ok(e)) e->values[out].stacked = true;
  return is_stacked(e, indices) ? axis_to_front(e, out, axis) : out;
}

// ---- Sums over replicas ----------------------------------------------------
// Emits the language's transposition of a stacked value, reshaped.
static ls_emitted permuted(ls_emitter *e, ls_emitted x, const int64_t *order,
                           ls_batch_dims dims) {
  const ls_batch_dims from = ls_emit_look(e, x)->dims;
  ls_batch_dims moved = {.rank = from.rank};
  for (int32_t i = 0; i < from.rank; ++i)
    moved.dim[i] = from.dim[order[i]];
  const ls_emitted out = ls_emit_value(e, ls_dtype_at(e, x), moved, NULL);
  if (!ls_emit_is_ok(e)) return 0;
  e->language->transpose(e, x, order, out);
  return reshape_all(e, out, dims, false);
}

// Emits the sum of the replicas' products as one product.
static ls_emitted sum_product(ls_emitter *e, const ls_emitted_product *p) {
  if (p->window == NULL) {
    const ls_emitted out =
        ls_emit_value(e, ls_dtype_at(e, p->a), p->dims, NULL);
    if (ls_emit_is_ok(e)) e->language->dot_sum(e, p->a, p->b, out);
    return out;
  }
  // The replicas' channels are summed together: x[batch, spatial..., replicas *
  // channels] by w[taps..., replicas * channels, output channels].
  const ls_batch_dims x = ls_batch_dims_at(e, p->a);
  const ls_batch_dims w = ls_batch_dims_at(e, p->b);
  int64_t x_order[LS_MAX_RANK], w_order[LS_MAX_RANK];
  for (int32_t i = 0; i + 1 < x.rank; ++i)
    x_order[i] = i + 1;
  x_order[x.rank - 1] = 0;
  x_order[x.rank] = x.rank;
  for (int32_t i = 0; i + 2 < w.rank; ++i)
    w_order[i] = i + 1;
  w_order[w.rank - 2] = 0;
  w_order[w.rank - 1] = w.rank - 1;
  w_order[w.rank] = w.rank;
  ls_batch_dims x_dims = x, w_dims = w;
  x_dims.dim[x.rank - 1].offset *= e->num_lanes;
  w_dims.dim[w.rank - 2].offset *= e->num_lanes;
  const ls_emitted a = permuted(e, p->a, x_order, x_dims);
  const ls_emitted b = permuted(e, p->b, w_order, w_dims);
  return convolve(e, a, b, p->window, 1, p->dims);
}

static ls_emitted reduce_lanes(ls_emitter *e, uint16_t reduction,
                               ls_emitted x) {
  static const int64_t axis = 0;
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, x), ls_batch_dims_at(e, x), NULL);
  if (ls_emit_is_ok(e) && !e->language->reduce(e, reduction, x, &axis, 1, out))
    ls_emit_refuse(e, "there is no such reduction");
  return out;
}

ls_emitted ls_emit_reduce_stacked(ls_emitter *e, uint16_t op, ls_emitted x) {
  const ls_emitted_product *product = ls_emit_look(e, x)->product;
  if (op == LS_OP_ADD && product != NULL) {
    const ls_emitted sum = sum_product(e, product);
    return product->is_transposed
               ? ls_emit_transpose(e, sum, product->permutation)
               : sum;
  }
  x = ls_emit_wide(e, x);
  if (op == LS_OP_ADD) return reduce_lanes(e, LS_OP_REDUCE_SUM, x);
  const ls_emitted y = reduce_lanes(
      e, op == LS_OP_MAXIMUM ? LS_OP_REDUCE_MAX : LS_OP_REDUCE_MIN, x);
  if (!ls_dtype_is_float(ls_dtype_at(e, x))) return y;
  return ls_emit_keep_nan(
      e, reduce_lanes(e, LS_OP_REDUCE_MAX, ls_emit_mark_nan(e, x)), y);
}
