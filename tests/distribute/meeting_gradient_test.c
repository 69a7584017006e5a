// SPDX-License-Identifier: Apache-2.0
//
// Gradients of what replicas do together: every way to run gives those of the
// sum of all replicas' results, whose numbers are the trace's.
#include "support/ways.h"

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/gradients.h"
#include "lockstep/layers.h"
#include "lockstep/session.h"
#include "support/function.h"
#include "support/merges.h"
#include "support/replicas.h"
#include "support/values.h"

enum { ROWS = 6, WIDTH = 2 };

// ---- Collectives -----------------------------------------------------------
// A matrix, and what the replica's result is weighed with.
static ls_nest matrix_of(const ways *self, int step, int r) {
  (void)self;
  double x[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; ++i)
    x[i] = (i * 37 % 23) / 7.0 + r * 0.3 + step;
  return LS_TUPLE(
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SHAPE(ROWS, WIDTH), x)),
      ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){2 * r + 1})));
}

static ls_tensor weighted(ls_tensor x, int replicas) {
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(x));
  LS_OWN(ls_nest, made) = ls_replica_weighted_mean(
      ls_replica_context(), given, (double[]){2, 0, 1}, (size_t)replicas);
  expect_ok(ls_nest_status(made));
  return ls_nest_tensor(made, 0);
}

typedef ls_tensor (*collective)(ls_tensor x, int replicas);

static ls_tensor of_replica(ls_reduce_op op, ls_tensor x) {
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(x));
  LS_OWN(ls_nest, made) =
      ls_replica_all_reduce(ls_replica_context(), op, given);
  expect_ok(ls_nest_status(made));
  return ls_nest_tensor(made, 0);
}

static ls_tensor replica_sum(ls_tensor x, int replicas) {
  (void)replicas;
  return of_replica(LS_REDUCE_SUM, x);
}

static ls_tensor replica_mean(ls_tensor x, int replicas) {
  (void)replicas;
  return of_replica(LS_REDUCE_MEAN, x);
}

static ls_tensor replica_gather(ls_tensor x, int replicas) {
  (void)replicas;
  LS_OWN(ls_nest, given) = LS_LIST(ls_leaf(x));
  LS_OWN(ls_nest, made) = ls_replica_all_gather(ls_replica_context(), given, 1);
  expect_ok(ls_nest_status(made));
  return ls_nest_tensor(made, 0);
}

static ls_tensor sum(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_all_reduce(LS_REDUCE_SUM, x);
}

static ls_tensor mean(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_all_reduce(LS_REDUCE_MEAN, x);
}

static ls_tensor sum_in_groups(ls_tensor x, int replicas) {
  const int32_t members[] = {replicas - 1, 0, 1};
  return ls_all_reduce_in(LS_REDUCE_MEAN, x,
                          &(ls_replica_groups){members, (size_t)replicas, 1});
}

static ls_tensor gather(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_all_gather(x, 0);
}

static ls_tensor scatter(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_reduce_scatter(LS_REDUCE_SUM, x, 0);
}

static ls_tensor scatter_mean(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_reduce_scatter(LS_REDUCE_MEAN, x, 0);
}

static ls_tensor exchange(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_all_to_all(x, 0, 1, NULL);
}

static ls_tensor pass_on(ls_tensor x, int replicas) {
  if (replicas == 1) return ls_collective_permute(x, NULL, 0);
  const int32_t pairs[][2] = {{0, 1}, {1, 0}};
  return ls_collective_permute(x, pairs, 2);
}

static ls_tensor broadcast(ls_tensor x, int replicas) {
  return ls_collective_broadcast(x, replicas - 1);
}

// c * sum(f(x)^2 f(x)), with the replica's own c.
static ls_tensor weighed(ls_nest args, ways *self) {
  const ls_tensor y =
      (*(const collective *)self->user)(argument(args, 0), self->replicas);
  return ls_mul(argument(args, 1),
                ls_reduce_sum(ls_mul(ls_square(y), y), LS_ALL_AXES));
}

