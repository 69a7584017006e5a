// SPDX-License-Identifier: Apache-2.0
//
// Specs of elements, and of the values that replicas get.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "data/composite.h"
#include "data/dataset.h"
#include "distribute/input/input.h"

// ---- Names of leaves --------------------------------------------------------
static size_t add_step(ls_nest node, size_t at, char *buffer, size_t size) {
  const char *key = ls_nest_key(node, at);
  const int length = key != NULL ? snprintf(buffer, size, "['%s']", key)
                                 : snprintf(buffer, size, "[%zu]", at);
  return (size_t)length < size ? (size_t)length : size - 1;
}

const char *ls_input_leaf_path(ls_nest structure, size_t index, char *buffer,
                               size_t size) {
  size_t used = 0;
  snprintf(buffer, size, "0");
  while (ls_nest_is_node(structure)) {
    size_t at = 0;
    ls_nest item = ls_none();
    for (; at < ls_nest_count(structure); ++at) {
      item = ls_nest_item_sorted(structure, at);
      const size_t leaves = ls_nest_num_leaves(item);
      if (index < leaves) break;
      index -= leaves;
    }
    if (at == ls_nest_count(structure)) break;
    used += add_step(structure, ls_nest_sorted_position(structure, at),
                     buffer + used, size - used);
    structure = item;
  }
  return buffer;
}

static const char *kind_name(ls_leaf_kind kind) {
  return kind == LS_LEAF_SPARSE   ? "sparse"
         : kind == LS_LEAF_RAGGED ? "ragged"
                                  : "dense";
}

// ---- Checks -----------------------------------------------------------------
static ls_status input_spec_check_leaf(ls_nest specs, size_t index,
                                       ls_nest leaf, const char *label) {
  const size_t count = ls_distributed_count(leaf);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(input_spec_check_leaf(
        specs, index, ls_distributed_component(leaf, i), label));
  const ls_leaf_spec *spec = ls_nest_as_spec(leaf);
  char path[200];
  if (spec == NULL || spec->kind == LS_LEAF_DENSE) return ls_ok();
  return ls_invalid_argument(
      "leaf %s of a data set for %s is %s: only dense ones are fetched to "
      "devices; set fetch_to_device of ls_input_options to off",
      ls_input_leaf_path(specs, index, path, sizeof(path)), label,
      kind_name(spec->kind));
}

