// SPDX-License-Identifier: Apache-2.0
//
// The steps of a run: one by one, or many in a loop on the device. Work between
// steps is done at the ends of such a loop.
#include <limits.h>
#include <math.h>

#include "base/plain.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "data/iterator.h"
#include "distribute/base/strategy.h"
#include "graph/variables/variable.h"
#include "lockstep/communicator.h"
#include "lockstep/function_plan.h"
#include "lower/lower.h"
#include "tpu/own.h"
#include "tpu/strategy/strategy.h"
#include "tpu/system/resolver.h"
#include "train/input.h"
#include "train/loop.h"

// ---- Counting --------------------------------------------------------------
// Explains a loss that is no number, with the numbers found by the option
// find_nan in `source`, if any.
static ls_status explain_loss(const ls_loop *loop, ls_nest batch, double loss,
                              const char *source) {
  const long long step = (long long)ls_loop_steps(loop) + 1;
  const double rate = loop->plan.config.learning_rate;
  char data[100], text[32] = "", advice[PATH_MAX + 128] = "";
  const char *folder = loop->plan.options.run_folder;
  if (isnan(loss)) loss = fabs(loss);  // The sign is noise.
  if (ls_loop_find_infinite(loop, batch, data, sizeof(data)))
    return ls_out_of_range("the loss is %g at step %lld: %s", loss, step, data);
  if (strncmp(source, "input ", 6) == 0)
    return ls_out_of_range("the loss is %g at step %lld", loss, step);
  if (rate != 0) ls_format(text, sizeof(text), " %g", rate);
  const bool is_cpu = strcmp(ls_runtime_device(loop->runtime), "cpu") == 0;
  const bool has_none = !ls_runtime_finds_nan(loop->runtime) && isnan(loss);
  if (has_none && folder != NULL)
    ls_format(advice, sizeof(advice),
              "; to find the op that makes the first NaN, %srun 'lockstep "
              "replay %s --find-nan'",
              is_cpu ? "add --find-nan, or " : "", folder);
  else if (has_none && is_cpu)
    ls_format(advice, sizeof(advice),
              "; to find the op that makes the first NaN, set "
              "ls_runtime_options.find_nan");
  return ls_out_of_range(
      "the loss is %g at step %lld: the learning rate%s may be too high%s",
      loss, step, text, advice);
}

// Makes the failure of a step whose loss is NaN, which does not count.
static ls_status no_number(const ls_loop *loop, ls_nest batch, double loss) {
  char source[LS_NAN_TEXT] = "";
  const bool has_source =
      ls_runtime_take_nan(loop->runtime, source, sizeof(source));
  ls_status status = explain_loss(loop, batch, loss, source);
  if (has_source) status = ls_status_annotate(status, "%s", source);
  return ls_runtime_finds_nan(loop->runtime)
             ? ls_loop_name_examples(loop, status)
             : status;
}

// Counts up to `steps` steps of `examples` examples each, with results in
// `numbers`, up to the first whose loss is NaN. `batch` is that of the only
// step; a none leaf with several.
//   LS_OUT_OF_RANGE  a loss is NaN.
static ls_status count_steps(ls_loop *loop, int64_t steps, int64_t examples,
                             ls_nest batch) {
  loop->examples = examples;
  while (loop->made < steps &&
         (loop->is_guarded || isfinite(loop->numbers[loop->made].loss)))
    ++loop->made;
  loop->hooks.context.steps += loop->made;
  loop->is_ahead = loop->made < steps;
  return loop->made == steps
             ? ls_ok()
             : no_number(loop, batch, loop->numbers[loop->made].loss);
}

static ls_status reserve_numbers(ls_loop *loop, int64_t steps) {
  return ls_memory_status(LS_GROW(ls_runtime_allocator(loop->runtime),
                                  loop->numbers, loop->numbers_capacity,
                                  (size_t)steps));
}

