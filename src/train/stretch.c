// SPDX-License-Identifier: Apache-2.0
//
// Many steps in one run. What is done between steps is done at its ends.
#include "base/runtime_internal.h"
#include "distribute/base/strategy.h"
#include "lockstep/function_plan.h"
#include "lockstep/trunk.h"
#include "tpu/own.h"
#include "tpu/strategy/strategy.h"
#include "tpu/system/resolver.h"
#include "train/loop.h"

// The pod whose infeeds the strategy's computations mean; NULL: there is none,
// or several may be meant. The caller releases it.
static ls_pod *stretch_find_pod(const ls_loop *it) {
  const ls_tpu_strategy *strategy =
      ls_tpu_strategy_of(it->plan.options.strategy);
  if (strategy != NULL)
    return ls_pod_of_id(it->runtime, strategy->resolver->id);
  ls_system_id *id = NULL;
  ls_status_free(ls_system_here(it->runtime, "a loop of steps", NULL, &id));
  ls_pod *pod = ls_pod_of_id(it->runtime, id);
  ls_object_release(id);
  return pod;
}

// Whether all replicas are on cores of that pod.
static bool has_infeeds(const ls_loop *it) {
  const ls_strategy *strategy = it->plan.options.strategy;
  const int32_t replicas = ls_strategy_num_replicas(strategy);
  LS_OWN(ls_pod, pod) = stretch_find_pod(it);
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

ls_status ls_stretch_check(const ls_loop *it) {
  const ls_train_options *o = &it->plan.options;
  if (o->iterations_per_loop == 1) return ls_ok();
  if (it->ranks.trunk != NULL)
    return ls_unimplemented("loops of %lld steps on %d ranks: there a step is "
                            "a run of its own (iterations_per_loop 1)",
                            (long long)o->iterations_per_loop,
                            it->ranks.trunk->ranks);
  if (o->loop_infeed != LS_FLAG_ON || has_infeeds(it)) return ls_ok();
  return ls_invalid_argument(
      "loops of steps are to be fed by infeeds, but %s is not on cores of a "
      "TPU system that is initialized",
      ls_strategy_label(o->strategy));
}

static int64_t stretch_least(int64_t a, int64_t b) { return a < b ? a : b; }

// Returns how many steps a loop has at most, for which it has room: it ends at
// a line of metrics.jsonl and at the end of an epoch, however many are allowed.
static int64_t most_steps(const ls_run_plan *plan) {
  const ls_train_options *o = &plan->options;
  const int64_t most = stretch_least(o->iterations_per_loop, o->log_every);
  return stretch_least(most,
                       stretch_least(plan->steps_per_epoch, plan->num_steps));
}

static bool is_by_infeed(const ls_loop *it) {
  const ls_flag flag = it->plan.options.loop_infeed;
  return flag == LS_FLAG_DEFAULT ? has_infeeds(it) : flag == LS_FLAG_ON;
}

// A batch that is full says what all others of a loop are like.
ls_status ls_stretch_prepare(ls_loop *it) {
  const ls_train_options *o = &it->plan.options;
  if (most_steps(&it->plan) == 1 || it->device_loop != NULL || !it->checked ||
      ls_train_batch_size(it->args) != o->batch_size)
    return ls_ok();
  if (!ls_batch_is_even(it->args)) {
    ls_log_limited(
        it->runtime, "parts of other sizes in a loop", 1, LS_LOG_INFO, "train",
        "batches of %lld examples are dealt to %d replicas in parts "
        "of other sizes: steps run one by one, not in loops of %lld",
        (long long)o->batch_size, ls_strategy_num_replicas(o->strategy),
        (long long)o->iterations_per_loop);
    return ls_ok();
  }
  return ls_device_loop_create(
      &(ls_device_loop_options){.from = {.runtime = it->runtime,
                                         .strategy = o->strategy,
                                         .type = o->model->type,
                                         .input = it->input,
                                         .stop = o->stop,
                                         .like = it->args},
                                .results = it->results,
                                .model = *o->model,
                                .seed = o->seed,
                                .most = most_steps(&it->plan),
                                .by_infeed = is_by_infeed(it)},
      &it->device_loop);
}

int64_t ls_stretch_length(const ls_loop *it) {
  const ls_run_plan *plan = &it->plan;
  const ls_run_place *place = &it->place;
  const int64_t batch = plan->options.batch_size;
  if (it->device_loop == NULL) return 1;
  int64_t left = place->steps_per_epoch - ls_run_epoch_steps(place);
  const bool is_whole = place->steps_per_epoch == plan->steps_per_epoch;
  const bool last_is_full = plan->examples % batch == 0;
  if (is_whole && !last_is_full) --left;
  left = stretch_least(left, most_steps(plan));
  return left > 1 ? left : 1;
}

static ls_status take_numbers(ls_loop *it, int64_t steps) {
  if (!ls_grow(ls_runtime_allocator(it->runtime), &it->numbers,
               &it->numbers_capacity, (size_t)steps, sizeof(*it->numbers)))
    return ls_out_of_memory();
  for (int64_t k = 0; k < steps; ++k)
    LS_RETURN_IF_ERROR(
        ls_device_loop_numbers(it->device_loop, k, &it->numbers[k]));
  return ls_ok();
}

ls_status ls_stretch_run(ls_loop *it, int64_t steps) {
  const uint64_t number = ls_function_steps(it->function);
  const int64_t traced = ls_span_begin(it->runtime);
  const int64_t began = ls_runtime_now(it->runtime);
  ls_feeder_result fed;
  LS_RETURN_IF_ERROR(ls_device_loop_run(it->device_loop, steps, number, &fed));
  it->place.spent.run += ls_runtime_now(it->runtime) - began;
  ls_run_end_span(&it->place, "loop", traced,
                  ls_run_steps(&it->place) + fed.batches);
  ls_function_set_steps(it->function, number + (uint64_t)fed.batches);
  if (fed.asked) it->asked = true;
  it->place.stalls = fed.stalls;
  ls_status status = take_numbers(it, fed.batches);
  if (ls_status_is_ok(status))
    status = ls_loop_count(it, fed.batches, it->plan.options.batch_size);
  return ls_status_join(status, fed.status);
}
