// SPDX-License-Identifier: Apache-2.0
//
// Distributes data sets: decides which part of a data set each host reads, and
// how replicas' values are made from it.
#include <string.h>

#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "data/own.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "lockstep/device_name.h"
#include "lockstep/element_spec.h"

// A distributed data set being made.
typedef struct making {
  ls_strategy *strategy;
  const ls_input_request *request;
  const ls_input_options *options;
  const ls_communicator *communicator;  // NULL: this process has all replicas.
  ls_distributed_dataset *data;
} making;

// ---- Destinations of values -------------------------------------------------
static ls_status set_map(ls_distributed_dataset *data,
                         const ls_communicator *communicator, bool to_hosts) {
  const char *const *devices = ls_strategy_devices(data->strategy);
  return communicator != NULL
             ? ls_host_map_init_ranks(&data->map, data->allocator, devices,
                                      data->num_replicas, to_hosts,
                                      communicator)
             : ls_host_map_init(&data->map, data->allocator, devices,
                                data->num_replicas, to_hosts);
}

// Limits the values to those of the replicas of this rank.
static void keep_own(ls_distributed_dataset *data) {
  ls_strategy_own_replicas(data->strategy, &data->first_own, &data->end_own);
}

// Sets the device of each replica's value, for all hosts.
static ls_status set_places(ls_distributed_dataset *data, bool to_hosts) {
  const size_t count = data->num_replicas;
  LS_SET_ARRAY_OR_RETURN(data->allocator, const char *, data->places, count);
  if (ls_strategy_devices(data->strategy) == NULL) return ls_ok();
  for (size_t r = 0; r < count; ++r) {
    const char *device = ls_strategy_device(data->strategy, (int32_t)r);
    ls_device_name host;
    LS_RETURN_IF_ERROR(ls_device_host(device, &host));
    for (size_t h = 0; to_hosts && h < data->map.num_hosts; ++h)
      if (strcmp(data->map.hosts[h].name, host.text) == 0)
        data->places[r] = data->map.hosts[h].name;
    if (!to_hosts) data->places[r] = device;
  }
  return ls_ok();
}

// ---- From a data set --------------------------------------------------------
// Resolves the policies DEFAULT and AUTO.
static ls_shard_policy choose_policy(const making *self,
                                     const ls_dataset *dataset) {
  ls_shard_policy policy = self->options->sharding;
  if (policy == LS_SHARD_DEFAULT)
    policy = self->options->whole_elements && self->communicator == NULL
                 ? LS_SHARD_AUTO
                 : LS_SHARD_DATA;
  if (policy == LS_SHARD_AUTO)
    policy = ls_input_reads_files(dataset) ? LS_SHARD_FILE : LS_SHARD_DATA;
  return policy;
}

// Gives each host a pipeline with the host's shard.
static ls_status shard_over_hosts(making *self, ls_dataset *dataset,
                                  ls_shard_policy policy) {
  ls_distributed_dataset *data = self->data;
  const ls_host_map *map = &data->map;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, map->num_hosts));
  for (size_t h = 0; h < map->num_hosts; ++h) {
    if (map->hosts[h].is_other) continue;
    ls_dataset *shard =
        ls_input_shard(dataset, policy, (int64_t)map->num_hosts, (int64_t)h);
    data->pipelines[h].dataset = shard;
    if (shard == NULL) return ls_out_of_memory();
    LS_RETURN_IF_ERROR(ls_dataset_status(shard));
  }
  return ls_ok();
}

// Uses one data set, which is taken over, as the pipeline of all replicas.
static ls_status use_pipeline(making *self, ls_dataset *dataset) {
  LS_OWN(ls_dataset, pipeline) = dataset;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(self->data, 1));
  self->data->pipelines[0].dataset = ls_give(&pipeline);
  return ls_dataset_status(dataset);
}

static ls_status use_one(making *self, ls_dataset *dataset) {
  return use_pipeline(self, ls_dataset_retain(dataset));
}

// Returns true if each rank reads only its own replicas' values. In graphs it
// cannot, because ops need the values of all replicas.
static bool reads_apart(const making *self) {
  const ls_graph *graph = ls_graph_current();
  return self->communicator != NULL && graph != NULL &&
         ls_graph_is_eager(graph);
}

