// SPDX-License-Identifier: Apache-2.0
//
// Iterators of distributed data sets: a position in each pipeline.
#include <string.h>

#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/status_cause.h"
#include "base/values/nest_internal.h"
#include "distribute/context/context.h"
#include "distribute/input/input.h"
#include "distribute/own.h"
#include "graph/graph.h"
#include "lockstep/host.h"

// ---- Starting ---------------------------------------------------------------
ls_status ls_input_start_epoch(ls_distributed_iterator *self, int64_t epoch) {
  for (size_t i = 0; i < self->data->num_pipelines; ++i)
    if (self->sources[i] != NULL)
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(self->sources[i], epoch));
  for (size_t i = 0; self->rows != NULL && i < self->data->num_pipelines; ++i) {
    ls_nest_release(self->rows[i].batch);
    self->rows[i] = (ls_input_rows){0};
  }
  self->given = 0;
  self->epoch = epoch;
  self->ended = false;
  self->started = true;
  return ls_ok();
}

static ls_status start_iterator(ls_host_call *call) {
  ls_distributed_iterator *self = (ls_distributed_iterator *)call->state;
  ls_runtime *before = ls_runtime_make_current(call->runtime);
  ls_mutex_lock(&self->lock);
  const ls_status status =
      ls_input_start_epoch(self, self->started ? self->epoch + 1 : 0);
  ls_mutex_unlock(&self->lock);
  ls_runtime_make_current(before);
  LS_RETURN_IF_ERROR(status);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel start_kernel = {.name = "distributed_initializer",
                                            .start = start_iterator};

// Adds the op that starts the iterator to the current graph. The op makes the
// graph refer to the iterator; the iterator has no reference to the graph.
static ls_status add_initializer(ls_distributed_iterator *self) {
  self->initializer = ls_host_call_add(&start_kernel, &self->object, NULL, 0);
  return ls_op_is_failed(self->initializer) ? ls_graph_error(ls_graph_current())
                                            : ls_ok();
}

// ---- Making -----------------------------------------------------------------
void ls_input_release_parts(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  if (self->parts == NULL) return;
  for (size_t i = 0; i < data->num_leaves * data->num_replicas; ++i) {
    ls_nest_release(self->parts[i]);
    self->parts[i] = ls_none();
  }
}

static void destroy_iterator(ls_object *object) {
  ls_distributed_iterator *self = (ls_distributed_iterator *)object;
  ls_allocator *allocator = self->allocator;
  ls_input_release_parts(self);
  for (size_t i = 0; self->sources != NULL && i < self->data->num_pipelines;
       ++i)
    ls_iterator_release(self->sources[i]);
  for (size_t i = 0; self->rows != NULL && i < self->data->num_pipelines; ++i)
    ls_nest_release(self->rows[i].batch);
  for (size_t l = 0; self->absent != NULL && l < self->data->num_leaves; ++l)
    ls_array_release(self->absent[l]);
  ls_release(allocator, self->absent);
  ls_release(allocator, self->sources);
  ls_release(allocator, self->rows);
  ls_release(allocator, self->parts);
  ls_nest_release(self->wholes[0]);
  ls_nest_release(self->wholes[1]);
  ls_release(allocator, self->name);
  ls_mutex_deinit(&self->lock);
  ls_object_release(self->data);
  ls_release(allocator, self);
}

static const ls_object_type iterator_type = {.name = "distributed iterator",
                                             .destroy = destroy_iterator};

static ls_status check_kind(ls_iterator_kind kind) {
  ls_graph *graph = NULL;
  LS_RETURN_IF_ERROR(ls_graph_find_current(&graph));
  if (kind == LS_ITERATOR_PLAIN && graph->kind == LS_GRAPH_BUILD)
    return ls_failed_precondition(
        "an iterator is started while graph '%s' is built for sessions: start "
        "it outside, or in a function, or make a one-shot or an initializable "
        "one",
        graph->name);
  if (kind == LS_ITERATOR_INITIALIZABLE && graph->kind != LS_GRAPH_BUILD)
    return ls_failed_precondition("an initializable iterator in %s: it is for "
                                  "graphs that are built for sessions",
                                  graph->kind == LS_GRAPH_EAGER ? "eager mode"
                                                                : "a function");
  if ((unsigned)kind > LS_ITERATOR_INITIALIZABLE)
    return ls_invalid_argument("there is no kind %d of iterators", (int)kind);
  return ls_ok();
}

// Returns how many elements a pipeline reads ahead.
static ls_opt choose_ahead(const ls_distributed_dataset *data,
                           size_t pipeline) {
  if (data->buffer < 0) return (ls_opt){0};
  if (data->cut == LS_INPUT_SPLIT || data->is_per_replica)
    return LS_SOME(data->buffer);
  const size_t replicas = data->num_pipelines > 1
                              ? data->map.hosts[pipeline].count
                              : data->num_replicas;
  return LS_SOME(data->cut == LS_INPUT_REBATCH
                     ? data->buffer
                     : data->buffer * (int64_t)replicas);
}

static ls_status open_sources(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_iterator *, self->sources,
                         data->num_pipelines);
  for (size_t i = 0; i < data->num_pipelines; ++i)
    if (data->pipelines[i].dataset != NULL)
      LS_RETURN_IF_ERROR(ls_iterator_create(
          data->pipelines[i].dataset,
          &(ls_iterator_options){.name = self->name,
                                 .seed = self->seed,
                                 .prefetch = choose_ahead(data, i)},
          &self->sources[i]));
  return ls_ok();
}

