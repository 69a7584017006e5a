// SPDX-License-Identifier: Apache-2.0
//
// What each replica gets next: parts of a batch, rows of its host, or an
// element.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "data/composite.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "distribute/input/sizes.h"
#include "lockstep/trunk.h"

static ls_nest *fill_part_of(ls_distributed_iterator *it, size_t leaf,
                             size_t replica) {
  return &it->parts[leaf * it->data->num_replicas + replica];
}

bool ls_input_has(const ls_distributed_iterator *it, size_t replica) {
  return it->parts[replica].kind != LS_KIND_NONE;
}

// ---- Leaves -----------------------------------------------------------------
ls_status ls_input_leaves(const ls_distributed_iterator *it, ls_nest element,
                          ls_nest **out_leaves) {
  const size_t count = it->data->num_leaves;
  *out_leaves = NULL;
  if (ls_nest_num_leaves(element) != count)
    return ls_internal("iterator '%s' got an element of %zu leaves, not %zu",
                       it->name, ls_nest_num_leaves(element), count);
  *out_leaves = ls_new_array(it->allocator, ls_nest, count + 1);
  if (*out_leaves == NULL) return ls_out_of_memory();
  ls_nest_flatten(element, *out_leaves, count);
  return ls_ok();
}

// The shape of a leaf that has rows, or may have.
static bool find_shape(ls_nest leaf, ls_shape *out_shape) {
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_composite *composite = ls_nest_as_composite(leaf);
  if (array != NULL) *out_shape = ls_array_shape(array);
  if (composite != NULL) *out_shape = composite->spec.type.shape;
  return array != NULL || composite != NULL;
}

ls_status ls_input_rows_in(const ls_distributed_iterator *it,
                           const ls_nest *leaves, int64_t *out_rows) {
  char path[200];
  const ls_nest structure = it->data->structure;
  for (size_t l = 0; l < it->data->num_leaves; ++l) {
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

ls_status ls_input_take_part(ls_nest leaf, int64_t first, int64_t rows,
                             ls_nest *out_part) {
  const ls_composite *composite = ls_nest_as_composite(leaf);
  return composite != NULL
             ? ls_composite_rows(composite, first, rows, out_part)
             : ls_array_rows(ls_nest_as_array(leaf), first, rows, out_part);
}

// ---- Parts of a batch -------------------------------------------------------
// The first row of each replica's part, and of what is behind them all.
static void find_places(const ls_distributed_dataset *data, int64_t rows,
                        int64_t *first) {
  int64_t at = 0;
  for (size_t p = 0; p < data->num_replicas; ++p) {
    first[p] = at;
    at += ls_input_rows_of(data, rows, p);
  }
  first[data->num_replicas] = at;
}

static ls_status fill_cut(ls_distributed_iterator *it, const ls_nest *leaves,
                          const int64_t *first, int64_t before) {
  const ls_distributed_dataset *data = it->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = data->first_own; r < data->end_own; ++r) {
      const size_t p = ls_input_part_of(data, r);
      LS_RETURN_IF_ERROR(ls_input_take_part(leaves[l], first[p] - before,
                                            first[p + 1] - first[p],
                                            fill_part_of(it, l, r)));
    }
  return ls_ok();
}

// What other ranks have: its shape is known from the rows of the whole batch.
static ls_status stand_in(ls_distributed_iterator *it, const ls_nest *leaves,
                          const int64_t *first) {
  const ls_distributed_dataset *data = it->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = 0; r < data->num_replicas; ++r) {
      const ls_array *array = ls_nest_as_array(leaves[l]);
      if (ls_input_is_own(data, r)) continue;
      ls_shape shape = ls_array_shape(array);
      shape.dim[0] = first[r + 1] - first[r];
      LS_RETURN_IF_ERROR(ls_input_absent(it, l, ls_array_dtype(array), shape,
                                         fill_part_of(it, l, r)));
    }
  return ls_ok();
}

static ls_status fill_split(ls_distributed_iterator *it, ls_nest whole) {
  const ls_distributed_dataset *data = it->data;
  const bool part = data->is_part;
  LS_OWN_MEMORY(it->allocator, ls_nest, leaves) = NULL;
  int64_t rows = 0;
  LS_RETURN_IF_ERROR(
      ls_input_leaves(it, part ? ls_nest_item(whole, 0) : whole, &leaves));
  LS_OWN_ARRAY_OR_RETURN(it->allocator, int64_t, first, data->num_replicas + 1);
  LS_RETURN_IF_ERROR(ls_input_rows_in(it, leaves, &rows));
  if (part) rows = ls_array_i64(ls_nest_as_array(ls_nest_item(whole, 1)), 0);
  find_places(data, rows, first);
  LS_RETURN_IF_ERROR(fill_cut(it, leaves, first, first[data->first_own]));
  if (part) LS_RETURN_IF_ERROR(stand_in(it, leaves, first));
  return ls_ok();
}

// Batches are read in turns into two nests: who has the one before has views of
// it, which go with the element that the caller gives back.
static ls_status fill_parts(ls_distributed_iterator *it) {
  ls_nest *whole = &it->wholes[it->turn];
  LS_RETURN_IF_ERROR(ls_iterator_next(it->sources[0], whole));
  it->turn ^= 1;
  return fill_split(it, *whole);
}