static ls_nest gradient_of(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 0));
  LS_OWN(ls_nest, own) = LS_TUPLE(x, ls_leaf(argument(args, 1)));
  ls_nest gradient = ls_none();
  ls_tensor y = ls_failed_tensor();
  const ls_status status =
      ways_gradients(self, weighed, own, &x, 1, &y, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(ls_leaf(y), gradient)
                                 : ls_fail(status);
}

// The same of the gradient's squares.
static ls_tensor squared_gradient(ls_nest args, ways *self) {
  const ls_nest x = ls_nest_item(args, 0);
  ls_nest gradient = ls_none();
  expect_ok(ways_gradients(self, weighed, args, &x, 1, NULL, &gradient));
  return ls_reduce_sum(ls_square(gradient.as.tensor), LS_ALL_AXES);
}

static ls_nest second_gradient_of(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 0));
  LS_OWN(ls_nest, own) = LS_TUPLE(x, ls_leaf(argument(args, 1)));
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, squared_gradient, own, &x, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

static const struct {
  const char *name;
  collective function;
} collectives[] = {
    {"all_reduce of a replica", replica_sum},
    {"all_reduce MEAN of a replica", replica_mean},
    {"all_gather of a replica", replica_gather},
    {"weighted_mean", weighted},
    {"all_reduce", sum},
    {"all_reduce MEAN", mean},
    {"all_reduce in groups", sum_in_groups},
    {"all_gather", gather},
    {"reduce_scatter", scatter},
    {"reduce_scatter MEAN", scatter_mean},
    {"all_to_all", exchange},
    {"collective_permute", pass_on},
    {"collective_broadcast", broadcast},
};

TEST(a_collective_has_one_gradient_in_every_way) {
  LS_SPEC("V180 V181 V211");
  for (size_t i = 0; i < LS_COUNT_OF(collectives); ++i) {
    const ways_case c = {.name = collectives[i].name,
                         .user = &collectives[i].function,
                         .args = matrix_of,
                         .step = gradient_of};
    ways_hold(&c, 1);
  }
}

TEST(so_has_the_gradient_of_its_gradient) {
  LS_SPEC("V180 V181 V211");
  for (size_t i = 0; i < LS_COUNT_OF(collectives); ++i) {
    const ways_case c = {.name = collectives[i].name,
                         .user = &collectives[i].function,
                         .args = matrix_of,
                         .step = second_gradient_of};
    ways_hold(&c, 1);
  }
}

// ---- By hand ---------------------------------------------------------------
// c * reduce(x): what comes back is the reduction of all c.
static ls_tensor linear(ls_nest args, ways *self) {
  const ls_reduce_op op = *(const ls_reduce_op *)self->user;
  return ls_reduce_sum(
      ls_mul(argument(args, 1), of_replica(op, argument(args, 0))),
      LS_ALL_AXES);
}

static ls_nest gradient_of_linear(ls_nest args, ways *self) {
  const ls_nest x = ls_leaf(argument(args, 0));
  LS_OWN(ls_nest, own) = LS_TUPLE(x, ls_leaf(argument(args, 1)));
  ls_nest gradient = ls_none();
  const ls_status status =
      ways_gradients(self, linear, own, &x, 1, NULL, &gradient);
  return ls_status_is_ok(status) ? LS_TUPLE(gradient) : ls_fail(status);
}

static void is_reduced(const ways *self) {
  const int n = self->replicas;
  const bool is_mean = *(const ls_reduce_op *)self->user == LS_REDUCE_MEAN;
  for (int r = 0; r < n; ++r)
    for (int i = 0; i < ROWS * WIDTH; ++i)
      ways_expect(self, "a gradient", ways_result(self, 0, r, 0, i),
                  is_mean ? n : n * n, 1e-6);
}

