// SPDX-License-Identifier: Apache-2.0
#include "base/values/nest_internal.h"
#include "runtime/signature.h"

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"

// ---- Outputs of values -----------------------------------------------------
ls_status ls_result_map_init(ls_result_map *map, ls_allocator *allocator,
                             size_t num_values) {
  map->num_values = num_values;
  map->outputs = ls_new_array(allocator, uint32_t, num_values + 1);
  return ls_memory_status(map->outputs != NULL);
}

void ls_result_map_deinit(ls_result_map *map, ls_allocator *allocator) {
  ls_release(allocator, map->outputs);
  ls_release(allocator, map->types);
  ls_release(allocator, map->uses);
  *map = (ls_result_map){0};
}

ls_status ls_result_map_finish(ls_result_map *map, ls_allocator *allocator,
                               ls_compiled *const *compiled, size_t count) {
  map->num_outputs = 0;
  for (size_t k = 0; k < count; ++k)
    map->num_outputs += ls_compiled_program(compiled[k])->num_outputs;
  map->types = ls_new_array(allocator, ls_type, map->num_outputs + 1);
  map->uses = ls_new_array(allocator, int, map->num_outputs + 1);
  if (map->types == NULL || map->uses == NULL) return ls_out_of_memory();
  size_t at = 0;
  for (size_t k = 0; k < count; ++k)
    for (size_t i = 0; i < ls_compiled_program(compiled[k])->num_outputs; ++i) {
      map->types[at] = ls_compiled_output(compiled[k], i);
      map->lends |= ls_dtype_owns_elements(map->types[at++].dtype);
    }
  for (size_t i = 0; i < map->num_values; ++i)
    ++map->uses[map->outputs[i]];
  map->is_late = count == 1 && ls_compiled_is_late(compiled[0]);
  return ls_ok();
}

// ---- In place --------------------------------------------------------------
// State of a walk over a structure's values. An output's array is in `arrays`
// once its first value is found or made.
typedef struct walk {
  const ls_result_map *map;
  ls_result_inputs inputs;
  void **arrays;
  size_t next;  // Index of the next value.
} walk;

// Returns true if the run reads memory of the array: it is the caller's whole
// argument, or has a common part with a feed.
static bool is_input(const walk *w, ls_array *array) {
  const uintptr_t begin = (uintptr_t)ls_array_place(array);
  const size_t size = ls_array_size(array);
  if (array == w->inputs.lent) return true;
  for (size_t i = 0; i < w->inputs.num_feeds; ++i) {
    const uintptr_t feed = (uintptr_t)w->inputs.feeds[i];
    if (feed - begin < size) return true;
    const ls_type type = w->inputs.types[i];
    if (feed < begin && begin - feed < ls_type_bytes(type)) return size > 0;
  }
  return false;
}

// Takes a leaf as its output's array; returns false if the array cannot be
// overwritten.
static bool takes_leaf(walk *w, ls_nest leaf) {
  ls_array *array = ls_nest_as_array(leaf);
  const uint32_t output = w->map->outputs[w->next++];
  const ls_type type = w->map->types[output];
  if (w->arrays[output] != NULL) return w->arrays[output] == array;
  w->arrays[output] = array;
  // Elements that the array owns cannot be overwritten.
  if (ls_dtype_owns_elements(type.dtype)) return false;
  return ls_object_is_held(array, w->map->uses[output]) &&
         ls_array_dtype(array) == type.dtype &&
         ls_shape_equal(ls_array_shape(array), type.shape) &&
         !is_input(w, array);
}

static bool leaf_fits(walk *w, ls_nest wanted, ls_nest have) {
  if (wanted.kind == LS_KIND_TENSOR) return takes_leaf(w, have);
  if (wanted.kind == LS_KIND_OP) return have.kind == LS_KIND_NONE;
  if (wanted.kind != LS_KIND_DISTRIBUTED) return ls_nest_is_same(wanted, have);
  if (!ls_distributed_is_alike(wanted, have)) return false;
  for (size_t i = 0; i < ls_distributed_count(wanted); ++i)
    if (!leaf_fits(w, ls_distributed_component(wanted, i),
                   ls_distributed_component(have, i)))
      return false;
  return true;
}

