// SPDX-License-Identifier: Apache-2.0
//
// Rules of attention.
#include <math.h>

#include "grad/rules.h"
#include "graph/make/make.h"

static ls_attention_options rules_attention_options_of(const ls_backward *g) {
  const ls_attr *scale = ls_node_attr(g->node, LS_ATTR_ID_SCALE);
  return (ls_attention_options){
      .num_heads = ls_node_int(g->node, LS_ATTR_ID_NUM_HEADS),
      .causal = ls_node_int(g->node, LS_ATTR_ID_CAUSAL) != 0,
      .scale = scale == NULL ? 0 : scale->as.f};
}

ls_status gradient_attention(ls_backward *g) {
  ls_tensor in[3] = {{0}};
  for (size_t i = 0; i < g->num_inputs; ++i)
    in[i] = ls_gradient_input(g, i);
  const ls_attention_options options = rules_attention_options_of(g);
  const ls_op op = ls_attention_grad(g->dout[0], in[0], in[1], in[2], &options);
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (g->wanted[i]) g->din[i] = ls_op_output(op, (unsigned)i);
  return ls_ok();
}

// ---- Gradient of the gradient ----------------------------------------------
// Operands of attention, which is differentiated with plain ops, in f64 for
// f64, else in f32, on [batch, heads, tokens, depth].
typedef struct heads {
  ls_backward *g;
  ls_attention_options options;
  bool packed;
  int64_t width;  // Packed operands: width of each of q, k and v.
  ls_dtype wide;
} heads;

static ls_tensor rules_attention_reshape(ls_tensor x, const ls_size *sizes,
                                         size_t count) {
  const ls_attr attr = LS_OWN_SZ(SIZES, sizes, count);
  return ls_make(LS_OP_RESHAPE, &x, 1, &attr, 1);
}

static const int heads_first[] = {0, 2, 1, 3};

static ls_tensor split_heads(const heads *h, ls_tensor x) {
  const int64_t width = ls_tensor_shape(x).dim[2];
  const int64_t depth = width < 0 ? -1 : width / h->options.num_heads;
  const ls_size sizes[] = {{0, 0},
                           {0, 1},
                           {LS_SIZE_CONSTANT, h->options.num_heads},
                           {LS_SIZE_CONSTANT, depth}};
  return ls_transpose(rules_attention_reshape(ls_convert(x, h->wide), sizes, 4),
                      heads_first);
}

static ls_tensor join_heads(ls_tensor x) {
  const ls_tensor joined = ls_transpose(x, heads_first);
  const int64_t width = ls_gradient_product(ls_tensor_shape(joined), 2, 4);
  const ls_size sizes[] = {{0, 0}, {0, 1}, {LS_SIZE_CONSTANT, width}};
  return rules_attention_reshape(joined, sizes, 3);
}

// Splits q, k and v out of operands, or out of the gradients of results;
// missing tensors are zeroed.
static void split_operands(const heads *h, const ls_tensor *from,
                           ls_tensor out[3]) {
  for (int i = 0; i < 3; ++i) {
    const ls_tensor x = from[h->packed ? 0 : i];
    out[i] = ls_failed_tensor();
    if (x.ref == 0) continue;
    const int64_t begin = i * h->width, end = begin + h->width;
    out[i] = split_heads(h, h->packed ? ls_slice_axis(x, 2, begin, end) : x);
  }
}

// Returns the indices along one of the last two axes of the scores.
static ls_tensor index_of(ls_tensor scores, int axis) {
  const ls_size sizes[] = {{0, 2}, {0, 3}};
  const ls_attr attrs[] = {LS_OWN_SZ(SIZES, sizes, 2), LS_OWN_I(AXIS, axis),
                           LS_OWN_T(DTYPE, LS_DTYPE_I32)};
  return ls_make(LS_OP_IOTA, &scores, 1, attrs, 3);
}

static ls_tensor probabilities(const heads *h, ls_tensor q, ls_tensor k) {
  ls_tensor scores = ls_matmul_transposed(q, false, k, true);
  if (h->options.causal) {
    const ls_tensor query = index_of(scores, 0);
    const ls_tensor seen = ls_less_equal(index_of(scores, 1), query);
    const ls_tensor least = ls_gradient_number(scores, -1e30);
    scores = ls_select(seen, scores, least);
  }
  return ls_softmax(scores);
}

static ls_tensor row_sums(ls_tensor a, ls_tensor b) {
  return ls_reduce_sum_keep(ls_mul(a, b), LS_AXES(-1));
}

// Returns the gradient of softmax p for the gradient of its result: p (d -
// sum(p d)).
static ls_tensor through_softmax(ls_tensor p, ls_tensor d) {
  return ls_mul(p, ls_sub(d, row_sums(p, d)));
}

