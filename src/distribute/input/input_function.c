// SPDX-License-Identifier: Apache-2.0
//
// Data sets from a function: a pipeline for each host, or for each replica.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "distribute/base/strategy.h"
#include "distribute/input/making.h"
#include "lockstep/element_spec.h"

// A pipeline that the function gave, which is taken over.
static ls_status take_made(ls_input_making *m, size_t pipeline, ls_nest given) {
  char text[200];
  ls_pipeline *to = &m->data->pipelines[pipeline];
  LS_OWN(ls_nest, made) = ls_none();
  LS_RETURN_IF_ERROR(ls_take_nest(given, &made));
  to->dataset = ls_dataset_retain(ls_nest_as_dataset(made));
  to->callable = ls_object_retain(ls_nest_as_input_callable(made));
  if (to->dataset == NULL && to->callable == NULL)
    return ls_invalid_argument(
        "the function of %s gave %s for pipeline %zu: it is to give a data set "
        "(ls_nest_dataset) or a callable (ls_nest_input_callable)",
        m->request->what, ls_nest_print(made, text, sizeof(text)), pipeline);
  return ls_ok();
}

static ls_status call_function(ls_input_making *m, size_t pipeline,
                               const char *device) {
  const ls_input_context context = {
      .num_pipelines = (int32_t)m->data->num_pipelines,
      .pipeline = (int32_t)pipeline,
      .num_replicas = (int32_t)m->data->num_replicas};
  ls_nest made = ls_none();
  {
    LS_DEVICE_SCOPE(device);
    made = m->request->function(context, m->request->user);
  }
  return take_made(m, pipeline, made);
}

static ls_status call_for_replicas(ls_input_making *m) {
  ls_distributed_dataset *data = m->data;
  data->is_per_replica = true;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, data->num_replicas));
  for (size_t r = data->first_own; r < data->end_own; ++r) {
    ls_device_name host;
    const char *device = ls_strategy_device(m->strategy, (int32_t)r);
    LS_RETURN_IF_ERROR(ls_device_host(device, &host));
    LS_RETURN_IF_ERROR(call_function(
        m, r, m->options->place_dataset_on_device ? device : host.text));
  }
  return ls_ok();
}

static ls_status call_for_hosts(ls_input_making *m) {
  ls_distributed_dataset *data = m->data;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, data->map.num_hosts));
  for (size_t h = 0; h < data->map.num_hosts; ++h)
    if (!data->map.hosts[h].is_other)
      LS_RETURN_IF_ERROR(call_function(m, h, data->map.hosts[h].name));
  return ls_ok();
}

// What a pipeline's elements are; lent.
static ls_status spec_of(const ls_pipeline *pipeline, ls_element_spec *out) {
  const ls_input_callable *callable = pipeline->callable;
  if (pipeline->dataset != NULL) return ls_dataset_spec(pipeline->dataset, out);
  *out = (ls_element_spec){.structure = callable->structure,
                           .leaves = callable->leaves,
                           .count = callable->num_leaves};
  return ls_ok();
}

// All pipelines' elements are alike; dimensions that differ are not known.
static ls_status join_spec(ls_distributed_dataset *data, size_t pipeline,
                           const ls_element_spec *spec) {
  char path[200];
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_nest_same_structure(data->structure, spec->structure),
      "between elements of the data sets of pipeline %zu and of another one",
      pipeline));
  for (size_t i = 0; i < spec->count; ++i) {
    ls_leaf_spec *to = &data->leaves[i];
    const ls_type *type = &spec->leaves[i].type;
    if (to->kind != spec->leaves[i].kind || to->type.dtype != type->dtype ||
        to->type.shape.rank != type->shape.rank)
      return ls_invalid_argument(
          "leaf %s of the data set of pipeline %zu is %s, of another one %s",
          ls_input_leaf_path(data->structure, i, path, sizeof(path)), pipeline,
          LS_SHAPE_TEXT(type->dtype, type->shape),
          LS_SHAPE_TEXT(to->type.dtype, to->type.shape));
    for (int d = 0; d < type->shape.rank; ++d)
      if (to->type.shape.dim[d] != type->shape.dim[d])
        to->type.shape.dim[d] = LS_UNKNOWN_DIM;
  }
  return ls_ok();
}

static ls_status check_made(ls_input_making *m, size_t i) {
  const ls_pipeline *pipeline = &m->data->pipelines[i];
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(spec_of(pipeline, &spec));
  if (m->options->fetch_to_device != LS_FLAG_OFF) {
    const ls_nest specs = pipeline->dataset != NULL
                              ? ls_dataset_spec_nest(pipeline->dataset)
                              : ls_nest_retain(pipeline->callable->element);
    const ls_status dense = ls_input_check_dense(specs, m->strategy->label);
    ls_nest_release(specs);
    LS_RETURN_IF_ERROR(dense);
  }
  if (m->data->leaves != NULL) return join_spec(m->data, i, &spec);
  if (pipeline->dataset != NULL)
    LS_RETURN_IF_ERROR(ls_input_set_text(m->data, pipeline->dataset));
  return ls_input_set_spec(m->data, &spec);
}

ls_status ls_input_from_function(ls_input_making *m) {
  ls_distributed_dataset *data = m->data;
  const bool to_hosts = m->options->fetch_to_device == LS_FLAG_OFF;
  bool infinite = true, called = false;
  LS_RETURN_IF_ERROR(ls_input_set_map(data, m->trunk, to_hosts));
  if (m->trunk != NULL) ls_input_keep_own(data, m->trunk);
  data->wraps = data->num_replicas > 1;
  if (data->first_own == data->end_own)
    return ls_failed_precondition(
        "%s on rank %d of %d, which has none of the %zu replicas",
        m->request->what, m->trunk->rank, m->trunk->ranks, data->num_replicas);
  LS_RETURN_IF_ERROR(m->options->replication == LS_PIPELINE_PER_REPLICA
                         ? call_for_replicas(m)
                         : call_for_hosts(m));
  for (size_t i = 0; i < data->num_pipelines; ++i) {
    const ls_pipeline *p = &data->pipelines[i];
    if (p->dataset == NULL && p->callable == NULL) continue;
    LS_RETURN_IF_ERROR(check_made(m, i));
    infinite &=
        p->dataset != NULL && ls_dataset_cardinality(p->dataset) == LS_INFINITE;
    called |= p->callable != NULL;
  }
  data->is_endless = infinite;
  data->is_never_partial = called;
  data->is_partial = !infinite && !called && ls_input_has_unknown(data);
  return ls_ok();
}
