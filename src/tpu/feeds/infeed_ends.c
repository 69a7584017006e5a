// SPDX-License-Identifier: Apache-2.0
// Both ends of an infeed queue: the dequeue, and the enqueues of all shards.
#include <inttypes.h>
#include <stdio.h>

#include "base/require.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "graph/make/make.h"
#include "graph/trial.h"
#include "runtime/eager/eager.h"
#include "tpu/feeds/feed.h"
#include "tpu/own.h"
#include "tpu/pod/topology.h"

// ---- Shared by both ends ---------------------------------------------------
// Enters the scope "NAME/WORD" below the current scope, the same one on each
// call. `word` is empty or ends with a slash.
static void infeed_scope_begin(ls_scope *scope, const ls_infeed_queue *queue,
                               const char *word) {
  char name[LS_MAX_FULL_NAME];
  snprintf(name, sizeof(name), "%s%s/%s", ls_name_scope_current(), queue->name,
           word);
  ls_name_scope_begin(scope, name);
}

static ls_status check_first(const ls_infeed_queue *queue, ls_nest before,
                             const char *noun) {
  const bool is_in_function = ls_runtime_work_here()->callbacks > 0;
  if (before.kind == LS_KIND_NONE || is_in_function) return ls_ok();
  return ls_failed_precondition(
      "queue '%s': there cannot be two %s Ops from the same queue", queue->name,
      noun);
}

// Checks that both ends use one system; an end without a system takes the other
// end's system.
static ls_status check_ends(const ls_infeed_queue *queue,
                            const ls_system_id *dequeued,
                            const ls_system_id *enqueued) {
  if (dequeued == NULL || enqueued == NULL ||
      ls_system_id_equal(dequeued, enqueued))
    return ls_ok();
  return ls_failed_precondition(
      "queue '%s' is dequeued on TPU system '%s' of job %s and enqueued on "
      "'%s' of job %s: both must be on one",
      queue->name, dequeued->name, ls_job_text(dequeued->job), enqueued->name,
      ls_job_text(enqueued->job));
}

static void keep_system(ls_system_id **place, ls_system_id *id) {
  ls_object_retain(id);
  ls_object_release(*place);
  *place = id;
}

// ---- Attempts --------------------------------------------------------------
ls_status ls_infeed_attempt_begin(ls_infeed_attempt *self,
                                  ls_infeed_queue *queue) {
  *self = (ls_infeed_attempt){.queue = queue};
  if (queue != NULL) {
    self->before = *queue;
    LS_SET_ARRAY_OR_RETURN(queue->allocator, ls_infeed_element, self->elements,
                           queue->count);
    memcpy(self->elements, queue->elements,
           queue->count * sizeof(*self->elements));
    ls_nest_retain(queue->dequeued);
    ls_nest_retain(queue->enqueued);
    ls_object_retain(queue->dequeue_system);
    ls_object_retain(queue->enqueue_system);
  }
  ls_trial_begin(&self->trial);
  return ls_ok();
}

ls_status ls_infeed_attempt_end(ls_infeed_attempt *self, ls_status status,
                                ls_nest *out_value) {
  ls_infeed_queue *queue = self->queue;
  status = ls_trial_end_with(&self->trial, status, out_value);
  if (queue == NULL) return status;
  ls_infeed_queue gone = self->before;
  gone.elements = self->elements;
  if (!ls_status_is_ok(status)) {
    gone = *queue;
    queue->elements = self->elements;
    queue->frozen = self->before.frozen;
    queue->dequeued = self->before.dequeued;
    queue->enqueued = self->before.enqueued;
    queue->dequeue_system = self->before.dequeue_system;
    queue->enqueue_system = self->before.enqueue_system;
  }
  ls_object_release(gone.dequeue_system);
  ls_object_release(gone.enqueue_system);
  ls_nest_release(gone.dequeued);
  ls_nest_release(gone.enqueued);
  ls_release(queue->allocator, gone.elements);
  return status;
}

