// SPDX-License-Identifier: Apache-2.0
//
// Distributed data sets: pipelines of a data set, or of a function's, and how
// replicas' values are made of them.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "distribute/input/making.h"
#include "distribute/input/request.h"
#include "distribute/input/sizes.h"
#include "lockstep/device_name.h"
#include "lockstep/element_spec.h"

// ---- The object -------------------------------------------------------------
static void destroy_data(ls_object *object) {
  ls_distributed_dataset *data = (ls_distributed_dataset *)object;
  for (size_t i = 0; data->pipelines != NULL && i < data->num_pipelines; ++i) {
    ls_dataset_release(data->pipelines[i].dataset);
    ls_object_release(data->pipelines[i].callable);
  }
  ls_release(data->allocator, data->pipelines);
  ls_host_map_deinit(&data->map);
  ls_nest_release(data->structure);
  ls_release(data->allocator, data->leaves);
  ls_release(data->allocator, data->text);
  ls_release(data->allocator, data->places);
  if (data->strategy != NULL) ls_strategy_release(data->strategy);
  ls_release(data->allocator, data);
}

static const ls_object_type data_type = {.name = "distributed data set",
                                         .destroy = destroy_data};

static ls_status make_data(ls_runtime *runtime, ls_strategy *strategy,
                           size_t replicas, ls_distributed_dataset **out_data) {
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_distributed_dataset *data = ls_new(allocator, ls_distributed_dataset);
  *out_data = data;
  if (data == NULL) return ls_out_of_memory();
  ls_object_init(&data->object, &data_type);
  data->allocator = allocator;
  data->runtime = runtime;
  data->strategy = strategy == NULL ? NULL : ls_strategy_retain(strategy);
  data->num_replicas = replicas;
  data->end_own = replicas;
  data->cut = LS_INPUT_WHOLE;
  data->cut_rows = -1;
  return ls_ok();
}

ls_status ls_input_add_pipelines(ls_distributed_dataset *data, size_t count) {
  data->pipelines = ls_new_array(data->allocator, ls_pipeline, count);
  data->num_pipelines = count;
  return data->pipelines == NULL ? ls_out_of_memory() : ls_ok();
}

size_t ls_input_pipeline_of(const ls_distributed_dataset *data, size_t value) {
  if (data->num_pipelines == 1) return 0;
  if (data->is_per_replica) return value;
  size_t host = 0;
  while (value >= data->map.hosts[host].first + data->map.hosts[host].count)
    ++host;
  return host;
}

size_t ls_input_part_of(const ls_distributed_dataset *data, size_t value) {
  const ls_host_map *map = &data->map;
  if (!data->round_up || map->num_hosts < 2) return value;
  size_t host = 0;
  while (value >= map->hosts[host].first + map->hosts[host].count)
    ++host;
  return ls_dealt_part(map->num_hosts, host, value - map->hosts[host].first);
}

// ---- What positions are of --------------------------------------------------
ls_status ls_input_set_text(ls_distributed_dataset *data,
                            const ls_dataset *dataset) {
  ls_text text;
  ls_text_init(&text, data->allocator);
  ls_dataset_describe(dataset, &text);
  data->text = ls_text_finish(&text);
  return data->text == NULL ? ls_out_of_memory() : ls_ok();
}

// ---- Where values go --------------------------------------------------------
ls_status ls_input_set_map(ls_distributed_dataset *data, const ls_trunk *trunk,
                           bool to_hosts) {
  const char *const *devices = ls_strategy_devices(data->strategy);
  return trunk != NULL
             ? ls_host_map_init_ranks(&data->map, data->allocator, devices,
                                      data->num_replicas, to_hosts, trunk)
             : ls_host_map_init(&data->map, data->allocator, devices,
                                data->num_replicas, to_hosts);
}

void ls_input_keep_own(ls_distributed_dataset *data, const ls_trunk *trunk) {
  const int32_t replicas = (int32_t)data->num_replicas;
  data->first_own = (size_t)ls_trunk_first(trunk, trunk->rank, replicas);
  data->end_own = (size_t)ls_trunk_first(trunk, trunk->rank + 1, replicas);
}

