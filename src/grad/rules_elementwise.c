// SPDX-License-Identifier: Apache-2.0
//
// Rules of elementwise ops. If operands broadcast, a gradient is summed down to
// the shape of its operand.
//
// C does not define the order in which arguments are evaluated. A call
// therefore has at most one argument that makes ops, so that any compiler makes
// the ops in the same order, with the same names.
#include <math.h>

#include "base/memory/own.h"
#include "grad/rules.h"

static ls_tensor in(ls_backward *g, size_t i) {
  return ls_gradient_input(g, i);
}
static ls_tensor out(ls_backward *g) { return ls_gradient_output(g, 0); }

// ---- One operand -----------------------------------------------------------
ls_status gradient_identity(ls_backward *g) {
  g->din[0] = g->dout[0];
  return ls_ok();
}

ls_status gradient_neg(ls_backward *g) {
  g->din[0] = ls_neg(g->dout[0]);
  return ls_ok();
}

// The gradient at 0 is 0.
ls_status gradient_abs(ls_backward *g) {
  g->din[0] = ls_mul(g->dout[0], ls_sign(in(g, 0)));
  return ls_ok();
}

ls_status gradient_exp(ls_backward *g) {
  g->din[0] = ls_mul(g->dout[0], out(g));
  return ls_ok();
}

ls_status gradient_log(ls_backward *g) {
  g->din[0] = ls_div(g->dout[0], in(g, 0));
  return ls_ok();
}

// d / (2 y).
ls_status gradient_sqrt(ls_backward *g) {
  const ls_tensor y = out(g);
  g->din[0] = ls_div(ls_mul_scalar(g->dout[0], 0.5), y);
  return ls_ok();
}

// -d y^3 / 2. The cube may overflow alone.
ls_status gradient_rsqrt(ls_backward *g) {
  const ls_tensor y = out(g);
  const ls_tensor half = ls_mul_scalar(g->dout[0], -0.5);
  g->din[0] = ls_mul(ls_mul(ls_mul(half, y), y), y);
  return ls_ok();
}

// d (1 - y^2).
ls_status gradient_tanh(ls_backward *g) {
  const ls_tensor y = out(g);
  const ls_tensor one = ls_gradient_number(y, 1);
  g->din[0] = ls_mul(g->dout[0], ls_sub(one, ls_square(y)));
  return ls_ok();
}

// d y (1 - y).
ls_status gradient_sigmoid(ls_backward *g) {
  const ls_tensor y = out(g);
  const ls_tensor one = ls_gradient_number(y, 1);
  g->din[0] = ls_mul(g->dout[0], ls_mul(y, ls_sub(one, y)));
  return ls_ok();
}

// d e^(-x^2) 2 / sqrt(pi).
ls_status gradient_erf(ls_backward *g) {
  const double factor = 1.1283791670955126;
  const ls_tensor bell = ls_exp(ls_neg(ls_square(in(g, 0))));
  g->din[0] = ls_mul(ls_mul_scalar(g->dout[0], factor), bell);
  return ls_ok();
}

// The gradient at 0 is 0.
ls_status gradient_relu(ls_backward *g) {
  g->din[0] = ls_relu_grad(g->dout[0], out(g));
  return ls_ok();
}

ls_status gradient_convert(ls_backward *g) {
  g->din[0] = ls_convert(g->dout[0], ls_tensor_dtype(ls_op_input(g->op, 0)));
  return ls_ok();
}

// ---- Two operands ----------------------------------------------------------
ls_status gradient_add(ls_backward *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, g->dout[0]);
  if (g->wanted[1]) ls_gradient_give_to(g, 1, g->dout[0]);
  return ls_ok();
}

ls_status gradient_sub(ls_backward *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, g->dout[0]);
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_neg(g->dout[0]));
  return ls_ok();
}

ls_status gradient_mul(ls_backward *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, ls_mul(g->dout[0], in(g, 1)));
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_mul(g->dout[0], in(g, 0)));
  return ls_ok();
}

// d / y, and -(d / y) (x / y).
ls_status gradient_div(ls_backward *g) {
  const ls_tensor quotient = ls_div(g->dout[0], in(g, 1));
  if (g->wanted[0]) ls_gradient_give_to(g, 0, quotient);
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_neg(ls_mul(quotient, out(g))));
  return ls_ok();
}

