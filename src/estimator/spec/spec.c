// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "estimator/own.h"
#include "estimator/spec/calls.h"
#include "graph/flow.h"
#include "graph/make/make.h"
#include "graph/op_table.h"
#include "graph/trial.h"
#include "lockstep/estimator_functions.h"
#include "lockstep/ops.h"
#include "lockstep/replicate.h"

// ---- Copies ----------------------------------------------------------------
// Replaces a list of hooks by a copy that holds references.
static ls_status keep_hooks(ls_arena *memory, ls_hook *const **hooks,
                            size_t count) {
  LS_ARENA_ARRAY_OR_RETURN(memory, ls_hook *, copy, count + 1);
  for (size_t i = 0; i < count; ++i)
    copy[i] = ls_hook_retain((*hooks)[i]);
  *hooks = copy;
  return ls_ok();
}

static void drop_hooks(ls_hook *const *hooks, size_t count) {
  for (size_t i = 0; i < count; ++i)
    ls_hook_release(hooks[i]);
}

static void spec_destroy(ls_object *object) {
  ls_estimator_spec *self = (ls_estimator_spec *)object;
  const ls_estimator_spec_options *spec = &self->options;
  drop_hooks(spec->training_hooks, spec->num_training_hooks);
  drop_hooks(spec->evaluation_hooks, spec->num_evaluation_hooks);
  drop_hooks(spec->prediction_hooks, spec->num_prediction_hooks);
  drop_hooks(spec->training_chief_hooks, spec->num_training_chief_hooks);
  for (size_t i = 0; i < spec->num_export_outputs; ++i)
    ls_nest_release(spec->export_outputs[i].tensors);
  ls_nest_release(spec->predictions);
  ls_nest_release(spec->eval_metric_ops);
  ls_nest_release(spec->eval_metrics.tensors);
  ls_nest_release(spec->host_call.tensors);
  ls_allocator *allocator = self->memory.allocator;
  ls_arena_deinit(&self->memory);
  ls_release(allocator, self);
}

static const ls_object_type type = {.name = "estimator spec",
                                    .destroy = spec_destroy};

// ---- Exports ---------------------------------------------------------------
static ls_nest dict_of(ls_nest predictions) {
  static const char *const key = "output";
  if (predictions.kind == LS_KIND_DICT) return ls_nest_retain(predictions);
  return ls_nest_dict("", &key, &predictions, 1);
}

// Copies the export outputs; a prediction always has a default output.
static ls_status keep_exports(ls_estimator_spec *self,
                              const ls_estimator_spec_options *from) {
  const size_t count = from->num_export_outputs;
  LS_ARENA_ARRAY_OR_RETURN(&self->memory, ls_export_output, all, count + 1);
  self->options.export_outputs = all;
  for (size_t i = 0; i < count; ++i) {
    all[i] = from->export_outputs[i];
    all[i].key = ls_arena_format(&self->memory, "%s", all[i].key);
    if (all[i].key == NULL) return ls_out_of_memory();
    all[i].tensors = ls_nest_retain(all[i].tensors);
    ++self->options.num_export_outputs;
  }
  const bool adds = from->mode == LS_MODE_PREDICT && count < 2 &&
                    (count == 0 || strcmp(all[0].key, LS_SERVING_DEFAULT) != 0);
  if (!adds) return ls_ok();
  all[count] = count == 0
                   ? (ls_export_output){.kind = LS_EXPORT_PREDICT,
                                        .tensors = dict_of(from->predictions)}
                   : all[0];
  if (count > 0) all[count].tensors = ls_nest_retain(all[0].tensors);
  all[count].key = LS_SERVING_DEFAULT;
  ++self->options.num_export_outputs;
  return ls_nest_status(all[count].tensors);
}

// ---- Making ----------------------------------------------------------------
static ls_status keep_cache(ls_estimator_spec *self) {
  LS_ARENA_ARRAY_OR_RETURN(&self->memory, ls_tensor, copy,
                           self->options.cache_size + 1);
  for (size_t i = 0; i < self->options.cache_size; ++i)
    copy[i] = self->options.cache[i];
  self->options.cache = copy;
  return ls_ok();
}

