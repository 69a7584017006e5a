// SPDX-License-Identifier: Apache-2.0
//
// Exports an estimator's model: a graph for CPUs, which stores the variables,
// and one for TPUs, which shares them.
#include <string.h>

#include "base/require.h"
#include "estimator/calls/job.h"
#include "estimator/config/config.h"
#include "estimator/own.h"
#include "lockstep/estimator_export.h"

enum { WRAPPED_BATCH = 2048 };

// One of the graphs of an export.
typedef struct side {
  ls_job job;
  bool is_tpu;
  ls_serving_receiver receiver;
  // Outputs of a TPU graph, from the called function; else
  ls_export_outputs outputs;
  ls_nest values;  // of modes other than prediction.
  ls_export_output value;
  ls_serving_signature *signatures;
  size_t num_signatures;
} side;

// ---- A graph ---------------------------------------------------------------
// Begins a job that neither feeds cores nor queries a system.
static ls_status model_export_begin(side *s, ls_estimator *estimator,
                                    ls_estimator_mode mode) {
  ls_variable *step = NULL;
  const ls_plan *plan = NULL;
  ls_job *job = &s->job;
  LS_RETURN_IF_ERROR(ls_plans_get(estimator->plans, mode, true, &plan));
  job->estimator = estimator;
  job->kind = &ls_cpu_job;
  job->calls = (ls_estimator_calls){
      .plan = plan,
      .model = &estimator->model_fn,
      .input = &job->input,
      .config = estimator->config,
      .params = estimator->params,
  };
  LS_RETURN_IF_ERROR(ls_job_make_graph(job, "export"));
  return ls_global_step_create(job->graph, &step);
}

static ls_status model_export_call_model(void *user, ls_nest inputs,
                                         ls_estimator_spec **out_spec) {
  const side *s = user;
  (void)inputs;
  return ls_call_model(&s->job.calls,
                       &(ls_model_inputs){.features = s->receiver.features,
                                          .labels = s->receiver.labels,
                                          .mask = ls_failed_tensor()},
                       out_spec);
}

// ---- Signatures ------------------------------------------------------------
static ls_status make_signatures(side *s, const ls_export_output *outputs,
                                 size_t count) {
  if (count == 0)
    return ls_invalid_argument("the model's spec has no export outputs");
  LS_SET_ARRAY_OR_RETURN(ls_current_allocator(), ls_serving_signature,
                         s->signatures, count);
  for (size_t i = 0; i < count; ++i)
    s->signatures[i] = (ls_serving_signature){.output = outputs[i],
                                              .inputs = s->receiver.inputs};
  s->num_signatures = count;
  return ls_ok();
}

// Makes the signature of a training's or an evaluation's graph: the loss and
// the predictions.
static ls_status take_values(side *s) {
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(s->job.spec);
  const bool is_dict = spec->predictions.kind == LS_KIND_DICT;
  LS_RETURN_IF_ERROR(ls_params_set(&s->values, "loss", ls_leaf(spec->loss)));
  for (size_t i = 0; is_dict && i < ls_nest_count(spec->predictions); ++i)
    LS_RETURN_IF_ERROR(
        ls_params_set(&s->values, ls_nest_key(spec->predictions, i),
                      ls_nest_retain(ls_nest_item(spec->predictions, i))));
  if (spec->predictions.kind == LS_KIND_TENSOR)
    LS_RETURN_IF_ERROR(ls_params_set(&s->values, "predictions",
                                     ls_nest_retain(spec->predictions)));
  s->value =
      (ls_export_output){.key = ls_estimator_mode_name(s->job.calls.plan->mode),
                         .kind = LS_EXPORT_PREDICT,
                         .tensors = s->values};
  return make_signatures(s, &s->value, 1);
}

static ls_status build_on_cpu(side *s) {
  ls_job *job = &s->job;
  LS_RETURN_IF_ERROR(ls_call_model_alone(&job->calls, s->receiver.features,
                                         s->receiver.labels, &job->spec));
  LS_RETURN_IF_ERROR(ls_graph_error(job->graph));
  const ls_estimator_spec_options *spec = ls_estimator_spec_values(job->spec);
  if (spec->scaffold != NULL) ls_scaffold_copy(&job->scaffold, spec->scaffold);
  if (job->calls.plan->mode != LS_MODE_PREDICT) return take_values(s);
  return make_signatures(s, spec->export_outputs, spec->num_export_outputs);
}

