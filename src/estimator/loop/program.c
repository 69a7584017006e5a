// SPDX-License-Identifier: Apache-2.0
// Programs: a loop of steps on the cores, and the ops that hosts run beside it.
#include "estimator/loop/program.h"

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "graph/make/make.h"
#include "graph/walk.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/ops.h"
#include "lockstep/replicate.h"
#include "tpu/feeds/feed.h"
#include "train/hooks/saving.h"

void ls_program_drop(ls_estimator_program *program) {
  ls_estimator_spec_release(program->spec);
  ls_nest_release(program->host_ops);
  ls_nest_release(program->host_results);
  ls_nest_release(program->metrics);
  ls_nest_release(program->predictions);
  *program = (ls_estimator_program){0};
}

// ---- Checks of variables ---------------------------------------------------
static bool is_float(ls_dtype dtype) {
  return dtype == LS_DTYPE_F16 || dtype == LS_DTYPE_BF16 ||
         dtype == LS_DTYPE_F32 || dtype == LS_DTYPE_F64;
}

// Makes an op that fails the run unless all numbers of a variable are finite.
static ls_status check_variable(ls_variable *variable, ls_op *out_op) {
  LS_OWN(ls_text, message) = {.allocator = ls_current_allocator()};
  ls_text_append_format(&message, "Gradient for %s:0 is NaN",
                        ls_variable_name(variable));
  LS_RETURN_IF_ERROR(ls_text_status(&message));
  const ls_tensor finite = ls_is_finite(ls_variable_read(variable));
  *out_op = ls_make_check_of_numbers(ls_reduce_and(finite, LS_ALL_AXES),
                                     ls_text_data(&message));
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(ls_graph_current())
                                  : ls_ok();
}

static ls_status check_all(ls_graph *graph, ls_nest_builder *list) {
  LS_OWN_MEMORY(ls_current_allocator(), ls_variable *, variables) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(ls_collection_variables(
      graph, LS_COLLECTION_TRAINABLE_VARIABLES, &variables, &count));
  for (size_t i = 0; i < count; ++i) {
    ls_op op = {0};
    if (!is_float(ls_variable_dtype(variables[i]))) continue;
    LS_RETURN_IF_ERROR(check_variable(variables[i], &op));
    ls_nest_builder_append(list, ls_nest_op(op));
  }
  return ls_ok();
}

ls_status ls_tpu_sync_ops(ls_graph *graph, bool broadcast, ls_nest *out_ops) {
  LS_REQUIRE_OUT(out_ops, graph);
  LS_OWN(ls_nest_builder, list) = {0};
  // Opens the scope without entering the current graph again, so that its
  // control scopes still apply.
  LS_SCOPE_BLOCK_(scope);
  if (graph != ls_graph_current()) ls_graph_begin(&scope, graph);
  if (broadcast)
    ls_nest_builder_append(&list, ls_nest_op(ls_group(NULL, 0, "no_op")));
  else
    LS_RETURN_IF_ERROR(check_all(graph, &list));
  return ls_take_nest(ls_nest_builder_finish(&list, LS_KIND_LIST), out_ops);
}

ls_status ls_increase_eval_step(ls_tensor iterations, ls_op *out_op) {
  LS_REQUIRE_OUT(out_op);
  ls_variable *step = NULL;
  ls_graph *graph = ls_graph_current();
  LS_RETURN_IF_ERROR(ls_eval_step_get(graph, &step));
  const ls_tensor added =
      ls_add_scalar(ls_convert(iterations, ls_variable_dtype(step)), -1);
  *out_op = ls_tensor_op(ls_variable_assign_add(step, added));
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(graph) : ls_ok();
}

// ---- On the cores ----------------------------------------------------------
// A list with no inputs for each replica.
static ls_nest list_inputs(int64_t num_replicas) {
  LS_OWN(ls_nest_builder, list) = {0};
  for (int64_t r = 0; r < num_replicas; ++r)
    ls_nest_builder_append(&list, ls_nest_sequence(LS_KIND_LIST, NULL, 0));
  return ls_nest_builder_finish(&list, LS_KIND_LIST);
}

