// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "base/runtime_internal.h"
#include "lockstep/train.h"
#include "train/run_folder.h"

// Means over some steps.
typedef struct window {
  int64_t steps;
  double loss, accuracy;  // Sums.
  int64_t began;          // Of the clock.
} window;

typedef struct loop {
  ls_runtime *runtime;
  ls_train_options options;  // With defaults.
  int64_t steps_per_epoch, num_steps;
  ls_function *function;
  ls_batcher *batcher;
  ls_evaluator *evaluator;  // NULL: no test set.
  ls_run_folder folder;
  ls_nest batch, results;
  window epoch, logged;
  int64_t began;
  ls_train_report report;
  ls_train_result *result;
} loop;

// ---- Making ----------------------------------------------------------------
int64_t ls_train_count_steps(const ls_model_type *type, int64_t train_size,
                             int64_t batch_size, int64_t epochs,
                             int64_t steps) {
  if (batch_size == 0) batch_size = type->batch_size;
  const int64_t per_epoch = train_size / batch_size;
  if (epochs == 0 && steps > 0) return per_epoch > 0 ? steps : 0;
  const int64_t all = (epochs > 0 ? epochs : type->epochs) * per_epoch;
  return steps > 0 && steps < all ? steps : all;
}

static ls_status check_options(const ls_train_options *options,
                               int32_t replicas) {
  const ls_train_options *o = options;
  if (o->epochs < 0 || o->steps < 0 || o->batch_size < 1 || o->log_every < 1)
    return ls_invalid_argument(
        "epochs and steps cannot be negative and a batch needs at least one "
        "example, got %lld, %lld and %lld",
        (long long)o->epochs, (long long)o->steps, (long long)o->batch_size);
  if (o->batch_size % replicas != 0)
    return ls_invalid_argument(
        "a batch of %lld cannot be shared evenly by %d replicas; %lld can",
        (long long)o->batch_size, replicas,
        (long long)((o->batch_size / replicas + 1) * replicas));
  return ls_train_check_data(o->model->type, o->train);
}

static ls_status with_defaults(const ls_train_options *options, loop *it) {
  it->options = *options;
  it->runtime = ls_runtime_current();
  if (it->runtime == NULL) return ls_out_of_memory();
  ls_train_options *o = &it->options;
  const ls_model_type *type = o->model->type;
  if (o->batch_size == 0) o->batch_size = type->batch_size;
  if (o->log_every == 0) o->log_every = 100;
  if (o->learning_rate == 0) o->learning_rate = type->learning_rate;
  if (o->schedule == NULL) o->schedule = "constant";
  LS_RETURN_IF_ERROR(check_options(o, ls_strategy_num_replicas(o->strategy)));
  LS_RETURN_IF_ERROR(ls_batcher_create(
      o->train,
      &(ls_batcher_options){.batch_size = o->batch_size,
                            .shuffle = true,
                            .seed = o->seed,
                            .drop_remainder = true,
                            .example_shape = type->example_shape},
      &it->batcher));
  it->steps_per_epoch = ls_batcher_num_batches(it->batcher);
  it->num_steps = ls_train_count_steps(type, ls_dataset_size(o->train),
                                       o->batch_size, o->epochs, o->steps);
  o->epochs = (it->num_steps - 1) / it->steps_per_epoch + 1;
  return ls_ok();
}

static ls_status begin(const ls_train_options *options, loop *it) {
  LS_RETURN_IF_ERROR(with_defaults(options, it));
  const ls_train_options *o = &it->options;
  const ls_model *model = o->model;
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = model->type->train_step,
                                                .user = model->self,
                                                .name = "train_step",
                                                .seed = o->seed},
                         &it->function));
  if (o->test != NULL)
    LS_RETURN_IF_ERROR(ls_evaluator_create(model, o->test, &it->evaluator));
  return ls_run_folder_open(&it->folder, it->runtime, o);
}

static void end(loop *it) {
  ls_run_folder_close(&it->folder);
  ls_nest_release(it->batch);
  ls_nest_release(it->results);
  ls_evaluator_destroy(it->evaluator);
  ls_function_release(it->function);
  ls_batcher_destroy(it->batcher);
}

// ---- A step ----------------------------------------------------------------
// The mean over the replicas of a scalar in the results; nan without it.
static double scalar(ls_nest results, const char *key) {
  const ls_nest leaf = ls_nest_find(results, key);
  const size_t count = ls_distributed_count(leaf);
  if (count == 0) {
    const ls_array *array = ls_nest_as_array(leaf);
    return array != NULL ? ls_array_f64(array, 0) : (double)NAN;
  }
  double sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += ls_array_f64(ls_nest_as_array(ls_distributed_component(leaf, i)), 0);
  return sum / (double)count;
}

static ls_nest split_leaf(ls_nest leaf, void *user) {
  ls_nest parts = {0};
  if (leaf.kind != LS_KIND_ARRAY) return ls_nest_retain(leaf);
  const ls_status status =
      ls_strategy_split(user, ls_nest_as_array(leaf), &parts);
  return ls_status_is_ok(status) ? parts : ls_fail(status);
}

ls_status ls_train_split(ls_strategy *strategy, ls_nest batch,
                         ls_nest *out_args) {
  const ls_nest args = ls_strategy_num_replicas(strategy) == 1
                           ? ls_nest_retain(batch)
                           : ls_nest_map(batch, split_leaf, strategy);
  ls_status status = ls_nest_status(args);
  *out_args = ls_status_is_ok(status) ? args : ls_none();
  if (!ls_status_is_ok(status)) ls_nest_release(args);
  return status;
}

