// SPDX-License-Identifier: Apache-2.0
// The ways to feed: a call for each core, one element for a host's replicas,
// one for each of them, one for all.
#include <stdio.h>

#include "base/values/nest_internal.h"
#include "data/iterator.h"
#include "estimator/input/enqueue.h"
#include "estimator/input/stopping_signals.h"
#include "lockstep/element_spec.h"

// A list of so many lists, taken over.
static ls_status enqueue_values_list_of(ls_nest *lists, int64_t count,
                                        ls_nest *out_all) {
  return ls_take_nest(ls_nest_sequence(LS_KIND_LIST, lists, (size_t)count),
                      out_all);
}

static void drop_lists(ls_allocator *allocator, ls_nest *lists, int64_t count) {
  for (int64_t i = 0; lists != NULL && i < count; ++i)
    ls_nest_release(lists[i]);
  ls_release(allocator, lists);
}

// ---- A call for each core --------------------------------------------------
static ls_status core_values(ls_enqueue *self, int64_t core,
                             ls_nest *out_list) {
  const int64_t invocation = self->options.host * self->num_replicas + core;
  char name[40];
  ls_nest made = ls_none();
  ls_feed_source source = {0};
  ls_feed_element fed = {0};
  snprintf(name, sizeof(name), "ordinal_%lld", (long long)core);
  LS_NAME_SCOPE(name);
  LS_RETURN_IF_ERROR(ls_enqueue_call_input(self, invocation, &made));
  ls_status status =
      ls_nest_as_dataset(made) == NULL
          ? ls_feed_source_of(&source, made)
          : ls_invalid_argument(
                "input_fn gives a Dataset, and is called for each core: "
                "TPUConfig.per_host_input_for_training must be PER_HOST_V1 or "
                "PER_HOST_V2 for it");
  if (ls_status_is_ok(status))
    status = ls_enqueue_next(self, &source, ls_enqueue_padding(self, 1), &fed);
  if (ls_status_is_ok(status))
    status = ls_recorder_flatten(self->options.recorder, &fed, out_list);
  ls_feed_element_drop(&fed);
  ls_feed_source_deinit(&source);
  ls_nest_release(made);
  return status;
}