ls_status ls_input_check_dense(ls_nest specs, const char *label) {
  LS_RETURN_IF_ERROR(ls_nest_status(specs));
  const size_t count = ls_nest_num_leaves(specs);
  ls_allocator *allocator = ls_current_allocator();
  LS_OWN_ARRAY_OR_RETURN(allocator, ls_nest, leaves, count + 1);
  ls_nest_flatten(specs, leaves, count);
  for (size_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(input_spec_check_leaf(specs, i, leaves[i], label));
  return ls_ok();
}

ls_status ls_input_check_rows(const ls_element_spec *spec) {
  char path[200];
  for (size_t i = 0; i < spec->count; ++i)
    if (spec->leaves[i].type.shape.rank < 1)
      return ls_invalid_argument(
          "leaf %s of a data set has no batch dimension to split over "
          "replicas: batch it first (ls_dataset_batch)",
          ls_input_leaf_path(spec->structure, i, path, sizeof(path)));
  return ls_ok();
}

ls_status ls_input_set_spec(ls_distributed_dataset *data,
                            const ls_element_spec *spec) {
  LS_SET_ARRAY_OR_RETURN(data->allocator, ls_leaf_spec, data->leaves,
                         spec->count);
  for (size_t i = 0; i < spec->count; ++i)
    data->leaves[i] = spec->leaves[i];
  data->structure = ls_nest_retain(spec->structure);
  data->num_leaves = spec->count;
  return ls_ok();
}

// ---- Leaves -----------------------------------------------------------------
ls_status ls_input_leaves(const ls_distributed_iterator *self, ls_nest element,
                          ls_nest **out_leaves) {
  const size_t count = self->data->num_leaves;
  *out_leaves = NULL;
  if (ls_nest_num_leaves(element) != count)
    return ls_internal("iterator '%s' got an element of %zu leaves, not %zu",
                       self->name, ls_nest_num_leaves(element), count);
  LS_SET_ARRAY_OR_RETURN(self->allocator, ls_nest, *out_leaves, count + 1);
  ls_nest_flatten(element, *out_leaves, count);
  return ls_ok();
}

// Finds the shape of a leaf that may have rows.
static bool find_shape(ls_nest leaf, ls_shape *out_shape) {
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_composite *composite = ls_nest_as_composite(leaf);
  if (array != NULL) *out_shape = ls_array_shape(array);
  if (composite != NULL) *out_shape = composite->spec.type.shape;
  return array != NULL || composite != NULL;
}

ls_status ls_input_rows_in(const ls_distributed_iterator *self,
                           const ls_nest *leaves, int64_t *out_rows) {
  char path[200];
  const ls_nest structure = self->data->structure;
  for (size_t l = 0; l < self->data->num_leaves; ++l) {
    ls_shape shape = {0};
    if (!find_shape(leaves[l], &shape))
      return ls_unimplemented(
          "leaf %s of a batch is neither an array nor sparse nor ragged: it is "
          "not cut",
          ls_input_leaf_path(structure, l, path, sizeof(path)));
    if (shape.rank < 1)
      return ls_invalid_argument(
          "leaf %s of an element is a scalar, with nothing to split: batch it "
          "first (ls_dataset_batch)",
          ls_input_leaf_path(structure, l, path, sizeof(path)));
    if (l == 0) *out_rows = shape.dim[0];
    if (shape.dim[0] != *out_rows)
      return ls_invalid_argument(
          "leaf %s of a batch has %lld rows, the first leaf %lld",
          ls_input_leaf_path(structure, l, path, sizeof(path)),
          (long long)shape.dim[0], (long long)*out_rows);
  }
  return ls_ok();
}

// ---- Values -----------------------------------------------------------------
size_t ls_input_pipeline_of(const ls_distributed_dataset *data, size_t value) {
  if (data->num_pipelines == 1) return 0;
  return data->is_per_replica ? value : ls_host_map_find(&data->map, value);
}

size_t ls_input_part_of(const ls_distributed_dataset *data, size_t value) {
  const ls_host_map *map = &data->map;
  if (!data->shares.round_up || map->num_hosts < 2) return value;
  const size_t host = ls_host_map_find(map, value);
  return ls_sharded_part(map->num_hosts, host, value - map->hosts[host].first);
}

ls_type ls_input_value_type(const ls_distributed_dataset *data, size_t leaf) {
  ls_type type = data->leaves[leaf].type;
  const int64_t parts = (int64_t)data->num_replicas;
  if (data->cut == LS_INPUT_WHOLE || type.shape.rank < 1) return type;
  int64_t *rows = &type.shape.dim[0];
  *rows = *rows >= 0 && *rows % parts == 0 ? *rows / parts : LS_UNKNOWN_DIM;
  return type;
}

ls_type ls_input_empty_type(const ls_distributed_dataset *data, size_t leaf) {
  ls_type type = ls_input_value_type(data, leaf);
  if (ls_shape_is_known(type.shape) && type.shape.rank > 0)
    type.shape.dim[0] = 0;
  for (int d = 0; d < type.shape.rank; ++d)
    if (type.shape.dim[d] < 0) type.shape.dim[d] = 0;
  return type;
}

ls_type ls_input_type_of(const ls_distributed_dataset *data, size_t leaf,
                         size_t replica) {
  ls_type type = ls_input_value_type(data, leaf);
  const ls_shape whole = data->leaves[leaf].type.shape;
  if (data->cut == LS_INPUT_SPLIT && whole.rank > 0 && whole.dim[0] >= 0)
    type.shape.dim[0] = ls_shares_rows(
        &data->shares, whole.dim[0], (int64_t)ls_input_part_of(data, replica));
  return type;
}

bool ls_input_has_unknown(const ls_distributed_dataset *data) {
  for (size_t i = 0; i < data->num_leaves; ++i) {
    const ls_shape shape = ls_input_value_type(data, i).shape;
    const bool dense = data->leaves[i].kind == LS_LEAF_DENSE;
    if (dense && !ls_shape_is_known(shape)) return true;
    if (!dense && shape.rank > 0 && shape.dim[0] < 0) return true;
  }
  return false;
}
