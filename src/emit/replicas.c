// SPDX-License-Identifier: Apache-2.0
//
// Emits replicated regions.
//
// R replicas on D devices are R / D on each, in order, its lanes; all devices
// compute all replicas if D does not divide R. A value that
// differs by replica is one value if a device has one lane; else it is stacked
// along a new dimension 0, or there is a value for each lane; either is made
// from the other where it is needed. Around the region a value of one replica
// belongs to a device: all devices emit the same, and it is right on its owner.
#include "emit/emit.h"

// ---- Lanes -----------------------------------------------------------------
// Emits x[index] of the language's dimensions.
static ls_emitted emit_part(ls_emitter *e, ls_emitted x, int64_t index) {
  const ls_batch_dims from = ls_emit_look(e, x)->dims;
  ls_batch_dims dims = from;
  static const int64_t strides[] = {LS_EMIT_ONES, 1};
  const int64_t starts[LS_MAX_RANK + 1] = {index};
  dims.dim[0] = ls_dim_of(1);
  const ls_emitted row = ls_emit_value(e, ls_dtype_at(e, x), dims, NULL);
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, x), ls_dims_without_leading(from), NULL);
  if (!ls_emit_is_ok(e)) return 0;
  e->language->slice(e, x, starts, strides, row);
  e->language->reshape(e, row, out);
  return out;
}

ls_emitted ls_emit_lane(ls_emitter *e, ls_emitted x, int32_t lane) {
  return ls_emit_look(e, x)->stacked ? emit_part(e, x, lane) : x;
}

ls_emitted ls_emit_stack(ls_emitter *e, const ls_emitted *lanes) {
  const size_t count = (size_t)e->num_lanes;
  ls_emitted *rows = ls_emit_new_list(e, count);
  const ls_batch_dims dims = ls_emit_look(e, lanes[0])->dims;
  const ls_batch_dims row = ls_emit_lead(e, dims, 1);
  if (!ls_emit_is_ok(e)) return 0;
  for (size_t i = 0; i < count; ++i)
    rows[i] = ls_emit_reshape(e, lanes[i], row);
  const ls_emitted out = ls_emit_value(
      e, ls_dtype_at(e, lanes[0]), ls_emit_lead(e, dims, (int64_t)count), NULL);
  if (!ls_emit_is_ok(e)) return 0;
  e->language->concatenate(e, rows, count, 0, out);
  e->values[out].stacked = true;
  return out;
}

// ---- Devices ---------------------------------------------------------------
ls_emitted ls_emit_device(ls_emitter *e) {
  const ls_batch_dims scalar = {0};
  const ls_emitted out = ls_emit_value(e, LS_DTYPE_U32, scalar, NULL);
  if (ls_emit_is_ok(e)) e->language->flow->device(e, out);
  return out;
}

// Emits [D, dims...]: the values of all devices.
static ls_emitted gather_devices(ls_emitter *e, ls_emitted x) {
  const ls_batch_dims dims = ls_emit_look(e, x)->dims;
  const ls_emitted row = ls_emit_reshape(e, x, ls_emit_lead(e, dims, 1));
  const ls_emitted out = ls_emit_value(
      e, ls_dtype_at(e, x), ls_emit_lead(e, dims, e->num_devices), NULL);
  if (ls_emit_is_ok(e)) e->language->flow->all_gather(e, row, out);
  return out;
}

ls_emitted ls_emit_everywhere(ls_emitter *e, ls_emitted x) {
  const int32_t owner = ls_emit_look(e, x)->owner;
  return emit_part(e, gather_devices(e, x), owner - 1);
}

ls_emitted ls_emit_pick(ls_emitter *e, const ls_emitted *items) {
  const size_t count = (size_t)e->num_devices;
  const ls_batch_dims dims = ls_batch_dims_at(e, items[0]);
  ls_emitted *rows = ls_emit_new_list(e, count);
  if (!ls_emit_is_ok(e)) return 0;
  for (size_t i = 0; i < count; ++i)
    rows[i] = ls_emit_reshape(e, items[i], ls_emit_lead(e, dims, 1));
  const ls_emitted at = ls_emit_convert(e, ls_emit_device(e), LS_DTYPE_I32);
  return ls_emit_gather(e, ls_emit_concatenate(e, rows, count, 0), at, 0);
}

// Emits the lane's number, or those of all lanes, stacked.
static ls_emitted lane_number(ls_emitter *e) {
  const ls_batch_dims lanes = {.rank = 1, .dim = {ls_dim_of(e->num_lanes)}};
  if (e->frame->lanes == NULL || e->lane >= 0)
    return ls_emit_scalar(e, LS_DTYPE_U64, e->lane < 0 ? 0 : e->lane);
  const ls_emitted all = ls_emit_iota(e, LS_DTYPE_U64, lanes, 0);
  e->values[all].stacked = ls_emit_is_ok(e);
  return all;
}

