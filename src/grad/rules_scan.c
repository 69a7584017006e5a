// SPDX-License-Identifier: Apache-2.0
//
// Rules of scans, sorts and clamps.
#include "grad/rules.h"

// ---- Scans -----------------------------------------------------------------
typedef struct scan {
  int axis;
  bool exclusive, reverse;
} scan;

static scan scan_of(const ls_node *node) {
  return (scan){.axis = (int)ls_node_int(node, LS_ATTR_ID_AXIS),
                .exclusive = ls_node_int(node, LS_ATTR_ID_EXCLUSIVE) != 0,
                .reverse = ls_node_int(node, LS_ATTR_ID_REVERSE) != 0};
}

// Shifts `x` by one along the axis: the result at i is the element at i - 1 or,
// if not `later`, at i + 1; zero beyond the end.
static ls_tensor shifted(ls_tensor x, int axis, bool later) {
  const int32_t rank = ls_tensor_shape(x).rank;
  ls_shape low = {.rank = rank}, high = {.rank = rank};
  low.dim[axis] = later ? 1 : -1;
  high.dim[axis] = later ? -1 : 1;
  return ls_pad(x, ls_gradient_number(x, 0), low, high, LS_SCALAR);
}

static ls_status check_rank(const ls_backward *g) {
  if (ls_tensor_shape(ls_op_input(g->op, 0)).rank >= 0) return ls_ok();
  return ls_gradient_needs(g, "a rank");
}

ls_status gradient_cumsum(ls_backward *g) {
  const scan s = scan_of(g->node);
  g->din[0] = ls_cumsum(g->dout[0], s.axis, s.exclusive, !s.reverse);
  return ls_ok();
}

// Element k is a factor of every product from k on: dx[k] is the product of the
// elements before k, times
//   s[k] = d[k] + x[k+1] s[k+1],
// the sum over all later products of d times the factors in between. Nothing is
// divided, so zeros are handled. Exclusive: the first product with factor k is
// that of k + 1, so the sum begins there.
ls_status gradient_cumprod(ls_backward *g) {
  const scan s = scan_of(g->node);
  LS_RETURN_IF_ERROR(check_rank(g));
  const ls_tensor x = ls_gradient_input(g, 0);
  const ls_tensor before = ls_cumprod(x, s.axis, true, s.reverse);
  const ls_tensor d =
      s.exclusive ? shifted(g->dout[0], s.axis, s.reverse) : g->dout[0];
  const ls_tensor next = shifted(x, s.axis, s.reverse);
  g->din[0] = ls_mul(before, ls_linear_scan(next, d, s.axis, !s.reverse));
  return ls_ok();
}

// h[i] = a[i] h[i-1] + b[i]: db[i] = d[i] + a[i+1] db[i+1], da = db h[i-1].
ls_status gradient_linear_scan(ls_backward *g) {
  const scan s = scan_of(g->node);
  LS_RETURN_IF_ERROR(check_rank(g));
  const ls_tensor next = shifted(ls_gradient_input(g, 0), s.axis, s.reverse);
  const ls_tensor db = ls_linear_scan(next, g->dout[0], s.axis, !s.reverse);
  if (g->wanted[0])
    g->din[0] =
        ls_mul(db, shifted(ls_gradient_output(g, 0), s.axis, !s.reverse));
  if (g->wanted[1]) g->din[1] = db;
  return ls_ok();
}

// ---- Sorts -----------------------------------------------------------------
// Moves the elements of `d` back to their positions before the sort, in operand
// `index`.
static ls_tensor put_back(ls_backward *g, size_t index, ls_tensor places,
                          ls_tensor d, int axis) {
  const ls_tensor x = ls_gradient_input(g, index);
  return ls_add_along(ls_gradient_zeros(x), places, d, axis);
}

ls_status gradient_sort(ls_backward *g) {
  const int axis = (int)ls_node_int(g->node, LS_ATTR_ID_AXIS);
  const ls_tensor places = ls_gradient_output(g, g->num_inputs);
  for (size_t i = 0; i < g->num_inputs; ++i)
    if (g->wanted[i] && g->dout[i].ref != 0)
      g->din[i] = put_back(g, i, places, g->dout[i], axis);
  return ls_ok();
}

ls_status gradient_top_k(ls_backward *g) {
  LS_RETURN_IF_ERROR(check_rank(g));
  if (g->dout[0].ref != 0)
    g->din[0] = put_back(g, 0, ls_gradient_output(g, 1), g->dout[0], -1);
  return ls_ok();
}

// ---- Clamps ----------------------------------------------------------------
// The gradient goes to x where x is within the bounds, else to the bound that
// applied.
ls_status gradient_clamp(ls_backward *g) {
  const ls_tensor low = ls_gradient_input(g, 0), x = ls_gradient_input(g, 1);
  const ls_tensor high = ls_gradient_input(g, 2), d = g->dout[0];
  const ls_tensor zero = ls_gradient_number(d, 0);
  const ls_tensor is_low = ls_less(x, low);
  const ls_tensor is_high = ls_greater(ls_maximum(x, low), high);
  if (g->wanted[0])
    g->din[0] = ls_sum_to_like(
        ls_select(is_high, zero, ls_select(is_low, d, zero)), low);
  if (g->wanted[1]) g->din[1] = ls_select(ls_or(is_low, is_high), zero, d);
  if (g->wanted[2])
    g->din[2] = ls_sum_to_like(ls_select(is_high, d, zero), high);
  return ls_ok();
}
