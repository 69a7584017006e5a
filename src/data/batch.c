// SPDX-License-Identifier: Apache-2.0
// Batch: elements stacked along a new dimension 0. Rows are read directly into
// the batch's arrays.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "data/dataset.h"
#include "data/streams.h"
#include "data/work.h"
#include "lockstep/element_spec.h"
#include "lockstep/shape_rules.h"

typedef ls_batch_dataset batch_dataset;

// ---- Which elements --------------------------------------------------------
// Returns the number of elements of a batch and stores the index of the first.
static size_t batch_part_of(const batch_dataset *self, int64_t index,
                            int64_t *out_first) {
  const int64_t size = self->options.size;
  const int64_t all = self->base.inputs[0]->size;
  *out_first = index * size;
  return (size_t)(all >= 0 && all - *out_first < size ? all - *out_first
                                                      : size);
}

static int64_t batch_rows_of(const batch_dataset *self, size_t count) {
  return self->options.remainder == LS_REMAINDER_PAD ? self->options.size
                                                     : (int64_t)count;
}

// ---- Rows ------------------------------------------------------------------
typedef struct batch_work {
  const batch_dataset *self;
  ls_fetch *fetch;
  int64_t first;
  size_t count;
  int64_t *indices;
  void *const *rows;
} batch_work;

// Writes the mask and the ids, which are the leaves after the element's.
static void write_notes(const batch_work *work, int64_t rows) {
  const batch_dataset *self = work->self;
  const ls_dataset *input = self->base.inputs[0];
  size_t leaf = input->num_leaves;
  if (self->options.remainder == LS_REMAINDER_PAD) {
    float *mask = work->rows[leaf++];
    for (int64_t i = 0; i < rows; ++i)
      mask[i] = i < (int64_t)work->count;
  }
  if (!self->options.ids) return;
  int64_t *ids = work->rows[leaf];
  ls_dataset_find_ids(input, work->fetch, work->indices, work->count, ids);
  for (int64_t i = (int64_t)work->count; i < rows; ++i)
    ids[i] = -1;
}

static void measure_batch(const ls_dataset *dataset, int64_t index,
                          ls_type *types) {
  const batch_dataset *self = (const batch_dataset *)dataset;
  int64_t first = 0;
  const int64_t rows = batch_rows_of(self, batch_part_of(self, index, &first));
  for (size_t i = 0; i < dataset->num_leaves; ++i) {
    types[i] = dataset->leaves[i].type;
    types[i].shape.dim[0] = rows;
  }
}

// ---- Helpers ---------------------------------------------------------------
// Rows that a helper thread takes at a time, and the least bytes for which
// helpers are called.
enum { SHARED_ROWS = 16, SHARED_BYTES = 64 << 10 };

typedef struct shared_work {
  const batch_work *work;
  ls_status status;  // Guarded by the iterator's lock.
} shared_work;

static ls_status read_some(const batch_work *work, ls_fetch *fetch,
                           size_t begin, size_t end) {
  const ls_dataset *input = work->self->base.inputs[0];
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, void *, rows, input->num_leaves);
  ls_rows_at(input, work->rows, begin, rows);
  return ls_dataset_read(input, fetch, work->indices + begin, end - begin,
                         rows);
}

static void batch_help(void *user, int worker, int64_t begin, int64_t end) {
  (void)worker;
  shared_work *shared = user;
  const batch_work *work = shared->work;
  ls_work *pipeline = work->fetch->work;
  const size_t first = (size_t)begin * SHARED_ROWS;
  const size_t last = (size_t)end * SHARED_ROWS;
  ls_fetch *fetch = ls_work_take_fetch(pipeline);
  ls_status status = fetch == NULL ? ls_out_of_memory() : ls_ok();
  if (fetch != NULL) {
    fetch->epoch = work->fetch->epoch;
    status =
        read_some(work, fetch, first, last < work->count ? last : work->count);
  }
  ls_work_give_fetch(pipeline, fetch);
  if (ls_status_is_ok(status)) return;
  ls_mutex_lock(&pipeline->lock);
  shared->status = ls_status_join(shared->status, status);
  ls_mutex_unlock(&pipeline->lock);
}

