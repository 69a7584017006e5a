// SPDX-License-Identifier: Apache-2.0
//
// What a model and its input must give is refused in the same words wherever
// they run, and what evaluates to the end of its input ends with it.
#include <string.h>
#include <time.h>

#include "estimator/own.h"
#include "lockstep/dataset.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph_ops.h"
#include "lockstep/host.h"
#include "lockstep/metrics.h"
#include "lockstep/optimizers.h"
#include "lockstep/summary.h"
#include "lockstep/summary_ops.h"
#include "nn/own.h"
#include "support/estimator_ways.h"
#include "support/event_files.h"
#include "support/place.h"

typedef enum fault {
  NO_FAULT,
  OTHER_MODE,     // Of the spec.
  OLD_SUMMARY,    // In the host function,
  MODEL_SUMMARY,  // or in the model.
  METRICS_NO_DICT,
  METRIC_NO_PAIR,
  NO_METRICS,      // The loss alone.
  IDLE_HOST_CALL,  // Is given no tensor.
  STEP_STANDS,     // The train op does not move the global step.
} fault;

typedef struct world {
  estimator_case c;
  fault fault;
  int calls;        // Of the host call's op. Atomic.
  ls_op minimized;  // By an optimizer that moves no global step.
} world;

// ---- The model -------------------------------------------------------------
static ls_status count_call(ls_nest values, void *user) {
  world *w = user;
  (void)values;
  __atomic_add_fetch(&w->calls, 1, __ATOMIC_RELAXED);
  return ls_ok();
}

static ls_nest host(ls_nest tensors, void *user) {
  world *w = user;
  if (w->fault == OLD_SUMMARY)
    return LS_LIST(ls_nest_op(ls_summary("old", ls_nest_tensor(tensors, 0))));
  return LS_LIST(ls_nest_op(ls_host_function_op(count_call, w, ls_none())));
}

static ls_nest metrics(ls_nest tensors, void *user) {
  static const char *const key = "metric";
  const world *w = user;
  const ls_nest value = ls_leaf(ls_nest_tensor(tensors, 0));
  return w->fault == METRICS_NO_DICT ? LS_LIST(value)
                                     : ls_nest_dict("", &key, &value, 1);
}

static bool is_of_metrics(fault f) {
  return f == METRICS_NO_DICT || f == METRIC_NO_PAIR;
}

// What ls_train_op does, but for the global step.
static ls_status minimize(world *w, ls_tensor loss) {
  LS_OWN(ls_optimizer, inner) = NULL;
  LS_OWN(ls_optimizer, outer) = NULL;
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1}, &inner));
  LS_RETURN_IF_ERROR(ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner}, &outer));
  w->minimized = ls_optimizer_minimize(outer, loss);
  return ls_ok();
}

static void spoil(world *w, ls_estimator_spec_options *o, ls_nest losses) {
  if (w->fault == OTHER_MODE)
    o->mode = o->mode == LS_MODE_TRAIN ? LS_MODE_EVAL : LS_MODE_TRAIN;
  if (o->mode == LS_MODE_TRAIN && o->train_op.id == 0)
    o->train_op = ls_group(NULL, 0, NULL);
  if (w->fault == NO_METRICS || w->fault == IDLE_HOST_CALL ||
      w->fault == STEP_STANDS)
    o->eval_metrics = (ls_host_function){0};
  if (w->fault == IDLE_HOST_CALL || w->fault == OLD_SUMMARY)
    o->host_call =
        (ls_host_function){.call = host, .user = w, .tensors = losses};
  if (is_of_metrics(w->fault))
    o->eval_metrics =
        (ls_host_function){.call = metrics, .user = w, .tensors = losses};
  if (w->fault == STEP_STANDS && o->mode == LS_MODE_TRAIN)
    o->train_op = ls_group(&w->minimized, 1, "not_a_train_op");
  if (w->fault == MODEL_SUMMARY) ls_summary("of the model", o->loss);
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  world *w = user;
  LS_OWN(ls_estimator_spec, base) = NULL;
  const ls_model_function function = estimator_model(&w->c);
  ls_model_call other = *call;
  // On cores a train op that is not given back would run all the same.
  if (w->fault == STEP_STANDS) other.mode = LS_MODE_EVAL;
  LS_RETURN_IF_ERROR(function.call(function.user, &other, &base));
  ls_estimator_spec_options o = *ls_estimator_spec_values(base);
  o.mode = call->mode;
  LS_OWN(ls_nest, losses) =
      w->fault == IDLE_HOST_CALL
          ? ls_nest_sequence(LS_KIND_LIST, NULL, 0)
          : LS_LIST(ls_leaf(ls_reshape(o.loss, LS_SHAPE(1))));
  o.export_outputs = NULL;
  o.num_export_outputs = 0;
  if (call->mode != LS_MODE_PREDICT) o.predictions = ls_none();
  if (w->fault == STEP_STANDS && call->mode == LS_MODE_TRAIN)
    LS_RETURN_IF_ERROR(minimize(w, o.loss));
  spoil(w, &o, losses);
  return ls_tpu_estimator_spec_create(&o, out);
}