// Returns the result of a call that builds an end of a queue; `own` is the
// result of the previous such call. A refused call returns none, unless the
// caller's variable still holds `own`: its ops still feed the cores, and only
// the caller's list runs them.
static ls_status give_end(ls_status status, ls_nest made, ls_nest *own,
                          ls_nest *out) {
  if (ls_status_is_ok(status)) {
    ls_nest_release(*own);
    *own = ls_nest_retain(made);
    *out = made;
  } else if (own == NULL || own->kind == LS_KIND_NONE ||
             out->kind != own->kind || out->as.ref != own->as.ref ||
             ls_object_is_unique(own->as.ref)) {
    *out = ls_none();
  }
  return status;
}

// ---- Tags ------------------------------------------------------------------
static void print_parts(ls_shape parts, char *buffer, size_t size) {
  int64_t count = 1;
  for (int32_t k = 0; k < parts.rank; ++k)
    count *= parts.dim[k];
  if (parts.rank == LS_UNKNOWN_RANK) {
    snprintf(buffer, size, "replicated");
    return;
  }
  if (count == 1) {
    snprintf(buffer, size, "maximal [0]");
    return;
  }
  size_t used = (size_t)snprintf(buffer, size, "tiled [");
  for (int32_t k = 0; k < parts.rank; ++k)
    used += (size_t)snprintf(buffer + used, size - used,
                             k == 0 ? "%" PRId64 : ",%" PRId64, parts.dim[k]);
  snprintf(buffer + used, size - used, "] on 0..%" PRId64, count - 1);
}

// Annotates the layout of a value on a replica's logical cores. Rank -1: each
// core has the whole value. Otherwise `parts` counts the parts along each
// dimension; the parts are numbered row by row, and part k is on core k.
static ls_tensor tag_sharding(ls_tensor value, ls_shape parts) {
  char text[300];
  print_parts(parts, text, sizeof(text));
  const ls_tensor made = ls_identity_named(value, "sharding");
  const ls_attr attr = {
      .name = "_sharding", .kind = LS_ATTR_STRING, .as.string = text};
  if (ls_tensor_is_failed(made)) return made;
  const ls_status status = ls_op_set_attr(ls_tensor_op(made), &attr);
  return ls_status_is_ok(status) ? made : ls_make_failed("sharding", status);
}

// ---- The dequeue -----------------------------------------------------------
// Writes the element types of all partitions together.
ls_status ls_infeed_queue_dequeue_types(const ls_infeed_queue *queue,
                                        ls_type *types) {
  for (size_t i = 0; i < queue->count; ++i) {
    LS_RETURN_IF_ERROR(ls_infeed_queue_shard_type(queue, i, &types[i]));
    LS_RETURN_IF_ERROR(ls_sharding_policy_unpartition_shape(
        &queue->elements[i].policy, types[i].shape, &types[i].shape));
  }
  return ls_ok();
}

// Finds how a result is partitioned over its replica's logical cores. Returns
// false if it is not.
static bool infeed_ends_parts_of(const ls_infeed_queue *queue, size_t i,
                                 ls_shape *out_parts) {
  const ls_infeed_element *element = &queue->elements[i];
  const int64_t count = ls_sharding_policy_num_partitions(&element->policy);
  *out_parts = LS_SHAPE_UNKNOWN;
  if (queue->parts != NULL) {
    *out_parts = queue->parts[i];
    return true;
  }
  if (count == 1) return false;
  // Each core has the whole element.
  if (element->shape.rank == 0) return true;
  *out_parts = (ls_shape){.rank = element->shape.rank};
  for (int32_t k = 0; k < element->shape.rank; ++k)
    out_parts->dim[k] = k == element->policy.dimension.value ? count : 1;
  return true;
}

static void make_dequeue(ls_infeed_queue *queue, const ls_type *types,
                         int32_t core, ls_nest *items) {
  char device[40] = "";
  if (core >= 0)
    snprintf(device, sizeof(device), "/device:TPU_REPLICATED_CORE:%d", core);
  LS_DEVICE_SCOPE(device);
  // In a replicated computation the dequeue uses that computation's system.
  ls_system_id *system =
      ls_computation_around() == NULL ? queue->enqueue_system : NULL;
  ls_op op = {0};
  {
    LS_SCOPE_(infeed_scope_begin, queue, "");
    op = ls_feed_dequeue(LS_INFEED_DEQUEUE, "dequeue",
                         &(ls_feed_options){.system = system,
                                            .assignment = queue->assignment,
                                            .types = types,
                                            .parts = queue->parts,
                                            .count = queue->count},
                         NULL, 0);
    queue->dequeue = op;
  }
  for (size_t i = 0; i < queue->count; ++i) {
    ls_tensor value = ls_op_output(op, (unsigned)i);
    ls_shape parts;
    if (infeed_ends_parts_of(queue, i, &parts))
      value = tag_sharding(value, parts);
    items[i] = ls_leaf(value);
  }
}

