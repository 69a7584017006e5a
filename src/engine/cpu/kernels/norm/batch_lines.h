// SPDX-License-Identifier: Apache-2.0
//
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
#ifndef LS_ENGINE_CPU_KERNELS_NORM_BATCH_LINES_H_
#define LS_ENGINE_CPU_KERNELS_NORM_BATCH_LINES_H_

#include "engine/cpu/kernels/loops.h"

typedef struct ls_batch_lines {
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
} ls_batch_lines;

// Scratch of a thread: arrays with a number per column of a tile, and room to
// widen a run of a tile.
typedef struct ls_batch_work {
  const ls_batch_lines *self;
  int64_t column, columns;  // The current tile; -1: none yet.
  int64_t distinct;         // Channels of the tile; the rest repeats them.
  double *sums, *products;
  void *mean, *factor, *shift, *slope, *base;
  float *x, *dy;
} ls_batch_work;

// Fills in the fields that follow from the shape.
void ls_batch_measure(ls_batch_lines *self, ls_shape shape);
// Return the bytes of scratch per thread, and the work before its first tile.
size_t ls_batch_scratch(const ls_batch_lines *self);
ls_batch_work ls_batch_open(const ls_batch_lines *self, void *scratch);

// ---- Numbers ---------------------------------------------------------------
static inline double ls_batch_get(const ls_batch_lines *self, const void *array,
                                  int64_t i) {
  return self->wide == LS_DTYPE_F64 ? ((const double *)array)[i]
                                    : (double)((const float *)array)[i];
}

static inline void ls_batch_set(const ls_batch_lines *self, void *array,
                                int64_t i, double value) {
  if (self->wide == LS_DTYPE_F64)
    ((double *)array)[i] = value;
  else
    ((float *)array)[i] = (float)value;
}

// Returns a value rounded as by storing and loading it.
static inline double ls_batch_stored(const ls_batch_lines *self, double value) {
  return self->wide == LS_DTYPE_F64 ? value : (double)(float)value;
}

// Repeats the tile's channels to all of its columns.
void ls_batch_repeat(const ls_batch_work *work, void *array);

// ---- Walking ---------------------------------------------------------------
// Moves to a unit; units go chunk by chunk within a tile. Returns true if the
// tile is another one.
bool ls_batch_enter(ls_batch_work *work, int64_t unit, int64_t *out_chunk);

// A run of a chunk: its first element, and its columns.
typedef struct ls_batch_stretch {
  int64_t at;
  ls_cpu_columns size;
} ls_batch_stretch;

// Finds a run of a chunk; returns false if the chunk has no run of that number.
bool ls_batch_stretch_of(const ls_batch_work *work, int64_t chunk,
                         int64_t number, ls_batch_stretch *out);
// Returns the elements of a run of x or dy, widened into `room` if necessary.
const void *ls_batch_load(const ls_batch_lines *self, const void *array,
                          const ls_batch_stretch *from, float *room);
// Returns the shape and pitch of a loaded run.
ls_cpu_columns ls_batch_size(const ls_batch_lines *self,
                             const ls_batch_stretch *from);
// Returns the memory in which the results of a run are computed: `room`, or the
// array itself.
void *ls_batch_place(const ls_batch_lines *self, void *array,
                     const ls_batch_stretch *target, float *room);
// Stores the results of a run in the array.
void ls_batch_keep(const ls_batch_lines *self, void *array,
                   const ls_batch_stretch *target, const float *room);

// ---- Sums ------------------------------------------------------------------
// Shared memory of the two steps: the center of each channel, then two sums per
// channel for each chunk. ls_batch_clear_sums begins a chunk.
void ls_batch_clear_sums(const ls_batch_work *work);
// Adds the rows of a line, and stores the sums of the chunk.
void ls_batch_store_sums(const ls_batch_work *work, void *shared,
                         int64_t chunk);
// Adds up the tile's sums over all chunks, in order.
void ls_batch_add_chunks(const ls_batch_work *work, const void *shared);

#endif  // LS_ENGINE_CPU_KERNELS_NORM_BATCH_LINES_H_
