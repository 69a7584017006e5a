// SPDX-License-Identifier: Apache-2.0
// In which order an estimator's own hooks stand, what it sets for a training,
// and what becomes of values that are no numbers.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "estimator/calls/estimator.h"
#include "estimator/calls/job.h"
#include "lockstep/element_spec.h"
#include "lockstep/events.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "support/counted.h"
#include "support/estimator_ways.h"
#include "tpu/system/resolver.h"
#include "train/hooks/saving.h"
#include "train/own.h"

// ---- Arguments -------------------------------------------------------------
static void expect_on_cores(const ls_estimator *e, ls_estimator_mode mode) {
  const ls_plan *plan = NULL;
  expect_ok(ls_plans_get(e->plans, mode, false, &plan));
  assert_false(plan->on_cpu);
}

static ls_nest no_cache(void *user, int64_t batch_size) {
  (void)user, (void)batch_size;
  return ls_none();
}

TEST(arguments_have_their_defaults) {
  LS_SPEC("E59");
  LS_OWN(estimator_case, c) = {.way = ON_TPU};
  ls_estimator *e = NULL;
  const ls_plan *plan = NULL;
  estimator_case_begin(&c);
  ls_estimator_options o = {.model_fn = estimator_model(&c)};
  expect_status(ls_estimator_create(&o, &e), LS_INVALID_ARGUMENT, "config");
  // On TPUs, so that a batch size is needed, which none is set by itself.
  o.config = c.made_config;
  expect_status(ls_estimator_create(&o, &e), LS_INVALID_ARGUMENT,
                "`train_batch_size`");
  o.train_batch_size = LS_SOME(24);
  expect_ok(ls_estimator_create(&o, &e));
  assert_true(e->exports_to_tpu);
  expect_on_cores(e, LS_MODE_TRAIN);
  expect_ok(ls_plans_get(e->plans, LS_MODE_TRAIN, false, &plan));
  assert_false(plan->any_batch);
  expect_status(ls_plans_get(e->plans, LS_MODE_EVAL, false, &plan),
                LS_INVALID_ARGUMENT, "eval_batch_size");
  expect_status(ls_plans_get(e->plans, LS_MODE_PREDICT, false, &plan),
                LS_INVALID_ARGUMENT, "predict_batch_size");
  assert_null(e->caches[LS_MODE_TRAIN].call);
  assert_null(e->caches[LS_MODE_EVAL].call);
  assert_null(e->warm_start.path);
  assert_int_equal(e->num_batch_axes, 0);
  assert_false(e->has_params);
  assert_int_equal(strncmp(ls_estimator_model_dir(e), "/tmp/", 5), 0);
  ls_estimator_destroy(e);
  o.export_to_tpu = LS_FLAG_OFF;
  o.eval_batch_size = LS_SOME(24);
  o.train_cache = (ls_cache_function){.call = no_cache, .user = &c};
  o.eval_cache = (ls_cache_function){.call = no_cache, .user = &o};
  o.batch_axis = &(int64_t){1};
  o.num_batch_axes = 1;
  expect_ok(ls_estimator_create(&o, &e));
  expect_on_cores(e, LS_MODE_EVAL);
  assert_false(e->exports_to_tpu);
  assert_ptr_equal(e->caches[LS_MODE_TRAIN].user, &c);
  assert_ptr_equal(e->caches[LS_MODE_EVAL].user, &o);
  assert_int_equal(e->num_batch_axes, 1);
  assert_int_equal(e->batch_axis[0], 1);
  ls_estimator_destroy(e);
}

// ---- Order on cores --------------------------------------------------------
static void expect_device_hooks(ls_estimator_mode mode,
                                const char *const *names, size_t count) {
  LS_OWN(estimator_case,
         c) = {.way = ON_TPU, .replicas = 2, .folder = "order-device"};
  ls_job job = {.steps_wanted = LS_SOME(1)};
  estimator_case_begin(&c);
  const ls_input_function input = estimator_input(&c);
  expect_ok(ls_job_begin(&job, c.estimator, mode, &input));
  {
    LS_GRAPH_SCOPE(job.graph);
    expect_ok(job.kind->build(&job));
    expect_ok(ls_job_add_hooks(&job, LS_HOOKS_BEFORE_MODEL));
  }
  assert_int_equal(job.hooks.count, count);
  for (size_t i = 0; i < count; ++i)
    assert_string_equal(ls_hook_name(job.hooks.hooks[i]), names[i]);
  expect_ok(ls_job_end(&job, "test", ls_ok()));
}

