// SPDX-License-Identifier: Apache-2.0
//
// Random programs: ops that work element by element, and control flow around
// them.
#include "base/memory/own.h"
#include "support/expect.h"
#include "support/random_build.h"

// ---- Elements --------------------------------------------------------------
// Results stay in a range in which bits can differ: neither all infinite nor
// all nan.
static ls_tensor positive(ls_tensor x) {
  return ls_add_scalar(ls_abs(x), 0.125);
}

static ls_tensor bounded(ls_tensor x) {
  const ls_dtype dtype = ls_tensor_dtype(x);
  return ls_clamp(ls_scalar(dtype, -9), x, ls_scalar(dtype, 9));
}

#define ONE(text, expression)                                                  \
  case __LINE__ - FIRST_ONE:                                                   \
    *name = text;                                                              \
    return (expression)

static ls_tensor one_operand(loop_random *random, const char **name,
                             ls_tensor x) {
  switch (loop_random_between(random, 1, 30)) {
    enum { FIRST_ONE = __LINE__ };
    ONE("neg", ls_neg(x));
    ONE("abs", ls_abs(x));
    ONE("sign", ls_sign(x));
    ONE("exp", ls_exp(bounded(x)));
    ONE("log", ls_log(positive(x)));
    ONE("sqrt", ls_sqrt(ls_abs(x)));
    ONE("rsqrt", ls_rsqrt(positive(x)));
    ONE("tanh", ls_tanh(x));
    ONE("sigmoid", ls_sigmoid(x));
    ONE("erf", ls_erf(x));
    ONE("erfc", ls_erfc(x));
    ONE("relu", ls_relu(x));
    ONE("expm1", ls_expm1(bounded(x)));
    ONE("log1p", ls_log1p(ls_square(x)));
    ONE("cos", ls_cos(x));
    ONE("sin", ls_sin(x));
    ONE("tan", ls_tan(ls_tanh(x)));
    ONE("cbrt", ls_cbrt(x));
    ONE("softplus", ls_softplus(x));
    ONE("gelu", ls_gelu(x));
    ONE("silu", ls_silu(x));
    ONE("elu", ls_elu(x, 0.7));
    ONE("leaky relu", ls_leaky_relu(x, 0.1));
    ONE("square", ls_square(bounded(x)));
    ONE("round", ls_add(ls_round(x), x));
    ONE("floor", ls_sub(x, ls_floor(x)));
    ONE("stop gradient", ls_mul(ls_stop_gradient(x), ls_tanh(x)));
    ONE("add scalar", ls_add_scalar(x, 0.3));
    ONE("mul scalar", ls_mul_scalar(x, -0.7));
  default:
    *name = "log sqrt";
    return ls_sqrt(ls_log(ls_add_scalar(ls_square(x), 1.25)));
  }
}
#undef ONE

static ls_tensor sum_of_five(ls_tensor x, ls_tensor y) {
  return ls_add_n((const ls_tensor[]){x, y, x, y, x}, 5);
}

static ls_tensor behind_barrier(ls_tensor x, ls_tensor y) {
  LS_OWN(ls_nest, both) = ls_barrier(LS_TUPLE(ls_leaf(x), ls_leaf(y)));
  return ls_add(random_leaf(both, 0), random_leaf(both, 1));
}

#define TWO(text, expression)                                                  \
  case __LINE__ - FIRST_TWO:                                                   \
    *name = text;                                                              \
    return (expression)

static ls_tensor two_operands(loop_random *random, const char **name,
                              ls_tensor x, ls_tensor y) {
  switch (loop_random_between(random, 1, 18)) {
    enum { FIRST_TWO = __LINE__ };
    TWO("add", ls_add(x, y));
    TWO("sub", ls_sub(x, y));
    TWO("mul", ls_mul(x, y));
    TWO("mul add", ls_add(ls_mul(x, y), x));
    TWO("mul sub", ls_sub(x, ls_mul(x, y)));
    TWO("div", ls_div(x, ls_add_scalar(ls_abs(y), 0.5)));
    TWO("maximum", ls_maximum(x, y));
    TWO("minimum", ls_minimum(x, y));
    TWO("pow", ls_pow(positive(ls_tanh(x)), ls_tanh(y)));
    TWO("atan2", ls_atan2(x, y));
    TWO("remainder", ls_remainder(x, positive(y)));
    TWO("relu grad", ls_relu_grad(x, y));
    TWO("gelu grad", ls_gelu_grad(x, y));
    TWO("select", ls_select(ls_less(x, y), x, y));
    TWO("equal", ls_select(ls_greater_equal(x, y), ls_neg(x), y));
    TWO("add_n", sum_of_five(x, ls_broadcast_like(y, x)));
    TWO("barrier", behind_barrier(x, y));
  default:
    *name = "clamp";
    y = ls_abs(ls_broadcast_like(y, x));
    return ls_clamp(ls_neg(y), x, y);
  }
}
#undef TWO

