// SPDX-License-Identifier: Apache-2.0
//
// Outside compilation of values that are partitioned over a replica's cores:
// makes one cluster for each part, on the host of its core.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "graph/gather/gather.h"
#include "graph/region.h"
#include "lockstep/replicate.h"
#include "tpu/pod/pod.h"
#include "tpu/replicate/replicate.h"

// How a value is partitioned, read from its annotation
// (lockstep/logical_device.h).
typedef struct tiling {
  const int64_t *parts;  // Number of parts along each dimension.
  const int64_t *cores;  // Core of each part, row-major.
  size_t rank, count;
} tiling;

typedef struct mapping {
  ls_callback fn;
  void *user;
  ls_allocator *allocator;
  // Partition of the first partitioned value; without parts: no value is
  // partitioned.
  tiling cut;
  size_t part;  // The current part.
} mapping;

// ---- Find the partition ---------------------------------------------------
static tiling tiling_of(ls_tensor x) {
  const ls_op op = ls_tensor_op(x);
  const ls_node *node = ls_graph_node(op.graph, op.id);
  const char *kind = node != NULL ? ls_node_mark(node, "sharding") : NULL;
  if (kind == NULL || strcmp(kind, "tiled") != 0) return (tiling){0};
  const ls_attr *tile = ls_node_attr_named(node, "tile");
  const ls_attr *cores = ls_node_attr_named(node, "devices");
  if (tile == NULL || tile->kind != LS_ATTR_INTS || cores == NULL ||
      cores->kind != LS_ATTR_INTS)
    return (tiling){0};
  return (tiling){.parts = tile->as.ints.items,
                  .cores = cores->as.ints.items,
                  .rank = tile->as.ints.count,
                  .count = cores->as.ints.count};
}

static bool outside_map_is_same(tiling a, tiling b) {
  return a.rank == b.rank && a.count == b.count &&
         memcmp(a.parts, b.parts, a.rank * sizeof(*a.parts)) == 0 &&
         memcmp(a.cores, b.cores, a.count * sizeof(*a.cores)) == 0;
}

static ls_status find_cut(mapping *m, ls_nest args) {
  for (size_t i = 0; i < ls_nest_count(args); ++i)
    LS_RETURN_IF_ERROR(find_cut(m, ls_nest_item(args, i)));
  if (args.kind != LS_KIND_TENSOR) return ls_ok();
  const tiling own = tiling_of(args.as.tensor);
  if (own.count < 2) return ls_ok();
  const ls_shape shape = ls_tensor_shape(args.as.tensor);
  for (size_t d = 0; d < own.rank; ++d)
    if (own.parts[d] > 1 && shape.dim[d] == LS_UNKNOWN_DIM)
      return ls_unimplemented("map_outside_compilation of '%s', which is cut "
                              "along dimension %zu of unknown size",
                              ls_tensor_name(args.as.tensor), d);
  if (m->cut.count == 0) m->cut = own;
  return outside_map_is_same(m->cut, own)
             ? ls_ok()
             : ls_invalid_argument("map_outside_compilation of values that are "
                                   "cut in different ways, as '%s' is: all are "
                                   "cut in the same way or not at all",
                                   ls_tensor_name(args.as.tensor));
}

// ---- Parts ----------------------------------------------------------------
// Returns the start of a part along a dimension, counted in parts.
static int64_t outside_map_place_of(const tiling *cut, size_t part,
                                    size_t dimension) {
  for (size_t d = cut->rank; --d > dimension;)
    part /= (size_t)cut->parts[d];
  return (int64_t)(part % (size_t)cut->parts[dimension]);
}

static ls_nest outside_map_part_of(ls_nest leaf, void *user) {
  const mapping *m = user;
  if (leaf.kind != LS_KIND_TENSOR || tiling_of(leaf.as.tensor).count < 2)
    return ls_nest_retain(leaf);
  ls_tensor x = leaf.as.tensor;
  for (size_t d = 0; d < m->cut.rank; ++d) {
    if (m->cut.parts[d] == 1) continue;
    const int64_t size = ls_tensor_shape(x).dim[d] / m->cut.parts[d];
    const int64_t first = outside_map_place_of(&m->cut, m->part, d) * size;
    x = ls_slice_axis(x, (int)d, first, first + size);
  }
  return ls_leaf(x);
}

static ls_nest call_part(mapping *m, ls_nest args) {
  char device[48];
  snprintf(device, sizeof(device), "/device:TPU_REPLICATED_CORE:%lld",
           (long long)m->cut.cores[m->part]);
  LS_DEVICE_SCOPE(device);
  LS_OWN(ls_nest, own) = ls_nest_map(args, outside_map_part_of, m);
  return ls_nest_is_failed(own)
             ? ls_nest_retain(own)
             : ls_outside_compilation_marked(m->fn, m->user, own, true);
}

// ---- Join the parts -------------------------------------------------------
// Joins each run of `count` neighbouring values along a dimension; returns the
// number of joined values.
static size_t join_along(ls_tensor *parts, size_t num, size_t count,
                         size_t dimension) {
  for (size_t i = 0; i < num; i += count)
    parts[i / count] = ls_concatenate(parts + i, count, (int)dimension);
  return num / count;
}