static ls_status build_on_tpu(side *s) {
  LS_RETURN_IF_ERROR(ls_rewrite_model_for_inference(
      s->job.calls.plan->mode, model_export_call_model, s, ls_none(), NULL,
      &s->outputs));
  return make_signatures(s, s->outputs.items, s->outputs.count);
}

static ls_status build_in(side *s, const ls_estimator_exporting *e) {
  LS_GRAPH_SCOPE(s->job.graph);
  LS_RETURN_IF_ERROR(e->receiver.call(e->receiver.user, &s->receiver));
  LS_RETURN_IF_ERROR(ls_nest_status(s->receiver.features));
  LS_RETURN_IF_ERROR(ls_nest_status(s->receiver.labels));
  LS_RETURN_IF_ERROR(ls_nest_status(s->receiver.inputs));
  LS_RETURN_IF_ERROR(ls_graph_error(s->job.graph));
  if (s->receiver.features.kind == LS_KIND_NONE)
    return ls_invalid_argument("the receiver returns no features");
  if (s->receiver.inputs.kind == LS_KIND_NONE)
    s->receiver.inputs = ls_nest_retain(s->receiver.features);
  return s->is_tpu ? build_on_tpu(s) : build_on_cpu(s);
}

static ls_status model_export_build(side *s, ls_estimator *estimator,
                                    ls_estimator_mode mode,
                                    const ls_estimator_exporting *e) {
  LS_RETURN_IF_ERROR(model_export_begin(s, estimator, mode));
  const ls_status status = build_in(s, e),
                  first = ls_graph_take_error(s->job.graph);
  // If the graph has failed, its failure is the root cause of the model's later
  // error.
  if (ls_status_is_ok(first)) return status;
  ls_status_free(status);
  return first;
}

static void model_export_drop(side *s) {
  ls_release(ls_current_allocator(), s->signatures);
  ls_nest_release(s->values);
  ls_export_outputs_release(&s->outputs);
  ls_nest_release(s->receiver.features);
  ls_nest_release(s->receiver.labels);
  ls_nest_release(s->receiver.inputs);
  ls_status_free(ls_job_end(&s->job, "export", ls_ok()));
}

// ---- Writing ---------------------------------------------------------------
// Writes the export. `checkpoint` NULL: the variables have the session's
// values.
static ls_status write(side *sides, size_t count,
                       const ls_estimator_exporting *e, const char *checkpoint,
                       ls_session *session, char **out_path) {
  static const char *const for_tpu[] = {LS_SERVING_TAG, LS_SERVING_TPU_TAG};
  ls_serving_graph graphs[2];
  for (size_t i = 0; i < count; ++i)
    graphs[i] = (ls_serving_graph){
        .graph = sides[i].job.graph,
        .tags = for_tpu,
        .num_tags = sides[i].is_tpu ? 2 : 1,
        .signatures = sides[i].signatures,
        .num_signatures = sides[i].num_signatures,
        .shares_variables = sides[i].is_tpu,
    };
  return ls_serving_export(
      &(ls_serving_options){
          .base = e->base,
          .graphs = graphs,
          .num_graphs = count,
          .checkpoint = checkpoint,
          .session = session,
          .mode = ls_estimator_mode_name(sides[0].job.calls.plan->mode),
          .assets = e->assets,
          .num_assets = e->num_assets,
          .onnx = e->onnx,
          .stablehlo = e->stablehlo,
          .batch_size = e->batch_size,
      },
      out_path);
}

// Writes an export with the values with which a training would start.
static ls_status write_warm(side *sides, size_t count,
                            const ls_estimator_exporting *e, char **out_path) {
  ls_monitored_session *session = NULL;
  ls_job *job = &sides[0].job;
  LS_RETURN_IF_ERROR(ls_job_set_values(job));
  LS_RETURN_IF_ERROR(ls_job_session(job, false, &session));
  const ls_status status =
      write(sides, count, e, NULL, ls_monitored_session_now(session), out_path);
  return ls_monitored_session_close(session, status);
}

