// SPDX-License-Identifier: Apache-2.0
//
// Iterators of distributed data sets: a place in all of their pipelines.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "graph/graph.h"

// ---- Making -----------------------------------------------------------------
void ls_input_release_parts(ls_distributed_iterator *it) {
  const ls_distributed_dataset *data = it->data;
  if (it->parts == NULL) return;
  for (size_t i = 0; i < data->num_leaves * data->num_replicas; ++i) {
    ls_nest_release(it->parts[i]);
    it->parts[i] = ls_none();
  }
}

static void destroy_iterator(ls_object *object) {
  ls_distributed_iterator *it = (ls_distributed_iterator *)object;
  ls_allocator *allocator = it->allocator;
  ls_input_release_parts(it);
  for (size_t i = 0; it->sources != NULL && i < it->data->num_pipelines; ++i)
    ls_iterator_release(it->sources[i]);
  for (size_t i = 0; it->rows != NULL && i < it->data->num_pipelines; ++i)
    ls_nest_release(it->rows[i].batch);
  for (size_t l = 0; it->absent != NULL && l < it->data->num_leaves; ++l)
    ls_array_release(it->absent[l]);
  ls_release(allocator, it->absent);
  ls_release(allocator, it->sources);
  ls_release(allocator, it->rows);
  ls_release(allocator, it->parts);
  ls_nest_release(it->wholes[0]);
  ls_nest_release(it->wholes[1]);
  ls_release(allocator, it->name);
  ls_mutex_deinit(&it->lock);
  ls_object_release(it->data);
  ls_release(allocator, it);
}

static const ls_object_type iterator_type = {.name = "distributed iterator",
                                             .destroy = destroy_iterator};

static ls_status check_kind(ls_iterator_kind kind) {
  const ls_graph *graph = ls_graph_current();
  if (graph == NULL) return ls_out_of_memory();
  if (kind == LS_ITERATOR_PLAIN && graph->kind == LS_GRAPH_BUILD)
    return ls_failed_precondition(
        "an iterator is started while graph '%s' is built for sessions: start "
        "it outside, or in a function, or make a one-shot or an initializable "
        "one",
        graph->name);
  if (kind == LS_ITERATOR_INITIALIZABLE && graph->kind != LS_GRAPH_BUILD)
    return ls_failed_precondition(
        "an initializable iterator in %s: it is for graphs that are built for "
        "sessions",
        graph->kind == LS_GRAPH_EAGER ? "eager mode" : "a function");
  if ((unsigned)kind > LS_ITERATOR_INITIALIZABLE)
    return ls_invalid_argument("an iterator of kind %d, which there is not",
                               (int)kind);
  return ls_ok();
}

// Elements ahead in a pipeline.
static ls_opt ahead_of(const ls_distributed_dataset *data, size_t pipeline) {
  if (data->buffer < 0) return (ls_opt){0};
  if (data->cut == LS_INPUT_SPLIT || data->is_per_replica)
    return LS_SOME(data->buffer);
  const size_t replicas = data->num_pipelines > 1
                              ? data->map.hosts[pipeline].count
                              : data->num_replicas;
  return LS_SOME(data->cut == LS_INPUT_RECUT
                     ? data->buffer
                     : data->buffer * (int64_t)replicas);
}

static ls_status open_sources(ls_distributed_iterator *it) {
  const ls_distributed_dataset *data = it->data;
  it->sources = ls_new_array(it->allocator, ls_iterator *, data->num_pipelines);
  if (it->sources == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < data->num_pipelines; ++i)
    if (data->pipelines[i].dataset != NULL)
      LS_RETURN_IF_ERROR(ls_iterator_create(
          data->pipelines[i].dataset,
          &(ls_iterator_options){.name = it->name,
                                 .seed = it->seed,
                                 .prefetch = ahead_of(data, i)},
          &it->sources[i]));
  return ls_ok();
}

