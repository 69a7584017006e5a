// SPDX-License-Identifier: Apache-2.0
// Optimizers around others, in replicated computations: the bytes of a mirrored
// strategy, and what they refuse.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/graph_ops.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/replicate.h"
#include "lockstep/runtime.h"
#include "nn/own.h"
#include "support/assignments.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"
#include "support/values.h"
#include "support/ways.h"

enum { WIDTH = 5, ROWS = 4, STEPS = 3, MOST_REPLICAS = 7, MOST_VALUES = 12 };

// ---- Computations ----------------------------------------------------------
// Each replica on a core of its own, whatever systems there are. Takes the
// inputs over.
static ls_status replicate(computation *c, int replicas, ls_nest inputs,
                           ls_callback fn, void *user) {
  int at[MOST_REPLICAS][2] = {{0}};
  for (int r = 0; r < replicas; ++r)
    at[r][1] = r;
  LS_OWN(ls_topology, topology) = make_topology(1, replicas);
  LS_OWN(ls_device_assignment, assignment) =
      make_assignment(topology, replicas, 1, (const int(*)[2])(const void *)at);
  const ls_status status = ls_replicate(
      fn, user, inputs, &(ls_replicate_options){.assignment = assignment},
      &c->outputs);
  ls_nest_release(inputs);
  return status;
}

// ---- One problem, trained in two ways --------------------------------------
typedef struct problem {
  const char *kind;
  ls_optimizer_options options;
  ls_gradients_over_replicas reduction;
  ls_dtype dtype;
  const int *examples;  // Of each replica; NULL: all rows, and none is said.
  int replicas;
  // Made for a run.
  ls_variable *w, *b;
  ls_optimizer *optimizer;  // What steps.
  ls_array *values[MOST_VALUES];
  size_t num_values;
} problem;

static ls_variable *make_variable(const problem *p, const char *name,
                                  ls_shape shape, uint32_t seed) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, first) = array_of_numbers(p->dtype, shape, seed);
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = name, .initial_array = first}, &variable));
  return variable;
}

static void make(problem *p, bool crosses) {
  p->w = make_variable(p, "w", LS_SHAPE(WIDTH), 3);
  p->b = make_variable(p, "b", LS_SCALAR, 5);
  ls_optimizer_options options = p->options;
  if (!crosses) options.over_replicas = p->reduction;
  expect_ok(ls_optimizer_create(p->kind, &options, &p->optimizer));
  if (!crosses) return;
  LS_OWN(ls_optimizer, inner) = p->optimizer;
  expect_ok(ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner, .reduction = p->reduction},
      &p->optimizer));
}

static void drop(problem *p) {
  ls_variable_release(p->w);
  ls_variable_release(p->b);
  ls_optimizer_release(p->optimizer);
  p->w = p->b = NULL;
  p->optimizer = NULL;
}

static ls_array *rows_of(const problem *p, int r) {
  return array_of_numbers(p->dtype, LS_SHAPE(ROWS, WIDTH), (uint32_t)(r + 11));
}

static ls_array *count_of(const problem *p, int r) {
  return array_of(p->dtype, LS_SCALAR,
                  (double[]){p->examples == NULL ? ROWS : p->examples[r]});
}

// The mean over the first `count` rows; of none it is no number.
static ls_tensor loss_of(const problem *p, ls_tensor x, ls_tensor count) {
  const ls_tensor sums =
      ls_reduce_sum(ls_mul(x, ls_variable_read(p->w)), LS_AXES(1));
  const ls_tensor off =
      ls_square(ls_sub(ls_tanh(sums), ls_variable_read(p->b)));
  const ls_tensor rows = ls_iota(p->dtype, LS_SHAPE(ROWS), 0);
  const ls_tensor real =
      ls_select(ls_less(rows, count), off, ls_scalar(p->dtype, 0));
  return ls_div(ls_reduce_sum(real, LS_ALL_AXES), count);
}

