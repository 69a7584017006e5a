// SPDX-License-Identifier: Apache-2.0
//
// Buckets: how many programs steps on batches of several sizes need, and that
// each has the bits of a step without padding.
#include "distribute/own.h"
#include "lockstep/ops.h"
#include "lockstep/optimizers.h"
#include "lockstep/regroup.h"
#include "lockstep/replicate.h"
#include "support/buckets.h"
#include "support/computation.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/mlp.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

enum { MOST = 3, STEPS = 8, VARIABLES = 4 };

// Sizes of replicas, a step each.
typedef struct sequence {
  const char *name;
  int replicas;
  int64_t sizes[STEPS][MOST];
  size_t steps, programs, traced_programs;
} sequence;

static const sequence sequences[] = {
    {"5 to 8", 2, {{5, 6}, {6, 7}, {7, 8}, {8, 5}, {5, 5}, {6, 5}}, 6, 1, 2},
    {"two buckets", 2, {{5, 6}, {3, 4}, {2, 3}, {8, 7}, {4, 2}}, 5, 2, 2},
    {"with empty ones",
     3,
     {{5, 6, 0}, {8, 0, 0}, {0, 7, 2}, {6, 6, 5}},
     4,
     1,
     1},
    {"three", 3, {{9, 12, 16}, {16, 10, 9}, {11, 2, 4}}, 3, 1, 1},
};
enum { NUM_SEQUENCES = sizeof(sequences) / sizeof(*sequences) };

// ---- A model --------------------------------------------------------------
typedef struct training {
  const sequence *of;
  mlp net;
  ls_strategy *strategy;
  ls_optimizer *optimizer;
  ls_function *f;
} training;

static ls_tensor loss_of(const mlp *net, ls_nest args) {
  ls_tensor x = ls_nest_tensor(args, 0);
  for (size_t i = 0; i < 2; ++i)
    x = ls_dense(x, ls_variable_read(net->variables[2 * i]),
                 ls_variable_read(net->variables[2 * i + 1]),
                 i == 0 ? LS_ACTIVATION_RELU : LS_ACTIVATION_NONE);
  return ls_reduce_mean(ls_softmax_cross_entropy(x, ls_nest_tensor(args, 1)),
                        LS_ALL_AXES);
}

static ls_nest step(ls_nest args, void *user) {
  training *t = user;
  const ls_tensor loss = loss_of(&t->net, args);
  const ls_op op = ls_optimizer_minimize(t->optimizer, loss);
  return LS_LIST(ls_leaf(loss), ls_nest_op(op));
}

static void open(training *t, const sequence *of) {
  *t = (training){.of = of, .strategy = tpu_strategy_of(of->replicas)};
  LS_STRATEGY_SCOPE(t->strategy);
  expect_ok(mlp_create(&mlp_tiny, LS_DTYPE_F32, &t->net));
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.1, .momentum = 0.9}, &t->optimizer));
  t->f = function_of(step, t);
}

static void close(training *t) {
  ls_function_release(t->f);
  ls_optimizer_release(t->optimizer);
  mlp_destroy(&t->net);
  ls_strategy_release(t->strategy);
}
LS_OWNED_STRUCT(training, close)

// The batch of a step: examples and labels of each replica.
static ls_nest batch_of(const sequence *of, size_t i) {
  ls_nest examples[MOST], labels[MOST];
  int64_t first = 100 * (int64_t)i;
  for (int r = 0; r < of->replicas; ++r) {
    ls_array *x = NULL, *y = NULL;
    expect_ok(
        mlp_batch(&mlp_tiny, LS_DTYPE_F32, first, of->sizes[i][r], &x, &y));
    first += of->sizes[i][r];
    examples[r] = ls_nest_array(x);
    labels[r] = ls_nest_array(y);
  }
  const size_t count = (size_t)of->replicas;
  return LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, examples, count),
                  ls_nest_distributed(LS_PER_REPLICA, labels, count));
}

typedef struct outcome {
  ls_nest losses[STEPS];
  ls_array *variables[VARIABLES];
} outcome;

static void drop(outcome *o) {
  for (size_t i = 0; i < STEPS; ++i)
    ls_nest_release(o->losses[i]);
  for (size_t i = 0; i < VARIABLES; ++i)
    ls_array_release(o->variables[i]);
}
LS_OWNED_STRUCT(outcome, drop)