ls_emitted ls_emit_replica(ls_emitter *e) {
  if (e->num_replicas == 0 || !e->varies) return e->replica;
  const ls_emitted lane = lane_number(e);
  if (e->num_devices == 1) return lane;
  const ls_emitted device = ls_emit_convert(e, ls_emit_device(e), LS_DTYPE_U64);
  const ls_emitted first = ls_emit_2(
      e, LS_OP_MUL, device, ls_emit_scalar(e, LS_DTYPE_U64, e->num_lanes));
  return ls_emit_2(e, LS_OP_ADD, first, lane);
}

// ---- Merges ----------------------------------------------------------------
// Lists the parts of [count, dims...].
static ls_emitted *list_parts(ls_emitter *e, ls_emitted x, int32_t count) {
  ls_emitted *parts = ls_emit_new_list(e, (size_t)count);
  for (int32_t i = 0; parts != NULL && i < count; ++i)
    parts[i] = emit_part(e, x, i);
  return parts;
}

// Lists a value of each lane; a value that all have is listed for each.
static ls_emitted *list_lanes(ls_emitter *e, uint64_t ref) {
  ls_emitted *lanes = ls_emit_new_list(e, (size_t)e->num_lanes);
  for (int32_t i = 0; lanes != NULL && i < e->num_lanes; ++i) {
    e->lane = e->frame->lanes != NULL ? i : -1;
    lanes[i] = ls_emit_of(e, ref);
  }
  e->lane = -1;
  return lanes;
}

// Lists a value of each lane, rounded: a product in it is not computed together
// with the sum.
static const ls_emitted *list_settled(ls_emitter *e, uint64_t ref) {
  ls_emitted *lanes = list_lanes(e, ref);
  for (int32_t i = 0; ls_emit_is_ok(e) && i < e->num_lanes; ++i) {
    const ls_emitted_value from = *ls_emit_look(e, lanes[i]);
    const ls_emitted out = ls_emit_value(e, from.dtype, from.dims, NULL);
    if (out != 0) e->language->flow->settle(e, lanes[i], out);
    lanes[i] = out;
  }
  return lanes;
}

// Reduces over all replicas along the canonical tree. The lanes of a device are
// a subtree if their number is a power of two.
static ls_emitted reduce_exactly(ls_emitter *e, uint16_t op, uint64_t ref) {
  const ls_emitted *lanes = list_settled(e, ref);
  const int32_t count = e->num_lanes, devices = e->num_devices;
  const bool is_subtree = (count & (count - 1)) == 0;
  if (!ls_emit_is_ok(e)) return 0;
  if (devices == 1) return ls_emit_tree(e, op, lanes, count);
  if (is_subtree) {
    const ls_emitted sum = ls_emit_tree(e, op, lanes, count);
    const ls_emitted *parts = list_parts(e, gather_devices(e, sum), devices);
    return parts != NULL ? ls_emit_tree(e, op, parts, devices) : 0;
  }
  ls_emitted *all = ls_emit_new_list(e, (size_t)e->num_replicas);
  for (int32_t i = 0; all != NULL && i < count; ++i) {
    const ls_emitted *parts =
        list_parts(e, gather_devices(e, lanes[i]), devices);
    for (int32_t d = 0; parts != NULL && d < devices; ++d)
      all[d * count + i] = parts[d];
  }
  return all != NULL ? ls_emit_tree(e, op, all, e->num_replicas) : 0;
}

static ls_emitted reduce_devices(ls_emitter *e, uint16_t op, ls_emitted x) {
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, x), ls_emit_look(e, x)->dims, NULL);
  if (ls_emit_is_ok(e)) e->language->flow->all_reduce(e, op, x, out);
  return out;
}

// Reduces over the device's lanes, then over devices.
static ls_emitted reduce_fast(ls_emitter *e, uint16_t op, uint64_t ref) {
  ls_emitted local = 0;
  if (e->frame->lanes != NULL && ls_emit_is_stacked(e, ref)) {
    local = ls_emit_reduce_stacked(e, op, ls_emit_of(e, ref));
  } else {
    const ls_emitted *lanes = list_lanes(e, ref);
    if (ls_emit_is_ok(e)) local = ls_emit_tree(e, op, lanes, e->num_lanes);
  }
  if (e->num_devices == 1) return local;
  const ls_emitted out = reduce_devices(e, op, local);
  if (op == LS_OP_ADD || !ls_dtype_is_float(ls_dtype_at(e, local))) return out;
  return ls_emit_keep_nan(
      e, reduce_devices(e, LS_OP_MAXIMUM, ls_emit_mark_nan(e, local)), out);
}

