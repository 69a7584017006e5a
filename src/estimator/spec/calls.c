// SPDX-License-Identifier: Apache-2.0
// Calls the functions of users.
#include "estimator/spec/calls.h"

#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "estimator/config/config.h"
#include "estimator/own.h"
#include "graph/graph.h"
#include "lockstep/ops.h"

// ---- Declared arguments ----------------------------------------------------
// Returns true if a function declares an argument of this name; a function
// without declared arguments accepts all names.
static bool takes_argument(const ls_parameters *arguments, const char *name) {
  if (arguments == NULL || arguments->any_names) return true;
  for (size_t i = 0; i < arguments->count; ++i)
    if (strcmp(arguments->names[i], name) == 0) return true;
  return false;
}

static ls_status check_known(const ls_parameters *arguments, const char *noun,
                             const char *const *known, size_t num_known,
                             const char *list) {
  if (arguments == NULL) return ls_ok();
  for (size_t i = 0; i < arguments->count; ++i) {
    size_t k = 0;
    while (k < num_known && strcmp(known[k], arguments->names[i]) != 0)
      ++k;
    if (k == num_known)
      return ls_invalid_argument(
          "%s declares '%s', which it is not given; it may declare %s", noun,
          arguments->names[i], list);
  }
  return ls_ok();
}

ls_status ls_check_model_function(const ls_model_function *model,
                                  bool has_params) {
  static const char *const known[] = {"features", "labels", "mode", "params",
                                      "config"};
  if (model->call == NULL)
    return ls_invalid_argument("an estimator needs a model_fn");
  if (!takes_argument(model->arguments, "features"))
    return ls_invalid_argument("model_fn must take features");
  LS_RETURN_IF_ERROR(check_known(model->arguments, "model_fn", known, 5,
                                 "features, labels, mode, params and config"));
  const bool takes_params = takes_argument(model->arguments, "params");
  if (has_params && !takes_params)
    return ls_invalid_argument(
        "there are params, but model_fn does not take params");
  if (!has_params && takes_params && model->arguments != NULL)
    ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "estimator",
                   "model_fn takes params, but there are none");
  return ls_ok();
}

static ls_status needs_params(const ls_parameters *arguments,
                              const char *noun) {
  return takes_argument(arguments, "params")
             ? ls_ok()
             : ls_invalid_argument("%s does not declare params, in which it "
                                   "gets params[\"batch_size\"]",
                                   noun);
}

// ---- Parameters ------------------------------------------------------------
// Adds a batch size to the parameters, if it is set.
static ls_status set_batch_size(ls_nest *params, ls_opt size) {
  if (!size.set) return ls_ok();
  return ls_params_set(params, LS_PARAM_BATCH_SIZE, ls_nest_i64(size.value));
}

static ls_status set_context(ls_nest *params, const ls_user_context *context) {
  return ls_params_set(params, LS_PARAM_CONTEXT, ls_user_context_leaf(context));
}

// ---- Input -----------------------------------------------------------------
static ls_status input_params(const ls_estimator_calls *calls,
                              const ls_input_place *place, ls_nest *params) {
  LS_RETURN_IF_ERROR(ls_nest_status(*params));
  LS_RETURN_IF_ERROR(set_batch_size(params, calls->plan->input_batch_size));
  if (place == NULL) return ls_ok();
  return set_context(params, &(ls_user_context){
                                 .plan = calls->plan,
                                 .is_input = true,
                                 .host = place->host,
                                 .invocation = place->invocation,
                             });
}

static ls_status call_there(const ls_estimator_calls *calls, const char *device,
                            ls_input_call *call, ls_nest *out_value) {
  LS_DEVICE_SCOPE(device);
  ls_nest_forget_missing();
  LS_OWN(ls_nest, value) = calls->input->call(calls->input->user, call);
  LS_RETURN_IF_ERROR(ls_nest_status(value));
  // If the user's op makers have failed, their failure takes precedence over
  // later checks.
  LS_RETURN_IF_ERROR(ls_graph_error(ls_graph_current()));
  return ls_hand_over(&value, out_value);
}

