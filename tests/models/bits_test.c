// SPDX-License-Identifier: Apache-2.0
//
// The same bytes: whatever way a step is run, however many threads work,
// whatever else is fetched, and whatever ran before.
#include "support/expect.h"

#include <string.h>

#include "base/memory/own.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/function_plan.h"
#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "support/canonical.h"
#include "support/function.h"
#include "support/sanitizer.h"

// 240 examples are equal parts for 3, 5 and 8 replicas.
enum { STEPS = 20, FEW_STEPS = 7, BATCH = 240 };

// mlp itself; where a sanitizer makes it take minutes, one that is narrower.
static const mlp_shape narrow = {"narrow", 3, {200, 120, 72, 10}};
#define MODEL (LS_SANITIZED ? &narrow : &mlp_large)

// What training gave: the loss of each step and of each replica in it, and
// the variables afterwards.
enum { MAX_LOSSES = 2 * STEPS * 8 };
typedef struct outcome {
  float losses[MAX_LOSSES];
  size_t num_losses;
  ls_array *values[MLP_MAX_VARIABLES];
} outcome;

static void add_loss(outcome *out, ls_nest loss) {
  const ls_array *array = ls_nest_as_array(loss);
  assert_non_null(array);
  assert_int_equal(ls_array_dtype(array), LS_DTYPE_F32);
  assert_int_equal(ls_array_num_elements(array), 1);
  assert_true(out->num_losses < MAX_LOSSES);
  memcpy(&out->losses[out->num_losses++], ls_array_data(array), sizeof(float));
}

static void add_values(outcome *out, const mlp *model) {
  for (size_t i = 0; i < model->num_variables; ++i)
    expect_ok(ls_variable_value(model->variables[i], &out->values[i]));
}

static void outcome_deinit(outcome *self) {
  for (size_t i = 0; i < MLP_MAX_VARIABLES; ++i)
    ls_array_release(self->values[i]);
  *self = (outcome){0};
}
LS_OWNED_STRUCT(outcome, outcome_deinit)

static void expect_same(const outcome *a, const outcome *b) {
  assert_int_equal(a->num_losses, b->num_losses);
  assert_true(a->num_losses > 0);
  for (size_t i = 0; i < a->num_losses; ++i)
    if (memcmp(&a->losses[i], &b->losses[i], sizeof(float)) != 0)
      fail_msg("loss %zu: %a and %a", i, (double)a->losses[i],
               (double)b->losses[i]);
  for (size_t i = 0; i < MLP_MAX_VARIABLES; ++i) {
    if (a->values[i] == NULL && b->values[i] == NULL) continue;
    assert_int_equal(ls_array_size(a->values[i]), ls_array_size(b->values[i]));
    const float *x = ls_array_data(a->values[i]);
    const float *y = ls_array_data(b->values[i]);
    for (int64_t k = 0; k < ls_array_num_elements(a->values[i]); ++k)
      if (memcmp(&x[k], &y[k], sizeof(float)) != 0)
        fail_msg("variable %zu, element %lld: %a and %a", i, (long long)k,
                 (double)x[k], (double)y[k]);
  }
}

// ---- Ways to train ---------------------------------------------------------
typedef struct job {
  const mlp_shape *shape;
  int64_t batch;
  int steps;
  int replicas;         // 0: no strategy.
  bool fetches_hidden;  // In every third step of a session; else in all.
} job;

// A step's result: the loss, alone or first in a tuple.
static ls_nest loss_of(ls_nest result) {
  return result.kind == LS_KIND_TUPLE ? ls_nest_item(result, 0) : result;
}