#define DATA_SETS "data sets of the input"
#define DEVICE "infeed and outfeed"

typedef struct watched {
  estimator_case setup;
  char order[400];  // What happened, a letter each.
  char names[400];  // Of all hooks, each with a comma.
  ls_hook *models;
  // A system that is looked up by its name is not there to train on: this one,
  // which is, says that it is one from when its program is built until the
  // session begins. Lent; NULL: none.
  ls_tpu_resolver *named;
  ls_tpu_kind kind;  // What it is.
} watched;

static void happen(watched *w, char what) {
  const size_t length = strlen(w->order);
  if (length + 1 < sizeof(w->order)) w->order[length] = what;
}

static ls_status users_begin(void *user) {
  const watched *w = user;
  if (w->named != NULL) w->named->kind = w->kind;
  return ls_ok();
}
static ls_status users_session(void *user, ls_run_context *context) {
  watched *w = user;
  const ls_hook_list *all = &context->of->hooks;
  w->names[0] = 0;
  for (size_t i = 0; i < all->count; ++i) {
    const size_t length = strlen(w->names);
    snprintf(w->names + length, sizeof(w->names) - length, "%s,",
             ls_hook_name(all->hooks[i]));
  }
  happen(w, 'C');
  return ls_ok();
}
static ls_status users_before(void *user, ls_run_context *context,
                              ls_run_wish *wish) {
  (void)context, (void)wish;
  happen(user, 'U');
  return ls_ok();
}
static ls_status users_after(void *user, ls_run_context *context,
                             ls_nest results) {
  (void)context, (void)results;
  happen(user, 'u');
  return ls_ok();
}
static ls_status models_session(void *user, ls_run_context *context) {
  (void)context;
  happen(user, 'c');
  return ls_ok();
}
static ls_status models_before(void *user, ls_run_context *context,
                               ls_run_wish *wish) {
  (void)context, (void)wish;
  happen(user, 'M');
  return ls_ok();
}
static ls_status models_after(void *user, ls_run_context *context,
                              ls_nest results) {
  (void)context, (void)results;
  happen(user, 'm');
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  watched *w = user;
  LS_OWN(ls_estimator_spec, made) = NULL;
  const ls_model_function base = estimator_model(&w->setup);
  LS_RETURN_IF_ERROR(base.call(base.user, call, &made));
  ls_estimator_spec_options o = *ls_estimator_spec_values(made);
  if (w->named != NULL) w->named->kind = LS_TPU_NAMED;
  o.training_hooks = o.evaluation_hooks = o.prediction_hooks = &w->models;
  o.num_training_hooks = call->mode == LS_MODE_TRAIN;
  o.num_evaluation_hooks = call->mode == LS_MODE_EVAL;
  o.num_prediction_hooks = call->mode == LS_MODE_PREDICT;
  return ls_tpu_estimator_spec_create(&o, out);
}

static void note(void *user, const ls_log_line *line) {
  if (strstr(line->text, "examples/sec") != NULL) happen(user, 'e');
  if (strstr(line->text, "loss = ") != NULL) happen(user, 'l');
  if (strstr(line->text, "initialized the TPU system") != NULL)
    happen(user, 'S');
}

static ls_hook *begin(watched *w) {
  ls_hook *users = NULL;
  expect_ok(
      ls_hook_create(&(ls_hook_options){.name = "users",
                                        .user = w,
                                        .begin = users_begin,
                                        .after_create_session = users_session,
                                        .before_run = users_before,
                                        .after_run = users_after},
                     &users));
  expect_ok(
      ls_hook_create(&(ls_hook_options){.name = "models",
                                        .user = w,
                                        .after_create_session = models_session,
                                        .before_run = models_before,
                                        .after_run = models_after},
                     &w->models));
  w->setup.more.model_fn = (ls_model_function){.call = model, .user = w};
  estimator_case_begin(&w->setup);
  return users;
}

static void end(watched *w, ls_hook *users) {
  ls_hook_release(users);
  ls_hook_release(w->models);
  estimator_case_end(&w->setup);
}

static void train(watched *w, int64_t max_steps) {
  ls_hook *users = begin(w);
  expect_ok(ls_estimator_train(
      w->setup.estimator,
      &(ls_estimator_training){.input = estimator_input(&w->setup),
                               .max_steps = LS_SOME(max_steps),
                               .hooks = &users,
                               .num_hooks = 1},
      NULL));
  end(w, users);
}