static ls_status replicate(ls_model_steps *steps, ls_estimator_program *out) {
  const ls_plan_system *system = steps->options->calls->plan->system;
  LS_OWN(ls_nest, inputs) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  void *spec = NULL;
  LS_RETURN_IF_ERROR(ls_take_nest(list_inputs(steps->num_replicas), &inputs));
  LS_RETURN_IF_ERROR(ls_split_compile_and_replicate(
      ls_model_steps_compute, steps, inputs,
      &(ls_replicate_options){.assignment = system->assignment,
                              .on_device_loop = LS_FLAG_ON},
      &out->compile_status, &outputs));
  // Results are the same on all replicas, or only replica 0's count.
  const ls_nest first = ls_nest_item(outputs, 0);
  out->steps = ls_nest_tensor(first, 0);
  if (!ls_model_steps_predict(steps)) out->loss = ls_nest_tensor(first, 1);
  out->run = ls_tensor_op(out->steps);
  out->reduces = ls_graph_any_type(ls_graph_current(), LS_OP_CROSS_REPLICA_SUM);
  LS_RETURN_IF_ERROR(
      ls_captured_get(&steps->spec, "the spec of model_fn", &spec));
  out->spec = ls_estimator_spec_retain(spec);
  return ls_ok();
}

// ---- After the loop --------------------------------------------------------
// Makes one op that waits for all ops of a list and for `other` (id 0: none).
static ls_status group(ls_allocator *allocator, ls_nest list, ls_op other,
                       ls_op *out_op) {
  const size_t count = ls_nest_count(list);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_op, ops, count + 1);
  for (size_t i = 0; i < count; ++i)
    ops[i] = ls_nest_item(list, i).as.op;
  ops[count] = other;
  *out_op = ls_group(ops, count + (other.id != 0), NULL);
  return ls_op_is_failed(*out_op) ? ls_graph_take_error(ls_graph_current())
                                  : ls_ok();
}

// Adds checks of the variables after the loop, if the options demand them; in a
// prediction, in an op of their own.
static ls_status sync(ls_model_steps *steps, ls_estimator_program *out) {
  const bool broadcast = steps->options->calls->plan->input.broadcast;
  const bool predicts = ls_model_steps_predict(steps);
  LS_OWN(ls_nest, ops) = ls_none();
  const ls_op after = out->run;
  ls_op other = {0};
  LS_CONTROL_SCOPE(&after, !predicts);
  LS_RETURN_IF_ERROR(ls_tpu_sync_ops(ls_graph_current(), broadcast, &ops));
  if (steps->mode == LS_MODE_EVAL)
    LS_RETURN_IF_ERROR(ls_increase_eval_step(out->steps, &other));
  return group(steps->allocator, ops, other,
               predicts ? &out->check : &out->run);
}

// ---- On the hosts ----------------------------------------------------------
// Appends the ops of a nest, and the ops of its tensors.
static ls_status append_ops(ls_allocator *allocator, ls_nest nest,
                            ls_nest_builder *list) {
  const size_t count = ls_nest_num_leaves(nest);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(nest, leaves, count);
  for (size_t i = 0; i < count; ++i) {
    if (leaves[i].kind == LS_KIND_TENSOR)
      leaves[i] = ls_nest_op(ls_tensor_op(leaves[i].as.tensor));
    if (leaves[i].kind == LS_KIND_OP) ls_nest_builder_append(list, leaves[i]);
  }
  return ls_ok();
}

// Pairs each metric's value with an op that waits for the run. The metric's
// update is added to the ops that hosts run each step.
static ls_status take_metrics(ls_model_steps *steps, ls_nest made,
                              ls_nest_builder *updates,
                              ls_estimator_program *out) {
  LS_RETURN_IF_ERROR(ls_made_metrics_check(made));
  LS_OWN(ls_nest_builder, pairs) = {0};
  for (size_t i = 0; i < ls_nest_count(made); ++i) {
    const ls_nest pair = ls_nest_item(made, i);
    LS_RETURN_IF_ERROR(
        append_ops(steps->allocator, ls_nest_item(pair, 1), updates));
    ls_nest_builder_append_named(
        &pairs, ls_nest_key(made, i),
        LS_TUPLE(ls_nest_item(pair, 0), ls_nest_op(out->run)));
  }
  return ls_take_nest(ls_nest_builder_finish(&pairs, LS_KIND_DICT),
                      &out->metrics);
}

// Collects an evaluation's results. Without metrics, the loss waits for the
// run.
static ls_status program_evaluate(ls_model_steps *steps,
                                  ls_nest_builder *updates,
                                  ls_estimator_program *out) {
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_host_calls_call(&steps->host, "eval_metrics", &made));
  if (made.kind != LS_KIND_NONE) return take_metrics(steps, made, updates, out);
  LS_CONTROL_SCOPE(&out->run, 1);
  out->loss = ls_identity(out->loss);
  return ls_ok();
}