// ---- Export ----------------------------------------------------------------
static ls_status model_export_check(const ls_estimator_exporting *e,
                                    ls_estimator_mode mode, bool to_tpu) {
  if (e->receiver.call == NULL)
    return ls_invalid_argument("an export needs a receiver_fn, which makes the "
                               "placeholders that it is given values by");
  if (e->base == NULL || e->base[0] == 0)
    return ls_invalid_argument("an export needs a base folder");
  if (mode < LS_MODE_TRAIN || mode > LS_MODE_PREDICT)
    return ls_invalid_argument("mode %d of an export", (int)mode);
  return to_tpu && mode != LS_MODE_PREDICT
             ? ls_unimplemented("an export for TPUs of mode '%s': only mode "
                                "'predict' is supported",
                                ls_estimator_mode_name(mode))
             : ls_ok();
}

// Exports a model with the checkpoint's values; NULL: with the values with
// which a training would start.
static ls_status export_from(ls_estimator *self,
                             const ls_estimator_exporting *e,
                             ls_estimator_mode mode, const char *checkpoint,
                             char **out_path) {
  const size_t count = self->exports_to_tpu ? 2 : 1;
  LS_OWN_ARRAY_OR_RETURN(ls_current_allocator(), side, sides, count);
  ls_status status = ls_ok();
  size_t made = 0;
  for (; made < count && ls_status_is_ok(status); ++made) {
    sides[made].is_tpu = made > 0;
    status = model_export_build(&sides[made], self, mode, e);
  }
  if (ls_status_is_ok(status))
    status = checkpoint != NULL
                 ? write(sides, count, e, checkpoint, NULL, out_path)
                 : write_warm(sides, count, e, out_path);
  for (size_t i = 0; i < made; ++i)
    model_export_drop(&sides[i]);
  return status;
}

ls_status ls_estimator_export(ls_estimator *estimator,
                              const ls_estimator_exporting *exporting,
                              char **out_path) {
  LS_REQUIRE_OUT(out_path, estimator, exporting);
  LS_REQUIRE_ITEMS(exporting->assets, exporting->num_assets);
  const ls_estimator_mode mode =
      exporting->mode != LS_MODE_NONE ? exporting->mode : LS_MODE_PREDICT;
  LS_RETURN_IF_ERROR(
      model_export_check(exporting, mode, estimator->exports_to_tpu));
  ls_estimator_checkpoint checkpoint;
  LS_RETURN_IF_ERROR(ls_estimator_checkpoint_open(
      estimator, exporting->checkpoint, &checkpoint));
  const ls_status status =
      checkpoint.file != NULL || estimator->warm_start.path != NULL
          ? export_from(estimator, exporting, mode, checkpoint.path, out_path)
          : ls_failed_precondition(
                "Could not find trained model in model_dir: %s, to be exported",
                estimator->model_dir);
  ls_estimator_checkpoint_close(&checkpoint);
  return status;
}

// ---- TPU graphs ------------------------------------------------------------
static ls_status model_export_wrap(const ls_estimator *self,
                                   ls_run_config *config,
                                   ls_estimator **out_estimator) {
  return ls_estimator_create(
      &(ls_estimator_options){
          .model_fn = self->model_fn,
          .model_dir = self->model_dir,
          .config = config,
          .params = self->has_params ? self->params : ls_none(),
          .train_batch_size = LS_SOME(WRAPPED_BATCH),
          .eval_batch_size = LS_SOME(WRAPPED_BATCH),
          .predict_batch_size = LS_SOME(WRAPPED_BATCH),
          .warm_start =
              self->warm_start.path != NULL ? &self->warm_start : NULL,
      },
      out_estimator);
}

ls_status ls_estimator_export_for_tpu(ls_estimator *estimator,
                                      const ls_estimator_exporting *exporting,
                                      char **out_path) {
  LS_REQUIRE_OUT(out_path);
  static const char *const fields[] = {"train_distribute", "eval_distribute"};
  LS_OWN(ls_run_config, config) = NULL;
  LS_OWN(ls_estimator, wrapped) = NULL;
  LS_REQUIRE(estimator);
  LS_RETURN_IF_ERROR(ls_run_config_replace(
      estimator->config, fields, 2, &(ls_run_config_options){0}, &config));
  LS_RETURN_IF_ERROR(model_export_wrap(estimator, config, &wrapped));
  return ls_estimator_export(wrapped, exporting, out_path);
}