static void begin_with(world *w, int way, fault f, ls_model_function function) {
  *w = (world){.c = estimator_case_of(way), .fault = f};
  w->c.folder = "refusals";
  w->c.any_batch = w->c.way == ON_TPU;
  w->c.more.model_fn = function;
  estimator_case_begin(&w->c);
}

static void begin(world *w, int way, fault f) {
  begin_with(w, way, f, (ls_model_function){.call = model, .user = w});
}

static ls_status train_by(world *w, ls_input_function input, int64_t steps) {
  return ls_estimator_train(
      w->c.estimator,
      &(ls_estimator_training){.input = input, .max_steps = LS_SOME(steps)},
      NULL);
}

static ls_status train(world *w) {
  return train_by(w, estimator_input(&w->c), 2);
}

static ls_status evaluate_by(world *w, ls_input_function input, ls_opt steps) {
  LS_OWN(ls_nest, made) = ls_none();
  return ls_estimator_evaluate(
      w->c.estimator,
      &(ls_estimator_evaluation){.input = input, .steps = steps}, &made);
}

static ls_status evaluate(world *w) {
  return evaluate_by(w, estimator_input(&w->c), LS_SOME(1));
}

static ls_status predict_by(world *w, ls_input_function input) {
  ls_predictions *predictions = NULL;
  LS_RETURN_IF_ERROR(ls_estimator_predict(
      w->c.estimator, &(ls_estimator_prediction){.input = input},
      &predictions));
  return ls_predictions_close(predictions);
}

static ls_status predict(world *w) {
  return predict_by(w, estimator_input(&w->c));
}

// ---- Specs -----------------------------------------------------------------
TEST(a_spec_of_another_mode_names_both) {
  static const struct {
    ls_status (*call)(world *w);
    const char *given, *called;
  } calls[] = {{train, "'eval'", "'train'"},
               {evaluate, "'train'", "'eval'"},
               {predict, "'train'", "'predict'"}};
  for (int way = 0; way < ESTIMATOR_WAYS; ++way)
    for (size_t k = 0; k < 2; ++k) {
      world w;
      begin(&w, way, OTHER_MODE);
      expect_status(calls[k].call(&w), LS_INVALID_ARGUMENT, "a spec of mode");
      expect_status(calls[k].call(&w), LS_INVALID_ARGUMENT, calls[k].given);
      expect_status(calls[k].call(&w), LS_INVALID_ARGUMENT, calls[k].called);
      estimator_case_end(&w.c);
    }
}

// ---- Train ops -------------------------------------------------------------
TEST(a_train_op_that_moves_no_step_ends_the_training) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    world w;
    begin(&w, way, STEP_STANDS);
    w.c.repeats = true;
    for (int k = 0; k < 2; ++k)
      expect_status(train(&w), LS_INVALID_ARGUMENT,
                    k == 0 ? "not_a_train_op" : "ls_train_op");
    estimator_case_end(&w.c);
  }
}

// ---- Metrics ---------------------------------------------------------------
TEST(metrics_are_a_dict_of_pairs_everywhere) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way)
    for (int k = 0; k < 2; ++k) {
      world w;
      begin(&w, way, k == 0 ? METRICS_NO_DICT : METRIC_NO_PAIR);
      expect_status(evaluate(&w), LS_INVALID_ARGUMENT,
                    k == 0 ? "the function of eval_metrics must give a dict"
                           : "metric 'metric' is no pair");
      estimator_case_end(&w.c);
    }
}

// ---- Summaries -------------------------------------------------------------
TEST(old_summaries_of_a_host_function_are_refused_everywhere) {
  LS_SPEC("E144");
  ls_status (*const calls[])(world * w) = {train, evaluate};
  for (int way = 0; way < ESTIMATOR_WAYS; ++way)
    for (size_t k = 0; k < 2; ++k) {
      world w;
      begin(&w, way, OLD_SUMMARY);
      // Host calls of evaluations in a strategy are not made.
      if (w.c.way != IN_STRATEGY || k == 0)
        expect_status(calls[k](&w), LS_INVALID_ARGUMENT,
                      "use summaries with a writer");
      estimator_case_end(&w.c);
    }
}

