// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/norm/batch_lines.h"

enum { LINE = 64, TILE = 256, RUN = 256, CHUNKS = 64, VECTOR = 16 };

// ---- Division --------------------------------------------------------------
void ls_batch_measure(ls_batch_lines *self, ls_shape shape) {
  const int32_t last = shape.rank - 1;
  self->channels = shape.dim[last];
  self->rows = 1;
  for (int32_t i = 0; i < last; ++i)
    self->rows *= shape.dim[i];
  self->repeat = 1;
  if (self->channels > 0 && self->channels < LINE) {
    const int64_t rows_per_vector =
        VECTOR / ls_common_divisor(VECTOR, self->channels) * self->channels;
    self->repeat = (LINE + rows_per_vector - 1) / rows_per_vector *
                   rows_per_vector / self->channels;
  }
  self->lines = self->rows / self->repeat;
  self->width = self->repeat * self->channels;
  self->tile = self->repeat > 1 ? self->width : ls_min_i64(self->width, TILE);
  self->tiles = self->tile == 0 ? 0 : ls_blocks_of(self->width, self->tile);
  self->run = ls_min_i64(RUN, LS_BLOCK / ls_max_i64(1, self->tile));
  const int64_t runs = ls_blocks_of(self->lines, self->run);
  self->chunk = self->run * ls_blocks_of(runs, CHUNKS);
  self->chunks = ls_blocks_of(self->lines, self->chunk);
  self->units = self->tiles * self->chunks;
  const int64_t unit =
      ls_min_i64(self->chunk, self->lines + 1) * ls_max_i64(1, self->tile);
  self->units_per_block = ls_max_i64(1, LS_BLOCK / unit);
}

// ---- Scratch ---------------------------------------------------------------
size_t ls_batch_scratch(const ls_batch_lines *self) {
  const size_t tile = (size_t)self->tile;
  const size_t widened =
      ls_is_half(self->dtype) ? 2 * sizeof(float) * (size_t)self->run : 0;
  return tile * (2 * sizeof(double) + 5 * ls_dtype_size(self->wide) + widened);
}

ls_batch_work ls_batch_open(const ls_batch_lines *self, void *scratch) {
  const size_t tile = (size_t)self->tile;
  const size_t array = tile * ls_dtype_size(self->wide);
  ls_batch_work work = {.self = self, .column = -1};
  work.sums = scratch;
  work.products = work.sums + tile;
  char *next = (char *)(work.products + tile);
  void **arrays[] = {&work.mean, &work.factor, &work.shift, &work.slope,
                     &work.base};
  for (size_t i = 0; i < LS_COUNT_OF(arrays); ++i, next += array)
    *arrays[i] = next;
  if (ls_is_half(self->dtype)) {
    work.x = (float *)(void *)next;
    work.dy = work.x + tile * (size_t)self->run;
  }
  return work;
}

void ls_batch_repeat(const ls_batch_work *work, void *array) {
  for (int64_t j = work->distinct; j < work->columns; ++j)
    ls_batch_set(work->self, array, j,
                 ls_batch_get(work->self, array, j - work->distinct));
}

// ---- Walking ---------------------------------------------------------------
bool ls_batch_enter(ls_batch_work *work, int64_t unit, int64_t *out_chunk) {
  const ls_batch_lines *self = work->self;
  const int64_t column = unit / self->chunks * self->tile;
  *out_chunk = unit % self->chunks;
  if (column == work->column) return false;
  work->column = column;
  work->columns = ls_min_i64(self->tile, self->width - column);
  work->distinct = ls_min_i64(work->columns, self->channels);
  return true;
}