// Uses a pipeline with only the values of this rank, if `make` can make one;
// `*out_has` is true then.
static ls_status use_own(making *self, ls_dataset *dataset,
                         ls_dataset *(*make)(ls_dataset *dataset,
                                             int64_t replicas, int64_t first,
                                             int64_t end),
                         bool *out_has) {
  ls_distributed_dataset *data = self->data;
  if (!reads_apart(self)) return use_one(self, dataset);
  keep_own(data);
  ls_dataset *own = make(dataset, (int64_t)data->num_replicas,
                         (int64_t)data->first_own, (int64_t)data->end_own);
  *out_has = own != NULL;
  if (own != NULL) return use_pipeline(self, own);
  data->first_own = 0;
  data->end_own = data->num_replicas;
  return use_one(self, dataset);
}

static ls_status use_whole(making *self, ls_dataset *dataset,
                           ls_shard_policy policy) {
  ls_distributed_dataset *data = self->data;
  data->is_never_partial = true;
  data->wraps = true;
  if (policy != LS_SHARD_DATA || data->map.num_hosts > 1)
    return shard_over_hosts(self, dataset, policy);
  data->elements = ls_dataset_cardinality(dataset);
  return use_own(self, dataset, ls_input_turns, &data->is_turns);
}

// Gives each replica a part of each batch. If batches are made of rows, a rank
// reads only its replicas' rows.
static ls_status use_parts(making *self, ls_dataset *dataset) {
  ls_distributed_dataset *data = self->data;
  data->cut = LS_INPUT_SPLIT;
  return data->shares.round_up
             ? use_one(self, dataset)
             : use_own(self, dataset, ls_input_part, &data->is_part);
}

static ls_status use_rows(making *self, ls_dataset *dataset,
                          ls_shard_policy policy) {
  bool batched = false;
  ls_distributed_dataset *data = self->data;
  data->cut = LS_INPUT_REBATCH;
  data->batch_rows = ls_input_batch_rows(dataset, &batched);
  data->shares.round_up = data->batch_rows < 0;
  if (!batched)
    return ls_invalid_argument(
        "a data set without batches cannot be rebatched on each host of %s: "
        "batch it first (ls_dataset_batch)",
        self->strategy->label);
  LS_RETURN_IF_ERROR(shard_over_hosts(self, dataset, policy));
  data->is_endless = ls_dataset_cardinality(dataset) == LS_INFINITE;
  data->is_partial = !data->is_endless && ls_input_has_unknown(data);
  return ls_ok();
}

static ls_status check_readers(const ls_dataset *dataset,
                               ls_shard_policy policy) {
  char text[300];
  if (policy == LS_SHARD_HINT && !ls_input_has_hint(dataset))
    return ls_invalid_argument(
        "sharding by hint of %s: there is none; put ls_dataset_shard_hint "
        "where the data set should be sharded",
        ls_dataset_print(dataset, text, sizeof(text)));
  if (policy != LS_SHARD_FILE || ls_input_reads_files(dataset)) return ls_ok();
  return ls_not_found("sharding by file of %s: none of its sources reads files",
                      ls_dataset_print(dataset, text, sizeof(text)));
}

// Checks specs, which are taken over: only dense leaves can be copied to
// devices.
static ls_status check_fetched(const making *self, ls_nest taken) {
  LS_OWN(ls_nest, specs) = taken;
  return self->options->fetch_to_device == LS_FLAG_OFF
             ? ls_nest_status(specs)
             : ls_input_check_dense(specs, self->strategy->label);
}