TEST(the_gradient_of_an_all_sum_is_the_all_sum_of_gradients) {
  LS_SPEC("V180");
  static const ls_reduce_op ops[] = {LS_REDUCE_SUM, LS_REDUCE_MEAN};
  for (size_t i = 0; i < 2; ++i) {
    const ways_case c = {.name = i == 0 ? "sum" : "mean",
                         .user = &ops[i],
                         .args = matrix_of,
                         .step = gradient_of_linear,
                         .check = is_reduced};
    ways_hold(&c, 1);
  }
}

static ls_tensor largest(ls_tensor x, int replicas) {
  (void)replicas;
  return ls_all_reduce(LS_REDUCE_MAX, x);
}

TEST(the_largest_of_all_replicas_has_no_gradient) {
  const collective function = largest;
  const ways_case c = {.name = "all_reduce MAX",
                       .user = &function,
                       .args = matrix_of,
                       .step = gradient_of,
                       .one_table = true,
                       .replicas_only = true,
                       .refused = LS_NOT_FOUND,
                       .says = "all_reduce by max"};
  ways_hold(&c, 1);
}

// ---- A step of training ----------------------------------------------------
static void make_normalized(ways *self) {
  ls_batch_norm_layer *layer = NULL;
  expect_ok(ls_batch_norm_layer_create(
      &(ls_batch_norm_options){.channels = WIDTH, .over_replicas = true},
      &layer));
  self->more = layer;
  ls_variable *variables[4];
  const size_t count = ls_batch_norm_layer_variables(layer, variables, 4);
  for (size_t i = 0; i < count; ++i)
    if (ls_variable_is_trainable(variables[i]))
      self->variables[self->num_variables++] = ls_variable_retain(variables[i]);
  ways_vector(self, "w", WIDTH, (double[]){0.5, -1});
  expect_ok(ls_optimizer_create("sgd", NULL, &self->optimizer));
}

static void drop_normalized(ways *self) {
  ls_batch_norm_layer_destroy(self->more);
}

static ls_tensor loss_of_normalized(ls_nest args, ways *self) {
  const ls_tensor x =
      ls_mul(argument(args, 0),
             ls_variable_read(self->variables[self->num_variables - 1]));
  ls_tensor y = ls_batch_norm_layer_apply(self->more, x, true);
  y = ls_mul(argument(args, 1), ls_add(ls_square(y), y));
  return ls_reduce_mean(ls_square(ls_sub(y, x)), LS_ALL_AXES);
}

static ls_nest go_down(ls_nest args, ways *self) {
  return ways_minimize(self, loss_of_normalized, args);
}

TEST(batch_norm_over_replicas_is_trained_alike_in_every_way) {
  const ways_case c = {.name = "batch norm",
                       .make = make_normalized,
                       .args = matrix_of,
                       .step = go_down,
                       .drop = drop_normalized,
                       .steps = 2};
  ways_hold(&c, 1);
}

// ---- Tapes -----------------------------------------------------------------
static ls_nest list_read(ls_nest args, void *user) {
  (void)args;
  ls_variable *const *variables = user;
  ls_variable *found[2] = {0};
  LS_OWN(ls_tape, tape) = NULL;
  const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1);
  ls_variable_read(variables[0]);
  expect_ok(ls_tape_begin(&tape));
  ls_all_reduce(LS_REDUCE_SUM, one);
  ls_variable_read(variables[1]);
  ls_all_reduce(LS_REDUCE_SUM, one);
  const size_t count = ls_tape_variables(tape, found, 2);
  assert_ptr_equal(found[0], variables[1]);
  return ls_nest_i64((int64_t)count);
}

TEST(a_tape_of_a_replica_has_what_the_replica_reads) {
  LS_SPEC("V87 V211");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  ls_variable *variables[] = {
      variable_in(strategy, (variable_kind){.name = "before"}),
      variable_in(strategy, (variable_kind){.name = "inside"})};
  LS_OWN(ls_nest, made) = run_on(strategy, list_read, ls_none(), variables);
  assert_true(ls_nest_number(made) == 1);
  ls_variable_release(variables[0]);
  ls_variable_release(variables[1]);
}

