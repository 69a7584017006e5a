// SPDX-License-Identifier: Apache-2.0
// Initializers, and weights: variables whose initial value is drawn by name.
#include <math.h>
#include <stdio.h>

#include "base/memory/map.h"
#include "base/memory/own.h"
#include "base/require.h"
#include "graph/context.h"
#include "graph/make/make.h"
#include "lockstep/weights.h"

// ---- By constants and distributions ----------------------------------------
static ls_tensor draw_constant(const ls_initializer *self, ls_dtype dtype,
                               ls_shape shape,
                               const ls_random_options *random) {
  (void)random;
  return ls_fill(dtype, shape, self->a);
}

static ls_tensor draw_uniform(const ls_initializer *self, ls_dtype dtype,
                              ls_shape shape, const ls_random_options *random) {
  return ls_random_uniform(dtype, shape, self->a, self->b, random);
}

static ls_tensor draw_normal(const ls_initializer *self, ls_dtype dtype,
                             ls_shape shape, const ls_random_options *random) {
  return ls_random_normal(dtype, shape, self->a, self->b, random);
}

static ls_tensor draw_truncated(const ls_initializer *self, ls_dtype dtype,
                                ls_shape shape,
                                const ls_random_options *random) {
  return ls_random_truncated_normal(dtype, shape, self->a, self->b, random);
}

ls_initializer ls_init_zeros(void) { return ls_init_constant(0); }

ls_initializer ls_init_ones(void) { return ls_init_constant(1); }

ls_initializer ls_init_constant(double value) {
  return (ls_initializer){.draw = draw_constant, .a = value};
}

ls_initializer ls_init_uniform(double low, double high) {
  return (ls_initializer){.draw = draw_uniform, .a = low, .b = high};
}

ls_initializer ls_init_normal(double mean, double deviation) {
  return (ls_initializer){.draw = draw_normal, .a = mean, .b = deviation};
}

ls_initializer ls_init_truncated_normal(double mean, double deviation) {
  return (ls_initializer){.draw = draw_truncated, .a = mean, .b = deviation};
}

// ---- By fan in and fan out -------------------------------------------------
typedef struct fans {
  double in, out;
} fans;

static fans fans_of(ls_shape shape) {
  double all = 1;
  for (int i = 0; i < shape.rank; ++i)
    all *= (double)shape.dim[i];
  if (all == 0) return (fans){1, 1};  // No element will be drawn.
  if (shape.rank < 2) return (fans){all, all};
  const double in = (double)shape.dim[shape.rank - 2];
  const double out = (double)shape.dim[shape.rank - 1];
  return (fans){all / out, all / in};
}

// Returns the divisor of the variance: the fan in or, with `b`, the mean of fan
// in and fan out.
static double divisor(const ls_initializer *self, ls_shape shape) {
  const fans f = fans_of(shape);
  return self->b != 0 ? (f.in + f.out) / 2 : f.in;
}

static ls_tensor draw_scaled_uniform(const ls_initializer *self, ls_dtype dtype,
                                     ls_shape shape,
                                     const ls_random_options *random) {
  const double limit = sqrt(3 * self->a / divisor(self, shape));
  return ls_random_uniform(dtype, shape, -limit, limit, random);
}

static ls_tensor draw_scaled_normal(const ls_initializer *self, ls_dtype dtype,
                                    ls_shape shape,
                                    const ls_random_options *random) {
  return ls_random_normal(dtype, shape, 0, sqrt(self->a / divisor(self, shape)),
                          random);
}

ls_initializer ls_init_glorot_uniform(void) {
  return (ls_initializer){.draw = draw_scaled_uniform, .a = 1, .b = 1};
}

ls_initializer ls_init_glorot_normal(void) {
  return (ls_initializer){.draw = draw_scaled_normal, .a = 1, .b = 1};
}

ls_initializer ls_init_he_uniform(void) {
  return (ls_initializer){.draw = draw_scaled_uniform, .a = 2};
}