ls_status ls_call_input(const ls_estimator_calls *calls,
                        const ls_input_place *place, ls_nest *out_value) {
  static const char *const known[] = {"params", "config", "mode"};
  const ls_parameters *arguments = calls->input->arguments;
  *out_value = ls_none();
  if (calls->input->call == NULL)
    return ls_invalid_argument("there is no input_fn");
  LS_RETURN_IF_ERROR(
      check_known(arguments, "input_fn", known, 3, "params, config and mode"));
  LS_RETURN_IF_ERROR(needs_params(arguments, "input_fn"));
  LS_OWN(ls_nest, params) = ls_params_copy(calls->params);
  LS_RETURN_IF_ERROR(input_params(calls, place, &params));
  // The parameters of the call, which the user's function may replace.
  ls_nest_mark_reads(params);
  ls_input_call call = {.params = ls_nest_retain(params)};
  if (takes_argument(arguments, "mode")) call.mode = calls->plan->mode;
  if (takes_argument(arguments, "config")) call.config = calls->config;
  const ls_status status =
      call_there(calls, place == NULL ? "/device:CPU:0" : place->host.text,
                 &call, out_value);
  ls_nest_release(call.params);
  ls_nest_add_reads(calls->params, params);
  return ls_status_is_ok(status) && out_value->kind == LS_KIND_NONE
             ? ls_invalid_argument("input_fn has returned none: it must return "
                                   "features, or a data set of them")
             : status;
}

// ---- Static shapes ---------------------------------------------------------
ls_status ls_returned_check_leaf(const ls_leaf_spec *spec) {
  return spec->kind == LS_LEAF_DENSE
             ? ls_ok()
             : ls_invalid_argument("a leaf of the input's elements is sparse "
                                   "or ragged: make it dense in the data set");
}

// Refuses a leaf because of its type; `name` is its tensor's name, or "".
static ls_status refuse_type(const char *noun, size_t number, const char *name,
                             ls_type type) {
  return ls_invalid_argument(
      "The %s to the model returned by input_fn must have static shape where "
      "it runs on TPUs: leaf %zu%s%s is %s; pad or crop the examples of its "
      "data set to one shape",
      noun, number, name[0] != 0 ? " " : "", name,
      LS_SHAPE_TEXT(type.dtype, type.shape));
}

static ls_status returned_check_leaf(const char *noun, size_t number,
                                     ls_nest leaf) {
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  if (spec != NULL) {
    LS_RETURN_IF_ERROR(
        ls_status_annotate(ls_returned_check_leaf(spec), "the %s", noun));
    return ls_shape_is_known(spec->type.shape)
               ? ls_ok()
               : refuse_type(noun, number, "", spec->type);
  }
  if (leaf.kind != LS_KIND_TENSOR) return ls_ok();
  const ls_tensor tensor = leaf.as.tensor;
  const ls_type type = {ls_tensor_dtype(tensor), ls_tensor_shape(tensor)};
  return ls_shape_is_known(type.shape)
             ? ls_ok()
             : refuse_type(noun, number, ls_tensor_name(tensor), type);
}

