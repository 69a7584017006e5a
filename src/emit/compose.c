// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <math.h>

// ---- Numbers ---------------------------------------------------------------
int64_t ls_emit_size(ls_emitter *e, ls_dim dim) {
  if (dim.scale != 0)
    ls_emit_refuse(e, "a size that it computes with is that of any batch");
  return dim.scale != 0 ? 1 : dim.offset;
}

ls_emitted ls_emit_nothing(ls_emitter *e) {
  const ls_batch_dims dims = ls_result_dims(e);
  int64_t count = 1;
  for (int32_t i = 0; i < dims.rank && count > 0; ++i)
    count = ls_emit_size(e, dims.dim[i]);
  if (count > 0) ls_emit_refuse(e, "its axis is empty");
  return ls_emit_broadcast(e, ls_emit_scalar(e, ls_result_dtype(e), 0), dims);
}

// ---- Shapes ----------------------------------------------------------------
static const int64_t *numbers(const ls_emitter *e, ls_attr_id id,
                              size_t *out_count) {
  const ls_attr *attr = ls_node_attr(e->node, id);
  if (out_count != NULL) *out_count = attr->as.ints.count;
  return attr->as.ints.items;
}

// Lists the operands; NULL without memory.
static const ls_emitted *list_operands(ls_emitter *e) {
  ls_emitted *in = ls_emit_new_list(e, e->node->num_inputs);
  for (uint32_t i = 0; in != NULL && i < e->node->num_inputs; ++i)
    in[i] = ls_operand(e, i);
  return in;
}

static ls_emitted emit_concatenate(ls_emitter *e) {
  const ls_emitted *in = list_operands(e);
  return in == NULL
             ? 0
             : ls_emit_concatenate(e, in, e->node->num_inputs,
                                   ls_node_int(e->node, LS_ATTR_ID_AXIS));
}

// Clamps indices that are out of range.
static ls_emitted emit_gather(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const int64_t size = ls_emit_size(e, ls_batch_dims_at(e, x).dim[axis]);
  if (size == 0) return ls_emit_nothing(e);
  const ls_emitted at = ls_emit_clamp_index(e, ls_operand(e, 1), size - 1);
  return ls_emit_gather(e, x, at, axis);
}

static ls_emitted emit_barrier(ls_emitter *e) {
  for (uint32_t i = 0; i < e->node->num_inputs; ++i)
    ls_emit_bind(e, ls_ref(e->node->id, i), ls_operand(e, i));
  return 0;
}

// Makes 1 where the index equals the position, else 0.
static ls_emitted one_hot_of(ls_emitter *e, ls_emitted indices, ls_dim depth,
                             ls_dtype dtype) {
  ls_batch_dims column = ls_batch_dims_at(e, indices);
  column.dim[column.rank++] = ls_dim_of(1);
  const ls_batch_dims line = {.rank = 1, .dim = {depth}};
  const ls_emitted at = ls_emit_convert(e, indices, LS_DTYPE_I64);
  const ls_emitted outside =
      ls_emit_2(e, LS_OP_EQUAL, ls_emit_reshape(e, at, column),
                ls_emit_iota(e, LS_DTYPE_I64, line, 0));
  return ls_emit_convert(e, outside, dtype);
}

static ls_emitted emit_reshape(ls_emitter *e) {
  return ls_emit_reshape(e, ls_operand(e, 0), ls_result_dims(e));
}

static ls_emitted emit_broadcast(ls_emitter *e) {
  return ls_emit_broadcast(e, ls_operand(e, 0), ls_result_dims(e));
}

static ls_emitted emit_transpose(ls_emitter *e) {
  return ls_emit_transpose(e, ls_operand(e, 0),
                           numbers(e, LS_ATTR_ID_PERMUTATION, NULL));
}

static ls_emitted emit_slice(ls_emitter *e) {
  return ls_emit_slice(e, ls_operand(e, 0), numbers(e, LS_ATTR_ID_STARTS, NULL),
                       numbers(e, LS_ATTR_ID_STRIDES, NULL), ls_result_dims(e));
}

