// SPDX-License-Identifier: Apache-2.0
// Steps on the rows that were looked up: the bits of the step over all rows, at
// the cost of those rows.
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/function_plan.h"
#include "lockstep/nn.h"
#include "lockstep/strategy.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

enum { BATCH = 6, STEPS = 4 };

typedef struct problem {
  ls_variable *table;
  ls_optimizer *optimizer;
  bool dense;    // The gradient is made so.
  int replicas;  // 0: none, a function alone.
} problem;

static ls_tensor loss_of(ls_variable *table, ls_nest args) {
  const ls_tensor rows =
      ls_gather(ls_variable_read(table), ls_nest_tensor(args, 0), 0);
  return ls_reduce_mean(ls_square(ls_sub(rows, ls_nest_tensor(args, 1))),
                        LS_ALL_AXES);
}

static ls_nest step(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor loss = loss_of(p->table, args);
  const ls_nest y = ls_leaf(loss);
  LS_OWN(ls_nest, x) = ls_nest_variable(p->table);
  ls_nest gradient = ls_none();
  const ls_status status = ls_gradients(&y, 1, &x, 1, NULL, &gradient);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (p->dense) gradient = ls_leaf(ls_identity(gradient.as.tensor));
  ls_variable *variables[] = {p->table};
  ls_optimizer_apply(p->optimizer, variables, &gradient, 1);
  return ls_leaf(loss);
}

static ls_variable *make_table(int64_t rows, int64_t width, ls_dtype dtype) {
  ls_variable *table = NULL;
  expect_ok(ls_weight_create(
      &(ls_weight_options){.name = "table",
                           .shape = LS_SHAPE(rows, width),
                           .dtype = dtype,
                           .initializer = ls_init_normal(0, 1)},
      &table));
  return table;
}

// Some rows twice and three times, the last one, and beyond it.
static ls_nest make_args(int64_t rows, int64_t width, ls_dtype dtype,
                         int64_t batch) {
  const ls_nest args = LS_TUPLE(ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(batch)),
                                ls_nest_zeros(dtype, LS_SHAPE(batch, width)));
  expect_ok(ls_nest_status(args));
  ls_array *indices = ls_nest_as_array(ls_nest_item(args, 0));
  ls_array *targets = ls_nest_as_array(ls_nest_item(args, 1));
  for (int64_t i = 0; i < batch; ++i)
    ls_array_set_i64(indices, i, i % 3 == 0 ? 5 : rows - 3 + i % 5);
  for (int64_t i = 0; i < batch * width; ++i)
    ls_array_set_f64(targets, i, (double)(i * 37 % 11) / 7 - 1);
  return args;
}

// ---- The same bits ---------------------------------------------------------
typedef ls_status (*optimizer_maker)(ls_optimizer **out);

static ls_status make_sgd(ls_optimizer **out) {
  return ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.3}, out);
}
static ls_status make_falling(ls_optimizer **out) {
  return ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.3,
                        .schedule = {.kind = LS_SCHEDULE_LINEAR, .steps = 9}},
      out);
}
static ls_status make_decaying(ls_optimizer **out) {
  return ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.3, .weight_decay = 0.1}, out);
}
static ls_status make_clipping(ls_optimizer **out) {
  return ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.3, .clip = {.global_norm = 0.01}},
      out);
}
static ls_status make_momentum(ls_optimizer **out) {
  return ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.3, .momentum = 0.9},
                       out);
}
static ls_status make_adagrad(ls_optimizer **out) {
  return ls_adagrad_create(&(ls_adagrad_options){.learning_rate = 0.3}, out);
}
static ls_status make_held(ls_optimizer **out) {
  return ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.3, .accumulate = 2},
                       out);
}
static ls_status make_adam(ls_optimizer **out) {
  return ls_adam_create(NULL, out);
}

