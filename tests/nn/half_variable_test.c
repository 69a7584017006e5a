// SPDX-License-Identifier: Apache-2.0
// Steps of 16-bit variables are computed in f32, as are their slots: squares of
// small gradients and an epsilon are not 0.
#include <math.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "support/function.h"
#include "support/values.h"

enum { SIZE = 5, STEPS = 6 };

// Gradients that every type has: none; one small one and then none; tiny ones;
// usual ones.
static const double gradients[STEPS][SIZE] = {
    {0, 0x1p-9, 0x1p-13, 0.5, 0x1p-9}, {0, 0, 0x1p-13, -0.25, -0x1p-8},
    {0, 0, -0x1p-14, 0.5, 0x1p-9},     {0, 0, 0x1p-13, 0.5, 0x1p-10},
    {0, 0, 0x1p-13, -0.125, 0x1p-9},   {0, 0, 0x1p-13, 0.25, 0x1p-9}};

typedef struct problem {
  ls_variable *w;
  ls_optimizer *optimizer;
} problem;

// sum(w x): the gradient is x.
static ls_nest follow(ls_nest args, void *user) {
  const problem *p = user;
  ls_optimizer_minimize(
      p->optimizer,
      ls_reduce_sum(ls_mul(ls_variable_read(p->w), ls_nest_tensor(args, 0)),
                    LS_ALL_AXES));
  return ls_none();
}

static void expect_slots_in_f32(const ls_optimizer *optimizer) {
  ls_variable *slots[8];
  const size_t count = ls_optimizer_variables(optimizer, slots, 8);
  for (size_t i = 0; i < count; ++i)
    if (ls_variable_dtype(slots[i]) != LS_DTYPE_I64)
      assert_int_equal(ls_variable_dtype(slots[i]), LS_DTYPE_F32);
}

// Takes the steps by a new optimizer; returns the variable's values.
static void take_steps(ls_status made, ls_optimizer *optimizer, ls_dtype dtype,
                       double *out_values) {
  const double initial[SIZE] = {0.5, 0.5, 0.5, 0.5, -0.5};
  expect_ok(made);
  problem p = {variable_of("w", dtype, LS_SHAPE(SIZE), initial), optimizer};
  LS_OWN(ls_nest, results) = {0};
  ls_function *function = unnamed_function(follow, &p);
  for (int t = 0; t < STEPS; ++t) {
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_array(array_of(dtype, LS_SHAPE(SIZE), gradients[t])));
    expect_ok(ls_function_call(function, args, &results));
  }
  expect_slots_in_f32(optimizer);
  LS_OWN(ls_array, got) = variable_array(p.w);
  for (int i = 0; i < SIZE; ++i)
    out_values[i] = ls_array_f64(got, i);
  ls_function_release(function);
  ls_variable_release(p.w);
  ls_optimizer_release(optimizer);
}

typedef ls_status (*maker)(ls_optimizer **out_optimizer);

// A step rounds once, to half a unit in the last place of numbers below 1.
static void expect_as_in_f32(const char *name, maker make) {
  static const struct {
    ls_dtype dtype;
    double round;
  } types[] = {{LS_DTYPE_F16, 0x1p-11}, {LS_DTYPE_BF16, 0x1p-8}};
  double want[SIZE], got[SIZE];
  ls_optimizer *optimizer = NULL;
  const ls_status made = make(&optimizer);
  take_steps(made, optimizer, LS_DTYPE_F32, want);
  for (size_t d = 0; d < LS_COUNT_OF(types); ++d) {
    const ls_status again = make(&optimizer);
    take_steps(again, optimizer, types[d].dtype, got);
    for (int i = 0; i < SIZE; ++i)
      if (!(fabs(got[i] - want[i]) <= STEPS * types[d].round))
        fail_msg("%s in %s, element %d: %g, in f32 %g", name,
                 ls_dtype_name(types[d].dtype), i, got[i], want[i]);
  }
}

static size_t kind;
static ls_status make_kind(ls_optimizer **out_optimizer) {
  const ls_optimizer_options options = {.learning_rate = 0.0625};
  return ls_optimizer_create(ls_optimizer_kind(kind), &options, out_optimizer);
}

static ls_status make_centered(ls_optimizer **out_optimizer) {
  return ls_rmsprop_create(&(ls_rmsprop_options){.learning_rate = 0.01,
                                                 .centered = true,
                                                 .momentum = 0.5},
                           out_optimizer);
}

TEST(a_step_of_a_16_bit_variable_is_one_in_f32) {
  for (kind = 0; ls_optimizer_kind(kind) != NULL; ++kind)
    expect_as_in_f32(ls_optimizer_kind(kind), make_kind);
  expect_as_in_f32("centered rmsprop", make_centered);
}

// ---- Own rules --------------------------------------------------------------
// Adam-like: the square of the gradient, and the quotient, by an assignment.
static void update_by_quotient(ls_update *update, void *user) {
  (void)user;
  const ls_tensor g = ls_update_gradient(update);
  const ls_tensor square = ls_add(ls_update_read(update, 0), ls_square(g));
  ls_update_slot(update, 0, square);
  const ls_tensor step = ls_div(g, ls_add_scalar(ls_sqrt(square), 1e-8));
  ls_update_assign(
      update, ls_sub(ls_update_value(update), ls_update_rate(update, step)));
}

static ls_status make_own(ls_optimizer **out_optimizer) {
  static const ls_optimizer_rule rule = {.name = "own",
                                         .learning_rate = 0.0625,
                                         .slots = {{.name = "square"}},
                                         .update = update_by_quotient};
  return ls_optimizer_create_own(&rule, NULL, NULL, out_optimizer);
}

TEST(a_step_by_an_own_rule_is_one_in_f32) {
  expect_as_in_f32("an own rule", make_own);
}