static ls_emitted emit_pad(ls_emitter *e) {
  return ls_emit_pad(e, ls_operand(e, 0), ls_operand(e, 1),
                     numbers(e, LS_ATTR_ID_PAD_LOW, NULL),
                     numbers(e, LS_ATTR_ID_PAD_HIGH, NULL),
                     numbers(e, LS_ATTR_ID_INTERIOR, NULL), ls_result_dims(e));
}

static ls_emitted emit_reverse(ls_emitter *e) {
  size_t count = 0;
  const int64_t *axes = numbers(e, LS_ATTR_ID_AXES, &count);
  return ls_emit_reverse(e, ls_operand(e, 0), axes, count);
}

static ls_emitted emit_iota(ls_emitter *e) {
  return ls_emit_iota(e, ls_result_dtype(e), ls_result_dims(e),
                      ls_node_int(e->node, LS_ATTR_ID_AXIS));
}

static ls_emitted emit_one_hot(ls_emitter *e) {
  return one_hot_of(e, ls_operand(e, 0),
                    ls_dim_of(ls_node_int(e->node, LS_ATTR_ID_DEPTH)),
                    ls_result_dtype(e));
}

// ---- Reductions ------------------------------------------------------------
ls_emitted ls_emit_mark_nan(ls_emitter *e, ls_emitted x) {
  const ls_emitted is_nan = ls_emit_2(e, LS_OP_NOT_EQUAL, x, x);
  const ls_emitted one = ls_emit_number(e, x, 1);
  return ls_emit_select(e, is_nan, one, ls_emit_number(e, x, 0));
}

ls_emitted ls_emit_keep_nan(ls_emitter *e, ls_emitted marks, ls_emitted y) {
  const ls_emitted is_marked =
      ls_emit_2(e, LS_OP_EQUAL, marks, ls_emit_number(e, y, 1));
  return ls_emit_select(e, is_marked, ls_emit_number(e, y, (double)NAN), y);
}

static ls_emitted last_reduced(ls_emitter *e, uint16_t op, ls_emitted x) {
  const int64_t axis = ls_batch_dims_at(e, x).rank - 1;
  return ls_emit_reduce(e, op, x, &axis, 1, true);
}

// Emits softmax along the last axis; `log`: its logarithm.
static ls_emitted softmax_of(ls_emitter *e, ls_emitted x, bool log) {
  const ls_emitted below =
      ls_emit_2(e, LS_OP_SUB, x, last_reduced(e, LS_OP_REDUCE_MAX, x));
  const ls_emitted power = ls_emit_1(e, LS_OP_EXP, below);
  const ls_emitted sum = last_reduced(e, LS_OP_REDUCE_SUM, power);
  return log ? ls_emit_2(e, LS_OP_SUB, below, ls_emit_1(e, LS_OP_LOG, sum))
             : ls_emit_2(e, LS_OP_MUL, power, ls_emit_reciprocal(e, sum));
}

static ls_emitted emit_softmax(ls_emitter *e) {
  return softmax_of(e, ls_emit_wide(e, ls_operand(e, 0)),
                    e->node->type == LS_OP_LOG_SOFTMAX);
}

// Makes numbers, one a row, NaN in rows whose label is none of these classes.
static ls_emitted hide_invalid(ls_emitter *e, ls_emitted label, ls_dim classes,
                               ls_emitted x) {
  const ls_emitted is_valid = ls_emit_is_index(
      e, ls_emit_convert(e, label, LS_DTYPE_I64), ls_emit_size(e, classes));
  return ls_emit_select(e, is_valid, x, ls_emit_number(e, x, (double)NAN));
}

// Computes -log_softmax(x)[label] of each row. Selects instead of multiplying
// by 0, as an impossible class has -inf.
static ls_emitted cross_entropy(ls_emitter *e) {
  const ls_emitted rows =
      softmax_of(e, ls_emit_wide(e, ls_operand(e, 0)), true);
  const ls_batch_dims dims = ls_batch_dims_at(e, rows);
  const int64_t axis = dims.rank - 1;
  const ls_emitted is_label =
      one_hot_of(e, ls_operand(e, 1), dims.dim[axis], LS_DTYPE_BOOL);
  const ls_emitted sum = ls_emit_reduce(
      e, LS_OP_REDUCE_SUM,
      ls_emit_select(e, is_label, rows, ls_emit_number(e, rows, 0)), &axis, 1,
      false);
  return hide_invalid(e, ls_operand(e, 1), dims.dim[axis],
                      ls_emit_1(e, LS_OP_NEG, sum));
}

