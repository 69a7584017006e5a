// SPDX-License-Identifier: Apache-2.0
// Steps on a replica's core: each takes a tuple of the infeed, calls the model
// function on it, and tells the hosts.
#include "estimator/loop/steps.h"

#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/values/summary.h"
#include "estimator/input/stopping_signals.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/flow.h"
#include "lockstep/replica.h"
#include "lockstep/tensor_tracer.h"
#include "lockstep/training_loop.h"

// ---- Summaries of the model ------------------------------------------------
// Steps on cores write none: their hosts do, by the host call.
static ls_status leave_out(void *user, const char *tag) {
  ls_step_loop *steps = user;
  if (steps->summary_left_out) return ls_ok();
  steps->summary_left_out = true;
  ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "estimator",
                 "the summary '%s' of model_fn, and others like it, are not "
                 "written where training is on TPUs: give the values to the "
                 "function of host_call, which writes them with "
                 "ls_summary_scalar and others",
                 tag);
  return ls_ok();
}

static void drop_nothing(void *user) { (void)user; }

static const ls_summary_writer_kind leaving_out = {
    .name = "none on cores", .destroy = drop_nothing, .instead = leave_out};

// ---- Making ----------------------------------------------------------------
ls_status ls_step_loop_init(ls_step_loop *steps,
                            const ls_program_options *options) {
  const ls_plan *plan = options->calls->plan;
  *steps = (ls_step_loop){.options = options,
                          .allocator = ls_current_allocator(),
                          .mode = plan->mode,
                          .replicas = plan->system->num_replicas,
                          .loss_dtype = LS_DTYPE_F32};
  ls_host_calls_init(&steps->host, plan);
  if (!ls_step_loop_predict(steps))
    LS_RETURN_IF_ERROR(
        ls_iterations_per_loop(ls_graph_current(), &steps->iterations));
  return steps->mode == LS_MODE_TRAIN
             ? ls_summary_writer_make(&leaving_out, NULL, steps,
                                      &steps->summaries)
             : ls_ok();
}

void ls_step_loop_deinit(ls_step_loop *steps) {
  ls_estimator_spec_release(steps->spec.value);
  ls_summary_writer_release(steps->summaries);
  ls_host_calls_deinit(&steps->host);
  ls_release(steps->allocator, steps->cache_dtypes);
  *steps = (ls_step_loop){0};
}

// ---- A step ----------------------------------------------------------------
typedef struct step {
  ls_step_loop *steps;
  ls_feed_element_values fed;
  ls_tensor examples;  // Of this replica, with batches of any size; an i64.
  ls_estimator_spec *spec;  // Lent.
  const ls_estimator_spec_options *spec_options;
  ls_carried carried;
  ls_op told;  // That hosts are told by; id 0: they are not.
} step;

static ls_status steps_call_model(step *s, ls_nest cache) {
  const ls_model_inputs inputs = {.features = s->fed.features,
                                  .labels = s->fed.labels,
                                  .cache = cache,
                                  .mask = s->fed.mask};
  LS_SCOPE_BLOCK_(summaries);
  LS_SCOPE_BLOCK_(examples);
  if (s->steps->summaries != NULL)
    ls_summary_scope_begin(&summaries, s->steps->summaries);
  if (s->steps->options->any_batch && !ls_step_loop_predict(s->steps))
    ls_examples_scope_begin(&examples, s->examples);
  LS_RETURN_IF_ERROR(ls_scope_status());
  return ls_call_model(s->steps->options->calls, &inputs, &s->spec);
}

static ls_status make_model(step *s) {
  ls_step_loop *steps = s->steps;
  const ls_nest cache = ls_carried_cache(steps, &s->carried);
  ls_status status = ls_nest_status(cache);
  if (ls_status_is_ok(status)) status = steps_call_model(s, cache);
  ls_nest_release(cache);
  LS_RETURN_IF_ERROR(status);
  status = ls_captured_set(&steps->spec, "the spec of model_fn", s->spec);
  if (!ls_status_is_ok(status)) {
    ls_estimator_spec_release(s->spec);
    return status;
  }
  s->spec_options = ls_estimator_spec_values(s->spec);
  return ls_graph_take_error(ls_graph_current());
}

