// SPDX-License-Identifier: Apache-2.0
#include "emit/emit.h"

#include <math.h>

#include "base/runtime_internal.h"

// ---- Numbers ---------------------------------------------------------------
int64_t ls_emit_size(ls_emitter *e, ls_dim dim) {
  if (dim.scale != 0)
    ls_emit_refuse(e, "a size that it computes with is that of any batch");
  return dim.scale != 0 ? 1 : dim.offset;
}

// ---- Shapes ----------------------------------------------------------------
static const int64_t *numbers(const ls_emitter *e, ls_attr_id id,
                              size_t *out_count) {
  const ls_attr *attr = ls_node_attr(e->node, id);
  if (out_count != NULL) *out_count = attr->as.ints.count;
  return attr->as.ints.items;
}

const ls_emitted *ls_emit_operands(ls_emitter *e) {
  ls_emitted *in = ls_emit_new_list(e, e->node->num_inputs);
  for (uint32_t i = 0; in != NULL && i < e->node->num_inputs; ++i)
    in[i] = ls_operand(e, i);
  return in;
}

static ls_emitted emit_concatenate(ls_emitter *e) {
  const ls_emitted *in = ls_emit_operands(e);
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
static ls_emitted last_reduced(ls_emitter *e, uint16_t op, ls_emitted x) {
  const int64_t axis = ls_batch_dims_at(e, x).rank - 1;
  return ls_emit_reduce(e, op, x, &axis, 1, true);
}

ls_emitted ls_emit_softmax(ls_emitter *e, ls_emitted x, bool log) {
  const ls_emitted below =
      ls_emit_2(e, LS_OP_SUB, x, last_reduced(e, LS_OP_REDUCE_MAX, x));
  const ls_emitted power = ls_emit_1(e, LS_OP_EXP, below);
  const ls_emitted sum = last_reduced(e, LS_OP_REDUCE_SUM, power);
  return log ? ls_emit_2(e, LS_OP_SUB, below, ls_emit_1(e, LS_OP_LOG, sum))
             : ls_emit_2(e, LS_OP_MUL, power, ls_emit_reciprocal(e, sum));
}

static ls_emitted emit_softmax(ls_emitter *e) {
  return ls_emit_softmax(e, ls_emit_wide(e, ls_operand(e, 0)),
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
      ls_emit_softmax(e, ls_emit_wide(e, ls_operand(e, 0)), true);
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
  const ls_emitted p =
      ls_emit_softmax(e, ls_emit_wide(e, ls_operand(e, 0)), false);
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

// Finds the first position of the largest or least value; a NaN counts as such.
static ls_emitted arg_extreme(ls_emitter *e) {
  const ls_emitted x = ls_operand(e, 0);
  const int64_t axis = ls_node_int(e->node, LS_ATTR_ID_AXIS);
  const ls_batch_dims dims = ls_batch_dims_at(e, x);
  const uint16_t op =
      e->node->type == LS_OP_ARGMAX ? LS_OP_REDUCE_MAX : LS_OP_REDUCE_MIN;
  ls_emitted outside =
      ls_emit_2(e, LS_OP_EQUAL, x, ls_emit_reduce(e, op, x, &axis, 1, true));
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
  const ls_emitted x = ls_operand(e, 0);
  return ls_emit_reduce(e, op, sums ? ls_emit_wide(e, x) : x, axes, count,
                        ls_node_int(e->node, LS_ATTR_ID_KEEP_DIMS) != 0);
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

ls_emitted ls_emit_swap_last(ls_emitter *e, ls_emitted x) {
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
  if (ls_node_int(e->node, LS_ATTR_ID_TRANSPOSE_A)) a = ls_emit_swap_last(e, a);
  if (ls_node_int(e->node, LS_ATTR_ID_TRANSPOSE_B)) b = ls_emit_swap_last(e, b);
  return emit_product(e, a, b);
}

static ls_emitted emit_dense(ls_emitter *e) {
  ls_emitted y = emit_product(e, ls_operand(e, 0), ls_operand(e, 1));
  if (e->node->num_inputs == 3) y = ls_emit_add(e, y, ls_operand(e, 2));
  return ls_emit_activation(e, y);
}

static ls_emitted emit_add_n(ls_emitter *e) {
  const ls_emitted *in = ls_emit_operands(e);
  return in == NULL
             ? 0
             : ls_emit_tree(e, LS_OP_ADD, in, (int32_t)e->node->num_inputs);
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
    {LS_OP_ADD_N, emit_add_n, true}};

static const ls_emit_rule *find_rule(const ls_emitter *e) {
  const ls_emit_rules tables[] = {
      {rules, LS_COUNT_OF(rules)}, ls_emit_window_rules, ls_emit_norm_rules,
      ls_emit_attention_rules,     ls_emit_index_rules,  ls_emit_random_rules,
      ls_emit_order_rules};
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
