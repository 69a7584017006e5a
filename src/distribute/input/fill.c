// SPDX-License-Identifier: Apache-2.0
//
// Fills in each replica's next value: a part of a batch, rows of its host, or
// an element.
#include <stdio.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "data/composite.h"
#include "distribute/base/strategy.h"
#include "distribute/input/input.h"
#include "distribute/input/rows.h"
#include "lockstep/trunk.h"

static ls_nest *fill_part_of(ls_distributed_iterator *self, size_t leaf,
                             size_t replica) {
  return &self->parts[leaf * self->data->num_replicas + replica];
}

// ---- Parts of a batch -------------------------------------------------------
// Cuts a batch whose first row is row `begin` of the whole one.
static ls_status fill_cut(ls_distributed_iterator *self, const ls_nest *leaves,
                          int64_t rows, int64_t begin) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = data->first_own; r < data->end_own; ++r) {
      const int64_t part = (int64_t)ls_input_part_of(data, r);
      LS_RETURN_IF_ERROR(ls_rows_take(
          leaves[l], 0, ls_shares_begin(&data->shares, rows, part) - begin,
          ls_shares_rows(&data->shares, rows, part), fill_part_of(self, l, r)));
    }
  return ls_ok();
}

// Stands in for the parts of other ranks, whose shapes follow from the rows of
// the whole batch.
static ls_status fill_absent(ls_distributed_iterator *self,
                             const ls_nest *leaves, int64_t rows) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0; l < data->num_leaves; ++l)
    for (size_t r = 0; r < data->num_replicas; ++r) {
      const ls_array *array = ls_nest_as_array(leaves[l]);
      if (ls_input_is_own(data, r)) continue;
      ls_shape shape = ls_array_shape(array);
      shape.dim[0] = ls_shares_rows(&data->shares, rows, (int64_t)r);
      LS_RETURN_IF_ERROR(ls_input_absent(self, l, ls_array_dtype(array), shape,
                                         fill_part_of(self, l, r)));
    }
  return ls_ok();
}

static ls_status fill_split(ls_distributed_iterator *self, ls_nest whole) {
  const ls_distributed_dataset *data = self->data;
  const bool is_part = data->is_part;
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  int64_t rows = 0;
  LS_RETURN_IF_ERROR(
      ls_input_leaves(self, is_part ? ls_nest_item(whole, 0) : whole, &leaves));
  LS_RETURN_IF_ERROR(ls_input_rows_in(self, leaves, &rows));
  if (is_part) rows = ls_array_i64(ls_nest_as_array(ls_nest_item(whole, 1)), 0);
  LS_RETURN_IF_ERROR(
      fill_cut(self, leaves, rows,
               ls_shares_begin(&data->shares, rows, (int64_t)data->first_own)));
  return is_part ? fill_absent(self, leaves, rows) : ls_ok();
}

// Reads batches into two nests in turn: the latest element has views of the
// other one, which go with the element that the caller gives back.
static ls_status fill_parts(ls_distributed_iterator *self) {
  ls_nest *whole = &self->wholes[self->turn];
  LS_RETURN_IF_ERROR(ls_iterator_next(self->sources[0], whole));
  self->turn ^= 1;
  return fill_split(self, *whole);
}

// ---- Elements ---------------------------------------------------------------
static ls_status read_pipeline(ls_distributed_iterator *self, size_t pipeline,
                               ls_nest *element) {
  ls_input_callable *callable = self->data->pipelines[pipeline].callable;
  return callable != NULL ? ls_input_callable_next(callable, element)
                          : ls_iterator_next(self->sources[pipeline], element);
}

static ls_status fill_one(ls_distributed_iterator *self, size_t replica) {
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN_MEMORY(self->allocator, ls_nest, leaves) = NULL;
  const size_t pipeline = ls_input_pipeline_of(self->data, replica);
  // An element that fails may have taken memory.
  LS_RETURN_IF_ERROR(read_pipeline(self, pipeline, &element));
  LS_RETURN_IF_ERROR(ls_input_leaves(self, element, &leaves));
  for (size_t l = 0; l < self->data->num_leaves; ++l)
    *fill_part_of(self, l, replica) = ls_nest_retain(leaves[l]);
  return ls_ok();
}