// Computes (softmax(x) - one_hot(label)) d, with a number d for each row.
static ls_emitted cross_entropy_grad(ls_emitter *e) {
  const ls_emitted p = softmax_of(e, ls_emit_wide(e, ls_operand(e, 0)), false);
  const ls_batch_dims dims = ls_batch_dims_at(e, p);
  const int64_t axis = dims.rank - 1;
  const ls_emitted is_label =
      one_hot_of(e, ls_operand(e, 1), dims.dim[axis], ls_dtype_at(e, p));
  const ls_emitted d = hide_invalid(e, ls_operand(e, 1), dims.dim[axis],
                                    ls_emit_wide(e, ls_operand(e, 2)));
  ls_batch_dims column = dims;
  column.dim[axis] = ls_dim_of(1);
  return ls_emit_mul(e, ls_emit_sub(e, p, is_label),
                     ls_emit_reshape(e, d, column));
}

// Finds the largest or least value; a NaN counts as such.
static ls_emitted extreme(ls_emitter *e, uint16_t op, ls_emitted x,
                          const int64_t *axes, size_t count, bool keep) {
  const ls_emitted y = ls_emit_reduce(e, op, x, axes, count, keep);
  if (!ls_dtype_is_float(ls_dtype_at(e, x))) return y;
  const ls_emitted marks = ls_emit_reduce(
      e, LS_OP_REDUCE_MAX, ls_emit_mark_nan(e, x), axes, count, keep);
  return ls_emit_keep_nan(e, marks, y);
}

// Finds the first position of the largest or least value; a NaN counts as such.
static ls_emitted arg_extreme(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const uint16_t op =
      e->node->type == LS_OP_ARGMAX ? LS_OP_REDUCE_MAX : LS_OP_REDUCE_MIN;
  if (ls_dim_is(dims.dim[axis], 0)) return ls_emit_nothing(e);
  ls_emitted outside =
      ls_emit_2(e, LS_OP_EQUAL, x, extreme(e, op, x, &axis, 1, true));
  if (ls_dtype_is_float(ls_dtype_at(e, x)))
    outside =
        ls_emit_2(e, LS_OP_OR, outside, ls_emit_2(e, LS_OP_NOT_EQUAL, x, x));
  ls_batch_dims line = {.rank = dims.rank};
  for (int32_t i = 0; i < line.rank; ++i)
    line.dim[i] = i == axis ? dims.dim[i] : ls_dim_of(1);
  const ls_emitted places[] = {
      outside, ls_emit_iota(e, LS_DTYPE_I64, line, axis),
      ls_emit_scalar(e, LS_DTYPE_I64, (double)LS_MAX_SIZE)};
  return ls_emit_reduce(e, LS_OP_REDUCE_MIN,
                        ls_emit_element(e, LS_OP_SELECT, places, 3), &axis, 1,
                        false);
}

// Sums and products of 16-bit floats are computed in f32.
static ls_emitted emit_reduction(ls_emitter *e) {
  size_t count = 0;
  const uint16_t op = e->node->type;
  const int64_t *axes = numbers(e, LS_ATTR_ID_AXES, &count);
  const bool sums = op == LS_OP_REDUCE_SUM || op == LS_OP_REDUCE_PRODUCT;
  const bool keep = ls_node_int(e->node, LS_ATTR_ID_KEEP_DIMS) != 0;
  const ls_emitted x = ls_operand(e, 0);
  if (op == LS_OP_REDUCE_MAX || op == LS_OP_REDUCE_MIN)
    return extreme(e, op, x, axes, count, keep);
  return ls_emit_reduce(e, op, sums ? ls_emit_wide(e, x) : x, axes, count,
                        keep);
}