static ls_status dequeue(ls_infeed_queue *queue, int32_t core,
                         ls_nest *out_tuple) {
  LS_RETURN_IF_ERROR(ls_infeed_queue_freeze(queue));
  if (queue->assignment != NULL)
    LS_RETURN_IF_ERROR(ls_partitioned_check(queue));
  LS_OWN_ARRAY_OR_RETURN(queue->allocator, ls_type, types, queue->count);
  LS_OWN_ARRAY_OR_RETURN(queue->allocator, ls_nest, items, queue->count);
  LS_RETURN_IF_ERROR(ls_infeed_queue_dequeue_types(queue, types));
  make_dequeue(queue, types, core, items);
  LS_RETURN_IF_ERROR(ls_take_nest(
      ls_nest_sequence(LS_KIND_TUPLE, items, queue->count), out_tuple));
  return check_ends(queue, ls_feed_op_system(queue->dequeue),
                    queue->enqueue_system);
}

static ls_status try_dequeue(ls_infeed_queue *queue, int32_t core,
                             ls_nest *out_tuple) {
  ls_infeed_attempt a;
  LS_RETURN_IF_ERROR(check_first(queue, queue->dequeued, "dequeue"));
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&a, queue));
  LS_RETURN_IF_ERROR(
      ls_infeed_attempt_end(&a, dequeue(queue, core, out_tuple), out_tuple));
  keep_system(&queue->dequeue_system, ls_feed_op_system(queue->dequeue));
  return ls_ok();
}

ls_status ls_infeed_queue_dequeue(ls_infeed_queue *queue, int32_t core,
                                  ls_nest *out_tuple) {
  ls_nest made = ls_none();
  LS_REQUIRE(out_tuple);
  if (queue == NULL)
    return give_end(ls_null_argument(__func__, "queue"), made, NULL, out_tuple);
  const ls_status status = try_dequeue(queue, core, &made);
  return give_end(status, made, &queue->dequeued, out_tuple);
}

// ---- The enqueues ----------------------------------------------------------
// One shard, before any op is built.
typedef struct shard {
  const ls_tensor *inputs;
  int64_t ordinal;
  bool has_place;
  ls_device_name place;
} shard;

typedef struct enqueues {
  ls_infeed_queue *queue;
  const ls_infeed_places *places;
  size_t count;
  shard *shards;
  ls_tensor *inputs;  // Inputs, shard by shard.
  ls_op *ops;
} enqueues;

static ls_status begin_enqueues(enqueues *e, ls_infeed_queue *queue,
                                const ls_infeed_places *places, size_t count) {
  static const ls_infeed_places defaults = {0};
  ls_allocator *allocator = queue->allocator;
  *e = (enqueues){.queue = queue,
                  .places = places != NULL ? places : &defaults,
                  .count = count};
  e->shards = ls_new_array(allocator, shard, count);
  e->ops = ls_new_array(allocator, ls_op, count);
  e->inputs = ls_new_array(allocator, ls_tensor, count * queue->count);
  if (e->shards == NULL || e->ops == NULL || e->inputs == NULL)
    return ls_out_of_memory();
  for (size_t s = 0; s < count; ++s)
    e->shards[s].inputs = e->inputs + s * queue->count;
  return ls_ok();
}

static void end_enqueues(const enqueues *e) {
  if (e->queue == NULL) return;
  ls_release(e->queue->allocator, e->shards);
  ls_release(e->queue->allocator, e->ops);
  ls_release(e->queue->allocator, e->inputs);
}
LS_OWNED_STRUCT(enqueues, end_enqueues)