// ---- The first step --------------------------------------------------------
static ls_status check_results(const ls_model *model, ls_nest results) {
  const char *const keys[] = {"loss", ls_model_type_task(model->type)->metric};
  for (size_t i = 0; i < LS_COUNT_OF(keys); ++i)
    if (ls_nest_find(results, keys[i]).kind == LS_KIND_NONE)
      return ls_invalid_argument(
          "the training step of model '%s' returns no \"%s\": it must return a "
          "dict of \"loss\" and, with .metrics, \"%s\"",
          model->type->name, keys[i], keys[1]);
  return ls_ok();
}

// Returns true if one of them is trainable, or a component of a trainable
// variable.
static bool any_is_trained(ls_variable *const *written, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const ls_variable *container = written[i]->container;
    if (ls_variable_is_trainable(container != NULL ? container : written[i]))
      return true;
  }
  return false;
}

// Checks that a step is as lockstep/models.h requires: returns "loss" and the
// task's metric, and changes a trainable variable.
static ls_status check_step(const ls_loop *loop) {
  const ls_model *model = loop->plan.options.model;
  if (model->type->variables(model->self, NULL, 0) == 0)
    return ls_invalid_argument("model '%s' lists no variables: there is "
                               "nothing to train or save",
                               model->type->name);
  LS_RETURN_IF_ERROR(check_results(model, loop->results));
  const ls_graph *graph = ls_function_graph(loop->function);
  LS_OWN_MEMORY(graph->allocator, ls_variable *, written) = NULL;
  size_t count = 0, capacity = 0;
  LS_RETURN_IF_ERROR(
      ls_graph_written(graph, graph->allocator, &written, &count, &capacity));
  if (!any_is_trained(written, count))
    return ls_invalid_argument(
        "the training step of model '%s' changes no trainable variable: it "
        "makes no step of an optimizer (see ls_optimizer_minimize)",
        model->type->name);
  return ls_ok();
}

// ---- A step ----------------------------------------------------------------
// Finds the mean over the batch of a scalar result; NaN without one.
static ls_status find_mean(const ls_loop *loop, ls_named_result *result,
                           ls_nest results, double *out_value) {
  ls_nest leaf = ls_none();
  *out_value = (double)NAN;
  return ls_named_result_has(result, results, &leaf)
             ? ls_train_mean(loop->args, leaf, out_value)
             : ls_ok();
}

// Finds the numbers of a step, waiting for a device that computes them.
static ls_status find_numbers(ls_loop *loop, ls_nest results,
                              ls_step_numbers *out) {
  const int64_t began = ls_runtime_now(loop->runtime);
  ls_status status = find_mean(loop, &loop->loss, results, &out->loss);
  if (ls_status_is_ok(status))
    status = find_mean(loop, &loop->accuracy, results, &out->accuracy);
  loop->spent.run += ls_runtime_now(loop->runtime) - began;
  return status;
}

// Takes the batch of step `number`; gives the previous one back for reuse.
static ls_status take_batch(ls_loop *loop, int64_t number) {
  const ls_train_options *o = &loop->plan.options;
  int64_t row = 0;
  LS_RETURN_IF_ERROR(ls_iterator_next(loop->input, &loop->args));
  const ls_status status =
      ls_train_check_labels(o->model->type, loop->args, &row);
  // On ranks, a batch has only this rank's rows.
  if (ls_status_is_ok(status) || loop->ranks.all.communicator != NULL)
    return status;
  const int64_t batch = number - 1 - loop->epoch_begin;
  return ls_train_name_example(ls_runtime_allocator(loop->runtime),
                               loop->batches, (uint64_t)o->seed, loop->epoch,
                               batch * o->batch_size + row, status);
}

