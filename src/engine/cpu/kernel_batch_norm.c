// SPDX-License-Identifier: Apache-2.0
//
// Batch normalization: training, its gradient, and inference.
//
// An array is rows of channels. Where a row is short, `repeat` of them lie side
// by side in a line, so that vectors are full whatever the channels are: the
// smallest number of rows that fill whole vectors and 64 elements. A long row
// is cut into tiles of columns.
//
// The two sums of training and of its gradient are two steps. First every chunk
// of lines adds up its part: within a run of lines each column is one chain,
// in the element type; the runs' sums are added in double, run after run, then
// the line's rows, one after the other. Rows that fill no line are a run of
// their own. Then the chunks' sums are added in order, and the same chunks are
// written. Runs and chunks depend on the shape alone.
//
// The squares are of x minus the channel's first element, so that a variance
// that is small beside the mean is not lost.
//
// 16-bit floats are widened, computed as f32 and rounded once.
#include <math.h>

#include "engine/cpu/kernel_list.h"
#include "engine/cpu/loops.h"

enum { LINE = 64, TILE = 256, RUN = 256, CHUNKS = 64, VECTOR = 16 };

typedef struct batch_params {
  const ls_cpu_norms *norms;
  ls_dtype dtype;  // Of x; `wide` of all that is one number a channel.
  ls_dtype wide;
  bool relu;
  double epsilon;
  int64_t rows, channels;
  int64_t repeat, lines, width;  // A line is `width` elements.
  int64_t tile, tiles;           // Columns.
  int64_t run, chunk, chunks;    // Lines.
  int64_t units, units_per_block;
} batch_params;

// A thread's scratch: one number a column of a tile each, and room to widen a
// run of a tile.
typedef struct batch_work {
  const batch_params *self;
  int64_t column, columns;  // The tile; -1: none yet.
  int64_t distinct;         // Its channels; the rest repeats them.
  double *sums, *products;
  void *mean, *factor, *shift, *slope, *base;
  float *x, *dy;
} batch_work;

// ---- Numbers ---------------------------------------------------------------
static inline double get(const batch_params *self, const void *array,
                         int64_t i) {
  return self->wide == LS_DTYPE_F64 ? ((const double *)array)[i]
                                    : (double)((const float *)array)[i];
}

static inline void set(const batch_params *self, void *array, int64_t i,
                       double value) {
  if (self->wide == LS_DTYPE_F64)
    ((double *)array)[i] = value;
  else
    ((float *)array)[i] = (float)value;
}

// What storing it makes of a value.
static inline double stored(const batch_params *self, double value) {
  return self->wide == LS_DTYPE_F64 ? value : (double)(float)value;
}

static size_t scratch_size(const batch_params *self) {
  const size_t tile = (size_t)self->tile;
  const size_t widened =
      ls_is_half(self->dtype) ? 2 * sizeof(float) * (size_t)self->run : 0;
  return tile * (2 * sizeof(double) + 5 * ls_dtype_size(self->wide) + widened);
}