// ---- Products --------------------------------------------------------------
// Merges all leading dimensions.
static ls_emitted as_matrix(ls_emitter *e, ls_emitted x) {
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  ls_dim rows = ls_dim_of(1);
  for (int32_t i = 0; i + 1 < dims.rank; ++i) {
    const ls_dim d = dims.dim[i];
    if (rows.scale != 0 && d.scale != 0)
      ls_emit_refuse(e, "two of its sizes are those of any batch");
    rows = (ls_dim){.scale = rows.scale * d.offset + rows.offset * d.scale,
                    .offset = rows.offset * d.offset};
  }
  return ls_emit_reshape(
      e, x, (ls_batch_dims){.rank = 2, .dim = {rows, dims.dim[dims.rank - 1]}});
}

static ls_emitted emit_product(ls_emitter *e, ls_emitted a, ls_emitted b) {
  ls_batch_dims dims = ls_batch_dims_at(e, a);
  const ls_batch_dims right = ls_batch_dims_at(e, b);
  if (dims.rank == right.rank) return ls_emit_dot(e, a, b);
  dims.dim[dims.rank - 1] = right.dim[1];
  return ls_emit_reshape(e, ls_emit_dot(e, as_matrix(e, a), b), dims);
}

// Transposes the last two dimensions.
static ls_emitted swap_last(ls_emitter *e, ls_emitted x) {
  int64_t permutation[LS_MAX_RANK];
  const int32_t rank = ls_batch_dims_at(e, x).rank;
  for (int32_t i = 0; i < rank; ++i)
    permutation[i] = i;
  permutation[rank - 2] = rank - 1;
  permutation[rank - 1] = rank - 2;
  return ls_emit_transpose(e, x, permutation);
}

static ls_emitted emit_matmul(ls_emitter *e) {
  ls_emitted a = ls_operand(e, 0), b = ls_operand(e, 1);
  if (ls_node_int(e->node, LS_ATTR_ID_TRANSPOSE_A)) a = swap_last(e, a);
  if (ls_node_int(e->node, LS_ATTR_ID_TRANSPOSE_B)) b = swap_last(e, b);
  return emit_product(e, a, b);
}

static ls_emitted emit_dense(ls_emitter *e) {
  ls_emitted y = emit_product(e, ls_operand(e, 0), ls_operand(e, 1));
  if (e->node->num_inputs == 3) y = ls_emit_add(e, y, ls_operand(e, 2));
  return ls_emit_activation(e, y);
}

static ls_emitted emit_add_n(ls_emitter *e) {
  const ls_emitted *in = list_operands(e);
  return in == NULL
             ? 0
             : ls_emit_tree(e, LS_OP_ADD, in, (int32_t)e->node->num_inputs);
}

// ---- Attention --------------------------------------------------------------
// Emits attention and its gradient. 16-bit floats are computed in f32 and
// rounded once.

// Slices q, k or v out of the last dimension, where they are concatenated.
static ls_emitted third(ls_emitter *e, ls_emitted x, int64_t part) {
  ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int64_t width = ls_emit_size(e, dims.dim[2]) / 3;
  const int64_t starts[] = {0, 0, part * width};
  dims.dim[2] = ls_dim_of(width);
  return ls_emit_slice(e, x, starts, NULL, dims);
}

// Reshapes [batch, tokens, heads * depth] to [batch, heads, tokens, depth].
static ls_emitted split_heads(ls_emitter *e, ls_emitted x, int64_t heads) {
  static const int64_t permutation[] = {0, 2, 1, 3};
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const ls_batch_dims split = {
      .rank = 4,
      .dim = {dims.dim[0], dims.dim[1], ls_dim_of(heads),
              ls_dim_of(ls_emit_size(e, dims.dim[2]) / heads)}};
  return ls_emit_transpose(e, ls_emit_reshape(e, x, split), permutation);
}

