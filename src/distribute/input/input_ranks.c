// SPDX-License-Identifier: Apache-2.0
//
// Input on several ranks. Other ranks' values are absent here: arrays of the
// right type whose data is not read. Where a rank cannot know the type of
// another rank's value, or whether there is one, all ranks report their values
// to each other.
#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "distribute/input/input.h"

// Makes an absent value; all absent values of one leaf and shape are the same
// array.
ls_status ls_input_absent(ls_distributed_iterator *self, size_t leaf,
                          ls_dtype dtype, ls_shape shape, ls_nest *out_value) {
  ls_array **kept = &self->absent[leaf];
  if (*kept == NULL || ls_array_dtype(*kept) != dtype ||
      !ls_shape_equal(ls_array_shape(*kept), shape)) {
    ls_array *made = NULL;
    LS_RETURN_IF_ERROR(ls_array_create(dtype, shape, &made));
    ls_array_mark_absent(made);
    ls_array_release(*kept);
    *kept = made;
  }
  *out_value = ls_nest_array(ls_array_retain(*kept));
  return ls_ok();
}

// ---- Reports ----------------------------------------------------------------
// A replica's report: flags for its value and its pipeline, then the sizes of
// its leaves; without a value the sizes of empty leaves.
enum { HAS_VALUE = 1, IS_ENDLESS = 2, IS_UNKNOWN = 4, IS_WHOLE = 8 };

static ls_status count_words(const ls_distributed_iterator *self,
                             size_t *out_count) {
  const ls_distributed_dataset *data = self->data;
  char path[200];
  *out_count = 1;
  for (size_t l = 0; l < data->num_leaves; ++l) {
    const ls_leaf_spec *leaf = &data->leaves[l];
    if (leaf->kind != LS_LEAF_DENSE || leaf->type.shape.rank < 0)
      return ls_unimplemented(
          "leaf %s of iterator '%s' on several ranks, which read by "
          "themselves: only dense ones of a known rank are possible",
          ls_input_leaf_path(data->structure, l, path, sizeof(path)),
          self->name);
    *out_count += (size_t)leaf->type.shape.rank;
  }
  return ls_ok();
}

static ls_status report_values(const ls_distributed_iterator *self,
                               size_t replica, int64_t *words) {
  const ls_distributed_dataset *data = self->data;
  const bool has = ls_input_has(self, replica);
  words[0] = (has ? HAS_VALUE : 0) | (data->is_endless ? IS_ENDLESS : 0) |
             (ls_input_has_unknown(data) ? IS_UNKNOWN : 0) |
             (data->is_never_partial ? IS_WHOLE : 0);
  for (size_t l = 0, at = 1; l < data->num_leaves; ++l) {
    ls_shape shape = ls_input_empty_type(data, l).shape;
    const int32_t rank = shape.rank;
    const ls_array *array =
        ls_nest_as_array(self->parts[l * data->num_replicas + replica]);
    if (array != NULL) shape = ls_array_shape(array);
    if ((has && array == NULL) || shape.rank != rank)
      return ls_internal(
          "an element of iterator '%s' differs from the spec of its data set",
          self->name);
    for (int d = 0; d < rank; ++d)
      words[at++] = shape.dim[d];
  }
  return ls_ok();
}

// Takes another rank's report of a value. Empty values are reported, too,
// because all ranks must know their shape.
static ls_status take_reported(ls_distributed_iterator *self, size_t replica,
                               const int64_t *words) {
  const ls_distributed_dataset *data = self->data;
  for (size_t l = 0, at = 1; l < data->num_leaves; ++l) {
    const ls_type *type = &data->leaves[l].type;
    ls_shape shape = type->shape;
    for (int d = 0; d < shape.rank; ++d)
      shape.dim[d] = words[at++];
    LS_RETURN_IF_ERROR(
        ls_input_absent(self, l, type->dtype, shape,
                        &self->parts[l * data->num_replicas + replica]));
  }
  return ls_ok();
}

// Decides for all ranks if the step has values, and which.
static ls_status decide_step(ls_distributed_iterator *self,
                             const int64_t *words, size_t size) {
  const ls_distributed_dataset *data = self->data;
  size_t have = 0;
  int64_t all = -1, any = 0;
  for (size_t r = 0; r < data->num_replicas; ++r) {
    have += (words[r * size] & HAS_VALUE) != 0;
    all &= words[r * size];
    any |= words[r * size];
  }
  self->is_partial = (any & IS_UNKNOWN) != 0 && (all & IS_ENDLESS) == 0 &&
                     (any & IS_WHOLE) == 0;
  if (have == 0 || (have < data->num_replicas && !self->is_partial))
    return ls_ok();
  for (size_t r = 0; r < data->num_replicas; ++r)
    if (!ls_input_is_own(data, r))
      LS_RETURN_IF_ERROR(take_reported(self, r, &words[r * size]));
  return ls_ok();
}

static ls_status exchange_reports(ls_distributed_iterator *self,
                                  ls_communicator *communicator, size_t size,
                                  int64_t *words, ls_exchange_piece *pieces) {
  const ls_distributed_dataset *data = self->data;
  for (size_t r = data->first_own; r < data->end_own; ++r)
    LS_RETURN_IF_ERROR(report_values(self, r, &words[r * size]));
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    const int32_t replicas = (int32_t)data->num_replicas;
    const size_t first =
        (size_t)ls_communicator_first(communicator, k, replicas);
    const size_t end =
        (size_t)ls_communicator_first(communicator, k + 1, replicas);
    pieces[k] =
        (ls_exchange_piece){.data = &words[first * size],
                            .size = (end - first) * size * sizeof(*words),
                            .from = k,
                            .to = LS_EACH_RANK};
  }
  // A collective's name that no program uses.
  const ls_exchange_name name = {
      .program = {ls_hash(self->name, strlen(self->name), 0), self->number},
      .iteration = self->exchanges++,
      .merge = UINT32_MAX - 1,
  };
  LS_RETURN_IF_ERROR(ls_communicator_exchange(communicator, &name, pieces,
                                              (size_t)communicator->ranks));
  return decide_step(self, words, size);
}

ls_status ls_input_exchange(ls_distributed_iterator *self, ls_status own) {
  ls_communicator *communicator = ls_runtime_communicator(self->data->runtime);
  size_t size = 0;
  LS_OWN_MEMORY(self->allocator, int64_t, words) = NULL;
  LS_OWN_MEMORY(self->allocator, ls_exchange_piece, pieces) = NULL;
  if (ls_status_is_ok(own)) own = count_words(self, &size);
  if (ls_status_is_ok(own)) {
    words =
        ls_new_array(self->allocator, int64_t, self->data->num_replicas * size);
    pieces = ls_new_array(self->allocator, ls_exchange_piece,
                          (size_t)communicator->ranks);
    own = words == NULL || pieces == NULL
              ? ls_out_of_memory()
              : exchange_reports(self, communicator, size, words, pieces);
  }
  // Ends the other ranks, which would wait for this rank.
  if (!ls_status_is_ok(own)) communicator->cancel(communicator, own);
  return own;
}