// ---- Elements ---------------------------------------------------------------
static ls_status next_of(ls_distributed_iterator *it, size_t pipeline,
                         ls_nest *element) {
  ls_input_callable *callable = it->data->pipelines[pipeline].callable;
  return callable != NULL ? ls_input_callable_next(callable, element)
                          : ls_iterator_next(it->sources[pipeline], element);
}

static ls_status fill_one(ls_distributed_iterator *it, size_t replica) {
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN_MEMORY(it->allocator, ls_nest, leaves) = NULL;
  const size_t pipeline = ls_input_pipeline_of(it->data, replica);
  // An element that fails may have taken memory.
  LS_RETURN_IF_ERROR(next_of(it, pipeline, &element));
  LS_RETURN_IF_ERROR(ls_input_leaves(it, element, &leaves));
  for (size_t l = 0; l < it->data->num_leaves; ++l)
    *fill_part_of(it, l, replica) = ls_nest_retain(leaves[l]);
  return ls_ok();
}

// The end of data is no failure here: the replica has nothing. A failure is
// that of the whole step, of which the other replicas have read theirs, too, so
// that what is behind it begins with a step.
static ls_status fill_own(ls_distributed_iterator *it) {
  const ls_distributed_dataset *data = it->data;
  ls_status all = ls_ok();
  for (size_t r = data->first_own; r < data->end_own; ++r) {
    const ls_status status =
        data->cut == LS_INPUT_RECUT
            ? ls_input_take_rows(it, ls_input_pipeline_of(data, r), r)
            : fill_one(it, r);
    if (ls_status_code(status) == LS_OUT_OF_RANGE)
      ls_status_free(status);
    else
      all = ls_status_join(all, status);
  }
  return all;
}

// ---- Replicas without data --------------------------------------------------
static ls_status fill_empty(ls_distributed_iterator *it, size_t replica) {
  const ls_distributed_dataset *data = it->data;
  for (size_t l = 0; l < data->num_leaves; ++l) {
    const ls_type type = ls_input_empty_type(data, l);
    ls_leaf_spec spec = data->leaves[l];
    ls_nest *part = fill_part_of(it, l, replica);
    spec.type = ls_input_value_type(data, l);
    LS_RETURN_IF_ERROR(
        spec.kind == LS_LEAF_DENSE
            ? ls_take_nest(ls_nest_zeros(type.dtype, type.shape), part)
            : ls_composite_empty(&spec, part));
  }
  return ls_ok();
}

// Values of a group that is not complete are dropped, and counted.
static void say_dropped(const ls_distributed_iterator *it, size_t count) {
  char key[160];
  if (count == 0 || !it->data->drops_group) return;
  snprintf(key, sizeof(key), "dropped group %p %lld", (const void *)it,
           (long long)it->epoch);
  ls_log_limited(it->data->runtime, key, 1, LS_LOG_INFO, "distribute",
                 "iterator '%s': the last %zu elements are not enough for all "
                 "%zu replicas of %s and are left out",
                 it->name, count, it->data->num_replicas,
                 it->data->strategy->label);
}

// All ranks know how many there are, and what they are.
static ls_status fill_turns(ls_distributed_iterator *it) {
  const ls_distributed_dataset *data = it->data;
  const int64_t replicas = (int64_t)data->num_replicas;
  const int64_t left = data->elements - it->given * replicas;
  if (data->elements >= 0 && left < replicas) {
    say_dropped(it, (size_t)left);
    return ls_out_of_range("no more data");
  }
  LS_RETURN_IF_ERROR(fill_own(it));
  for (size_t r = 0; r < data->num_replicas; ++r)
    for (size_t l = 0; l < data->num_leaves && !ls_input_is_own(data, r); ++l)
      LS_RETURN_IF_ERROR(ls_input_absent(it, l, data->leaves[l].type.dtype,
                                         data->leaves[l].type.shape,
                                         fill_part_of(it, l, r)));
  return ls_ok();
}

// Other ranks read rows of their own of the step, which fails here alone: all
// are told, or they would go on without this one.
static ls_status fill_apart(ls_distributed_iterator *it) {
  const ls_status status = it->data->is_turns ? fill_turns(it) : fill_parts(it);
  ls_trunk *trunk = ls_runtime_trunk(it->data->runtime);
  if (ls_status_is_ok(status) || ls_status_code(status) == LS_OUT_OF_RANGE ||
      trunk == NULL)
    return status;
  trunk->cancel(trunk, status);
  return status;
}

ls_status ls_input_fill(ls_distributed_iterator *it) {
  const ls_distributed_dataset *data = it->data;
  if (data->is_turns || data->is_part) return fill_apart(it);
  if (data->cut == LS_INPUT_SPLIT) return fill_parts(it);
  ls_status status = fill_own(it);
  if (data->end_own - data->first_own < data->num_replicas)
    status = ls_input_meet(it, status);
  LS_RETURN_IF_ERROR(status);
  size_t count = 0;
  for (size_t r = 0; r < data->num_replicas; ++r)
    count += ls_input_has(it, r);
  if (count == data->num_replicas) return ls_ok();
  if (count == 0 || !it->is_partial) {
    say_dropped(it, count);
    return ls_out_of_range("no more data");
  }
  for (size_t r = 0; r < data->num_replicas; ++r)
    if (!ls_input_has(it, r)) LS_RETURN_IF_ERROR(fill_empty(it, r));
  return ls_ok();
}