// Returns true if compute threads have read the batch's rows.
static bool batch_share(const batch_work *work, ls_status *out_status) {
  const ls_dataset *input = work->self->base.inputs[0];
  const ls_fetch *fetch = work->fetch;
  size_t bytes = 0;
  for (size_t i = 0; i < input->num_leaves; ++i)
    bytes += work->count * input->row_sizes[i];
  if (fetch->work == NULL || !fetch->shares || bytes < SHARED_BYTES ||
      work->count < 2 * SHARED_ROWS)
    return false;
  shared_work shared = {.work = work};
  const int64_t began = ls_runtime_now(fetch->work->runtime);
  const ls_status status =
      ls_workers_share(fetch->work->helpers, batch_help, &shared,
                       (int64_t)((work->count - 1) / SHARED_ROWS + 1));
  // Subtracts the helpers' time, which the helpers count themselves.
  work->fetch->inner_nanos += ls_runtime_now(fetch->work->runtime) - began;
  *out_status = shared.status;
  const bool done = ls_status_is_ok(status);
  ls_status_free(status);  // Called within a run: no helpers are free.
  return done;
}

static ls_status batch_read_rows(const batch_work *work) {
  ls_status status = ls_ok();
  if (batch_share(work, &status)) return status;
  return ls_dataset_read(work->self->base.inputs[0], work->fetch, work->indices,
                         work->count, work->rows);
}

static ls_status read_batch(const batch_work *work) {
  const batch_dataset *self = work->self;
  const ls_dataset *input = self->base.inputs[0];
  const int64_t rows = batch_rows_of(self, work->count);
  for (size_t i = 0; i < work->count; ++i)
    work->indices[i] = work->first + (int64_t)i;
  LS_RETURN_IF_ERROR(batch_read_rows(work));
  for (size_t i = 0; i < input->num_leaves; ++i) {
    const size_t size = input->row_sizes[i];
    char *behind = (char *)work->rows[i] + work->count * size;
    if (rows > (int64_t)work->count)
      memset(behind, 0, ((size_t)rows - work->count) * size);
  }
  write_notes(work, rows);
  return ls_ok();
}

static ls_status fill_rows(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t index, void *const *rows) {
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  batch_work work = {
      .self = (const batch_dataset *)dataset, .fetch = fetch, .rows = rows};
  work.count = batch_part_of(work.self, index, &work.first);
  LS_ROOM_OR_RETURN(fetch, int64_t, indices, work.count);
  work.indices = indices;
  return read_batch(&work);
}

// ---- Elements of any kind --------------------------------------------------
static ls_status get_batch(const ls_dataset *dataset, ls_fetch *fetch,
                           int64_t index, ls_nest *batch) {
  const batch_dataset *self = (const batch_dataset *)dataset;
  const ls_dataset *input = dataset->inputs[0];
  int64_t first = 0;
  const size_t count = batch_part_of(self, index, &first);
  LS_OWN(ls_nests, elements) = {0};
  LS_RETURN_IF_ERROR(ls_nests_init(&elements, dataset->allocator, count));
  LS_OWN_ARRAY_OR_RETURN(dataset->allocator, int64_t, ids, count);
  for (size_t i = 0; i < count; ++i) {
    const int64_t at = first + (int64_t)i;
    LS_RETURN_IF_ERROR(ls_dataset_get(input, fetch, at, &elements.items[i]));
    if (self->options.ids) ids[i] = ls_dataset_id(input, fetch, at);
  }
  return ls_batch_stack(self, elements.items, count, ids, batch);
}

// ---- Making ----------------------------------------------------------------
void ls_batch_destroy(ls_dataset *dataset) {
  batch_dataset *self = (batch_dataset *)dataset;
  ls_release(dataset->allocator, self->padded_shapes);
  ls_release(dataset->allocator, self->padding);
}

static void describe_batch(const ls_dataset *dataset, ls_text *text) {
  const batch_dataset *self = (const batch_dataset *)dataset;
  ls_text_append_i64(text, self->options.size);
  if (self->options.remainder == LS_REMAINDER_DROP)
    ls_text_append(text, ", drop");
  if (self->options.remainder == LS_REMAINDER_PAD)
    ls_text_append(text, ", pad");
  if (self->options.ids) ls_text_append(text, ", ids");
  for (size_t i = 0;
       self->padded_shapes != NULL && i < self->options.num_padded_shapes; ++i)
    ls_text_append_format(text, ", %s padded with %.17g",
                          LS_SHAPE_TEXT(LS_DTYPE_NONE, self->padded_shapes[i]),
                          self->padding == NULL ? 0.0 : self->padding[i]);
}