static void note_left_out(void *user, const ls_log_line *line) {
  int *lines = user;
  if (line->level == LS_LOG_WARNING &&
      strstr(line->text, "summary 'of the model'") != NULL)
    ++*lines;
}

// On cores nobody writes it, and the log says so once.
TEST(a_summary_of_the_model_is_never_lost_in_silence) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    int lines = 0;
    world w;
    LS_OWN(open_place, home) = runtime_begin(
        (ls_runtime_options){.log = note_left_out, .log_user = &lines});
    begin(&w, way, MODEL_SUMMARY);
    expect_ok(train(&w));
    assert_int_equal(lines, w.c.way == ON_TPU);
    estimator_case_end(&w.c);
  }
}

// ---- Warnings --------------------------------------------------------------
static void note_shards(void *user, const ls_log_line *line) {
  int *lines = user;
  if (strstr(line->text, "number of shards") != NULL) ++*lines;
}

// A cross-shard optimizer, as the manual says, is fine wherever it trains.
TEST(nobody_warns_of_what_the_manual_says) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    int lines = 0;
    world w;
    LS_OWN(open_place, home) = runtime_begin(
        (ls_runtime_options){.log = note_shards, .log_user = &lines});
    begin(&w, way, NO_FAULT);
    expect_ok(train(&w));
    assert_int_equal(lines, 0);
    estimator_case_end(&w.c);
  }
}

// What a model adds to collections, and which lines say that it is lost.
typedef struct collecting {
  world w;
  ls_variable *variable;
  size_t seen;  // Of the variable's collection in the session's graph.
  int lost, others;
} collecting;

static void note_collections(void *user, const ls_log_line *line) {
  collecting *self = user;
  if (strstr(line->text, "adds to collection") == NULL) return;
  if (line->level == LS_LOG_WARNING && strstr(line->text, "'losses'") != NULL &&
      strstr(line->text, "give it in the spec") != NULL)
    ++self->lost;
  else
    ++self->others;
}

static ls_status collect(void *user, ls_model_call *call,
                         ls_estimator_spec **out) {
  static const char *const own = "own";
  collecting *self = user;
  LS_RETURN_IF_ERROR(model(&self->w, call, out));
  ls_variable_release(self->variable);
  self->variable = NULL;
  LS_RETURN_IF_ERROR(
      ls_variable_create(&(ls_variable_options){.name = "counted",
                                                .dtype = LS_DTYPE_F32,
                                                .trainable = LS_FLAG_OFF,
                                                .collections = &own,
                                                .num_collections = 1},
                         &self->variable));
  return ls_graph_add_to_collection(
      ls_graph_current(), "losses",
      ls_leaf(ls_estimator_spec_values(*out)->loss));
}

static ls_status count_own(void *user) {
  collecting *self = user;
  self->seen = ls_graph_collection(ls_graph_current(), "own", NULL, 0);
  return ls_ok();
}

// Where the model's graph is a loop's body, one line names the collection; a
// variable's own collection is the session's graph's everywhere.
TEST(the_log_names_collections_that_are_lost) {
  for (int way = 0; way < ESTIMATOR_WAYS; ++way) {
    collecting self = {0};
    ls_hook *hook = NULL;
    LS_OWN(open_place, home) = runtime_begin(
        (ls_runtime_options){.log = note_collections, .log_user = &self});
    begin_with(&self.w, way, NO_FAULT,
               (ls_model_function){.call = collect, .user = &self});
    expect_ok(ls_hook_create(
        &(ls_hook_options){.user = &self, .begin = count_own}, &hook));
    for (int i = 0; i < 2; ++i)
      expect_ok(ls_estimator_train(
          self.w.c.estimator,
          &(ls_estimator_training){.input = estimator_input(&self.w.c),
                                   .steps = LS_SOME(1),
                                   .hooks = &hook,
                                   .num_hooks = 1},
          NULL));
    assert_int_equal(self.lost, self.w.c.way == ON_TPU ? 1 : 0);
    assert_int_equal(self.others, 0);
    assert_int_equal(self.seen, 1);
    ls_hook_release(hook);
    ls_variable_release(self.variable);
    estimator_case_end(&self.w.c);
  }
}

// ---- Input -----------------------------------------------------------------
typedef struct shapeless {
  world *w;
  bool of_labels;
} shapeless;

static ls_nest make_shapeless(ls_nest element, const ls_map_call *call,
                              void *user) {
  (void)call, (void)user;
  return ls_nest_retain(element);
}