static void train_function(const job *work, outcome *out) {
  LS_OWN(mlp, model) = {0};
  ls_array *examples = NULL, *labels = NULL;
  *out = (outcome){0};
  expect_ok(mlp_create(work->shape, LS_DTYPE_F32, &model));
  model.returns_hidden = work->fetches_hidden;
  expect_ok(
      mlp_batch(work->shape, LS_DTYPE_F32, 0, work->batch, &examples, &labels));
  LS_OWN(ls_function, step) = unnamed_function(mlp_step, &model);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(ls_nest_array(examples), ls_nest_array(labels));
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < work->steps; ++i) {
    expect_ok(ls_function_call(step, args, &result));
    add_loss(out, loss_of(result));
  }
  assert_int_equal(ls_function_num_traces(step), 1);
  add_values(out, &model);
}

static void train_replicas(const job *work, outcome *out) {
  LS_OWN(mlp, model) = {0};
  ls_array *labels = NULL;
  LS_OWN(ls_array, examples) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  ls_nest x = ls_none(), y = ls_none();
  LS_OWN(ls_nest, result) = ls_none();
  *out = (outcome){0};
  expect_ok(mlp_create(work->shape, LS_DTYPE_F32, &model));
  model.returns_hidden = work->fetches_hidden;
  expect_ok(
      mlp_batch(work->shape, LS_DTYPE_F32, 0, work->batch, &examples, &labels));
  LS_OWN(ls_function, step) = unnamed_function(mlp_step, &model);
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(work->replicas)},
      &strategy));
  expect_ok(ls_strategy_split(strategy, examples, &x));
  expect_ok(ls_strategy_split(strategy, labels, &y));
  ls_array_release(labels);
  LS_OWN(ls_nest, args) = LS_TUPLE(x, y);
  for (int i = 0; i < work->steps; ++i) {
    expect_ok(ls_strategy_run(strategy, ls_traced(step), args, &result));
    const ls_nest loss = loss_of(result);
    const size_t replicas = ls_distributed_count(loss);
    if (replicas == 0) add_loss(out, loss);
    for (size_t r = 0; r < replicas; ++r)
      add_loss(out, ls_distributed_component(loss, r));
  }
  assert_int_equal(ls_function_num_traces(step), 1);
  add_values(out, &model);
}

static void train_eager(const job *work, outcome *out) {
  LS_OWN(mlp, model) = {0};
  LS_OWN(ls_array, examples) = NULL;
  LS_OWN(ls_array, labels) = NULL;
  *out = (outcome){0};
  expect_ok(mlp_create(work->shape, LS_DTYPE_F32, &model));
  expect_ok(
      mlp_batch(work->shape, LS_DTYPE_F32, 0, work->batch, &examples, &labels));
  for (int i = 0; i < work->steps; ++i) {
    ls_array *loss = NULL;
    expect_ok(mlp_step_eager(&model, examples, labels, &loss));
    LS_OWN(ls_nest, leaf) = ls_nest_array(loss);
    add_loss(out, leaf);
  }
  add_values(out, &model);
}

// A build graph with the step of a job in it.
typedef struct built {
  ls_graph *graph;
  mlp model;
  ls_tensor examples, labels;
  mlp_ops ops;
  ls_op initializer;
} built;

static void build(const job *work, built *out) {
  *out = (built){0};
  expect_ok(ls_graph_create("training", &out->graph));
  {
    LS_GRAPH_SCOPE(out->graph);
    expect_ok(mlp_create(work->shape, LS_DTYPE_F32, &out->model));
    out->examples =
        ls_placeholder(LS_DTYPE_F32, LS_SHAPE(-1, work->shape->size[0]), "x");
    out->labels = ls_placeholder(LS_DTYPE_I32, LS_SHAPE(-1), "y");
    expect_ok(mlp_add_step(&out->model, out->examples, out->labels, &out->ops));
    out->initializer = ls_global_initializer();
  }
  expect_ok(ls_graph_error(out->graph));
}

static void built_destroy(built *self) {
  mlp_destroy(&self->model);
  ls_graph_destroy(self->graph);
}

