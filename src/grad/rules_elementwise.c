// SPDX-License-Identifier: Apache-2.0
//
// Rules of elementwise ops. If operands broadcast, a gradient is summed down to
// the shape of its operand.
//
// C does not define the order in which arguments are evaluated. A call
// therefore has at most one argument that makes ops, so that any compiler makes
// the ops in the same order, with the same names.
#include "grad/rules.h"

static ls_tensor in(ls_gradient *g, size_t i) {
  return ls_gradient_input(g, i);
}
static ls_tensor out(ls_gradient *g) { return ls_gradient_output(g, 0); }

// ---- One operand -----------------------------------------------------------
ls_status gradient_identity(ls_gradient *g) {
  g->din[0] = g->dout[0];
  return ls_ok();
}

ls_status gradient_neg(ls_gradient *g) {
  g->din[0] = ls_neg(g->dout[0]);
  return ls_ok();
}

// The gradient at 0 is 0.
ls_status gradient_abs(ls_gradient *g) {
  g->din[0] = ls_mul(g->dout[0], ls_sign(in(g, 0)));
  return ls_ok();
}

ls_status gradient_exp(ls_gradient *g) {
  g->din[0] = ls_mul(g->dout[0], out(g));
  return ls_ok();
}

ls_status gradient_log(ls_gradient *g) {
  g->din[0] = ls_div(g->dout[0], in(g, 0));
  return ls_ok();
}

// d / (2 y).
ls_status gradient_sqrt(ls_gradient *g) {
  const ls_tensor y = out(g);
  g->din[0] = ls_div(ls_mul_scalar(g->dout[0], 0.5), y);
  return ls_ok();
}

// -d y^3 / 2.
ls_status gradient_rsqrt(ls_gradient *g) {
  const ls_tensor y = out(g);
  const ls_tensor cube = ls_mul(ls_square(y), y);
  g->din[0] = ls_mul(ls_mul_scalar(g->dout[0], -0.5), cube);
  return ls_ok();
}

// d (1 - y^2).
ls_status gradient_tanh(ls_gradient *g) {
  const ls_tensor y = out(g);
  const ls_tensor one = ls_gradient_number(y, 1);
  g->din[0] = ls_mul(g->dout[0], ls_sub(one, ls_square(y)));
  return ls_ok();
}

// d y (1 - y).
ls_status gradient_sigmoid(ls_gradient *g) {
  const ls_tensor y = out(g);
  const ls_tensor one = ls_gradient_number(y, 1);
  g->din[0] = ls_mul(g->dout[0], ls_mul(y, ls_sub(one, y)));
  return ls_ok();
}

// d e^(-x^2) 2 / sqrt(pi).
ls_status gradient_erf(ls_gradient *g) {
  const double factor = 1.1283791670955126;
  const ls_tensor bell = ls_exp(ls_neg(ls_square(in(g, 0))));
  g->din[0] = ls_mul(ls_mul_scalar(g->dout[0], factor), bell);
  return ls_ok();
}

// The gradient at 0 is 0.
ls_status gradient_relu(ls_gradient *g) {
  g->din[0] = ls_relu_grad(g->dout[0], out(g));
  return ls_ok();
}

ls_status gradient_convert(ls_gradient *g) {
  g->din[0] = ls_convert(g->dout[0], ls_tensor_dtype(ls_op_input(g->op, 0)));
  return ls_ok();
}

// ---- Two operands ----------------------------------------------------------
ls_status gradient_add(ls_gradient *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, g->dout[0]);
  if (g->wanted[1]) ls_gradient_give_to(g, 1, g->dout[0]);
  return ls_ok();
}

ls_status gradient_sub(ls_gradient *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, g->dout[0]);
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_neg(g->dout[0]));
  return ls_ok();
}

ls_status gradient_mul(ls_gradient *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, ls_mul(g->dout[0], in(g, 1)));
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_mul(g->dout[0], in(g, 0)));
  return ls_ok();
}

// d / y, and -(d / y) (x / y).
ls_status gradient_div(ls_gradient *g) {
  const ls_tensor quotient = ls_div(g->dout[0], in(g, 1));
  if (g->wanted[0]) ls_gradient_give_to(g, 0, quotient);
  if (g->wanted[1]) ls_gradient_give_to(g, 1, ls_neg(ls_mul(quotient, out(g))));
  return ls_ok();
}

// If the operands are equal, the first one gets the gradient.
static ls_status
rules_elementwise_choose(ls_gradient *g,
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

ls_status gradient_maximum(ls_gradient *g) {
  return rules_elementwise_choose(g, ls_greater_equal);
}

ls_status gradient_minimum(ls_gradient *g) {
  return rules_elementwise_choose(g, ls_less_equal);
}

// d y x^(y - 1), which is 0 for y = 0 and any x.
static ls_tensor pow_by_base(ls_gradient *g) {
  const ls_tensor x = in(g, 0), y = in(g, 1);
  const ls_tensor one = ls_gradient_number(y, 1);
  const ls_tensor constant = ls_equal(y, ls_gradient_number(y, 0));
  const ls_tensor exponent = ls_select(constant, one, ls_sub(y, one));
  return ls_mul(g->dout[0], ls_mul(y, ls_pow(x, exponent)));
}

// d x^y log(x), and 0 where x is not positive: the logarithm's argument is
// replaced there, so that no NaN arises.
static ls_tensor pow_by_exponent(ls_gradient *g) {
  const ls_tensor x = in(g, 0), y = out(g);
  const ls_tensor zero = ls_gradient_number(x, 0);
  const ls_tensor positive = ls_greater(x, zero);
  const ls_tensor log =
      ls_log(ls_select(positive, x, ls_gradient_number(x, 1)));
  return ls_mul(g->dout[0], ls_mul(y, ls_select(positive, log, zero)));
}

ls_status gradient_pow(ls_gradient *g) {
  if (g->wanted[0]) ls_gradient_give_to(g, 0, pow_by_base(g));
  if (g->wanted[1]) ls_gradient_give_to(g, 1, pow_by_exponent(g));
  return ls_ok();
}

// The op is linear in operand 0. Operand 1 only selects, and gets no gradient.
ls_status gradient_relu_grad(ls_gradient *g) {
  if (g->wanted[0])
    ls_gradient_give_to(g, 0, ls_relu_grad(g->dout[0], in(g, 1)));
  return ls_ok();
}

// ---- Other ops -------------------------------------------------------------
ls_status gradient_select(ls_gradient *g) {
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

ls_status gradient_add_n(ls_gradient *g) {
  for (size_t i = 0; i < g->num_inputs; ++i)
    g->din[i] = g->dout[0];
  return ls_ok();
}
