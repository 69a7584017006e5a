// SPDX-License-Identifier: Apache-2.0
// Unbatch: the rows of dimension 0 of all leaves become elements.
#include "base/memory/own.h"
#include "data/streams.h"
#include "lockstep/streams.h"

typedef struct unbatch {
  ls_dataset dataset;
  int64_t rows;  // Rows of each element of the input; negative: they differ.
} unbatch;

// ---- Rows ------------------------------------------------------------------
// Counts the rows, which must be the same for all leaves.
static ls_status unbatch_count_rows(ls_nest batch, int64_t *rows,
                                    size_t *leaf) {
  for (size_t i = 0; i < ls_nest_count(batch); ++i)
    LS_RETURN_IF_ERROR(unbatch_count_rows(ls_nest_item(batch, i), rows, leaf));
  if (ls_nest_is_node(batch)) return ls_ok();
  const ls_array *array = ls_nest_as_array(batch);
  if (array == NULL || ls_array_shape(array).rank < 1)
    return ls_invalid_argument("unbatch: leaf %zu has no rows", *leaf);
  const int64_t count = ls_array_shape(array).dim[0];
  if (*rows >= 0 && count != *rows)
    return ls_invalid_argument(
        "unbatch: leaf %zu has %lld rows, those before have %lld", *leaf,
        (long long)count, (long long)*rows);
  *rows = count;
  ++*leaf;
  return ls_ok();
}

// ---- Rows of indexed data sets ---------------------------------------------
// Gets the batch of an index; the fetch keeps it, since neighbours are read
// together.
static ls_status get_batch(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t number, ls_nest *out_batch) {
  ls_fetch_kept *kept = ls_fetch_keep(fetch, dataset);
  if (kept == NULL) return ls_out_of_memory();
  ls_nest batch = kept->nests[0], note = kept->nests[1];
  kept->nests[0] = kept->nests[1] = ls_none();
  ls_status status = ls_ok();
  int64_t *noted = ls_nest_data(note, 0);
  if (noted == NULL || noted[0] != number || noted[1] != fetch->epoch) {
    ls_nest_release(note);
    note = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(2));
    status = ls_nest_status(note);
    if (ls_status_is_ok(status))
      status = ls_dataset_get(dataset->inputs[0], fetch, number, &batch);
    noted = ls_status_is_ok(status) ? ls_nest_data(note, 0) : NULL;
    if (noted != NULL) {
      noted[0] = number;
      noted[1] = fetch->epoch;
    } else {
      ls_nest_release(note);
      note = ls_none();
    }
  }
  kept = ls_fetch_keep(fetch, dataset);  // Cannot fail: the kept value exists.
  kept->nests[0] = batch;
  kept->nests[1] = note;
  *out_batch = batch;
  return status;
}

static ls_status get_row(const ls_dataset *dataset, ls_fetch *fetch,
                         int64_t index, ls_nest *element) {
  const int64_t rows = ((const unbatch *)dataset)->rows;
  int64_t row = index % rows;
  ls_nest batch = ls_none();
  LS_RETURN_IF_ERROR(get_batch(dataset, fetch, index / rows, &batch));
  return ls_element_replace(ls_nest_map(batch, ls_copy_row, &row), element);
}

static ls_status unbatch_read_rows(const ls_dataset *dataset, ls_fetch *fetch,
                                   const int64_t *indices, size_t count,
                                   void *const *to) {
  const int64_t rows = ((const unbatch *)dataset)->rows;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, ls_nest, leaves, dataset->num_leaves);
  for (size_t i = 0; i < count; ++i) {
    ls_nest batch = ls_none();
    LS_RETURN_IF_ERROR(get_batch(dataset, fetch, indices[i] / rows, &batch));
    ls_nest_flatten(batch, leaves, dataset->num_leaves);
    for (size_t k = 0; k < dataset->num_leaves; ++k) {
      const size_t size = dataset->row_sizes[k];
      const char *data = ls_array_data(ls_nest_as_array(leaves[k]));
      memcpy((char *)to[k] + i * size,
             data + (size_t)(indices[i] % rows) * size, size);
    }
  }
  return ls_ok();
}

// ---- Rows of streams -------------------------------------------------------
typedef struct unbatch_stage {
  ls_stage stage;
  ls_anchors anchors;
  ls_nest batch;
  bool has;  // `batch` is being read.
  int64_t row, rows;
  int64_t given;
} unbatch_stage;

static ls_status read_batch(unbatch_stage *self) {
  size_t leaf = 0;
  const int64_t row = self->row;
  self->row = 0;  // There is no current row.
  LS_RETURN_IF_ERROR(ls_anchors_next(&self->anchors, &self->batch));
  self->rows = -1;
  LS_RETURN_IF_ERROR(unbatch_count_rows(self->batch, &self->rows, &leaf));
  self->row = row;
  self->has = true;
  return ls_ok();
}

