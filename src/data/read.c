// SPDX-License-Identifier: Apache-2.0
// Reads indexed data sets: implements functions that a class leaves out by
// those that it has.
#include "base/values/array_internal.h"
#include "data/composite.h"
#include "data/work.h"

// ---- Elements --------------------------------------------------------------
static bool can_fill(ls_nest leaf, const ls_type *type) {
  const ls_array *array = ls_nest_as_array(leaf);
  return array != NULL && ls_array_is_unique(array) &&
         ls_array_dtype(array) == type->dtype &&
         ls_shape_equal(ls_array_shape(array), type->shape);
}

// The types that leaves must have.
typedef struct leaf_types {
  const ls_type *types;
  const ls_leaf_spec *leaves;  // Used in place of `types` if not NULL.
} leaf_types;

static const ls_type *read_type_of(const leaf_types *types, int64_t leaf) {
  return types->leaves != NULL ? &types->leaves[leaf].type
                               : &types->types[leaf];
}

static bool can_reuse(ls_nest element, ls_nest structure,
                      const leaf_types *types) {
  if (!ls_nest_is_node(structure))
    return can_fill(element, read_type_of(types, structure.as.i64));
  const size_t count = ls_nest_count(structure);
  if (element.kind != structure.kind || ls_nest_count(element) != count ||
      !ls_object_is_unique(element.as.ref))
    return false;
  for (size_t i = 0; i < count; ++i) {
    const char *key = ls_nest_key(structure, i);
    const char *has = ls_nest_key(element, i);
    if ((key == NULL) != (has == NULL) ||
        (key != NULL && strcmp(key, has) != 0) ||
        !can_reuse(ls_nest_item(element, i), ls_nest_item(structure, i), types))
      return false;
  }
  return true;
}

static ls_nest new_leaf(ls_nest leaf, void *user) {
  const ls_type *type = read_type_of(user, leaf.as.i64);
  ls_array *array = NULL;
  const ls_status status =
      ls_dtype_owns_elements(type->dtype)
          ? ls_array_create(type->dtype, type->shape, &array)
          : ls_array_create_unwritten(type->dtype, type->shape, &array);
  return ls_status_is_ok(status) ? ls_nest_array(array) : ls_fail(status);
}

ls_status ls_element_replace(ls_nest made, ls_nest *element) {
  ls_status status = ls_nest_status(made);
  ls_nest_release(ls_status_is_ok(status) ? *element : made);
  if (ls_status_is_ok(status)) *element = made;
  return status;
}

ls_status ls_element_reuse(ls_nest structure, const ls_type *types,
                           size_t count, ls_nest *element) {
  (void)count;
  leaf_types all = {.types = types};
  if (can_reuse(*element, structure, &all)) return ls_ok();
  return ls_element_replace(ls_nest_map(structure, new_leaf, &all), element);
}

ls_status ls_element_reuse_row(const ls_dataset *dataset, ls_nest *element) {
  leaf_types all = {.leaves = dataset->leaves};
  if (can_reuse(*element, dataset->structure, &all)) return ls_ok();
  return ls_element_replace(ls_nest_map(dataset->structure, new_leaf, &all),
                            element);
}

int64_t ls_element_bytes(ls_nest element) {
  const ls_array *array = ls_nest_as_array(element);
  if (array != NULL) return (int64_t)ls_array_size(array);
  const ls_composite *composite = ls_nest_as_composite(element);
  int64_t bytes = 0;
  for (size_t i = 0; composite != NULL && i < composite->count; ++i)
    bytes += (int64_t)ls_array_size(composite->parts[i]);
  for (size_t i = 0; i < ls_nest_count(element); ++i)
    bytes += ls_element_bytes(ls_nest_item(element, i));
  return bytes;
}

ls_nest ls_copy_row(ls_nest leaf, void *row) {
  const ls_array *array = ls_nest_as_array(leaf);
  const ls_dtype dtype = ls_array_dtype(array);
  const ls_shape shape = ls_row_shape(ls_array_shape(array));
  const size_t size =
      (size_t)ls_shape_num_elements(shape) * ls_dtype_size(dtype);
  const char *data = ls_array_data(array);
  ls_array *made = NULL;
  const ls_status status = ls_array_create_copy(
      dtype, shape, data + (size_t)(*(const int64_t *)row) * size, &made);
  return ls_status_is_ok(status) ? ls_nest_array(made) : ls_fail(status);
}