// Undoes split_heads, in the type of the current op's result.
static ls_emitted join_heads(ls_emitter *e, ls_emitted x) {
  static const int64_t permutation[] = {0, 2, 1, 3};
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const int64_t width =
      ls_emit_size(e, dims.dim[1]) * ls_emit_size(e, dims.dim[3]);
  const ls_batch_dims joined = {
      .rank = 3, .dim = {dims.dim[0], dims.dim[2], ls_dim_of(width)}};
  return ls_emit_convert(
      e, ls_emit_reshape(e, ls_emit_transpose(e, x, permutation), joined),
      ls_result_dtype(e));
}

// Masks scores: token i attends to tokens up to i.
static ls_emitted hide_later(ls_emitter *e, ls_emitted scores) {
  const ls_batch_dims dims = ls_batch_dims_at(e, scores);
  const ls_batch_dims column = {.rank = 2, .dim = {dims.dim[2], ls_dim_of(1)}};
  const ls_batch_dims row = {.rank = 2, .dim = {ls_dim_of(1), dims.dim[3]}};
  const ls_emitted seen = ls_emit_2(e, LS_OP_GREATER_EQUAL,
                                    ls_emit_iota(e, LS_DTYPE_I64, column, 0),
                                    ls_emit_iota(e, LS_DTYPE_I64, row, 1));
  const ls_emitted parts[] = {seen, scores,
                              ls_emit_number(e, scores, -INFINITY)};
  return ls_emit_element(e, LS_OP_SELECT, parts, 3);
}

// Operands of attention, [batch, heads, tokens, depth].
typedef struct attended {
  ls_emitted q, k, v;
  bool packed;  // They are concatenated in one operand.
} attended;

// Reads the operands from number `first` on.
static attended read_attended(ls_emitter *e, uint32_t first) {
  const int64_t heads = ls_node_int(e->node, LS_ATTR_ID_NUM_HEADS);
  attended a = {.packed = e->node->num_inputs == first + 1};
  ls_emitted *const parts[] = {&a.q, &a.k, &a.v};
  for (uint32_t i = 0; i < 3; ++i)
    *parts[i] =
        split_heads(e,
                    ls_emit_wide(e, a.packed ? third(e, ls_operand(e, first), i)
                                             : ls_operand(e, first + i)),
                    heads);
  return a;
}

static double scale_of(ls_emitter *e, ls_emitted q) {
  const ls_attr *given = ls_node_attr(e->node, LS_ATTR_ID_SCALE);
  const int64_t depth = ls_emit_size(e, ls_batch_dims_at(e, q).dim[3]);
  return given != NULL ? given->as.f : 1 / sqrt((double)depth);
}

// Computes softmax(scale q k').
static ls_emitted weigh(ls_emitter *e, const attended *a) {
  const ls_emitted products = ls_emit_dot(e, a->q, swap_last(e, a->k));
  const ls_emitted scores =
      ls_emit_mul(e, products, ls_emit_number(e, products, scale_of(e, a->q)));
  const bool is_causal = ls_node_int(e->node, LS_ATTR_ID_CAUSAL) != 0;
  return softmax_of(e, is_causal ? hide_later(e, scores) : scores, false);
}

static ls_emitted attention(ls_emitter *e) {
  const attended a = read_attended(e, 0);
  return join_heads(e, ls_emit_dot(e, weigh(e, &a), a.v));
}

// Operands: dy, and those of attention. With p the weights, dp = dy v' and ds =
// scale p (dp - sum(p dp)) the gradients are ds k, ds' q and p' dy.
static ls_emitted attention_grad(ls_emitter *e) {
  const int64_t heads = ls_node_int(e->node, LS_ATTR_ID_NUM_HEADS);
  const attended a = read_attended(e, 1);
  const ls_emitted dy =
      split_heads(e, ls_emit_wide(e, ls_operand(e, 0)), heads);
  const ls_emitted p = weigh(e, &a);
  const ls_emitted dp = ls_emit_dot(e, dy, swap_last(e, a.v));
  const int64_t axis = 3;
  const ls_emitted sum = ls_emit_reduce(e, LS_OP_REDUCE_SUM,
                                        ls_emit_mul(e, p, dp), &axis, 1, true);
  ls_emitted ds = ls_emit_mul(e, p, ls_emit_sub(e, dp, sum));
  ds = ls_emit_mul(e, ds, ls_emit_number(e, ds, scale_of(e, a.q)));
  ls_emitted results[] = {ls_emit_dot(e, ds, a.k),
                          ls_emit_dot(e, swap_last(e, ds), a.q),
                          ls_emit_dot(e, swap_last(e, p), dy)};
  for (int i = 0; i < 3; ++i)
    results[i] = join_heads(e, results[i]);
  if (a.packed) results[0] = ls_emit_concatenate(e, results, 3, 2);
  for (uint32_t i = 0; i < e->node->num_outputs; ++i)
    ls_emit_bind(e, ls_ref(e->node->id, i), results[i]);
  return 0;
}

