// SPDX-License-Identifier: Apache-2.0
#include "tpu/pod/core_queues.h"

#include <stdio.h>

#include "base/memory/own.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "lockstep/device_name.h"

static ls_core_queue **core_queues_place_of(ls_core *core, bool is_outfeed) {
  return is_outfeed ? &core->outfeed : &core->infeed;
}

// ---- Making them -----------------------------------------------------------
static void destroy_queue(ls_allocator *allocator, ls_core_queue *queue) {
  if (queue == NULL) return;
  for (size_t i = 0; i < queue->num_spares; ++i)
    ls_nest_release(queue->spares[i]);
  ls_release(allocator, queue->spares);
  ls_queue_destroy(queue->tuples);
  ls_mutex_deinit(&queue->lock);
  ls_release(allocator, queue);
}

static void destroy_queues(ls_core *core) {
  destroy_queue(core->pod->allocator, core->infeed);
  destroy_queue(core->pod->allocator, core->outfeed);
}

static void reset_queues(ls_core *core) {
  ls_pod *pod = core->pod;
  for (int i = 0; i < 2; ++i) {
    ls_mutex_lock(&pod->lock);
    const ls_core_queue *queue = *core_queues_place_of(core, i == 1);
    ls_mutex_unlock(&pod->lock);
    if (queue == NULL) continue;
    ls_queue_reset(queue->tuples);
    ls_queue_tell(queue->tuples);
  }
}

static const ls_core_queues queues_of_pods = {.destroy = destroy_queues,
                                              .reset = reset_queues};

static ls_status core_queues_make_queue(ls_core *core, bool is_outfeed,
                                        ls_core_queue **out_queue) {
  ls_pod *pod = core->pod;
  ls_device_name device;
  char name[LS_MAX_DEVICE_NAME + 16];
  ls_core_device(core, &device);
  snprintf(name, sizeof(name), "%s of %s", is_outfeed ? "outfeed" : "infeed",
           device.text);
  LS_NEW_OR_RETURN(pod->allocator, ls_core_queue, queue);
  queue->core = core;
  queue->is_outfeed = is_outfeed;
  const size_t depth = (size_t)pod->queue_depth;
  ls_status status = ls_mutex_init(&queue->lock);
  if (ls_status_is_ok(status))
    status = ls_queue_create(&(ls_queue_options){.capacity = depth,
                                                 .name = name,
                                                 .allocator = pod->allocator},
                             &queue->tuples);
  // Beside those that lie in the queue, two are on their way.
  queue->most_spares = depth + 2;
  if (ls_status_is_ok(status))
    queue->spares = ls_new_array(pod->allocator, ls_nest, queue->most_spares);
  if (ls_status_is_ok(status) && queue->spares == NULL)
    status = ls_out_of_memory();
  if (ls_status_is_ok(status))
    *out_queue = queue;
  else
    destroy_queue(pod->allocator, queue);
  return status;
}

ls_status ls_core_queue_of(ls_core *core, bool is_outfeed,
                           ls_core_queue **out_queue) {
  ls_pod *pod = core->pod;
  ls_status status = ls_ok();
  ls_mutex_lock(&pod->lock);
  ls_core_queue **place = core_queues_place_of(core, is_outfeed);
  if (*place == NULL) status = core_queues_make_queue(core, is_outfeed, place);
  pod->queues = &queues_of_pods;
  *out_queue = *place;
  ls_mutex_unlock(&pod->lock);
  return status;
}

const char *ls_core_queue_name(const ls_core_queue *queue) {
  return ls_queue_name(queue->tuples);
}

void ls_core_queue_close(ls_core_queue *queue) {
  ls_pod *pod = queue->core->pod;
  ls_queue_close(queue->tuples);
  __atomic_fetch_add(&pod->closings, 1, __ATOMIC_SEQ_CST);
  for (int32_t i = 0; i < ls_pod_num_cores(pod); ++i) {
    ls_mutex_lock(&pod->lock);
    const ls_core_queue *other =
        *core_queues_place_of(&pod->cores[i], queue->is_outfeed);
    ls_mutex_unlock(&pod->lock);
    if (other != NULL && other != queue) ls_queue_tell(other->tuples);
  }
  ls_runtime_note_input(pod->runtime);
}