// If the operands are equal, the first one gets the gradient.
static ls_status
rules_elementwise_choose(ls_backward *g,
                         ls_tensor (*first_is_chosen)(ls_tensor, ls_tensor)) {
  const ls_tensor x = in(g, 0), y = in(g, 1);
  const ls_tensor first = first_is_chosen(x, y);
  const ls_tensor zero = ls_gradient_number(g->dout[0], 0);
  if (g->wanted[0])
    ls_gradient_give_to(g, 0, ls_select(first, g->dout[0], zero));
  if (g->wanted[1])
    ls_gradient_give_to(g, 1, ls_select(first, zero, g->dout[0]));
  return ls_ok();
}

ls_status gradient_maximum(ls_backward *g) {
  return rules_elementwise_choose(g, ls_greater_equal);
}

ls_status gradient_minimum(ls_backward *g) {
  return rules_elementwise_choose(g, ls_less_equal);
}

// Returns d a b. Where 1 lies between |a| and |b|, a b comes first, which lies
// between them; else d a: no factor overflows or underflows alone.
static ls_tensor scaled_product(ls_tensor d, ls_tensor a, ls_tensor b) {
  const ls_tensor one = ls_gradient_number(b, 1);
  const ls_tensor is_long = ls_greater_equal(ls_abs(b), one);
  const ls_tensor apart = ls_xor(ls_greater_equal(ls_abs(a), one), is_long);
  const ls_tensor first = ls_select(apart, b, d);
  const ls_tensor last = ls_select(apart, d, b);
  return ls_mul(ls_mul(first, a), last);
}

// Returns true where x^(y - 1) is a finite number for y = 0, or y is not 0.
static ls_tensor has_lower_power(ls_tensor x, ls_tensor y) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  const double least = dtype == LS_DTYPE_F16   ? 0x1p-14
                       : dtype == LS_DTYPE_F64 ? 0x1p-1022
                                               : 0x1p-126;
  const ls_tensor size = ls_abs(x);
  const ls_tensor large = ls_greater_equal(size, ls_gradient_number(x, least));
  const ls_tensor zero = ls_gradient_number(y, 0);
  return ls_or(large, ls_not_equal(y, zero));
}

// d y x^(y - 1), which is 0 for y = 0 and any x, an infinite one too: where the
// power is not finite, 0 times 1 is taken, so that its own gradients are 0.
static ls_tensor pow_by_base(ls_backward *g) {
  const ls_tensor x = in(g, 0), y = in(g, 1);
  const ls_tensor usable = has_lower_power(x, y);
  const ls_tensor base = ls_select(usable, x, ls_gradient_number(x, 1));
  const ls_tensor less = ls_sub(y, ls_gradient_number(y, 1));
  const ls_tensor power = ls_pow(base, less);
  const ls_tensor factor = ls_select(usable, y, ls_gradient_number(y, 0));
  return scaled_product(g->dout[0], power, factor);
}

// d x^y log(x), and 0 where x is 0 or negative: the logarithm's argument is
// replaced there, and the power, which may be infinite, so that no NaN arises.
static ls_tensor pow_by_exponent(ls_backward *g) {
  const ls_tensor x = in(g, 0), y = out(g);
  const ls_tensor zero = ls_gradient_number(x, 0);
  const ls_tensor positive = ls_not(ls_less_equal(x, zero));
  const ls_tensor log =
      ls_log(ls_select(positive, x, ls_gradient_number(x, 1)));
  const ls_tensor power = ls_select(positive, y, zero);
  return scaled_product(g->dout[0], power, log);
}

ls_status gradient_pow(ls_backward *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, pow_by_base(g));
  if (g->wanted[1]) ls_gradient_give_to(g, 1, pow_by_exponent(g));
  return ls_ok();
}

// The op is linear in operand 0. Operand 1 only selects, and gets no gradient.
ls_status gradient_relu_grad(ls_backward *g) {
  if (g->wanted[0])
    ls_gradient_give_to(g, 0, ls_relu_grad(g->dout[0], in(g, 1)));
  return ls_ok();
}

