// SPDX-License-Identifier: Apache-2.0
// Programs: a loop of steps on the cores, and beside it what hosts do.
#include "estimator/loop/program.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "estimator/input/prediction_rows.h"
#include "estimator/input/stopping_signals.h"
#include "estimator/loop/steps.h"
#include "estimator/spec/spec.h"
#include "graph/walk.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/replicate.h"
#include "tpu/feeds/infeed_queue.h"

void ls_program_drop(ls_estimator_program *program) {
  ls_estimator_spec_release(program->spec);
  ls_nest_release(program->host_ops);
  ls_nest_release(program->host_results);
  ls_nest_release(program->metrics);
  ls_nest_release(program->predictions);
  *program = (ls_estimator_program){0};
}

// ---- On the cores ----------------------------------------------------------
// No inputs, for each replica.
static ls_status no_inputs(ls_allocator *allocator, int64_t replicas,
                           ls_nest *out_inputs) {
  ls_nest *items = ls_new_array(allocator, ls_nest, (size_t)replicas + 1);
  if (items == NULL) return ls_out_of_memory();
  for (int64_t r = 0; r < replicas; ++r)
    items[r] = ls_nest_sequence(LS_KIND_LIST, NULL, 0);
  *out_inputs = ls_nest_sequence(LS_KIND_LIST, items, (size_t)replicas);
  ls_release(allocator, items);
  return ls_nest_status(*out_inputs);
}

// What all replicas give is the same, or replica 0's.
static void program_take_results(const ls_step_loop *steps, ls_nest outputs,
                                 ls_estimator_program *out) {
  const ls_nest first = ls_nest_item(outputs, 0);
  out->steps = ls_nest_tensor(first, 0);
  if (!ls_step_loop_predict(steps)) out->loss = ls_nest_tensor(first, 1);
  out->run = ls_tensor_op(out->steps);
}

static ls_status replicate(ls_step_loop *steps, ls_estimator_program *out) {
  const ls_plan_system *system = steps->options->calls->plan->system;
  ls_nest inputs = ls_none(), outputs = ls_none();
  ls_status status = no_inputs(steps->allocator, steps->replicas, &inputs);
  if (ls_status_is_ok(status))
    status = ls_split_compile_and_replicate(
        ls_step_loop_compute, steps, inputs,
        &(ls_replicate_options){.assignment = system->assignment,
                                .on_device_loop = LS_FLAG_ON},
        &out->compile_status, &outputs);
  if (ls_status_is_ok(status)) program_take_results(steps, outputs, out);
  out->reduces = ls_graph_any_type(ls_graph_current(), LS_OP_CROSS_REPLICA_SUM);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  LS_RETURN_IF_ERROR(status);
  void *spec = NULL;
  LS_RETURN_IF_ERROR(
      ls_captured_get(&steps->spec, "the spec of model_fn", &spec));
  out->spec = ls_estimator_spec_retain(spec);
  return ls_ok();
}