// ---- Statistics ------------------------------------------------------------
// Measures a stage's own time, without that of its inputs.
typedef struct stage_time {
  int stage;
  int64_t began, inner;
  const ls_dataset *outer;  // The stage that reads the current stage.
} stage_time;

static void set_stage(ls_fetch *fetch, const ls_dataset *at, int64_t since) {
  __atomic_store_n(&fetch->since, since, __ATOMIC_RELAXED);
  __atomic_store_n(&fetch->at, at, __ATOMIC_RELAXED);
}

static stage_time begin_stage(const ls_dataset *dataset, ls_fetch *fetch) {
  stage_time time = {.stage = -1};
  if (fetch->work == NULL) return time;
  time.stage = ls_work_stage(fetch->work, dataset);
  time.inner = fetch->inner_nanos;
  time.began = ls_runtime_now(fetch->work->runtime);
  fetch->inner_nanos = 0;
  time.outer = fetch->at;
  set_stage(fetch, dataset, time.began);
  return time;
}

static void end_stage(ls_fetch *fetch, stage_time time, int64_t elements) {
  if (time.stage < 0) return;
  const int64_t all = ls_runtime_now(fetch->work->runtime) - time.began;
  fetch->counts[time.stage].nanos += all - fetch->inner_nanos;
  fetch->counts[time.stage].elements += elements;
  fetch->inner_nanos = time.inner + all;
  // The outer stage continues now: it did not stall while the inner one worked.
  set_stage(fetch, time.outer, time.outer == NULL ? 0 : time.began + all);
  ls_runtime_note_input(fetch->work->runtime);
}

// ---- Rows ------------------------------------------------------------------
static ls_status read_located(const ls_dataset *self, ls_fetch *fetch,
                              const int64_t *indices, size_t count,
                              void *const *rows) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, int64_t, inner, count);
  self->kind->locate(self, fetch, indices, count, inner);
  return ls_dataset_read(self->inputs[0], fetch, inner, count, rows);
}

static ls_status get_written(const ls_dataset *self, ls_fetch *fetch,
                             int64_t index, ls_nest *element);

static ls_status get_one(const ls_dataset *self, ls_fetch *fetch, int64_t index,
                         ls_nest *element) {
  return self->kind->get != NULL ? self->kind->get(self, fetch, index, element)
                                 : get_written(self, fetch, index, element);
}

static ls_status read_one_by_one(const ls_dataset *self, ls_fetch *fetch,
                                 const int64_t *indices, size_t count,
                                 void *const *rows) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_OWN(ls_nest, element) = ls_none();
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, self->num_leaves);
  for (size_t k = 0; k < count; ++k) {
    LS_RETURN_IF_ERROR(get_one(self, fetch, indices[k], &element));
    LS_RETURN_IF_ERROR(ls_dataset_check_element(self, element));
    ls_nest_flatten(element, leaves, self->num_leaves);
    for (size_t i = 0; i < self->num_leaves; ++i)
      memcpy((char *)rows[i] + k * self->row_sizes[i],
             ls_array_data(ls_nest_as_array(leaves[i])), self->row_sizes[i]);
  }
  return ls_ok();
}

// Reads elements that are written in place, such as batches.
static ls_status read_filled(const ls_dataset *self, ls_fetch *fetch,
                             const int64_t *indices, size_t count,
                             void *const *rows) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, void *, at, self->num_leaves);
  for (size_t k = 0; k < count; ++k) {
    ls_rows_at(self, rows, k, at);
    LS_RETURN_IF_ERROR(self->kind->fill(self, fetch, indices[k], at));
  }
  return ls_ok();
}

ls_status ls_dataset_read(const ls_dataset *dataset, ls_fetch *fetch,
                          const int64_t *indices, size_t count,
                          void *const *rows) {
  const stage_time time = begin_stage(dataset, fetch);
  const ls_dataset_class *kind = dataset->kind;
  const ls_status status =
      kind->read != NULL   ? kind->read(dataset, fetch, indices, count, rows)
      : kind->fill != NULL ? read_filled(dataset, fetch, indices, count, rows)
      : kind->locate != NULL
          ? read_located(dataset, fetch, indices, count, rows)
          : read_one_by_one(dataset, fetch, indices, count, rows);
  end_stage(fetch, time, (int64_t)count);
  return status;
}

