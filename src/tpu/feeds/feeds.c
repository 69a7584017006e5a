// SPDX-License-Identifier: Apache-2.0
// Makers of the infeed and outfeed ops.
#include "graph/context.h"
#include "graph/make/make.h"
#include "lockstep/infeed.h"
#include "lockstep/shape_rules.h"
#include "tpu/feeds/feed.h"
#include "tpu/pod/core_queues.h"
#include "tpu/pod/topology.h"

// ---- Shared by all makers --------------------------------------------------
static ls_op feed_op_add(const char *name, ls_feed_state *feed,
                         const ls_tensor *inputs, size_t num_inputs) {
  const ls_attr attrs[] = {{.name = "kernel",
                            .kind = LS_ATTR_KERNEL,
                            .as.kernel = ls_feed_kernel(feed->kind)},
                           LS_OWN_O(STATE, &feed->object)};
  return ls_make_op(LS_OP_HOST,
                    name != NULL ? name : ls_feed_kind_name(feed->kind), inputs,
                    num_inputs, attrs, 2);
}

ls_system_id *ls_feed_op_system(ls_op op) {
  const ls_node *node = ls_graph_node(op.graph, op.id);
  const ls_attr *state =
      node != NULL ? ls_node_attr(node, LS_ATTR_ID_STATE) : NULL;
  return state != NULL ? ((const ls_feed_state *)state->as.object)->system
                       : NULL;
}

static ls_op feeds_failed(const char *name, ls_status status) {
  ls_make_failed(name, status);
  return (ls_op){0};
}

// Finds the system: the given one, else the assignment's, else the current one.
static ls_status feeds_find_system(const ls_feed_options *options,
                                   ls_system_id **out_id) {
  const ls_device_assignment *assignment = options->assignment;
  ls_graph *graph = ls_graph_resolve(ls_graph_current());
  ls_device_parts device;
  *out_id = options->system;
  if (*out_id == NULL && assignment != NULL)
    *out_id = assignment->topology->system;
  if (*out_id != NULL) {
    ls_object_retain(*out_id);
    return ls_ok();
  }
  if (graph == NULL) return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_device_parse(options->device, &device));
  return ls_system_here(graph->runtime, ls_feed_kind_name(options->kind),
                        device.job, out_id);
}

static ls_op feeds_add(ls_feed_options options, const char *name,
                       const ls_tensor *inputs, size_t num_inputs) {
  LS_OWN(ls_feed_state, feed) = NULL;
  LS_OWN(ls_system_id, system) = NULL;
  options.device = ls_context_current()->scoped.device;
  const ls_system_flow *computation = ls_computation_around();
  if (options.assignment == NULL && computation != NULL &&
      !ls_feed_is_on_host(options.kind))
    options.assignment = computation->assignment;
  ls_status status = feeds_find_system(&options, &system);
  options.system = system;
  if (ls_status_is_ok(status)) status = ls_feed_create(&options, &feed);
  return ls_status_is_ok(status) ? feed_op_add(name, feed, inputs, num_inputs)
                                 : feeds_failed(name, status);
}

ls_op ls_feed_dequeue(ls_feed_kind kind, const char *name,
                      const ls_feed_options *options, const ls_tensor *inputs,
                      size_t num_inputs) {
  ls_feed_options all = *options;
  all.kind = kind;
  all.ordinal = -1;
  return feeds_add(all, name, inputs, num_inputs);
}

ls_op ls_feed_enqueue(ls_system_id *system, const char *name,
                      const ls_tensor *values, const ls_type *types,
                      size_t count, int64_t ordinal) {
  return feeds_add((ls_feed_options){.kind = LS_INFEED_ENQUEUE,
                                     .system = system,
                                     .ordinal = ordinal,
                                     .types = types,
                                     .count = count},
                   name, values, count);
}

// ---- Checks ----------------------------------------------------------------
static ls_status feeds_check_count(const char *name, size_t count) {
  return count > 0 ? ls_ok()
                   : ls_invalid_argument("the tuple of %s has no elements; "
                                         "there must be at least one",
                                         name);
}

static ls_status feeds_check_types(const char *name, const ls_type *types,
                                   size_t count) {
  LS_RETURN_IF_ERROR(feeds_check_count(name, count));
  if (types == NULL) return ls_invalid_argument("%s: types is NULL", name);
  for (size_t i = 0; i < count; ++i) {
    LS_RETURN_IF_ERROR(ls_core_queue_check_dtype(name, i, types[i].dtype));
    LS_RETURN_IF_ERROR(ls_shape_check(types[i].shape));
  }
  return ls_ok();
}

static ls_status feeds_check_values(const char *name, const ls_tensor *values,
                                    size_t count) {
  LS_RETURN_IF_ERROR(feeds_check_count(name, count));
  if (values == NULL) return ls_invalid_argument("%s: values is NULL", name);
  for (size_t i = 0; i < count; ++i)
    if (!ls_tensor_is_failed(values[i]))
      LS_RETURN_IF_ERROR(
          ls_core_queue_check_dtype(name, i, ls_tensor_dtype(values[i])));
  return ls_ok();
}

