// SPDX-License-Identifier: Apache-2.0
//
// Input on several ranks: what the others have is absent here, an array of the
// right type that nobody looks at. Where a rank cannot know the type, or
// whether there is any, all tell it.
#include "base/runtime_internal.h"
#include "base/values/array_internal.h"
#include "distribute/input/input.h"

// All that are absent, of one leaf and shape, are one array.
ls_status ls_input_absent(ls_distributed_iterator *it, size_t leaf,
                          ls_dtype dtype, ls_shape shape, ls_nest *out_value) {
  ls_array **kept = &it->absent[leaf];
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

// ---- Meeting ----------------------------------------------------------------
// A replica tells whether it has a value, and all dimensions of its leaves.
static size_t num_words(const ls_distributed_dataset *data) {
  size_t count = 1;
  for (size_t l = 0; l < data->num_leaves; ++l)
    count += (size_t)data->leaves[l].type.shape.rank;
  return count;
}

static void tell(const ls_distributed_iterator *it, size_t replica,
                 int64_t *words) {
  const ls_distributed_dataset *data = it->data;
  words[0] = ls_input_has(it, replica);
  for (size_t l = 0, at = 1; words[0] != 0 && l < data->num_leaves; ++l) {
    const ls_nest part = it->parts[l * data->num_replicas + replica];
    const ls_shape shape = ls_array_shape(ls_nest_as_array(part));
    for (int d = 0; d < shape.rank; ++d)
      words[at++] = shape.dim[d];
  }
}

static ls_status take(ls_distributed_iterator *it, size_t replica,
                      const int64_t *words) {
  const ls_distributed_dataset *data = it->data;
  for (size_t l = 0, at = 1; words[0] != 0 && l < data->num_leaves; ++l) {
    const ls_type *type = &data->leaves[l].type;
    ls_shape shape = type->shape;
    for (int d = 0; d < shape.rank; ++d)
      shape.dim[d] = words[at++];
    LS_RETURN_IF_ERROR(
        ls_input_absent(it, l, type->dtype, shape,
                        &it->parts[l * data->num_replicas + replica]));
  }
  return ls_ok();
}

static uint64_t digest_of(const char *text) {
  uint64_t digest = 14695981039346656037U;  // FNV-1a.
  for (; *text != '\0'; ++text)
    digest = (digest ^ (unsigned char)*text) * 1099511628211U;
  return digest;
}

static ls_status exchange(ls_distributed_iterator *it, ls_trunk *trunk,
                          int64_t *words, ls_trunk_piece *pieces) {
  const ls_distributed_dataset *data = it->data;
  const size_t size = num_words(data);
  for (size_t r = data->first_own; r < data->end_own; ++r)
    tell(it, r, &words[r * size]);
  for (int32_t k = 0; k < trunk->ranks; ++k) {
    const int32_t replicas = (int32_t)data->num_replicas;
    const size_t first = (size_t)ls_trunk_first(trunk, k, replicas);
    const size_t end = (size_t)ls_trunk_first(trunk, k + 1, replicas);
    pieces[k] = (ls_trunk_piece){.data = &words[first * size],
                                 .size = (end - first) * size * sizeof(*words),
                                 .rank = k};
  }
  // No program has this name.
  const ls_trunk_name name = {
      .program = {digest_of(it->name), it->number},
      .iteration = it->meetings++,
      .merge = UINT32_MAX - 1,
  };
  LS_RETURN_IF_ERROR(
      trunk->exchange(trunk, &name, pieces, (size_t)trunk->ranks));
  for (size_t r = 0; r < data->num_replicas; ++r)
    if (!ls_input_is_own(data, r))
      LS_RETURN_IF_ERROR(take(it, r, &words[r * size]));
  return ls_ok();
}

ls_status ls_input_meet(ls_distributed_iterator *it, ls_status own) {
  ls_trunk *trunk = ls_runtime_trunk(it->data->runtime);
  const size_t size = num_words(it->data);
  int64_t *words = NULL;
  ls_trunk_piece *pieces = NULL;
  if (ls_status_is_ok(own)) {
    words = ls_new_array(it->allocator, int64_t, it->data->num_replicas * size);
    pieces = ls_new_array(it->allocator, ls_trunk_piece, (size_t)trunk->ranks);
    own = words == NULL || pieces == NULL ? ls_out_of_memory()
                                          : exchange(it, trunk, words, pieces);
  }
  ls_release(it->allocator, words);
  ls_release(it->allocator, pieces);
  // The others would wait for this one.
  if (!ls_status_is_ok(own)) trunk->cancel(trunk, own);
  return own;
}
