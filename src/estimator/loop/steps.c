// SPDX-License-Identifier: Apache-2.0
// Steps on a replica's core: each takes a tuple from the infeed, calls the
// model function, and sends tensors to the hosts.
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "distribute/values/values.h"
#include "estimator/input/input.h"
#include "estimator/loop/program.h"
#include "graph/region.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/flow.h"
#include "lockstep/ops.h"
#include "lockstep/replica.h"
#include "lockstep/tensor_tracer.h"
#include "nn/shares.h"

// ---- Losses -----------------------------------------------------------------
// Each replica sums its losses in order of steps; the replicas' sums are added
// once, at the end of a run, along the canonical tree.

// Returns the type in which losses are summed.
static ls_dtype find_wide(const ls_model_steps *steps) {
  return ls_wide_dtype(steps->loss_dtype);
}

// Returns the weight of this replica, from its number of examples; in an
// evaluation, from those of all steps.
static ls_shares find_shares(const ls_model_steps *steps, ls_tensor examples) {
  return (ls_shares){.replicas = (int32_t)steps->num_replicas,
                     .differ = ls_model_steps_count_examples(steps),
                     .count = examples};
}

// Stores a step's loss in the state. An evaluation adds the loss to those of
// earlier steps.
static ls_status add_loss(ls_model_steps *steps, ls_tensor loss,
                          ls_tensor examples, ls_tensor *state) {
  const bool counts = ls_model_steps_count_examples(steps);
  if (!ls_dtype_is_float(ls_tensor_dtype(loss)))
    return ls_invalid_argument(
        "the loss of a step must be of a float type: '%s' is %s",
        ls_tensor_name(loss), ls_dtype_name(ls_tensor_dtype(loss)));
  steps->loss_dtype = ls_tensor_dtype(loss);
  const ls_dtype wide = find_wide(steps);
  if (steps->mode == LS_MODE_TRAIN) {
    state[LS_STATE_LOSS] = ls_convert(loss, LS_DTYPE_F64);
    if (counts) state[LS_STATE_EXAMPLES] = examples;
    return ls_ok();
  }
  const ls_shares shares = find_shares(steps, examples);
  ls_tensor added = ls_convert(loss, wide);
  if (counts) {
    added = ls_shares_given(&shares, true, added);
    state[LS_STATE_EXAMPLES] = ls_add(state[LS_STATE_EXAMPLES], examples);
  }
  state[LS_STATE_LOSS] = ls_convert(
      ls_add(ls_convert(state[LS_STATE_LOSS], wide), added), LS_DTYPE_F64);
  return ls_ok();
}

// Reduces over the replicas whose losses are reported: all replicas, or the
// first.
static ls_tensor reduce_loss(const ls_model_steps *steps, ls_reduce_op op,
                             ls_tensor x) {
  return steps->options->replica_0_loss ? x : ls_all_reduce(op, x);
}

// Returns the loss of a training's last step.
static ls_tensor train_loss(const ls_model_steps *steps,
                            const ls_tensor *state) {
  const ls_tensor loss = ls_convert(state[LS_STATE_LOSS], find_wide(steps));
  if (steps->options->replica_0_loss) return loss;
  const bool counts = steps->options->any_batch;
  const ls_tensor examples =
      counts ? state[LS_STATE_EXAMPLES] : ls_failed_tensor();
  ls_shares shares = find_shares(steps, examples);
  if (counts) shares.total = reduce_loss(steps, LS_REDUCE_SUM, examples);
  return ls_shares_mean(&shares, loss);
}

// Returns the mean loss of all steps: per example if the numbers of examples
// may differ, else per step. The mean of no steps is 0.
static ls_tensor eval_loss(const ls_model_steps *steps, const ls_tensor *state,
                           ls_tensor count) {
  const ls_dtype wide = find_wide(steps);
  const ls_tensor one = ls_scalar_i64(LS_DTYPE_I64, 1);
  const ls_tensor total = ls_convert(state[LS_STATE_LOSS], wide);
  if (steps->options->any_batch) {
    const ls_tensor sum = reduce_loss(steps, LS_REDUCE_SUM, total);
    const ls_tensor examples =
        reduce_loss(steps, LS_REDUCE_SUM, state[LS_STATE_EXAMPLES]);
    return ls_shares_divided(ls_maximum(examples, one), sum, wide);
  }
  const ls_tensor divisor = ls_convert(ls_maximum(count, one), wide);
  return ls_div(reduce_loss(steps, LS_REDUCE_MEAN, total), divisor);
}