// ---- Other ops -------------------------------------------------------------
ls_status gradient_select(ls_backward *g) {
  const ls_tensor condition = in(g, 0);
  const ls_tensor zero = ls_gradient_number(g->dout[0], 0);
  if (g->wanted[1]) {
    const ls_tensor taken = ls_select(condition, g->dout[0], zero);
    g->din[1] = ls_sum_to_like(taken, in(g, 1));
  }
  if (g->wanted[2]) {
    const ls_tensor taken = ls_select(condition, zero, g->dout[0]);
    g->din[2] = ls_sum_to_like(taken, in(g, 2));
  }
  return ls_ok();
}

ls_status gradient_add_n(ls_backward *g) {
  for (size_t i = 0; i < g->num_inputs; ++i)
    g->din[i] = g->dout[0];
  return ls_ok();
}

// ---- Elementary functions --------------------------------------------------
// d e^x.
ls_status gradient_expm1(ls_backward *g) {
  g->din[0] = ls_mul(g->dout[0], ls_exp(in(g, 0)));
  return ls_ok();
}

ls_status gradient_log1p(ls_backward *g) {
  g->din[0] = ls_div(g->dout[0], ls_add_scalar(in(g, 0), 1));
  return ls_ok();
}

ls_status gradient_cos(ls_backward *g) {
  g->din[0] = ls_neg(ls_mul(g->dout[0], ls_sin(in(g, 0))));
  return ls_ok();
}

ls_status gradient_sin(ls_backward *g) {
  g->din[0] = ls_mul(g->dout[0], ls_cos(in(g, 0)));
  return ls_ok();
}

// d (1 + y^2).
ls_status gradient_tan(ls_backward *g) {
  g->din[0] = ls_mul(g->dout[0], ls_add_scalar(ls_square(out(g)), 1));
  return ls_ok();
}

// d / (3 y^2).
ls_status gradient_cbrt(ls_backward *g) {
  g->din[0] = ls_div(g->dout[0], ls_mul_scalar(ls_square(out(g)), 3));
  return ls_ok();
}

// -d e^(-x^2) 2 / sqrt(pi).
ls_status gradient_erfc(ls_backward *g) {
  const double factor = -1.1283791670955126;
  const ls_tensor bell = ls_exp(ls_neg(ls_square(in(g, 0))));
  g->din[0] = ls_mul(ls_mul_scalar(g->dout[0], factor), bell);
  return ls_ok();
}

ls_status gradient_softplus(ls_backward *g) {
  g->din[0] = ls_mul(g->dout[0], ls_sigmoid(in(g, 0)));
  return ls_ok();
}

ls_status gradient_gelu(ls_backward *g) {
  g->din[0] = ls_gelu_grad(g->dout[0], in(g, 0));
  return ls_ok();
}

// gelu''(x) = q (2w + x ((1 - 2s) w^2 + 6B x)) with w = A + 3B x^2, s =
// sigmoid(x (A + B x^2)) and q = s (1 - s). Beyond 10 it is 0, so x is clamped
// there to avoid overflow.
static ls_tensor gelu_curvature(ls_tensor x) {
  const double a = 1.5957691216057308, b = 0.07135481627260025;
  x = ls_maximum(x, ls_gradient_number(x, -10));
  x = ls_minimum(x, ls_gradient_number(x, 10));
  const ls_tensor square = ls_square(x), one = ls_gradient_number(x, 1);
  const ls_tensor slope = ls_add_scalar(ls_mul_scalar(square, b), a);
  const ls_tensor s = ls_sigmoid(ls_mul(x, slope));
  const ls_tensor w = ls_add_scalar(ls_mul_scalar(square, 3 * b), a);
  const ls_tensor q = ls_mul(s, ls_sub(one, s));
  const ls_tensor turn = ls_sub(one, ls_mul_scalar(s, 2));
  const ls_tensor bend = ls_mul(turn, ls_square(w));
  const ls_tensor inner = ls_add(bend, ls_mul_scalar(x, 6 * b));
  const ls_tensor twice = ls_mul_scalar(w, 2);
  return ls_mul(q, ls_add(twice, ls_mul(x, inner)));
}

