// SPDX-License-Identifier: Apache-2.0
//
// Scatters into distributed variables, in eager.
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"

#include "distribute/own.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

// ---- Scattering ------------------------------------------------------------
typedef struct scatters {
  ls_variable *variable;
  ls_scatter_op op;
  bool same_row;
} scatters;

static ls_nest scatter_in_replica(ls_nest args, void *user) {
  scatters *s = user;
  (void)args;
  const int r = ls_replica_number();
  const int64_t row = s->same_row ? 0 : r;
  const double value = s->same_row ? r + 2 : 2 * (r + 1);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, row), LS_SHAPE(1));
  const ls_tensor update = ls_reshape(scalar_of(value), LS_SHAPE(1));
  const ls_tensor after =
      ls_variable_scatter(s->variable, s->op, index, update);
  const ls_status status = ls_tensor_status(after);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

static ls_variable *rows_in(ls_strategy *strategy,
                            ls_variable_synchronization synchronization,
                            ls_variable_aggregation aggregation) {
  ls_variable *v = NULL;
  LS_OWN(ls_array, initial) = NULL;
  static const double start[] = {4, 6, 8};
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(3), &initial));
  for (int i = 0; i < 3; ++i)
    ls_array_set_f64(initial, i, start[i]);
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "rows",
                               .initial_array = initial,
                               .synchronization = synchronization,
                               .aggregation = aggregation},
        &v));
  }
  return v;
}

static void expect_rows(ls_variable *v, size_t component, const double *rows) {
  LS_OWN(ls_array, array) = variable_array(ls_variable_component(v, component));
  for (int64_t i = 0; i < 3; ++i)
    if (ls_array_f64(array, i) != rows[i])
      fail_msg("row %d of component %zu is %g, wanted %g", (int)i, component,
               ls_array_f64(array, i), rows[i]);
}

TEST(scattered_rows_are_aggregated) {
  LS_SPEC("V119");
  static const struct {
    ls_scatter_op op;
    ls_variable_aggregation aggregation;
    bool same_row;
    double rows[2][3];
  } cases[] = {
      {LS_SCATTER_ADD, SUM, false, {{6, 10, 8}, {6, 10, 8}}},
      {LS_SCATTER_ADD, MEAN, false, {{5, 8, 8}, {5, 8, 8}}},
      {LS_SCATTER_MUL, SUM, false, {{8, 24, 8}, {8, 24, 8}}},
      {LS_SCATTER_MUL, MEAN, false, {{4, 12, 8}, {4, 12, 8}}},
      {LS_SCATTER_DIV, SUM, false, {{2, 1.5, 8}, {2, 1.5, 8}}},
      {LS_SCATTER_SUB, FIRST, false, {{2, 6, 8}, {2, 6, 8}}},
      {LS_SCATTER_MUL, SUM, true, {{24, 6, 8}, {24, 6, 8}}},
      {LS_SCATTER_ADD, NONE, false, {{6, 6, 8}, {4, 10, 8}}},
  };
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c) {
    LS_OWN(ls_variable, v) =
        rows_in(strategy, LS_SYNCHRONIZATION_AUTO, cases[c].aggregation);
    scatters s = {v, cases[c].op, cases[c].same_row};
    ls_nest_release(run_on(strategy, scatter_in_replica, ls_none(), &s));
    for (size_t i = 0; i < 2; ++i)
      expect_rows(v, i, cases[c].rows[i]);
  }
}

// ---- Means of 16-bit floats ------------------------------------------------
static ls_nest scatter_half(ls_nest args, void *user) {
  (void)args;
  const ls_tensor row = ls_reshape(ls_replica_id(), LS_SHAPE(1));
  return ls_leaf(ls_variable_scatter(
      user, LS_SCATTER_ADD, row,
      ls_broadcast(ls_scalar(LS_DTYPE_BF16, 5.9375), LS_SHAPE(1))));
}