// ---- Telling the hosts -----------------------------------------------------
// With the mask behind a list's tensors, or as "mask" in a dict: metrics count
// by it.
static ls_status with_mask(const step *s, ls_nest tensors, ls_nest *out_nest) {
  ls_allocator *allocator = s->steps->allocator;
  const size_t count = ls_nest_count(tensors);
  const bool is_dict = tensors.kind == LS_KIND_DICT;
  ls_nest *items = ls_new_array(allocator, ls_nest, count + 1);
  const char **keys = ls_new_array(allocator, const char *, count + 1);
  ls_status status =
      items == NULL || keys == NULL ? ls_out_of_memory() : ls_ok();
  if (ls_status_is_ok(status)) {
    for (size_t i = 0; i < count; ++i) {
      items[i] = ls_nest_retain(ls_nest_item(tensors, i));
      keys[i] = ls_nest_key(tensors, i);
    }
    items[count] = ls_leaf(s->fed.mask);
    keys[count] = "mask";
    status =
        ls_take_nest(is_dict ? ls_nest_dict("", keys, items, count + 1)
                             : ls_nest_sequence(LS_KIND_LIST, items, count + 1),
                     out_nest);
  }
  ls_release(allocator, items);
  ls_release(allocator, keys);
  return status;
}

static ls_status record_metrics(const step *s) {
  ls_host_function metrics = s->spec_options->eval_metrics;
  ls_nest tensors = ls_none();
  const bool has_mask =
      s->steps->options->any_batch &&
      ls_nest_find(metrics.tensors, "mask").kind == LS_KIND_NONE;
  if (metrics.call == NULL || !has_mask)
    return ls_host_calls_record(&s->steps->host, "eval_metrics", &metrics);
  LS_RETURN_IF_ERROR(with_mask(s, metrics.tensors, &tensors));
  metrics.tensors = tensors;
  const ls_status status =
      ls_host_calls_record(&s->steps->host, "eval_metrics", &metrics);
  ls_nest_release(tensors);
  return status;
}

static ls_status record_predictions(const step *s) {
  static const char *const keys[] = {LS_SIGNAL_STOPPING, LS_SIGNAL_PADDING};
  const ls_nest values[] = {ls_leaf(s->fed.stopping), ls_leaf(s->fed.padding)};
  const bool pads = !ls_tensor_is_failed(s->fed.padding);
  LS_RETURN_IF_ERROR(ls_host_calls_record(
      &s->steps->host, "predictions",
      &(ls_host_function){.tensors = s->spec_options->predictions}));
  const ls_nest signals = ls_nest_dict("", keys, values, pads ? 2 : 1);
  ls_status status = ls_nest_status(signals);
  if (ls_status_is_ok(status))
    status = ls_host_calls_record(&s->steps->host, "signals",
                                  &(ls_host_function){.tensors = signals});
  ls_nest_release(signals);
  return status;
}

static ls_status record_host_call(const step *s) {
  if (ls_estimator_spec_is_tpu(s->spec))
    LS_RETURN_IF_ERROR(ls_host_calls_record(&s->steps->host, "host_call",
                                            &s->spec_options->host_call));
  return ls_host_calls_pace(&s->steps->host);
}

// Where hosts are told of every n-th step alone. A branch gives a value.
static ls_nest enqueue_then(ls_nest none, void *user) {
  ls_op op = {0};
  (void)none;
  const ls_status status = ls_host_calls_enqueue(user, &op);
  return ls_status_is_ok(status) ? ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1))
                                 : ls_fail(status);
}

static ls_nest enqueue_not(ls_nest none, void *user) {
  (void)none, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 0));
}

