// SPDX-License-Identifier: Apache-2.0
#include "runtime/results.h"

#include "base/runtime_internal.h"

static size_t slots_of(ls_nest leaf) {
  if (leaf.kind == LS_KIND_TENSOR) return 1;
  return leaf.kind == LS_KIND_DISTRIBUTED ? ls_distributed_count(leaf) : 0;
}

// ---- In place --------------------------------------------------------------
static bool holds(ls_nest leaf, ls_type type) {
  const ls_array *array = ls_nest_as_array(leaf);
  return array != NULL && ls_array_is_unique(array) &&
         ls_array_dtype(array) == type.dtype &&
         ls_shape_equal(ls_array_shape(array), type.shape);
}

static bool leaf_fits(ls_nest wanted, ls_nest have, const ls_type *types) {
  if (wanted.kind == LS_KIND_TENSOR) return holds(have, types[0]);
  if (wanted.kind != LS_KIND_DISTRIBUTED) return ls_nest_is_same(wanted, have);
  const size_t count = ls_distributed_count(wanted);
  if (ls_distributed_count(have) != count) return false;
  for (size_t i = 0; i < count; ++i)
    if (!holds(ls_distributed_component(have, i), types[i])) return false;
  return true;
}

static bool fits(ls_nest structure, const ls_type *types, ls_nest *leaves,
                 ls_nest results) {
  if (results.kind == LS_KIND_NONE && structure.kind != LS_KIND_NONE)
    return false;
  const ls_status same = ls_nest_same_structure(structure, results);
  if (!ls_status_is_ok(same)) {
    ls_status_free(same);
    return false;
  }
  const size_t count = ls_nest_num_leaves(structure);
  ls_nest_flatten(structure, leaves, count);
  ls_nest_flatten(results, leaves + count, count);
  for (size_t i = 0, slot = 0; i < count; ++i) {
    if (!leaf_fits(leaves[i], leaves[count + i], types + slot)) return false;
    slot += slots_of(leaves[i]);
  }
  return true;
}

// ---- Anew ------------------------------------------------------------------
typedef struct making {
  const ls_type *types;
  size_t slot;
} making;

static ls_nest make_array(making *m) {
  const ls_type type = m->types[m->slot++];
  ls_array *array = NULL;
  const ls_status status = ls_array_create(type.dtype, type.shape, &array);
  return ls_status_is_ok(status) ? ls_nest_array(array) : ls_fail(status);
}

static ls_nest make_leaf(ls_nest leaf, void *user) {
  making *m = user;
  if (leaf.kind == LS_KIND_TENSOR) return make_array(m);
  if (leaf.kind == LS_KIND_OP) return ls_none();
  if (leaf.kind != LS_KIND_DISTRIBUTED) return ls_nest_retain(leaf);
  const size_t count = ls_distributed_count(leaf);
  // Freshly made; the structure's components serve as room of the right size.
  ls_nest *items = ls_new_array(ls_current_allocator(), ls_nest, count);
  if (items == NULL) return ls_fail(ls_out_of_memory());
  for (size_t i = 0; i < count; ++i) items[i] = make_array(m);
  const ls_nest made =
      ls_nest_distributed(ls_distributed_kind_of(leaf), items, count);
  ls_release(ls_current_allocator(), items);
  return made;
}

static void point(ls_nest structure, ls_nest *leaves, ls_nest results,
                  void **outputs) {
  const size_t count = ls_nest_num_leaves(structure);
  ls_nest_flatten(structure, leaves, count);
  ls_nest_flatten(results, leaves + count, count);
  for (size_t i = 0, slot = 0; i < count; ++i) {
    const ls_nest have = leaves[count + i];
    if (leaves[i].kind == LS_KIND_TENSOR)
      outputs[slot++] = ls_array_mutable_data(ls_nest_as_array(have));
    for (size_t c = 0;
         leaves[i].kind == LS_KIND_DISTRIBUTED && c < slots_of(leaves[i]); ++c)
      outputs[slot++] = ls_array_mutable_data(
          ls_nest_as_array(ls_distributed_component(have, c)));
  }
}

ls_status ls_results_open(ls_nest structure, const ls_type *types,
                          ls_nest *leaves, ls_nest *results, void **outputs,
                          ls_former_results *out_former) {
  *out_former = (ls_former_results){0};
  if (!fits(structure, types, leaves, *results)) {
    making m = {.types = types};
    const ls_nest made = ls_nest_map(structure, make_leaf, &m);
    if (ls_nest_is_failed(made)) {
      const ls_status status = ls_nest_status(made);
      ls_nest_release(made);
      return status;
    }
    *out_former = (ls_former_results){.nest = *results, .replaced = true};
    *results = made;
  }
  point(structure, leaves, *results, outputs);
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