// ---- Behind it -------------------------------------------------------------
// One op behind all of them, and behind `before`.
static ls_status group(ls_allocator *allocator, ls_nest list,
                       const ls_op *before, size_t num_before, ls_op *out_op) {
  const size_t count = ls_nest_count(list);
  ls_op *ops = ls_new_array(allocator, ls_op, count + num_before + 1);
  if (ops == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    ops[i] = ls_nest_item(list, i).as.op;
  for (size_t i = 0; i < num_before; ++i)
    ops[count + i] = before[i];
  *out_op = ls_group(ops, count + num_before, NULL);
  ls_release(allocator, ops);
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(ls_graph_current())
                                  : ls_ok();
}

// Behind the loop its variables are looked at.
static ls_status sync(ls_step_loop *steps, ls_estimator_program *out) {
  const bool broadcast = steps->options->calls->plan->input.broadcast;
  ls_nest ops = ls_none();
  const ls_op after = out->run;
  LS_CONTROL_SCOPE(&after, 1);
  LS_RETURN_IF_ERROR(ls_tpu_sync_ops(ls_graph_current(), broadcast, &ops));
  ls_op more = {0};
  ls_status status = steps->mode == LS_MODE_EVAL
                         ? ls_increase_eval_step(out->steps, &more)
                         : ls_ok();
  if (ls_status_is_ok(status))
    status = group(steps->allocator, ops, &more, more.id != 0, &out->run);
  ls_nest_release(ops);
  return status;
}

// Who takes predictions is told that there are no more, also where there were
// none.
static ls_status close_outfeeds(ls_step_loop *steps,
                                ls_estimator_program *out) {
  ls_nest ops = ls_none();
  const ls_op after = out->run;
  LS_CONTROL_SCOPE(&after, 1);
  LS_RETURN_IF_ERROR(ls_host_calls_close(&steps->host, &ops));
  const ls_status status = group(steps->allocator, ops, NULL, 0, &out->run);
  ls_nest_release(ops);
  return status;
}

// ---- What hosts do ---------------------------------------------------------
typedef struct op_list {
  ls_nest *items;
  size_t count;
} op_list;

// Ops, and those of tensors, of a nest.
static ls_status append_ops(ls_allocator *allocator, op_list *list,
                            ls_nest nest) {
  const size_t more = ls_nest_num_leaves(nest);
  ls_nest *items = ls_new_array(allocator, ls_nest, list->count + more + 1);
  if (items == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < list->count; ++i)
    items[i] = list->items[i];
  ls_nest_flatten(nest, items + list->count, more);
  size_t kept = list->count;
  for (size_t i = list->count; i < list->count + more; ++i) {
    if (items[i].kind == LS_KIND_TENSOR)
      items[i] = ls_nest_op(ls_tensor_op(items[i].as.tensor));
    if (items[i].kind == LS_KIND_OP) items[kept++] = items[i];
  }
  ls_release(allocator, list->items);
  *list = (op_list){items, kept};
  return ls_ok();
}

// Each metric's value with an op that waits for the run; its update goes to
// what hosts do in each step.
static ls_status take_metrics(ls_step_loop *steps, ls_nest made,
                              op_list *updates, ls_estimator_program *out) {
  const size_t count = ls_nest_count(made);
  ls_allocator *allocator = steps->allocator;
  LS_RETURN_IF_ERROR(ls_made_metrics_check(made));
  ls_nest *pairs = ls_new_array(allocator, ls_nest, count + 1);
  const char **keys = ls_new_array(allocator, const char *, count + 1);
  ls_status status =
      pairs == NULL || keys == NULL ? ls_out_of_memory() : ls_ok();
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    keys[i] = ls_nest_key(made, i);
    status =
        append_ops(allocator, updates, ls_nest_item(ls_nest_item(made, i), 1));
  }
  if (ls_status_is_ok(status)) {
    for (size_t i = 0; i < count; ++i)
      pairs[i] = LS_TUPLE(ls_nest_item(ls_nest_item(made, i), 0),
                          ls_nest_op(out->run));
    out->metrics = ls_nest_dict("", keys, pairs, count);
    status = ls_nest_status(out->metrics);
  }
  ls_release(allocator, pairs);
  ls_release(allocator, keys);
  return status;
}

// Without metrics the loss carries what waits for the run.
static ls_status program_evaluate(ls_step_loop *steps, op_list *updates,
                                  ls_estimator_program *out) {
  ls_nest made = ls_none();
  LS_RETURN_IF_ERROR(ls_host_calls_call(&steps->host, "eval_metrics", &made));
  const bool has_metrics = made.kind != LS_KIND_NONE;
  const ls_status status =
      has_metrics ? take_metrics(steps, made, updates, out) : ls_ok();
  ls_nest_release(made);
  LS_RETURN_IF_ERROR(status);
  if (!has_metrics) {
    LS_CONTROL_SCOPE(&out->run, 1);
    out->loss = ls_identity(out->loss);
  }
  return ls_ok();
}

// What is fetched in one run: a GiB and more is refused.
static ls_status program_check_size(ls_nest predictions) {
  double size = 0;
  ls_text text;
  ls_text_init(&text, ls_current_allocator());
  for (size_t i = 0; i < ls_nest_count(predictions); ++i) {
    const ls_tensor tensor = ls_nest_tensor(predictions, i);
    const ls_shape shape = ls_tensor_shape(tensor);
    double bytes = (double)ls_dtype_size(ls_tensor_dtype(tensor));
    for (int32_t k = 0; k < shape.rank; ++k)
      bytes *= (double)shape.dim[k];
    if (bytes > 0) size += bytes;
    ls_text_append_format(&text, "%s'%s' %s", i == 0 ? "" : ", ",
                          ls_nest_key(predictions, i),
                          LS_SHAPE_TEXT(ls_tensor_dtype(tensor), shape));
  }
  ls_status status = ls_text_status(&text);
  if (ls_status_is_ok(status) && size >= LS_ONE_GIGABYTE)
    status = ls_invalid_argument("the predictions of a run are too large, "
                                 "%.0f bytes where less than %d are possible, "
                                 "to go from hosts in one run: %s; take a "
                                 "smaller batch",
                                 size, LS_ONE_GIGABYTE, ls_text_data(&text));
  ls_text_deinit(&text);
  return status;
}

