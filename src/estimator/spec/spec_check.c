// SPDX-License-Identifier: Apache-2.0
// Checks a model function's spec in each mode.
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_internal.h"
#include "distribute/base/strategy.h"
#include "distribute/values/values.h"
#include "estimator/spec/calls.h"
#include "graph/context.h"
#include "graph/trial.h"
#include "train/hooks/hook.h"

// ---- Functions on the host -------------------------------------------------
// Checks that a host function fits its tensors; `name` is "eval_metrics" or
// "host_call".
static ls_status host_function_check(const ls_host_function *function,
                                     const char *name) {
  const ls_kind kind = function->tensors.kind;
  if (function->call == NULL && kind == LS_KIND_NONE) return ls_ok();
  if (function->call == NULL)
    return ls_invalid_argument("%s[0] should be callable: its function is NULL",
                               name);
  LS_RETURN_IF_ERROR(ls_nest_status(function->tensors));
  if (kind != LS_KIND_LIST && kind != LS_KIND_DICT)
    return ls_invalid_argument("%s[1] should be a list or a dict of tensors",
                               name);
  const size_t count = ls_nest_count(function->tensors);
  if (kind == LS_KIND_LIST && function->num_arguments.set &&
      function->num_arguments.value != (int64_t)count)
    return ls_failed_precondition(
        "%s: the function takes %lld arguments but gets %zu tensors", name,
        (long long)function->num_arguments.value, count);
  return ls_ok();
}

// Returns the first ls_summary op made after the first `before` ones; zeroed if
// there is none. The training loop would run such an op instead of the host.
static ls_op new_summary(const ls_graph *graph, size_t before) {
  const size_t count =
      ls_graph_collection(graph, LS_COLLECTION_SUMMARIES, NULL, 0);
  LS_OWN_ARRAY(ls_current_allocator(), ls_nest, leaves, count + 1);
  if (leaves == NULL || count <= before) return (ls_op){0};
  ls_graph_collection(graph, LS_COLLECTION_SUMMARIES, leaves, count);
  return leaves[before].kind == LS_KIND_OP ? leaves[before].as.op : (ls_op){0};
}

// Refuses a summary; `name` is its op's name or its tag.
static ls_status refuse_summary(const char *name, const char *summary) {
  return ls_invalid_argument(
      "the function of %s makes a summary by ls_summary ('%s'), which is not "
      "written there: use summaries with a writer (ls_summary_scalar and "
      "others, lockstep/summary_ops.h, with a writer of ls_file_writer_create)",
      name, summary);
}

// Refuses ls_summary in place of the default, which does nothing without a
// writer.
static ls_status refuse_instead(void *user, const char *tag) {
  return refuse_summary(user, tag);
}

static void drop_nothing(void *user) { (void)user; }

static const ls_summary_writer_kind refusing = {.name = "none on the host",
                                                .destroy = drop_nothing,
                                                .instead = refuse_instead};

static ls_nest call_with_writer(const ls_host_function *function,
                                const char *name) {
  ls_summary_writer *writer = NULL;
  if (ls_distribute_scoped_here()->summary_writer != NULL)
    return function->call(function->tensors, function->user);
  LS_RETURN_FAILED_IF_ERROR(ls_summary_writer_make(
      &refusing, NULL, (void *)(uintptr_t)name, &writer));
  LS_SUMMARY_SCOPE(writer);
  const ls_nest made = function->call(function->tensors, function->user);
  ls_summary_writer_release(writer);
  return made;
}

// Calls a host function and checks that it makes no ls_summary ops.
static ls_nest spec_check_call(const ls_host_function *function,
                               const char *name) {
  const ls_graph *graph = ls_graph_current();
  while (graph->kind != LS_GRAPH_BUILD && graph->parent != NULL)
    graph = graph->parent;
  const size_t before =
      ls_graph_collection(graph, LS_COLLECTION_SUMMARIES, NULL, 0);
  const ls_nest made = call_with_writer(function, name);
  if (ls_nest_is_failed(made) ||
      ls_graph_collection(graph, LS_COLLECTION_SUMMARIES, NULL, 0) <= before)
    return made;
  const ls_op summary = new_summary(graph, before);
  ls_nest_release(made);
  return ls_fail(refuse_summary(
      name, ls_op_is_failed(summary) ? "?" : ls_op_name(summary)));
}