static void add(window *w, double loss, double accuracy) {
  ++w->steps;
  w->loss += loss;
  w->accuracy += accuracy;
}

static ls_status step(loop *it) {
  LS_RETURN_IF_ERROR(ls_batcher_next(it->batcher, &it->batch));
  ls_nest args = {0};
  LS_RETURN_IF_ERROR(ls_train_split(it->options.strategy, it->batch, &args));
  const ls_status status = ls_strategy_run(
      it->options.strategy, ls_traced(it->function), args, &it->results);
  // Views go at once, so that the next batch is dealt into the same arrays.
  ls_nest_release(args);
  LS_RETURN_IF_ERROR(status);
  const double loss = scalar(it->results, "loss");
  const double accuracy = scalar(it->results, "accuracy");
  add(&it->epoch, loss, accuracy);
  add(&it->logged, loss, accuracy);
  ++it->result->steps;
  if (isfinite(loss)) return ls_ok();
  return ls_out_of_range(
      "the loss is %g at step %lld: the learning rate %g may be too high", loss,
      (long long)it->result->steps, it->options.learning_rate);
}

// ---- Reports ---------------------------------------------------------------
static double seconds_since(const loop *it, int64_t began) {
  return (double)(ls_runtime_now(it->runtime) - began) * 1e-9;
}

static void window_begin(const loop *it, window *w) {
  *w = (window){.began = ls_runtime_now(it->runtime)};
}

// Fills in the numbers of `w`.
static void describe(loop *it, const window *w) {
  ls_train_report *r = &it->report;
  const double seconds = seconds_since(it, w->began);
  const double steps = (double)w->steps;
  r->step = it->result->steps;
  r->epoch_step = it->epoch.steps;
  r->loss = w->loss / steps;
  r->accuracy = w->accuracy / steps;
  r->examples_per_second =
      seconds > 0 ? steps * (double)it->options.batch_size / seconds : 0;
  r->seconds = seconds_since(it, it->began);
  r->seconds_left = seconds / steps * (double)(r->num_steps - r->step);
}

static ls_status log_window(loop *it) {
  if (it->logged.steps == 0) return ls_ok();
  describe(it, &it->logged);
  LS_RETURN_IF_ERROR(ls_run_folder_log(&it->folder, &it->report));
  window_begin(it, &it->logged);
  return ls_ok();
}

static void show(loop *it) {
  if (it->options.report != NULL)
    it->options.report(it->options.report_user, &it->report);
}

// ---- Epochs ----------------------------------------------------------------
static bool stop_requested(loop *it) {
  if (ls_train_stop_requested(it->options.stop)) it->result->stopped = true;
  return it->result->stopped;
}

static ls_status test(loop *it) {
  if (it->evaluator == NULL) return ls_ok();
  ls_evaluation evaluation;
  ls_status status =
      ls_evaluator_run(it->evaluator, it->options.stop, &evaluation);
  if (ls_status_code(status) == LS_CANCELLED) {
    ls_status_free(status);
    it->result->stopped = true;
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  it->result->tested = true;
  it->result->test = evaluation;
  it->report.tested = true;
  it->report.test = evaluation;
  it->report.seconds = seconds_since(it, it->began);
  return ls_run_folder_log(&it->folder, &it->report);
}

static ls_status epoch(loop *it, int64_t number) {
  const int64_t left = it->num_steps - it->result->steps;
  it->report = (ls_train_report){.epoch = number + 1,
                                 .num_epochs = it->options.epochs,
                                 .steps_per_epoch = left < it->steps_per_epoch
                                                        ? left
                                                        : it->steps_per_epoch,
                                 .num_steps = it->num_steps};
  LS_RETURN_IF_ERROR(ls_batcher_seek(it->batcher, number, 0));
  window_begin(it, &it->epoch);
  window_begin(it, &it->logged);
  while (it->epoch.steps < it->report.steps_per_epoch && !stop_requested(it)) {
    LS_RETURN_IF_ERROR(step(it));
    if (it->logged.steps == it->options.log_every)
      LS_RETURN_IF_ERROR(log_window(it));
    describe(it, &it->epoch);
    show(it);
  }
  if (it->epoch.steps == 0) return ls_ok();
  LS_RETURN_IF_ERROR(log_window(it));
  describe(it, &it->epoch);
  if (!stop_requested(it)) LS_RETURN_IF_ERROR(test(it));
  it->report.epoch_end = true;
  show(it);
  return ls_ok();
}

ls_status ls_train(const ls_train_options *options,
                   ls_train_result *out_result) {
  *out_result = (ls_train_result){0};
  loop it = {.result = out_result};
  ls_status status = begin(options, &it);
  it.began = ls_status_is_ok(status) ? ls_runtime_now(it.runtime) : 0;
  for (int64_t i = 0; ls_status_is_ok(status) && i < it.options.epochs &&
                      out_result->steps < it.num_steps && !stop_requested(&it);
       ++i)
    status = epoch(&it, i);
  if (ls_status_is_ok(status)) {
    status = ls_run_folder_save(&it.folder, options->model, out_result->steps);
    out_result->seconds = seconds_since(&it, it.began);
  }
  end(&it);
  return status;
}