static ls_nest crossed_step(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor count = ls_nest_tensor(args, 1);
  const ls_tensor loss = loss_of(p, ls_nest_tensor(args, 0), count);
  LS_SCOPE_BLOCK_(scope);
  if (p->examples != NULL) ls_examples_scope_begin(&scope, count);
  return LS_LIST(ls_leaf(loss),
                 ls_nest_op(ls_optimizer_minimize(p->optimizer, loss)));
}

static ls_nest mirrored_step(ls_nest args, void *user) {
  const problem *p = user;
  const ls_tensor count = ls_nest_tensor(args, 1);
  if (p->examples != NULL)
    expect_ok(ls_replica_set_examples(ls_replica_context(), count));
  const ls_tensor loss = loss_of(p, ls_nest_tensor(args, 0), count);
  ls_optimizer_minimize(p->optimizer, loss);
  return ls_leaf(loss);
}

static size_t list_variables(const problem *p, ls_variable **all) {
  all[0] = p->w;
  all[1] = p->b;
  const size_t count = ls_optimizer_variables(p->optimizer, all + 2, 10);
  assert_true(count <= 10);
  return 2 + count;
}

static void train_crossed(problem *p) {
  ls_nest each[MOST_REPLICAS];
  LS_OWN_BEGUN(computation, c, computation_open);
  make(p, true);
  for (int r = 0; r < p->replicas; ++r) {
    LS_OWN(ls_array, x) = rows_of(p, r);
    LS_OWN(ls_array, count) = count_of(p, r);
    each[r] = LS_LIST(ls_leaf(ls_constant(x)), ls_leaf(ls_constant(count)));
  }
  const ls_nest inputs =
      ls_nest_sequence(LS_KIND_LIST, each, (size_t)p->replicas);
  expect_ok(replicate(&c, p->replicas, inputs, crossed_step, p));
  ls_variable *all[MOST_VALUES];
  p->num_values = list_variables(p, all);
  expect_ok(ls_session_create(c.graph, &c.session));
  for (size_t i = 0; i < p->num_values; ++i)
    computation_initialize(&c, all[i]);
  for (int step = 0; step < STEPS; ++step)
    expect_ok(computation_run(&c, c.outputs));
  for (size_t i = 0; i < p->num_values; ++i) {
    LS_OWN(ls_nest, value) =
        session_results(c.session, ls_leaf(ls_variable_read(all[i])));
    p->values[i] = ls_array_retain(ls_nest_as_array(value));
  }
  drop(p);
}

static void train_on(problem *p, ls_strategy *strategy, bool crosses) {
  ls_nest xs[MOST_REPLICAS], counts[MOST_REPLICAS];
  {
    LS_STRATEGY_SCOPE(strategy);
    make(p, crosses);
  }
  for (int r = 0; r < p->replicas; ++r) {
    xs[r] = ls_nest_array(rows_of(p, r));
    counts[r] = ls_nest_array(count_of(p, r));
  }
  const size_t n = (size_t)p->replicas;
  const ls_nest args =
      n == 1 ? LS_TUPLE(xs[0], counts[0])
             : LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, xs, n),
                        ls_nest_distributed(LS_PER_REPLICA, counts, n));
  ls_function *function = function_of(mirrored_step, p);
  for (int step = 0; step < STEPS; ++step) {
    LS_OWN(ls_nest, results) =
        strategy_results(strategy, ls_traced(function), args);
  }
  ls_variable *all[MOST_VALUES];
  p->num_values = list_variables(p, all);
  for (size_t i = 0; i < p->num_values; ++i)
    expect_ok(ls_variable_value(all[i], &p->values[i]));
  ls_nest_release(args);
  ls_function_release(function);
  drop(p);
  ls_strategy_release(strategy);
}

static void expect_same(problem *a, problem *b) {
  assert_int_equal(a->num_values, b->num_values);
  for (size_t i = 0; i < a->num_values; ++i) {
    const ls_array *x = a->values[i], *y = b->values[i];
    assert_int_equal(ls_array_size(x), ls_array_size(y));
    if (memcmp(ls_array_data(x), ls_array_data(y), ls_array_size(x)) != 0)
      fail_msg("%s, %d replicas: value %zu is %.9g, and %.9g", a->kind,
               a->replicas, i, ls_array_f64(x, 0), ls_array_f64(y, 0));
    for (int64_t k = 0; k < ls_array_num_elements(x); ++k)
      assert_true(ls_array_f64(x, k) == ls_array_f64(x, k));
  }
}

