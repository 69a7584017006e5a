// SPDX-License-Identifier: Apache-2.0
//
// Whole calls of estimators with requests for memory refused, on any of their
// threads: the call ends, it says so or comes to its end all the same, nothing
// is left behind, and the next one is undisturbed.
//
// Some of the requests in each run of the tests, drawn; more with
// LS_TEST_FAULTS=3000, by LS_TEST_SEED. LS_TEST_ONLY=train:1234 is one of them.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/allocator.h"
#include "lockstep/element_spec.h"
#include "lockstep/runtime_settings.h"
#include "lockstep/train_and_evaluate.h"
#include "support/counted.h"
#include "support/draw.h"
#include "support/estimators.h"
#include "support/sanitizer.h"
#include "support/thread_count.h"

enum { FEW = LS_SANITIZED ? 2 : 4, HOSTS = 2 };
static const int64_t counts[HOSTS] = {21, 11};

// ---- Input -----------------------------------------------------------------
typedef struct host_rows {
  int64_t first, count;
} host_rows;

static ls_status make_row(void *user, int64_t index, ls_nest out) {
  const host_rows *h = user;
  float *x = ls_nest_data(out, 0);
  *(int32_t *)ls_nest_data(out, 1) =
      (int32_t)((h->first + index) % ESTIMATOR_CLASSES);
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i)
    x[i] = (float)((h->first + index) * (i + 3) % 7) / 7.0f;
  return ls_ok();
}

// Of each host other data, of other sizes; on a CPU that of the first one.
static ls_nest input_of_host(void *user, ls_input_call *call) {
  static host_rows hosts[HOSTS];
  hosts[0] = (host_rows){0, counts[0]};
  hosts[1] = (host_rows){counts[0], counts[1]};
  ls_input_deployment at = {0};
  const ls_user_context *context = ls_params_context(call->params);
  const ls_status status =
      context != NULL ? ls_user_context_deployment(context, &at) : ls_ok();
  (void)user;
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return ls_nest_dataset(ls_dataset_batch(
      ls_dataset_from_function(&(ls_index_options){
          .size = counts[at.invocation % HOSTS],
          .element =
              LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                       ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
          .get = make_row,
          .user = &hosts[at.invocation % HOSTS]}),
      &(ls_batch_options){.size =
                              ls_params_i64(call->params, "batch_size", 4)}));
}

// ---- Calls -----------------------------------------------------------------
typedef enum call_kind { TRAIN, EVALUATE, PREDICT, BOTH } call_kind;

typedef struct way {
  const char *name;
  call_kind call;
  estimator_way on;
  const char *pod;
  ls_input_pipeline pipeline;
} way;

static ls_status predict_all(estimator_case *c, double *outcome) {
  ls_predictions *rows = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_predict(
      c->estimator,
      &(ls_estimator_prediction){.input = {.call = input_of_host}}, &rows));
  ls_status status = ls_ok();
  ls_nest row = ls_none();
  while (ls_status_is_ok(status = ls_predictions_next(rows, &row)))
    *outcome += ls_nest_number(ls_nest_find(row, "classes")) + 1;
  ls_nest_release(row);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    status = ls_ok();
  }
  return ls_status_join(status, ls_predictions_close(rows));
}

static ls_status train_and_evaluate(estimator_case *c, double *outcome) {
  ls_train_and_evaluation end = {0};
  const ls_status status = ls_train_and_evaluate(
      c->estimator,
      &(ls_train_spec){.input = {.call = input_of_host},
                       .max_steps = LS_SOME(2)},
      &(ls_eval_spec){.input = {.call = input_of_host}, .whole_input = true},
      &end);
  if (ls_status_is_ok(status))
    *outcome = ls_nest_number(ls_nest_find(end.metrics, "count"));
  ls_train_and_evaluation_deinit(&end);
  return status;
}

static ls_status make_call(estimator_case *c, call_kind call, double *outcome) {
  ls_training_end end = {0};
  ls_nest metrics = ls_none();
  ls_status status = ls_ok();
  *outcome = 0;
  if (call == PREDICT) return predict_all(c, outcome);
  if (call == BOTH) return train_and_evaluate(c, outcome);
  if (call == TRAIN) {
    status = ls_estimator_train(
        c->estimator,
        &(ls_estimator_training){.input = {.call = input_of_host},
                                 .max_steps = LS_SOME(100),
                                 .lines = {.metrics = true,
                                           .checksum = 50,
                                           .gradient_norm = true,
                                           .keep_best_loss = true,
                                           .events = "",
                                           .attest = true}},
        &end);
    if (ls_status_is_ok(status)) *outcome = end.loss;
    return status;
  }
  status = ls_estimator_evaluate(
      c->estimator,
      &(ls_estimator_evaluation){.input = {.call = input_of_host}}, &metrics);
  if (ls_status_is_ok(status)) *outcome = estimator_metric(metrics, "loss");
  ls_nest_release(metrics);
  return status;
}

