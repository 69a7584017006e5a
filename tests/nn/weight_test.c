// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include "graph/own.h"
#include "lockstep/eager.h"
#include "lockstep/nn.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

static ls_array *value_of(const ls_weight_options *options) {
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_weight_create(options, &variable));
  return variable_array(variable);
}

static bool same(const ls_weight_options *a, const ls_weight_options *b) {
  LS_OWN(ls_array, x) = value_of(a);
  LS_OWN(ls_array, y) = value_of(b);
  return ls_array_size(x) == ls_array_size(y) &&
         memcmp(ls_array_data(x), ls_array_data(y), ls_array_size(x)) == 0;
}

TEST(a_weight_depends_on_seed_and_name_alone) {
  const ls_weight_options w = {.name = "w", .shape = LS_SHAPE(8, 8)};
  ls_weight_options other = w;
  assert_true(same(&w, &other));
  other.name = "v";
  assert_false(same(&w, &other));
  other = w;
  other.seed = 1;
  assert_false(same(&w, &other));
  LS_OWN(ls_array, outside) = value_of(&w);
  {
    LS_NAME_SCOPE("scope");
    LS_OWN(ls_array, inside) = value_of(&w);
    assert_memory_not_equal(ls_array_data(outside), ls_array_data(inside),
                            ls_array_size(inside));
  }
}

TEST(a_session_starts_with_the_values_of_eager) {
  const ls_weight_options w = {.name = "w", .shape = LS_SHAPE(8, 8)};
  ls_array *eager = NULL;
  {
    LS_NAME_SCOPE("layer");
    eager = value_of(&w);
  }
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_variable, variable) = NULL;
  ls_op init = {0};
  {
    LS_GRAPH_SCOPE(graph);
    {
      LS_NAME_SCOPE("layer");
      expect_ok(ls_weight_create(&w, &variable));
    }
    init = ls_global_initializer();
  }
  assert_string_equal(ls_variable_name(variable), "layer/w");
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, results) = session_results(session, ls_nest_op(init));
  LS_OWN(ls_array, session_value) = session_array(session, variable);
  assert_memory_equal(ls_array_data(eager), ls_array_data(session_value),
                      ls_array_size(eager));
  ls_array_release(eager);
}

// ---- Initializers ----------------------------------------------------------
typedef struct moments {
  double mean, variance, least, most;
} moments;

static moments moments_of(ls_initializer initializer, ls_shape shape) {
  LS_OWN(ls_array, value) = value_of(&(ls_weight_options){
      .shape = shape, .dtype = LS_DTYPE_F64, .initializer = initializer});
  const int64_t count = ls_array_num_elements(value);
  moments m = {.least = INFINITY, .most = -INFINITY};
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) {
    const double x = ls_array_f64(value, i);
    m.mean += x / (double)count;
    squares += x * x / (double)count;
    m.least = fmin(m.least, x);
    m.most = fmax(m.most, x);
  }
  m.variance = squares - m.mean * m.mean;
  return m;
}

// Of [50, 200] or [5, 5, 8, 50]: fans of 50 or 200 in and 200 or 1250 out.
TEST(fans_set_the_variance) {
  const struct {
    ls_initializer initializer;
    double matrix, windows;  // Variances.
    bool uniform;
  } rows[] = {
      {ls_init_glorot_uniform(), 2.0 / 250, 2.0 / 1450, true},
      {ls_init_glorot_normal(), 2.0 / 250, 2.0 / 1450, false},
      {ls_init_he_uniform(), 2.0 / 50, 2.0 / 200, true},
      {ls_init_he_normal(), 2.0 / 50, 2.0 / 200, false},
      {ls_init_lecun_uniform(), 1.0 / 50, 1.0 / 200, true},
      {ls_init_lecun_normal(), 1.0 / 50, 1.0 / 200, false},
  };
  const ls_shape shapes[] = {LS_SHAPE(50, 200), LS_SHAPE(5, 5, 8, 50)};
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    for (size_t k = 0; k < 2; ++k) {
      const double wanted = k == 0 ? rows[i].matrix : rows[i].windows;
      const moments m = moments_of(rows[i].initializer, shapes[k]);
      // Five standard errors of ten thousand draws.
      assert_true(fabs(m.mean) < 0.05 * sqrt(wanted));
      assert_true(fabs(m.variance / wanted - 1) < 0.071);
      const double limit = sqrt(3 * wanted);
      const bool inside = m.least >= -limit && m.most <= limit;
      assert_true(inside == rows[i].uniform);
      if (inside) assert_true(m.least < -0.99 * limit && m.most > 0.99 * limit);
    }
}