static batch_work open_work(const batch_params *self, void *scratch) {
  const size_t tile = (size_t)self->tile;
  const size_t array = tile * ls_dtype_size(self->wide);
  batch_work work = {.self = self, .column = -1};
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

// Repeats the tile's channels to all of its columns.
static void repeat_channels(const batch_work *work, void *array) {
  for (int64_t j = work->distinct; j < work->columns; ++j)
    set(work->self, array, j, get(work->self, array, j - work->distinct));
}

// ---- Walking ---------------------------------------------------------------
// Units go chunk by chunk within a tile. True if the tile is another one.
static bool enter_unit(batch_work *work, int64_t unit, int64_t *out_chunk) {
  const batch_params *self = work->self;
  const int64_t column = unit / self->chunks * self->tile;
  *out_chunk = unit % self->chunks;
  if (column == work->column) return false;
  work->column = column;
  work->columns = ls_min_i64(self->tile, self->width - column);
  work->distinct = ls_min_i64(work->columns, self->channels);
  return true;
}

// A run of a chunk: its first element, and its columns.
typedef struct stretch {
  int64_t at;
  ls_cpu_columns size;
} stretch;

static bool stretch_of(const batch_work *work, int64_t chunk, int64_t number,
                       stretch *out) {
  const batch_params *self = work->self;
  const int64_t begin = chunk * self->chunk;
  const int64_t end = ls_min_i64(begin + self->chunk, self->lines);
  const int64_t line = begin + number * self->run;
  const size_t pitch = (size_t)self->width;
  if (line < end) {
    const int64_t count = ls_min_i64(self->run, end - line);
    *out = (stretch){line * self->width + work->column,
                     {(size_t)count, (size_t)work->columns, pitch}};
    return true;
  }
  // The rows that fill no line come last, after as many runs as there are.
  const int64_t rest = self->rows % self->repeat * self->channels;
  *out = (stretch){self->lines * self->width, {1, (size_t)rest, pitch}};
  return rest > 0 && chunk == self->chunks - 1 &&
         number == (end - begin + self->run - 1) / self->run;
}

// The elements of a stretch of x or dy, widened into `room` if they must be.
static const void *load(const batch_params *self, const void *array,
                        const stretch *from, float *room) {
  if (!ls_is_half(self->dtype))
    return (const char *)array + (size_t)from->at * ls_dtype_size(self->dtype);
  const int64_t columns = (int64_t)from->size.columns;
  const uint16_t *in = (const uint16_t *)array + from->at;
  for (size_t i = 0; i < from->size.rows; ++i)
    ls_widen(self->dtype, room + (int64_t)i * columns,
             in + i * from->size.pitch, columns);
  return room;
}

// How a loaded stretch lies.
static ls_cpu_columns size_of(const batch_params *self, const stretch *from) {
  ls_cpu_columns size = from->size;
  if (ls_is_half(self->dtype)) size.pitch = size.columns;
  return size;
}

// Where the results of a stretch are computed: in `room`, or where they stay.
static void *place(const batch_params *self, void *array, const stretch *to,
                   float *room) {
  if (ls_is_half(self->dtype)) return room;
  return (char *)array + (size_t)to->at * ls_dtype_size(self->dtype);
}

static void keep(const batch_params *self, void *array, const stretch *to,
                 const float *room) {
  if (!ls_is_half(self->dtype)) return;
  const int64_t columns = (int64_t)to->size.columns;
  uint16_t *out = (uint16_t *)array + to->at;
  for (size_t i = 0; i < to->size.rows; ++i)
    ls_narrow(self->dtype, out + i * to->size.pitch,
              room + (int64_t)i * columns, columns);
}

// ---- What is shared --------------------------------------------------------
// The channels' centers, then the two sums of each chunk.
static double *chunk_sums(const batch_params *self, void *shared,
                          int64_t chunk) {
  return (double *)shared + (1 + 2 * chunk) * self->channels;
}

static void clear_sums(const batch_work *work) {
  memset(work->sums, 0, (size_t)work->columns * sizeof(double));
  memset(work->products, 0, (size_t)work->columns * sizeof(double));
}

// Adds the rows of a line, and leaves the sums in the chunk's place.
static void store_sums(const batch_work *work, void *shared, int64_t chunk) {
  const batch_params *self = work->self;
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

// The tile's sums over all chunks, in order.
static void add_chunks(const batch_work *work, const void *shared) {
  const batch_params *self = work->self;
  clear_sums(work);
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
  const batch_params *self = work->self;
  const stretch first = {work->column, {1, (size_t)work->distinct, 0}};
  const void *from =
      self->rows > 0 ? load(self, x, &first, work->x) : work->mean;
  for (int64_t j = 0; j < work->distinct; ++j) {
    const double center = self->rows > 0 ? get(self, from, j) : 0;
    set(self, work->mean, j, center);
    if (centers != NULL) centers[work->column + j] = center;
  }
  repeat_channels(work, work->mean);
}

static void sum_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const batch_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  batch_work work = open_work(self, call->scratch);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (enter_unit(&work, u, &chunk))
      find_centers(&work, call->in[0], chunk == 0 ? call->out[0] : NULL);
    clear_sums(&work);
    stretch at;
    for (int64_t i = 0; stretch_of(&work, chunk, i, &at); ++i)
      self->norms->moments(work.sums, work.products,
                           load(self, call->in[0], &at, work.x), work.mean,
                           size_of(self, &at));
    store_sums(&work, call->out[0], chunk);
  }
}