ls_status gradient_gelu_grad(ls_backward *g) {
  if (g->wanted[0])
    ls_gradient_give_to(g, 0, ls_gelu_grad(g->dout[0], in(g, 1)));
  if (g->wanted[1]) {
    const ls_tensor both = ls_mul(g->dout[0], in(g, 0));
    ls_gradient_give_to(g, 1, ls_mul(both, gelu_curvature(in(g, 1))));
  }
  return ls_ok();
}

// With r = d / (x^2 + y^2) for the point (y, x): x r and -y r. Both coordinates
// are divided by the larger one, if it is finite, as squares may overflow.
ls_status gradient_atan2(ls_backward *g) {
  const ls_tensor width = ls_abs(in(g, 1));
  const ls_tensor larger = ls_maximum(width, ls_abs(in(g, 0)));
  const ls_tensor infinite = ls_gradient_number(larger, INFINITY);
  const ls_tensor finite = ls_less(larger, infinite);
  const ls_tensor one = ls_gradient_number(larger, 1);
  const ls_tensor scale = ls_select(finite, larger, one);
  const ls_tensor y = ls_div(in(g, 0), scale);
  const ls_tensor x = ls_div(in(g, 1), scale);
  const ls_tensor squares = ls_square(y);
  const ls_tensor sum = ls_add(squares, ls_square(x));
  const ls_tensor r = ls_div(ls_div(g->dout[0], scale), sum);
  if (g->wanted[0]) ls_gradient_give_to(g, 0, ls_mul(r, x));
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_neg(ls_mul(r, y)));
  return ls_ok();
}

// d, and -d times the quotient rounded towards zero: (x - remainder) / y.
ls_status gradient_remainder(ls_backward *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, g->dout[0]);
  if (g->wanted[1]) {
    const ls_tensor x = in(g, 0), y = in(g, 1);
    const ls_tensor quotient = ls_div(ls_sub(x, out(g)), y);
    ls_gradient_give_to(g, 1, ls_neg(ls_mul(g->dout[0], quotient)));
  }
  return ls_ok();
}

// ---- Products --------------------------------------------------------------
// Returns, for each element, the product of all other elements along an axis.
// It multiplies the elements before and after, without dividing, so that zeros
// are handled.
static ls_tensor product_of_others(ls_tensor x, int axis) {
  const ls_tensor before = ls_cumprod(x, axis, true, false);
  return ls_mul(before, ls_cumprod(x, axis, true, true));
}

// Handles one axis after another: computes the products, then their gradients
// in reverse order.
ls_status gradient_reduce_product(ls_backward *g) {
  const ls_attr *axes = ls_node_attr(g->node, LS_ATTR_ID_AXES);
  const size_t count = axes->as.ints.count;
  ls_tensor products[LS_MAX_RANK + 1];
  products[0] = in(g, 0);
  for (size_t i = 0; i < count; ++i) {
    const int axis = (int)axes->as.ints.items[i];
    if (i + 1 < count)
      products[i + 1] = ls_reduce_product_keep(products[i], LS_AXES(axis));
  }
  ls_tensor gradient = ls_gradient_keep_axes(g, g->dout[0]);
  for (size_t i = count; i-- > 0;) {
    const int axis = (int)axes->as.ints.items[i];
    gradient = ls_mul(gradient, product_of_others(products[i], axis));
  }
  g->din[0] = gradient;
  return ls_ok();
}

// ---- Barriers --------------------------------------------------------------
// The gradients pass through a barrier of their own.
ls_status gradient_barrier(ls_backward *g) {
  LS_ARENA_ARRAY_OR_RETURN(g->walk->context->arena, ls_nest, leaves,
                           g->num_outputs);
  for (size_t i = 0; i < g->num_outputs; ++i)
    leaves[i] = g->dout[i].ref != 0 ? ls_leaf(g->dout[i]) : ls_none();
  LS_OWN(ls_nest, made) =
      ls_barrier(ls_nest_sequence(LS_KIND_LIST, leaves, g->num_outputs));
  for (size_t i = 0; i < g->num_outputs; ++i)
    g->din[i] = ls_nest_tensor(made, i);
  return ls_nest_status(made);
}