bool ls_batch_stretch_of(const ls_batch_work *work, int64_t chunk,
                         int64_t number, ls_batch_stretch *out) {
  const ls_batch_lines *self = work->self;
  const int64_t begin = chunk * self->chunk;
  const int64_t end = ls_min_i64(begin + self->chunk, self->lines);
  const int64_t line = begin + number * self->run;
  const size_t pitch = (size_t)self->width;
  if (line < end) {
    const int64_t count = ls_min_i64(self->run, end - line);
    *out = (ls_batch_stretch){line * self->width + work->column,
                              {(size_t)count, (size_t)work->columns, pitch}};
    return true;
  }
  // The rows that fill no line come last, after all full runs.
  const int64_t rest = self->rows % self->repeat * self->channels;
  *out =
      (ls_batch_stretch){self->lines * self->width, {1, (size_t)rest, pitch}};
  return rest > 0 && chunk == self->chunks - 1 &&
         number == (end - begin + self->run - 1) / self->run;
}

const void *ls_batch_load(const ls_batch_lines *self, const void *array,
                          const ls_batch_stretch *from, float *room) {
  if (!ls_is_half(self->dtype))
    return (const char *)array + (size_t)from->at * ls_dtype_size(self->dtype);
  const int64_t columns = (int64_t)from->size.columns;
  const uint16_t *in = (const uint16_t *)array + from->at;
  for (size_t i = 0; i < from->size.rows; ++i)
    ls_widen(self->dtype, room + (int64_t)i * columns,
             in + i * from->size.pitch, columns);
  return room;
}

ls_cpu_columns ls_batch_size(const ls_batch_lines *self,
                             const ls_batch_stretch *from) {
  ls_cpu_columns size = from->size;
  if (ls_is_half(self->dtype)) size.pitch = size.columns;
  return size;
}

void *ls_batch_place(const ls_batch_lines *self, void *array,
                     const ls_batch_stretch *target, float *room) {
  if (ls_is_half(self->dtype)) return room;
  return (char *)array + (size_t)target->at * ls_dtype_size(self->dtype);
}

void ls_batch_keep(const ls_batch_lines *self, void *array,
                   const ls_batch_stretch *target, const float *room) {
  if (!ls_is_half(self->dtype)) return;
  const int64_t columns = (int64_t)target->size.columns;
  uint16_t *out = (uint16_t *)array + target->at;
  for (size_t i = 0; i < target->size.rows; ++i)
    ls_narrow(self->dtype, out + i * target->size.pitch,
              room + (int64_t)i * columns, columns);
}

// ---- Sums ------------------------------------------------------------------
// Returns the sums of a chunk, which follow the channels' centers: two per
// channel.
static double *chunk_sums(const ls_batch_lines *self, void *shared,
                          int64_t chunk) {
  return (double *)shared + (1 + 2 * chunk) * self->channels;
}

void ls_batch_clear_sums(const ls_batch_work *work) {
  memset(work->sums, 0, (size_t)work->columns * sizeof(double));
  memset(work->products, 0, (size_t)work->columns * sizeof(double));
}

void ls_batch_store_sums(const ls_batch_work *work, void *shared,
                         int64_t chunk) {
  const ls_batch_lines *self = work->self;
  double *sums = chunk_sums(self, shared, chunk) + work->column;
  double *products = sums + self->channels;
  for (int64_t j = 0; j < work->columns; ++j) {
    if (j >= work->distinct) {
      sums[j % work->distinct] += work->sums[j];
      products[j % work->distinct] += work->products[j];
    } else {
      sums[j] = work->sums[j];
      products[j] = work->products[j];
    }
  }
}

void ls_batch_add_chunks(const ls_batch_work *work, const void *shared) {
  const ls_batch_lines *self = work->self;
  ls_batch_clear_sums(work);
  for (int64_t c = 0; c < self->chunks; ++c) {
    const double *sums =
        (const double *)shared + (1 + 2 * c) * self->channels + work->column;
    for (int64_t j = 0; j < work->distinct; ++j) {
      work->sums[j] += sums[j];
      work->products[j] += sums[self->channels + j];
    }
  }
}