TEST(hooks_of_trainings_on_cores_have_their_order) {
  LS_SPEC("E154 E158");
  static const char *const names[] = {DATA_SETS, "graceful shutdown", DEVICE,
                                      "logger", "step counter"};
  expect_device_hooks(LS_MODE_TRAIN, names, 5);
  for (int named = 0; named < 2; ++named) {
    watched w = {.setup = {.way = ON_TPU,
                           .replicas = 2,
                           .folder = "order-train",
                           .repeats = true,
                           .save_steps = LS_SOME(100),
                           .config = {.log_step_count_steps = LS_SOME(2)}}};
    LS_OWN(counted, runtime) =
        counted_begin_with((ls_runtime_options){.log = note, .log_user = &w});
    LS_OWN(ls_tpu_resolver, resolver) = NULL;
    expect_ok(ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = "virtual:2x1,cores=1"}, &resolver));
    w.setup.config.resolver = resolver;
    w.kind = resolver->kind;
    if (named == 1) w.named = resolver;
    train(&w, 4);
    // All of them: the saver, what the base adds, the system's, those that tell
    // how it goes, the model's; and what ends it.
    char wanted[400];
    snprintf(wanted, sizeof(wanted),
             "checkpoint saver,summary saver,users,TPU stop at step,NaN guard,"
             "guard of the global step,"
             "data sets of the input,graceful shutdown,infeed and outfeed,%s"
             "logger,step counter,models,final ops,hook,",
             named == 1 ? "preemption," : "");
    assert_string_equal(w.names, wanted);
    assert_non_null(strstr(w.order, "CSc"));
    assert_non_null(strstr(w.order, "ulem"));
  }
}

static int times(const char *text, const char *part) {
  int count = 0;
  for (; (text = strstr(text, part)) != NULL; ++text)
    ++count;
  return count;
}

// On cores with the configured loops; on CPUs there may be none, and then the
// input's end is the training's.
TEST(a_training_has_one_hook_that_stops_it) {
  LS_SPEC("E66 E68");
  static const ls_estimator_training ends[] = {
      {.steps = LS_SOME(10)}, {.max_steps = LS_SOME(10)}, {.hooks = NULL}};
  for (int i = 0; i < ESTIMATOR_WAYS; ++i)
    for (size_t k = 0; k < LS_COUNT_OF(ends); ++k) {
      watched w = {.setup = estimator_case_of(i)};
      const bool on_cores = w.setup.way == ON_TPU, never = k == 2;
      ls_estimator_training training = ends[k];
      ls_training_end end_of;
      if (on_cores && never) continue;
      w.setup.folder = "order-stop";
      w.setup.iterations = "4";
      w.setup.repeats = !never;
      ls_hook *users = begin(&w);
      training.input = estimator_input(&w.setup);
      training.hooks = &users;
      training.num_hooks = 1;
      expect_ok(ls_estimator_train(w.setup.estimator, &training, &end_of));
      assert_int_equal(end_of.step, never ? 4 : 10);
      assert_int_equal(times(w.order, "u"), on_cores ? 3 : never ? 4 : 10);
      assert_int_equal(times(w.names, "TPU stop at step,"), on_cores);
      assert_int_equal(times(w.names, ",stop at step,"), !on_cores && !never);
      end(&w, users);
    }
}

static int checkpoints_in(const char *folder) {
  int count = 0;
  for (int step = 0; step <= 20; ++step) {
    char command[200];
    snprintf(command, sizeof(command), "test -e %s/model.ckpt-%d.safetensors",
             folder, step);
    count += system(command) == 0;
  }
  return count;
}

// One if either interval is set, at runs of so many steps; none beside the
// model's.
TEST(a_training_has_one_saver_of_its_own) {
  LS_SPEC("E154");
  for (int way = 0; way < 8; ++way) {
    watched w = {.setup = {.way = ON_TPU,
                           .folder = "order-saver",
                           .iterations = "4",
                           .repeats = true}};
    LS_OWN(estimator_case, c) = w.setup;
    LS_OWN(ls_hook, own) = NULL;
    if (way == 0) c.config.checkpoints = LS_FLAG_OFF;
    if (way == 1) c.save_steps = LS_SOME(6);
    if (way == 2) c.config.save_checkpoints_secs = LS_SOME(1000);
    if (way == 3) c.save_steps = LS_SOME(0);
    if (way == 4 || way == 6) c.save_steps = LS_SOME(4);
    if (way == 5) c.config.save_checkpoints_secs = LS_SOME(0);
    if (way == 6) c.config.keep_checkpoint_max = LS_SOME(2);
    if (way == 7) {
      c.save_steps = LS_SOME(4);
      c.more.model_fn = (ls_model_function){.call = model, .user = &w};
    }
    estimator_case_begin(&c);
    if (way == 4 || way == 7)
      expect_ok(
          ls_saver_hook(&(ls_saver_hook_options){.folder = "order-saver",
                                                 .every_steps = LS_SOME(1000)},
                        &own));
    w.models = own;
    expect_ok(ls_estimator_train(
        c.estimator,
        &(ls_estimator_training){.input = estimator_input(&c),
                                 .max_steps = LS_SOME(12),
                                 .hooks = &own,
                                 .num_hooks = way == 4},
        NULL));
    static const int saved[] = {0, 3, 2, 0, 2, 0, 2, 2};
    assert_int_equal(checkpoints_in("order-saver"), saved[way]);
  }
}