static ls_status
distributed_iterator_init(ls_distributed_iterator *self,
                          const ls_distributed_iterator_options *options) {
  const ls_distributed_dataset *data = self->data;
  const char *name = options->name != NULL ? options->name : "iterator";
  self->kind = options->kind;
  self->seed = options->seed;
  self->is_partial = data->is_partial;
  self->started = options->kind != LS_ITERATOR_INITIALIZABLE;
  self->name = ls_copy_text(self->allocator, name, strlen(name));
  self->parts = ls_new_array(self->allocator, ls_nest,
                             data->num_leaves * data->num_replicas + 1);
  if (data->cut == LS_INPUT_REBATCH)
    self->rows =
        ls_new_array(self->allocator, ls_input_rows, data->num_pipelines);
  self->absent =
      ls_new_array(self->allocator, ls_array *, data->num_leaves + 1);
  if (self->name == NULL || self->parts == NULL || self->absent == NULL ||
      (data->cut == LS_INPUT_REBATCH && self->rows == NULL))
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(open_sources(self));
  return self->started ? ls_ok() : add_initializer(self);
}

ls_status
ls_distributed_iterator_create(ls_nest dataset,
                               const ls_distributed_iterator_options *options,
                               ls_distributed_iterator **out_iterator) {
  LS_REQUIRE_OUT(out_iterator);
  const ls_distributed_iterator_options defaults = {0};
  if (options == NULL) options = &defaults;
  LS_RETURN_IF_ERROR(check_kind(options->kind));
  LS_OWN(ls_distributed_dataset, data) = NULL;
  LS_RETURN_IF_ERROR(ls_input_data_of(dataset, &data));
  LS_OWN_NEW_OR_RETURN(data->allocator, ls_distributed_iterator, self);
  ls_object_init(&self->object, &iterator_type);
  self->allocator = data->allocator;
  // All ranks make their iterators in the same order.
  self->number = __atomic_add_fetch(&data->num_iterators, 1, __ATOMIC_RELAXED);
  self->data = ls_give(&data);
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(distributed_iterator_init(self, options));
  return ls_hand_over(&self, out_iterator);
}

LS_COUNTED(ls_distributed_iterator)

// ---- The next element -------------------------------------------------------
// Joins the replicas' values of a leaf, which are taken over.
static ls_nest distributed_iterator_join(const ls_distributed_iterator *self,
                                         ls_nest *values) {
  const ls_distributed_dataset *data = self->data;
  const size_t count = data->num_replicas;
  ls_nest made = values[0];
  if (data->wraps)
    made = ls_nest_distributed_on(LS_PER_REPLICA, values, data->places, count);
  for (size_t r = 0; r < count; ++r)
    values[r] = ls_none();  // Moved to the distributed value.
  return made;
}