// Returns true if nobody else holds the nest, which is not lent to the call.
// Holding a nest holds its arrays, whose own counts do not show it.
static bool is_held_once(ls_nest nest, const void *lent) {
  if (!ls_nest_is_node(nest) && nest.kind != LS_KIND_DISTRIBUTED) return true;
  if (nest.as.ref == lent || !ls_object_is_unique(nest.as.ref)) return false;
  for (size_t i = 0; i < ls_nest_count(nest); ++i)
    if (!is_held_once(ls_nest_item(nest, i), lent)) return false;
  for (size_t i = 0; i < ls_distributed_count(nest); ++i)
    if (!is_held_once(ls_distributed_component(nest, i), lent)) return false;
  return true;
}

static bool can_be_refilled(walk *w, ls_nest structure, ls_nest *leaves,
                            ls_nest results) {
  if (results.kind == LS_KIND_NONE && structure.kind != LS_KIND_NONE)
    return false;
  if (!is_held_once(results, w->inputs.lent)) return false;
  const ls_status same = ls_nest_same_structure(structure, results);
  if (!ls_status_is_ok(same)) {
    ls_status_free(same);
    return false;
  }
  const size_t count = ls_nest_num_leaves(structure);
  ls_nest_flatten(structure, leaves, count);
  ls_nest_flatten(results, leaves + count, count);
  for (size_t i = 0; i < count; ++i)
    if (!leaf_fits(w, leaves[i], leaves[count + i])) return false;
  return true;
}

// ---- New arrays ------------------------------------------------------------
static ls_nest make_output(ls_nest value, void *user) {
  walk *w = user;
  (void)value;
  const uint32_t output = w->map->outputs[w->next++];
  const ls_type type = w->map->types[output];
  ls_array *array = w->arrays[output];
  if (array != NULL) return ls_nest_array(ls_array_retain(array));
  LS_RETURN_FAILED_IF_ERROR(
      ls_array_create_unwritten(type.dtype, type.shape, &array));
  ls_array_lend(array);
  w->arrays[output] = array;
  return ls_nest_array(array);
}

static ls_nest make_leaf(ls_nest leaf, void *user) {
  switch (leaf.kind) {
  case LS_KIND_TENSOR:
    return make_output(leaf, user);
  case LS_KIND_OP:
    return ls_none();
  case LS_KIND_DISTRIBUTED:
    return ls_distributed_map_components(leaf, make_leaf, user);
  default:
    return ls_nest_retain(leaf);
  }
}

static walk walk_begin(const ls_result_map *map, ls_result_inputs inputs,
                       void **arrays) {
  for (size_t i = 0; i < map->num_outputs; ++i)
    arrays[i] = NULL;
  return (walk){.map = map, .inputs = inputs, .arrays = arrays};
}

ls_status ls_results_open(ls_nest structure, const ls_result_map *map,
                          ls_result_inputs inputs, ls_nest *leaves,
                          ls_nest *results, void **places, ls_run_args *args,
                          ls_former_results *out_former) {
  void **arrays = places, **outputs = places + map->num_outputs;
  *out_former = (ls_former_results){0};
  walk w = walk_begin(map, inputs, arrays);
  if (!can_be_refilled(&w, structure, leaves, *results)) {
    w = walk_begin(map, inputs, arrays);
    const ls_nest made = ls_nest_map(structure, make_leaf, &w);
    if (ls_nest_is_failed(made)) {
      const ls_status status = ls_nest_status(made);
      ls_nest_release(made);
      return status;
    }
    *out_former = (ls_former_results){.nest = *results, .replaced = true};
    *results = made;
  }
  args->arrays = map->is_late || map->lends ? arrays : NULL;
  args->outputs = map->is_late ? NULL : outputs;
  for (size_t i = 0; i < map->num_outputs && !map->is_late; ++i)
    outputs[i] = arrays[i] != NULL ? ls_array_mutable_data(arrays[i]) : NULL;
  return ls_ok();
}

ls_status ls_results_close(ls_former_results former, ls_status status,
                           ls_nest *results) {
  if (!former.replaced) return status;
  const bool failed = !ls_status_is_ok(status);
  ls_nest_release(failed ? *results : former.nest);
  if (failed) *results = former.nest;
  return status;
}