// z = x factor + shift of a channel, as training, its gradient and inference
// compute it: from the mean and variance as they are stored.
static double set_line(const batch_work *work, int64_t j, double scale,
                       double offset, double mean, double variance) {
  const double inverse = 1.0 / sqrt(variance + work->self->epsilon);
  set(work->self, work->mean, j, mean);
  set(work->self, work->factor, j, scale * inverse);
  set(work->self, work->shift, j, offset - mean * (scale * inverse));
  return inverse;
}

// The moments from the sums; written if they are wanted.
static void find_moments(const batch_work *work, const ls_kernel_call *call,
                         bool wanted) {
  const batch_params *self = work->self;
  const double *centers = call->in[3];
  const double count = (double)ls_max_i64(1, self->rows);
  add_chunks(work, call->in[3]);
  for (int64_t j = 0; j < work->distinct; ++j) {
    const int64_t channel = work->column + j;
    const double mean = work->sums[j] / count;
    double variance = work->products[j] / count - mean * mean;
    if (variance < 0) variance = 0;
    const double center = stored(self, centers[channel] + mean);
    variance = stored(self, variance);
    set_line(work, j, get(self, call->in[1], channel),
             get(self, call->in[2], channel), center, variance);
    if (!wanted) continue;
    set(self, call->out[1], channel, center);
    set(self, call->out[2], channel, variance);
  }
  repeat_channels(work, work->factor);
  repeat_channels(work, work->shift);
}

static void normalize_unit(const batch_work *work, const ls_kernel_call *call,
                           int64_t chunk) {
  const batch_params *self = work->self;
  const ls_cpu_batch_norm norm = {
      .factor = work->factor, .shift = work->shift, .relu = self->relu};
  stretch at;
  for (int64_t i = 0; stretch_of(work, chunk, i, &at); ++i) {
    self->norms->normalize(place(self, call->out[0], &at, work->x),
                           load(self, call->in[0], &at, work->x), &norm,
                           size_of(self, &at));
    keep(self, call->out[0], &at, work->x);
  }
}

static void normalize_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const batch_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  batch_work work = open_work(self, call->scratch);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (enter_unit(&work, u, &chunk)) find_moments(&work, call, chunk == 0);
    normalize_unit(&work, call, chunk);
  }
}

// ---- Inference -------------------------------------------------------------
static void inference_loop(const ls_kernel_call *call, int64_t begin_block,
                           int64_t end_block) {
  const batch_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  batch_work work = open_work(self, call->scratch);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    const bool entered = enter_unit(&work, u, &chunk);
    for (int64_t j = 0; entered && j < work.distinct; ++j) {
      const int64_t channel = work.column + j;
      set_line(&work, j, get(self, call->in[1], channel),
               get(self, call->in[2], channel), get(self, call->in[3], channel),
               get(self, call->in[4], channel));
    }
    if (entered) {
      repeat_channels(&work, work.factor);
      repeat_channels(&work, work.shift);
    }
    normalize_unit(&work, call, chunk);
  }
}

// ---- Gradient --------------------------------------------------------------
// Operands: dy, x, scale, offset, mean, variance.
static double gradient_line(const batch_work *work, const ls_kernel_call *call,
                            int64_t j) {
  const int64_t channel = work->column + j;
  return set_line(work, j, get(work->self, call->in[2], channel),
                  get(work->self, call->in[3], channel),
                  get(work->self, call->in[4], channel),
                  get(work->self, call->in[5], channel));
}

static void repeat_lines(const batch_work *work) {
  repeat_channels(work, work->mean);
  repeat_channels(work, work->factor);
  repeat_channels(work, work->shift);
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
  const batch_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  batch_work work = open_work(self, call->scratch);
  const ls_cpu_batch_norm norm = norm_of(&work);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (enter_unit(&work, u, &chunk)) {
      for (int64_t j = 0; j < work.distinct; ++j)
        gradient_line(&work, call, j);
      repeat_lines(&work);
    }
    clear_sums(&work);
    stretch at;
    for (int64_t i = 0; stretch_of(&work, chunk, i, &at); ++i)
      self->norms->gradient_moments(
          work.sums, work.products, load(self, call->in[0], &at, work.dy),
          load(self, call->in[1], &at, work.x), &norm, size_of(self, &at));
    store_sums(&work, call->out[0], chunk);
  }
}