ls_status ls_enqueue_of_cores(ls_enqueue *self) {
  const int64_t count = self->num_replicas;
  ls_nest *lists = ls_new_array(self->allocator, ls_nest, (size_t)count + 1);
  if (lists == NULL) return ls_out_of_memory();
  ls_status status = ls_ok();
  for (int64_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = core_values(self, i, &lists[i]);
  if (!ls_status_is_ok(status)) {
    drop_lists(self->allocator, lists, count);
    return status;
  }
  status = enqueue_values_list_of(lists, count, &self->read.values);
  ls_release(self->allocator, lists);
  return status;
}

// ---- One element for the replicas of a host --------------------------------
static ls_status note_end(ls_enqueue *self, const ls_feed_element *fed) {
  return fed->ended.kind == LS_KIND_NONE
             ? ls_ok()
             : ls_take_nest(LS_LIST(ls_nest_retain(fed->ended)),
                            &self->read.ended);
}

ls_status ls_enqueue_to_cut(ls_enqueue *self) {
  ls_feed_element fed;
  LS_RETURN_IF_ERROR(ls_enqueue_next(
      self, &self->source, ls_enqueue_padding(self, self->num_replicas), &fed));
  ls_status status =
      ls_recorder_flatten(self->options.recorder, &fed, &self->read.values);
  if (ls_status_is_ok(status)) status = note_end(self, &fed);
  self->read.splits = true;
  self->read.signals = ls_nest_retain(fed.signals);
  ls_feed_element_drop(&fed);
  return status;
}

// ---- One element for each replica ------------------------------------------
// What comes of each: lists, the ops that gave the first tensor of each, and
// whether it is behind the end.
typedef struct replica_lists {
  ls_nest *lists, *ended;
  ls_op *givers;
  size_t num_ended;
} replica_lists;

// The op that gave the first of the tensors.
static ls_op giver(ls_nest list) {
  const ls_nest first = ls_nest_item(list, 0);
  return first.kind == LS_KIND_TENSOR ? ls_tensor_op(first.as.tensor)
                                      : (ls_op){0};
}

// All replicas stop when the first one does.
static ls_status share_stopping(ls_feed_element *fed, ls_nest first) {
  static const char *const keys[] = {LS_SIGNAL_STOPPING, LS_SIGNAL_PADDING};
  if (fed->signals.kind == LS_KIND_NONE || first.kind == LS_KIND_NONE)
    return ls_ok();
  const ls_nest mask = ls_nest_find(fed->signals, LS_SIGNAL_PADDING);
  const ls_nest items[] = {
      ls_nest_retain(ls_nest_find(first, LS_SIGNAL_STOPPING)),
      ls_nest_retain(mask)};
  const ls_nest made =
      ls_nest_dict("", keys, items, mask.kind == LS_KIND_NONE ? 1 : 2);
  ls_nest_release(fed->signals);
  fed->signals = made;
  return ls_nest_status(made);
}

static ls_status replica_values(ls_enqueue *self, replica_lists *all,
                                int64_t replica) {
  ls_feed_element fed;
  ls_nest *signals = &self->read.signals;
  LS_RETURN_IF_ERROR(
      ls_enqueue_next(self, &self->source, ls_enqueue_padding(self, 1), &fed));
  ls_status status = share_stopping(&fed, *signals);
  if (ls_status_is_ok(status))
    status =
        ls_recorder_flatten(self->options.recorder, &fed, &all->lists[replica]);
  if (ls_status_is_ok(status) && signals->kind == LS_KIND_NONE)
    *signals = ls_nest_retain(fed.signals);
  if (ls_status_is_ok(status) && fed.ended.kind != LS_KIND_NONE)
    all->ended[all->num_ended++] = fed.ended;  // The graph's: not counted.
  all->givers[replica] = giver(all->lists[replica]);
  ls_feed_element_drop(&fed);
  return status;
}

// Each waits for the one before, so that the first replica gets the first. That
// an iterator has so many ops is meant here, and no reason for its warning.
static ls_status all_values(ls_enqueue *self, replica_lists *all) {
  self->source.iterator->num_ops -= (int)self->num_replicas;
  const bool in_order =
      ls_plan_tpu(self->plan)->parallel_get_next != LS_FLAG_ON;
  for (int64_t i = 0; i < self->num_replicas; ++i) {
    LS_CONTROL_SCOPE(all->givers, in_order && i > 0 ? (size_t)i : 0);
    LS_RETURN_IF_ERROR(replica_values(self, all, i));
  }
  return ls_ok();
}

static ls_status enqueue_values_list_ops(ls_allocator *allocator,
                                         const ls_op *ops, int64_t count,
                                         ls_nest *out_list) {
  ls_nest *items = ls_new_array(allocator, ls_nest, (size_t)count + 1);
  if (items == NULL) return ls_out_of_memory();
  for (int64_t i = 0; i < count; ++i)
    items[i] = ls_nest_op(ops[i]);
  const ls_status status = enqueue_values_list_of(items, count, out_list);
  ls_release(allocator, items);
  return status;
}

// Takes the lists over.
static ls_status keep_values(ls_enqueue *self, replica_lists *all) {
  const int64_t count = self->num_replicas;
  const ls_status status =
      enqueue_values_list_of(all->lists, count, &self->read.values);
  ls_release(self->allocator, all->lists);
  all->lists = NULL;
  LS_RETURN_IF_ERROR(status);
  LS_RETURN_IF_ERROR(enqueue_values_list_ops(self->allocator, all->givers,
                                             count, &self->read.givers));
  return enqueue_values_list_of(all->ended, (int64_t)all->num_ended,
                                &self->read.ended);
}

ls_status ls_enqueue_of_replicas(ls_enqueue *self) {
  const size_t room = (size_t)self->num_replicas + 1;
  replica_lists all = {
      .lists = ls_new_array(self->allocator, ls_nest, room),
      .ended = ls_new_array(self->allocator, ls_nest, room),
      .givers = ls_new_array(self->allocator, ls_op, room),
  };
  ls_status status =
      all.lists == NULL || all.ended == NULL || all.givers == NULL
          ? ls_out_of_memory()
          : all_values(self, &all);
  if (ls_status_is_ok(status)) status = keep_values(self, &all);
  drop_lists(self->allocator, all.lists, self->num_replicas);
  ls_release(self->allocator, all.ended);
  ls_release(self->allocator, all.givers);
  return status;
}

// ---- One element for all replicas ------------------------------------------
ls_status ls_enqueue_to_all(ls_enqueue *self) {
  const int64_t count = self->num_replicas;
  ls_feed_element fed;
  ls_nest list = ls_none();
  LS_RETURN_IF_ERROR(
      ls_enqueue_next(self, &self->source, ls_enqueue_padding(self, 1), &fed));
  ls_nest *lists = ls_new_array(self->allocator, ls_nest, (size_t)count + 1);
  ls_status status =
      lists == NULL ? ls_out_of_memory()
                    : ls_recorder_flatten(self->options.recorder, &fed, &list);
  for (int64_t i = 0; i < count && ls_status_is_ok(status); ++i)
    lists[i] = ls_nest_retain(list);
  if (ls_status_is_ok(status))
    status = enqueue_values_list_of(lists, count, &self->read.values);
  self->read.signals = ls_nest_retain(fed.signals);
  ls_release(self->allocator, lists);
  ls_nest_release(list);
  ls_feed_element_drop(&fed);
  return status;
}
