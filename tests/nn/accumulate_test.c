// SPDX-License-Identifier: Apache-2.0
// A step on a batch in parts.
#include <math.h>

#include "graph/own.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizers.h"
#include "lockstep/session.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/values.h"

enum { EXAMPLES = 16, WIDTH = 6, CLASSES = 3 };

typedef struct net {
  ls_dense_layer *hidden, *logits;
  ls_optimizer *optimizer;
  int64_t parts;  // 0: the whole batch at once.
  bool stopped;   // No gradient leaves the loss.
} net;

static void begin(net *n, int64_t parts) {
  n->parts = parts;
  expect_ok(ls_dense_layer_create(
      &(ls_dense_options){.name = "hidden",
                          .inputs = WIDTH,
                          .units = 8,
                          .activation = LS_ACTIVATION_RELU,
                          .dtype = LS_DTYPE_F64},
      &n->hidden));
  expect_ok(ls_dense_layer_create(&(ls_dense_options){.name = "logits",
                                                      .inputs = 8,
                                                      .units = CLASSES,
                                                      .dtype = LS_DTYPE_F64},
                                  &n->logits));
  expect_ok(ls_adam_create(
      &(ls_adam_options){.learning_rate = 0.01, .clip = {.global_norm = 0.1}},
      &n->optimizer));
}

static void end(net *n) {
  ls_dense_layer_destroy(n->hidden);
  ls_dense_layer_destroy(n->logits);
  ls_optimizer_release(n->optimizer);
}
LS_OWNED_STRUCT(net, end)

static ls_tensor loss_of(ls_nest args, void *user) {
  const net *n = user;
  const ls_tensor x = ls_dense_layer_apply(n->hidden, ls_nest_tensor(args, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_dense_layer_apply(n->logits, x), ls_nest_tensor(args, 1));
  return n->stopped ? ls_stop_gradient(loss) : loss;
}

static ls_nest train(ls_nest args, void *user) {
  net *n = user;
  if (n->parts != 0)
    return ls_leaf(
        ls_optimizer_minimize_parts(n->optimizer, n->parts, loss_of, args, n));
  const ls_tensor loss = loss_of(args, n);
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(loss);
}

static ls_array *examples(void) {
  return array_of_numbers(LS_DTYPE_F64, LS_SHAPE(EXAMPLES, WIDTH), 3);
}

static ls_array *labels(void) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_I32, LS_SHAPE(EXAMPLES), &array));
  for (int64_t i = 0; i < EXAMPLES; ++i)
    ls_array_set_i64(array, i, i % CLASSES);
  return array;
}

static ls_nest batch(int replicas) {
  return LS_TUPLE(split_of(replicas, examples()), split_of(replicas, labels()));
}

enum { WEIGHTS = WIDTH * 8 };

// The hidden kernel after five steps, and the last loss.
static double run(int replicas, int64_t parts, double *weights) {
  LS_OWN_BEGUN(net, n, begin, parts);
  LS_OWN(ls_nest, args) = batch(replicas);
  LS_OWN(ls_nest, loss) = call_on(replicas, train, &n, args, 5);
  const ls_nest first =
      ls_distributed_count(loss) > 0 ? ls_distributed_component(loss, 0) : loss;
  double sum = ls_array_f64(ls_nest_as_array(first), 0);
  for (size_t r = 1; r < ls_distributed_count(loss); ++r)
    sum += ls_array_f64(ls_nest_as_array(ls_distributed_component(loss, r)), 0);
  read_variable(ls_dense_layer_kernel(n.hidden), weights, WEIGHTS);
  return sum / replicas;
}

TEST(parts_agree_with_the_whole_batch) {
  double whole[WEIGHTS], got[WEIGHTS];
  const double loss = run(1, 0, whole);
  const struct {
    int replicas;
    int64_t parts;
  } rows[] = {{1, 1}, {1, 2}, {1, 8}, {2, 4}, {4, 4}, {8, 2}};
  for (size_t k = 0; k < sizeof(rows) / sizeof(*rows); ++k) {
    const double other = run(rows[k].replicas, rows[k].parts, got);
    assert_true(fabs(other - loss) < 1e-10);
    for (int i = 0; i < WEIGHTS; ++i)
      assert_true(fabs(got[i] - whole[i]) < 1e-10);
  }
}