static ls_status take_signals(ls_nest signals, ls_estimator_program *out) {
  out->padding = ls_nest_tensor(ls_nest_find(signals, LS_SIGNAL_PADDING), 0);
  out->stopping = ls_stopping_signal(
      ls_nest_tensor(ls_nest_find(signals, LS_SIGNAL_STOPPING), 0));
  LS_RETURN_IF_ERROR(ls_graph_take_error(ls_graph_current()));
  if (ls_tensor_is_failed(out->padding)) return ls_ok();
  // Rows that fill a batch up are cut off by this mask.
  const ls_shape mask = ls_tensor_shape(out->padding);
  return mask.rank != 1 || mask.dim[0] < 0
             ? ls_ok()
             : ls_predictions_check(out->predictions, mask.dim[0]);
}

// `told` waits in the signal: a run that fetches it runs the host's function.
static ls_status predict(ls_step_loop *steps, ls_nest ops,
                         ls_estimator_program *out) {
  ls_nest signals = ls_none();
  LS_RETURN_IF_ERROR(
      ls_host_calls_call(&steps->host, "predictions", &out->predictions));
  LS_RETURN_IF_ERROR(program_check_size(out->predictions));
  LS_RETURN_IF_ERROR(ls_host_calls_call(&steps->host, "signals", &signals));
  ls_op told = {0};
  ls_status status = group(steps->allocator, ops, NULL, 0, &told);
  if (ls_status_is_ok(status)) {
    LS_CONTROL_SCOPE(&told, 1);
    status = take_signals(signals, out);
  }
  ls_nest_release(signals);
  return status;
}

static ls_status call_hosts(ls_step_loop *steps, ls_estimator_program *out) {
  ls_nest taken = ls_none(), made = ls_none();
  op_list list = {0};
  ls_status status = ls_host_calls_take(&steps->host, &taken);
  if (ls_status_is_ok(status))
    status = append_ops(steps->allocator, &list, taken);
  if (ls_status_is_ok(status) && steps->mode == LS_MODE_EVAL)
    status = program_evaluate(steps, &list, out);
  if (ls_status_is_ok(status))
    status = ls_host_calls_call(&steps->host, "host_call", &made);
  if (ls_status_is_ok(status))
    status = append_ops(steps->allocator, &list, made);
  if (ls_status_is_ok(status)) {
    out->host_results = made;
    made = ls_none();
    out->host_ops = ls_nest_sequence(LS_KIND_LIST, list.items, list.count);
    status = ls_nest_status(out->host_ops);
  }
  if (ls_status_is_ok(status) && ls_step_loop_predict(steps))
    status = predict(steps, out->host_ops, out);
  ls_release(steps->allocator, list.items);
  ls_nest_release(made);
  ls_nest_release(taken);
  return status;
}

// ---- All of it -------------------------------------------------------------
static ls_status program_check(const ls_program_options *options) {
  return options->feed != NULL && options->feed->queue != NULL
             ? ls_ok()
             : ls_failed_precondition("InternalError: a program's features and "
                                      "labels are what feeds it, which is not "
                                      "made yet");
}

static ls_status program_build(ls_step_loop *steps, ls_estimator_program *out) {
  LS_PLAN_SYSTEM_SCOPE(steps->options->calls->plan);
  LS_RETURN_IF_ERROR(replicate(steps, out));
  LS_RETURN_IF_ERROR(sync(steps, out));
  if (ls_step_loop_predict(steps))
    LS_RETURN_IF_ERROR(close_outfeeds(steps, out));
  return call_hosts(steps, out);
}

ls_status ls_program_build(const ls_program_options *options,
                           ls_estimator_program *out_program) {
  ls_step_loop steps = {0};
  ls_infeed_attempt attempt;
  ls_nest none = ls_none();
  *out_program = (ls_estimator_program){0};
  LS_RETURN_IF_ERROR(program_check(options));
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&attempt, options->feed->queue));
  ls_status status = ls_step_loop_init(&steps, options);
  if (ls_status_is_ok(status)) status = program_build(&steps, out_program);
  // What is refused leaves the graph as it was, and the queue.
  status = ls_infeed_attempt_end(&attempt, status, &none);
  ls_step_loop_deinit(&steps);
  if (!ls_status_is_ok(status)) ls_program_drop(out_program);
  return status;
}