// Whatever host has read a value, it goes to the replica that uses it.
static ls_status set_places(ls_distributed_dataset *data, bool to_hosts) {
  const size_t count = data->num_replicas;
  data->places = ls_new_array(data->allocator, const char *, count);
  if (data->places == NULL) return ls_out_of_memory();
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

// ---- Of a data set ----------------------------------------------------------
// What DEFAULT and AUTO mean here.
static ls_shard_policy policy_of(const ls_input_making *m,
                                 const ls_dataset *dataset) {
  ls_shard_policy policy = m->options->sharding;
  if (policy == LS_SHARD_DEFAULT)
    policy = m->options->whole_elements && m->trunk == NULL ? LS_SHARD_AUTO
                                                            : LS_SHARD_DATA;
  if (policy == LS_SHARD_AUTO)
    policy = ls_input_reads_files(dataset) ? LS_SHARD_FILE : LS_SHARD_DATA;
  return policy;
}

// A pipeline for each host.
static ls_status shard_over_hosts(ls_input_making *m, ls_dataset *dataset,
                                  ls_shard_policy policy) {
  ls_distributed_dataset *data = m->data;
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

static ls_status use_one(ls_input_making *m, ls_dataset *dataset) {
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(m->data, 1));
  m->data->pipelines[0].dataset = ls_dataset_retain(dataset);
  return ls_ok();
}

// Whether ranks read their replicas' values alone. Ops of graphs need all.
static bool reads_apart(const ls_input_making *m) {
  const ls_graph *graph = ls_graph_current();
  return m->trunk != NULL && graph != NULL && ls_graph_is_eager(graph);
}

static ls_status use_turns(ls_input_making *m, ls_dataset *dataset) {
  ls_distributed_dataset *data = m->data;
  const int32_t replicas = (int32_t)data->num_replicas;
  const int32_t rank = m->trunk->rank;
  ls_dataset *turns = ls_input_turns(
      dataset, replicas, ls_trunk_first(m->trunk, rank, replicas),
      ls_trunk_first(m->trunk, rank + 1, replicas));
  if (turns == NULL) return use_one(m, dataset);
  ls_input_keep_own(data, m->trunk);
  data->is_turns = true;
  data->elements = ls_dataset_cardinality(dataset);
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, 1));
  data->pipelines[0].dataset = turns;
  return ls_dataset_status(turns);
}

static ls_status use_whole(ls_input_making *m, ls_dataset *dataset,
                           ls_shard_policy policy) {
  ls_distributed_dataset *data = m->data;
  data->drops_group = true;
  data->is_never_partial = true;
  data->wraps = true;
  if (policy != LS_SHARD_DATA || data->map.num_hosts > 1)
    return shard_over_hosts(m, dataset, policy);
  return reads_apart(m) ? use_turns(m, dataset) : use_one(m, dataset);
}

// Batches of which each replica gets a part. A rank reads its replicas' rows
// alone where that can be.
static ls_status use_parts(ls_input_making *m, ls_dataset *dataset) {
  ls_distributed_dataset *data = m->data;
  data->cut = LS_INPUT_SPLIT;
  if (!reads_apart(m) || data->round_up) return use_one(m, dataset);
  ls_input_keep_own(data, m->trunk);
  ls_dataset *part =
      ls_input_part(dataset, (int64_t)data->num_replicas,
                    (int64_t)data->first_own, (int64_t)data->end_own);
  if (part == NULL) {
    data->first_own = 0;
    data->end_own = data->num_replicas;
    return use_one(m, dataset);
  }
  data->is_part = true;
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, 1));
  data->pipelines[0].dataset = part;
  return ls_dataset_status(part);
}

static ls_status use_rows(ls_input_making *m, ls_dataset *dataset,
                          ls_shard_policy policy) {
  bool batched = false;
  ls_distributed_dataset *data = m->data;
  data->cut = LS_INPUT_RECUT;
  data->cut_rows = ls_input_batch_rows(dataset, &batched);
  if (!batched)
    return ls_invalid_argument(
        "a data set that was never batched is cut anew on each host of %s: "
        "batch it first (ls_dataset_batch)",
        m->strategy->label);
  LS_RETURN_IF_ERROR(shard_over_hosts(m, dataset, policy));
  data->is_endless = ls_dataset_cardinality(dataset) == LS_INFINITE;
  data->is_partial = !data->is_endless && ls_input_has_unknown(data);
  return ls_ok();
}