ls_initializer ls_init_he_normal(void) {
  return (ls_initializer){.draw = draw_scaled_normal, .a = 2};
}

ls_initializer ls_init_lecun_uniform(void) {
  return (ls_initializer){.draw = draw_scaled_uniform, .a = 1};
}

ls_initializer ls_init_lecun_normal(void) {
  return (ls_initializer){.draw = draw_scaled_normal, .a = 1};
}

// ---- Orthogonal ------------------------------------------------------------
// Computes the orthogonal factor by Newton's iteration x' = (3 x - x x^T x) /
// 2, which makes every singular value in (0, sqrt(3)) approach 1. The loop
// values are x and the product x^T x or, if x is wide, x x^T.
static ls_nest with_product(ls_tensor x) {
  const ls_shape shape = ls_tensor_shape(x);
  const bool wide = shape.dim[0] < shape.dim[1];
  return LS_TUPLE(ls_leaf(x), ls_leaf(ls_matmul_transposed(x, !wide, x, wide)));
}

static ls_tensor improved(ls_nest values) {
  const ls_tensor x = ls_nest_tensor(values, 0);
  const ls_tensor product = ls_nest_tensor(values, 1);
  const ls_shape shape = ls_tensor_shape(x);
  const ls_tensor cube = shape.dim[0] < shape.dim[1] ? ls_matmul(product, x)
                                                     : ls_matmul(x, product);
  const ls_tensor half = ls_mul_scalar(cube, 0.5);
  return ls_sub(ls_mul_scalar(x, 1.5), half);
}

static ls_nest improve_step(ls_nest values, void *user) {
  (void)user;
  return with_product(improved(values));
}

// Returns true while the product is far from the identity. The step after the
// loop squares the remaining error.
static ls_nest is_far(ls_nest values, void *user) {
  (void)user;
  const ls_tensor product = ls_nest_tensor(values, 1);
  const ls_shape shape = ls_tensor_shape(product);
  const ls_dtype dtype = ls_tensor_dtype(product);
  const ls_tensor identity = ls_one_hot(
      ls_iota(LS_DTYPE_I32, LS_SHAPE(shape.dim[0]), 0), shape.dim[0], dtype);
  const ls_tensor error =
      ls_reduce_max(ls_abs(ls_sub(product, identity)), LS_ALL_AXES);
  return ls_leaf(ls_greater(error, ls_scalar(dtype, 1e-4)));
}

// Divides a start with a singular value that may be beyond sqrt(3) by a bound
// of all, the fourth root of the sum of squares of the product.
static ls_tensor bounded_start(ls_tensor x) {
  LS_OWN(ls_nest, values) = with_product(x);
  const ls_tensor product = ls_nest_tensor(values, 1);
  const ls_tensor sum = ls_reduce_sum(ls_square(product), LS_ALL_AXES);
  const ls_dtype dtype = ls_tensor_dtype(x);
  const ls_tensor root = ls_sqrt(ls_sqrt(sum)), one = ls_scalar(dtype, 1);
  const ls_tensor bound =
      ls_select(ls_less(sum, ls_scalar(dtype, 8)), one, root);
  return ls_div(x, bound);
}

static ls_tensor draw_orthogonal(const ls_initializer *self, ls_dtype dtype,
                                 ls_shape shape,
                                 const ls_random_options *random) {
  const int64_t all = ls_shape_num_elements(shape);
  if (all <= 0) return ls_fill(dtype, shape, 0);
  const int64_t columns = shape.rank > 0 ? shape.dim[shape.rank - 1] : 1;
  const int64_t rows = all / columns;
  const ls_dtype inner = dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  // Scales by the largest singular value, which is about the sum of the square
  // roots of the sizes.
  const double deviation = 1 / (sqrt((double)rows) + sqrt((double)columns));
  ls_tensor start =
      ls_random_normal(inner, LS_SHAPE(rows, columns), 0, deviation, random);
  // A small matrix is this far from the expected one in one of 100000 draws, a
  // large one in none.
  if (deviation > 1.0 / 12) start = bounded_start(start);
  LS_OWN(ls_nest, near) =
      ls_while(is_far, improve_step, NULL, with_product(start), 100);
  const ls_status status = ls_nest_status(near);
  const ls_tensor x = ls_status_is_ok(status)
                          ? improved(near)
                          : ls_make_failed("orthogonal initializer", status);
  return ls_convert(ls_reshape(ls_mul_scalar(x, self->a), shape), dtype);
}