ls_tensor random_element(loop_random *random, const char **name, ls_tensor x,
                         ls_tensor y) {
  if (loop_random_between(random, 0, 1) == 0)
    return one_operand(random, name, x);
  return two_operands(random, name, x, y);
}

// Another operand that broadcasts to x's shape, or has it.
static ls_tensor partner(random_build *b, ls_tensor x) {
  ls_shape shape = ls_tensor_shape(x);
  const ls_tensor y = random_pick(b);
  switch (random_between(b, 0, 5)) {
  case 0:
    return random_fit(y, LS_SCALAR);
  case 1:
    if (shape.rank > 0)
      return random_fit(y, LS_SHAPE(shape.dim[shape.rank - 1]));
    return random_fit(y, shape);
  case 2:
    if (shape.rank > 0) shape.dim[shape.rank - 1] = 1;
    return random_fit(y, shape);
  default:
    return random_fit(y, shape);
  }
}

void random_add_element(random_build *b) {
  const int64_t many = random_between(b, 1, 5);
  ls_tensor x = random_pick(b);
  for (int64_t i = 0; i < many; ++i) {
    const char *name = NULL;
    const ls_tensor y = partner(b, x);
    x = random_element(&b->random, &name, x, y);
    random_add(b, name, x);
  }
}

// ---- Flow ------------------------------------------------------------------
// A body draws its ops anew each time it is made or run.
typedef struct flow {
  loop_random random;
  ls_tensor y, trips;
  bool product;
} flow;

static ls_tensor some_ops(const flow *f, ls_tensor x, int count) {
  loop_random random = f->random;
  const char *name = NULL;
  for (int i = 0; i < count; ++i)
    x = random_element(&random, &name, x, f->y);
  return ls_tanh(x);
}

static ls_nest goes_on(ls_nest values, void *user) {
  const flow *f = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), f->trips));
}

static ls_nest next(ls_nest values, void *user) {
  const flow *f = user;
  const ls_tensor trip = ls_nest_tensor(values, 0);
  ls_tensor x = some_ops(f, ls_nest_tensor(values, 1), 3);
  if (f->product) x = ls_tanh(ls_matmul_transposed(x, false, f->y, true));
  return LS_TUPLE(ls_leaf(ls_add(trip, ls_scalar(LS_DTYPE_I32, 1))),
                  ls_leaf(x));
}

static ls_nest one_branch(ls_nest none, void *user) {
  const flow *f = user;
  (void)none;
  return ls_leaf(some_ops(f, f->y, 3));
}

static ls_nest other_branch(ls_nest none, void *user) {
  const flow *f = user;
  (void)none;
  return ls_leaf(ls_sub(some_ops(f, ls_neg(f->y), 2), f->y));
}

static ls_tensor pick_for_flow(random_build *b) {
  const ls_tensor x = random_pick(b);
  return b->program->through_flow ? x : ls_stop_gradient(x);
}

static void add_loop(random_build *b) {
  ls_tensor x = pick_for_flow(b), y = pick_for_flow(b);
  flow f = {.random = {(uint64_t)random_between(b, 1, 1 << 30)},
            .product = random_one_in(b, 2)};
  if (f.product) {
    x = random_matrix(x);
    const int64_t size = ls_tensor_shape(x).dim[1];
    if (size > 40 || ls_tensor_shape(x).dim[0] > 40) f.product = false;
    if (f.product) {
      x = random_fit(x, LS_SHAPE(size, size));
      y = random_fit(y, LS_SHAPE(size, size));
    }
  }
  f.y = random_fit(y, ls_tensor_shape(x));
  f.trips = ls_scalar(LS_DTYPE_I32, (double)random_between(b, 0, 3));
  const ls_nest initial =
      LS_TUPLE(ls_leaf(ls_scalar(LS_DTYPE_I32, 0)), ls_leaf(x));
  LS_OWN(ls_nest, results) =
      ls_while(goes_on, next, &f, initial, random_one_in(b, 2) ? 4 : 0);
  random_add(b, "while", random_leaf(results, 1));
}

static void add_branch(random_build *b) {
  flow f = {.random = {(uint64_t)random_between(b, 1, 1 << 30)},
            .y = pick_for_flow(b)};
  const ls_tensor sum = ls_reduce_sum(f.y, LS_ALL_AXES);
  const ls_tensor above = ls_greater(sum, random_scalar(b, 0));
  LS_OWN(ls_nest, result) = ls_cond(above, one_branch, other_branch, &f);
  random_add(b, "cond", random_leaf(result, 0));
}

void random_add_flow(random_build *b) {
  if (random_one_in(b, 2))
    add_loop(b);
  else
    add_branch(b);
}