// ---- Traced ---------------------------------------------------------------
static size_t train_traced(const sequence *of, ls_flag bucketize,
                           outcome *out) {
  LS_OWN_BEGUN(training, t, open, of);
  const size_t before = buckets_num_programs();
  for (size_t i = 0; i < of->steps; ++i) {
    LS_OWN(ls_nest, args) = batch_of(of, i);
    expect_ok(ls_strategy_run_with(t.strategy, ls_traced(t.f), args,
                                   &(ls_run_options){.bucketize = bucketize},
                                   &out->losses[i]));
  }
  const size_t programs = buckets_num_programs() - before;
  for (size_t i = 0; i < VARIABLES; ++i)
    expect_ok(ls_variable_value(t.net.variables[i], &out->variables[i]));
  return programs;
}

static void expect_same(const sequence *of, const outcome *got,
                        const outcome *wanted) {
  for (size_t i = 0; i < of->steps; ++i)
    for (int r = 0; r < of->replicas; ++r)
      buckets_expect_same(of->name,
                          ls_nest_as_array(buckets_component(
                              ls_nest_item(got->losses[i], 0), r)),
                          ls_nest_as_array(buckets_component(
                              ls_nest_item(wanted->losses[i], 0), r)),
                          "loss", i);
  for (size_t i = 0; i < VARIABLES; ++i)
    buckets_expect_same(of->name, got->variables[i], wanted->variables[i],
                        "variable", i);
}

TEST(traced_steps_of_a_bucket_share_a_program) {
  LS_SPEC("T96");
  for (size_t n = 0; n < NUM_SEQUENCES; ++n) {
    const sequence *of = &sequences[n];
    LS_OWN(outcome, plain) = {0};
    LS_OWN(outcome, buckets) = {0};
    const size_t without = train_traced(of, LS_FLAG_OFF, &plain);
    const size_t with = train_traced(of, LS_FLAG_ON, &buckets);
    if (with != of->traced_programs || without < of->steps)
      fail_msg("'%s': %zu programs in buckets, %zu without", of->name, with,
               without);
    expect_same(of, &buckets, &plain);
  }
}

// ---- In a session ---------------------------------------------------------
// Placeholders of unknown sizes, of a plain or a traced callback.
static size_t train_in_session(const sequence *of, bool traced,
                               ls_flag bucketize, outcome *out) {
  LS_OWN_BEGUN(computation, g, computation_open);
  LS_OWN_BEGUN(training, t, open, of);
  const size_t count = (size_t)of->replicas;
  ls_feed feeds[2 * MOST];
  ls_nest examples[MOST], labels[MOST];
  for (size_t r = 0; r < count; ++r) {
    feeds[r].tensor = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 16), "x");
    feeds[count + r].tensor = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1), "y");
    examples[r] = ls_leaf(feeds[r].tensor);
    labels[r] = ls_leaf(feeds[count + r].tensor);
  }
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, examples, count),
               ls_nest_distributed(LS_PER_REPLICA, labels, count));
  const ls_run_options options = {.bucketize = bucketize};
  expect_ok(ls_strategy_run_with(t.strategy,
                                 traced ? ls_traced(t.f) : ls_plain(step, &t),
                                 args, &options, &g.outputs));
  expect_ok(ls_session_create(g.graph, &g.session));
  expect_ok(computation_run(&g, ls_nest_op(ls_global_initializer())));
  const size_t before = buckets_num_programs();
  const ls_nest fetch = ls_nest_item(g.outputs, 0);
  for (size_t i = 0; i < of->steps; ++i) {
    LS_OWN(ls_nest, batch) = batch_of(of, i);
    for (size_t k = 0; k < 2 * count; ++k)
      feeds[k].value = ls_nest_as_array(
          ls_distributed_component(ls_nest_item(batch, k / count), k % count));
    ls_nest loss = ls_none();
    expect_ok(ls_session_run(g.session, fetch, feeds, 2 * count, &loss));
    out->losses[i] = LS_LIST(loss);
  }
  const size_t programs = buckets_num_programs() - before;
  for (size_t i = 0; i < VARIABLES; ++i)
    expect_ok(ls_session_variable_value(g.session, t.net.variables[i],
                                        &out->variables[i]));
  return programs;
}

TEST(session_runs_of_a_bucket_share_a_program) {
  LS_SPEC("T96");
  for (size_t n = 0; n < 2 * (size_t)NUM_SEQUENCES; ++n) {
    const sequence *of = &sequences[n / 2];
    LS_OWN(outcome, plain) = {0};
    LS_OWN(outcome, buckets) = {0};
    const size_t without =
        train_in_session(of, n % 2 != 0, LS_FLAG_OFF, &plain);
    const size_t with = train_in_session(of, n % 2 != 0, LS_FLAG_ON, &buckets);
    if (with != of->programs || without != of->steps)
      fail_msg("'%s': %zu programs in buckets, %zu without", of->name, with,
               without);
    expect_same(of, &buckets, &plain);
  }
}

