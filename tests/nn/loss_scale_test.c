// SPDX-License-Identifier: Apache-2.0
//
// Optimizers that are like the loss: it is scaled while a strategy asks for it.
#include <math.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/graph_ops.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/ways.h"

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
  LS_OWN(ls_strategy, strategy) = mirrored_of(row->replicas);
  step s = {.w = variable_in(strategy, (variable_kind){.name = "w"}),
            .reduction = row->reduction,
            .unrecorded = row->unrecorded};
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 1, .over_replicas = row->how},
      &s.optimizer));
  LS_OWN(ls_function, function) = unnamed_function(take_step, &s);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(per_replica_scalars((double[]){2, 4}, (size_t)row->replicas));
  ls_scope scope = {0};
  if (row->scaled) ls_scale_loss_scope_begin(&scope, strategy);
  LS_OWN(ls_nest, result) =
      strategy_results(strategy, ls_traced(function), args);
  ls_scope_end(&scope);
  expect_components(s.w, (double[]){-row->moved, -row->moved},
                    (size_t)row->replicas);
  assert_int_equal(s.marked, row->marked);
  ls_optimizer_release(s.optimizer);
  ls_variable_release(s.w);
}

TEST(the_loss_is_scaled_where_it_is_a_mean) {
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
TEST(scaled_losses_are_clipped_as_one) {
  LS_SPEC("M167 M182");
  enum { ROWS = 40 };
  double whole = 0;
  static const int split[] = {1, 2, 5, 8};
  for (size_t i = 0; i < LS_COUNT_OF(split); ++i) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(split[i]);
    step s = {.w = variable_in(strategy, (variable_kind){.name = "w"}),
              .reduction = LS_REDUCTION_MEAN};
    ls_nest rows = ls_none();
    LS_OWN(ls_nest, result) = ls_none();
    ls_array *array = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(ROWS), 5);
    expect_ok(ls_sgd_create(
        &(ls_sgd_options){.learning_rate = 1,
                          .clip = {.norm = 0.03, .global_norm = 0.02},
                          .over_replicas = LS_GRADIENTS_LIKE_LOSS},
        &s.optimizer));
    LS_OWN(ls_function, function) = unnamed_function(take_step, &s);
    expect_ok(ls_strategy_split(strategy, array, &rows));
    ls_array_release(array);
    LS_OWN(ls_nest, args) = LS_TUPLE(rows);
    {
      LS_SCALE_LOSS_SCOPE(strategy);
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
    ls_optimizer_release(s.optimizer);
    ls_variable_release(s.w);
  }
}

// ---- In every way ----------------------------------------------------------
typedef struct recording {
  ls_reduction reduction;
  bool in_branch;  // The loss is what a branch gives.
} recording;

static void make_one(ways *self) {
  ways_vector(self, "w", 0, (double[]){0});
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 1,
                                      .over_replicas = LS_GRADIENTS_LIKE_LOSS},
                    &self->optimizer));
}

// Replica r has r + 1.
static ls_nest number_of_replica(const ways *self, int at, int r) {
  (void)self;
  (void)at;
  const double x = r + 1;
  return ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, &x));
}

typedef struct branch {
  ls_tensor product;
  ls_reduction reduction;
} branch;

static ls_nest reduce_here(ls_nest nothing, void *user) {
  (void)nothing;
  const branch *b = user;
  return ls_leaf(ls_reduce_loss(b->product, b->reduction));
}

static ls_tensor recorded_loss(ls_nest args, ways *self) {
  const recording *row = self->user;
  branch b = {ls_mul(ls_variable_read(self->variables[0]), args.as.tensor),
              row->reduction};
  if (!row->in_branch) return reduce_here(ls_none(), &b).as.tensor;
  const ls_tensor positive =
      ls_greater(args.as.tensor, ls_scalar(LS_DTYPE_F32, 0));
  const ls_nest made = ls_cond(positive, reduce_here, reduce_here, &b);
  return made.kind == LS_KIND_TENSOR ? made.as.tensor : ls_failed_tensor();
}

static ls_nest step_like_loss(ls_nest args, ways *self) {
  ls_nest made = ls_none();
  {
    LS_SCALE_LOSS_SCOPE(self->strategy);
    made = ways_minimize(self, recorded_loss, args);
  }
  return made;
}

static void check_scale(const ways *self) {
  const recording *row = self->user;
  const double n = self->replicas, sum = n * (n + 1) / 2;
  const double wanted =
      row->reduction == LS_REDUCTION_SUM || n == 1 ? sum : sum / n;
  for (int c = 0; c < self->replicas; ++c)
    ways_expect(self, "w", ways_value(self, 0, c, 0), -wanted, 1e-6);
}

TEST(a_summed_loss_is_not_scaled_in_any_way) {
  LS_SPEC("V60 V63 M166 M167 M168");
  static const recording rows[] = {
      {.reduction = LS_REDUCTION_SUM},
      {.reduction = LS_REDUCTION_MEAN},
      {.reduction = LS_REDUCTION_SUM, .in_branch = true},
      {.reduction = LS_REDUCTION_MEAN, .in_branch = true},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    ways_hold(&(ways_case){.name = "like the loss",
                           .user = &rows[i],
                           .make = make_one,
                           .args = number_of_replica,
                           .step = step_like_loss,
                           .check = check_scale},
              1);
}

// A summed loss, a pause, the question, and a mean for who comes next: what
// another replica says meanwhile is its own business.
static ls_nest ask_after_a_pause(ls_nest args, ways *self) {
  ls_nest asked[2] = {{0}};
  {
    LS_SCALE_LOSS_SCOPE(self->strategy);
    for (int k = 0; k < 2; ++k) {
      ls_reduce_loss(args.as.tensor, LS_REDUCTION_SUM);
      if (self->replicas > 1) ls_all_reduce(LS_REDUCE_SUM, args.as.tensor);
      asked[k] = ls_nest_f64(ls_loss_reduction());
      ls_reduce_loss(args.as.tensor, LS_REDUCTION_MEAN);
    }
  }
  return LS_TUPLE(asked[0], asked[1]);
}

static void check_asked(const ways *self) {
  for (int r = 0; r < self->replicas; ++r)
    for (size_t k = 0; k < 2; ++k)
      ways_expect(self, "reduction", ways_result(self, 0, r, k, 0),
                  LS_REDUCE_SUM, 0);
}

TEST(replicas_do_not_hear_of_each_others_losses) {
  LS_SPEC("V60 V61");
  ways_hold(&(ways_case){.name = "interleaved",
                         .args = number_of_replica,
                         .step = ask_after_a_pause,
                         .check = check_asked},
            1);
}

TEST(a_tape_begins_without_a_loss) {
  LS_SPEC("V60");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_tape *tape = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    {
      LS_SCALE_LOSS_SCOPE(strategy);
      ls_reduce_loss(scalar_of(1), LS_REDUCTION_SUM);
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
      expect_ok(ls_tape_begin(&tape));
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_MEAN);
      ls_reduce_loss(scalar_of(1), LS_REDUCTION_SUM);
      assert_int_equal(ls_loss_reduction(), LS_REDUCE_SUM);
      ls_tape_release(tape);
    }
  }
}

TEST(another_way_is_refused) {
  ls_optimizer *optimizer = NULL;
  expect_status(
      ls_sgd_create(
          &(ls_sgd_options){.over_replicas = (ls_gradients_over_replicas)9},
          &optimizer),
      LS_INVALID_ARGUMENT, "over replicas by 9");
  assert_null(optimizer);
}