// 16-bit floats are summed in f32 and rounded once. The mean is the sum times
// 1 / R, as in the CPU engine.
static ls_emitted all_reduce(ls_emitter *e, const ls_node *node) {
  const char *name = ls_node_attr(node, LS_ATTR_ID_REDUCE)->as.string;
  const bool is_mean = strcmp(name, "mean") == 0;
  const uint16_t op = strcmp(name, "max") == 0   ? LS_OP_MAXIMUM
                      : strcmp(name, "min") == 0 ? LS_OP_MINIMUM
                                                 : LS_OP_ADD;
  ls_emitted sum = e->exact && op == LS_OP_ADD
                       ? reduce_exactly(e, op, node->inputs[0])
                       : reduce_fast(e, op, node->inputs[0]);
  const ls_dtype dtype = ls_dtype_at(e, sum);
  if (is_mean) {
    const double part = dtype == LS_DTYPE_F64
                            ? 1.0 / e->num_replicas
                            : (double)(1.0F / (float)e->num_replicas);
    sum = ls_emit_2(e, LS_OP_MUL, sum, ls_emit_scalar(e, dtype, part));
  }
  return ls_emit_convert(e, sum, node->outputs[0].dtype);
}

static ls_emitted all_gather(ls_emitter *e, const ls_node *node) {
  const ls_emitted *lanes = list_lanes(e, node->inputs[0]);
  if (!ls_emit_is_ok(e)) return 0;
  const ls_emitted local =
      ls_emit_concatenate(e, lanes, (size_t)e->num_lanes, 0);
  if (e->num_devices == 1) return local;
  const ls_emitted out =
      ls_emit_value(e, ls_dtype_at(e, local), ls_result_dims(e), NULL);
  if (ls_emit_is_ok(e)) e->language->flow->all_gather(e, local, out);
  return out;
}

static void emit_merge(ls_emitter *e, const ls_node *node) {
  if (e->num_replicas == 0)
    ls_emit_refuse(e, "it is outside of replicas");
  else if (e->lane >= 0)
    ls_emit_refuse(e, "it is in a loop or branch that each replica runs apart");
  else
    ls_compose_give(e, node->type == LS_OP_ALL_REDUCE ? all_reduce(e, node)
                                                      : all_gather(e, node));
}

// ---- Replicate -------------------------------------------------------------
// Returns the value of a lane of one split argument: refs of all replicas.
static ls_emitted split_of(ls_emitter *e, const uint64_t *refs, int32_t lanes,
                           int32_t lane) {
  bool is_own = true;
  ls_emitted *items = ls_emit_new_list(e, (size_t)e->num_devices);
  for (int32_t d = 0; items != NULL && d < e->num_devices; ++d) {
    items[d] = ls_emit_owned_of(e, refs[d * lanes + lane]);
    is_own &=
        ls_emit_look(e, items[d])->owner == d + 1 &&
        ls_emit_look(e, items[d])->origin == ls_emit_look(e, items[0])->origin;
  }
  if (items == NULL || !ls_emit_is_ok(e)) return 0;
  // All devices emit one value for their own replicas.
  if (is_own) return ls_emit_owned(e, items[0], -1);
  for (int32_t d = 0; d < e->num_devices; ++d)
    items[d] = ls_emit_of(e, refs[d * lanes + lane]);
  return ls_emit_pick(e, items);
}

// Numbers of a replicate op.
typedef struct replicated {
  const ls_node *node;
  ls_graph *region;
  int32_t replicas, lanes;
  int32_t devices;  // Sharing the replicas; 1: each computes all of them.
  size_t split, wide_split, gathered, wide_gathered;
} replicated;

static bool read_replicated(ls_emitter *e, replicated *out) {
  const ls_node *node = e->node;
  *out = (replicated){
      .node = node,
      .region = node->regions[0],
      .replicas = (int32_t)ls_node_int(node, LS_ATTR_ID_REPLICAS),
      .split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_SPLIT),
      .wide_split = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_WIDE_SPLIT),
      .gathered = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_GATHERED),
      .wide_gathered = (size_t)ls_node_int(node, LS_ATTR_ID_NUM_WIDE_GATHERED)};
  out->devices = out->replicas % e->num_devices == 0 ? e->num_devices : 1;
  out->lanes = out->replicas / out->devices;
  if (node->num_regions != 1)
    ls_emit_refuse(e, "its replicas have values of different shapes");
  else if (e->num_replicas != 0 || e->language->flow == NULL)
    ls_emit_refuse(e, "there are no replicas here");
  return ls_emit_is_ok(e);
}

