// SPDX-License-Identifier: Apache-2.0
//
// Outputs of steps as plain values, and back.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/nest_builder.h"
#include "base/values/nest_internal.h"
#include "lockstep/strategy.h"
#include "lockstep/strategy_extended.h"
#include "tpu/steps/step_context.h"

void ls_step_parts_drop(ls_step_parts *parts) {
  ls_release(parts->allocator, parts->values);
  ls_release(parts->allocator, parts->sizes);
  *parts = (ls_step_parts){0};
}

// ---- Names -----------------------------------------------------------------
// An output in the order of their names.
typedef struct named {
  const char *name;
  ls_nest output;
  bool is_reduced;
} named;

static named output_at(const ls_step_context *context, size_t i) {
  const size_t index = ls_nest_sorted_position(context->outputs, i);
  const char *name = ls_nest_key(context->outputs, index);
  return (named){name, ls_nest_item(context->outputs, index),
                 ls_nest_find(context->reductions, name).kind != LS_KIND_NONE};
}

// ---- Taking apart
// ----------------------------------------------------------------
static ls_status take_leaf(ls_step_parts *parts, const named *n, ls_nest leaf) {
  const size_t count = ls_distributed_count(leaf);
  const size_t taken = count == 0 || n->is_reduced ? 1 : count;
  if (!ls_grow(parts->allocator, &parts->sizes, &parts->sizes_capacity,
               parts->num_leaves + 1, sizeof(*parts->sizes)) ||
      !ls_grow(parts->allocator, &parts->values, &parts->values_capacity,
               parts->num_values + taken, sizeof(*parts->values)))
    return ls_out_of_memory();
  parts->sizes[parts->num_leaves++] = count == 0 || n->is_reduced ? 0 : count;
  for (size_t i = 0; i < taken; ++i) {
    const ls_nest one = count == 0 ? leaf : ls_distributed_component(leaf, i);
    ls_tensor *value = &parts->values[parts->num_values];
    if (one.kind == LS_KIND_TENSOR)
      *value = one.as.tensor;
    else
      LS_RETURN_IF_ERROR(
          ls_status_annotate(ls_distributed_as_tensor(one, value),
                             "output '%s' of a step", n->name));
    ++parts->num_values;
  }
  return ls_ok();
}

ls_status ls_step_parts_take(ls_step_parts *parts,
                             const ls_step_context *context) {
  ls_step_parts_drop(parts);
  parts->allocator = context->allocator;
  for (size_t i = 0; i < ls_nest_count(context->outputs); ++i) {
    const named n = output_at(context, i);
    const size_t leaves = ls_nest_num_leaves(n.output);
    LS_OWN_ARRAY_OR_RETURN(context->allocator, ls_nest, each, leaves);
    ls_nest_flatten(n.output, each, leaves);
    for (size_t k = 0; k < leaves; ++k)
      LS_RETURN_IF_ERROR(take_leaf(parts, &n, each[k]));
  }
  return ls_ok();
}

// ---- Putting together
// --------------------------------------------------------------
static ls_nest step_parts_give_leaf(size_t size, const ls_nest *values,
                                    ls_nest *room) {
  if (size == 0) return ls_nest_retain(values[0]);
  for (size_t i = 0; i < size; ++i)
    room[i] = ls_nest_retain(values[i]);
  return ls_nest_distributed(LS_PER_REPLICA, room, size);
}

typedef struct place {
  size_t leaf, value;
} place;

static ls_nest give_output(const ls_step_parts *parts, const ls_nest *values,
                           ls_nest output, place *at, ls_nest *room) {
  const size_t count = ls_nest_num_leaves(output);
  LS_OWN_ARRAY(parts->allocator, ls_nest, leaves, count);
  if (leaves == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) {
    const size_t size = parts->sizes[at->leaf++];
    leaves[i] = step_parts_give_leaf(size, values + at->value, room);
    at->value += size == 0 ? 1 : size;
  }
  return ls_nest_pack(output, leaves, count);
}

ls_status ls_step_parts_give(const ls_step_parts *parts, const ls_nest *values,
                             ls_step_context *context) {
  LS_OWN_ARRAY_OR_RETURN(context->allocator, ls_nest, room,
                         parts->num_values + 1);
  LS_OWN(ls_nest_builder, items) = {0};
  place at = {0};
  for (size_t i = 0; i < ls_nest_count(context->outputs); ++i) {
    const named n = output_at(context, i);
    ls_nest_builder_append_named(
        &items, n.name, give_output(parts, values, n.output, &at, room));
  }
  return ls_nest_give(ls_nest_builder_finish(&items, LS_KIND_DICT),
                      &context->outputs);
}

// ---- Of one computation ----------------------------------------------------
// Sorts values from replica by replica to leaf by leaf.
static void sort_values(const ls_step_context *context, const ls_nest *values,
                        size_t leaves, size_t replicas, ls_step_parts *parts,
                        ls_nest *sorted) {
  for (size_t i = 0; i < ls_nest_count(context->outputs); ++i) {
    const named n = output_at(context, i);
    const size_t size = n.is_reduced ? 0 : replicas;
    for (size_t k = ls_nest_num_leaves(n.output); k > 0; --k) {
      const ls_nest *value = values + parts->num_leaves;
      parts->sizes[parts->num_leaves++] = size;
      for (size_t r = 0; r < (size == 0 ? 1 : size); ++r)
        sorted[parts->num_values++] = value[r * leaves];
    }
  }
}

ls_status ls_step_context_give(ls_step_context *context, const ls_nest *values,
                               size_t count, size_t replicas) {
  ls_allocator *allocator = context->allocator;
  if (count == 0)
    return ls_nest_give(ls_nest_dict("", NULL, NULL, 0), &context->outputs);
  LS_OWN(ls_step_parts, parts) = {.allocator = allocator};
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, sorted, count);
  parts.sizes = ls_new_array(allocator, size_t, count / replicas);
  LS_RETURN_IF_NO_MEMORY(parts.sizes);
  sort_values(context, values, count / replicas, replicas, &parts, sorted);
  return ls_step_parts_give(&parts, sorted, context);
}