static const char *infeed_ends_device_of(ls_tensor tensor) {
  return ls_op_device(ls_tensor_op(tensor));
}

// Checks that the inputs of a shard are on one device, where the shard has none
// of its own.
static ls_status check_devices(const enqueues *e, size_t s) {
  const ls_tensor *inputs = e->shards[s].inputs;
  const char *first = infeed_ends_device_of(inputs[0]);
  for (size_t i = 1; i < e->queue->count; ++i)
    if (strcmp(infeed_ends_device_of(inputs[i]), first) != 0)
      return ls_invalid_argument(
          "the inputs of shard %zu of queue '%s' are on several devices, '%s' "
          "and '%s': put them on one, or set the device of the enqueue",
          s, e->queue->name, first, infeed_ends_device_of(inputs[i]));
  return ls_ok();
}

static ls_status set_place(const enqueues *e, size_t s) {
  const ls_infeed_places *places = e->places;
  shard *item = &e->shards[s];
  if (places->ordinal_of != NULL)
    item->ordinal = places->ordinal_of(places->user, (int64_t)s);
  if (places->place_of != NULL) {
    item->has_place = true;
    return ls_status_annotate(
        places->place_of(places->user, (int64_t)s, &item->place),
        "where shard %zu of queue '%s' is to be enqueued", s, e->queue->name);
  }
  return item->has_place ? ls_ok() : check_devices(e, s);
}

static ls_op add_enqueue(const enqueues *e, size_t s, const ls_type *types) {
  char name[24];
  const bool names_job = strstr(ls_context_current()->scoped.device != NULL
                                    ? ls_context_current()->scoped.device
                                    : "",
                                "/job:") != NULL;
  const ls_device_assignment *assignment = e->places->assignment;
  ls_system_id *system =
      assignment != NULL ? assignment->topology->system : NULL;
  if (system == NULL && !names_job) system = e->queue->dequeue_system;
  snprintf(name, sizeof(name), "%zu", s);
  return ls_feed_enqueue(system, name, e->shards[s].inputs, types,
                         e->queue->count, e->shards[s].ordinal);
}

static ls_op place_enqueue(const enqueues *e, size_t s, const ls_type *types) {
  const shard *item = &e->shards[s];
  if (item->has_place) {
    LS_DEVICE_SCOPE(item->place.text);
    return add_enqueue(e, s, types);
  }
  LS_COLOCATE_SCOPE(ls_tensor_op(item->inputs[0]));
  return add_enqueue(e, s, types);
}

static ls_status make_enqueues(const enqueues *e) {
  LS_OWN_ARRAY_OR_RETURN(e->queue->allocator, ls_type, types, e->queue->count);
  for (size_t i = 0; i < e->queue->count; ++i)
    LS_RETURN_IF_ERROR(ls_infeed_queue_shard_type(e->queue, i, &types[i]));
  LS_SCOPE_(infeed_scope_begin, e->queue, "enqueue/");
  for (size_t s = 0; s < e->count; ++s)
    e->ops[s] = place_enqueue(e, s, types);
  return ls_ok();
}

// Enqueues the inputs of all shards, which are all present.
static ls_status enqueue_all(const enqueues *e, ls_nest *out_ops) {
  for (size_t s = 0; s < e->count; ++s)
    LS_RETURN_IF_ERROR(set_place(e, s));
  LS_RETURN_IF_ERROR(make_enqueues(e));
  LS_OWN(ls_nest_builder, items) = {0};
  for (size_t s = 0; s < e->count; ++s)
    ls_nest_builder_append(&items, ls_nest_op(e->ops[s]));
  return ls_take_nest(ls_nest_builder_finish(&items, LS_KIND_LIST), out_ops);
}

static ls_status enqueue_shards(ls_infeed_queue *queue, ls_nest shards,
                                const ls_infeed_places *places,
                                ls_nest *out_ops) {
  LS_OWN(enqueues, e) = {0};
  LS_RETURN_IF_ERROR(begin_enqueues(&e, queue, places, ls_nest_count(shards)));
  for (size_t s = 0; s < e.count; ++s) {
    e.shards[s].ordinal = -1;
    LS_RETURN_IF_ERROR(ls_infeed_queue_tensors(queue, ls_nest_item(shards, s),
                                               e.inputs + s * queue->count));
  }
  return enqueue_all(&e, out_ops);
}

