// SPDX-License-Identifier: Apache-2.0
// Optimizers by name are those that their own functions make.
#include "support/values.h"

#include <math.h>
#include <string.h>

#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "nn/own.h"

enum { SIZE = 3, STEPS = 3 };
static const double rate = 0.25;

// ---- By their own functions ------------------------------------------------
#define DIRECT(kind, type, ...)                                                \
  static ls_status direct_##kind(ls_optimizer **out) {                         \
    return ls_##type##_create(                                                 \
        &(ls_##type##_options){.learning_rate = rate, __VA_ARGS__}, out);      \
  }
DIRECT(sgd, sgd, .momentum = 0)
DIRECT(momentum, sgd, .momentum = 0.9)
DIRECT(nesterov, sgd, .momentum = 0.9, .nesterov = true)
DIRECT(adam, adam, .beta1 = 0)
DIRECT(adagrad, adagrad, .initial = 0)
DIRECT(rmsprop, rmsprop, .decay = 0)
DIRECT(lion, lion, .beta1 = 0)

static ls_status direct_adamw(ls_optimizer **out) {
  return ls_adamw_create(&(ls_adam_options){.learning_rate = rate}, out);
}

static ls_status direct_lamb(ls_optimizer **out) {
  return ls_lamb_create(&(ls_adam_options){.learning_rate = rate}, out);
}

static const struct {
  const char *kind;
  ls_status (*direct)(ls_optimizer **out);
} rows[] = {
    {"sgd", direct_sgd},           {"momentum", direct_momentum},
    {"nesterov", direct_nesterov}, {"adam", direct_adam},
    {"adamw", direct_adamw},       {"lamb", direct_lamb},
    {"adagrad", direct_adagrad},   {"rmsprop", direct_rmsprop},
    {"lion", direct_lion},
};
enum { NUM_ROWS = sizeof(rows) / sizeof(rows[0]) };

// The variable after some steps with this optimizer, which is released.
static void descend(ls_optimizer *optimizer, double *values) {
  static const double first[SIZE] = {1, -2, 0.5};
  LS_OWN(ls_variable, w) =
      variable_of("w", LS_DTYPE_F64, LS_SHAPE(SIZE), first);
  for (int step = 0; step < STEPS; ++step) {
    double numbers[SIZE];
    fill_numbers(numbers, SIZE, (uint32_t)step);
    expect_ok(ls_frame_begin());
    const ls_nest g = ls_leaf(eager_of(LS_DTYPE_F64, LS_SHAPE(SIZE), numbers));
    ls_optimizer_apply(optimizer, &w, &g, 1);
    expect_ok(ls_frame_end(NULL));
  }
  read_variable(w, values, SIZE);
  ls_optimizer_release(optimizer);
}

TEST(each_kind_moves_as_its_own_function_makes_it) {
  for (size_t i = 0; i < NUM_ROWS; ++i) {
    ls_optimizer *named = NULL, *direct = NULL;
    double values[2][SIZE];
    expect_ok(ls_optimizer_create(
        rows[i].kind, &(ls_optimizer_options){.learning_rate = rate}, &named));
    expect_ok(rows[i].direct(&direct));
    descend(named, values[0]);
    descend(direct, values[1]);
    assert_memory_equal(values[0], values[1], sizeof(values[0]));
    assert_true(values[0][0] != 1);
  }
}

TEST(the_list_of_kinds_is_whole) {
  for (size_t i = 0; i < NUM_ROWS; ++i)
    assert_string_equal(ls_optimizer_kind(i), rows[i].kind);
  assert_null(ls_optimizer_kind(NUM_ROWS));
}

// A step of 1 down a gradient of 8 that is cut to 2, at a rate that warms up.
TEST(what_all_have_in_common_counts) {
  LS_OWN(ls_optimizer, optimizer) = NULL;
  expect_ok(ls_optimizer_create("sgd",
                                &(ls_optimizer_options){
                                    .name = "mine",
                                    .learning_rate = 1,
                                    .schedule = {.warmup = 4},
                                    .clip = {.value = 2},
                                },
                                &optimizer));
  const double ten = 10, eight = 8;
  LS_OWN(ls_variable, w) = variable_of("w", LS_DTYPE_F64, LS_SCALAR, &ten);
  expect_ok(ls_frame_begin());
  const ls_nest g = ls_leaf(eager_of(LS_DTYPE_F64, LS_SCALAR, &eight));
  ls_optimizer_apply(optimizer, &w, &g, 1);
  expect_ok(ls_frame_end(NULL));
  const double wanted = 10 - 2 * 0.25;
  expect_variable(w, &wanted, 1, 0);
  ls_variable *step = NULL;
  assert_int_equal(ls_optimizer_variables(optimizer, &step, 1), 1);
  assert_string_equal(ls_variable_name(step), "mine/step");
}

TEST(what_is_no_kind_is_refused) {
  LS_OWN(ls_optimizer, optimizer) = NULL;
  expect_status(
      ls_optimizer_create("adma", NULL, &optimizer), LS_INVALID_ARGUMENT,
      "there is no optimizer 'adma'; the optimizers are: sgd, momentum, "
      "nesterov, adam, adamw, lamb, adagrad, rmsprop, lion");
  expect_status(ls_optimizer_create("lion",
                                    &(ls_optimizer_options){.weight_decay = -1},
                                    &optimizer),
                LS_INVALID_ARGUMENT, "weight decay");
  assert_null(optimizer);
  expect_ok(ls_optimizer_create("adam", NULL, &optimizer));
}