// Starts the step of this number, on the next batch.
static ls_status start_step(ls_loop *loop, int64_t number, ls_nest *results) {
  const int64_t traced = ls_span_begin(loop->runtime);
  const int64_t began = ls_runtime_now(loop->runtime);
  LS_RETURN_IF_ERROR(take_batch(loop, number));
  ls_loop_end_span(loop, "input", traced, number);
  const int64_t taken = ls_runtime_now(loop->runtime);
  LS_RETURN_IF_ERROR(ls_strategy_run(loop->plan.options.strategy,
                                     ls_traced(loop->function), loop->args,
                                     results));
  loop->spent.input += taken - began;
  loop->spent.run += ls_runtime_now(loop->runtime) - taken;
  return ls_ok();
}

// Returns true if the step's loss was computed after its call had returned.
static bool is_loss_late(ls_loop *loop) {
  ls_nest leaf = ls_none();
  if (!ls_named_result_has(&loop->loss, loop->results, &leaf)) return false;
  const ls_array *loss = ls_nest_as_array(ls_distributed_component(leaf, 0));
  return loss != NULL && ls_array_arrival(loss) != NULL;
}

static ls_status take_step(ls_loop *loop) {
  LS_RETURN_IF_ERROR(start_step(loop, ls_loop_steps(loop) + 1, &loop->results));
  if (!loop->is_checked) LS_RETURN_IF_ERROR(check_step(loop));
  loop->is_checked = true;
  const int64_t examples = ls_train_batch_size(loop->args);
  LS_RETURN_IF_ERROR(ls_saves_check_program(&loop->saves, examples));
  LS_RETURN_IF_ERROR(reserve_numbers(loop, 1));
  LS_RETURN_IF_ERROR(find_numbers(loop, loop->results, loop->numbers));
  loop->is_late = is_loss_late(loop);
  return count_steps(loop, 1, examples, loop->args);
}

static ls_status run_step(ls_loop *loop) {
  const int64_t number = ls_loop_steps(loop) + 1;
  const int64_t began = ls_span_begin(loop->runtime);
  ls_status status = take_step(loop);
  if (ls_status_is_ok(status)) status = ls_loop_settle(loop);
  ls_loop_end_span(loop, "step", began, number);
  return status;
}

// ---- Steps ahead of a device -----------------------------------------------
// Returns the most steps to start before their losses are read. The caller's
// hooks run after each step.
static int64_t most_ahead(const ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  return loop->is_late && o->num_hooks == 0 &&
                 ls_train_batch_size(loop->args) == o->batch_size &&
                 ls_batch_is_even(loop->args)
             ? LS_STEPS_AHEAD
             : 1;
}

// Returns true if another step may be started before the losses are read, and
// has its batch. Progress is reported after all have been.
static bool starts_another(ls_loop *loop, int64_t began) {
  static const int64_t most_ns = 200000000;
  if (ls_runtime_now(loop->runtime) - began > most_ns) return false;
  if (ls_train_stop_requested(loop->plan.options.stop)) return false;
  ls_loop_wait_for_input(loop);
  return !loop->stalls;
}

static ls_status read_ahead(ls_loop *loop, int64_t started) {
  int64_t read = 0;
  ls_status status = ls_ok();
  while (read < started && ls_status_is_ok(status)) {
    status = find_numbers(loop, loop->ahead[read], &loop->numbers[read]);
    if (ls_status_is_ok(status)) ++read;
  }
  const ls_status counted =
      count_steps(loop, read, loop->plan.options.batch_size,
                  started == 1 ? loop->args : ls_none());
  loop->is_ahead |= read < started;
  return ls_status_join(counted, status);
}

// Runs up to `steps` steps of full batches, and then reads their losses. The
// device has work all the time.
static ls_status run_ahead(ls_loop *loop, int64_t steps) {
  const int64_t first = ls_loop_steps(loop);
  const int64_t began = ls_runtime_now(loop->runtime);
  int64_t started = 0;
  ls_status status = reserve_numbers(loop, steps);
  while (started < steps && ls_status_is_ok(status) &&
         (started == 0 || starts_another(loop, began))) {
    const int64_t traced = ls_span_begin(loop->runtime);
    status = start_step(loop, first + started + 1, &loop->ahead[started]);
    ls_loop_end_span(loop, "step", traced, first + started + 1);
    if (ls_status_is_ok(status)) ++started;
  }
  return ls_status_join(read_ahead(loop, started), status);
}