static ls_status unbatch_next(ls_stage *stage, ls_nest *element) {
  unbatch_stage *self = (unbatch_stage *)stage;
  while (!self->has || self->row >= self->rows) {
    if (self->has) self->row = 0;
    self->has = false;
    LS_RETURN_IF_ERROR(read_batch(self));
    ls_anchors_drop(&self->anchors, self->anchors.read - 1);
  }
  int64_t row = self->row++;
  ++self->given;
  return ls_element_replace(ls_nest_map(self->batch, ls_copy_row, &row),
                            element);
}

static void unbatch_forget(ls_stage *stage) {
  unbatch_stage *self = (unbatch_stage *)stage;
  ls_anchors_reset(&self->anchors);
  self->has = false;
}

static ls_status unbatch_save(ls_stage *stage, ls_record *record) {
  unbatch_stage *self = (unbatch_stage *)stage;
  return ls_anchors_save(&self->anchors, self->anchors.read - self->has,
                         record);
}

static ls_status unbatch_restore(ls_stage *stage, const ls_record *record) {
  return ls_anchors_restore(&((unbatch_stage *)stage)->anchors, record);
}

static void unbatch_close(ls_stage *stage) {
  unbatch_stage *self = (unbatch_stage *)stage;
  ls_anchors_deinit(&self->anchors);
  ls_nest_release(self->batch);
}

static ls_status unbatch_open(ls_stage *stage) {
  // Keeps an anchor before each batch: reading a batch again may be slow.
  ls_anchors_init(&((unbatch_stage *)stage)->anchors, stage->inputs[0], 1);
  return ls_ok();
}

static const ls_stage_class unbatch_stage_class = {
    .size = sizeof(unbatch_stage),
    .counters = {LS_STAGE_COUNTER(unbatch_stage, row),
                 LS_STAGE_COUNTER(unbatch_stage, given)},
    .open = unbatch_open,
    .next = unbatch_next,
    .forget = unbatch_forget,
    .save = unbatch_save,
    .restore = unbatch_restore,
    .id_after = offsetof(unbatch_stage, given),
    .close = unbatch_close};

// ---- Making ----------------------------------------------------------------
static ls_dataset *unbatch_remake(const ls_dataset *dataset,
                                  ls_dataset **inputs) {
  (void)dataset;
  return ls_dataset_unbatch(inputs[0]);
}

static const ls_dataset_class unbatch_class = {.name = "unbatch",
                                               .remake = unbatch_remake,
                                               .get_other = get_row,
                                               .read = unbatch_read_rows,
                                               .id = ls_dataset_id_own,
                                               .stage = &unbatch_stage_class};

// Makes the rows' spec, and counts the rows.
static ls_status find_rows(unbatch *self, ls_leaf_spec *leaves) {
  const ls_dataset *input = self->dataset.inputs[0];
  self->rows = LS_UNKNOWN_DIM;
  for (size_t i = 0; i < input->num_leaves; ++i) {
    leaves[i] = input->leaves[i];
    const ls_shape shape = leaves[i].type.shape;
    if (leaves[i].kind != LS_LEAF_DENSE || shape.rank == 0)
      return ls_invalid_argument("unbatch: leaf %zu, %s, has no rows", i,
                                 LS_SHAPE_TEXT(leaves[i].type.dtype, shape));
    if (shape.rank < 0) continue;
    const int64_t rows = shape.dim[0];
    if (rows >= 0 && self->rows >= 0 && rows != self->rows)
      return ls_invalid_argument(
          "unbatch: leaf %zu has %lld rows, those before have %lld", i,
          (long long)rows, (long long)self->rows);
    if (rows >= 0) self->rows = rows;
    leaves[i].type.shape = ls_row_shape(shape);
  }
  return ls_ok();
}

static ls_status unbatch_fill(unbatch *self) {
  ls_dataset *base = &self->dataset;
  const ls_dataset *input = base->inputs[0];
  LS_OWN_ARRAY_OR_RETURN(base->allocator, ls_leaf_spec, leaves,
                         input->num_leaves);
  LS_RETURN_IF_ERROR(find_rows(self, leaves));
  LS_RETURN_IF_ERROR(ls_dataset_set_leaves(
      base, ls_nest_retain(input->structure), leaves, input->num_leaves));
  if (self->rows < 1) base->indexed = false;
  if (self->rows < 0 && base->size != 0) base->size = LS_UNKNOWN_SIZE;
  if (self->rows >= 0 && base->size >= 0 &&
      __builtin_mul_overflow(base->size, self->rows, &base->size))
    base->size = INT64_MAX;
  if (self->rows == 0) base->size = 0;
  return ls_ok();
}

ls_dataset *ls_dataset_unbatch(ls_dataset *dataset) {
  unbatch *self = LS_DATASET_NEW(unbatch, &unbatch_class, &dataset, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->dataset.failure))
    return (ls_dataset *)self;
  return ls_dataset_fail(&self->dataset, unbatch_fill(self));
}