static ls_status outside_map_join(const mapping *m, const ls_nest *leaves,
                                  size_t at, size_t stride, ls_tensor *room,
                                  ls_nest *out) {
  const tiling *cut = &m->cut;
  size_t num = cut->count;
  for (size_t k = 0; k < num; ++k) {
    const ls_nest leaf = leaves[k * stride + at];
    if (leaf.kind != LS_KIND_TENSOR ||
        ls_tensor_shape(leaf.as.tensor).rank != (int32_t)cut->rank)
      return ls_invalid_argument(
          "map_outside_compilation: result %zu is no tensor of rank %zu, which "
          "can be put together as its arguments were cut",
          at, cut->rank);
    room[k] = leaf.as.tensor;
  }
  for (size_t d = cut->rank; d-- > 0;)
    if (cut->parts[d] > 1)
      num = join_along(room, num, (size_t)cut->parts[d], d);
  *out = ls_leaf(room[0]);
  return ls_ok();
}

static ls_status join_all(const mapping *m, const ls_nest *made, ls_nest *out) {
  const size_t count = m->cut.count;
  const size_t num_leaves = ls_nest_num_leaves(made[0]);
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_nest, leaves, num_leaves * count + 1);
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_nest, joined, num_leaves + 1);
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_tensor, room, count);
  for (size_t k = 0; k < count; ++k) {
    LS_RETURN_IF_ERROR(ls_nest_same_structure(made[0], made[k]));
    ls_nest_flatten(made[k], leaves + k * num_leaves, num_leaves);
  }
  for (size_t i = 0; i < num_leaves; ++i)
    LS_RETURN_IF_ERROR(
        outside_map_join(m, leaves, i, num_leaves, room, &joined[i]));
  *out = ls_nest_pack(made[0], joined, num_leaves);
  return ls_nest_status(*out);
}

static ls_status map_parts(mapping *m, ls_nest args, ls_nest *out) {
  LS_OWN_ARRAY_OR_RETURN(m->allocator, ls_nest, made, m->cut.count);
  ls_status status = ls_ok();
  for (; m->part < m->cut.count && ls_status_is_ok(status); ++m->part) {
    made[m->part] = call_part(m, args);
    status = ls_nest_status(made[m->part]);
  }
  if (ls_status_is_ok(status)) status = join_all(m, made, out);
  for (size_t k = 0; k < m->cut.count; ++k)
    ls_nest_release(made[k]);
  return status;
}

ls_nest ls_map_outside_compilation(ls_callback fn, void *user, ls_nest args) {
  if (fn == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT,
                   "ls_map_outside_compilation: fn is NULL");
  mapping m = {.fn = fn, .user = user, .allocator = ls_current_allocator()};
  const ls_tpu_context *context = ls_tpu_context_current();
  ls_status status = ls_ok();
  if (context != NULL && context->spmd) status = find_cut(&m, args);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  if (m.cut.count == 0)
    return ls_outside_compilation_marked(fn, user, args, true);
  LS_OWN(ls_nest, made) = ls_none();
  status = map_parts(&m, args, &made);
  return ls_status_is_ok(status) ? ls_give(&made) : ls_fail(status);
}

// ---- Outside ---------------------------------------------------------------
// Outside compilation: ops of a replicated computation that run on the host
// instead of its cores.

// Calls the function directly, where no computation is being built.
static ls_nest call_alone(ls_callback fn, void *user, ls_nest args) {
  const ls_graph *graph = ls_context_graph();
  if (graph != NULL &&
      ls_graph_whole(ls_graph_current())->kind == LS_GRAPH_FUNCTION)
    ls_tpu_log(graph->runtime, LS_LOG_WARNING,
               "outside compilation in function '%s', but no replicated "
               "computation was found around it: its ops stay where they are",
               ls_graph_whole(ls_graph_current())->name);
  return fn(args, user);
}

// Checks that the callback has closed all scopes that it opened, and left none
// entered permanently. `before` and `top` are the state and the innermost scope
// before the call.
static ls_status check_same_place(const ls_scope_state *before,
                                  const ls_open_scope *top) {
  const ls_context *context = ls_context_current();
  const ls_scope_state *after = &context->scoped;
  if (after->graph != before->graph || after->flow != before->flow)
    return ls_unimplemented("Control-flow context cannot be different at start "
                            "and end of an outside_compilation scope");
  if (context->top == top) return ls_ok();
  return ls_unimplemented(
      "the function of an outside_compilation scope has left %s open",
      context->top != NULL ? context->top->type->name : "nothing");
}

ls_nest ls_outside_compilation_marked(ls_callback fn, void *user, ls_nest args,
                                      bool maps) {
  ls_tpu_context *const replicated = ls_tpu_context_current();
  if (replicated == NULL) return call_alone(fn, user, args);
  ls_scope scope = {0};
  ls_context_open(&scope, &ls_graph_scopes.device);
  ls_status status = ls_tpu_context_enter_outside(replicated, NULL);
  ls_nest made = ls_none();
  if (ls_status_is_ok(status)) {
    const ls_context *context = ls_context_current();
    const ls_scope_state before = context->scoped;
    const ls_open_scope *top = context->top;
    replicated->maps = maps;
    made = fn(args, user);
    replicated->maps = false;
    status = ls_nest_is_failed(made) ? ls_ok() : check_same_place(&before, top);
    status = ls_status_join(status, ls_tpu_context_exit_outside(replicated));
  }
  ls_scope_end(&scope);
  if (ls_status_is_ok(status)) return made;
  ls_nest_release(made);
  return ls_fail(status);
}

ls_nest ls_outside_compilation(ls_callback fn, void *user, ls_nest args) {
  return fn != NULL ? ls_outside_compilation_marked(fn, user, args, false)
                    : LS_FAIL(LS_INVALID_ARGUMENT,
                              "ls_outside_compilation: fn is NULL");
}