static bool is_table(const ls_variable *variable) {
  return strcmp(ls_variable_name(variable), "table") == 0;
}
static ls_status make_lazy_sgd(ls_optimizer **out) {
  return ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.3,
                        .momentum = 0.9,
                        .nesterov = true,
                        .weight_decay = 0.1,
                        .schedule = {.kind = LS_SCHEDULE_LINEAR, .steps = 9},
                        .lazy = is_table},
      out);
}
static ls_status make_lazy_adam(ls_optimizer **out) {
  return ls_adam_create(&(ls_adam_options){.lazy = is_table}, out);
}
static ls_status make_lazy_adamw(ls_optimizer **out) {
  return ls_adamw_create(
      &(ls_adam_options){.clip = {.norm = 0.1}, .lazy = is_table}, out);
}
static ls_status make_lazy_rmsprop(ls_optimizer **out) {
  return ls_rmsprop_create(&(ls_rmsprop_options){.momentum = 0.9,
                                                 .centered = true,
                                                 .lazy = is_table},
                           out);
}
static ls_status make_lazy_lion(ls_optimizer **out) {
  return ls_lion_create(
      &(ls_lion_options){.weight_decay = 0.1, .lazy = is_table}, out);
}
static ls_status make_lazy_held(ls_optimizer **out) {
  return ls_adam_create(&(ls_adam_options){.accumulate = 2, .lazy = is_table},
                        out);
}

static const struct {
  const char *name;
  optimizer_maker make;
  bool by_rows;
} makers[] = {{"sgd", make_sgd, true},
              {"sgd with a rate that falls", make_falling, true},
              {"adagrad", make_adagrad, true},
              {"sgd every other call", make_held, true},
              {"sgd with decay", make_decaying, false},
              {"sgd with clipping", make_clipping, false},
              {"momentum", make_momentum, false},
              {"adam", make_adam, false},
              {"lazy sgd with momentum and decay", make_lazy_sgd, true},
              {"lazy adam", make_lazy_adam, true},
              {"lazy adamw with clipping", make_lazy_adamw, false},
              {"lazy rmsprop", make_lazy_rmsprop, true},
              {"lazy lion", make_lazy_lion, true},
              {"lazy adam every other call", make_lazy_held, true}};

// Calls the function; replicas share the batch.
static void run_steps(const problem *p, ls_function *function, ls_nest whole) {
  ls_nest loss = ls_none(), parts[2];
  if (p->replicas == 0) {
    for (int i = 0; i < STEPS; ++i)
      expect_ok(ls_function_call(function, whole, &loss));
    ls_nest_release(loss);
    return;
  }
  LS_OWN(ls_strategy, strategy) = mirrored_of(p->replicas);
  for (size_t i = 0; i < 2; ++i)
    expect_ok(ls_strategy_split(
        strategy, ls_nest_as_array(ls_nest_item(whole, i)), &parts[i]));
  LS_OWN(ls_nest, args) = LS_TUPLE(parts[0], parts[1]);
  for (int i = 0; i < STEPS; ++i)
    expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &loss));
  ls_nest_release(loss);
}

// The table after some steps; and whether they wrote rows.
static ls_array *train(problem *p, optimizer_maker make, ls_dtype dtype,
                       bool *out_by_rows) {
  enum { ROWS = 40, WIDTH = 3 };
  p->table = make_table(ROWS, WIDTH, dtype);
  expect_ok(make(&p->optimizer));
  LS_OWN(ls_function, function) = function_of(step, p);
  LS_OWN(ls_nest, args) = make_args(
      ROWS, WIDTH, dtype, p->replicas > 1 ? BATCH * p->replicas : BATCH);
  run_steps(p, function, args);
  LS_OWN(printed, text) = graph_text(ls_function_graph(function));
  *out_by_rows = strstr(text, "assign_scatter") != NULL;
  ls_array *value = variable_array(p->table);
  ls_optimizer_release(p->optimizer);
  ls_variable_release(p->table);
  return value;
}

