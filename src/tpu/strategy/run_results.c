// SPDX-License-Identifier: Apache-2.0
//
// Results of runs of TPU strategies. The computation returns values and ops
// behind each other; slices are two or three values.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "lockstep/regroup.h"
#include "lockstep/slices.h"
#include "tpu/strategy/run.h"

typedef ls_tpu_run run;

enum { MOST_PARTS = 3 };

// ---- Inside ---------------------------------------------------------------
// How many of a top-level list are values: ops stand behind them.
static size_t run_results_count_values(ls_nest list) {
  size_t count = ls_nest_count(list);
  while (count > 0 && ls_nest_item(list, count - 1).kind == LS_KIND_OP)
    --count;
  return count;
}

static ls_status refuse_op(ls_nest leaf, size_t at) {
  return ls_invalid_argument("leaf %zu of the result is op '%s': ops stand "
                             "alone or in a list, behind all values",
                             at, ls_op_name(leaf.as.op));
}

static ls_status keep_structure(run *r, ls_nest made, ls_nest *leaves,
                                size_t count) {
  const bool is_list = made.kind == LS_KIND_LIST;
  if (made.kind == LS_KIND_OP || made.kind == LS_KIND_NONE) return ls_ok();
  bool nested = false;
  for (size_t i = 0; i < ls_nest_count(made); ++i)
    nested |= ls_nest_is_node(ls_nest_item(made, i));
  r->num_leaves = is_list && !nested ? run_results_count_values(made) : count;
  for (size_t i = 0; i < r->num_leaves; ++i)
    if (leaves[i].kind == LS_KIND_OP && (!is_list || nested))
      return refuse_op(leaves[i], i);
  if (r->num_leaves == count) {
    r->like = ls_nest_retain(made);
    return ls_ok();
  }
  LS_OWN(ls_nest_builder, values) = {0};
  for (size_t i = 0; i < r->num_leaves; ++i)
    ls_nest_builder_append(&values, ls_nest_retain(leaves[i]));
  r->like = ls_nest_builder_finish(&values, LS_KIND_LIST);
  return ls_nest_status(r->like);
}

// The values that leaf i is.
static ls_status run_results_take_apart(run *r, size_t i, ls_nest leaf,
                                        ls_nest *values, size_t *count) {
  ls_slices_parts parts;
  r->parts[i] = 1;
  if (leaf.kind != LS_KIND_SLICES) {
    values[(*count)++] = ls_nest_retain(leaf);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_slices_parts_of(leaf, &parts));
  values[(*count)++] = ls_leaf(parts.indices);
  values[(*count)++] = ls_leaf(parts.values);
  if (parts.dense_shape.ref != 0)
    values[(*count)++] = ls_leaf(parts.dense_shape);
  r->parts[i] = parts.dense_shape.ref != 0 ? 3 : 2;
  return ls_ok();
}

static ls_nest flatten_with(run *r, ls_nest made, ls_nest *leaves,
                            ls_nest *values, size_t count) {
  size_t num_values = 0;
  ls_nest_flatten(made, leaves, count);
  ls_status status = keep_structure(r, made, leaves, count);
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    status = run_results_take_apart(r, i, leaves[i], values, &num_values);
  const ls_nest flat = ls_nest_sequence(LS_KIND_LIST, values, num_values);
  if (ls_status_is_ok(status)) return flat;
  ls_nest_release(flat);
  return ls_fail(status);
}

ls_nest ls_tpu_run_flatten(run *r, ls_nest made) {
  if (ls_nest_is_failed(made) || made.kind == LS_KIND_NONE) return made;
  ls_allocator *allocator = r->strategy->allocator;
  const size_t count = ls_nest_num_leaves(made);
  ls_nest *leaves = ls_new_array(allocator, ls_nest, count + 1);
  ls_nest *values = ls_new_array(allocator, ls_nest, count * MOST_PARTS + 1);
  r->parts = ls_new_array(allocator, uint8_t, count + 1);
  const ls_nest flat = leaves != NULL && values != NULL && r->parts != NULL
                           ? flatten_with(r, made, leaves, values, count)
                           : ls_fail(ls_out_of_memory());
  ls_release(allocator, leaves);
  ls_release(allocator, values);
  ls_nest_release(made);
  return flat;
}

// ---- Outside --------------------------------------------------------------
// A replica's leaf whose first value is number `at`.
static ls_nest leaf_of(const run *r, ls_nest values, size_t i, size_t at) {
  if (r->parts[i] == 1) return ls_nest_retain(ls_nest_item(values, at));
  return ls_nest_slices(
      ls_nest_item(values, at + 1), ls_nest_tensor(values, at),
      r->parts[i] == MOST_PARTS ? ls_nest_tensor(values, at + 2)
                                : (ls_tensor){0});
}

// Leaf i of all replicas.
static ls_nest join_leaf(const run *r, ls_nest outputs, size_t i, size_t at,
                         ls_nest *room) {
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (ls_nest_item(ls_nest_item(outputs, 0), at).kind == LS_KIND_NONE)
    return ls_none();
  for (size_t replica = 0; replica < replicas; ++replica)
    room[replica] = leaf_of(r, ls_nest_item(outputs, replica), i, at);
  return replicas == 1 ? room[0]
                       : ls_nest_distributed(LS_PER_REPLICA, room, replicas);
}

ls_status ls_tpu_run_join(const run *r, ls_nest outputs, ls_nest *out_result) {
  ls_allocator *allocator = r->strategy->allocator;
  const size_t replicas = (size_t)r->strategy->num_replicas;
  if (r->like.kind == LS_KIND_NONE) return ls_ok();  // Nothing, or an op.
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, r->num_leaves + 1);
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, room, replicas);
  size_t at = 0;
  for (size_t i = 0; i < r->num_leaves; at += r->parts[i++])
    leaves[i] = join_leaf(r, outputs, i, at, room);
  return ls_take_nest(ls_nest_pack(r->like, leaves, r->num_leaves), out_result);
}