// ---- Ops -------------------------------------------------------------------
static const ls_emit_rule rules[] = {
    {LS_OP_RESHAPE, emit_reshape, true},
    {LS_OP_BROADCAST, emit_broadcast, true},
    {LS_OP_TRANSPOSE, emit_transpose, true},
    {LS_OP_SLICE, emit_slice, true},
    {LS_OP_PAD, emit_pad, false},
    {LS_OP_CONCATENATE, emit_concatenate, true},
    {LS_OP_REVERSE, emit_reverse, true},
    {LS_OP_GATHER, emit_gather, true},
    {LS_OP_IOTA, emit_iota, false},
    {LS_OP_ONE_HOT, emit_one_hot, true},
    {LS_OP_BARRIER, emit_barrier, true},
    {LS_OP_REDUCE_SUM, emit_reduction, true},
    {LS_OP_REDUCE_MAX, emit_reduction, true},
    {LS_OP_REDUCE_MIN, emit_reduction, true},
    {LS_OP_REDUCE_PRODUCT, emit_reduction, true},
    {LS_OP_REDUCE_AND, emit_reduction, true},
    {LS_OP_REDUCE_OR, emit_reduction, true},
    {LS_OP_ARGMAX, arg_extreme, true},
    {LS_OP_ARGMIN, arg_extreme, true},
    {LS_OP_SOFTMAX, emit_softmax, true},
    {LS_OP_LOG_SOFTMAX, emit_softmax, true},
    {LS_OP_CROSS_ENTROPY, cross_entropy, true},
    {LS_OP_CROSS_ENTROPY_GRAD, cross_entropy_grad, true},
    {LS_OP_MATMUL, emit_matmul, true},
    {LS_OP_DENSE, emit_dense, true},
    {LS_OP_ADD_N, emit_add_n, true},
    {LS_OP_ATTENTION, attention, true},
    {LS_OP_ATTENTION_GRAD, attention_grad, true}};

static const ls_emit_rule *find_rule(const ls_emitter *e) {
  const ls_emit_rules tables[] = {
      {rules, LS_COUNT_OF(rules)}, ls_emit_window_rules, ls_emit_norm_rules,
      ls_emit_index_rules,         ls_emit_random_rules, ls_emit_order_rules};
  // Languages without orders lack the ops of the last table.
  const size_t count = LS_COUNT_OF(tables) - (e->language->sort == NULL);
  for (size_t t = 0; t < count; ++t)
    for (size_t i = 0; i < tables[t].count; ++i)
      if (tables[t].rules[i].op == e->node->type) return &tables[t].rules[i];
  return NULL;
}

bool ls_emit_is_batched(const ls_emitter *e) {
  const ls_emit_rule *rule = find_rule(e);
  if (e->exact) return false;
  return rule != NULL
             ? rule->is_batched
             : e->node->type == LS_OP_REPLICA_ID ||
                   (ls_node_info(e->node)->traits & LS_OP_ELEMENTWISE) != 0;
}

bool ls_emit_composed(ls_emitter *e) {
  const ls_emit_rule *rule = find_rule(e);
  if (rule == NULL) return ls_compose_element(e);
  const ls_emitted y = rule->emit(e);
  if (y != 0) ls_compose_give(e, ls_emit_convert(e, y, ls_result_dtype(e)));
  return true;
}