static ls_status check_readers(const ls_dataset *dataset,
                               ls_shard_policy policy) {
  char text[300];
  if (policy == LS_SHARD_HINT && !ls_input_has_hint(dataset))
    return ls_invalid_argument("sharding by hint of %s: there is none; put "
                               "ls_dataset_shard_hint where "
                               "hosts are to read other elements",
                               ls_dataset_print(dataset, text, sizeof(text)));
  if (policy != LS_SHARD_FILE || ls_input_reads_files(dataset)) return ls_ok();
  return ls_not_found("sharding by file of %s: none of its sources reads files",
                      ls_dataset_print(dataset, text, sizeof(text)));
}

static ls_status from_dataset(ls_input_making *m, ls_dataset *dataset) {
  ls_element_spec spec;
  ls_distributed_dataset *data = m->data;
  const ls_input_options *options = m->options;
  if (dataset->kind->is_last)
    return ls_unimplemented("%s of a data set behind %s, which must be the "
                            "last step",
                            m->request->what, dataset->kind->name);
  const bool to_hosts = options->fetch_to_device == LS_FLAG_OFF;
  const bool splits = !options->whole_elements && data->num_replicas > 1;
  LS_RETURN_IF_ERROR(ls_dataset_spec(dataset, &spec));
  if (!to_hosts) {
    const ls_nest specs = ls_dataset_spec_nest(dataset);
    const ls_status dense = ls_input_check_dense(specs, m->strategy->label);
    ls_nest_release(specs);
    LS_RETURN_IF_ERROR(dense);
  }
  LS_RETURN_IF_ERROR(ls_input_set_spec(data, &spec));
  LS_RETURN_IF_ERROR(ls_input_set_text(data, dataset));
  const ls_shard_policy policy = policy_of(m, dataset);
  LS_RETURN_IF_ERROR(check_readers(dataset, policy));
  // Ranks are hosts where each reads by itself.
  const bool apart = policy != LS_SHARD_DATA || options->round_up;
  const ls_trunk *hosts = apart ? m->trunk : NULL;
  LS_RETURN_IF_ERROR(ls_input_set_map(data, hosts, to_hosts));
  if (options->whole_elements) {
    if (apart && m->trunk != NULL) ls_input_keep_own(data, m->trunk);
    return use_whole(m, dataset, policy);
  }
  if (!splits && policy == LS_SHARD_DATA) return use_one(m, dataset);
  data->wraps = data->num_replicas > 1;
  if (splits) {
    LS_RETURN_IF_ERROR(ls_input_check_rows(&spec));
    LS_RETURN_IF_ERROR(ls_host_map_check_even(&data->map));
  }
  if (policy == LS_SHARD_DATA) return use_parts(m, dataset);
  if (m->trunk != NULL) ls_input_keep_own(data, m->trunk);
  return splits ? use_rows(m, dataset, policy)
                : shard_over_hosts(m, dataset, policy);
}

// ---- Both -------------------------------------------------------------------
static ls_status fill_data(ls_input_making *m) {
  ls_distributed_dataset *data = m->data;
  data->round_up = m->options->round_up;
  LS_RETURN_IF_ERROR(
      ls_input_choose_buffer(m->strategy, m->options, &data->buffer));
  if (m->request->function != NULL) return ls_input_from_function(m);
  char text[200];
  ls_dataset *dataset = ls_nest_as_dataset(m->request->dataset);
  if (dataset == NULL)
    return ls_invalid_argument(
        "%s of %s: it is no data set (ls_nest_dataset)", m->request->what,
        ls_nest_print(m->request->dataset, text, sizeof(text)));
  return from_dataset(m, dataset);
}

// Data sets that are made on devices give their values there.
static bool stays_on_hosts(const ls_input_making *m) {
  const bool made_there =
      m->data->is_per_replica && m->options->place_dataset_on_device;
  return m->options->fetch_to_device == LS_FLAG_OFF && !made_there;
}

ls_status ls_input_distribute(ls_strategy *strategy,
                              const ls_input_request *request,
                              const ls_input_rules *rules, ls_nest *out_value) {
  ls_input_making m = {.strategy = strategy,
                       .request = request,
                       .options = request->options,
                       .trunk = ls_runtime_trunk(strategy->runtime)};
  if (m.trunk != NULL && (m.trunk->ranks == 1 || strategy->num_replicas == 1))
    m.trunk = NULL;
  *out_value = ls_none();
  LS_RETURN_IF_ERROR(ls_input_check_options(strategy, request, rules));
  LS_RETURN_IF_ERROR(make_data(strategy->runtime, strategy,
                               (size_t)strategy->num_replicas, &m.data));
  ls_status status = fill_data(&m);
  if (ls_status_is_ok(status)) status = set_places(m.data, stays_on_hosts(&m));
  if (ls_status_is_ok(status))
    *out_value = ls_nest_object(LS_KIND_OBJECT, &m.data->object);
  else
    ls_object_release(m.data);
  return status;
}