static ls_status from_dataset(making *self, ls_dataset *dataset) {
  ls_element_spec spec;
  ls_distributed_dataset *data = self->data;
  const ls_input_options *options = self->options;
  if (dataset->kind->is_last)
    return ls_unimplemented(
        "%s of a data set after %s, which must be the last step",
        self->request->noun, dataset->kind->name);
  const bool to_hosts = options->fetch_to_device == LS_FLAG_OFF;
  const bool splits = !options->whole_elements && data->num_replicas > 1;
  LS_RETURN_IF_ERROR(ls_dataset_spec(dataset, &spec));
  LS_RETURN_IF_ERROR(check_fetched(self, ls_dataset_spec_nest(dataset)));
  LS_RETURN_IF_ERROR(ls_input_set_spec(data, &spec));
  LS_RETURN_IF_ERROR(ls_input_set_text(data, dataset));
  const ls_shard_policy policy = choose_policy(self, dataset);
  LS_RETURN_IF_ERROR(check_readers(dataset, policy));
  // If ranks read separately, what a rank has of a host counts as a host.
  const bool apart = policy != LS_SHARD_DATA || options->round_up;
  const ls_communicator *hosts = apart ? self->communicator : NULL;
  LS_RETURN_IF_ERROR(set_map(data, hosts, to_hosts));
  if (options->whole_elements) {
    if (apart) keep_own(data);
    return use_whole(self, dataset, policy);
  }
  if (!splits && policy == LS_SHARD_DATA) return use_one(self, dataset);
  data->wraps = data->num_replicas > 1;
  if (splits) {
    LS_RETURN_IF_ERROR(ls_input_check_rows(&spec));
    LS_RETURN_IF_ERROR(ls_host_map_check_even(&data->map));
  }
  if (policy == LS_SHARD_DATA) return use_parts(self, dataset);
  keep_own(data);
  return splits ? use_rows(self, dataset, policy)
                : shard_over_hosts(self, dataset, policy);
}

// ---- From a function --------------------------------------------------------
static ls_status call_function(making *self, size_t index, const char *device) {
  const ls_input_context context = {
      .num_pipelines = (int32_t)self->data->num_pipelines,
      .pipeline = (int32_t)index,
      .num_replicas = (int32_t)self->data->num_replicas};
  ls_pipeline *pipeline = &self->data->pipelines[index];
  LS_OWN(ls_nest, value) = ls_none();
  {
    LS_DEVICE_SCOPE(device);
    LS_RETURN_IF_ERROR(ls_take_nest(
        self->request->function(context, self->request->user), &value));
  }
  pipeline->dataset = ls_dataset_retain(ls_nest_as_dataset(value));
  pipeline->callable = ls_object_retain(ls_nest_as_input_callable(value));
  if (pipeline->dataset == NULL && pipeline->callable == NULL)
    return ls_invalid_argument(
        "the function of %s gave %s for pipeline %zu: it is to give a data set "
        "(ls_nest_dataset) or a callable (ls_nest_input_callable)",
        self->request->noun, LS_NEST_TEXT(value), index);
  return ls_ok();
}

static ls_status call_for_replicas(making *self) {
  ls_distributed_dataset *data = self->data;
  data->is_per_replica = true;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, data->num_replicas));
  for (size_t r = data->first_own; r < data->end_own; ++r) {
    ls_device_name host;
    const char *device = ls_strategy_device(self->strategy, (int32_t)r);
    LS_RETURN_IF_ERROR(ls_device_host(device, &host));
    LS_RETURN_IF_ERROR(call_function(
        self, r, self->options->place_dataset_on_device ? device : host.text));
  }
  return ls_ok();
}

static ls_status call_for_hosts(making *self) {
  ls_distributed_dataset *data = self->data;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, data->map.num_hosts));
  for (size_t h = 0; h < data->map.num_hosts; ++h)
    if (!data->map.hosts[h].is_other)
      LS_RETURN_IF_ERROR(call_function(self, h, data->map.hosts[h].name));
  return ls_ok();
}

// Finds the spec of a pipeline's elements, borrowed.
static ls_status find_spec(const ls_pipeline *pipeline,
                           ls_element_spec *out_spec) {
  const ls_input_callable *callable = pipeline->callable;
  if (pipeline->dataset != NULL)
    return ls_dataset_spec(pipeline->dataset, out_spec);
  *out_spec = (ls_element_spec){.structure = callable->structure,
                                .leaves = callable->leaves,
                                .count = callable->num_leaves};
  return ls_ok();
}

// Merges the spec of another pipeline's elements, which must be compatible;
// sizes that differ become unknown.
static ls_status join_spec(ls_distributed_dataset *data, size_t pipeline,
                           const ls_element_spec *spec) {
  char path[200];
  LS_RETURN_IF_ERROR(ls_status_annotate(
      ls_nest_same_structure(data->structure, spec->structure),
      "between elements of the data sets of pipeline %zu and of another one",
      pipeline));
  for (size_t i = 0; i < spec->count; ++i) {
    ls_leaf_spec *joined = &data->leaves[i];
    const ls_type *type = &spec->leaves[i].type;
    if (joined->kind != spec->leaves[i].kind ||
        joined->type.dtype != type->dtype ||
        joined->type.shape.rank != type->shape.rank)
      return ls_invalid_argument(
          "leaf %s of the data set of pipeline %zu is %s, of another one %s",
          ls_input_leaf_path(data->structure, i, path, sizeof(path)), pipeline,
          LS_SHAPE_TEXT(type->dtype, type->shape),
          LS_SHAPE_TEXT(joined->type.dtype, joined->type.shape));
    for (int d = 0; d < type->shape.rank; ++d)
      if (joined->type.shape.dim[d] != type->shape.dim[d])
        joined->type.shape.dim[d] = LS_UNKNOWN_DIM;
  }
  return ls_ok();
}