// Ranks make their iterators in the same order.
static uint64_t next_number(ls_distributed_dataset *data) {
  return __atomic_add_fetch(&data->num_iterators, 1, __ATOMIC_RELAXED);
}

static ls_status
distributed_iterator_init(ls_distributed_iterator *it,
                          const ls_distributed_iterator_options *options) {
  const ls_distributed_dataset *data = it->data;
  const char *name = options->name != NULL ? options->name : "iterator";
  it->kind = options->kind;
  it->seed = options->seed;
  it->is_partial = data->is_partial;
  it->started = options->kind != LS_ITERATOR_INITIALIZABLE;
  it->name = ls_copy_text(it->allocator, name, strlen(name));
  it->parts = ls_new_array(it->allocator, ls_nest,
                           data->num_leaves * data->num_replicas + 1);
  if (data->cut == LS_INPUT_RECUT)
    it->rows = ls_new_array(it->allocator, ls_input_rows, data->num_pipelines);
  it->absent = ls_new_array(it->allocator, ls_array *, data->num_leaves + 1);
  if (it->name == NULL || it->parts == NULL || it->absent == NULL ||
      (data->cut == LS_INPUT_RECUT && it->rows == NULL))
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(open_sources(it));
  return it->started ? ls_ok() : ls_input_add_initializer(it);
}

ls_status
ls_distributed_iterator_create(ls_nest dataset,
                               const ls_distributed_iterator_options *options,
                               ls_distributed_iterator **out_iterator) {
  LS_REQUIRE_OUT(out_iterator);
  const ls_distributed_iterator_options usual = {0};
  if (options == NULL) options = &usual;
  LS_RETURN_IF_ERROR(check_kind(options->kind));
  ls_distributed_dataset *data = NULL;
  LS_RETURN_IF_ERROR(ls_input_data_of(dataset, &data));
  LS_OWN(ls_distributed_iterator, it) =
      ls_new(data->allocator, ls_distributed_iterator);
  if (it == NULL) {
    ls_object_release(data);
    return ls_out_of_memory();
  }
  ls_object_init(&it->object, &iterator_type);
  it->allocator = data->allocator;
  it->data = data;
  it->number = next_number(data);
  LS_RETURN_IF_ERROR(ls_mutex_init(&it->lock));
  LS_RETURN_IF_ERROR(distributed_iterator_init(it, options));
  *out_iterator = ls_give(&it);
  return ls_ok();
}

ls_distributed_iterator *
ls_distributed_iterator_retain(ls_distributed_iterator *iterator) {
  return ls_object_retain(iterator);
}

void ls_distributed_iterator_release(ls_distributed_iterator *iterator) {
  ls_object_release(iterator);
}

// ---- The next element -------------------------------------------------------
// Values of a leaf as one.
static ls_nest distributed_iterator_join(const ls_distributed_iterator *it,
                                         ls_nest *values) {
  const ls_distributed_dataset *data = it->data;
  const size_t count = data->num_replicas;
  ls_nest made = values[0];
  if (data->wraps)
    made = ls_nest_distributed_on(LS_PER_REPLICA, values, data->places, count);
  for (size_t r = 0; r < count; ++r)
    values[r] = ls_none();  // Taken over.
  return made;
}

ls_status ls_input_pack(ls_distributed_iterator *it, ls_nest *element) {
  const ls_distributed_dataset *data = it->data;
  LS_OWN_ARRAY_OR_RETURN(it->allocator, ls_nest, leaves, data->num_leaves + 1);
  for (size_t l = 0; l < data->num_leaves; ++l)
    leaves[l] =
        distributed_iterator_join(it, &it->parts[l * data->num_replicas]);
  const ls_nest made = ls_nest_pack(data->structure, leaves, data->num_leaves);
  return ls_nest_give(made, element);
}

static ls_status
distributed_iterator_at_end(const ls_distributed_iterator *it) {
  return ls_out_of_range("iterator '%s' is at the end of its data, behind "
                         "element %lld of epoch %lld",
                         it->name, (long long)it->given, (long long)it->epoch);
}