static ls_status keep_all_hooks(ls_estimator_spec *self,
                                const ls_estimator_spec_options *from) {
  ls_estimator_spec_options *spec = &self->options;
  ls_arena *memory = &self->memory;
  LS_RETURN_IF_ERROR(
      keep_hooks(memory, &spec->training_hooks, from->num_training_hooks));
  spec->num_training_hooks = from->num_training_hooks;
  LS_RETURN_IF_ERROR(
      keep_hooks(memory, &spec->evaluation_hooks, from->num_evaluation_hooks));
  spec->num_evaluation_hooks = from->num_evaluation_hooks;
  LS_RETURN_IF_ERROR(
      keep_hooks(memory, &spec->prediction_hooks, from->num_prediction_hooks));
  spec->num_prediction_hooks = from->num_prediction_hooks;
  LS_RETURN_IF_ERROR(keep_hooks(memory, &spec->training_chief_hooks,
                                from->num_training_chief_hooks));
  spec->num_training_chief_hooks = from->num_training_chief_hooks;
  return ls_ok();
}

static ls_status spec_fill(ls_estimator_spec *self,
                           const ls_estimator_spec_options *from) {
  ls_estimator_spec_options *spec = &self->options;
  spec->predictions = from->predictions.kind == LS_KIND_NONE
                          ? ls_nest_dict("", NULL, NULL, 0)
                          : ls_nest_retain(from->predictions);
  spec->eval_metric_ops = ls_nest_retain(from->eval_metric_ops);
  spec->eval_metrics.tensors = ls_nest_retain(from->eval_metrics.tensors);
  spec->host_call.tensors = ls_nest_retain(from->host_call.tensors);
  LS_RETURN_IF_ERROR(ls_nest_status(spec->predictions));
  LS_RETURN_IF_ERROR(keep_all_hooks(self, from));
  LS_RETURN_IF_ERROR(keep_exports(self, from));
  LS_RETURN_IF_ERROR(keep_cache(self));
  self->has_scaffold = from->scaffold != NULL;
  if (self->has_scaffold) self->scaffold = *from->scaffold;
  spec->scaffold = self->is_tpu ? NULL : &self->scaffold;
  if (spec->loss.ref == 0 || ls_tensor_shape(spec->loss).rank < 1)
    return ls_ok();
  spec->loss = ls_reshape(spec->loss, LS_SCALAR);
  return ls_tensor_is_failed(spec->loss)
             ? ls_graph_take_error(ls_graph_current())
             : ls_ok();
}

static ls_status spec_make(const ls_estimator_spec_options *options,
                           bool is_tpu, ls_estimator_spec **out_spec) {
  LS_RETURN_IF_ERROR(ls_estimator_spec_check(options, is_tpu));
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_NEW_OR_RETURN(allocator, ls_estimator_spec, self);
  ls_object_init(&self->object, &type);
  ls_arena_init(&self->memory, allocator);
  self->is_tpu = is_tpu;
  self->options = *options;
  // Resets the numbers of hooks, which copying counts again.
  self->options.num_training_hooks = self->options.num_evaluation_hooks = 0;
  self->options.num_prediction_hooks = self->options.num_training_chief_hooks =
      0;
  self->options.num_export_outputs = 0;
  LS_RETURN_IF_ERROR(spec_fill(self, options));
  return ls_hand_over(&self, out_spec);
}

ls_status ls_estimator_spec_create(const ls_estimator_spec_options *options,
                                   ls_estimator_spec **out_spec) {
  LS_REQUIRE_OUT(out_spec, options);
  return spec_make(options, false, out_spec);
}

ls_status ls_tpu_estimator_spec_create(const ls_estimator_spec_options *options,
                                       ls_estimator_spec **out_spec) {
  LS_REQUIRE_OUT(out_spec, options);
  return spec_make(options, true, out_spec);
}

const ls_estimator_spec_options *
ls_estimator_spec_values(const ls_estimator_spec *spec) {
  return &spec->options;
}

bool ls_estimator_spec_is_tpu(const ls_estimator_spec *spec) {
  return spec->is_tpu;
}

LS_COUNTED(ls_estimator_spec)