// ---- Summaries of the model ------------------------------------------------
// Skips a summary of the model, because steps on cores write none; hosts write
// summaries in host calls.
static ls_status leave_out(void *user, const char *tag) {
  ls_model_steps *steps = user;
  if (steps->has_left_out) return ls_ok();
  steps->has_left_out = true;
  ls_runtime_log(
      ls_runtime_current(), LS_LOG_WARNING, "estimator",
      "the summary '%s' of model_fn, and others like it, are not written where "
      "training is on TPUs: give the values to the function of host_call, "
      "which writes them with ls_summary_scalar and others",
      tag);
  return ls_ok();
}

static void drop_nothing(void *user) { (void)user; }

static const ls_summary_writer_kind leaving_out = {
    .name = "none on cores", .destroy = drop_nothing, .instead = leave_out};

// ---- Making ----------------------------------------------------------------
ls_status ls_model_steps_init(ls_model_steps *steps,
                              const ls_program_options *options) {
  const ls_plan *plan = options->calls->plan;
  *steps = (ls_model_steps){.options = options,
                            .allocator = ls_current_allocator(),
                            .mode = plan->mode,
                            .num_replicas = plan->system->num_replicas,
                            .loss_dtype = LS_DTYPE_F32};
  ls_host_calls_init(&steps->host, plan);
  LS_RETURN_IF_ERROR(
      ls_iterations_per_loop(ls_graph_current(), &steps->iterations));
  return steps->mode == LS_MODE_TRAIN
             ? ls_summary_writer_make(&leaving_out, NULL, steps,
                                      &steps->summaries)
             : ls_ok();
}

void ls_model_steps_deinit(ls_model_steps *steps) {
  ls_estimator_spec_release(steps->spec.value);
  ls_summary_writer_release(steps->summaries);
  ls_host_calls_deinit(&steps->host);
  *steps = (ls_model_steps){0};
}

// ---- The cache -------------------------------------------------------------
static ls_tensor *find_cache(const ls_model_steps *steps, ls_tensor *state) {
  return state + 1 + ls_model_steps_count_examples(steps);
}

// Returns the number of examples of a replica's batch, for its cache.
static int64_t cache_batch(const ls_plan *plan) {
  const int64_t size = plan->model_batch_size.value;
  // Divides the size by the number of replicas if each replica gets the whole
  // batch.
  return plan->input.way == LS_FEED_ALL ? size / plan->system->num_replicas
                                        : size;
}

static ls_status call_cache(const ls_model_steps *steps, ls_nest *out_cache) {
  const ls_cache_function *function = &steps->options->cache;
  if (function->call == NULL || ls_model_steps_predict(steps)) return ls_ok();
  LS_RETURN_IF_ERROR(ls_take_nest(
      function->call(function->user, cache_batch(steps->options->calls->plan)),
      out_cache));
  const ls_kind kind = out_cache->kind;
  return kind == LS_KIND_LIST || kind == LS_KIND_TUPLE || kind == LS_KIND_NONE
             ? ls_ok()
             : ls_invalid_argument(
                   "the cache function must give a list of tensors");
}

// Replaces the cache by the values that the model returned for the next step.
static ls_status replace_cache(const ls_model_steps *steps,
                               const ls_estimator_spec_options *spec,
                               ls_tensor *cache) {
  if (spec->cache_size != steps->cache_size)
    return ls_invalid_argument(
        "the cache of a step has %zu tensors, and the spec of model_fn has %zu "
        "for the next one: the numbers must be equal",
        steps->cache_size, spec->cache_size);
  for (size_t i = 0; i < steps->cache_size; ++i) {
    const ls_dtype former = ls_tensor_dtype(cache[i]);
    const ls_dtype dtype = ls_tensor_dtype(spec->cache[i]);
    if (dtype != former)
      return ls_invalid_argument(
          "tensor %zu of the cache is %s at first, and %s for the next step", i,
          ls_dtype_name(former), ls_dtype_name(dtype));
    cache[i] = spec->cache[i];
  }
  return ls_ok();
}

// ---- A step ----------------------------------------------------------------
typedef struct step {
  ls_model_steps *steps;
  const ls_step *loop;
  ls_tensor *state;
  ls_feed_element fed;
  // Number of examples on this replica, an i64; set with batches of any size.
  ls_tensor examples;
  ls_estimator_spec *spec;  // Borrowed.
  const ls_estimator_spec_options *spec_options;
  ls_op sent;  // The send to the hosts; id 0: nothing is sent.
} step;