static void forget(problem *p) {
  for (size_t i = 0; i < p->num_values; ++i)
    ls_array_release(p->values[i]);
  p->num_values = 0;
}

// Bytes of a computation with it are those of a mirrored strategy without; of
// strategies with it too.
static void compare(const problem *row) {
  for (int replicas = 1; replicas <= MOST_REPLICAS; ++replicas) {
    problem mirrored = *row, other = *row;
    mirrored.replicas = other.replicas = replicas;
    train_on(&mirrored, mirrored_of(replicas), false);
    train_crossed(&other);
    expect_same(&mirrored, &other);
    forget(&other);
    train_on(&other, tpu_strategy_of(replicas), true);
    expect_same(&mirrored, &other);
    forget(&other);
    train_on(&other, mirrored_of(replicas), true);
    expect_same(&mirrored, &other);
    forget(&other);
    forget(&mirrored);
  }
}

TEST(a_computation_makes_the_bytes_of_a_mirrored_strategy) {
  LS_SPEC("E209");
  static const problem rows[] = {
      {.kind = "sgd", .dtype = LS_DTYPE_F32},
      {.kind = "adam", .dtype = LS_DTYPE_F32},
      {.kind = "momentum", .dtype = LS_DTYPE_F64},
      {.kind = "sgd", .dtype = LS_DTYPE_BF16},
      {.kind = "adam",
       .dtype = LS_DTYPE_F32,
       .options = {.clip = {.global_norm = 0.1}, .accumulate = 2}},
      {.kind = "adam", .dtype = LS_DTYPE_F32, .reduction = LS_GRADIENTS_SUM},
      {.kind = "sgd", .dtype = LS_DTYPE_BF16, .reduction = LS_GRADIENTS_SUM},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    compare(&rows[i]);
}

TEST(replicas_count_by_their_examples) {
  LS_SPEC("M182");
  static const int examples[MOST_REPLICAS] = {4, 0, 3, 1, 0, 2, 4};
  static const problem rows[] = {
      {.kind = "sgd", .dtype = LS_DTYPE_F32, .examples = examples},
      {.kind = "sgd", .dtype = LS_DTYPE_BF16, .examples = examples},
      {.kind = "adam",
       .dtype = LS_DTYPE_F32,
       .examples = examples,
       .reduction = LS_GRADIENTS_SUM},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    compare(&rows[i]);
}

static ls_nest say_examples(ls_nest args, void *user) {
  (void)args;
  (void)user;
  ls_tensor count = {0};
  assert_false(ls_replica_examples(&count));
  {
    LS_EXAMPLES_SCOPE(f32_of(3));
    expect_ok(ls_replica_set_examples(ls_replica_context(), f32_of(7)));
    assert_true(ls_replica_examples(&count));
    {
      LS_EXAMPLES_SCOPE(ls_scalar_i64(LS_DTYPE_I64, 2));
      assert_true(ls_replica_examples(&count));
      assert_int_equal(ls_tensor_dtype(count), LS_DTYPE_I64);
    }
    assert_true(ls_replica_examples(&count));
  }
  ls_tensor given = {0};
  assert_true(ls_replica_examples(&given));
  return LS_TUPLE(ls_leaf(count), ls_leaf(given));
}

TEST(what_a_scope_says_goes_before_what_a_step_has_given) {
  ls_strategy *strategy = mirrored_of(2);
  ls_function *function = function_of(say_examples, NULL);
  ls_nest results = strategy_results(strategy, ls_traced(function), ls_none());
  for (size_t i = 0; i < 2; ++i)
    assert_true(number_of(ls_distributed_component(ls_nest_item(results, i),
                                                   1)) == (i == 0 ? 3 : 7));
  ls_nest_release(results);
  ls_function_release(function);
  ls_strategy_release(strategy);
  expect_ok(ls_frame_begin());
  {
    LS_EXAMPLES_SCOPE(ls_fill(LS_DTYPE_F32, LS_SHAPE(2), 1));
    expect_status(ls_scope_status(), LS_INVALID_ARGUMENT,
                  "a number of examples is a scalar");
  }
  expect_ok(ls_frame_end(NULL));
}

static void take_numbers(double *numbers, int64_t count, uint32_t seed) {
  LS_OWN(ls_array, array) =
      array_of_numbers(LS_DTYPE_F64, LS_SHAPE(count), seed);
  for (int64_t i = 0; i < count; ++i)
    numbers[i] = ls_array_f64(array, i);
}

TEST(the_gradient_is_that_of_one_batch) {
  LS_SPEC("E209 M182");
  // 4, 0, 3 rows on three replicas, and the 7 in one array.
  static const int examples[] = {4, 0, 3};
  problem p = {.kind = "sgd",
               .options = {.learning_rate = 0.5},
               .dtype = LS_DTYPE_F64,
               .examples = examples,
               .replicas = 3};
  train_crossed(&p);
  double w[WIDTH], b;
  take_numbers(w, WIDTH, 3);
  take_numbers(&b, 1, 5);
  for (int step = 0; step < STEPS; ++step) {
    double dw[WIDTH] = {0}, db = 0;
    for (int r = 0; r < 3; ++r) {
      double x[ROWS][WIDTH];
      take_numbers(&x[0][0], (int64_t)ROWS * WIDTH, (uint32_t)(r + 11));
      for (int i = 0; i < examples[r]; ++i) {
        double sum = 0;
        for (int k = 0; k < WIDTH; ++k)
          sum += x[i][k] * w[k];
        const double y = tanh(sum), off = 2 * (y - b) / 7;
        db -= off;
        for (int k = 0; k < WIDTH; ++k)
          dw[k] += off * (1 - y * y) * x[i][k];
      }
    }
    b -= 0.5 * db;
    for (int k = 0; k < WIDTH; ++k)
      w[k] -= 0.5 * dw[k];
  }
  for (int k = 0; k < WIDTH; ++k)
    assert_true(fabs(ls_array_f64(p.values[0], k) - w[k]) < 1e-12);
  assert_true(fabs(ls_array_f64(p.values[1], 0) - b) < 1e-12);
  forget(&p);
}

// ---- Every way -------------------------------------------------------------
static void make_wrapped(ways *self) {
  const ls_gradients_over_replicas *reduction = self->user;
  LS_OWN(ls_optimizer, inner) = NULL;
  ways_vector(self, "w", WIDTH, (double[WIDTH]){1, -2, 3, 0.5, 0.25});
  expect_ok(ls_optimizer_create("momentum", NULL, &inner));
  expect_ok(ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner, .reduction = *reduction},
      &self->optimizer));
}