// A data set as it is.
static ls_status wrap_plain(ls_dataset *dataset,
                            ls_distributed_dataset **out_data) {
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(dataset, &spec));
  LS_RETURN_IF_ERROR(make_data(ls_runtime_current(), NULL, 1, out_data));
  LS_RETURN_IF_ERROR(ls_input_set_spec(*out_data, &spec));
  LS_RETURN_IF_ERROR(ls_input_set_text(*out_data, dataset));
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(*out_data, 1));
  (*out_data)->buffer = -1;
  (*out_data)->pipelines[0].dataset = ls_dataset_retain(dataset);
  return ls_ok();
}

ls_status ls_input_data_of(ls_nest leaf, ls_distributed_dataset **out_data) {
  char text[200];
  *out_data = NULL;
  LS_RETURN_IF_ERROR(ls_nest_status(leaf));
  ls_object *object = leaf.kind == LS_KIND_OBJECT ? leaf.as.ref : NULL;
  if (object != NULL && object->type == &data_type) {
    *out_data = ls_object_retain(object);
    return ls_ok();
  }
  ls_dataset *dataset = ls_nest_as_dataset(leaf);
  if (dataset == NULL)
    return ls_invalid_argument("%s is no distributed data set",
                               ls_nest_print(leaf, text, sizeof(text)));
  if (ls_runtime_current() == NULL) return ls_out_of_memory();
  const ls_status status = wrap_plain(dataset, out_data);
  if (ls_status_is_ok(status)) return status;
  ls_object_release(*out_data);
  *out_data = NULL;
  return status;
}

// ---- Looking in -------------------------------------------------------------
// Steps of a pipeline that serves so many replicas.
static int64_t steps_of(const ls_distributed_dataset *data,
                        const ls_dataset *dataset, int64_t replicas) {
  const int64_t elements =
      data->is_turns ? data->elements : ls_dataset_cardinality(dataset);
  if (elements < 0 || data->cut == LS_INPUT_SPLIT) return elements;
  const bool more = data->is_partial && elements % replicas > 0;
  return elements / replicas + more;
}

static int64_t cardinality_of(const ls_distributed_dataset *data) {
  int64_t all = LS_INFINITE;
  for (size_t i = 0; i < data->num_pipelines; ++i) {
    const ls_dataset *dataset = data->pipelines[i].dataset;
    if (dataset == NULL) return LS_UNKNOWN_SIZE;
    const int64_t replicas = data->is_per_replica ? 1
                             : data->num_pipelines == 1
                                 ? (int64_t)data->num_replicas
                                 : (int64_t)data->map.hosts[i].count;
    const int64_t steps = steps_of(data, dataset, replicas);
    if (steps == LS_INFINITE) continue;
    if (steps == LS_UNKNOWN_SIZE || data->cut == LS_INPUT_RECUT)
      return LS_UNKNOWN_SIZE;
    const bool later = data->is_partial ? steps > all : steps < all;
    if (all == LS_INFINITE || later) all = steps;
  }
  return all;
}

int64_t ls_distributed_dataset_cardinality(ls_nest dataset) {
  ls_distributed_dataset *data = NULL;
  ls_status_free(ls_input_data_of(dataset, &data));
  if (data == NULL) return 0;
  const int64_t all = cardinality_of(data);
  ls_object_release(data);
  return all;
}

const char *ls_distributed_dataset_placement(ls_nest dataset, int32_t replica) {
  ls_object *object = dataset.kind == LS_KIND_OBJECT ? dataset.as.ref : NULL;
  if (object == NULL || object->type != &data_type) return "";
  const ls_distributed_dataset *data = (const ls_distributed_dataset *)object;
  if (data->places == NULL || replica < 0 ||
      (size_t)replica >= data->num_replicas || data->places[replica] == NULL)
    return "";
  return data->places[replica];
}