static ls_status check_leaves(ls_nest values, const char *noun) {
  const size_t count = ls_nest_num_leaves(values);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(values, leaves, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(returned_check_leaf(noun, i, leaves[i]));
  return ls_ok();
}

ls_status ls_returned_check_static(ls_nest features, ls_nest labels) {
  LS_RETURN_IF_ERROR(check_leaves(features, "features"));
  return check_leaves(labels, "labels");
}

// ---- Model arguments -------------------------------------------------------
static ls_status calls_check_inputs(const ls_estimator_calls *calls,
                                    const ls_model_inputs *inputs) {
  const ls_parameters *arguments = calls->model->arguments;
  if (!calls->plan->on_cpu)
    LS_RETURN_IF_ERROR(
        ls_returned_check_static(inputs->features, inputs->labels));
  if (inputs->labels.kind != LS_KIND_NONE &&
      !takes_argument(arguments, "labels"))
    return ls_invalid_argument(
        "model_fn does not take labels, but input_fn returns labels");
  return needs_params(arguments, "model_fn");
}

static ls_status model_params(const ls_estimator_calls *calls,
                              const ls_model_inputs *inputs, ls_nest *params) {
  const ls_plan *plan = calls->plan;
  LS_RETURN_IF_ERROR(ls_nest_status(*params));
  if (!plan->exports)
    LS_RETURN_IF_ERROR(set_batch_size(params, plan->model_batch_size));
  LS_RETURN_IF_ERROR(
      ls_params_set(params, LS_PARAM_USE_TPU, ls_nest_bool(!plan->on_cpu)));
  if (plan->on_cpu) return ls_ok();
  if (inputs->cache.kind != LS_KIND_NONE)
    LS_RETURN_IF_ERROR(
        ls_params_set(params, LS_PARAM_CACHE, ls_nest_retain(inputs->cache)));
  return set_context(params, &(ls_user_context){.plan = plan});
}

// ---- Results ---------------------------------------------------------------
static ls_status check_predictions(ls_nest predictions) {
  if (predictions.kind != LS_KIND_DICT)
    return ls_invalid_argument("predictions on TPUs must be a dict of tensors");
  for (size_t i = 0; i < ls_nest_count(predictions); ++i) {
    const ls_shape shape = ls_tensor_shape(ls_nest_tensor(predictions, i));
    if (shape.rank < 1 || shape.dim[0] == LS_UNKNOWN_DIM)
      return ls_invalid_argument(
          "The first dimension of prediction '%s' should be static",
          ls_nest_key(predictions, i));
  }
  return ls_ok();
}

static ls_status check_train_spec(const ls_estimator_spec *spec) {
  if (spec->is_tpu) return ls_ok();
  if (spec->options.num_training_chief_hooks > 0)
    return ls_invalid_argument("training_chief_hooks are not called where "
                               "training is on TPUs: give training_hooks");
  if (spec->has_scaffold)
    ls_runtime_log(ls_runtime_current(), LS_LOG_WARNING, "estimator",
                   "the scaffold of a plain spec is not used where training is "
                   "on TPUs: give a scaffold_fn");
  return ls_ok();
}

// Checks that a spec is of this mode, also in exports: a spec of another mode
// lacks fields that are used.
static ls_status calls_check_mode(ls_estimator_mode mode,
                                  const ls_estimator_spec *spec) {
  const ls_estimator_mode given = ls_estimator_spec_values(spec)->mode;
  return given == mode
             ? ls_ok()
             : ls_invalid_argument(
                   "model_fn returns a spec of mode '%s', but was called in "
                   "mode '%s': give the spec the mode of the call",
                   ls_estimator_mode_name(given), ls_estimator_mode_name(mode));
}

static ls_status check_spec(ls_estimator_mode mode,
                            const ls_estimator_spec *spec) {
  const bool is_tpu = ls_estimator_spec_is_tpu(spec);
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(spec);
  if (mode == LS_MODE_TRAIN) return check_train_spec(spec);
  if (!is_tpu)
    return ls_failed_precondition(
        "the spec of a TPU %s must have type TPUEstimatorSpec "
        "(ls_tpu_estimator_spec_create)",
        mode == LS_MODE_EVAL ? "evaluation" : "prediction");
  return mode == LS_MODE_PREDICT ? check_predictions(spec_options->predictions)
                                 : ls_ok();
}

static ls_status calls_call_model(const ls_estimator_calls *calls,
                                  const ls_model_inputs *inputs, ls_tensor mask,
                                  ls_nest params,
                                  ls_estimator_spec **out_spec) {
  const ls_parameters *arguments = calls->model->arguments;
  ls_model_call call = {
      .features = inputs->features,
      .labels = inputs->labels,
      .mask = mask,
      .params = ls_nest_retain(params),
  };
  ls_nest_mark_reads(params);
  if (takes_argument(arguments, "mode")) call.mode = calls->plan->mode;
  if (takes_argument(arguments, "config")) call.config = calls->config;
  ls_nest_forget_missing();
  const ls_status status =
      calls->model->call(calls->model->user, &call, out_spec);
  ls_nest_release(call.params);
  ls_nest_add_reads(calls->params, params);
  LS_RETURN_IF_ERROR(status);
  return *out_spec != NULL ? calls_check_mode(calls->plan->mode, *out_spec)
                           : ls_invalid_argument("model_fn returns no spec");
}

// Returns the mask of an evaluation's batch of any size: the given one or,
// where no batch is padded, ones. Else a failed tensor.
static ls_tensor find_mask(const ls_estimator_calls *calls,
                           const ls_model_inputs *inputs) {
  const int axis = calls->num_batch_axes > 0 ? (int)calls->batch_axis[0] : 0;
  const ls_plan *plan = calls->plan;
  int others[LS_MAX_RANK];
  ls_axes rest = {.items = others};
  ls_nest leaf = ls_none();
  if (!plan->on_cpu || plan->exports || !plan->any_batch ||
      plan->mode != LS_MODE_EVAL)
    return inputs->mask;
  ls_nest_flatten(inputs->features, &leaf, 1);
  const ls_tensor x = ls_nest_tensor(leaf, 0);
  const int rank = ls_tensor_shape(x).rank;
  if (rank <= axis) return inputs->mask;
  for (int i = 0; i < rank; ++i)
    if (i != axis) others[rest.count++] = i;
  const ls_tensor first =
      ls_reduce_min(ls_iota_like(LS_DTYPE_F32, x, axis), rest);
  return ls_convert(ls_greater_equal(first, ls_scalar(LS_DTYPE_F32, 0)),
                    LS_DTYPE_F32);
}

// Adds the mask to the end of a list of tensors, or to a dict as "mask", so
// that metrics weight examples by it.
static ls_nest with_mask(ls_nest tensors, ls_tensor mask) {
  const bool is_dict = tensors.kind == LS_KIND_DICT;
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t i = 0; i < ls_nest_count(tensors); ++i)
    ls_nest_builder_append_named(&items,
                                 is_dict ? ls_nest_key(tensors, i) : NULL,
                                 ls_nest_retain(ls_nest_item(tensors, i)));
  ls_nest_builder_append_named(&items, is_dict ? "mask" : NULL, ls_leaf(mask));
  return ls_nest_builder_finish(&items, is_dict ? LS_KIND_DICT : LS_KIND_LIST);
}