// ---- A loop of steps -------------------------------------------------------
// Finds the pod to whose infeeds the strategy's computations refer, which the
// caller releases. NULL: none, or more than one candidate.
static ls_pod *find_pod(const ls_loop *loop) {
  const ls_tpu_strategy *strategy =
      ls_tpu_strategy_of(loop->plan.options.strategy);
  if (strategy != NULL)
    return ls_pod_of_id(loop->runtime, strategy->resolver->id);
  ls_system_id *id = NULL;
  ls_status_free(ls_system_here(loop->runtime, "a loop of steps", NULL, &id));
  ls_pod *pod = ls_pod_of_id(loop->runtime, id);
  ls_object_release(id);
  return pod;
}

// Returns true if all replicas are on cores of that pod.
static bool has_infeeds(const ls_loop *loop) {
  const ls_strategy *strategy = loop->plan.options.strategy;
  const int32_t replicas = ls_strategy_num_replicas(strategy);
  LS_OWN(ls_pod, pod) = find_pod(loop);
  bool has = pod != NULL && ls_pod_is_initialized(pod) &&
             ls_strategy_devices(strategy) != NULL;
  for (int32_t r = 0; r < replicas && has; ++r) {
    ls_core *core = NULL;
    ls_status_free(ls_strategy_core(strategy, r, &core));
    has = core != NULL && core->pod == pod;
    ls_core_release(core);
  }
  return has;
}

ls_status ls_loop_check_options(const ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  if (o->iterations_per_loop == 1) return ls_ok();
  if (loop->ranks.all.communicator != NULL)
    return ls_unimplemented("loops of %lld steps on %d ranks: there a step is "
                            "a run of its own (iterations_per_loop 1)",
                            (long long)o->iterations_per_loop,
                            loop->ranks.all.communicator->ranks);
  if (o->loop_infeed != LS_FLAG_ON || has_infeeds(loop)) return ls_ok();
  return ls_invalid_argument(
      "loops of steps are to be fed by infeeds, but %s is not on cores of a "
      "TPU system that is initialized",
      ls_strategy_label(o->strategy));
}

static int64_t smaller_of(int64_t a, int64_t b) { return a < b ? a : b; }

// Returns the most steps of a loop: loops end at lines of metrics.jsonl and at
// the end of an epoch.
static int64_t most_steps(const ls_run_plan *plan) {
  const ls_train_options *o = &plan->options;
  const int64_t most = smaller_of(o->iterations_per_loop, o->log_every);
  return smaller_of(most, smaller_of(plan->steps_per_epoch, plan->num_steps));
}

static bool is_by_infeed(const ls_loop *loop) {
  const ls_flag flag = loop->plan.options.loop_infeed;
  return flag == LS_FLAG_DEFAULT ? has_infeeds(loop) : flag == LS_FLAG_ON;
}

// Makes the device loop after a full batch, whose shapes all its batches have.
static ls_status prepare_loop(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  const int64_t most = most_steps(&loop->plan);
  if (most == 1 || loop->device_loop != NULL || !loop->is_checked ||
      ls_train_batch_size(loop->args) != o->batch_size)
    return ls_ok();
  if (!ls_batch_is_even(loop->args)) {
    ls_log_limited(
        loop->runtime, "parts of other sizes in a loop", 1, LS_LOG_INFO,
        "train",
        "batches of %lld examples are split over %d replicas in parts of "
        "different sizes: steps run one by one, not in loops of %lld",
        (long long)o->batch_size, ls_strategy_num_replicas(o->strategy),
        (long long)o->iterations_per_loop);
    return ls_ok();
  }
  return ls_device_loop_create(
      &(ls_device_loop_options){.from = {.runtime = loop->runtime,
                                         .strategy = o->strategy,
                                         .type = o->model->type,
                                         .input = loop->input,
                                         .stop = o->stop,
                                         .like = loop->args},
                                .results = loop->results,
                                .model = *o->model,
                                .seed = o->seed,
                                .most = most,
                                .by_infeed = is_by_infeed(loop)},
      &loop->device_loop);
}