TEST(a_mean_of_16_bit_rows_is_rounded_once) {
  LS_SPEC("V119");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  for (int traced = 0; traced < 2; ++traced) {
    LS_OWN(ls_variable, v) = NULL;
    LS_OWN(ls_array, zeros) =
        array_of(LS_DTYPE_BF16, LS_SHAPE(3), (double[]){0, 0, 0});
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "rows",
                                 .initial_array = zeros,
                                 .aggregation = LS_AGGREGATION_MEAN},
          &v));
    }
    LS_OWN(ls_function, function) = unnamed_function(scatter_half, v);
    LS_OWN(ls_nest, result) = strategy_results(
        strategy, traced ? ls_traced(function) : ls_plain(scatter_half, v),
        ls_none());
    // A third is 0.33398 in bf16, which makes 1.984375.
    const double third = 1.9765625;
    expect_rows(v, 0, (double[]){third, third, third});
  }
}

TEST(scatters_across_replicas_reach_all) {
  LS_SPEC("V116 V117 V118");
  static const struct {
    ls_scatter_op op;
    double row;
    bool any;  // Whatever the aggregation.
  } cases[] = {
      {LS_SCATTER_SUB, 2, true},     {LS_SCATTER_ADD, 6, true},
      {LS_SCATTER_MUL, 8, true},     {LS_SCATTER_DIV, 2, true},
      {LS_SCATTER_MIN, 2, false},    {LS_SCATTER_MAX, 4, false},
      {LS_SCATTER_UPDATE, 2, false},
  };
  static const ls_variable_aggregation all[] = {NONE, SUM, MEAN, FIRST};
  static const char *const names[] = {"", "SUM", "MEAN", ""};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
  const ls_tensor update = ls_reshape(scalar_of(2), LS_SHAPE(1));
  for (size_t c = 0; c < sizeof(cases) / sizeof(*cases); ++c)
    for (size_t a = 0; a < 4; ++a) {
      LS_OWN(ls_variable, v) =
          rows_in(strategy, LS_SYNCHRONIZATION_AUTO, all[a]);
      const bool refused = !cases[c].any && names[a][0] != '\0';
      {
        LS_STRATEGY_SCOPE(strategy);
        const ls_tensor after =
            ls_variable_scatter(v, cases[c].op, index, update);
        expect_status(ls_tensor_status(after),
                      refused ? LS_UNIMPLEMENTED : LS_OK,
                      refused ? names[a] : "");
        if (refused)
          expect_status(ls_tensor_status(after), LS_UNIMPLEMENTED, "scatter_");
        if (!refused) {
          LS_OWN(ls_array, value) = tensor_array(after);
          assert_true(ls_array_f64(value, 0) == cases[c].row);
        }
      }
      for (size_t i = 0; i < 2; ++i)
        expect_rows(v, i, (double[]){refused ? 4 : cases[c].row, 6, 8});
      if (refused) {
        scatters s = {v, cases[c].op, false};
        ls_nest results = ls_none();
        expect_status(ls_strategy_run(strategy,
                                      ls_plain(scatter_in_replica, &s),
                                      ls_none(), &results),
                      LS_UNIMPLEMENTED, names[a]);
      }
    }
}

TEST(nothing_is_scattered_into_on_read_variables) {
  LS_SPEC("V120");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = rows_in(strategy, ON_READ, SUM);
  const ls_tensor index =
      ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 0), LS_SHAPE(1));
  const ls_tensor update = ls_reshape(scalar_of(2), LS_SHAPE(1));
  for (int op = LS_SCATTER_UPDATE; op <= LS_SCATTER_MAX; ++op) {
    scatters s = {v, (ls_scatter_op)op, false};
    ls_nest results = ls_none();
    expect_status(ls_strategy_run(strategy, ls_plain(scatter_in_replica, &s),
                                  ls_none(), &results),
                  LS_UNIMPLEMENTED, "ON_READ");
    expect_status(ls_tensor_status(
                      ls_variable_scatter(v, (ls_scatter_op)op, index, update)),
                  LS_UNIMPLEMENTED, "scatter_");
  }
}