ls_status ls_input_advance(ls_distributed_iterator *it, ls_nest *element) {
  if (!it->started)
    return ls_failed_precondition(
        "iterator '%s' is not initialized: run its initializer first",
        it->name);
  if (it->ended) return distributed_iterator_at_end(it);
  ls_status status = ls_input_fill(it);
  if (ls_status_is_ok(status)) status = ls_input_pack(it, element);
  ls_input_release_parts(it);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) {
    ++it->given;  // One that fails was used, too.
    return status;
  }
  it->ended = true;
  ls_status_free(status);
  return distributed_iterator_at_end(it);
}

ls_status ls_input_check_place(const ls_distributed_iterator *it,
                               const char *what) {
  const ls_distribution *entry = ls_distribution_current();
  const bool is_replica = entry != NULL && entry->replica != NULL &&
                          !entry->strategy->kind->is_default;
  const bool is_computed = ls_context_current()->scoped.shards > 0;
  if (!is_replica && !is_computed) return ls_ok();
  return ls_failed_precondition("%s of iterator '%s' inside of a replica of "
                                "%s: call it outside, and give "
                                "replicas its values as arguments",
                                what, it->name,
                                is_replica ? entry->strategy->label
                                           : "a replicated computation");
}

ls_status ls_distributed_iterator_next(ls_distributed_iterator *iterator,
                                       ls_nest *element) {
  LS_REQUIRE(element);
  LS_REQUIRE(iterator);
  LS_RETURN_IF_ERROR(ls_input_check_place(iterator, "get_next"));
  return ls_input_advance(iterator, element);
}

ls_status ls_distributed_iterator_next_as_optional(
    ls_distributed_iterator *iterator, bool *out_has_value, ls_nest *element) {
  LS_REQUIRE_OUT(out_has_value);
  LS_REQUIRE(element);
  LS_REQUIRE(iterator);
  LS_RETURN_IF_ERROR(ls_input_check_place(iterator, "get_next_as_optional"));
  const ls_status status = ls_input_advance(iterator, element);
  if (ls_status_code(status) == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    return ls_ok();
  }
  *out_has_value = ls_status_is_ok(status);
  return status;
}

// ---- Starting again ---------------------------------------------------------
static void forget_rows(ls_distributed_iterator *it) {
  for (size_t i = 0; it->rows != NULL && i < it->data->num_pipelines; ++i) {
    ls_nest_release(it->rows[i].batch);
    it->rows[i] = (ls_input_rows){0};
  }
}

ls_status ls_input_start_epoch(ls_distributed_iterator *it, int64_t epoch) {
  for (size_t i = 0; i < it->data->num_pipelines; ++i)
    if (it->sources[i] != NULL)
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(it->sources[i], epoch));
  forget_rows(it);
  it->given = 0;
  it->epoch = epoch;
  it->ended = false;
  it->started = true;
  return ls_ok();
}

static ls_status check_again(const ls_distributed_iterator *it) {
  return it->kind != LS_ITERATOR_ONE_SHOT
             ? ls_ok()
             : ls_failed_precondition("iterator '%s' is one-shot: it is not "
                                      "started again; make another one",
                                      it->name);
}

ls_status ls_distributed_iterator_restart(ls_distributed_iterator *iterator) {
  LS_REQUIRE(iterator);
  LS_RETURN_IF_ERROR(check_again(iterator));
  return ls_input_start_epoch(iterator, iterator->epoch + 1);
}

ls_status ls_distributed_iterator_seek_epoch(ls_distributed_iterator *iterator,
                                             int64_t epoch) {
  LS_REQUIRE(iterator);
  LS_RETURN_IF_ERROR(check_again(iterator));
  return ls_input_start_epoch(iterator, epoch);
}

int64_t ls_distributed_iterator_epoch(const ls_distributed_iterator *iterator) {
  return iterator->epoch;
}

int64_t
ls_distributed_iterator_position(const ls_distributed_iterator *iterator) {
  return iterator->given;
}