static ls_dataset *remake_batch(const ls_dataset *dataset,
                                ls_dataset **inputs) {
  return ls_dataset_batch(inputs[0],
                          &((const batch_dataset *)dataset)->options);
}

#define BATCH_CLASS                                                            \
  .name = "batch", .is_quick = true, .destroy = ls_batch_destroy,              \
  .describe = describe_batch, .remake = remake_batch, .id = ls_dataset_id_own, \
  .stage = &ls_batch_stage
static const ls_dataset_class batch_class = {BATCH_CLASS, .get = get_batch};
static const ls_dataset_class batch_of_rows_class = {
    BATCH_CLASS, .measure = measure_batch, .fill = fill_rows};

// Checks that a leaf's elements may be padded to its padded shape; if all
// elements have the same shape, that becomes the padded one.
static ls_status check_padding(batch_dataset *self, size_t leaf) {
  const ls_leaf_spec *spec = &self->base.inputs[0]->leaves[leaf];
  const ls_type *type = &spec->type;
  ls_shape *padded = &self->padded_shapes[leaf];
  LS_RETURN_IF_ERROR(ls_status_annotate(ls_shape_check(*padded),
                                        "padded shape %zu of a batch", leaf));
  bool fits = padded->rank >= 0 &&
              (padded->rank == type->shape.rank || type->shape.rank < 0);
  for (int k = 0; fits && k < type->shape.rank; ++k) {
    const int64_t size = type->shape.dim[k];
    if (padded->dim[k] < 0) padded->dim[k] = size;
    fits = size < 0 || size <= padded->dim[k];
  }
  if (!fits)
    return ls_invalid_argument("leaf %zu, %s, cannot be padded to %s", leaf,
                               LS_SHAPE_TEXT(type->dtype, type->shape),
                               LS_SHAPE_TEXT(type->dtype, *padded));
  const double padding =
      self->options.padding == NULL ? 0 : self->options.padding[leaf];
  if (padding != 0 && ls_dtype_owns_elements(type->dtype))
    return ls_invalid_argument("leaf %zu, %s, cannot be padded with %g: only "
                               "numbers can",
                               leaf, LS_SHAPE_TEXT(type->dtype, type->shape),
                               padding);
  return ls_ok();
}

ls_status ls_batch_copy_lists(batch_dataset *self) {
  ls_batch_options *options = &self->options;
  const size_t leaves = self->base.inputs[0]->num_leaves;
  if ((options->padding != NULL || options->num_padded_shapes > 0) &&
      options->padded_shapes == NULL)
    return ls_invalid_argument("padding of a batch without padded shapes");
  if (options->padded_shapes == NULL) return ls_ok();
  if (options->num_padded_shapes != leaves)
    return ls_invalid_argument("%zu padded shapes for %zu leaves",
                               options->num_padded_shapes, leaves);
  LS_SET_ARRAY_OR_RETURN(self->base.allocator, ls_shape, self->padded_shapes,
                         leaves);
  memcpy(self->padded_shapes, options->padded_shapes,
         leaves * sizeof(ls_shape));
  options->padded_shapes = self->padded_shapes;
  for (size_t i = 0; i < leaves; ++i)
    LS_RETURN_IF_ERROR(check_padding(self, i));
  if (options->padding == NULL) return ls_ok();
  LS_SET_ARRAY_OR_RETURN(self->base.allocator, double, self->padding, leaves);
  memcpy(self->padding, options->padding, leaves * sizeof(double));
  options->padding = self->padding;
  return ls_ok();
}

// Computes the shape of a batch of a leaf, as far as it is known.
static ls_status batch_shape(const batch_dataset *self, size_t leaf,
                             int64_t rows, ls_leaf_spec *out) {
  *out = self->base.inputs[0]->leaves[leaf];
  const ls_shape each =
      self->padded_shapes != NULL ? self->padded_shapes[leaf] : out->type.shape;
  if (each.rank >= LS_MAX_RANK)
    return ls_invalid_argument("a batch of %s has more than %d dimensions",
                               LS_SHAPE_TEXT(out->type.dtype, each),
                               LS_MAX_RANK);
  if (each.rank < 0) return ls_ok();
  ls_shape *all = &out->type.shape;
  *all = (ls_shape){.rank = each.rank + 1, .dim = {rows}};
  for (int k = 0; k < each.rank; ++k)
    all->dim[k + 1] = each.dim[k];
  return ls_ok();
}