// ---- Lives -----------------------------------------------------------------
static void train_once(void) {
  LS_OWN(counted, memory) = counted_begin(1);
  LS_OWN(estimator_case, c) = {.folder = "memory-model"};
  estimator_case_begin(&c);
  (void)estimator_case_train(&c, 1);
}

// A runtime's life, with request `nth` of its first call refused; 0: none. How
// many requests the call has made.
static uint64_t live(const way *w, uint64_t nth, double wanted,
                     double *outcome) {
  const int before = thread_count();
  counted memory = counted_begin_with(
      (ls_runtime_options){.threads = 1 + (int)(nth % 2),
                           .input_threads = LS_SOME((int64_t)nth % 3)});
  ls_tpu_config tpu = {.iterations_per_loop = "2",
                       .per_host_input = w->pipeline};
  const bool makes = w->call == TRAIN || w->call == BOTH;
  estimator_case c = {.way = w->on,
                      .replicas = 2,
                      .batch = 8,
                      .any_batch = w->on == ON_TPU,
                      .folder = makes ? "memory-call" : "memory-model",
                      .goes_on = !makes,
                      .config.random_seed = LS_SOME(3),
                      .config.tpu = &tpu,
                      .config.master = w->on == ON_TPU ? w->pod : NULL};
  estimator_case_begin(&c);
  const uint64_t first = counted_now(&memory).allocations;
  ls_counting_allocator_fail_at(memory.memory, nth);
  const ls_status status = make_call(&c, w->call, outcome);
  ls_counting_allocator_fail_at(memory.memory, 0);
  const uint64_t made = counted_now(&memory).allocations - first;
  if (!ls_status_is_ok(status)) {
    if (ls_status_code(status) != LS_RESOURCE_EXHAUSTED)
      print_error("%s:%llu: %s\n", w->name, (unsigned long long)nth,
                  ls_status_message(status));
    expect_status(status, LS_RESOURCE_EXHAUSTED, "");
    estimator_case_end(&c);
    c.estimator = NULL, c.made_config = NULL, c.strategy = NULL;
    estimator_case_begin(&c);
    expect_ok(make_call(&c, w->call, outcome));
  }
  estimator_case_end(&c);
  assert_int_equal(ls_runtime_abandoned_calls(memory.runtime), 0);
  if (wanted >= 0 && fabs(*outcome - wanted) > 1e-6)
    fail_msg("%s:%llu: %.17g and not %.17g", w->name, (unsigned long long)nth,
             *outcome, wanted);
  counted_end(&memory);
  for (int i = 0; i < 1000 && thread_count() != before; ++i)
    usleep(1000);
  assert_int_equal(thread_count(), before);
  return made;
}

#define ONE "virtual:2x1,cores=1"
#define TWO "virtual:2x1,cores=1,hosts=2"
static const way ways[] = {
    {"train", TRAIN, ON_TPU, TWO, LS_INPUT_PER_HOST_V2},
    {"train-v1", TRAIN, ON_TPU, TWO, LS_INPUT_PER_HOST_V1},
    {"train-one", TRAIN, ON_TPU, ONE, LS_INPUT_PER_HOST_V2},
    {"train-cpu", TRAIN, ON_CPU, NULL, 0},
    {"train-replicas", TRAIN, IN_STRATEGY, NULL, 0},
    {"eval", EVALUATE, ON_TPU, TWO, LS_INPUT_PER_HOST_V2},
    {"eval-cpu", EVALUATE, ON_CPU, NULL, 0},
    {"eval-replicas", EVALUATE, IN_STRATEGY, NULL, 0},
    {"predict", PREDICT, ON_TPU, ONE, LS_INPUT_PER_HOST_V2},
    {"predict-cpu", PREDICT, ON_CPU, NULL, 0},
    {"both", BOTH, ON_TPU, TWO, LS_INPUT_PER_HOST_V2},
    {"both-cpu", BOTH, ON_CPU, NULL, 0},
};

static void try_way(const way *w) {
  const char *only = getenv("LS_TEST_ONLY");
  const size_t length = strlen(w->name);
  if (only != NULL && (strncmp(only, w->name, length) != 0 ||
                       (only[length] != ':' && only[length] != 0)))
    return;
  double wanted = 0, got = 0;
  const uint64_t made = live(w, 0, -1, &wanted);
  const bool tells = getenv("LS_TEST_FAULTS") != NULL || only != NULL;
  if (tells)
    fprintf(stderr, "%s: %llu requests\n", w->name, (unsigned long long)made);
  if (only != NULL && only[length] == ':') {
    live(w, strtoull(only + length + 1, NULL, 10), wanted, &got);
    return;
  }
  uint64_t state = number_from_environment("LS_TEST_SEED", 1);
  const uint64_t count = number_from_environment("LS_TEST_FAULTS", FEW);
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t nth = 1 + draw_below(&state, made);
    if (tells) fprintf(stderr, "%s:%llu\n", w->name, (unsigned long long)nth);
    live(w, nth, wanted, &got);
  }
}

TEST(a_call_without_memory_ends_and_leaves_nothing) {
  train_once();
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i)
    try_way(&ways[i]);
}