// Returns the system of the first op in the list; NULL if not known.
static ls_system_id *system_of(ls_nest ops) {
  return ls_nest_count(ops) > 0 ? ls_feed_op_system(ls_nest_item(ops, 0).as.op)
                                : NULL;
}

static ls_status end_enqueue(ls_infeed_queue *queue, ls_infeed_attempt *attempt,
                             ls_status status, ls_nest *ops) {
  if (ls_status_is_ok(status))
    status = check_ends(queue, queue->dequeue_system, system_of(*ops));
  LS_RETURN_IF_ERROR(ls_infeed_attempt_end(attempt, status, ops));
  keep_system(&queue->enqueue_system, system_of(*ops));
  return ls_ok();
}

static ls_status enqueue(ls_infeed_queue *queue, ls_nest shards,
                         const ls_infeed_places *places, ls_nest *out_ops) {
  LS_RETURN_IF_ERROR(ls_infeed_queue_configure_from_shards(queue, shards));
  LS_RETURN_IF_ERROR(ls_infeed_queue_freeze(queue));
  return queue->assignment != NULL
             ? ls_partitioned_enqueue(queue, shards, out_ops)
             : enqueue_shards(queue, shards, places, out_ops);
}

// ---- Split -----------------------------------------------------------------
// Counts the cores per host of the system that dequeues; without such a system,
// those of the current system.
static ls_status cores_per_host(const enqueues *e, int64_t *out_count) {
  if (e->places->cores_per_host.set) {
    *out_count = e->places->cores_per_host.value;
    return *out_count > 0
               ? ls_ok()
               : ls_invalid_argument("cores_per_host must be above 0, is %lld",
                                     (long long)*out_count);
  }
  ls_runtime *runtime = ls_runtime_current();
  ls_system_id *id = ls_object_retain(e->queue->dequeue_system);
  if (id == NULL)
    LS_RETURN_IF_ERROR(
        ls_system_here(runtime, "an infeed queue's enqueue", NULL, &id));
  LS_OWN(ls_pod, pod) = ls_pod_of_id(runtime, id);
  ls_object_release(id);
  if (pod == NULL)
    return ls_failed_precondition(
        "the devices of the shards of queue '%s' depend on the cores of a "
        "host: initialize a TPU system, or set cores_per_host",
        e->queue->name);
  *out_count = pod->cores_per_host;
  return ls_ok();
}

static ls_status set_default_places(const enqueues *e) {
  const ls_device_assignment *assignment = e->places->assignment;
  int64_t cores = 1;
  if (assignment == NULL) LS_RETURN_IF_ERROR(cores_per_host(e, &cores));
  for (size_t s = 0; s < e->count; ++s) {
    shard *item = &e->shards[s];
    int32_t ordinal = 0;
    item->has_place = true;
    if (assignment == NULL) {
      item->ordinal = (int64_t)s % cores;
      snprintf(item->place.text, sizeof(item->place.text),
               "/task:%" PRId64 "/device:CPU:0", (int64_t)s / cores);
      continue;
    }
    LS_RETURN_IF_ERROR(
        ls_device_assignment_ordinal(assignment, (int32_t)s, 0, &ordinal));
    LS_RETURN_IF_ERROR(ls_device_assignment_host(assignment, (int32_t)s, 0,
                                                 NULL, &item->place));
    item->ordinal = ordinal;
  }
  return ls_ok();
}

