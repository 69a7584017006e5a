// SPDX-License-Identifier: Apache-2.0
//
// Optimizers by a user's rule: the bits of the built-in ones in every way to
// run and after a checkpoint, and rules that are refused.
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/saver.h"
#include "nn/own.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/values.h"
#include "support/ways.h"

enum { WIDTH = 5, ROWS = 3, STEPS = 4 };

// ---- Rules -----------------------------------------------------------------
static const double momentum = 0.9;

static void update_momentum(ls_update *update, void *user) {
  const double *factor = user;
  const ls_tensor v = ls_add(ls_mul_scalar(ls_update_read(update, 0), *factor),
                             ls_update_gradient(update));
  ls_update_slot(update, 0, v);
  ls_update_move(update, ls_update_rate(update, v));
}

static const ls_optimizer_rule momentum_rule = {.name = "own",
                                                .learning_rate = 0.01,
                                                .slots = {{.name = "momentum"}},
                                                .update = update_momentum};

// Adagrad, but that a variable is set to its new value.
static void update_adagrad(ls_update *update, void *user) {
  (void)user;
  const ls_tensor g = ls_update_gradient(update);
  const ls_tensor sum = ls_add(ls_update_read(update, 0), ls_square(g));
  ls_update_slot(update, 0, sum);
  const ls_tensor root = ls_sqrt(ls_add_scalar(sum, 1e-7));
  ls_update_assign(update, ls_sub(ls_update_value(update),
                                  ls_update_rate(update, ls_div(g, root))));
}

static const ls_optimizer_rule adagrad_rule = {
    .name = "own",
    .learning_rate = 0.01,
    .slots = {{.name = "sum", .initial = 0.1}},
    .keeps_rows = true,
    .update = update_adagrad};

// ---- The bits of the built-in ones -----------------------------------------
typedef struct own_case {
  const ls_optimizer_rule *rule;
  const char *kind;  // The same optimizer of the library.
  ls_optimizer_options options;
  bool is_own;
} own_case;

static void make(ways *self) {
  const own_case *row = self->user;
  double w[WIDTH];
  fill_numbers(w, WIDTH, 3);
  ways_vector(self, "w", WIDTH, w);
  ways_vector(self, "b", 0, (double[]){0.5});
  expect_ok(
      row->is_own
          ? ls_optimizer_create_own(row->rule, (void *)(uintptr_t)&momentum,
                                    &row->options, &self->optimizer)
          : ls_optimizer_create(row->kind, &row->options, &self->optimizer));
}

// One column, another one in each step, is 0 and gives no gradient.
static ls_nest make_rows(const ways *self, int step, int r) {
  (void)self;
  ls_array *rows = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH),
                                    (uint32_t)(7 * step + r + 1));
  for (int i = 0; i < ROWS; ++i)
    ls_array_set_f64(rows, i * WIDTH + step % WIDTH, 0);
  return ls_nest_array(rows);
}

static ls_tensor loss_of(ls_nest x, ways *self) {
  const ls_tensor w = ls_variable_read(self->variables[0]);
  const ls_tensor b = ls_variable_read(self->variables[1]);
  const ls_tensor y =
      ls_tanh(ls_sub(ls_reduce_sum(ls_mul(x.as.tensor, w), LS_AXES(1)), b));
  return ls_mean_squared_error(y, ls_scalar(LS_DTYPE_F32, 1),
                               LS_REDUCTION_MEAN);
}

static ls_nest step(ls_nest x, ways *self) {
  return ways_minimize(self, loss_of, x);
}

// Values after the built-in optimizer's steps, by the number of replicas.
static double wanted[WAYS_REPLICAS + 1][WIDTH + 1];

static void check_weights(const ways *self) {
  const own_case *row = self->user;
  for (int i = 0; i <= WIDTH; ++i) {
    double *want = &wanted[self->replicas][i];
    const double got = ways_value(self, i == WIDTH, 0, i == WIDTH ? 0 : i);
    if (!row->is_own) *want = got;
    ways_expect(self, "a weight", got, *want, 0);
  }
}

static bool is_w(const ls_variable *variable) {
  return strcmp(ls_variable_name(variable), "w") == 0;
}