// Lists the cache for the model's arguments; none if there is no cache.
static ls_nest list_cache(const step *s) {
  if (ls_model_steps_predict(s->steps)) return ls_none();
  const ls_tensor *cache = find_cache(s->steps, s->state);
  LS_OWN(ls_nest_builder, list) = {0};
  for (size_t i = 0; i < s->steps->cache_size; ++i)
    ls_nest_builder_append(&list, ls_leaf(cache[i]));
  return ls_nest_builder_finish(&list, LS_KIND_LIST);
}

static ls_status steps_call_model(step *s, ls_nest cache) {
  const ls_model_inputs inputs = {.features = s->fed.features,
                                  .labels = s->fed.labels,
                                  .cache = cache,
                                  .mask = ls_nest_tensor(s->fed.mask, 0)};
  LS_SCOPE_BLOCK_(summaries);
  LS_SCOPE_BLOCK_(examples);
  if (s->steps->summaries != NULL)
    ls_summary_scope_begin(&summaries, s->steps->summaries);
  if (ls_model_steps_count_examples(s->steps))
    ls_examples_scope_begin(&examples, s->examples);
  LS_RETURN_IF_ERROR(ls_scope_status());
  return ls_call_model(s->steps->options->calls, &inputs, &s->spec);
}

static ls_status make_model(step *s) {
  ls_model_steps *steps = s->steps;
  LS_OWN(ls_nest, cache) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(list_cache(s), &cache));
  LS_RETURN_IF_ERROR(steps_call_model(s, cache));
  const ls_status status =
      ls_captured_set(&steps->spec, "the spec of model_fn", s->spec);
  if (!ls_status_is_ok(status)) {
    ls_estimator_spec_release(s->spec);
    return status;
  }
  s->spec_options = ls_estimator_spec_values(s->spec);
  return ls_graph_take_error(ls_graph_current());
}

// ---- Sending to hosts ------------------------------------------------------
static ls_status send_to_hosts(step *s) {
  const int64_t every = s->steps->options->calls->plan->host_call_every;
  if (ls_estimator_spec_is_tpu(s->spec))
    LS_RETURN_IF_ERROR(ls_host_calls_record(&s->steps->host, "host_call",
                                            &s->spec_options->host_call));
  LS_RETURN_IF_ERROR(ls_host_calls_pace(&s->steps->host));
  if (every <= 1) return ls_host_calls_enqueue(&s->steps->host, NULL, &s->sent);
  const ls_tensor rest =
      ls_remainder(s->loop->index, ls_scalar_i64(LS_DTYPE_I64, every));
  const ls_tensor is_nth = ls_equal(rest, ls_scalar_i64(LS_DTYPE_I64, 0));
  return ls_host_calls_enqueue(&s->steps->host, &is_nth, &s->sent);
}

// ---- Modes -----------------------------------------------------------------
static ls_status steps_train_step(step *s) {
  LS_OWN(ls_nest, traced) = ls_none();
  ls_tensor loss = s->spec_options->loss;
  if (ls_tensor_tracer_is_on())
    LS_RETURN_IF_ERROR(
        ls_trace_tpu(loss, s->spec_options->train_op, &loss, &traced));
  const size_t count = ls_nest_count(traced);
  LS_OWN_ARRAY_OR_RETURN(s->steps->allocator, ls_op, ops, count + 1);
  ops[0] = s->spec_options->train_op;
  for (size_t i = 0; i < count; ++i)
    ops[1 + i] = ls_nest_item(traced, i).as.op;
  // Finishes a training step: hosts get the step's tensors after its ops, and
  // the loss waits until they were sent.
  LS_CONTROL_SCOPE(ops, count + 1);
  LS_RETURN_IF_ERROR(send_to_hosts(s));
  LS_CONTROL_SCOPE(&s->sent, s->sent.id != 0);
  return add_loss(s->steps, ls_identity(loss), s->examples, s->state);
}

static ls_status eval_step(step *s) {
  LS_RETURN_IF_ERROR(ls_host_calls_record(&s->steps->host, "eval_metrics",
                                          &s->spec_options->eval_metrics));
  LS_RETURN_IF_ERROR(send_to_hosts(s));
  LS_CONTROL_SCOPE(&s->sent, s->sent.id != 0);
  return add_loss(s->steps, s->spec_options->loss, s->examples, s->state);
}

