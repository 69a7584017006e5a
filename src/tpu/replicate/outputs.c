// SPDX-License-Identifier: Apache-2.0
//
// Results of a replicated computation: collected inside it, returned outside.
#include <stdio.h>

#include "base/values/nest_internal.h"
#include "graph/make/make.h"
#include "graph/region.h"
#include "tpu/replicate/replicate.h"

// ---- Inside the computation ------------------------------------------------
// Returns true for none, a single value or op, or a flat list of them.
static bool is_flat(ls_nest made) {
  if (!ls_nest_is_node(made)) return true;
  if (made.kind == LS_KIND_DICT || ls_nest_key(made, 0) != NULL) return false;
  for (size_t i = 0; i < ls_nest_count(made); ++i)
    if (ls_nest_is_node(ls_nest_item(made, i))) return false;
  return true;
}

// Returns true if all of a replica's cores hold a part of each value.
static bool is_partitioned(const ls_replication *r) {
  const ls_device_assignment *assignment = r->options->assignment;
  return r->options->xla.spmd != LS_FLAG_OFF && assignment != NULL &&
         ls_device_assignment_num_cores_per_replica(assignment) > 1;
}

// Makes the output op of a value, on the value's own device or else on the
// replica's first core; a partitioned value gets no device. A replicated input
// that is returned unchanged still passes through the computation.
static ls_status take_tensor(const ls_replication *r, ls_tensor value,
                             ls_tensor *out_tensor) {
  const char *device = ls_op_device(ls_tensor_op(value));
  LS_DEVICE_SCOPE(NULL);
  LS_DEVICE_SCOPE(is_partitioned(r)   ? NULL
                  : device[0] != '\0' ? device
                                      : "/device:TPU_REPLICATED_CORE:0");
  *out_tensor = ls_identity(value);
  return ls_tensor_is_failed(*out_tensor) ? ls_graph_error(ls_graph_current())
                                          : ls_ok();
}

static ls_status take_leaf(const ls_replication *r, ls_outputs *out, size_t i,
                           bool flat) {
  const ls_nest leaf = out->leaves[i];
  if (leaf.kind == LS_KIND_NONE && out->num_ops == 0) return ls_ok();
  if (leaf.kind == LS_KIND_OP) {
    if (!flat)
      return ls_invalid_argument(
          "a nested result holds op '%s': only values can be in one",
          ls_op_name(leaf.as.op));
    if (ls_op_is_failed(leaf.as.op))
      return ls_invalid_argument("result %zu is a failed op", i);
    out->ops[out->num_ops++] = leaf.as.op;
    return ls_ok();
  }
  if (out->num_ops > 0)
    return ls_invalid_argument(
        "a computation returns zero or more Tensor values followed by zero or "
        "more Operations, got %s at %zu after op '%s'",
        LS_NEST_TEXT(leaf), i, ls_op_name(out->ops[out->num_ops - 1]));
  ls_tensor value;
  LS_RETURN_IF_ERROR(
      ls_status_annotate(ls_region_tensor(leaf, &value), "in result %zu", i));
  return take_tensor(r, value, &out->tensors[i]);
}

// Adds the op that waits for the ops without values. Fetching any result then
// runs all of the computation.
static ls_status add_end(ls_replication *r, ls_op *out_op) {
  const ls_op op = ls_op_add(&(ls_op_spec){.type = LS_OP_NO_OP});
  if (ls_op_is_failed(op)) return ls_graph_error(r->graph);
  ls_node *node = ls_graph_node(op.graph, op.id);
  const ls_tpu_context *context = &r->context;
  LS_ARENA_ARRAY_OR_RETURN(&r->graph->arena, uint64_t, control,
                           node->num_control + context->num_waits);
  memcpy(control, node->control, node->num_control * sizeof(*control));
  size_t count = node->num_control;
  for (size_t i = 0; i < context->num_waits; ++i) {
    const ls_op before = context->waits[i];
    if (ls_graph_resolve(before.graph) == r->graph)
      control[count++] = before.id;
    else if (!ls_graph_wait_outside(r->graph, node, &before, 1))
      return ls_out_of_memory();
  }
  node->control = control;
  node->num_control = (uint32_t)count;
  *out_op = op;
  return ls_ok();
}