static ls_nest input_without_shapes(void *user, ls_input_call *call) {
  const shapeless *s = user;
  const ls_input_function base = estimator_input(&s->w->c);
  LS_OWN(ls_nest, made) = base.call(base.user, call);
  ls_dataset *data = ls_dataset_retain(ls_nest_as_dataset(made));
  const ls_shape unknown = LS_SHAPE(s->w->c.batch, LS_UNKNOWN_DIM);
  return ls_nest_dataset(ls_dataset_map(
      data, &(ls_map_options){
                .call = make_shapeless,
                .result = LS_TUPLE(
                    ls_nest_spec(LS_DTYPE_F32,
                                 s->of_labels
                                     ? LS_SHAPE(s->w->c.batch, ESTIMATOR_WIDTH)
                                     : unknown),
                    ls_nest_spec(LS_DTYPE_I32,
                                 s->of_labels ? LS_SHAPE_UNKNOWN
                                              : LS_SHAPE(s->w->c.batch)))}));
}

TEST(shapes_that_cores_do_not_know_are_named) {
  LS_SPEC("E122");
  static const ls_input_pipeline pipelines[] = {
      LS_INPUT_PER_HOST_V1, LS_INPUT_PER_HOST_V2, LS_INPUT_BROADCAST};
  for (int kind = 0; kind < 3; ++kind)
    for (int any = 0; any < 2; ++any)
      for (int of_labels = 0; of_labels < 2; ++of_labels) {
        world w = {.c = estimator_case_of(2)};
        const ls_tpu_config tpu = {.iterations_per_loop = "2",
                                   .per_host_input = pipelines[kind]};
        const shapeless s = {&w, of_labels};
        const ls_input_function input = {.call = input_without_shapes,
                                         .user = (void *)(uintptr_t)&s};
        w.c.folder = "refusals";
        w.c.any_batch = any;
        w.c.config.tpu = &tpu;
        estimator_case_begin(&w.c);
        const char *says = of_labels
                               ? "The labels to the model returned by input_fn "
                                 "must have static shape"
                               : "The features to the model returned by "
                                 "input_fn must have static shape";
        expect_status(train_by(&w, input, 2), LS_INVALID_ARGUMENT, says);
        expect_status(evaluate_by(&w, input, LS_SOME(1)), LS_INVALID_ARGUMENT,
                      says);
        if (!of_labels)
          expect_status(predict_by(&w, input), LS_INVALID_ARGUMENT, says);
        estimator_case_end(&w.c);
      }
}

// ---- Elements --------------------------------------------------------------
static ls_nest as_list(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return LS_LIST(ls_nest_retain(ls_nest_item(element, 0)),
                 ls_nest_retain(ls_nest_item(element, 1)));
}

static ls_nest input_of_lists(void *user, ls_input_call *call) {
  const ls_input_function base = estimator_input(user);
  LS_OWN(ls_nest, made) = base.call(base.user, call);
  ls_dataset *data = ls_dataset_retain(ls_nest_as_dataset(made));
  return ls_nest_dataset(
      ls_dataset_map(data, &(ls_map_options){.call = as_list}));
}

TEST(a_list_where_a_tuple_was_meant_is_named) {
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    world w = {.c = estimator_case_of(i)};
    const ls_input_function input = {.call = input_of_lists, .user = &w.c};
    w.c.folder = "refusals";
    estimator_case_begin(&w.c);
    expect_status(train_by(&w, input, 2), LS_INVALID_ARGUMENT,
                  "features is a list of 2, without labels");
    estimator_case_end(&w.c);
  }
}

// ---- The end of the input --------------------------------------------------
static double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// 2^31 steps are asked for where there are 4.
TEST(nothing_is_done_for_steps_that_the_input_does_not_have) {
  LS_SPEC("E149");
  for (int replicas = 1; replicas <= 3; replicas += 2)
    for (int k = 0; k < 2; ++k) {
      const ls_tpu_config tpu = {.iterations_per_loop = "3000000000"};
      world w = {.c = {.way = ON_TPU, .replicas = replicas, .any_batch = true},
                 .fault = k == 0 ? NO_METRICS : IDLE_HOST_CALL};
      w.c.folder = "refusals";
      w.c.config.tpu = &tpu;
      w.c.more.model_fn = (ls_model_function){.call = model, .user = &w};
      estimator_case_begin(&w.c);
      const double began = seconds_now();
      expect_ok(evaluate_by(&w, estimator_input(&w.c), (ls_opt){0}));
      assert_int_equal(w.calls, k == 0 ? 0 : 4);
      expect_ok(train_by(&w, estimator_input(&w.c), 4000000000));
      assert_int_equal(w.calls, k == 0 ? 0 : 8);
      assert_true(seconds_now() - began < 10);
      estimator_case_end(&w.c);
    }
}