// A gradient of a gradient on the tape that is still open is none, whatever
// other replicas' tapes record.
static ls_nest use_tape_again(ls_nest args, void *user) {
  (void)user;
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  const ls_nest x = ls_leaf(argument(args, 0));
  expect_ok(ls_tape_watch(tape, x.as.tensor));
  const ls_tensor y = ls_all_reduce(LS_REDUCE_SUM, ls_square(x.as.tensor));
  ls_nest first = ls_none(), second = ls_none(), again = ls_none();
  expect_ok(ls_tape_gradients(tape, ls_leaf(ls_square(y)), &x, 1, &first));
  expect_ok(ls_tape_gradients(tape, first, &x, 1, &second));
  assert_int_equal(second.kind, LS_KIND_NONE);
  const ls_tensor z = ls_square(y);
  expect_ok(ls_tape_gradients(tape, ls_leaf(z), &x, 1, &again));
  assert_true(number_of(again) == number_of(first));
  return first;
}

TEST(a_tape_does_not_record_its_own_gradients) {
  LS_SPEC("V211");
  LS_OWN(ls_strategy, strategy) = mirrored_of(3);
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){1, 2, 3}, 3));
  LS_OWN(ls_nest, made) = run_on(strategy, use_tape_again, args, NULL);
  // 3 * 2 y * 2 x with y = 14.
  expect_numbers(made, (double[]){168, 336, 504}, 3);
}

// c x of all replicas added, c by replica.
static ls_nest add_weighed(ls_nest args, void *user) {
  (void)user;
  const ls_tensor y = ls_all_reduce(LS_REDUCE_SUM, ls_nest_tensor(args, 0));
  return ls_leaf(ls_mul_scalar(y, 1 + 2 * ls_replica_number()));
}

TEST(a_tape_around_replicas_has_the_gradient_of_one_result) {
  LS_SPEC("V211");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_tape, tape) = NULL;
  LS_OWN(ls_nest, args) = LS_TUPLE(per_replica_scalars((double[]){1, 2}, 2));
  expect_ok(ls_tape_begin(&tape));
  const ls_nest x = ls_nest_item(args, 0);
  for (size_t r = 0; r < 2; ++r)
    expect_ok(ls_tape_watch(tape, ls_distributed_component(x, r).as.tensor));
  LS_OWN(ls_nest, made) = run_on(strategy, add_weighed, args, NULL);
  for (size_t r = 0; r < 2; ++r) {
    const ls_nest xs[] = {ls_distributed_component(x, 0),
                          ls_distributed_component(x, 1)};
    ls_nest gradients[2];
    expect_ok(ls_tape_gradients(tape, ls_distributed_component(made, r), xs, 2,
                                gradients));
    for (size_t i = 0; i < 2; ++i)
      assert_true(number_of(gradients[i]) == 1 + 2 * (double)r);
  }
}

TEST(a_graph_around_replicas_has_the_gradient_of_one_result) {
  LS_OWN(ls_graph, graph) = graph_named("around");
  LS_OWN(ls_session, session) = NULL;
  LS_OWN(ls_nest, fetches) = ls_none();
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  {
    LS_GRAPH_SCOPE(graph);
    const ls_nest xs[] = {ls_leaf(ls_scalar(LS_DTYPE_F32, 1)),
                          ls_leaf(ls_scalar(LS_DTYPE_F32, 2))};
    LS_OWN(ls_nest, args) =
        LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, xs, 2));
    LS_OWN(ls_nest, made) = run_on(strategy, add_weighed, args, NULL);
    ls_nest gradients[4];
    for (size_t r = 0; r < 2; ++r) {
      const ls_nest y = ls_distributed_component(made, r);
      expect_ok(ls_gradients(&y, 1, xs, 2, NULL, &gradients[2 * r]));
    }
    fetches = ls_nest_sequence(LS_KIND_LIST, gradients, 4);
  }
  expect_ok(ls_session_create(graph, &session));
  LS_OWN(ls_nest, values) = session_results(session, fetches);
  for (size_t i = 0; i < 4; ++i)
    assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(values, i)), 0) ==
                (i < 2 ? 1 : 3));
}