TEST(a_session_fetches_the_mean_loss_after_the_updates) {
  LS_OWN(ls_graph, graph) = graph_named("g");
  LS_OWN(net, n) = {0};
  ls_op init = {0};
  ls_tensor loss = {0};
  {
    LS_GRAPH_SCOPE(graph);
    begin(&n, 4);
    ls_array *y = labels();
    LS_OWN(ls_array, x) = examples();
    const ls_nest args =
        LS_TUPLE(ls_leaf(ls_constant(x)), ls_leaf(ls_constant(y)));
    ls_array_release(y);
    loss = ls_nest_tensor(train(args, &n), 0);
    ls_nest_release(args);
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  LS_OWN(ls_session, session) = session_of(graph);
  LS_OWN(ls_nest, results) = session_results(session, ls_nest_op(init));
  double losses[2];
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_session_run(session, ls_leaf(loss), NULL, 0, &results));
    losses[i] = ls_array_f64(ls_nest_as_array(results), 0);
  }
  assert_true(losses[1] < losses[0]);
}

// ---- Small floats ----------------------------------------------------------
typedef struct slope {
  ls_variable *w;
  ls_optimizer *optimizer;
  int64_t parts;
} slope;

// 600 w + 1000.
static ls_tensor steep_loss(ls_nest args, void *user) {
  const slope *s = user;
  const ls_tensor x = ls_reduce_mean(ls_nest_tensor(args, 0), LS_ALL_AXES);
  return ls_add_scalar(ls_mul(x, ls_variable_read(s->w)), 1000);
}

static ls_nest train_steeply(ls_nest args, void *user) {
  const slope *s = user;
  return ls_leaf(ls_optimizer_minimize_parts(s->optimizer, s->parts, steep_loss,
                                             args, user));
}

static void expect_slope(ls_dtype dtype, int64_t parts, const double *xs,
                         int64_t count) {
  const double zero = 0, moved = -600 * 0x1p-10;
  slope s = {.w = variable_of("w", dtype, LS_SCALAR, &zero), .parts = parts};
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0x1p-10}, &s.optimizer));
  LS_OWN(ls_function, function) = unnamed_function(train_steeply, &s);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(array_of(dtype, LS_SHAPE(count), xs)));
  LS_OWN(ls_nest, result) = call_results(function, args);
  const ls_array *loss = ls_nest_as_array(result);
  assert_int_equal(ls_array_dtype(loss), dtype);
  assert_true(ls_array_f64(loss, 0) == 1000);
  expect_variable(s.w, &moved, 1, 0);
  ls_variable_release(s.w);
  ls_optimizer_release(s.optimizer);
}

// The sums would be infinities in f16, and end at 2^17 in bf16.
TEST(many_parts_of_16_bits_are_added_in_f32) {
  enum { COUNT = 512 };
  double xs[COUNT];
  for (int i = 0; i < COUNT; ++i)
    xs[i] = 600;
  for (int64_t parts = 1; parts <= COUNT; parts *= COUNT) {
    expect_slope(LS_DTYPE_F16, parts, xs, COUNT);
    expect_slope(LS_DTYPE_BF16, parts, xs, COUNT);
  }
}

// ---- Refusals --------------------------------------------------------------
static void expect_refused(int64_t parts, bool stopped, const char *part) {
  LS_OWN(net, n) = {.stopped = stopped};
  begin(&n, parts);
  LS_OWN(ls_nest, results) = {0};
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(examples()), ls_nest_array(labels()));
  LS_OWN(ls_function, function) = unnamed_function(train, &n);
  expect_status(ls_function_call(function, args, &results), LS_INVALID_ARGUMENT,
                part);
}

TEST(parts_that_cannot_be_are_refused) {
  expect_refused(5, false, "cannot be cut into 5 equal parts");
  expect_refused(-1, false, "cannot be cut into -1 parts");
  expect_refused(2, true,
                 "none of the 4 variables has a gradient: no path leads from "
                 "them to the loss: 'hidden/kernel', ");
}