// Refuses predictions of which one run would fetch a GiB or more.
static ls_status program_check_size(ls_nest predictions) {
  double size = 0;
  LS_OWN(ls_text, text) = {.allocator = ls_current_allocator()};
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
  LS_RETURN_IF_ERROR(ls_text_status(&text));
  return size < LS_ONE_GIGABYTE
             ? ls_ok()
             : ls_invalid_argument(
                   "the predictions of a run are too large, %.0f bytes where "
                   "less than %d are possible, to go from hosts in one run: "
                   "%s; take a smaller batch",
                   size, LS_ONE_GIGABYTE, ls_text_data(&text));
}

// Collects a prediction's results. The stop signal waits for `host_ops`, so
// that a run that fetches it also runs the hosts' functions.
static ls_status predict_rows(ls_model_steps *steps, ls_nest ops,
                              ls_estimator_program *out) {
  LS_OWN(ls_nest, signals) = ls_none();
  ls_op host_ops = {0};
  LS_RETURN_IF_ERROR(
      ls_host_calls_call(&steps->host, "predictions", &out->predictions));
  LS_RETURN_IF_ERROR(program_check_size(out->predictions));
  LS_RETURN_IF_ERROR(ls_host_calls_call(&steps->host, "signals", &signals));
  LS_RETURN_IF_ERROR(group(steps->allocator, ops, (ls_op){0}, &host_ops));
  LS_CONTROL_SCOPE(&host_ops, 1);
  out->padding = ls_nest_tensor(ls_nest_find(signals, LS_SIGNAL_PADDING), 0);
  out->stopping = ls_stopping_signal(signals);
  LS_RETURN_IF_ERROR(ls_graph_take_error(ls_graph_current()));
  if (ls_tensor_is_failed(out->padding)) return ls_ok();
  // Predictions must have a row for each item of the padding mask.
  const ls_shape mask = ls_tensor_shape(out->padding);
  return mask.rank != 1 || mask.dim[0] < 0
             ? ls_ok()
             : ls_predictions_check(out->predictions, mask.dim[0]);
}

// ---- Build -----------------------------------------------------------------
static ls_status program_build(ls_model_steps *steps,
                               ls_estimator_program *out) {
  LS_PLAN_SYSTEM_SCOPE(steps->options->calls->plan);
  LS_RETURN_IF_ERROR(replicate(steps, out));
  LS_RETURN_IF_ERROR(sync(steps, out));
  LS_OWN(ls_nest, taken) = ls_none();
  LS_OWN(ls_nest_builder, ops) = {0};
  LS_RETURN_IF_ERROR(ls_host_calls_take(&steps->host, &taken));
  LS_RETURN_IF_ERROR(append_ops(steps->allocator, taken, &ops));
  if (steps->mode == LS_MODE_EVAL)
    LS_RETURN_IF_ERROR(program_evaluate(steps, &ops, out));
  LS_RETURN_IF_ERROR(
      ls_host_calls_call(&steps->host, "host_call", &out->host_results));
  LS_RETURN_IF_ERROR(append_ops(steps->allocator, out->host_results, &ops));
  LS_RETURN_IF_ERROR(
      ls_take_nest(ls_nest_builder_finish(&ops, LS_KIND_LIST), &out->host_ops));
  return ls_model_steps_predict(steps) ? predict_rows(steps, out->host_ops, out)
                                       : ls_ok();
}

ls_status ls_program_build(const ls_program_options *options,
                           ls_estimator_program *out_program) {
  LS_OWN(ls_model_steps, steps) = {0};
  ls_infeed_attempt attempt;
  ls_nest none = ls_none();
  *out_program = (ls_estimator_program){0};
  if (options->feed == NULL || options->feed->queue == NULL)
    return ls_failed_precondition(
        "InternalError: a program's features and labels are requested before "
        "its feed is created");
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&attempt, options->feed->queue));
  ls_status status = ls_model_steps_init(&steps, options);
  if (ls_status_is_ok(status)) status = program_build(&steps, out_program);
  // If the program is refused, the graph and the queue stay unchanged.
  status = ls_infeed_attempt_end(&attempt, status, &none);
  if (!ls_status_is_ok(status)) ls_program_drop(out_program);
  return status;
}