ls_status ls_input_pack(ls_distributed_iterator *self, ls_nest *element) {
  const ls_distributed_dataset *data = self->data;
  LS_OWN_ARRAY_OR_RETURN(self->allocator, ls_nest, leaves,
                         data->num_leaves + 1);
  for (size_t l = 0; l < data->num_leaves; ++l)
    leaves[l] =
        distributed_iterator_join(self, &self->parts[l * data->num_replicas]);
  const ls_nest made = ls_nest_pack(data->structure, leaves, data->num_leaves);
  return ls_nest_give(made, element);
}

static ls_status
distributed_iterator_at_end(const ls_distributed_iterator *self) {
  return ls_out_of_range("iterator '%s' is at the end of its data, after "
                         "element %lld of epoch %lld",
                         self->name, (long long)self->given,
                         (long long)self->epoch);
}

ls_status ls_input_advance(ls_distributed_iterator *self, ls_nest *element) {
  if (!self->started)
    return ls_failed_precondition(
        "iterator '%s' is not initialized: run its initializer first",
        self->name);
  if (self->ended) return distributed_iterator_at_end(self);
  ls_status status = ls_input_fill(self);
  if (ls_status_is_ok(status)) status = ls_input_pack(self, element);
  ls_input_release_parts(self);
  if (ls_status_code(status) != LS_OUT_OF_RANGE) {
    ++self->given;  // A failed element counts as used, too.
    return status;
  }
  self->ended = true;
  ls_status_free(status);
  return distributed_iterator_at_end(self);
}

ls_status ls_input_try_advance(ls_distributed_iterator *self, ls_nest *element,
                               bool *out_has_value) {
  const ls_status status = ls_input_advance(self, element);
  *out_has_value = ls_status_is_ok(status);
  return ls_status_unless(status, LS_OUT_OF_RANGE);
}

ls_status ls_input_check_place(const ls_distributed_iterator *self,
                               const char *what) {
  const ls_distribution *entry = ls_distribution_current();
  const bool is_replica = entry != NULL && entry->replica != NULL &&
                          !entry->strategy->kind->is_default;
  const bool is_computed = ls_context_current()->scoped.shards > 0;
  if (!is_replica && !is_computed) return ls_ok();
  return ls_failed_precondition(
      "%s of iterator '%s' inside a replica of %s: call it outside, and pass "
      "its values to replicas as arguments",
      what, self->name,
      is_replica ? entry->strategy->label : "a replicated computation");
}

ls_status ls_distributed_iterator_next(ls_distributed_iterator *iterator,
                                       ls_nest *element) {
  LS_REQUIRE(element, iterator);
  LS_RETURN_IF_ERROR(ls_input_check_place(iterator, "get_next"));
  return ls_input_advance(iterator, element);
}

ls_status ls_distributed_iterator_next_as_optional(
    ls_distributed_iterator *iterator, bool *out_has_value, ls_nest *element) {
  LS_REQUIRE_OUT(out_has_value, element, iterator);
  LS_RETURN_IF_ERROR(ls_input_check_place(iterator, "get_next_as_optional"));
  return ls_input_try_advance(iterator, element, out_has_value);
}

// ---- Restart ----------------------------------------------------------------
static ls_status check_again(const ls_distributed_iterator *self) {
  return self->kind != LS_ITERATOR_ONE_SHOT
             ? ls_ok()
             : ls_failed_precondition("iterator '%s' is one-shot: it is not "
                                      "started again; make another one",
                                      self->name);
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

ls_status ls_distributed_iterator_initializer(ls_distributed_iterator *iterator,
                                              ls_op *out_op) {
  LS_REQUIRE_OUT(out_op, iterator);
  if (iterator->kind != LS_ITERATOR_INITIALIZABLE)
    return ls_failed_precondition(
        "iterator '%s' has no initializer: it is not an initializable one",
        iterator->name);
  *out_op = iterator->initializer;
  return ls_ok();
}

int64_t ls_distributed_iterator_epoch(const ls_distributed_iterator *iterator) {
  return iterator->epoch;
}

int64_t
ls_distributed_iterator_position(const ls_distributed_iterator *iterator) {
  return iterator->given;
}
