// SPDX-License-Identifier: Apache-2.0
//
// Optimizers that are like the loss: it is scaled while a strategy asks for it.
#include <math.h>

#include "base/allocator.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "support/replicas.h"
#include "support/values.h"

typedef struct step {
  ls_optimizer *optimizer;
  ls_variable *w;
  ls_reduction reduction;
  bool unrecorded;
  bool marked;
} step;

// The gradient of the loss is the replica's argument.
static ls_nest take_step(ls_nest args, void *user) {
  step *s = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor product = ls_mul(ls_variable_read(s->w), x);
  const ls_tensor loss = s->unrecorded ? ls_reduce_mean(product, LS_ALL_AXES)
                                       : ls_reduce_loss(product, s->reduction);
  ls_graph_set_loss_scaled(ls_graph_current(), true);  // By someone before.
  ls_optimizer_minimize(s->optimizer, loss);
  s->marked = ls_graph_is_loss_scaled(ls_graph_current());
  return ls_none();
}

typedef struct outcome {
  int replicas;
  ls_gradients_over_replicas how;
  ls_reduction reduction;
  bool scaled;   // In the scope of a strategy for an estimator.
  double moved;  // From 0, by gradients 2 and 4.
  bool marked;
  bool unrecorded;  // A loss of the user's own.
} outcome;

static void expect_outcome(const outcome *row) {
  ls_strategy *strategy = mirrored_of(row->replicas);
  step s = {.w = variable_in(strategy, (variable_kind){.name = "w"}),
            .reduction = row->reduction,
            .unrecorded = row->unrecorded};
  ls_function *function = NULL;
  ls_nest result = ls_none();
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 1, .over_replicas = row->how},
      &s.optimizer));
  expect_ok(ls_function_create(
      &(ls_function_options){.call = take_step, .user = &s}, &function));
  const ls_nest args =
      LS_TUPLE(per_replica_scalars((double[]){2, 4}, (size_t)row->replicas));
  ls_scope scope = {0};
  if (row->scaled) ls_scale_loss_scope_begin(&scope, strategy);
  expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &result));
  ls_scope_end(&scope);
  expect_components(s.w, (double[]){-row->moved, -row->moved},
                    (size_t)row->replicas);
  assert_int_equal(s.marked, row->marked);
  ls_nest_release(result);
  ls_nest_release(args);
  ls_function_release(function);
  ls_optimizer_release(s.optimizer);
  ls_variable_release(s.w);
  ls_strategy_release(strategy);
}

static void the_loss_is_scaled_where_it_is_a_mean(void **state) {
  (void)state;
  LS_SPEC("V63 M167");
  static const outcome rows[] = {
      {2, LS_GRADIENTS_LIKE_LOSS, LS_REDUCTION_MEAN, true, 3, true, false},
      {2, LS_GRADIENTS_LIKE_LOSS, LS_REDUCTION_MEAN, false, 6, false, false},
      {2, LS_GRADIENTS_LIKE_LOSS, LS_REDUCTION_SUM, true, 6, false, false},
      {2, LS_GRADIENTS_LIKE_LOSS, LS_REDUCTION_MEAN, true, 3, true, true},
      {1, LS_GRADIENTS_LIKE_LOSS, LS_REDUCTION_MEAN, true, 2, false, false},
      // Others go their own way, whatever the strategy says.
      {2, LS_GRADIENTS_SUM, LS_REDUCTION_MEAN, true, 6, false, false},
      {2, LS_GRADIENTS_MEAN, LS_REDUCTION_SUM, true, 3, false, false},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    expect_outcome(&rows[i]);
}

// Clipping comes after: a sum of scaled losses is clipped as a mean is.
static void scaled_losses_are_clipped_as_one(void **state) {
  (void)state;
  LS_SPEC("M167 M182");
  enum { ROWS = 40 };
  double whole = 0;
  static const int split[] = {1, 2, 5, 8};
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i) {
    ls_strategy *strategy = mirrored_of(split[i]);
    step s = {.w = variable_in(strategy, (variable_kind){.name = "w"}),
              .reduction = LS_REDUCTION_MEAN};
    ls_function *function = NULL;
    ls_nest rows = ls_none(), result = ls_none();
    ls_array *array = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(ROWS), 5);
    expect_ok(ls_sgd_create(
        &(ls_sgd_options){.learning_rate = 1,
                          .clip = {.norm = 0.03, .global_norm = 0.02},
                          .over_replicas = LS_GRADIENTS_LIKE_LOSS},
        &s.optimizer));
    expect_ok(ls_function_create(
        &(ls_function_options){.call = take_step, .user = &s}, &function));
    expect_ok(ls_strategy_split(strategy, array, &rows));
    ls_array_release(array);
    const ls_nest args = LS_TUPLE(rows);
    LS_SCALE_LOSS_SCOPE(strategy) {
      for (int k = 0; k < 3; ++k)
        expect_ok(
            ls_strategy_run(strategy, ls_traced(function), args, &result));
    }
    double moved = 0;
    read_variable(ls_variable_component(s.w, 0), &moved, 1);
    if (i == 0) whole = moved;
    // Three steps of the limit's length.
    assert_true(fabs(fabs(moved) - 0.06) < 1e-6);
    assert_true(fabs(moved - whole) < 1e-6);
    ls_nest_release(result);
    ls_nest_release(args);
    ls_function_release(function);
    ls_optimizer_release(s.optimizer);
    ls_variable_release(s.w);
    ls_strategy_release(strategy);
  }
}

static void another_way_is_refused(void **state) {
  (void)state;
  ls_optimizer *optimizer = NULL;
  expect_status(
      ls_sgd_create(
          &(ls_sgd_options){.over_replicas = (ls_gradients_over_replicas)9},
          &optimizer),
      LS_INVALID_ARGUMENT, "over replicas by 9");
  assert_null(optimizer);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_loss_is_scaled_where_it_is_a_mean),
      cmocka_unit_test(scaled_losses_are_clipped_as_one),
      cmocka_unit_test(another_way_is_refused),
  };
  const int failed = cmocka_run_group_tests(tests, NULL, NULL);
  expect_ok(ls_runtime_destroy(NULL));
  return failed;
}