TEST(hooks_of_evaluations_and_predictions_have_theirs) {
  LS_SPEC("E156");
  static const char *const names[] = {DEVICE, DATA_SETS};
  expect_device_hooks(LS_MODE_EVAL, names, 2);
  expect_device_hooks(LS_MODE_PREDICT, names, 2);
  // The system is the evaluation's, and the model's hooks come last.
  watched w = {
      .setup = {.way = ON_TPU,
                .folder = "order-eval",
                .config = {.master = "virtual:1x1,cores=1,fault=compile@host0",
                           .evaluation_master = "virtual:1x1,cores=1"}}};
  LS_OWN(counted, runtime) =
      counted_begin_with((ls_runtime_options){.log = note, .log_user = &w});
  ls_hook *users = begin(&w);
  ls_nest metrics = ls_none(), row = ls_none();
  ls_predictions *p = NULL;
  expect_ok(ls_estimator_evaluate(
      w.setup.estimator,
      &(ls_estimator_evaluation){.input = estimator_input(&w.setup),
                                 .steps = LS_SOME(2),
                                 .hooks = &users,
                                 .num_hooks = 1},
      &metrics));
  assert_string_equal(w.order, "CScUMum");
  assert_string_equal(w.names,
                      "users,stop after evaluations,evaluation's iterations,"
                      "infeed and outfeed,data sets of the input,models,"
                      "final ops,hook,");
  ls_nest_release(metrics);
  end(&w, users);
  w = (watched){.setup = {.way = ON_TPU, .folder = "order-predict"}};
  users = begin(&w);
  expect_ok(ls_estimator_predict(
      w.setup.estimator,
      &(ls_estimator_prediction){
          .input = estimator_input(&w.setup), .hooks = &users, .num_hooks = 1},
      &p));
  ls_status status = ls_ok();
  while (ls_status_is_ok(status))
    status = ls_predictions_next(p, &row);
  expect_status(status, LS_OUT_OF_RANGE, "no more");
  expect_ok(ls_predictions_close(p));
  ls_nest_release(row);
  // What stops it is before the model's: they do not see the last run's end.
  assert_string_equal(w.order, "CScUMumUMumUMumUMumUMu");
  assert_string_equal(w.names,
                      "users,TPU stop at prediction's end,infeed and outfeed,"
                      "data sets of the input,models,hook,");
  end(&w, users);
}

// ---- Order in a training ---------------------------------------------------
static ls_status make_any(void *user, int64_t index, ls_nest out) {
  float *x = ls_nest_data(out, 0);
  (void)user;
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i)
    x[i] = (float)(index % 17) * 0.1f + (float)i;
  *(int32_t *)ls_nest_data(out, 1) = (int32_t)(index % 3);
  return ls_ok();
}

static ls_nest shuffled(void *user, ls_input_call *call) {
  const estimator_case *c = user;
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = 96,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = make_any});
  return ls_nest_dataset(ls_dataset_batch(
      ls_dataset_shuffle(data, &(ls_shuffle_options){0}),
      &(ls_batch_options){
          .size = ls_params_i64(call->params, "batch_size", c->batch)}));
}

static double loss_of(int i, ls_opt seed) {
  LS_OWN(estimator_case, c) = estimator_case_of(i);
  ls_training_end end;
  c.folder = "order-seed";
  c.config.random_seed = seed;
  estimator_case_begin(&c);
  expect_ok(ls_estimator_train(
      c.estimator,
      &(ls_estimator_training){.input = {.call = shuffled, .user = &c},
                               .max_steps = LS_SOME(3)},
      &end));
  return end.loss;
}

TEST(a_trainings_seed_is_its_inputs) {
  LS_SPEC("E163");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    const double none = loss_of(i, (ls_opt){0});
    const double seven = loss_of(i, LS_SOME(7));
    assert_true(seven == loss_of(i, LS_SOME(7)));
    assert_true(none == loss_of(i, (ls_opt){0}));
    assert_true(none != seven || seven != loss_of(i, LS_SOME(8)));
  }
}