static ls_status predict_step(step *s) {
  LS_RETURN_IF_ERROR(ls_host_calls_record(
      &s->steps->host, "predictions",
      &(ls_host_function){.tensors = s->spec_options->predictions}));
  LS_RETURN_IF_ERROR(
      ls_host_calls_record(&s->steps->host, "signals",
                           &(ls_host_function){.tensors = s->fed.signals}));
  return send_to_hosts(s);
}

static ls_status build_step(step *s) {
  static ls_status (*const finish[LS_NUM_MODES])(step * s) = {
      [LS_MODE_TRAIN] = steps_train_step,
      [LS_MODE_EVAL] = eval_step,
      [LS_MODE_PREDICT] = predict_step};
  ls_model_steps *steps = s->steps;
  LS_RETURN_IF_ERROR(ls_recorder_unflatten(steps->options->feed->structure,
                                           s->loop->elements, &s->fed));
  if (ls_model_steps_count_examples(steps))
    s->examples = ls_reduce_sum(
        ls_convert(ls_nest_tensor(s->fed.mask, 0), LS_DTYPE_I64), LS_ALL_AXES);
  LS_RETURN_IF_ERROR(make_model(s));
  LS_RETURN_IF_ERROR(finish[steps->mode](s));
  return ls_model_steps_predict(steps)
             ? ls_ok()
             : replace_cache(steps, s->spec_options,
                             find_cache(steps, s->state));
}

static ls_status make_step(ls_step *loop, void *user) {
  step s = {.steps = user, .loop = loop, .state = loop->state};
  const ls_status status = build_step(&s);
  ls_feed_element_drop(&s.fed);
  return status;
}

// ---- The computation -------------------------------------------------------
// Fills the initial state of a run, including the cache.
static ls_status begin_state(const ls_model_steps *steps, ls_nest cache,
                             ls_tensor *state) {
  const bool trains = steps->mode == LS_MODE_TRAIN;
  if (ls_model_steps_predict(steps)) return ls_ok();
  state[LS_STATE_LOSS] =
      ls_scalar(LS_DTYPE_F64, trains ? LS_INITIAL_LOSS : LS_ZERO_LOSS);
  // A training that makes no step reports the initial loss; one example keeps
  // its mean defined.
  if (ls_model_steps_count_examples(steps))
    state[LS_STATE_EXAMPLES] = ls_scalar_i64(LS_DTYPE_I64, trains);
  ls_tensor *first = find_cache(steps, state);
  for (size_t i = 0; i < steps->cache_size; ++i)
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_region_tensor(ls_nest_item(cache, i), &first[i]),
                           "item %zu of the cache function's result", i));
  return ls_ok();
}

static ls_status compute_results(ls_model_steps *steps, ls_nest *out_results) {
  const bool predicts = ls_model_steps_predict(steps);
  ls_step_loop loop = {
      .step = make_step,
      .limit = ls_convert(ls_variable_read(steps->iterations), LS_DTYPE_I64),
      .user = steps,
      .infeed = steps->options->feed->queue};
  ls_tensor count;
  LS_OWN(ls_nest, cache) = ls_none();
  LS_RETURN_IF_ERROR(call_cache(steps, &cache));
  steps->cache_size = ls_nest_count(cache);
  const size_t fixed = !predicts + ls_model_steps_count_examples(steps);
  const size_t num_state = fixed + steps->cache_size;
  LS_OWN_ARRAY_OR_RETURN(steps->allocator, ls_tensor, state, num_state);
  LS_RETURN_IF_ERROR(begin_state(steps, cache, state));
  LS_RETURN_IF_ERROR(ls_step_loop_build(&loop, state, num_state, &count));
  if (predicts) return ls_take_nest(LS_LIST(ls_leaf(count)), out_results);
  // The loss over all replicas.
  const ls_tensor loss = steps->mode == LS_MODE_TRAIN
                             ? train_loss(steps, state)
                             : eval_loss(steps, state, count);
  return ls_take_nest(LS_LIST(ls_leaf(count), ls_leaf(loss)), out_results);
}

ls_nest ls_model_steps_compute(ls_nest args, void *steps) {
  ls_nest results = ls_none();
  (void)args;
  return ls_made_nest(compute_results(steps, &results), &results);
}