static ls_status check_made(making *self, size_t i) {
  const ls_pipeline *pipeline = &self->data->pipelines[i];
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(find_spec(pipeline, &spec));
  LS_RETURN_IF_ERROR(
      check_fetched(self, pipeline->dataset != NULL
                              ? ls_dataset_spec_nest(pipeline->dataset)
                              : ls_nest_retain(pipeline->callable->element)));
  if (self->data->leaves != NULL) return join_spec(self->data, i, &spec);
  if (pipeline->dataset != NULL)
    LS_RETURN_IF_ERROR(ls_input_set_text(self->data, pipeline->dataset));
  return ls_input_set_spec(self->data, &spec);
}

static ls_status from_function(making *self) {
  ls_distributed_dataset *data = self->data;
  const bool to_hosts = self->options->fetch_to_device == LS_FLAG_OFF;
  bool is_endless = true, has_callables = false;
  LS_RETURN_IF_ERROR(set_map(data, self->communicator, to_hosts));
  keep_own(data);
  data->wraps = data->num_replicas > 1;
  if (data->first_own == data->end_own)
    return ls_failed_precondition(
        "%s on rank %d of %d, which has none of the %zu replicas",
        self->request->noun, self->communicator->rank,
        self->communicator->ranks, data->num_replicas);
  LS_RETURN_IF_ERROR(self->options->replication == LS_PIPELINE_PER_REPLICA
                         ? call_for_replicas(self)
                         : call_for_hosts(self));
  for (size_t i = 0; i < data->num_pipelines; ++i) {
    const ls_pipeline *p = &data->pipelines[i];
    if (p->dataset == NULL && p->callable == NULL) continue;
    LS_RETURN_IF_ERROR(check_made(self, i));
    is_endless &=
        p->dataset != NULL && ls_dataset_cardinality(p->dataset) == LS_INFINITE;
    has_callables |= p->callable != NULL;
  }
  data->is_endless = is_endless;
  data->is_never_partial = has_callables;
  data->is_partial =
      !is_endless && !has_callables && ls_input_has_unknown(data);
  return ls_ok();
}

// ---- From both --------------------------------------------------------------
static ls_status fill_data(making *self) {
  ls_distributed_dataset *data = self->data;
  data->shares.round_up = self->options->round_up;
  LS_RETURN_IF_ERROR(
      ls_input_choose_buffer(self->strategy, self->options, &data->buffer));
  if (self->request->function != NULL) return from_function(self);
  ls_dataset *dataset = ls_nest_as_dataset(self->request->dataset);
  if (dataset == NULL)
    return ls_invalid_argument("%s of %s: it is no data set (ls_nest_dataset)",
                               self->request->noun,
                               LS_NEST_TEXT(self->request->dataset));
  return from_dataset(self, dataset);
}

// Returns true if values stay on hosts. Data sets that were made on devices
// keep their values there.
static bool stays_on_hosts(const making *self) {
  const bool made_there =
      self->data->is_per_replica && self->options->place_dataset_on_device;
  return self->options->fetch_to_device == LS_FLAG_OFF && !made_there;
}

ls_status ls_input_distribute(ls_strategy *strategy,
                              const ls_input_request *request,
                              ls_nest *out_value) {
  LS_OWN(ls_distributed_dataset, data) = NULL;
  making self = {.strategy = strategy,
                 .request = request,
                 .options = request->options,
                 .communicator = ls_strategy_communicator(strategy)};
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_input_make_data(strategy->runtime, strategy,
                                        (size_t)strategy->num_replicas, &data));
  self.data = data;
  LS_RETURN_IF_ERROR(fill_data(&self));
  LS_RETURN_IF_ERROR(set_places(data, stays_on_hosts(&self)));
  *out_value = ls_nest_object(LS_KIND_OBJECT, &ls_give(&data)->object);
  return ls_ok();
}