static ls_status enqueue_each(step *s, int64_t every) {
  ls_host_calls *host = &s->steps->host;
  if (every <= 1 || host->count == 0)
    return ls_host_calls_enqueue(host, &s->told);
  const ls_tensor rest =
      ls_remainder(s->carried.count, ls_scalar_i64(LS_DTYPE_I64, every));
  const ls_nest made = ls_cond(ls_equal(rest, ls_scalar_i64(LS_DTYPE_I64, 0)),
                               enqueue_then, enqueue_not, host);
  const ls_status status = ls_nest_status(made);
  s->told = ls_tensor_op(ls_nest_tensor(made, 0));
  ls_nest_release(made);
  return status;
}

static ls_status tell_hosts(step *s) {
  LS_RETURN_IF_ERROR(record_host_call(s));
  return enqueue_each(s, s->steps->options->calls->plan->host_call_every);
}

// ---- Modes -----------------------------------------------------------------
// What there is to trace on the way to the loss, and the train op: a list.
static ls_status steps_trace(const step *s, ls_tensor *loss, ls_nest *out_ops) {
  *loss = s->spec_options->loss;
  *out_ops = ls_none();
  return ls_tensor_tracer_is_on()
             ? ls_trace_tpu(*loss, s->spec_options->train_op, loss, out_ops)
             : ls_ok();
}

// Behind these ops hosts hear of the step, and behind that its loss is there.
static ls_status finish_training(step *s, const ls_op *ops, size_t count,
                                 ls_tensor loss) {
  LS_CONTROL_SCOPE(ops, count);
  LS_RETURN_IF_ERROR(tell_hosts(s));
  LS_CONTROL_SCOPE(&s->told, s->told.id != 0);
  return ls_carried_add_loss(s->steps, ls_identity(loss), s->examples,
                             &s->carried);
}

static ls_status steps_train_step(step *s) {
  ls_nest traced = ls_none();
  ls_tensor loss;
  LS_RETURN_IF_ERROR(steps_trace(s, &loss, &traced));
  const size_t count = ls_nest_count(traced);
  ls_op *ops = ls_new_array(s->steps->allocator, ls_op, count + 1);
  ls_status status = ops != NULL ? ls_ok() : ls_out_of_memory();
  if (ls_status_is_ok(status)) {
    ops[0] = s->spec_options->train_op;
    for (size_t i = 0; i < count; ++i)
      ops[1 + i] = ls_nest_item(traced, i).as.op;
    status = finish_training(s, ops, count + 1, loss);
  }
  ls_release(s->steps->allocator, ops);
  ls_nest_release(traced);
  return status;
}

static ls_status eval_step(step *s) {
  LS_RETURN_IF_ERROR(record_metrics(s));
  LS_RETURN_IF_ERROR(tell_hosts(s));
  LS_CONTROL_SCOPE(&s->told, s->told.id != 0);
  return ls_carried_add_loss(s->steps, s->spec_options->loss, s->examples,
                             &s->carried);
}

static ls_status predict_step(step *s) {
  LS_RETURN_IF_ERROR(record_predictions(s));
  LS_RETURN_IF_ERROR(tell_hosts(s));
  LS_CONTROL_SCOPE(&s->told, s->told.id != 0);
  s->carried.stopping = ls_stopping_signal(s->fed.stopping);
  return ls_ok();
}

static ls_status steps_make_step(step *s) {
  static ls_status (*const finish[LS_NUM_MODES])(step * s) = {
      [LS_MODE_TRAIN] = steps_train_step,
      [LS_MODE_EVAL] = eval_step,
      [LS_MODE_PREDICT] = predict_step};
  ls_step_loop *steps = s->steps;
  if (steps->options->any_batch && !ls_step_loop_predict(steps))
    s->examples =
        ls_reduce_sum(ls_convert(s->fed.mask, LS_DTYPE_I64), LS_ALL_AXES);
  LS_RETURN_IF_ERROR(make_model(s));
  LS_RETURN_IF_ERROR(finish[steps->mode](s));
  s->carried.count = ls_add(s->carried.count, ls_scalar_i64(LS_DTYPE_I64, 1));
  return ls_step_loop_predict(steps)
             ? ls_ok()
             : ls_carried_set_cache(steps, s->spec_options, &s->carried);
}