static ls_op feeds_take(ls_feed_kind kind, const char *name,
                        const ls_type *types, size_t count, int64_t ordinal,
                        const ls_tensor *at) {
  ls_status status = feeds_check_types(name, types, count);
  if (!ls_status_is_ok(status)) return feeds_failed(name, status);
  return feeds_add(
      (ls_feed_options){
          .kind = kind, .ordinal = ordinal, .types = types, .count = count},
      name, at, at == NULL ? 0 : 1);
}

static ls_op feeds_put(ls_feed_options options, const char *name,
                       const ls_tensor *values, size_t count) {
  const ls_status status = feeds_check_values(name, values, count);
  if (!ls_status_is_ok(status)) return feeds_failed(name, status);
  return feeds_add(options, name, values, count);
}

// ---- On cores --------------------------------------------------------------
ls_op ls_infeed_dequeue_tuple(const ls_type *types, size_t count) {
  return feeds_take(LS_INFEED_DEQUEUE, "infeed_dequeue_tuple", types, count, -1,
                    NULL);
}

ls_tensor ls_infeed_dequeue(ls_dtype dtype, ls_shape shape) {
  const ls_type type = {dtype, shape};
  return ls_op_output(
      feeds_take(LS_INFEED_DEQUEUE, "infeed_dequeue", &type, 1, -1, NULL), 0);
}

ls_op ls_outfeed_enqueue_tuple(const ls_tensor *values, size_t count) {
  return feeds_put((ls_feed_options){.kind = LS_OUTFEED_ENQUEUE, .ordinal = -1},
                   "outfeed_enqueue_tuple", values, count);
}

ls_op ls_outfeed_enqueue(ls_tensor value) {
  return feeds_put((ls_feed_options){.kind = LS_OUTFEED_ENQUEUE, .ordinal = -1},
                   "outfeed_enqueue", &value, 1);
}

ls_op ls_feed_enqueue_if(const ls_tensor *values, size_t count) {
  return feeds_put((ls_feed_options){.kind = LS_OUTFEED_ENQUEUE,
                                     .ordinal = -1,
                                     .is_conditional = true},
                   "outfeed_enqueue_tuple", values, count);
}

// ---- On hosts --------------------------------------------------------------
ls_op ls_infeed_enqueue_tuple(const ls_tensor *values, size_t count,
                              const ls_type *types, size_t num_types,
                              int64_t ordinal) {
  if (types == NULL && num_types > 0)
    return feeds_failed("infeed_enqueue_tuple",
                        ls_invalid_argument("%zu types at NULL", num_types));
  return feeds_put((ls_feed_options){.kind = LS_INFEED_ENQUEUE,
                                     .ordinal = ordinal,
                                     .types = types,
                                     .count = num_types},
                   "infeed_enqueue_tuple", values, count);
}

ls_op ls_infeed_enqueue(ls_tensor value, ls_shape shape, int64_t ordinal) {
  const ls_type type = {LS_DTYPE_NONE, shape};
  return feeds_put((ls_feed_options){.kind = LS_INFEED_ENQUEUE,
                                     .ordinal = ordinal,
                                     .types = &type,
                                     .count = 1},
                   "infeed_enqueue", &value, 1);
}

ls_op ls_outfeed_dequeue_tuple(const ls_type *types, size_t count,
                               int64_t ordinal) {
  return feeds_take(LS_OUTFEED_DEQUEUE, "outfeed_dequeue_tuple", types, count,
                    ordinal, NULL);
}

ls_tensor ls_outfeed_dequeue(ls_dtype dtype, ls_shape shape, int64_t ordinal) {
  const ls_type type = {dtype, shape};
  return ls_op_output(feeds_take(LS_OUTFEED_DEQUEUE, "outfeed_dequeue", &type,
                                 1, ordinal, NULL),
                      0);
}

ls_op ls_outfeed_dequeue_tuple_at(ls_tensor ordinal, const ls_type *types,
                                  size_t count) {
  const char *name = "outfeed_dequeue_tuple";
  const ls_shape shape = ls_tensor_shape(ordinal);
  const ls_dtype dtype = ls_tensor_dtype(ordinal);
  if (!ls_tensor_is_failed(ordinal) &&
      (dtype != LS_DTYPE_I32 || shape.rank != 0))
    return feeds_failed(
        name, ls_invalid_argument(
                  "the device ordinal of %s must be an i32 scalar, is %s", name,
                  LS_SHAPE_TEXT(dtype, shape)));
  return feeds_take(LS_OUTFEED_DEQUEUE, name, types, count, -1, &ordinal);
}

ls_op ls_infeed_close(int64_t ordinal) {
  return feeds_add(
      (ls_feed_options){.kind = LS_INFEED_CLOSE, .ordinal = ordinal},
      "infeed_close", NULL, 0);
}

ls_op ls_outfeed_close(int64_t ordinal) {
  return feeds_add(
      (ls_feed_options){.kind = LS_OUTFEED_CLOSE, .ordinal = ordinal},
      "outfeed_close", NULL, 0);
}