static ls_nest numbers_of(const ways *self, int step, int r) {
  (void)self;
  return ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(WIDTH),
                                        (uint32_t)(7 * step + r + 1)));
}

static ls_tensor square_loss(ls_nest x, ways *self) {
  const ls_tensor w = ls_variable_read(self->variables[0]);
  return ls_reduce_sum(ls_square(ls_sub(w, x.as.tensor)), LS_ALL_AXES);
}

static ls_nest wrapped_step(ls_nest x, ways *self) {
  return ways_minimize(self, square_loss, x);
}

TEST(it_steps_alike_in_every_way) {
  LS_SPEC("E209");
  static const ls_gradients_over_replicas reductions[] = {LS_GRADIENTS_MEAN,
                                                          LS_GRADIENTS_SUM};
  for (size_t i = 0; i < LS_COUNT_OF(reductions); ++i)
    ways_hold(&(ways_case){.name = "cross shard",
                           .user = &reductions[i],
                           .make = make_wrapped,
                           .args = numbers_of,
                           .step = wrapped_step,
                           .steps = STEPS},
              1);
}

// ---- The graph -------------------------------------------------------------
typedef struct pairs {
  ls_variable *variables[3];
  ls_optimizer *optimizer;
  const ls_replica_groups *groups;
  ls_gradients_over_replicas reduction;
  ls_tensor gradients[2];
  ls_status status;
} pairs;