// Steps with the loss and the update fetched; every third one more.
static void run_steps(const job *work, const built *graph, ls_session *session,
                      outcome *out) {
  LS_OWN(ls_array, examples) = NULL;
  LS_OWN(ls_array, labels) = NULL;
  expect_ok(
      mlp_batch(work->shape, LS_DTYPE_F32, 0, work->batch, &examples, &labels));
  const ls_feed feeds[] = {{graph->examples, examples},
                           {graph->labels, labels}};
  LS_OWN(ls_nest, few) =
      LS_TUPLE(ls_leaf(graph->ops.loss), ls_nest_op(graph->ops.update));
  LS_OWN(ls_nest, more) =
      LS_TUPLE(ls_leaf(graph->ops.loss), ls_nest_op(graph->ops.update),
               ls_leaf(graph->ops.hidden));
  ls_nest results[2] = {ls_none(), ls_none()};
  for (int i = 0; i < work->steps; ++i) {
    const bool fetches_more = work->fetches_hidden && i % 3 == 0;
    ls_nest *result = &results[fetches_more ? 1 : 0];
    expect_ok(
        ls_session_run(session, fetches_more ? more : few, feeds, 2, result));
    add_loss(out, ls_nest_item(*result, 0));
  }
  ls_nest_release(results[0]);
  ls_nest_release(results[1]);
}

static void train_session(const job *work, outcome *out) {
  built graph;
  *out = (outcome){0};
  build(work, &graph);
  ls_session *session = session_of(graph.graph);
  ls_nest_release(session_results(session, ls_nest_op(graph.initializer)));
  run_steps(work, &graph, session, out);
  for (size_t i = 0; i < graph.model.num_variables; ++i)
    expect_ok(ls_session_variable_value(session, graph.model.variables[i],
                                        &out->values[i]));
  ls_session_destroy(session);
  built_destroy(&graph);
}

static void train_by_hand(const job *work, outcome *out) {
  static canonical hand;
  ls_array *examples = NULL, *labels = NULL;
  *out = (outcome){0};
  expect_ok(canonical_create(work->shape, &hand));
  expect_ok(
      mlp_batch(work->shape, LS_DTYPE_F32, 0, work->batch, &examples, &labels));
  for (int i = 0; i < work->steps; ++i) {
    expect_ok(canonical_step(&hand, examples, labels, work->replicas));
    for (int r = 0; r < work->replicas; ++r)
      out->losses[out->num_losses++] = hand.losses[r];
  }
  add_values(out, &hand.model);
  ls_array_release(examples);
  ls_array_release(labels);
  canonical_destroy(&hand);
}

// ---- One replica -----------------------------------------------------------
static const job mlp_job = {.shape = MODEL, .batch = BATCH, .steps = STEPS};

TEST(a_function_eager_and_a_session_give_the_same_bytes) {
  LS_OWN(outcome, traced) = {0};
  LS_OWN(outcome, eager) = {0};
  LS_OWN(outcome, session) = {0};
  train_function(&mlp_job, &traced);
  train_eager(&mlp_job, &eager);
  expect_same(&traced, &eager);
  train_session(&mlp_job, &session);
  expect_same(&traced, &session);
}

TEST(a_strategy_of_one_replica_gives_the_bytes_of_none) {
  const job work = {MODEL, BATCH, FEW_STEPS, 1, false};
  LS_OWN(outcome, none) = {0};
  LS_OWN(outcome, one) = {0};
  train_function(&work, &none);
  train_replicas(&work, &one);
  expect_same(&none, &one);
}

// ---- Many replicas ---------------------------------------------------------
static void expect_canonical(const job *work) {
  LS_OWN(outcome, replicas) = {0};
  LS_OWN(outcome, hand) = {0};
  train_replicas(work, &replicas);
  train_by_hand(work, &hand);
  expect_same(&replicas, &hand);
}

TEST(eight_replicas_add_along_the_canonical_tree) {
  expect_canonical(&(job){MODEL, BATCH, STEPS, 8, false});
}