// ---- Tuples ----------------------------------------------------------------
static ls_nest core_queues_take_spare(ls_core_queue *queue) {
  ls_mutex_lock(&queue->lock);
  const ls_nest spare =
      queue->num_spares == 0 ? ls_none() : queue->spares[--queue->num_spares];
  ls_mutex_unlock(&queue->lock);
  return spare;
}

static bool core_queues_is_of(ls_nest tuple, const ls_type *types,
                              size_t count) {
  if (ls_nest_count(tuple) != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const ls_array *array = ls_nest_as_array(ls_nest_item(tuple, i));
    if (ls_array_dtype(array) != types[i].dtype ||
        !ls_shape_equal(ls_array_shape(array), types[i].shape))
      return false;
  }
  return true;
}

static ls_status make_new(const ls_core_queue *queue, const ls_type *types,
                          size_t count, ls_nest *out_tuple) {
  enum { FEW = 16 };
  ls_allocator *allocator = queue->core->pod->allocator;
  ls_nest few[FEW];
  ls_nest *items = few;
  if (count > FEW) items = ls_new_array(allocator, ls_nest, count);
  if (items == NULL) return ls_out_of_memory();
  ls_status status = ls_ok();
  size_t made = 0;
  for (; made < count && ls_status_is_ok(status); ++made) {
    ls_array *array = NULL;
    status =
        ls_array_create_unwritten(types[made].dtype, types[made].shape, &array);
    items[made] = array == NULL ? ls_none() : ls_nest_array(array);
  }
  if (ls_status_is_ok(status)) {
    status =
        ls_take_nest(ls_nest_sequence(LS_KIND_TUPLE, items, count), out_tuple);
  } else {
    for (size_t i = 0; i < made; ++i)
      ls_nest_release(items[i]);
  }
  if (items != few) ls_release(allocator, items);
  return status;
}

ls_status ls_core_queue_make_tuple(ls_core_queue *queue, const ls_type *types,
                                   size_t count, ls_nest *out_tuple) {
  *out_tuple = core_queues_take_spare(queue);
  if (out_tuple->kind == LS_KIND_TUPLE &&
      core_queues_is_of(*out_tuple, types, count))
    return ls_ok();
  ls_nest_release(*out_tuple);  // Of others, which are behind.
  *out_tuple = ls_none();
  // Arrays are of the thread's runtime.
  ls_runtime *before = ls_runtime_make_current(queue->core->pod->runtime);
  const ls_status status = make_new(queue, types, count, out_tuple);
  (void)ls_runtime_make_current(before);
  return status;
}

void ls_core_queue_give_back(ls_core_queue *queue, ls_nest tuple) {
  ls_mutex_lock(&queue->lock);
  const bool is_kept =
      tuple.kind == LS_KIND_TUPLE && queue->num_spares < queue->most_spares;
  if (is_kept) queue->spares[queue->num_spares++] = tuple;
  ls_mutex_unlock(&queue->lock);
  if (!is_kept) ls_nest_release(tuple);
}

// ---- Elements --------------------------------------------------------------
static bool can_be_fed(ls_dtype dtype) {
  return dtype > LS_DTYPE_NONE && dtype < LS_DTYPE_COUNT &&
         dtype != LS_DTYPE_STRING && dtype != LS_DTYPE_RESOURCE &&
         dtype != LS_DTYPE_VARIANT;
}

ls_status ls_core_queue_check_dtype(const char *name, size_t i,
                                    ls_dtype dtype) {
  if (can_be_fed(dtype)) return ls_ok();
  return ls_invalid_argument(
      "element %zu of %s is of type %s; possible are bool, i8, i16, i32, i64, "
      "u8, u16, u32, u64, f16, bf16, f32, f64, c64 and c128",
      i, name, ls_dtype_name(dtype));
}