ls_nest ls_host_function_call(const ls_host_function *function,
                              const char *name) {
  ls_trial trial;
  ls_trial_begin(&trial);
  ls_nest made = spec_check_call(function, name);
  const ls_status status =
      ls_trial_end_with(&trial, ls_nest_status(made), &made);
  if (!ls_status_is_ok(status)) made = ls_fail(status);
  if (ls_nest_is_failed(made) && function->tensors.kind == LS_KIND_DICT)
    ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "estimator",
                   "the function of %s has failed: the names in %s[1] may not "
                   "be those that it looks for",
                   name, name);
  return made;
}

// ---- Values ----------------------------------------------------------------
static ls_status check_graph(const char *field, const ls_graph *value_graph,
                             const char *name) {
  const ls_graph *graph = ls_graph_current();
  return value_graph == graph
             ? ls_ok()
             : ls_invalid_argument(
                   "%s '%s' is of graph '%s', and must be of the current one, "
                   "'%s'",
                   field, name,
                   value_graph != NULL ? ls_graph_name(value_graph) : "(none)",
                   ls_graph_name(graph));
}

static ls_status check_tensor(const char *field, ls_tensor tensor) {
  if (ls_tensor_is_failed(tensor))
    return ls_invalid_argument("%s is a failed tensor", field);
  return check_graph(field, tensor.graph, ls_tensor_name(tensor));
}

static ls_status check_loss(ls_tensor loss) {
  LS_RETURN_IF_ERROR(check_tensor("loss", loss));
  const ls_shape shape = ls_tensor_shape(loss);
  int64_t count = 1;
  for (int i = 0; i < shape.rank; ++i)
    count = shape.dim[i] == LS_UNKNOWN_DIM ? count : count * shape.dim[i];
  return count == 1 ? ls_ok()
                    : ls_invalid_argument(
                          "Loss must be scalar: '%s' has %lld elements",
                          ls_tensor_name(loss), (long long)count);
}

static ls_status check_predictions(ls_nest predictions) {
  if (predictions.kind == LS_KIND_TENSOR)
    return check_tensor("predictions", predictions.as.tensor);
  LS_RETURN_IF_ERROR(ls_nest_status(predictions));
  if (predictions.kind != LS_KIND_DICT)
    return ls_invalid_argument("predictions are neither a tensor nor a dict");
  for (size_t i = 0; i < ls_nest_count(predictions); ++i) {
    const ls_nest item = ls_nest_item(predictions, i);
    if (item.kind != LS_KIND_TENSOR)
      return ls_invalid_argument("predictions['%s'] is no tensor",
                                 ls_nest_key(predictions, i));
    LS_RETURN_IF_ERROR(check_tensor("predictions", item.as.tensor));
  }
  return ls_ok();
}

static bool is_metric(ls_nest pair) {
  const ls_kind update = ls_nest_item(pair, 1).kind;
  return ls_nest_count(pair) == 2 &&
         ls_nest_item(pair, 0).kind == LS_KIND_TENSOR &&
         (update == LS_KIND_OP || update == LS_KIND_TENSOR);
}

static ls_status check_metrics(ls_nest metrics, bool of_function) {
  if (metrics.kind == LS_KIND_NONE) return ls_ok();
  LS_RETURN_IF_ERROR(ls_nest_status(metrics));
  if (metrics.kind != LS_KIND_DICT)
    return of_function
               ? ls_invalid_argument("the function of eval_metrics must give a "
                                     "dict of (value, update op) pairs")
               : ls_invalid_argument("eval_metric_ops are no dict");
  for (size_t i = 0; i < ls_nest_count(metrics); ++i)
    if (!is_metric(ls_nest_item(metrics, i)))
      return ls_invalid_argument(
          "%s%s'%s is no pair of a value and an update op",
          of_function ? "metric '" : "eval_metric_ops['",
          ls_nest_key(metrics, i), of_function ? "" : "]");
  return ls_ok();
}

ls_status ls_made_metrics_check(ls_nest metrics) {
  return check_metrics(metrics, true);
}