// Returns the number of steps of the next run, within the epoch, whose last
// batch may be partial.
static int64_t find_length(const ls_loop *loop) {
  const ls_run_plan *plan = &loop->plan;
  const int64_t most =
      loop->device_loop != NULL ? most_steps(plan) : most_ahead(loop);
  if (most == 1) return 1;
  int64_t left = loop->steps_per_epoch - ls_loop_epoch_steps(loop);
  if (loop->steps_per_epoch == plan->steps_per_epoch &&
      plan->examples % plan->options.batch_size != 0)
    --left;
  left = smaller_of(left, most);
  return left > 1 ? left : 1;
}

static ls_status take_numbers(ls_loop *loop, int64_t steps) {
  LS_RETURN_IF_ERROR(reserve_numbers(loop, steps));
  for (int64_t k = 0; k < steps; ++k)
    LS_RETURN_IF_ERROR(
        ls_device_loop_numbers(loop->device_loop, k, &loop->numbers[k]));
  return count_steps(loop, steps, loop->plan.options.batch_size, ls_none());
}

// Runs `steps` steps in a loop, or fewer if a stop is requested.
static ls_status run_loop(ls_loop *loop, int64_t steps) {
  const int64_t first = ls_loop_steps(loop);
  const int64_t traced = ls_span_begin(loop->runtime);
  const int64_t began = ls_runtime_now(loop->runtime);
  ls_feeder_result fed;
  LS_RETURN_IF_ERROR(
      ls_device_loop_run(loop->device_loop, steps, (uint64_t)first, &fed));
  loop->spent.run += ls_runtime_now(loop->runtime) - began;
  ls_loop_end_span(loop, "loop", traced, first + fed.batches);
  // Random ops of the function continue after the loop's steps.
  ls_function_set_steps(loop->function, (uint64_t)(first + fed.batches));
  if (fed.asked) loop->was_asked = true;
  loop->stalls = fed.stalls;
  return ls_status_join(take_numbers(loop, fed.batches), fed.status);
}

// ---- A run -----------------------------------------------------------------
// Makes a run. Some steps of a failed loop may count: hooks see them, unless
// later steps have changed the variables.
ls_status ls_loop_make_run(void *user, bool *out_has_run) {
  ls_loop *loop = user;
  ls_run_context *context = &loop->hooks.context;
  LS_RETURN_IF_ERROR(prepare_loop(loop));
  int64_t count = find_length(loop);
  LS_RETURN_IF_ERROR(ls_hook_list_count_steps(&loop->hooks, &count));
  const bool is_loop = count > 1 && loop->device_loop != NULL;
  loop->made = 0;
  // Forgets what was found before these steps, as in an evaluation.
  char source[LS_NAN_TEXT];
  (void)ls_runtime_take_nan(loop->runtime, source, sizeof(source));
  ls_status status = count == 1 ? run_step(loop)
                     : is_loop  ? run_loop(loop, count)
                                : run_ahead(loop, count);
  if (ls_status_code(status) == LS_CANCELLED && ls_loop_ends_trace(loop)) {
    ls_status_free(status);
    return ls_ok();
  }
  *out_has_run = loop->made > 0 && !loop->is_ahead &&
                 (count > 1 || ls_status_is_ok(status));
  context->called.args = loop->args;
  context->results = is_loop ? ls_device_loop_results(loop->device_loop)
                     : count > 1 && loop->made > 0 ? loop->ahead[loop->made - 1]
                                                   : loop->results;
  return status;
}