static ls_status add_mask(const ls_plan *plan, ls_tensor mask,
                          ls_estimator_spec **spec) {
  ls_estimator_spec_options o = *ls_estimator_spec_values(*spec);
  if (plan->mode != LS_MODE_EVAL || ls_tensor_is_failed(mask) ||
      o.eval_metrics.call == NULL ||
      ls_nest_find(o.eval_metrics.tensors, "mask").kind != LS_KIND_NONE)
    return ls_ok();
  LS_OWN(ls_nest, tensors) = with_mask(o.eval_metrics.tensors, mask);
  LS_OWN(ls_estimator_spec, masked) = NULL;
  LS_RETURN_IF_ERROR(ls_nest_status(tensors));
  o.eval_metrics.tensors = tensors;
  LS_RETURN_IF_ERROR(ls_tpu_estimator_spec_create(&o, &masked));
  ls_estimator_spec_release(*spec);
  return ls_hand_over(&masked, spec);
}

// On a CPU converts the spec to a plain one; else checks that it fits TPUs.
static ls_status calls_finish(const ls_plan *plan, bool keeps_metrics,
                              ls_estimator_spec **spec) {
  if (!plan->on_cpu) return check_spec(plan->mode, *spec);
  ls_estimator_spec *plain = NULL;
  LS_RETURN_IF_ERROR(ls_spec_make_plain(*spec, keeps_metrics, &plain));
  ls_estimator_spec_release(*spec);
  *spec = plain;
  return ls_ok();
}

