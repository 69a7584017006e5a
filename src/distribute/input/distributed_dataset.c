// SPDX-License-Identifier: Apache-2.0
//
// Distributed data sets: their pipelines, which are data sets or the caller's
// functions, and how replicas' values are cut from the pipelines' elements.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "data/dataset.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "lockstep/element_spec.h"

// ---- Callables --------------------------------------------------------------
static void destroy_callable(ls_object *object) {
  ls_input_callable *callable = (ls_input_callable *)object;
  if (callable->release != NULL) callable->release(callable->user);
  ls_nest_release(callable->element);
  ls_nest_release(callable->structure);
  ls_release(callable->allocator, callable->leaves);
  ls_release(callable->allocator, callable);
}

static const ls_object_type callable_type = {.name = "input callable",
                                             .destroy = destroy_callable};
LS_OWNED_POINTER(ls_input_callable, ls_object_release)

// Adds the spec of a leaf to the list, and returns its index.
static ls_nest list_leaf(ls_nest leaf, void *user) {
  ls_input_callable *callable = user;
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  if (spec == NULL)
    return LS_FAIL(
        LS_INVALID_ARGUMENT,
        "the types of a callable's elements are leaves of ls_nest_spec, got %s",
        LS_NEST_TEXT(leaf));
  callable->leaves[callable->num_leaves] = *spec;
  return ls_nest_i64((int64_t)callable->num_leaves++);
}

static ls_status init_callable(ls_input_callable *callable) {
  const size_t count = ls_nest_num_leaves(callable->element);
  LS_RETURN_IF_ERROR(ls_nest_status(callable->element));
  if (callable->next == NULL)
    return ls_invalid_argument("the function of an input callable is NULL");
  LS_SET_ARRAY_OR_RETURN(callable->allocator, ls_leaf_spec, callable->leaves,
                         count);
  return ls_take_nest(ls_nest_map(callable->element, list_leaf, callable),
                      &callable->structure);
}

ls_nest ls_nest_input_callable(ls_nest element, ls_input_next next, void *user,
                               void (*release)(void *user)) {
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN(ls_input_callable, callable) = ls_new(allocator, ls_input_callable);
  if (callable == NULL) {
    if (release != NULL) release(user);
    ls_nest_release(element);
    return ls_fail(ls_out_of_memory());
  }
  ls_object_init(&callable->object, &callable_type);
  callable->allocator = allocator;
  callable->next = next;
  callable->user = user;
  callable->release = release;
  callable->element = element;
  LS_RETURN_FAILED_IF_ERROR(init_callable(callable));
  return ls_nest_object(LS_KIND_OBJECT, &ls_give(&callable)->object);
}

ls_input_callable *ls_nest_as_input_callable(ls_nest leaf) {
  if (leaf.kind != LS_KIND_OBJECT || leaf.as.ref == NULL) return NULL;
  ls_object *object = leaf.as.ref;
  return object->type == &callable_type ? (ls_input_callable *)object : NULL;
}

ls_status ls_input_callable_next(ls_input_callable *callable,
                                 ls_nest *element) {
  LS_OWN(ls_nest, next) = callable->next(callable->user);
  const ls_element_spec spec = {callable->structure, callable->leaves,
                                callable->num_leaves};
  LS_RETURN_IF_ERROR(ls_nest_status(next));
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_element_check(&spec, callable->allocator, next),
                         "between a callable's declared types and its "
                         "element"));
  ls_nest_release(*element);
  return ls_hand_over(&next, element);
}

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

ls_status ls_input_make_data(ls_runtime *runtime, ls_strategy *strategy,
                             size_t replicas,
                             ls_distributed_dataset **out_data) {
  LS_NEW_OR_RETURN(ls_runtime_allocator(runtime), ls_distributed_dataset, data);
  ls_object_init(&data->object, &data_type);
  data->allocator = ls_runtime_allocator(runtime);
  data->runtime = runtime;
  data->strategy = strategy == NULL ? NULL : ls_strategy_retain(strategy);
  data->num_replicas = replicas;
  data->shares.parts = (int64_t)replicas;
  data->end_own = replicas;
  data->cut = LS_INPUT_WHOLE;
  data->batch_rows = -1;
  *out_data = data;
  return ls_ok();
}