static void expect_same_bits(size_t maker, ls_dtype dtype, int replicas) {
  problem p = {.dense = true, .replicas = replicas};
  bool by_rows = true;
  LS_OWN(ls_array, want) = train(&p, makers[maker].make, dtype, &by_rows);
  assert_false(by_rows);
  p.dense = false;
  LS_OWN(ls_array, got) = train(&p, makers[maker].make, dtype, &by_rows);
  assert_int_equal(by_rows, makers[maker].by_rows);
  if (memcmp(ls_array_data(want), ls_array_data(got), ls_array_size(want)) != 0)
    fail_msg("%s in %s on %d replicas: other bits", makers[maker].name,
             ls_dtype_name(dtype), replicas);
}

static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_BF16,
                                  LS_DTYPE_F16};

TEST(a_step_by_rows_has_the_bits_of_one_over_all) {
  for (size_t d = 0; d < LS_COUNT_OF(dtypes); ++d)
    for (size_t i = 0; i < LS_COUNT_OF(makers); ++i)
      expect_same_bits(i, dtypes[d], 0);
}

// Sums go along the tree, whatever rows each replica has.
TEST(a_step_by_rows_of_replicas_has_these_bits_too) {
  for (size_t d = 0; d < LS_COUNT_OF(dtypes); ++d)
    for (size_t i = 0; i < LS_COUNT_OF(makers); ++i)
      expect_same_bits(i, dtypes[d], 3);
}

// ---- Lazy steps ------------------------------------------------------------
// Runs two steps of lazy or usual Adam, which look up rows 1 and 2, then rows 2
// and 3; the second finds row 3 as wanted. Returns the table's rows of one
// number.
static void look_up_twice(bool lazy, int64_t rows, double *values) {
  problem p = {.table = make_table(rows, 1, LS_DTYPE_F64)};
  LS_OWN(ls_array, ones) = variable_array(p.table);
  for (int64_t i = 0; i < rows; ++i)
    ls_array_set_f64(ones, i, 1);
  expect_ok(ls_variable_set_value(p.table, ones));
  expect_ok(lazy ? make_lazy_adam(&p.optimizer) : make_adam(&p.optimizer));
  LS_OWN(ls_function, function) = function_of(step, &p);
  for (int i = 0; i < 2; ++i) {
    const double indices[] = {1 + i, 2 + i}, targets[] = {3, i == 0 ? 3 : 1};
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_nest_array(array_of(LS_DTYPE_I32, LS_SHAPE(2), indices)),
        ls_nest_array(array_of(LS_DTYPE_F64, LS_SHAPE(2, 1), targets)));
    LS_OWN(ls_nest, loss) = ls_none();
    expect_ok(ls_function_call(function, args, &loss));
  }
  LS_OWN(ls_array, value) = variable_array(p.table);
  for (int i = 0; i < 4; ++i)
    values[i] = ls_array_f64(value, i);
  ls_optimizer_release(p.optimizer);
  ls_variable_release(p.table);
}

TEST(a_lazy_step_moves_only_rows_with_a_gradient) {
  double usual[4], lazy[4];
  look_up_twice(false, 40, usual);
  // Two of four rows are few, two of three not: the update is one of all rows.
  for (int64_t rows = 40; rows >= 4; rows -= 36) {
    look_up_twice(true, rows, lazy);
    assert_true(lazy[0] == 1);                       // Not looked up.
    assert_true(lazy[1] > 1 && lazy[1] < usual[1]);  // In the first step only.
    assert_true(lazy[2] == usual[2]);                // In both.
    assert_true(lazy[3] == 1);                       // Found as wanted.
  }
}

TEST(lamb_cannot_be_lazy) {
  ls_optimizer *optimizer = NULL;
  expect_null(ls_lamb_create(&(ls_adam_options){.lazy = is_table}, &optimizer),
              "lamb: no step can be lazy: its rule needs all rows of a "
              "variable");
  assert_null(optimizer);
}