// Fills arguments: `lanes` values of each split argument, the wide ones, and
// the captures.
static void fill_arguments(ls_emitter *e, const replicated *r,
                           ls_emitted *arguments) {
  const uint64_t *refs = r->node->inputs;
  const size_t others = r->wide_split + r->region->num_captures;
  for (size_t s = 0; s < r->split; ++s, refs += r->replicas)
    for (int32_t i = 0; i < r->lanes; ++i)
      *arguments++ = r->devices == 1 ? ls_emit_of(e, refs[i])
                                     : split_of(e, refs, r->lanes, i);
  for (size_t i = 0; i < others; ++i)
    *arguments++ = i < r->wide_split ? ls_emit_owned_of(e, *refs++)
                                     : ls_emit_of(e, *refs++);
}

static void bind_arguments(ls_emitter *e, const replicated *r,
                           const ls_emitted *arguments) {
  const uint64_t *parameters = r->region->parameters;
  for (size_t s = 0; s < r->split; ++s, ++parameters)
    for (int32_t i = 0; i < r->lanes; ++i) {
      e->lane = r->lanes > 1 ? i : -1;
      ls_emit_bind(e, *parameters, *arguments++);
    }
  e->lane = -1;
  for (size_t i = r->split; i < r->region->num_parameters; ++i)
    ls_emit_bind(e, *parameters++, *arguments++);
}

ls_emitted ls_emit_owned(ls_emitter *e, ls_emitted x, int32_t device) {
  if (e->num_devices == 1) return x;
  const ls_emitted_value from = *ls_emit_look(e, x);
  const ls_emitted out = ls_emit_value(e, from.dtype, from.dims, NULL);
  if (out != 0) e->values[out] = from;
  if (out != 0) e->values[out].owner = device + 1;
  return out;
}

// Returns a value of all replicas, stacked if a device has several.
static ls_emitted wide_result(ls_emitter *e, uint64_t ref) {
  const ls_emitted value = ls_emit_of(e, ref);
  if (e->frame->lanes == NULL || ls_emit_look(e, value)->stacked) return value;
  const ls_emitted *lanes = list_lanes(e, ref);
  return ls_emit_is_ok(e) ? ls_emit_stack(e, lanes) : 0;
}

// Lists the op's results, in their order.
static ls_emitted *list_results(ls_emitter *e, const replicated *r) {
  const uint64_t *refs = r->region->results;
  ls_emitted *results = ls_emit_new_list(e, r->node->num_outputs + 1);
  if (!ls_emit_is_ok(e)) return NULL;
  ls_emitted *out = results;
  for (size_t i = 0; i < r->gathered; ++i, ++refs) {
    const ls_emitted *lanes = list_lanes(e, *refs);
    for (int32_t k = 0; lanes != NULL && k < r->replicas; ++k)
      *out++ = ls_emit_owned(e, lanes[k % r->lanes], k / r->lanes);
  }
  for (size_t i = r->gathered; i < r->region->num_results; ++i, ++refs)
    *out++ = i < r->gathered + r->wide_gathered ? wide_result(e, *refs)
                                                : ls_emit_of(e, *refs);
  return results;
}

static void emit_replicate(ls_emitter *e) {
  replicated r;
  ls_emit_frame frame;
  if (!read_replicated(e, &r)) return;
  ls_emitted *arguments = ls_emit_new_list(e, r.split * (size_t)r.lanes +
                                                  r.region->num_parameters + 1);
  if (arguments == NULL) return;
  fill_arguments(e, &r, arguments);
  const int32_t devices = e->num_devices;
  e->num_devices = r.devices;
  e->num_replicas = r.replicas;
  e->num_lanes = r.lanes;
  ls_emit_enter(e, r.region, r.lanes, &frame);
  if (ls_emit_is_ok(e)) bind_arguments(e, &r, arguments);
  ls_emit_graph(e);
  e->node = r.node;
  const ls_emitted *results = list_results(e, &r);
  ls_emit_leave(e);
  e->num_devices = devices;
  e->num_replicas = e->num_lanes = 0;
  for (uint32_t i = 0; results != NULL && i < r.node->num_outputs; ++i)
    ls_emit_bind(e, ls_ref(r.node->id, i), results[i]);
}

bool ls_emit_replica_op(ls_emitter *e) {
  switch (e->node->type) {
  case LS_OP_REPLICATE:
    emit_replicate(e);
    return true;
  case LS_OP_ALL_REDUCE:
  case LS_OP_ALL_GATHER:
    emit_merge(e, e->node);
    return true;
  case LS_OP_REPLICA_ID:
    if (e->num_replicas == 0 && e->replica == 0)
      ls_emit_refuse(e, "it is outside of replicas");
    else
      ls_compose_give(e, ls_emit_convert(e, ls_emit_replica(e), LS_DTYPE_I32));
    return true;
  default:
    return false;
  }
}
