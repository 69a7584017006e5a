// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization: training, its gradient, and inference.
//
// The two sums of training and of its gradient are two steps: first every chunk
// of lines adds up its part; then the chunks' sums are added and the same
// chunks are written.
//
// The squares are of x minus the channel's first element, so that a variance
// that is small beside the mean is not lost.
#include <math.h>

#include "engine/cpu/kernels/kernel.h"
#include "engine/cpu/kernels/loops.h"

// ---- Lines and tiles --------------------------------------------------------
// The division of an array, rows of channels, into work of batch normalization.
//
// Short rows form lines of `repeat` rows each, so that vectors are full
// whatever the channels are: the smallest number of rows that fill whole
// vectors and 64 elements. A long row is cut into tiles of columns.
//
// Sums over rows go chunk by chunk of lines: within a run of lines each column
// is one chain, in the element type; the runs' sums are added in double, run
// after run, then the line's rows, one after the other. Rows that fill no line
// form a run of their own. The chunks' sums are added in order. Runs and chunks
// depend on the shape alone.
//
// 16-bit floats are widened, computed as f32 and rounded once.

typedef struct batch_lines {
  const ls_cpu_norms *norms;
  ls_dtype dtype;  // Type of x; `wide` is that of all per-channel values.
  ls_dtype wide;
  bool relu;
  double epsilon;
  int64_t rows, channels;
  int64_t repeat, lines, width;  // `width` is the number of elements of a line.
  int64_t tile, tiles;           // Columns of a tile; number of tiles.
  int64_t run, chunk, chunks;    // Lines of a run and of a chunk; number of
                                 // chunks.
  int64_t units, units_per_block;
} batch_lines;

// Scratch of a thread: arrays with a number per column of a tile, and room to
// widen a run of a tile.
typedef struct batch_work {
  const batch_lines *self;
  int64_t unit, end;        // The next unit, and the end of all.
  int64_t chunk;            // Chunk of the current unit.
  bool is_new_tile;         // The current unit is the first of its tile here.
  int64_t column, columns;  // The current tile; -1: none yet.
  int64_t distinct;         // Channels of the tile; the rest repeats them.
  double *sums, *products;
  void *mean, *factor, *shift, *slope, *base;
  float *x, *dy;
} batch_work;

// ---- Numbers ---------------------------------------------------------------
static inline double batch_get(const batch_lines *self, const void *array,
                               int64_t i) {
  return self->wide == LS_DTYPE_F64 ? ((const double *)array)[i]
                                    : (double)((const float *)array)[i];
}

static inline void batch_set(const batch_lines *self, void *array, int64_t i,
                             double value) {
  if (self->wide == LS_DTYPE_F64)
    ((double *)array)[i] = value;
  else
    ((float *)array)[i] = (float)value;
}

// Returns a value rounded as by storing and loading it.
static inline double batch_stored(const batch_lines *self, double value) {
  return self->wide == LS_DTYPE_F64 ? value : (double)(float)value;
}

// A run of a chunk: its first element, and its columns.
typedef struct batch_stretch {
  int64_t at;
  ls_cpu_columns size;
} batch_stretch;

enum { LINE = 64, TILE = 256, RUN = 256, CHUNKS = 64, VECTOR = 16 };