TEST(three_and_five_replicas_do_so_too) {
  expect_canonical(&(job){MODEL, BATCH, FEW_STEPS, 3, false});
  expect_canonical(&(job){MODEL, BATCH, FEW_STEPS, 5, false});
}

TEST(any_number_of_replicas_does_so_on_tiny) {
  for (int r = 2; r <= 8; ++r)
    expect_canonical(&(job){&mlp_tiny, 4 * r, STEPS, r, false});
}

// ---- What does not matter --------------------------------------------------
TEST(what_else_is_fetched_does_not_matter) {
  job work = {MODEL, BATCH, FEW_STEPS, 0, false};
  outcome few, more;
  train_function(&work, &few);
  work.fetches_hidden = true;
  train_function(&work, &more);
  expect_same(&few, &more);
  outcome_deinit(&more);
  train_session(&work, &more);
  expect_same(&few, &more);
  outcome_deinit(&few);
  outcome_deinit(&more);

  work = (job){MODEL, BATCH, FEW_STEPS, 8, false};
  train_replicas(&work, &few);
  work.fetches_hidden = true;
  train_replicas(&work, &more);
  expect_same(&few, &more);
  outcome_deinit(&few);
  outcome_deinit(&more);
}

// Runs `train` under a runtime of its own with so many threads.
static void train_with_threads(int threads,
                               void (*train)(const job *work, outcome *out),
                               const job *work, outcome *out) {
  ls_runtime *runtime = NULL;
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.threads = threads}, &runtime));
  ls_runtime *before = ls_runtime_make_current(runtime);
  train(work, out);
  // What is compared must outlive the runtime.
  for (size_t i = 0; i < MLP_MAX_VARIABLES; ++i) {
    ls_array *value = out->values[i];
    if (value == NULL) continue;
    ls_runtime_make_current(before);
    expect_ok(ls_array_create_copy(ls_array_dtype(value), ls_array_shape(value),
                                   ls_array_data(value), &out->values[i]));
    ls_runtime_make_current(runtime);
    ls_array_release(value);
  }
  ls_runtime_make_current(before);
  expect_ok(ls_runtime_destroy(runtime));
}

TEST(the_number_of_threads_does_not_matter) {
  const job one = {MODEL, BATCH, FEW_STEPS, 0, false};
  const job eight = {MODEL, BATCH, FEW_STEPS, 8, false};
  LS_OWN(outcome, want_one) = {0};
  LS_OWN(outcome, want_eight) = {0};
  train_with_threads(1, train_function, &one, &want_one);
  train_with_threads(1, train_replicas, &eight, &want_eight);
  static const int threads[] = {2, 8};
  for (size_t i = 0; i < sizeof(threads) / sizeof(*threads); ++i) {
    LS_OWN(outcome, got) = {0};
    train_with_threads(threads[i], train_function, &one, &got);
    expect_same(&want_one, &got);
    outcome_deinit(&got);
    train_with_threads(threads[i], train_replicas, &eight, &got);
    expect_same(&want_eight, &got);
  }
}

TEST(what_ran_before_does_not_matter) {
  const job work = {MODEL, BATCH, FEW_STEPS, 0, false};
  const job eight = {MODEL, BATCH, FEW_STEPS, 8, false};
  LS_OWN(outcome, fresh) = {0};
  LS_OWN(outcome, later) = {0};
  outcome other;
  train_with_threads(2, train_function, &work, &fresh);
  // The default runtime has a history by now, and gets more: other shapes,
  // another model beside it, other numbers of replicas.
  LS_OWN(mlp, beside) = {0};
  expect_ok(mlp_create(MODEL, LS_DTYPE_F32, &beside));
  train_replicas(&eight, &other);
  outcome_deinit(&other);
  train_function(&(job){&mlp_tiny, 7, 3, 0, true}, &other);
  outcome_deinit(&other);
  train_eager(&(job){MODEL, 16, 2, 0, false}, &other);
  outcome_deinit(&other);
  train_function(&work, &later);
  expect_same(&fresh, &later);
}
