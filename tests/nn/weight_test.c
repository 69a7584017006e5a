// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/nn.h"
#include "lockstep/session.h"

static ls_array *value_of(const ls_weight_options *options) {
  ls_variable *variable = NULL;
  ls_array *value = NULL;
  expect_ok(ls_weight_create(options, &variable));
  expect_ok(ls_variable_value(variable, &value));
  ls_variable_release(variable);
  return value;
}

static bool same(const ls_weight_options *a, const ls_weight_options *b) {
  ls_array *x = value_of(a), *y = value_of(b);
  const bool result =
      ls_array_size(x) == ls_array_size(y) &&
      memcmp(ls_array_data(x), ls_array_data(y), ls_array_size(x)) == 0;
  ls_array_release(x);
  ls_array_release(y);
  return result;
}

static void a_weight_depends_on_seed_and_name_alone(void **state) {
  (void)state;
  const ls_weight_options w = {.name = "w", .shape = LS_SHAPE(8, 8)};
  ls_weight_options other = w;
  assert_true(same(&w, &other));
  other.name = "v";
  assert_false(same(&w, &other));
  other = w;
  other.seed = 1;
  assert_false(same(&w, &other));
  ls_array *outside = value_of(&w);
  LS_NAME_SCOPE("scope") {
    ls_array *inside = value_of(&w);
    assert_memory_not_equal(ls_array_data(outside), ls_array_data(inside),
                            ls_array_size(inside));
    ls_array_release(inside);
  }
  ls_array_release(outside);
}

static void a_session_starts_with_the_values_of_eager(void **state) {
  (void)state;
  const ls_weight_options w = {.name = "w", .shape = LS_SHAPE(8, 8)};
  ls_array *eager = NULL, *session_value = NULL;
  LS_NAME_SCOPE("layer") { eager = value_of(&w); }
  ls_graph *graph = NULL;
  ls_session *session = NULL;
  ls_variable *variable = NULL;
  ls_op init = {0};
  expect_ok(ls_graph_create("g", &graph));
  LS_GRAPH_SCOPE(graph) {
    LS_NAME_SCOPE("layer") { expect_ok(ls_weight_create(&w, &variable)); }
    init = ls_global_initializer();
  }
  assert_string_equal(ls_variable_name(variable), "layer/w");
  expect_ok(ls_session_create(graph, &session));
  ls_nest results = {0};
  expect_ok(ls_session_run(session, ls_nest_op(init), NULL, 0, &results));
  expect_ok(ls_session_variable_value(session, variable, &session_value));
  assert_memory_equal(ls_array_data(eager), ls_array_data(session_value),
                      ls_array_size(eager));
  ls_nest_release(results);
  ls_array_release(eager);
  ls_array_release(session_value);
  ls_session_destroy(session);
  ls_variable_release(variable);
  ls_graph_destroy(graph);
}

static void glorot_uniform_fills_its_range(void **state) {
  (void)state;
  ls_array *value = value_of(&(ls_weight_options){
      .shape = LS_SHAPE(3, 3, 8, 16), .initializer = ls_init_glorot_uniform()});
  const double limit = sqrt(6.0 / (9 * 8 + 9 * 16));
  double least = 1, most = -1;
  for (int64_t i = 0; i < ls_array_num_elements(value); ++i) {
    least = fmin(least, ls_array_f64(value, i));
    most = fmax(most, ls_array_f64(value, i));
  }
  assert_true(least >= -limit * (1 + 1e-6) && least < -0.95 * limit);
  assert_true(most <= limit * (1 + 1e-6) && most > 0.95 * limit);
  ls_array_release(value);
}

static void he_normal_has_its_deviation(void **state) {
  (void)state;
  ls_array *value = value_of(&(ls_weight_options){.shape = LS_SHAPE(50, 200),
                                                  .initializer = ls_init_he_normal()});
  double sum = 0, squares = 0;
  const int64_t count = ls_array_num_elements(value);
  for (int64_t i = 0; i < count; ++i) {
    sum += ls_array_f64(value, i);
    squares += ls_array_f64(value, i) * ls_array_f64(value, i);
  }
  // Five standard errors of ten thousand draws.
  assert_true(fabs(sum / (double)count) < 0.2 * 0.05);
  assert_true(fabs(sqrt(squares / (double)count) - 0.2) < 0.2 * 0.036);
  ls_array_release(value);
}

static void zeros_and_ones_are_that(void **state) {
  (void)state;
  const struct {
    ls_initializer initializer;
    double value;
  } rows[] = {{ls_init_zeros(), 0}, {ls_init_ones(), 1}};
  for (size_t k = 0; k < 2; ++k) {
    ls_array *value =
        value_of(&(ls_weight_options){.shape = LS_SHAPE(5),
                                      .dtype = LS_DTYPE_F64,
                                      .initializer = rows[k].initializer});
    assert_int_equal(ls_array_dtype(value), LS_DTYPE_F64);
    for (int64_t i = 0; i < 5; ++i)
      assert_true(ls_array_f64(value, i) == rows[k].value);
    ls_array_release(value);
  }
}

static void an_unknown_shape_is_refused(void **state) {
  (void)state;
  ls_variable *variable = NULL;
  expect_status(ls_weight_create(
                    &(ls_weight_options){.name = "w", .shape = LS_SHAPE(2, -1)},
                    &variable),
                LS_INVALID_ARGUMENT, "weight 'w' needs a known shape");
  assert_null(variable);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_weight_depends_on_seed_and_name_alone),
      cmocka_unit_test(a_session_starts_with_the_values_of_eager),
      cmocka_unit_test(glorot_uniform_fills_its_range),
      cmocka_unit_test(he_normal_has_its_deviation),
      cmocka_unit_test(zeros_and_ones_are_that),
      cmocka_unit_test(an_unknown_shape_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