// attention_grad is, with p = softmax(s q k'), and q times s from here on,
//   dv = p' d, dp = d v', ds = p (dp - sum(p dp)), dq = s ds k, dk = ds' q.
// For gradients a of dq, b of dk and c of dv, the gradient of
//   ds is e = s a k' + q b', of dp f = p (e - sum(p e)),
//   p  is t = e (dp - sum(p dp)) - sum(p e) dp + d c',
//   the scores u = p (t - sum(p t)),
// and from these: of d f v + p c, of v f' d, of k ds' s a + u' q, of s q
// ds b + u k.
static void differentiate_again(const heads *h, ls_tensor d,
                                const ls_tensor in[3], const ls_tensor given[3],
                                double scale, ls_tensor out[4]) {
  const ls_tensor q = ls_mul_scalar(in[0], scale), k = in[1], v = in[2];
  const ls_tensor p = probabilities(h, q, k);
  const ls_tensor dp = ls_matmul_transposed(d, false, v, true);
  const ls_tensor ds = through_softmax(p, dp);
  ls_tensor e = ls_failed_tensor(), t = e, of_q = e;
  if (given[0].ref != 0) {
    const ls_tensor a = ls_mul_scalar(given[0], scale);
    e = ls_matmul_transposed(a, false, k, true);
    out[2] = ls_matmul_transposed(ds, true, a, false);
  }
  if (given[1].ref != 0) {
    e = ls_gradient_plus(e, ls_matmul_transposed(q, false, given[1], true));
    of_q = ls_matmul_transposed(ds, false, given[1], false);
  }
  if (e.ref != 0) {
    const ls_tensor f = through_softmax(p, e);
    out[0] = ls_matmul_transposed(f, false, v, false);
    out[3] = ls_matmul_transposed(f, true, d, false);
    const ls_tensor rest = ls_sub(dp, row_sums(p, dp));
    const ls_tensor first = ls_mul(e, rest);
    t = ls_sub(first, ls_mul(dp, row_sums(p, e)));
  }
  if (given[2].ref != 0) {
    const ls_tensor more = ls_matmul_transposed(p, false, given[2], false);
    out[0] = ls_gradient_plus(out[0], more);
    t = ls_gradient_plus(t, ls_matmul_transposed(d, false, given[2], true));
  }
  const ls_tensor u = through_softmax(p, t);
  of_q = ls_gradient_plus(of_q, ls_matmul_transposed(u, false, k, false));
  out[1] = ls_mul_scalar(of_q, scale);
  out[2] = ls_gradient_plus(out[2], ls_matmul_transposed(u, true, q, false));
}

// Joins the gradients of q, k and v to the packed one, with zeros for missing
// parts.
static void give_packed(ls_backward *g, const ls_tensor in[3],
                        const ls_tensor out[4]) {
  ls_tensor parts[3];
  for (int i = 0; i < 3; ++i) {
    const bool is_given = out[i + 1].ref != 0;
    parts[i] = join_heads(is_given ? out[i + 1] : ls_gradient_zeros(in[i]));
  }
  ls_gradient_give(g, 1, ls_concatenate(parts, 3, 2));
}

// Differentiates attention_grad, whose operands are the result's gradient, then
// the operands of attention.
ls_status gradient_attention_grad(ls_backward *g) {
  heads h = {.g = g,
             .options = rules_attention_options_of(g),
             .packed = g->num_inputs == 2};
  const ls_tensor d = ls_gradient_input(g, 0);
  ls_tensor operands[3] = {{0}}, in[3], given[3], out[4] = {{0}};
  for (size_t i = 1; i < g->num_inputs; ++i)
    operands[i - 1] = ls_gradient_input(g, i);
  h.wide = ls_tensor_dtype(d) == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  const ls_shape q = ls_tensor_shape(operands[0]);
  const int64_t width = q.rank == 3 ? q.dim[2] : LS_UNKNOWN_DIM;
  if (width < 0) return ls_gradient_needs(g, "a width");
  h.width = h.packed ? width / 3 : width;
  split_operands(&h, operands, in);
  split_operands(&h, g->dout, given);
  double scale = h.options.scale;
  if (scale == 0)
    scale = 1.0 / sqrt((double)h.width / (double)h.options.num_heads);
  differentiate_again(&h, split_heads(&h, d), in, given, scale, out);
  if (g->wanted[0] && out[0].ref != 0)
    ls_gradient_give(g, 0, join_heads(out[0]));
  if (h.packed && g->wanted[1]) give_packed(g, in, out);
  for (size_t i = 1; !h.packed && i < 4; ++i)
    if (g->wanted[i] && out[i].ref != 0)
      ls_gradient_give(g, i, join_heads(out[i]));
  return ls_ok();
}