static void make_pairs(pairs *p) {
  static const char *const names[] = {"u", "v", "w"};
  LS_OWN(ls_optimizer, inner) = NULL;
  for (size_t i = 0; i < 3; ++i)
    p->variables[i] =
        variable_of(names[i], LS_DTYPE_F32, LS_SCALAR, (double[]){0});
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 1, .momentum = 0.5}, &inner));
  expect_ok(ls_cross_shard_create(
      &(ls_cross_shard_options){
          .optimizer = inner, .reduction = p->reduction, .groups = p->groups},
      &p->optimizer));
}

static void drop_pairs(pairs *p) {
  for (size_t i = 0; i < 3; ++i)
    ls_variable_release(p->variables[i]);
  ls_optimizer_release(p->optimizer);
}
LS_OWNED_STRUCT(pairs, drop_pairs)

// Variable v has no gradient.
static ls_nest apply_pairs(ls_nest args, void *user) {
  pairs *p = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  p->gradients[0] = ls_mul_scalar(x, 2);
  p->gradients[1] = ls_neg(x);
  const ls_nest gradients[] = {ls_leaf(p->gradients[0]), ls_none(),
                               ls_leaf(p->gradients[1])};
  return LS_LIST(ls_leaf(x), ls_nest_op(ls_optimizer_apply(
                                 p->optimizer, p->variables, gradients, 3)));
}

static size_t sums_in(const ls_graph *graph, ls_op *sums, size_t capacity) {
  size_t count = 0;
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    if (strcmp(ls_op_type_name(op), "cross_replica_sum") != 0) continue;
    assert_true(count < capacity);
    sums[count++] = op;
  }
  return count;
}

TEST(each_gradient_goes_through_one_sum_beside_it) {
  LS_SPEC("E209");
  ls_op sums[4];
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN_BEGUN(pairs, p, make_pairs);
  expect_ok(replicate(&c, 3, computation_inputs(3), apply_pairs, &p));
  assert_int_equal(sums_in(c.graph, sums, 4), 2);
  for (size_t i = 0; i < 2; ++i) {
    char beside[200];
    const ls_attr *attr = NULL;
    snprintf(beside, sizeof(beside), "loc:@%s",
             ls_op_name(ls_tensor_op(p.gradients[i])));
    expect_ok(ls_op_attr(sums[i], "_class", &attr));
    assert_int_equal(attr->kind, LS_ATTR_STRINGS);
    assert_int_equal(attr->as.strings.count, 1);
    assert_string_equal(attr->as.strings.items[0], beside);
  }
  assert_false(ls_graph_is_loss_scaled(c.graph));
  ls_variable *slot = NULL;
  expect_ok(ls_optimizer_slot(p.optimizer, p.variables[0], "momentum", &slot));
  assert_string_equal(ls_variable_name(slot), "u/momentum");
  expect_status(
      ls_optimizer_slot(p.optimizer, p.variables[1], "momentum", &slot),
      LS_NOT_FOUND, "'momentum'");
  for (size_t i = 0; i < 3; ++i)
    computation_initialize(&c, p.variables[i]);
  ls_variable *slots[4];
  assert_int_equal(ls_optimizer_variables(p.optimizer, slots, 4), 2);
  for (size_t i = 0; i < 2; ++i)
    computation_initialize(&c, slots[i]);
  expect_ok(computation_run(&c, c.outputs));
  // Inputs are 1, 2, 3.
  assert_true(computation_fetch(&c, ls_variable_read(p.variables[0])) == -4);
  assert_true(computation_fetch(&c, ls_variable_read(p.variables[1])) == 0);
  assert_true(computation_fetch(&c, ls_variable_read(p.variables[2])) == 2);
}

// ---- Groups ----------------------------------------------------------------
// Each replica has its own variable.
static ls_nest own_step(ls_nest args, void *user) {
  const pairs *p = user;
  LS_OWN(ls_nest, gradient) = ls_nest_retain(ls_nest_item(args, 0));
  ls_optimizer_apply(p->optimizer, p->variables, &gradient, 1);
  return ls_none();
}