// With d the gradient of z, n rows and r = (x - mean) inverse:
//   dscale = sum(d r), doffset = sum(d)
//   dx = factor (d - doffset / n - r dscale / n)
static void find_slopes(const batch_work *work, const ls_kernel_call *call,
                        bool wanted) {
  const batch_params *self = work->self;
  const double count = (double)ls_max_i64(1, self->rows);
  add_chunks(work, call->in[6]);
  for (int64_t j = 0; j < work->distinct; ++j) {
    const int64_t channel = work->column + j;
    const double inverse = gradient_line(work, call, j);
    const double factor = get(self, call->in[2], channel) * inverse;
    const double dscale = work->products[j] * inverse;
    set(self, work->slope, j, -factor * inverse * (dscale / count));
    set(self, work->base, j, -factor * (work->sums[j] / count));
    if (!wanted) continue;
    set(self, call->out[1], channel, dscale);
    set(self, call->out[2], channel, work->sums[j]);
  }
  repeat_lines(work);
  repeat_channels(work, work->slope);
  repeat_channels(work, work->base);
}

static void gradient_loop(const ls_kernel_call *call, int64_t begin_block,
                          int64_t end_block) {
  const batch_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  batch_work work = open_work(self, call->scratch);
  const ls_cpu_batch_norm norm = norm_of(&work);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    int64_t chunk = 0;
    if (enter_unit(&work, u, &chunk)) find_slopes(&work, call, chunk == 0);
    stretch at;
    for (int64_t i = 0; stretch_of(&work, chunk, i, &at); ++i) {
      self->norms->gradient(place(self, call->out[0], &at, work.dy),
                            load(self, call->in[0], &at, work.dy),
                            load(self, call->in[1], &at, work.x), &norm,
                            size_of(self, &at));
      keep(self, call->out[0], &at, work.dy);
    }
  }
}

// ---- Plan ------------------------------------------------------------------
static int64_t greatest_divisor(int64_t a, int64_t b) {
  while (b != 0) {
    const int64_t rest = a % b;
    a = b;
    b = rest;
  }
  return a;
}

static void measure(batch_params *self, ls_shape shape) {
  const int32_t last = shape.rank - 1;
  self->channels = shape.dim[last];
  self->rows = 1;
  for (int32_t i = 0; i < last; ++i)
    self->rows *= shape.dim[i];
  self->repeat = 1;
  if (self->channels > 0 && self->channels < LINE) {
    const int64_t whole =
        VECTOR / greatest_divisor(VECTOR, self->channels) * self->channels;
    self->repeat = (LINE + whole - 1) / whole * whole / self->channels;
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

// `x` is the operand that is normalized.
static ls_status plan_batch_norm(ls_kernel_plan *plan, size_t x,
                                 batch_params **out_self) {
  const ls_type type = plan->in[x];
  if (!ls_dtype_is_float(type.dtype))
    return ls_kernel_unsupported(plan, type.dtype);
  batch_params *self = ls_arena_new(plan->arena, batch_params);
  if (self == NULL) return ls_out_of_memory();
  self->dtype = type.dtype;
  self->wide = type.dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  self->norms = type.dtype == LS_DTYPE_F64 ? plan->kernels->norms_f64
                                           : plan->kernels->norms_f32;
  self->relu = ls_node_attr(plan->node, "activation") != NULL;
  self->epsilon = ls_node_attr(plan->node, "epsilon")->as.f;
  measure(self, type.shape);
  plan->params = self;
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  plan->first_blocks = plan->blocks;
  plan->shared =
      (size_t)(self->channels * (1 + 2 * self->chunks)) * sizeof(double);
  plan->scratch = scratch_size(self);
  *out_self = self;
  return ls_ok();
}

ls_status kernel_batch_norm(ls_kernel_plan *plan) {
  batch_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 0, &self));
  plan->first = sum_loop;
  plan->loop = normalize_loop;
  plan->in_place = 1;
  return ls_ok();
}

ls_status kernel_batch_norm_grad(ls_kernel_plan *plan) {
  batch_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 1, &self));
  plan->first = gradient_sum_loop;
  plan->loop = gradient_loop;
  plan->in_place = 1 | 2;
  return ls_ok();
}

ls_status kernel_batch_norm_inference(ls_kernel_plan *plan) {
  batch_params *self = NULL;
  LS_RETURN_IF_ERROR(plan_batch_norm(plan, 0, &self));
  plan->loop = inference_loop;
  plan->in_place = 1;
  plan->shared = 0;
  return ls_ok();
}