// ---- The loop --------------------------------------------------------------
static ls_nest steps_goes_on(ls_nest values, void *user) {
  const ls_step_loop *steps = user;
  ls_carried carried = {0};
  ls_carried_read(steps, values, &carried);
  return ls_leaf(ls_step_loop_predict(steps)
                     ? ls_not(carried.stopping)
                     : ls_less(carried.count, steps->limit));
}

// What came by the infeed, behind what goes round.
static ls_status unpack(const ls_step_loop *steps, ls_nest args, size_t carried,
                        ls_feed_element_values *out_fed) {
  const size_t count = ls_nest_count(args) - carried;
  ls_nest *items = ls_new_array(steps->allocator, ls_nest, count + 1);
  if (items == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_retain(ls_nest_item(args, carried + i));
  const ls_nest elements = ls_nest_sequence(LS_KIND_LIST, items, count);
  ls_release(steps->allocator, items);
  ls_status status = ls_nest_status(elements);
  if (ls_status_is_ok(status))
    status = ls_input_feed_unpack(steps->options->feed, elements, out_fed);
  ls_nest_release(elements);
  return status;
}

static ls_status make_body(step *s, ls_nest args, ls_nest *out_next) {
  ls_step_loop *steps = s->steps;
  const size_t carried = ls_carried_size(steps);
  s->carried.cache =
      ls_new_array(steps->allocator, ls_tensor, steps->cache_size + 1);
  if (s->carried.cache == NULL) return ls_out_of_memory();
  ls_carried_read(steps, args, &s->carried);
  LS_RETURN_IF_ERROR(unpack(steps, args, carried, &s->fed));
  LS_RETURN_IF_ERROR(steps_make_step(s));
  return ls_take_nest(ls_carried_list(steps, &s->carried), out_next);
}

static ls_nest body(ls_nest args, void *user) {
  step s = {.steps = user};
  ls_nest next = ls_none();
  const ls_status status = make_body(&s, args, &next);
  ls_release(s.steps->allocator, s.carried.cache);
  ls_nest_release(s.fed.features);
  ls_nest_release(s.fed.labels);
  return ls_status_is_ok(status) ? next : ls_fail(status);
}

// ---- The computation -------------------------------------------------------
static ls_status run_loop(ls_step_loop *steps, ls_nest *out_values) {
  ls_nest first = ls_none();
  ls_status status = ls_carried_begin(steps, &first);
  if (ls_status_is_ok(status))
    status = ls_training_while(
        &(ls_training_loop){.condition = steps_goes_on,
                            .body = body,
                            .user = steps,
                            .infeed = steps->options->feed->queue},
        first, out_values);
  ls_nest_release(first);
  return status;
}

static ls_status compute(ls_step_loop *steps, ls_nest *out_results) {
  ls_nest values = ls_none();
  ls_carried last = {0};
  if (!ls_step_loop_predict(steps))
    steps->limit =
        ls_convert(ls_variable_read(steps->iterations), LS_DTYPE_I64);
  LS_RETURN_IF_ERROR(run_loop(steps, &values));
  ls_carried_read(steps, values, &last);
  ls_nest_release(values);
  return ls_take_nest(ls_step_loop_predict(steps)
                          ? LS_LIST(ls_leaf(last.count))
                          : LS_LIST(ls_leaf(last.count),
                                    ls_leaf(ls_reported_loss(steps, &last))),
                      out_results);
}

ls_nest ls_step_loop_compute(ls_nest args, void *steps) {
  ls_nest results = ls_none();
  (void)args;
  const ls_status status = compute(steps, &results);
  return ls_status_is_ok(status) ? results : ls_fail(status);
}