// Wraps specs as wrap_batch wraps values.
ls_status ls_batch_set_spec(batch_dataset *self, int64_t rows) {
  ls_dataset *base = &self->base, *input = base->inputs[0];
  const bool pads = self->options.remainder == LS_REMAINDER_PAD;
  LS_OWN(ls_nests, leaves) = {0};
  LS_RETURN_IF_ERROR(
      ls_nests_init(&leaves, base->allocator, input->num_leaves));
  for (size_t i = 0; i < input->num_leaves; ++i) {
    ls_leaf_spec spec;
    LS_RETURN_IF_ERROR(batch_shape(self, i, rows, &spec));
    leaves.items[i] = ls_nest_spec_of(&spec);
  }
  leaves.count = 0;  // The packed nest owns the leaves.
  ls_nest made =
      ls_nest_pack(input->structure, leaves.items, input->num_leaves);
  if (pads)
    made = self->options.ids
               ? LS_TUPLE(made, ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(rows)),
                          ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(rows)))
               : LS_TUPLE(made, ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(rows)));
  else if (self->options.ids)
    made = LS_TUPLE(made, ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(rows)));
  return ls_dataset_set_spec(base, made);
}

static ls_status fill_batch(batch_dataset *self) {
  ls_batch_options *options = &self->options;
  ls_dataset *base = &self->base;
  if (options->size < 1)
    return ls_invalid_argument("a batch size must be at least 1, got %lld",
                               (long long)options->size);
  LS_RETURN_IF_ERROR(ls_status_annotate(ls_shape_check(LS_SHAPE(options->size)),
                                        "the size of a batch"));
  if ((unsigned)options->remainder > LS_REMAINDER_PAD)
    return ls_invalid_argument("there is no remainder %d",
                               (int)options->remainder);
  LS_RETURN_IF_ERROR(ls_batch_copy_lists(self));
  base->most /= options->size;
  if (base->size > 0) {
    const int64_t whole = base->size / options->size;
    const bool more = base->size % options->size != 0 &&
                      options->remainder != LS_REMAINDER_DROP;
    base->size = whole + more;
  }
  if (base->inputs[0]->rows && base->indexed && self->padded_shapes == NULL)
    base->kind = &batch_of_rows_class;
  const int64_t all = base->inputs[0]->size;
  const bool full = options->remainder != LS_REMAINDER_KEEP ||
                    all == LS_INFINITE ||
                    (all >= 0 && all % options->size == 0);
  return ls_batch_set_spec(self, full ? options->size : LS_UNKNOWN_DIM);
}

ls_dataset *ls_dataset_batch(ls_dataset *dataset,
                             const ls_batch_options *options) {
  batch_dataset *self = LS_DATASET_NEW(
      batch_dataset, &batch_class, &dataset, 1,
      options == NULL ? ls_null_argument("ls_dataset_batch", "options")
                      : ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->options = *options;
  return ls_dataset_fail(&self->base, fill_batch(self));
}

// ---- Prefetch --------------------------------------------------------------
static ls_dataset *remake_prefetch(const ls_dataset *dataset,
                                   ls_dataset **inputs) {
  return ls_dataset_prefetch(inputs[0], dataset->prefetch);
}

// Not described, as the number does not change the elements.
static const ls_dataset_class prefetch_class = {.name = "prefetch",
                                                .is_quick = true,
                                                .remake = remake_prefetch,
                                                .locate =
                                                    ls_dataset_locate_same,
                                                .stage = &ls_prefetch_stage};

ls_dataset *ls_dataset_prefetch(ls_dataset *dataset, int64_t count) {
  ls_dataset *self =
      LS_DATASET_NEW(ls_dataset, &prefetch_class, &dataset, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->failure)) return self;
  self->prefetch = count;
  if (count >= 0 && count <= 1 << 20) return self;
  return ls_dataset_fail(
      self, ls_invalid_argument("%lld elements ahead: 0 to %d are possible",
                                (long long)count, 1 << 20));
}