ls_initializer ls_init_orthogonal(double gain) {
  return (ls_initializer){.draw = draw_orthogonal, .a = gain};
}

// ---- Weights ---------------------------------------------------------------
// Writes the current name scope, such as "a/b/", into `buffer`.
static void print_scope(char *buffer, size_t size) {
  ls_name_scope_print(ls_context_current()->scoped.names, buffer, size);
}

// State of the initializer that draws a weight; valid while the variable is
// created.
typedef struct weight_draw {
  const ls_weight_options *options;
  // The variable's full name in eager mode, where names are not made unique.
  const char *eager_name;
} weight_draw;

// Draws the value by the variable's full name. In a build graph a number may be
// appended to the name; there the current scope, in which the variable's ops
// are, is the full name.
static ls_nest draw(ls_nest args, void *user) {
  (void)args;
  const weight_draw *drawn = user;
  const char *name = drawn->eager_name;
  size_t size = strlen(name);
  char scope[LS_MAX_FULL_NAME];
  if (!ls_graph_is_eager(ls_graph_current())) {
    print_scope(scope, sizeof(scope));
    name = scope;
    size = strlen(scope);
    if (size > 0 && scope[size - 1] == '/') --size;
  }
  const ls_weight_options *options = drawn->options;
  // Streams are positive in the text form.
  const uint64_t stream = ls_hash(name, size, 0) & INT64_MAX;
  const ls_random_options random = {.seed = options->seed,
                                    .stream = LS_SOME((int64_t)stream),
                                    .fixed = true,
                                    .same_on_all_replicas = true};
  const ls_initializer *initializer = &options->initializer;
  return ls_leaf(
      initializer->draw(initializer, options->dtype, options->shape, &random));
}

// Returns true if the initializer makes zeros, as a variable has by default; -0
// is not such a zero.
static bool is_zeros(const ls_initializer *initializer) {
  const ls_initializer zeros = ls_init_zeros();
  return initializer->draw == zeros.draw &&
         memcmp(&initializer->a, &zeros.a, sizeof(zeros.a)) == 0;
}

ls_status ls_weight_create(const ls_weight_options *options,
                           ls_variable **out_variable) {
  LS_REQUIRE_OUT(out_variable);
  ls_weight_options opts = options != NULL ? *options : (ls_weight_options){0};
  if (opts.name == NULL) opts.name = "weight";
  if (opts.dtype == LS_DTYPE_NONE) opts.dtype = LS_DTYPE_F32;
  if (opts.initializer.draw == NULL)
    opts.initializer = ls_init_glorot_uniform();
  if (!ls_shape_is_known(opts.shape))
    return ls_invalid_argument("weight '%s' needs a known shape, got %s",
                               opts.name,
                               LS_SHAPE_TEXT(opts.dtype, opts.shape));
  char scope[LS_MAX_FULL_NAME], name[2 * LS_MAX_FULL_NAME];
  print_scope(scope, sizeof(scope));
  snprintf(name, sizeof(name), "%s%s", scope, opts.name);
  weight_draw drawn = {.options = &opts, .eager_name = name};
  return ls_variable_create(
      &(ls_variable_options){.name = opts.name,
                             .dtype = opts.dtype,
                             .shape = opts.shape,
                             .initializer =
                                 is_zeros(&opts.initializer) ? NULL : draw,
                             .initializer_user = &drawn,
                             .trainable = opts.trainable},
      out_variable);
}