// Reads the values of this process. The end of data is no failure here: the
// replica has none. After a failure the other replicas of the step read theirs,
// too, so that the next step begins with a step.
static ls_status fill_own(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  ls_status all = ls_ok();
  for (size_t r = data->first_own; r < data->end_own; ++r) {
    const ls_status status =
        data->cut == LS_INPUT_RECUT
            ? ls_input_take_rows(self, ls_input_pipeline_of(data, r), r)
            : fill_one(self, r);
    if (ls_status_code(status) == LS_OUT_OF_RANGE)
      ls_status_free(status);
    else
      all = ls_status_join(all, status);
  }
  return all;
}

// ---- Replicas without data --------------------------------------------------
static ls_status fill_empty(ls_distributed_iterator *self, size_t replica) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0; l < data->num_leaves; ++l) {
    const ls_type type = ls_input_empty_type(data, l);
    ls_leaf_spec spec = data->leaves[l];
    ls_nest *part = fill_part_of(self, l, replica);
    spec.type = ls_input_value_type(data, l);
    LS_RETURN_IF_ERROR(
        spec.kind == LS_LEAF_DENSE
            ? ls_take_nest(ls_nest_zeros(type.dtype, type.shape), part)
            : ls_composite_empty(&spec, part));
  }
  return ls_ok();
}

// Logs how many values of an incomplete group are dropped.
static void log_dropped(const ls_distributed_iterator *self, size_t count) {
  char key[160];
  if (count == 0 || !self->data->drops_group) return;
  snprintf(key, sizeof(key), "dropped group %p %lld", (const void *)self,
           (long long)self->epoch);
  ls_log_limited(self->data->runtime, key, 1, LS_LOG_INFO, "distribute",
                 "iterator '%s': the last %zu elements are not enough for all "
                 "%zu replicas of %s and are left out",
                 self->name, count, self->data->num_replicas,
                 self->data->strategy->label);
}

// All ranks know how many elements there are, and their types.
static ls_status fill_turns(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  const int64_t replicas = (int64_t)data->num_replicas;
  const int64_t left = data->elements - self->given * replicas;
  if (data->elements >= 0 && left < replicas) {
    log_dropped(self, (size_t)left);
    return ls_out_of_range("no more data");
  }
  LS_RETURN_IF_ERROR(fill_own(self));
  for (size_t r = 0; r < data->num_replicas; ++r)
    for (size_t l = 0; l < data->num_leaves && !ls_input_is_own(data, r); ++l)
      LS_RETURN_IF_ERROR(ls_input_absent(self, l, data->leaves[l].type.dtype,
                                         data->leaves[l].type.shape,
                                         fill_part_of(self, l, r)));
  return ls_ok();
}

// Other ranks read their own rows of the step. A failure here ends theirs, too:
// they would go on without this one.
static ls_status fill_apart(ls_distributed_iterator *self) {
  const ls_status status =
      self->data->is_turns ? fill_turns(self) : fill_parts(self);
  ls_trunk *trunk = ls_runtime_trunk(self->data->runtime);
  if (ls_status_is_ok(status) || ls_status_code(status) == LS_OUT_OF_RANGE ||
      trunk == NULL)
    return status;
  trunk->cancel(trunk, status);
  return status;
}

ls_status ls_input_fill(ls_distributed_iterator *self) {
  const ls_distributed_dataset *data = self->data;
  if (data->is_turns || data->is_part) return fill_apart(self);
  if (data->cut == LS_INPUT_SPLIT) return fill_parts(self);
  ls_status status = fill_own(self);
  if (data->end_own - data->first_own < data->num_replicas)
    status = ls_input_exchange(self, status);
  LS_RETURN_IF_ERROR(status);
  size_t count = 0;
  for (size_t r = 0; r < data->num_replicas; ++r)
    count += ls_input_has(self, r);
  if (count == data->num_replicas) return ls_ok();
  if (count == 0 || !self->is_partial) {
    log_dropped(self, count);
    return ls_out_of_range("no more data");
  }
  for (size_t r = 0; r < data->num_replicas; ++r)
    if (!ls_input_has(self, r)) LS_RETURN_IF_ERROR(fill_empty(self, r));
  return ls_ok();
}