static ls_nest mean_of_x(ls_nest args, void *user) {
  const ls_tensor x = ls_nest_tensor(args, 0);
  (void)user;
  return LS_LIST(ls_leaf(ls_reduce_mean(ls_exp(x), LS_ALL_AXES)));
}

// Replicas' rows in a session that also asks for something else of them.
TEST(rows_that_others_use_too_are_not_padded) {
  LS_SPEC("T96");
  LS_OWN_BEGUN(computation, g, computation_open);
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  ls_feed feeds[2] = {0};
  ls_nest each[2];
  for (int r = 0; r < 2; ++r) {
    feeds[r].tensor = ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 4), "x");
    each[r] = ls_leaf(feeds[r].tensor);
  }
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_distributed(LS_PER_REPLICA, each, 2));
  expect_ok(ls_strategy_run_with(s, ls_plain(mean_of_x, NULL), args,
                                 &(ls_run_options){.bucketize = LS_FLAG_ON},
                                 &g.outputs));
  LS_OWN(ls_nest, fetches) = LS_LIST(ls_nest_retain(g.outputs),
                                     ls_leaf(ls_dim_size(feeds[0].tensor, 0)));
  expect_ok(ls_session_create(g.graph, &g.session));
  for (int64_t rows = 5; rows <= 7; ++rows) {
    LS_OWN(ls_array, x) = array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, 4), 1);
    LS_OWN(ls_nest, results) = ls_none();
    feeds[0].value = feeds[1].value = x;
    expect_ok(ls_session_run(g.session, fetches, feeds, 2, &results));
    assert_true(ls_nest_number(ls_nest_item(results, 1)) == (double)rows);
  }
}

// ---- Memory ---------------------------------------------------------------
typedef struct job {
  ls_graph *graph;
  ls_session *session;
  ls_nest rows[2], result;
} job;

static ls_status begin(void *self) {
  job *j = self;
  for (int r = 0; r < 2; ++r)
    j->rows[r] = ls_nest_array(
        array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2 + r, 4), (uint32_t)r));
  return ls_graph_create("g", &j->graph);
}

static ls_status run_once(job *j, ls_feed *feeds, ls_nest *outputs) {
  LS_GRAPH_SCOPE(j->graph);
  ls_nest each[2];
  for (int r = 0; r < 2; ++r) {
    feeds[r] = (ls_feed){ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, 4), NULL),
                         ls_nest_as_array(j->rows[r])};
    each[r] = LS_LIST(ls_leaf(feeds[r].tensor));
  }
  LS_OWN(ls_nest, inputs) = ls_nest_sequence(LS_KIND_LIST, each, 2);
  LS_OWN(ls_nest, maxima) = LS_LIST(ls_maximum_shape(LS_SHAPE(-1, 4)));
  ls_status status =
      ls_status_join(ls_nest_status(inputs), ls_nest_status(maxima));
  if (ls_status_is_ok(status))
    status = ls_replicate(
        mean_of_x, NULL, inputs,
        &(ls_replicate_options){.maximum_shapes = maxima,
                                .padding = LS_PADDING_POWER_OF_TWO},
        outputs);
  return ls_status_join(status, ls_graph_take_error(j->graph));
}

static ls_status act(void *self) {
  job *j = self;
  ls_feed feeds[2];
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_status status = run_once(j, feeds, &outputs);
  if (ls_status_is_ok(status) && j->session == NULL)
    status = ls_session_create(j->graph, &j->session);
  if (ls_status_is_ok(status))
    status = ls_session_run(j->session, outputs, feeds, 2, &j->result);
  return status;
}

static double number_of(void *self) {
  const ls_nest *result = &((job *)self)->result;
  return ls_nest_number(ls_nest_item(ls_nest_item(*result, 0), 0)) +
         100 * ls_nest_number(ls_nest_item(ls_nest_item(*result, 1), 0));
}

static void end(void *self) {
  job *j = self;
  ls_nest_release(j->result);
  ls_session_destroy(j->session);
  ls_graph_destroy(j->graph);
  for (int r = 0; r < 2; ++r)
    ls_nest_release(j->rows[r]);
}

TEST(buckets_survive_any_failed_request) {
  refuse_each(&(fault_scenario){.name = "bucket",
                                .size = sizeof(job),
                                .begin = begin,
                                .act = act,
                                .outcome = number_of,
                                .end = end});
}