// ---- Fields ----------------------------------------------------------------
static ls_status check_kind(const ls_estimator_spec_options *o, bool is_tpu) {
  const char *field = NULL;
  if (is_tpu) {
    if (o->eval_metric_ops.kind != LS_KIND_NONE) field = "eval_metric_ops";
    if (o->num_training_chief_hooks > 0) field = "training_chief_hooks";
    if (o->scaffold != NULL) field = "scaffold";
  } else {
    if (o->eval_metrics.call != NULL) field = "eval_metrics";
    if (o->host_call.call != NULL) field = "host_call";
    if (o->scaffold_fn != NULL) field = "scaffold_fn";
    if (o->cache_size > 0) field = "cache";
  }
  return field == NULL
             ? ls_ok()
             : ls_invalid_argument("%s is no field of a %s", field,
                                   is_tpu ? "spec for TPUs" : "plain spec");
}

static ls_status check_all_hooks(const ls_estimator_spec_options *o) {
  LS_RETURN_IF_ERROR(ls_hooks_check("training_hooks", o->training_hooks,
                                    o->num_training_hooks));
  LS_RETURN_IF_ERROR(ls_hooks_check("evaluation_hooks", o->evaluation_hooks,
                                    o->num_evaluation_hooks));
  LS_RETURN_IF_ERROR(ls_hooks_check("prediction_hooks", o->prediction_hooks,
                                    o->num_prediction_hooks));
  return ls_hooks_check("training_chief_hooks", o->training_chief_hooks,
                        o->num_training_chief_hooks);
}

static ls_status spec_check_mode(const ls_estimator_spec_options *o) {
  if (o->mode <= LS_MODE_NONE || o->mode >= LS_NUM_MODES)
    return ls_invalid_argument(
        "mode %d is none of LS_MODE_TRAIN, EVAL and PREDICT", (int)o->mode);
  const bool has_loss = o->loss.graph != NULL || o->loss.ref != 0;
  if (o->mode == LS_MODE_TRAIN && o->train_op.id == 0)
    return ls_invalid_argument("Missing train_op.");
  if (o->mode != LS_MODE_PREDICT && !has_loss)
    return ls_invalid_argument("Missing loss.");
  if (o->mode == LS_MODE_PREDICT && o->predictions.kind == LS_KIND_NONE)
    return ls_invalid_argument("Missing predictions.");
  if (has_loss) LS_RETURN_IF_ERROR(check_loss(o->loss));
  if (o->train_op.id != 0)
    LS_RETURN_IF_ERROR(
        check_graph("train_op", o->train_op.graph, ls_op_name(o->train_op)));
  return o->predictions.kind == LS_KIND_NONE
             ? ls_ok()
             : check_predictions(o->predictions);
}

// If there are several export outputs, one must be the default.
static ls_status check_exports(const ls_estimator_spec_options *o) {
  bool has_default = o->num_export_outputs < 2;
  for (size_t i = 0; i < o->num_export_outputs; ++i) {
    const ls_export_output *output = &o->export_outputs[i];
    if (output->key == NULL || output->tensors.kind != LS_KIND_DICT)
      return ls_invalid_argument("export_outputs['%s'] is no export output: a "
                                 "key and a dict of tensors",
                                 output->key != NULL ? output->key : "?");
    has_default |= strcmp(output->key, LS_SERVING_DEFAULT) == 0;
  }
  return has_default || o->mode != LS_MODE_PREDICT
             ? ls_ok()
             : ls_invalid_argument("%zu export_outputs, but none has the key "
                                   "'" LS_SERVING_DEFAULT "'",
                                   o->num_export_outputs);
}

ls_status ls_estimator_spec_check(const ls_estimator_spec_options *options,
                                  bool is_tpu) {
  LS_REQUIRE_ITEMS(options->export_outputs, options->num_export_outputs);
  LS_REQUIRE_ITEMS(options->cache, options->cache_size);
  LS_RETURN_IF_ERROR(
      host_function_check(&options->eval_metrics, "eval_metrics"));
  LS_RETURN_IF_ERROR(host_function_check(&options->host_call, "host_call"));
  LS_RETURN_IF_ERROR(check_all_hooks(options));
  LS_RETURN_IF_ERROR(check_kind(options, is_tpu));
  LS_RETURN_IF_ERROR(spec_check_mode(options));
  LS_RETURN_IF_ERROR(check_metrics(options->eval_metric_ops, false));
  return check_exports(options);
}