// Returns the graph's failure if there is one: it has caused the error of the
// model, or of a check that finds an op missing.
static ls_status first_cause(ls_status status) {
  ls_graph *graph = ls_graph_current();
  if (ls_status_is_ok(status) || graph == NULL) return status;
  const ls_status first = ls_graph_take_error(graph);
  if (ls_status_is_ok(first)) return status;
  ls_status_free(status);
  return first;
}

// Notes that an input's list may have been meant as features and labels.
static ls_status note_list(const ls_model_inputs *inputs, ls_status status) {
  return inputs->features.kind == LS_KIND_LIST &&
                 inputs->labels.kind == LS_KIND_NONE
             ? ls_status_annotate(
                   status,
                   "features is a list of %zu, without labels; elements of the "
                   "input that are a tuple would be features and labels",
                   ls_nest_count(inputs->features))
             : status;
}

// Warns if a model function has added to collections of a loop's body, which
// are never read; once per collection.
static void warn_of_collections(void) {
  const ls_graph *graph = ls_graph_current();
  ls_map_item item;
  if (graph == NULL || graph->kind != LS_GRAPH_REGION) return;
  for (size_t at = 0; ls_map_next(&graph->collections, &at, &item);) {
    const char *name = item.key;
    size_t count = 0;
    char key[200];
    ls_collection_leaves(item.value, &count);
    if (count == 0) continue;
    snprintf(key, sizeof(key), "model_fn's collection %s", name);
    ls_log_limited(ls_runtime_current(), key, 1, LS_LOG_WARNING, "estimator",
                   "model_fn adds to collection '%s' of ls_graph_current(), "
                   "which on cores is the body of a loop: hooks, savers and "
                   "scaffolds do not see it; give it in the spec (scaffold_fn, "
                   "host_call, eval_metrics), or name the collection where a "
                   "variable is made (ls_variable_options.collections)",
                   name);
  }
}

ls_status ls_call_model(const ls_estimator_calls *calls,
                        const ls_model_inputs *inputs,
                        ls_estimator_spec **out_spec) {
  const bool on_cpu = calls->plan->on_cpu;
  *out_spec = NULL;
  LS_RETURN_IF_ERROR(calls_check_inputs(calls, inputs));
  LS_OWN(ls_nest, params) = ls_params_copy(calls->params);
  LS_OWN(ls_estimator_spec, spec) = NULL;
  LS_RETURN_IF_ERROR(model_params(calls, inputs, &params));
  const ls_tensor mask = find_mask(calls, inputs);
  LS_RETURN_IF_ERROR(note_list(
      inputs,
      first_cause(calls_call_model(calls, inputs, mask, params, &spec))));
  LS_RETURN_IF_ERROR(add_mask(calls->plan, mask, &spec));
  if (!on_cpu) warn_of_collections();
  if (!(on_cpu && inputs->keeps_kind))
    LS_RETURN_IF_ERROR(
        calls_finish(calls->plan, inputs->keeps_metrics, &spec));
  return ls_hand_over(&spec, out_spec);
}

ls_status ls_captured_set(ls_captured *captured, const char *noun,
                          void *value) {
  if (captured->is_set)
    return ls_failed_precondition(
        "InternalError: %s was captured before, and can be once only", noun);
  *captured = (ls_captured){.value = value, .is_set = true};
  return ls_ok();
}

ls_status ls_captured_get(const ls_captured *captured, const char *noun,
                          void **out_value) {
  *out_value = captured->value;
  return captured->is_set
             ? ls_ok()
             : ls_failed_precondition("InternalError: %s is read but was not "
                                      "captured: its function was not called",
                                      noun);
}