// ---- Replicas --------------------------------------------------------------
// All numbers are small integers and their halves: every order of adding gives
// the same.
TEST(replicas_put_their_rows_together) {
  enum { ROWS = 64, REPLICAS = 4 };
  double values[2][ROWS];
  for (int dense = 0; dense < 2; ++dense) {
    problem p = {.table = make_table(ROWS, 1, LS_DTYPE_F32), .dense = dense};
    expect_ok(
        ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.5}, &p.optimizer));
    LS_OWN(ls_array, zeros) = NULL;
    expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(ROWS, 1), &zeros));
    expect_ok(ls_variable_set_value(p.table, zeros));
    LS_OWN(ls_strategy, strategy) = mirrored_of(REPLICAS);
    LS_OWN(ls_nest, whole) = make_args(ROWS, 1, LS_DTYPE_F32, 2 * REPLICAS);
    ls_array *targets = ls_nest_as_array(ls_nest_item(whole, 1));
    for (int64_t i = 0; i < 2 * REPLICAS; ++i)
      ls_array_set_f64(targets, i, (double)(16 * i));
    ls_nest parts[2] = {{0}};
    for (size_t i = 0; i < 2; ++i)
      expect_ok(ls_strategy_split(
          strategy, ls_nest_as_array(ls_nest_item(whole, i)), &parts[i]));
    LS_OWN(ls_nest, args) = LS_TUPLE(parts[0], parts[1]);
    LS_OWN(ls_function, function) = function_of(step, &p);
    LS_OWN(ls_nest, loss) = ls_none();
    for (int i = 0; i < 2; ++i)
      expect_ok(ls_strategy_run(strategy, ls_traced(function), args, &loss));
    LS_OWN(ls_array, value) = variable_array(p.table);
    for (int i = 0; i < ROWS; ++i)
      values[dense][i] = ls_array_f64(value, i);
    LS_OWN(printed, text) = graph_text(ls_function_graph(function));
    assert_int_equal(strstr(text, "assign_scatter") != NULL, !dense);
    ls_optimizer_release(p.optimizer);
    ls_variable_release(p.table);
  }
  assert_true(values[0][5] != 0 && values[0][6] == 0);
  for (int i = 0; i < ROWS; ++i)
    if (values[0][i] != values[1][i])
      fail_msg("row %d is %g by rows and %g over all", i, values[0][i],
               values[1][i]);
}

// ---- Cost ------------------------------------------------------------------
static size_t arena_bytes(const ls_function *function) {
  LS_OWN(printed, plan) = NULL;
  expect_ok(ls_function_print_plan(function, &plan));
  const char *at = strstr(plan, "bytes: shared ");
  assert_non_null(at);
  const size_t bytes = strtoul(at + strlen("bytes: shared "), NULL, 10);
  // But for the number of calls.
  for (at = plan; (at = strstr(at, "  copy")) != NULL; ++at) {
    const char *end = strchr(at, '\n');
    assert_memory_equal(end - 2, ":8", 2);
  }
  return bytes;
}

static ls_nest minimize(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor loss = loss_of(p->table, args);
  ls_optimizer_minimize(p->optimizer, loss);
  return ls_leaf(loss);
}

TEST(a_large_table_costs_what_is_looked_up) {
  enum { ROWS = 1000000, WIDTH = 8, LOOKED_UP = 64 };
  static const optimizer_maker kinds[] = {make_sgd, make_adagrad, make_held,
                                          make_lazy_adam, make_lazy_sgd};
  for (size_t i = 0; i < LS_COUNT_OF(kinds); ++i) {
    problem p = {.table = NULL};
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "table",
                               .dtype = LS_DTYPE_F32,
                               .shape = LS_SHAPE(ROWS, WIDTH)},
        &p.table));
    expect_ok(kinds[i](&p.optimizer));
    LS_OWN(ls_function, function) = function_of(minimize, &p);
    LS_OWN(ls_nest, args) = make_args(ROWS, WIDTH, LS_DTYPE_F32, LOOKED_UP);
    LS_OWN(ls_nest, loss) = ls_none();
    double first = 0;
    for (int k = 0; k < 50; ++k) {
      expect_ok(ls_function_call(function, args, &loss));
      if (k == 0) first = ls_nest_number(loss);
    }
    assert_true(ls_nest_number(loss) < first);
    // The table is 32 MB; nothing of that size is there beside it.
    assert_true(arena_bytes(function) < 64 * 1024);
    ls_optimizer_release(p.optimizer);
    ls_variable_release(p.table);
  }
}