TEST(groups_add_up_apart) {
  LS_SPEC("E209");
  static const int32_t members[] = {0, 3, 2, 1};
  const ls_replica_groups groups = {members, 2, 2};
  for (int sum = 0; sum < 2; ++sum) {
    LS_OWN(ls_strategy, strategy) = mirrored_of(4);
    LS_OWN(pairs, p) = {0};
    LS_OWN(ls_optimizer, inner) = NULL;
    p.variables[0] = variable_in(
        strategy, (variable_kind){.synchronization = LS_SYNCHRONIZATION_ON_READ,
                                  .aggregation = LS_AGGREGATION_SUM});
    expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 1}, &inner));
    expect_ok(ls_cross_shard_create(
        &(ls_cross_shard_options){.optimizer = inner,
                                  .reduction = sum ? LS_GRADIENTS_SUM
                                                   : LS_GRADIENTS_MEAN,
                                  .groups = &groups},
        &p.optimizer));
    ls_nest each[4];
    for (int r = 0; r < 4; ++r)
      each[r] = ls_nest_array(
          array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){-pow(10, r)}));
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, each, 4));
    LS_OWN(ls_function, function) = function_of(own_step, &p);
    LS_OWN(ls_nest, results) =
        strategy_results(strategy, ls_traced(function), args);
    const double by = sum ? 1 : 0.5;
    expect_components(p.variables[0],
                      (double[]){1001 * by, 110 * by, 110 * by, 1001 * by}, 4);
  }
}

TEST(groups_cover_each_replica_once) {
  LS_SPEC("E209");
  static const int32_t twice[] = {0, 1, 1, 2}, short_of[] = {0, 1},
                       beyond[] = {0, 1, 2, 4};
  static const struct {
    ls_replica_groups groups;
    const char *says;
  } rows[] = {
      {{twice, 2, 2}, "replica 1 is in two groups"},
      {{short_of, 2, 1}, "replica 2 is in no group"},
      {{beyond, 2, 2}, "replica 4 is in a group"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(computation, c) = {0};
    LS_OWN(pairs, p) = {.groups = &rows[i].groups};
    computation_open(&c);
    make_pairs(&p);
    const size_t before = ls_graph_num_ops(c.graph);
    expect_status(replicate(&c, 4, computation_inputs(4), apply_pairs, &p),
                  LS_INVALID_ARGUMENT, rows[i].says);
    assert_true(ls_graph_num_ops(c.graph) <= before + 4);  // The inputs.
  }
}

// ---- Refused ---------------------------------------------------------------
TEST(what_it_cannot_be_around_is_refused) {
  LS_SPEC("E209");
  LS_OWN(ls_optimizer, plain) = NULL;
  LS_OWN(ls_optimizer, summing) = NULL;
  LS_OWN(ls_optimizer, around) = NULL;
  ls_optimizer *none = NULL;
  expect_ok(ls_sgd_create(NULL, &plain));
  expect_ok(ls_sgd_create(&(ls_sgd_options){.over_replicas = LS_GRADIENTS_SUM},
                          &summing));
  expect_ok(ls_cross_shard_create(&(ls_cross_shard_options){.optimizer = plain},
                                  &around));
  static const int32_t members[] = {0};
  const struct {
    ls_cross_shard_options options;
    const char *says;
  } rows[] = {
      {{.optimizer = NULL}, "the wrapped optimizer is missing"},
      {{.optimizer = plain, .reduction = LS_GRADIENTS_LIKE_LOSS},
       "neither LS_GRADIENTS_MEAN nor LS_GRADIENTS_SUM"},
      {{.optimizer = plain, .reduction = (ls_gradients_over_replicas)7},
       "a reduction by 7"},
      {{.optimizer = summing}, "give `reduction` instead"},
      {{.optimizer = around}, "around 'sgd'"},
      {{.optimizer = plain, .groups = &(ls_replica_groups){members, 0, 1}},
       "1 groups of 0 members"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    expect_status(ls_cross_shard_create(&rows[i].options, &none),
                  LS_INVALID_ARGUMENT, rows[i].says);
    assert_null(none);
  }
  expect_status(ls_cross_shard_create(NULL, &none), LS_INVALID_ARGUMENT,
                "the wrapped optimizer is missing");
}

TEST(it_is_refused_across_replicas) {
  LS_OWN(ls_optimizer, plain) = NULL;
  LS_OWN(ls_optimizer, around) = NULL;
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  expect_ok(ls_sgd_create(NULL, &plain));
  expect_ok(ls_cross_shard_create(&(ls_cross_shard_options){.optimizer = plain},
                                  &around));
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, gradient) =
      distributed_numbers(LS_PER_REPLICA, (double[]){1, 2}, 2);
  ls_op op = {0};
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_status(
        ls_optimizer_apply_across(around, &v, &gradient, 1, NULL, &op),
        LS_FAILED_PRECONDITION, "take the optimizer inside");
  }
}