TEST(an_own_rule_gives_the_bits_of_the_same_built_in_one_in_every_way) {
  own_case rows[] = {
      {.rule = &momentum_rule, .kind = "momentum"},
      {&momentum_rule, "momentum", {.weight_decay = 0.1, .lazy = is_w}, false},
      {&momentum_rule,
       "momentum",
       {.accumulate = 2,
        .clip = {.norm = 0.1},
        .schedule = {.kind = LS_SCHEDULE_LINEAR, .steps = 3}},
       false},
      {.rule = &adagrad_rule, .kind = "adagrad"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    for (int own = 0; own < 2; ++own) {
      rows[i].is_own = own;
      ways_hold(&(ways_case){.name = rows[i].kind,
                             .user = &rows[i],
                             .make = make,
                             .args = make_rows,
                             .step = step,
                             .check = check_weights,
                             .steps = STEPS,
                             .one_table = true},
                1);
    }
  }
}

// ---- Lookups and checkpoints ------------------------------------------------
typedef struct problem {
  ls_variable *w;
  ls_optimizer *optimizer;
} problem;

static ls_nest look_up(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor rows =
      ls_gather(ls_variable_read(p->w), ls_nest_tensor(args, 0), 0);
  ls_optimizer_minimize(p->optimizer,
                        ls_reduce_sum(ls_square(rows), LS_ALL_AXES));
  return ls_none();
}

// Makes steps `from` to `to`, each with two rows of many.
static void make_steps(problem *p, int from, int to) {
  ls_function *function = unnamed_function(look_up, p);
  for (int i = from; i < to; ++i) {
    LS_OWN(ls_nest, results) = ls_none();
    LS_OWN(ls_nest, args) = LS_TUPLE(
        ls_nest_array(array_of(LS_DTYPE_I64, LS_SHAPE(2), (double[]){i, 3})));
    expect_ok(ls_function_call(function, args, &results));
  }
  ls_function_release(function);
}

static problem make_problem(const ls_optimizer_rule *rule) {
  problem p = {.w = NULL};
  double values[20];
  fill_numbers(values, 20, 5);
  p.w = variable_of("w", LS_DTYPE_F32, LS_SHAPE(10, 2), values);
  expect_ok(rule != NULL
                ? ls_optimizer_create_own(rule, (void *)(uintptr_t)&momentum,
                                          NULL, &p.optimizer)
                : ls_optimizer_create("adagrad", NULL, &p.optimizer));
  return p;
}

static void drop_problem(problem *p) {
  ls_optimizer_release(p->optimizer);
  ls_variable_release(p->w);
}

static void expect_equal(ls_variable *a, ls_variable *b) {
  double values[2][20];
  read_variable(a, values[0], 20);
  read_variable(b, values[1], 20);
  assert_memory_equal(values[0], values[1], sizeof(values[0]));
}

TEST(an_own_rule_that_keeps_rows_moves_rows_alone) {
  problem own = make_problem(&adagrad_rule), usual = make_problem(NULL);
  make_steps(&own, 0, 4);
  make_steps(&usual, 0, 4);
  expect_equal(own.w, usual.w);
  drop_problem(&own);
  drop_problem(&usual);
}

TEST(an_own_optimizer_goes_on_from_a_checkpoint) {
  static const char file[] = "own-optimizer-test.safetensors";
  problem p = make_problem(&momentum_rule), q = make_problem(&momentum_rule);
  ls_variable *slot = NULL, *variables[2] = {p.w};
  make_steps(&p, 0, 3);
  expect_ok(ls_optimizer_slot(p.optimizer, p.w, "momentum", &variables[1]));
  assert_string_equal(ls_variable_name(variables[1]), "w/momentum");
  ls_saver saver = {.variables = variables, .num_variables = 2};
  expect_ok(ls_saver_save(&saver, file));
  expect_ok(ls_optimizer_prepare(q.optimizer, &q.w, 1));
  expect_ok(ls_optimizer_slot(q.optimizer, q.w, "momentum", &slot));
  variables[0] = q.w;
  variables[1] = slot;
  expect_ok(ls_saver_restore(&saver, file));
  make_steps(&p, 3, 6);
  make_steps(&q, 3, 6);
  expect_equal(p.w, q.w);
  unlink(file);
  drop_problem(&p);
  drop_problem(&q);
}

// ---- Step counts -----------------------------------------------------------
static void update_by_count(ls_update *update, void *user) {
  (void)user;
  assert_string_equal(ls_variable_name(ls_update_variable(update)), "w");
  assert_false(ls_update_decays(update));
  ls_update_move(update, ls_broadcast_like(
                             ls_convert(ls_update_step(update), LS_DTYPE_F32),
                             ls_update_gradient(update)));
}

TEST(an_own_rule_gets_the_number_of_the_step) {
  const ls_optimizer_rule rule = {.name = "counting",
                                  .learning_rate = 1,
                                  .counts = true,
                                  .update = update_by_count};
  problem p = make_problem(&rule);
  double before[20], after[20];
  read_variable(p.w, before, 20);
  make_steps(&p, 0, 3);
  read_variable(p.w, after, 20);
  // The sum of 1, 2 and 3.
  for (int i = 0; i < 20; ++i)
    assert_float_equal(before[i] - 6, after[i], 1e-5);
  drop_problem(&p);
}

// ---- Refused ---------------------------------------------------------------
static void update_nothing(ls_update *update, void *user) {
  (void)update;
  (void)user;
}

static void update_no_slot(ls_update *update, void *user) {
  (void)user;
  ls_update_move(update, ls_update_gradient(update));
}

static void update_short_slot(ls_update *update, void *user) {
  update_momentum(update, user);
  ls_update_slot(update, 0, ls_fill(LS_DTYPE_F32, LS_SHAPE(3), 0));
}

static void update_fifth_slot(ls_update *update, void *user) {
  update_momentum(update, user);
  ls_update_slot(update, 4, ls_update_gradient(update));
}

static void update_uncounted(ls_update *update, void *user) {
  update_momentum(update, user);
  ls_update_step(update);
}

TEST(steps_of_wrong_rules_are_refused_in_every_way) {
  static const struct {
    void (*update)(ls_update *update, void *user);
    const char *says;
  } rows[] = {
      {update_nothing, "own: the rule has set no value of variable"},
      {update_no_slot, "own: the rule has not set slot number 0 of variable"},
      {update_short_slot, "f32[3]"},
      {update_fifth_slot, "own: there is no slot number 4 of variable"},
      {update_uncounted, "own: the rule does not set `counts`, and asks for "
                         "the number of the step of variable"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_optimizer_rule rule = momentum_rule;
    rule.update = rows[i].update;
    const own_case row = {.rule = &rule, .is_own = true};
    ways_hold(&(ways_case){.name = rows[i].says,
                           .user = &row,
                           .make = make,
                           .args = make_rows,
                           .step = step,
                           .refused = LS_INVALID_ARGUMENT,
                           .says = rows[i].says,
                           .writes_before = true,
                           .one_table = true},
              1);
  }
}

TEST(wrong_rules_are_refused) {
  const ls_optimizer_options lazy = {.lazy = is_w};
  const struct {
    ls_optimizer_rule rule;
    const ls_optimizer_options *options;
    const char *says;
  } rows[] = {
      {{.update = update_nothing}, NULL, "a rule of an optimizer has no name"},
      {{.name = "own"}, NULL, "own: the rule's `update` is NULL"},
      {{.name = "own", .update = update_nothing},
       NULL,
       "own: the rule's learning rate must be above 0, got 0"},
      {{"own", 1, {{.name = "m"}, {.name = ""}}, .update = update_nothing},
       NULL,
       "own: slot 1 has no name"},
      {{"own",
        1,
        {{.name = "m"}, {.name = "v"}, {.name = "m"}},
        .update = update_nothing},
       NULL,
       "own: slots 0 and 2 are both called 'm'"},
      {{"own", 1, {{.name = "gradient"}}, .update = update_nothing},
       NULL,
       "own: a slot cannot be called 'gradient'"},
      {{"own", 1, .needs_all = true, .update = update_nothing},
       &lazy,
       "own: no step can be lazy: its rule needs all rows of a variable"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_optimizer *made = (ls_optimizer *)(uintptr_t)&momentum;
    expect_status(
        ls_optimizer_create_own(&rows[i].rule, NULL, rows[i].options, &made),
        LS_INVALID_ARGUMENT, rows[i].says);
    assert_null(made);
  }
}

MEMORY_TEST(make_an_own_optimizer) {
  LS_OWN(ls_optimizer, made) = NULL;
  return ls_optimizer_create_own(&momentum_rule, NULL, NULL, &made);
}