// ---- Scaffold scopes --------------------------------------------------------
// They refuse ops that use values of a program.
typedef struct scaffold_flow {
  ls_flow flow;
  const char *where;
} scaffold_flow;

static ls_status scaffold_scope_admit(ls_flow *self, ls_op_spec *spec,
                                      ls_arena *memory) {
  const scaffold_flow *flow = (const scaffold_flow *)self;
  (void)memory;
  for (size_t i = 0; i < spec->num_inputs; ++i) {
    const ls_op from = ls_tensor_op(spec->inputs[i]);
    if (from.id != 0 && ls_op_is_replicated(from))
      return ls_invalid_argument(
          "%s: op '%s' depends on '%s', which is made inside the TPU program: "
          "tensors that model_fn makes there cannot be used on the host",
          flow->where,
          spec->name != NULL ? spec->name : ls_op_table[spec->type].name,
          ls_tensor_name(spec->inputs[i]));
  }
  return ls_ok();
}

static const ls_flow_type scaffold_flow_type = {.name = "scaffold",
                                                .admit = scaffold_scope_admit};

void ls_scaffold_scope_begin(ls_scope *scope, ls_scaffold_stretch stretch) {
  static scaffold_flow flows[] = {
      [LS_IN_SCAFFOLD_FN] = {{&scaffold_flow_type}, "Inside scaffold_fn"},
      [LS_IN_SCAFFOLD_FINALIZE] = {{&scaffold_flow_type},
                                   "Inside Scaffold.finalize"}};
  ls_flow_begin(scope, &flows[stretch].flow);
}

ls_status ls_program_scaffold(const ls_estimator_spec *spec, ls_graph *graph,
                              ls_scaffold *out_scaffold) {
  const ls_estimator_spec_options *spec_options =
      ls_estimator_spec_values(spec);
  *out_scaffold = (ls_scaffold){0};
  if (spec_options->scaffold_fn == NULL) return ls_ok();
  LS_GRAPH_SCOPE(graph);
  LS_SCOPE_BLOCK_(scope);
  ls_scaffold_scope_begin(&scope, LS_IN_SCAFFOLD_FN);
  LS_RETURN_IF_ERROR(ls_scope_status());
  LS_RETURN_IF_ERROR(
      spec_options->scaffold_fn(spec_options->scaffold_user, out_scaffold));
  return ls_graph_take_error(graph);
}

ls_status ls_program_finalize(ls_scaffold *scaffold, ls_graph *graph) {
  LS_GRAPH_SCOPE(graph);
  LS_SCOPE_BLOCK_(scope);
  ls_scaffold_scope_begin(&scope, LS_IN_SCAFFOLD_FINALIZE);
  LS_RETURN_IF_ERROR(ls_scope_status());
  return ls_scaffold_finalize(scaffold, graph);
}

// ---- Train op --------------------------------------------------------------
static ls_status train_op_make(ls_optimizer *optimizer, ls_tensor loss,
                               ls_op *out_op) {
  ls_variable *step = NULL;
  if (optimizer == NULL)
    return ls_invalid_argument("a train op needs an optimizer");
  LS_RETURN_IF_ERROR(ls_global_step_get(ls_graph_current(), &step));
  const ls_op trained = ls_optimizer_minimize(optimizer, loss);
  const ls_tensor one = ls_op_is_failed(trained)
                            ? ls_failed_tensor()
                            : ls_scalar_i64(LS_DTYPE_I64, 1);
  // Stops here: if this replica went on, it would miss a collective or use the
  // wrong one, and that error would hide the root cause.
  if (ls_tensor_is_failed(one)) return ls_graph_take_error(ls_graph_current());
  const ls_op ops[] = {trained,
                       ls_tensor_op(ls_variable_assign_add(step, one))};
  *out_op = ls_group(ops, 2, "train_op");
  return ls_ok();
}

ls_op ls_train_op(ls_optimizer *optimizer, ls_tensor loss) {
  ls_op made = {0};
  const ls_status status = LS_TRIAL(train_op_make(optimizer, loss, &made));
  return ls_status_is_ok(status)
             ? made
             : ls_tensor_op(ls_make_failed("train_op", status));
}