static ls_nest eager_step(ls_nest args, void *user) {
  const pairs *p = user;
  (void)args;
  const ls_nest gradient = ls_leaf(scalar_of(1));
  const ls_status status = ls_tensor_status(ls_op_output(
      ls_optimizer_apply(p->optimizer, p->variables, &gradient, 1), 0));
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

TEST(replicas_that_run_op_by_op_have_no_groups) {
  static const int32_t members[] = {0, 1};
  const ls_replica_groups groups = {members, 1, 2};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(pairs, p) = {.groups = &groups};
  {
    LS_STRATEGY_SCOPE(strategy);
    make_pairs(&p);
  }
  ls_nest results = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_plain(eager_step, &p), ls_none(), &results),
      LS_UNIMPLEMENTED, "trace the step in a function");
}

// ---- Without shards --------------------------------------------------------
typedef struct heard {
  int warnings;
  char text[300];
} heard;

static void hear(void *user, const ls_log_line *line) {
  heard *h = user;
  if (line->level != LS_LOG_WARNING) return;
  ++h->warnings;
  snprintf(h->text, sizeof(h->text), "%s", line->text);
}

TEST(without_shards_there_is_one_and_a_warning) {
  LS_SPEC("E209");
  heard h = {0};
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.log = hear, .log_user = &h});
  ls_op sums[4];
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN_BEGUN(pairs, p, make_pairs);
  const ls_nest args = LS_LIST(ls_leaf(f32_of(3)));
  c.outputs = apply_pairs(args, &p);
  ls_nest_release(args);
  assert_string_equal(ls_name_scope_current(), "");  // As it was.
  assert_int_equal(h.warnings, 1);
  expect_contains(h.text, "number of shards is unset");
  assert_int_equal(sums_in(c.graph, sums, 4), 2);
  ls_variable *slots[4];
  assert_int_equal(ls_optimizer_variables(p.optimizer, slots, 4), 2);
  for (size_t i = 0; i < 2; ++i)
    computation_initialize(&c, slots[i]);
  for (size_t i = 0; i < 3; ++i)
    computation_initialize(&c, p.variables[i]);
  expect_ok(computation_run(&c, c.outputs));
  assert_true(computation_fetch(&c, ls_variable_read(p.variables[0])) == -6);
}

// ---- What it says of the one inside ----------------------------------------
TEST(it_has_the_rate_and_variables_of_the_one_inside) {
  LS_SPEC("E209");
  pairs p = {0};
  expect_ok(ls_frame_begin());
  make_pairs(&p);
  assert_true(ls_optimizer_learning_rate(p.optimizer) == 1);
  assert_int_equal(ls_optimizer_schedule(p.optimizer).kind,
                   LS_SCHEDULE_CONSTANT);
  assert_true(item_of(ls_optimizer_rate(p.optimizer)) == 1);
  expect_ok(ls_optimizer_prepare(p.optimizer, p.variables, 3));
  ls_variable *all[4];
  assert_int_equal(ls_optimizer_variables(p.optimizer, all, 4), 3);
  assert_string_equal(ls_variable_name(all[0]), "u/momentum");
  drop_pairs(&p);
  expect_ok(ls_frame_end(NULL));
}