TEST(numbers_set_range_mean_and_deviation) {
  const ls_shape shape = LS_SHAPE(10000);
  moments m = moments_of(ls_init_uniform(2, 5), shape);
  assert_true(m.least >= 2 && m.least < 2.01 && m.most < 5 && m.most > 4.99);
  m = moments_of(ls_init_normal(3, 0.5), shape);
  assert_true(fabs(m.mean - 3) < 0.025 && fabs(m.variance - 0.25) < 0.018);
  assert_true(m.most > 4.5);
  m = moments_of(ls_init_truncated_normal(3, 0.5), shape);
  assert_true(m.least >= 2 && m.most <= 4 && m.least < 2.01 && m.most > 3.99);
  // Of a normal cut at two deviations 0.7737 of the variance is left.
  assert_true(fabs(m.mean - 3) < 0.025);
  assert_true(fabs(m.variance - 0.25 * 0.7737) < 0.012);
  m = moments_of(ls_init_constant(-1.5), shape);
  assert_true(m.least == -1.5 && m.most == -1.5);
}

// The product of rows a and b of [rows, columns], or of columns.
static double product(const ls_array *x, int64_t columns, int64_t count,
                      bool of_rows, int64_t a, int64_t b) {
  double sum = 0;
  for (int64_t k = 0; k < count; ++k)
    sum += of_rows ? ls_array_f64(x, a * columns + k) *
                         ls_array_f64(x, b * columns + k)
                   : ls_array_f64(x, k * columns + a) *
                         ls_array_f64(x, k * columns + b);
  return sum;
}

TEST(orthogonal_rows_or_columns_are_orthonormal) {
  const struct {
    ls_shape shape;
    int64_t rows, columns;
  } cases[] = {{LS_SHAPE(6, 20), 6, 20},
               {LS_SHAPE(20, 6), 20, 6},
               {LS_SHAPE(24, 24), 24, 24},
               {LS_SHAPE(3, 3, 2, 5), 18, 5},
               {LS_SHAPE(4), 1, 4}};
  for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); ++i)
    for (ls_dtype dtype = LS_DTYPE_F64; dtype <= LS_DTYPE_F32; ++dtype) {
      LS_OWN(ls_array, x) =
          value_of(&(ls_weight_options){.shape = cases[i].shape,
                                        .dtype = dtype,
                                        .initializer = ls_init_orthogonal(2)});
      const int64_t rows = cases[i].rows, columns = cases[i].columns;
      const bool wide = rows < columns;
      const int64_t few = wide ? rows : columns, many = wide ? columns : rows;
      for (int64_t a = 0; a < few; ++a)
        for (int64_t b = 0; b < few; ++b)
          assert_true(fabs(product(x, columns, many, wide, a, b) -
                           (a == b ? 4 : 0)) < 2e-5);
    }
}

// With this seed the number drawn is 4.5 deviations from 0.
TEST(an_unlikely_draw_becomes_orthogonal_too) {
  LS_OWN(ls_array, x) =
      value_of(&(ls_weight_options){.name = "w",
                                    .shape = LS_SHAPE(1, 1),
                                    .dtype = LS_DTYPE_F64,
                                    .seed = 32483,
                                    .initializer = ls_init_orthogonal(1)});
  assert_true(fabs(fabs(ls_array_f64(x, 0)) - 1) < 1e-6);
}

TEST(zeros_and_ones_are_that) {
  const moments zeros = moments_of(ls_init_zeros(), LS_SHAPE(5));
  const moments ones = moments_of(ls_init_ones(), LS_SHAPE(5));
  assert_true(zeros.least == 0 && zeros.most == 0);
  assert_true(ones.least == 1 && ones.most == 1);
  const moments below = moments_of(ls_init_constant(-0.0), LS_SHAPE(5));
  assert_true(signbit(below.least) && signbit(below.most));
  assert_false(signbit(zeros.least));
}

static ls_tensor draw_iota(const ls_initializer *self, ls_dtype dtype,
                           ls_shape shape, const ls_random_options *random) {
  (void)random;
  return ls_mul_scalar(ls_iota(dtype, shape, 0), self->a);
}

TEST(an_initializer_can_be_ones_own) {
  const moments m =
      moments_of((ls_initializer){.draw = draw_iota, .a = 3}, LS_SHAPE(5));
  assert_true(m.least == 0 && m.most == 12);
}

TEST(an_unknown_shape_is_refused) {
  ls_variable *variable = NULL;
  expect_status(ls_weight_create(
                    &(ls_weight_options){.name = "w", .shape = LS_SHAPE(2, -1)},
                    &variable),
                LS_INVALID_ARGUMENT, "weight 'w' needs a known shape");
  assert_null(variable);
}