// Splits a value into equal pieces. The split op's other operands are zeros of
// the pieces' shape.
static ls_status split_value(const enqueues *e, size_t i, ls_tensor value) {
  const size_t count = e->count;
  char name[24];
  ls_type type = {LS_DTYPE_F32, LS_SHAPE_UNKNOWN};
  const int axis = (int)e->queue->elements[i].policy.dimension.value;
  e->inputs[i] = value;
  if (count == 1) return ls_ok();
  LS_RETURN_IF_ERROR(ls_infeed_queue_shard_type(e->queue, i, &type));
  LS_OWN_ARRAY_OR_RETURN(e->queue->allocator, ls_tensor, likes, count + 1);
  LS_DEVICE_SCOPE(infeed_ends_device_of(value));
  LS_SCOPE_(infeed_scope_begin, e->queue, "split/");
  likes[0] = value;
  likes[1] = ls_fill(type.dtype, type.shape, 0);
  for (size_t s = 2; s <= count; ++s)
    likes[s] = likes[1];
  snprintf(name, sizeof(name), "%zu", i);
  const ls_attr attr = LS_OWN_I(AXIS, axis);
  const ls_op op =
      ls_make_op(LS_OP_SPLIT_LIKE, name, likes, count + 1, &attr, 1);
  for (size_t s = 0; s < count; ++s)
    e->inputs[s * e->queue->count + i] = ls_op_output(op, (unsigned)s);
  return ls_ok();
}

static ls_status split_and_enqueue(ls_infeed_queue *queue, ls_nest inputs,
                                   const ls_infeed_places *places,
                                   ls_nest *out_ops) {
  LS_RETURN_IF_ERROR(ls_infeed_queue_configure_from(queue, inputs));
  LS_RETURN_IF_ERROR(ls_infeed_queue_freeze(queue));
  const size_t count = (size_t)ls_infeed_queue_num_shards(queue).value;
  LS_OWN(enqueues, e) = {0};
  LS_RETURN_IF_ERROR(begin_enqueues(&e, queue, places, count));
  LS_OWN_ARRAY_OR_RETURN(queue->allocator, ls_tensor, whole, queue->count);
  LS_RETURN_IF_ERROR(ls_infeed_queue_tensors(queue, inputs, whole));
  LS_RETURN_IF_ERROR(set_default_places(&e));
  for (size_t i = 0; i < queue->count; ++i)
    LS_RETURN_IF_ERROR(split_value(&e, i, whole[i]));
  return enqueue_all(&e, out_ops);
}

static ls_status infeed_ends_check_split(const ls_infeed_queue *queue) {
  if (queue->assignment != NULL)
    return ls_unimplemented("queue '%s' is partitioned: it enqueues each "
                            "replica's input, and does not split over replicas",
                            queue->name);
  return check_first(queue, queue->enqueued, "enqueue");
}

// Builds the enqueues of one of the two public calls; `values` are one nest per
// shard or one for all shards.
static ls_status try_enqueue(ls_infeed_queue *queue, ls_nest values,
                             const ls_infeed_places *places, bool splits,
                             ls_nest *out_ops) {
  ls_infeed_attempt a;
  LS_RETURN_IF_ERROR(splits ? infeed_ends_check_split(queue)
                            : check_first(queue, queue->enqueued, "enqueue"));
  LS_RETURN_IF_ERROR(ls_infeed_attempt_begin(&a, queue));
  const ls_status status =
      splits ? split_and_enqueue(queue, values, places, out_ops)
             : enqueue(queue, values, places, out_ops);
  return end_enqueue(queue, &a, status, out_ops);
}

static ls_status give_enqueue(const char *function, ls_infeed_queue *queue,
                              ls_nest values, const ls_infeed_places *places,
                              bool splits, ls_nest *out_ops) {
  ls_nest made = ls_none();
  if (out_ops == NULL) return ls_null_argument(function, "out_ops");
  if (queue == NULL)
    return give_end(ls_null_argument(function, "queue"), made, NULL, out_ops);
  const ls_status status = try_enqueue(queue, values, places, splits, &made);
  return give_end(status, made, &queue->enqueued, out_ops);
}

ls_status ls_infeed_queue_enqueue(ls_infeed_queue *queue, ls_nest shards,
                                  const ls_infeed_places *places,
                                  ls_nest *out_ops) {
  return give_enqueue(__func__, queue, shards, places, false, out_ops);
}

ls_status ls_infeed_queue_split_and_enqueue(ls_infeed_queue *queue,
                                            ls_nest inputs,
                                            const ls_infeed_places *places,
                                            ls_nest *out_ops) {
  return give_enqueue(__func__, queue, inputs, places, true, out_ops);
}
