// SPDX-License-Identifier: Apache-2.0
//
// Emits attention and its gradient. 16-bit floats are computed in f32 and
// rounded once.
#include <math.h>

#include "emit/emit.h"

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
  const ls_emitted products = ls_emit_dot(e, a->q, ls_emit_swap_last(e, a->k));
  const ls_emitted scores =
      ls_emit_mul(e, products, ls_emit_number(e, products, scale_of(e, a->q)));
  const bool is_causal = ls_node_int(e->node, LS_ATTR_ID_CAUSAL) != 0;
  return ls_emit_softmax(e, is_causal ? hide_later(e, scores) : scores, false);
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
  const ls_emitted dp = ls_emit_dot(e, dy, ls_emit_swap_last(e, a.v));
  const int64_t axis = 3;
  const ls_emitted sum = ls_emit_reduce(e, LS_OP_REDUCE_SUM,
                                        ls_emit_mul(e, p, dp), &axis, 1, true);
  ls_emitted ds = ls_emit_mul(e, p, ls_emit_sub(e, dp, sum));
  ds = ls_emit_mul(e, ds, ls_emit_number(e, ds, scale_of(e, a.q)));
  ls_emitted results[] = {ls_emit_dot(e, ds, a.k),
                          ls_emit_dot(e, ls_emit_swap_last(e, ds), a.q),
                          ls_emit_dot(e, ls_emit_swap_last(e, p), dy)};
  for (int i = 0; i < 3; ++i)
    results[i] = join_heads(e, results[i]);
  if (a.packed) results[0] = ls_emit_concatenate(e, results, 3, 2);
  for (uint32_t i = 0; i < e->node->num_outputs; ++i)
    ls_emit_bind(e, ls_ref(e->node->id, i), results[i]);
  return 0;
}

static const ls_emit_rule rules[] = {
    {LS_OP_ATTENTION, attention, true},
    {LS_OP_ATTENTION_GRAD, attention_grad, true}};
const ls_emit_rules ls_emit_attention_rules = {rules, LS_COUNT_OF(rules)};