// ---- Division --------------------------------------------------------------
// Fills in the fields that follow from the shape.
static void batch_measure(batch_lines *self, ls_shape shape) {
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
// Return the bytes of scratch per thread, and the work before its first tile.
static size_t batch_scratch(const batch_lines *self) {
  const size_t tile = (size_t)self->tile;
  const size_t widened =
      ls_is_half(self->dtype) ? 2 * sizeof(float) * (size_t)self->run : 0;
  return tile * (2 * sizeof(double) + 5 * ls_dtype_size(self->wide) + widened);
}

static batch_work batch_open(const ls_kernel_call *call, int64_t begin_block,
                             int64_t end_block) {
  const batch_lines *self = call->params;
  const size_t tile = (size_t)self->tile;
  const size_t array = tile * ls_dtype_size(self->wide);
  batch_work work = {
      .self = self,
      .unit = begin_block * self->units_per_block,
      .end = ls_min_i64(end_block * self->units_per_block, self->units),
      .column = -1,
      .sums = call->scratch};
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

// Repeats the tile's channels to all of its columns.
static void batch_repeat(const batch_work *work, void *array) {
  for (int64_t j = work->distinct; j < work->columns; ++j)
    batch_set(work->self, array, j,
              batch_get(work->self, array, j - work->distinct));
}

// ---- Walking ---------------------------------------------------------------
// Moves to the next unit; returns false after the last one. Units go chunk by
// chunk within a tile.
static bool batch_next(batch_work *work) {
  const batch_lines *self = work->self;
  if (work->unit >= work->end) return false;
  const int64_t column = work->unit / self->chunks * self->tile;
  work->chunk = work->unit++ % self->chunks;
  work->is_new_tile = column != work->column;
  work->column = column;
  work->columns = ls_min_i64(self->tile, self->width - column);
  work->distinct = ls_min_i64(work->columns, self->channels);
  return true;
}

// Finds a run of the chunk; returns false if it has no run of that number.
static bool batch_stretch_of(const batch_work *work, int64_t number,
                             batch_stretch *out) {
  const batch_lines *self = work->self;
  const int64_t begin = work->chunk * self->chunk;
  const int64_t end = ls_min_i64(begin + self->chunk, self->lines);
  const int64_t line = begin + number * self->run;
  const size_t pitch = (size_t)self->width;
  if (line < end) {
    const int64_t count = ls_min_i64(self->run, end - line);
    *out = (batch_stretch){line * self->width + work->column,
                           {(size_t)count, (size_t)work->columns, pitch}};
    return true;
  }
  // The rows that fill no line come last, after all full runs.
  const int64_t rest = self->rows % self->repeat * self->channels;
  *out = (batch_stretch){self->lines * self->width, {1, (size_t)rest, pitch}};
  return rest > 0 && work->chunk == self->chunks - 1 &&
         number == (end - begin + self->run - 1) / self->run;
}

// Returns the elements of a run of x or dy, widened into `room` if necessary.
static const void *batch_load(const batch_lines *self, const void *array,
                              const batch_stretch *from, float *room) {
  if (!ls_is_half(self->dtype))
    return (const char *)array + (size_t)from->at * ls_dtype_size(self->dtype);
  const int64_t columns = (int64_t)from->size.columns;
  const uint16_t *in = (const uint16_t *)array + from->at;
  for (size_t i = 0; i < from->size.rows; ++i)
    ls_widen(self->dtype, room + (int64_t)i * columns,
             in + i * from->size.pitch, columns);
  return room;
}

// Returns the shape and pitch of a loaded run.
static ls_cpu_columns batch_size(const batch_lines *self,
                                 const batch_stretch *from) {
  ls_cpu_columns size = from->size;
  if (ls_is_half(self->dtype)) size.pitch = size.columns;
  return size;
}

// Returns the memory in which the results of a run are computed: `room`, or the
// array itself.
static void *batch_place(const batch_lines *self, void *array,
                         const batch_stretch *target, float *room) {
  if (ls_is_half(self->dtype)) return room;
  return (char *)array + (size_t)target->at * ls_dtype_size(self->dtype);
}

// Stores the results of a run in the array.
static void batch_keep(const batch_lines *self, void *array,
                       const batch_stretch *target, const float *room) {
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
static double *chunk_sums(const batch_lines *self, void *shared,
                          int64_t chunk) {
  return (double *)shared + (1 + 2 * chunk) * self->channels;
}

// Begins the sums of a chunk. Shared memory of the two steps: the center of
// each channel, then two sums per channel for each chunk.
static void batch_clear_sums(const batch_work *work) {
  memset(work->sums, 0, (size_t)work->columns * sizeof(double));
  memset(work->products, 0, (size_t)work->columns * sizeof(double));
}

// Adds the rows of a line, and stores the sums of the chunk.
static void batch_store_sums(const batch_work *work, void *shared) {
  const batch_lines *self = work->self;
  double *sums = chunk_sums(self, shared, work->chunk) + work->column;
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

// Adds up the tile's sums over all chunks, in order.
static void batch_add_chunks(const batch_work *work, const void *shared) {
  const batch_lines *self = work->self;
  batch_clear_sums(work);
  for (int64_t c = 0; c < self->chunks; ++c) {
    const double *sums =
        (const double *)shared + (1 + 2 * c) * self->channels + work->column;
    for (int64_t j = 0; j < work->distinct; ++j) {
      work->sums[j] += sums[j];
      work->products[j] += sums[self->channels + j];
    }
  }
}

// ---- Training --------------------------------------------------------------
static void find_centers(const batch_work *work, const void *x,
                         double *centers) {
  const batch_lines *self = work->self;
  const batch_stretch first = {work->column, {1, (size_t)work->distinct, 0}};
  const void *from =
      self->rows > 0 ? batch_load(self, x, &first, work->x) : work->mean;
  for (int64_t j = 0; j < work->distinct; ++j) {
    const double center = self->rows > 0 ? batch_get(self, from, j) : 0;
    batch_set(self, work->mean, j, center);
    if (centers != NULL) centers[work->column + j] = center;
  }
  batch_repeat(work, work->mean);
}

static void moments_loop(const ls_kernel_call *call, int64_t begin_block,
                         int64_t end_block) {
  const batch_lines *self = call->params;
  batch_work work = batch_open(call, begin_block, end_block);
  while (batch_next(&work)) {
    if (work.is_new_tile)
      find_centers(&work, call->in[0], work.chunk == 0 ? call->out[0] : NULL);
    batch_clear_sums(&work);
    batch_stretch at;
    for (int64_t i = 0; batch_stretch_of(&work, i, &at); ++i)
      self->norms->moments(work.sums, work.products,
                           batch_load(self, call->in[0], &at, work.x),
                           work.mean, batch_size(self, &at));
    batch_store_sums(&work, call->out[0]);
  }
}

// Finds factor and shift of a channel, z = x factor + shift, equally for
// training, its gradient and inference: from the mean and variance as stored.
static double set_line(const batch_work *work, int64_t j, double scale,
                       double offset, double mean, double variance) {
  const double inverse = 1.0 / sqrt(variance + work->self->epsilon);
  batch_set(work->self, work->mean, j, mean);
  batch_set(work->self, work->factor, j, scale * inverse);
  batch_set(work->self, work->shift, j, offset - mean * (scale * inverse));
  return inverse;
}

// Computes the moments from the sums; writes them if `wanted`.
static void find_moments(const batch_work *work, const ls_kernel_call *call,
                         bool wanted) {
  const batch_lines *self = work->self;
  const double *centers = call->in[3];
  const double count = (double)ls_max_i64(1, self->rows);
  batch_add_chunks(work, call->in[3]);
  for (int64_t j = 0; j < work->distinct; ++j) {
    const int64_t channel = work->column + j;
    const double mean = work->sums[j] / count;
    double variance = work->products[j] / count - mean * mean;
    if (variance < 0) variance = 0;
    const double center = batch_stored(self, centers[channel] + mean);
    variance = batch_stored(self, variance);
    set_line(work, j, batch_get(self, call->in[1], channel),
             batch_get(self, call->in[2], channel), center, variance);
    if (!wanted) continue;
    batch_set(self, call->out[1], channel, center);
    batch_set(self, call->out[2], channel, variance);
  }
  batch_repeat(work, work->factor);
  batch_repeat(work, work->shift);
}

static void normalize_unit(const batch_work *work, const ls_kernel_call *call) {
  const batch_lines *self = work->self;
  const ls_cpu_batch_norm norm = {
      .factor = work->factor, .shift = work->shift, .relu = self->relu};
  batch_stretch at;
  for (int64_t i = 0; batch_stretch_of(work, i, &at); ++i) {
    self->norms->normalize(batch_place(self, call->out[0], &at, work->x),
                           batch_load(self, call->in[0], &at, work->x), &norm,
                           batch_size(self, &at));
    batch_keep(self, call->out[0], &at, work->x);
  }
}

static void normalize_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  batch_work work = batch_open(call, begin_block, end_block);
  while (batch_next(&work)) {
    if (work.is_new_tile) find_moments(&work, call, work.chunk == 0);
    normalize_unit(&work, call);
  }
}

// ---- Inference -------------------------------------------------------------
static void inference_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const batch_lines *self = call->params;
  batch_work work = batch_open(call, begin_block, end_block);
  while (batch_next(&work)) {
    for (int64_t j = 0; work.is_new_tile && j < work.distinct; ++j) {
      const int64_t channel = work.column + j;
      set_line(&work, j, batch_get(self, call->in[1], channel),
               batch_get(self, call->in[2], channel),
               batch_get(self, call->in[3], channel),
               batch_get(self, call->in[4], channel));
    }
    if (work.is_new_tile) {
      batch_repeat(&work, work.factor);
      batch_repeat(&work, work.shift);
    }
    normalize_unit(&work, call);
  }
}

// ---- Gradient --------------------------------------------------------------
// Operands: dy, x, scale, offset, mean, variance.
static double gradient_line(const batch_work *work, const ls_kernel_call *call,
                            int64_t j) {
  const int64_t channel = work->column + j;
  return set_line(work, j, batch_get(work->self, call->in[2], channel),
                  batch_get(work->self, call->in[3], channel),
                  batch_get(work->self, call->in[4], channel),
                  batch_get(work->self, call->in[5], channel));
}

static void repeat_lines(const batch_work *work) {
  batch_repeat(work, work->mean);
  batch_repeat(work, work->factor);
  batch_repeat(work, work->shift);
}

static ls_cpu_batch_norm norm_of(const batch_work *work) {
  return (ls_cpu_batch_norm){.mean = work->mean,
                             .factor = work->factor,
                             .shift = work->shift,
                             .slope = work->slope,
                             .base = work->base,
                             .relu = work->self->relu};
}

static void gradient_sum_loop(const ls_kernel_call *call, int64_t begin_block,
                              int64_t end_block) {
  const batch_lines *self = call->params;
  batch_work work = batch_open(call, begin_block, end_block);
  const ls_cpu_batch_norm norm = norm_of(&work);
  while (batch_next(&work)) {
    if (work.is_new_tile) {
      for (int64_t j = 0; j < work.distinct; ++j)
        gradient_line(&work, call, j);
      repeat_lines(&work);
    }
    batch_clear_sums(&work);
    batch_stretch at;
    for (int64_t i = 0; batch_stretch_of(&work, i, &at); ++i)
      self->norms->gradient_moments(work.sums, work.products,
                                    batch_load(self, call->in[0], &at, work.dy),
                                    batch_load(self, call->in[1], &at, work.x),
                                    &norm, batch_size(self, &at));
    batch_store_sums(&work, call->out[0]);
  }
}

// Computes, with d the gradient of z, n rows and r = (x - mean) inverse: dscale
// = sum(d r), doffset = sum(d), dx = factor (d - doffset / n - r dscale / n).
static void find_slopes(const batch_work *work, const ls_kernel_call *call,
                        bool wanted) {
  const batch_lines *self = work->self;
  const double count = (double)ls_max_i64(1, self->rows);
  batch_add_chunks(work, call->in[6]);
  for (int64_t j = 0; j < work->distinct; ++j) {
    const int64_t channel = work->column + j;
    const double inverse = gradient_line(work, call, j);
    const double factor = batch_get(self, call->in[2], channel) * inverse;
    const double dscale = work->products[j] * inverse;
    batch_set(self, work->slope, j, -factor * inverse * (dscale / count));
    batch_set(self, work->base, j, -factor * (work->sums[j] / count));
    if (!wanted) continue;
    batch_set(self, call->out[1], channel, dscale);
    batch_set(self, call->out[2], channel, work->sums[j]);
  }
  repeat_lines(work);
  batch_repeat(work, work->slope);
  batch_repeat(work, work->base);
}

static void gradient_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const batch_lines *self = call->params;
  batch_work work = batch_open(call, begin_block, end_block);
  const ls_cpu_batch_norm norm = norm_of(&work);
  while (batch_next(&work)) {
    if (work.is_new_tile) find_slopes(&work, call, work.chunk == 0);
    batch_stretch at;
    for (int64_t i = 0; batch_stretch_of(&work, i, &at); ++i) {
      self->norms->gradient(batch_place(self, call->out[0], &at, work.dy),
                            batch_load(self, call->in[0], &at, work.dy),
                            batch_load(self, call->in[1], &at, work.x), &norm,
                            batch_size(self, &at));
      batch_keep(self, call->out[0], &at, work.dy);
    }
  }
}

// ---- Plan ------------------------------------------------------------------
// `x` is the number of the operand that is normalized.
static ls_status plan_batch_norm(ls_kernel_plan *plan, size_t x,
                                 batch_lines **out_self) {
  const ls_type type = plan->in[x];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, batch_lines, self);
  self->dtype = type.dtype;
  self->wide = type.dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  self->norms = type.dtype == LS_DTYPE_F64 ? plan->kernels->norms_f64
                                           : plan->kernels->norms_f32;
  self->relu = ls_node_attr(plan->node, LS_ATTR_ID_ACTIVATION) != NULL;
  self->epsilon = ls_node_attr(plan->node, LS_ATTR_ID_EPSILON)->as.f;
  batch_measure(self, type.shape);
  plan->params = self;
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  plan->first_blocks = plan->blocks;
  plan->shared =
      (size_t)(self->channels * (1 + 2 * self->chunks)) * sizeof(double);
  plan->scratch = batch_scratch(self);
  *out_self = self;
  return ls_ok();
}

ls_status kernel_batch_norm(ls_kernel_plan *plan) {
  batch_lines *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 0, &self));
  plan->first = moments_loop;
  plan->loop = normalize_loop;
  plan->in_place = 1;
  return ls_ok();
}

ls_status kernel_batch_norm_grad(ls_kernel_plan *plan) {
  batch_lines *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 1, &self));
  plan->first = gradient_sum_loop;
  plan->loop = gradient_loop;
  plan->in_place = 1 | 2;
  return ls_ok();
}

ls_status kernel_batch_norm_inference(ls_kernel_plan *plan) {
  batch_lines *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 0, &self));
  plan->loop = inference_loop;
  plan->in_place = 1;
  plan->shared = 0;
  return ls_ok();
}