ls_status ls_outputs_take(ls_replication *r, ls_nest made, ls_outputs *out) {
  LS_RETURN_IF_ERROR(ls_nest_status(made));
  const bool flat = is_flat(made);
  const bool empty = made.kind == LS_KIND_NONE;
  const size_t count = empty ? 0 : ls_nest_num_leaves(made);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_nest, out->leaves, count + 1);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_tensor, out->tensors, count + 1);
  LS_ARENA_SET_OR_RETURN(&r->memory, ls_op, out->ops, count + 2);
  out->num_leaves = count;
  ls_nest_flatten(made, out->leaves, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(take_leaf(r, out, i, flat));
  LS_RETURN_IF_ERROR(add_end(r, &out->ops[out->num_ops]));
  // Drops the ops from the results. They follow all values.
  if (flat) out->num_leaves = count - out->num_ops;
  ++out->num_ops;
  if (!flat) {
    out->like = ls_nest_retain(made);
    return ls_ok();
  }
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, ls_nest, nones, count + 1);
  out->like = ls_nest_sequence(LS_KIND_LIST, nones, out->num_leaves);
  return ls_nest_status(out->like);
}

// ---- Outside the computation -----------------------------------------------
static bool has_tensors(const ls_outputs *outputs) {
  for (size_t i = 0; i < outputs->num_leaves; ++i)
    if (outputs->tensors[i].ref != 0) return true;
  return false;
}

// Returns one output for all replicas; `results` has one item per replica.
static ls_status give_one(const ls_replication *r, const ls_outputs *outputs,
                          size_t i, ls_tensor *results) {
  char name[64];
  snprintf(name, sizeof(name), "output%zu", i);
  const ls_attr attr = LS_OWN_I(NUM_REPLICAS, (int64_t)r->replicas);
  const ls_op op = ls_make_op(LS_OP_TPU_REPLICATED_OUTPUT, name,
                              &outputs->tensors[i], 1, &attr, 1);
  LS_CONTROL_SCOPE(outputs->ops, outputs->num_ops);
  for (size_t replica = 0; replica < r->replicas; ++replica) {
    snprintf(name, sizeof(name), "output_%zu_shard_%zu", i, replica);
    LS_DEVICE_SCOPE(r->devices != NULL ? r->devices[replica] : "");
    results[replica] =
        ls_identity_named(ls_op_output(op, (unsigned)replica), name);
    if (ls_tensor_is_failed(results[replica])) return ls_graph_error(r->graph);
  }
  return ls_ok();
}

// Makes an op for each replica, for computations that return no tensor.
static ls_status give_ops(const ls_replication *r, const ls_outputs *outputs,
                          ls_nest *each) {
  for (size_t replica = 0; replica < r->replicas; ++replica) {
    char name[48];
    snprintf(name, sizeof(name), "shard_%zu", replica);
    const ls_op op = ls_group(outputs->ops, outputs->num_ops, name);
    if (ls_op_is_failed(op)) return ls_graph_error(r->graph);
    each[replica] = ls_nest_op(op);
  }
  return ls_ok();
}

static ls_status give_tensors(ls_replication *r, const ls_outputs *outputs,
                              ls_nest *each) {
  const size_t count = outputs->num_leaves;
  ls_tensor *all =
      ls_arena_new_array(&r->memory, ls_tensor, count * r->replicas + 1);
  ls_nest *leaves = ls_arena_new_array(&r->memory, ls_nest, count + 1);
  if (all == NULL || leaves == NULL) return ls_out_of_memory();
  for (size_t i = 0; i < count; ++i)
    if (outputs->tensors[i].ref != 0)
      LS_RETURN_IF_ERROR(give_one(r, outputs, i, &all[i * r->replicas]));
  for (size_t replica = 0; replica < r->replicas; ++replica) {
    for (size_t i = 0; i < count; ++i)
      leaves[i] = outputs->tensors[i].ref == 0
                      ? ls_none()
                      : ls_leaf(all[i * r->replicas + replica]);
    each[replica] = ls_nest_pack(outputs->like, leaves, count);
    LS_RETURN_IF_ERROR(ls_nest_status(each[replica]));
  }
  return ls_ok();
}

ls_status ls_outputs_give(ls_replication *r, const ls_outputs *outputs,
                          ls_nest *results) {
  LS_ARENA_ARRAY_OR_RETURN(&r->memory, ls_nest, each, r->replicas + 1);
  const ls_status status = has_tensors(outputs) ? give_tensors(r, outputs, each)
                                                : give_ops(r, outputs, each);
  if (!ls_status_is_ok(status)) {
    for (size_t replica = 0; replica < r->replicas; ++replica)
      ls_nest_release(each[replica]);
    return status;
  }
  *results = ls_nest_sequence(LS_KIND_LIST, each, r->replicas);
  return ls_nest_status(*results);
}