// ---- Reading one element ---------------------------------------------------
// Makes an element whose arrays may be written; their addresses go to `rows`.
static ls_status reuse_element(const ls_dataset *self, ls_fetch *fetch,
                               int64_t index, ls_nest *element, void **rows) {
  const size_t count = self->num_leaves;
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, count);
  if (self->kind->measure != NULL) {
    LS_ROOM_OR_RETURN(fetch, ls_type, types, count);
    self->kind->measure(self, index, types);
    LS_RETURN_IF_ERROR(
        ls_element_reuse(self->structure, types, count, element));
  } else {
    LS_RETURN_IF_ERROR(ls_element_reuse_row(self, element));
  }
  ls_nest_flatten(*element, leaves, count);
  for (size_t i = 0; i < count; ++i)
    rows[i] = ls_array_mutable_data(ls_nest_as_array(leaves[i]));
  return ls_ok();
}

// Gets an element of rows, or one that can be measured.
static ls_status get_written(const ls_dataset *self, ls_fetch *fetch,
                             int64_t index, ls_nest *element) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, void *, rows, self->num_leaves);
  LS_RETURN_IF_ERROR(reuse_element(self, fetch, index, element, rows));
  if (self->kind->fill != NULL)
    return self->kind->fill(self, fetch, index, rows);
  if (self->kind->read != NULL)
    return self->kind->read(self, fetch, &index, 1, rows);
  return read_located(self, fetch, &index, 1, rows);
}

ls_status ls_dataset_get(const ls_dataset *dataset, ls_fetch *fetch,
                         int64_t index, ls_nest *element) {
  const stage_time time = begin_stage(dataset, fetch);
  const ls_dataset_class *kind = dataset->kind;
  ls_status status = ls_ok();
  if (kind->get != NULL) {
    status = kind->get(dataset, fetch, index, element);
  } else if (dataset->rows || kind->fill != NULL) {
    status = get_written(dataset, fetch, index, element);
  } else if (kind->get_other != NULL) {
    status = kind->get_other(dataset, fetch, index, element);
  } else {
    int64_t inner = 0;
    kind->locate(dataset, fetch, &index, 1, &inner);
    status = ls_dataset_get(dataset->inputs[0], fetch, inner, element);
  }
  end_stage(fetch, time, 1);
  return status;
}

ls_status ls_dataset_fill(const ls_dataset *dataset, ls_fetch *fetch,
                          int64_t index, void *const *rows) {
  const stage_time time = begin_stage(dataset, fetch);
  const ls_status status = dataset->kind->fill(dataset, fetch, index, rows);
  end_stage(fetch, time, 1);
  return status;
}

void ls_dataset_locate_same(const ls_dataset *dataset, const ls_fetch *fetch,
                            const int64_t *indices, size_t count,
                            int64_t *out) {
  (void)dataset, (void)fetch;
  memmove(out, indices, count * sizeof(*out));
}

int64_t ls_dataset_id_own(const ls_dataset *dataset, const ls_fetch *fetch,
                          int64_t index) {
  (void)dataset, (void)fetch;
  return index;
}

int64_t ls_dataset_id(const ls_dataset *dataset, const ls_fetch *fetch,
                      int64_t index) {
  ls_dataset_find_ids(dataset, fetch, &index, 1, &index);
  return index;
}

void ls_dataset_find_ids(const ls_dataset *dataset, const ls_fetch *fetch,
                         const int64_t *indices, size_t count, int64_t *out) {
  const ls_dataset_class *kind = dataset->kind;
  while (kind->id == NULL && kind->find_ids == NULL &&
         dataset->num_inputs > 0) {
    if (kind->locate != NULL) {
      kind->locate(dataset, fetch, indices, count, out);
      indices = out;
    }
    dataset = dataset->inputs[0];
    kind = dataset->kind;
  }
  if (kind->find_ids != NULL) {
    kind->find_ids(dataset, fetch, indices, count, out);
    return;
  }
  for (size_t i = 0; i < count; ++i)
    out[i] =
        kind->id == NULL ? indices[i] : kind->id(dataset, fetch, indices[i]);
}