TEST(a_trainings_hooks_have_their_order) {
  LS_SPEC("E163");
  for (int i = 0; i < ESTIMATOR_WAYS; ++i) {
    watched w = {.setup = estimator_case_of(i)};
    LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){0});
    LS_OWN(ls_event_numbers, numbers) = NULL;
    w.setup.folder = "order-whole";
    w.setup.save_steps = LS_SOME(1);
    w.setup.iterations = "1";
    w.setup.config.save_summary_steps = LS_SOME(1);
    w.setup.examples = 24 * 8;
    train(&w, 20);
    assert_memory_equal(w.order, "CcUMum", 6);
    if (w.setup.way != ON_TPU) {
      assert_non_null(
          strstr(w.names, "checkpoint saver,summary saver,data set"));
      assert_non_null(strstr(w.names,
                             " of the input,users,stop at step,NaN guard,"
                             "guard of the global step,models,"));
    } else {
      assert_non_null(strstr(w.names, "checkpoint saver,summary saver,users,"
                                      "TPU stop at step,NaN guard,"));
    }
    assert_int_equal(checkpoints_in("order-whole"), 5);
    expect_ok(ls_events_read("order-whole", "loss", &numbers));
    assert_true(numbers->count >= 7);
  }
}

// ---- No numbers ------------------------------------------------------------
static ls_status make_nan(void *user, int64_t index, ls_nest out) {
  float *x = ls_nest_data(out, 0);
  (void)user, (void)index;
  for (int i = 0; i < ESTIMATOR_WIDTH; ++i)
    x[i] = NAN;
  *(int32_t *)ls_nest_data(out, 1) = 0;
  return ls_ok();
}

static ls_nest no_numbers(void *user, ls_input_call *call) {
  const estimator_case *c = user;
  ls_dataset *data = ls_dataset_from_function(&(ls_index_options){
      .size = 960,
      .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(ESTIMATOR_WIDTH)),
                          ls_nest_spec(LS_DTYPE_I32, LS_SCALAR)),
      .get = make_nan});
  return ls_nest_dataset(ls_dataset_batch(
      data, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", c->batch)}));
}

static ls_status linear(void *user, ls_model_call *call,
                        ls_estimator_spec **out) {
  ls_variable *w = NULL;
  ls_optimizer *inner = NULL;
  LS_OWN(ls_optimizer, outer) = NULL;
  (void)user;
  LS_RETURN_IF_ERROR(ls_weight_create(
      &(ls_weight_options){.name = "w", .shape = LS_SHAPE(ESTIMATOR_WIDTH, 1)},
      &w));
  ls_estimator_spec_options o = {.mode = call->mode};
  o.loss = ls_reduce_mean(
      ls_matmul(call->features.as.tensor, ls_variable_read(w)), LS_ALL_AXES);
  ls_variable_release(w);
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1}, &inner));
  const ls_status made = ls_cross_shard_create(
      &(ls_cross_shard_options){.optimizer = inner}, &outer);
  ls_optimizer_release(inner);
  LS_RETURN_IF_ERROR(made);
  o.train_op = ls_train_op(outer, o.loss);
  return ls_tpu_estimator_spec_create(&o, out);
}

TEST(variables_that_go_bad_are_named) {
  LS_SPEC("E155 E180");
  for (int replicas = 1; replicas <= 3; replicas += 2)
    for (int broadcast = 0; broadcast < 2; ++broadcast) {
      const ls_tpu_config tpu = {.per_host_input = broadcast
                                                       ? LS_INPUT_BROADCAST
                                                       : LS_INPUT_PER_HOST_V1};
      LS_OWN(counted, runtime) = counted_begin_with((ls_runtime_options){0});
      LS_OWN(estimator_case, c) = {.way = ON_TPU,
                                   .replicas = replicas,
                                   .folder = "order-bad",
                                   .config = {.tpu = &tpu},
                                   .more = {.model_fn = {.call = linear}}};
      estimator_case_begin(&c);
      const ls_status status = ls_estimator_train(
          c.estimator,
          &(ls_estimator_training){.input = {.call = no_numbers, .user = &c},
                                   .max_steps = LS_SOME(6)},
          NULL);
      if (broadcast)
        expect_status(status, LS_FAILED_PRECONDITION, "NaN loss");
      else
        expect_status(status, LS_INVALID_ARGUMENT, "Gradient for w:0 is NaN");
    }
}