ls_status ls_input_add_pipelines(ls_distributed_dataset *data, size_t count) {
  data->pipelines = ls_new_array(data->allocator, ls_pipeline, count);
  data->num_pipelines = count;
  return data->pipelines == NULL ? ls_out_of_memory() : ls_ok();
}

ls_status ls_input_set_text(ls_distributed_dataset *data,
                            const ls_dataset *dataset) {
  ls_text text = {.allocator = data->allocator};
  ls_dataset_describe(dataset, &text);
  data->text = ls_text_finish(&text);
  return data->text == NULL ? ls_out_of_memory() : ls_ok();
}

ls_status ls_input_data_of(ls_nest leaf, ls_distributed_dataset **out_data) {
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
                               LS_NEST_TEXT(leaf));
  if (ls_runtime_current() == NULL) return ls_out_of_memory();
  // Wraps a plain data set as a distributed one.
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(dataset, &spec));
  LS_OWN(ls_distributed_dataset, data) = NULL;
  LS_RETURN_IF_ERROR(ls_input_make_data(ls_runtime_current(), NULL, 1, &data));
  LS_RETURN_IF_ERROR(ls_input_set_spec(data, &spec));
  LS_RETURN_IF_ERROR(ls_input_set_text(data, dataset));
  LS_RETURN_IF_ERROR(ls_input_add_pipelines(data, 1));
  data->buffer = -1;
  data->pipelines[0].dataset = ls_dataset_retain(dataset);
  return ls_hand_over(&data, out_data);
}

// ---- Queries ----------------------------------------------------------------
// Returns the number of steps of a pipeline that serves `replicas` replicas.
static int64_t steps_of(const ls_distributed_dataset *data,
                        const ls_dataset *dataset, int64_t replicas) {
  const int64_t elements =
      data->is_turns ? data->elements : ls_dataset_cardinality(dataset);
  if (elements < 0 || data->cut == LS_INPUT_SPLIT) return elements;
  const bool has_rest = data->is_partial && elements % replicas > 0;
  return elements / replicas + has_rest;
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
    if (steps == LS_INFINITE && data->is_partial) return LS_INFINITE;
    if (steps == LS_INFINITE) continue;
    if (steps == LS_UNKNOWN_SIZE || data->cut == LS_INPUT_REBATCH)
      return LS_UNKNOWN_SIZE;
    const bool later = data->is_partial ? steps > all : steps < all;
    if (all == LS_INFINITE || later) all = steps;
  }
  return all;
}

int64_t ls_distributed_dataset_cardinality(ls_nest dataset) {
  LS_OWN(ls_distributed_dataset, data) = NULL;
  ls_status_free(ls_input_data_of(dataset, &data));
  return data == NULL ? 0 : cardinality_of(data);
}

// State of making a structure of specs: the number of the next leaf, which
// becomes a PerReplica.
typedef struct spelling {
  const ls_distributed_dataset *data;
  size_t leaf;
} spelling;

static ls_nest spell_leaf(ls_nest number, void *user) {
  (void)number;
  spelling *s = user;
  const ls_distributed_dataset *data = s->data;
  ls_leaf_spec spec = data->leaves[s->leaf];
  spec.type = ls_input_value_type(data, s->leaf++);
  if (!data->wraps) return ls_nest_spec_of(&spec);
  LS_OWN_ARRAY(data->allocator, ls_nest, items, data->num_replicas);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t r = 0; r < data->num_replicas; ++r)
    items[r] = ls_nest_spec_of(&spec);
  return ls_nest_distributed(LS_PER_REPLICA, items, data->num_replicas);
}

ls_status ls_distributed_dataset_spec(ls_nest dataset, ls_nest *out_spec) {
  LS_REQUIRE_OUT(out_spec);
  LS_OWN(ls_distributed_dataset, data) = NULL;
  LS_RETURN_IF_ERROR(ls_input_data_of(dataset, &data));
  spelling s = {.data = data};
  return ls_take_nest(ls_nest_map(data->structure, spell_leaf, &s), out_spec);
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
