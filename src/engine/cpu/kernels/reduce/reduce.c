// SPDX-License-Identifier: Apache-2.0
//
// Sums, maxima and minima over any axes.
//
// The order of a sum depends on the shape and the axes alone. Dimensions of
// size 1 are left out, and adjacent dimensions that are both reduced, or both
// kept, are joined. Then
//   - if the innermost dimension is reduced, the reduced elements of an output
//     in row order are cut into pieces of PIECE; those of a piece go to 16
//     partial sums from 0, element i to sum i mod 16; sum j then takes in sum
//     j + 8, j + 4, j + 2, j + 1; and the sums of the pieces are added in
//     order;
//   - otherwise they are rows of columns: along the innermost reduced dimension
//     each CHAIN rows are added one by one, from 0, and these chains' sums are
//     added in row order. If outputs are few, chains are summed in parallel, in
//     a step of their own.
// Runs of at most 16 elements are reduced side by side: by the table, or
// transposed, so that each partial sum is a row. Products go in the same order.
// Integers wrap around. 16-bit floats are summed in f32 and rounded once.
// Maxima and minima are NaN if an element is. Without elements a sum is 0, a
// product 1, a maximum the least number.
//
// Four streams, which are pieces of one output or of several, are reduced at a
// time: the additions of one have to wait for each other.
#include "engine/cpu/kernels/index.h"
#include "engine/cpu/kernels/reduce/short_rows.h"

enum { LANES = LS_REDUCE_LANES, STREAMS = LS_REDUCE_STREAMS };
enum { PIECE = 4096, CHAIN = 512, COLUMNS = 128 };
// A reduction of columns with fewer blocks than FEW_BLOCKS and at least
// MANY_CHAINS chains takes two steps.
enum { FEW_BLOCKS = 8, MANY_CHAINS = 2 };
// Elements that are packed or widened at a time, and bytes from one stream's to
// the next, so that no two alias.
enum { CHUNK = 512, CHUNK_BYTES = CHUNK * 8 + 2 * LS_CACHE_LINE };

// Declares room for `count` accumulators of any type.
#define ACCUMULATORS(name, count)                                              \
  _Alignas(LS_CACHE_LINE) unsigned char name[(count) * sizeof(uint64_t)]

typedef struct reduce_params {
  ls_reducer reduce;
  size_t element;  // Bytes of an element of the arrays.
  ls_dtype half;   // f16 or bf16 (reduced in f32), or NONE.
  // Outputs; for columns without the innermost dimension.
  ls_strided_dims kept;
  int64_t total;  // Elements of the array.
  int64_t units, units_per_block;
  // Runs: elements and pieces of each; how they are packed, if they are not
  // contiguous.
  int64_t count, pieces;
  const ls_elementwise *packed;
  // Columns: the reduced dimensions, except for the innermost one, and that.
  ls_strided_dims reduced;
  int64_t run, pitch;
  int64_t columns, column_tiles;
  int64_t chains;  // Chains per column.
} reduce_params;

static inline const char *element_at(const reduce_params *self, const void *in,
                                     int64_t index) {
  return (const char *)in + index * (int64_t)self->element;
}

static void store_results(const reduce_params *self, void *out, int64_t at,
                          const void *sums, int64_t count) {
  char *target = (char *)out + (size_t)at * self->element;
  if (self->half != LS_DTYPE_NONE)
    ls_narrow(self->half, (uint16_t *)(void *)target, sums, count);
  else
    memcpy(target, sums, (size_t)count * self->element);
}

// ---- Runs ------------------------------------------------------------------
// Elements of an output, from element `at` on.
typedef struct stream {
  const char *output;
  int64_t at;
} stream;

// Returns true if runs are read where they are.
static bool is_direct(const reduce_params *self) {
  return self->packed == NULL && self->half == LS_DTYPE_NONE;
}

// Returns `count` elements of a stream, in the type of the accumulators; `room`
// has CHUNK_BYTES for them.
static const void *load_stream(const reduce_params *self, const stream *from,
                               int64_t at, int64_t count, char *room) {
  const bool widens = self->half != LS_DTYPE_NONE;
  uint16_t halves[CHUNK];
  const char *elements = from->output + (size_t)(from->at + at) * self->element;
  if (self->packed != NULL) {
    elements = widens ? (const char *)halves : room;
    ls_move(self->packed, widens ? (void *)halves : room, from->output,
            from->at + at, count);
  }
  if (!widens) return elements;
  ls_widen(self->half, (float *)(void *)room, (const void *)elements, count);
  return room;
}

// Reduces `length` elements of each of `n` streams to a result each.
static void reduce_streams(const reduce_params *self, void *results,
                           const stream *streams, int64_t n, int64_t length,
                           char *room) {
  ACCUMULATORS(sums, STREAMS * LANES);
  const ls_reducer *reduce = &self->reduce;
  int64_t count = is_direct(self) ? length : CHUNK;
  reduce->fill(sums, STREAMS * LANES);
  for (int64_t k = 0; k < length; k += count) {
    const void *in[STREAMS];
    count = ls_min_i64(count, length - k);
    for (int64_t i = 0; i < n; ++i)
      in[i] = load_stream(self, &streams[i], k, count, room + i * CHUNK_BYTES);
    reduce->lanes(sums, in, n, count / LANES, LANES, count % LANES);
  }
  reduce->fold(results, sums, n);
}

static int64_t length_of(const reduce_params *self, int64_t piece) {
  return ls_min_i64(PIECE, self->count - piece * PIECE);
}

// Writes a result for each unit, which is a piece of an output.
static void run_loop(const ls_kernel_call *call, int64_t begin_block,
                     int64_t end_block) {
  const reduce_params *self = call->params;
  const int64_t begin = begin_block * self->units_per_block;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  if (begin >= end) return;
  if (is_direct(self) && self->pieces == 1) {  // Outputs are side by side.
    self->reduce.runs((char *)call->out[0] + (size_t)begin * self->element,
                      element_at(self, call->in[0], begin * self->count),
                      end - begin, self->count);
    return;
  }
  const bool narrows = self->half != LS_DTYPE_NONE && self->pieces == 1;
  const size_t size = narrows ? self->element : self->reduce.size;
  int64_t piece = begin % self->pieces;
  ls_walk output = ls_walk_at(&self->kept, begin / self->pieces);
  for (int64_t u = begin, n = 0; u < end; u += n) {
    stream streams[STREAMS];
    const int64_t length = length_of(self, piece);
    for (n = 0; n < STREAMS && u + n < end && length_of(self, piece) == length;
         ++n) {
      streams[n] =
          (stream){element_at(self, call->in[0], output.offset), piece * PIECE};
      if (++piece < self->pieces) continue;
      piece = 0;
      ls_walk_next(&output, &self->kept);
    }
    char *result = (char *)call->out[0] + (size_t)u * size;
    float wide[STREAMS];
    reduce_streams(self, narrows ? (void *)wide : result, streams, n, length,
                   call->scratch);
    if (narrows) ls_narrow(self->half, (uint16_t *)(void *)result, wide, n);
  }
}

// The second step: a block is an output.
static void add_pieces_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const reduce_params *self = call->params;
  const size_t size = self->reduce.size;
  for (int64_t u = begin_block; u < end_block; ++u) {
    const char *pieces =
        (const char *)call->in[0] + (size_t)(u * self->pieces) * size;
    ACCUMULATORS(sums, 1);
    memcpy(sums, pieces, size);
    self->reduce.rows(sums, pieces + size, self->pieces - 1, 1, 1);
    store_results(self, call->out[0], u, sums, 1);
  }
}

static ls_status plan_runs(ls_kernel_plan *plan, reduce_params *self) {
  const int64_t outputs = ls_strided_dims_count(&self->kept);
  self->count = ls_strided_dims_count(&self->reduced);
  if (self->count == 1)
    return ls_elementwise_plan(
        plan, (ls_elementwise){.span = self->reduce.single,
                               .half = self->half,
                               .out_is_half = self->half != LS_DTYPE_NONE});
  if (self->reduced.rank > 1) {
    self->packed = ls_move_make(plan->arena, self->reduced, self->element);
    if (self->packed == NULL) return ls_out_of_memory();
  } else if (self->count > 0 && self->count <= LS_SHORT_ROW) {
    return ls_short_rows_plan(plan, &self->reduce, self->count);
  }
  self->pieces = ls_blocks_of(self->count, PIECE);
  self->units = outputs * self->pieces;
  self->units_per_block =
      LS_BLOCK / ls_max_i64(1, ls_min_i64(self->count, PIECE));
  const int64_t blocks = ls_blocks_of(self->units, self->units_per_block);
  plan->scratch = STREAMS * CHUNK_BYTES;
  plan->loop = run_loop;
  plan->blocks = blocks;
  if (self->pieces == 1) return ls_ok();
  plan->first = run_loop;
  plan->first_blocks = blocks;
  plan->shared = (size_t)self->units * self->reduce.size;
  plan->only_shared = true;
  plan->loop = add_pieces_loop;
  plan->blocks = ls_max_i64(1, outputs);
  return ls_ok();
}

// ---- Columns ---------------------------------------------------------------
// Adds rows whose first elements are `limit` elements from the end of memory. A
// row's last lanes may be those of the next row: their sums are dropped.
static void add_columns(const reduce_params *self, void *sums, const void *in,
                        int64_t rows, int64_t pitch, int64_t columns,
                        int64_t limit) {
  const ls_reducer *reduce = &self->reduce;
  for (int64_t c = 0, n = 0; c < columns; c += n * LANES) {
    n = ls_min_i64(STREAMS, ls_max_i64(1, (columns - c) / LANES));
    char *to = (char *)sums + (size_t)c * reduce->size;
    const char *from = (const char *)in + (size_t)c * reduce->size;
    const void *lanes[STREAMS];
    for (int64_t i = 0; i < n; ++i)
      lanes[i] = from + (size_t)(i * LANES) * reduce->size;
    if (columns - c >= LANES) {
      reduce->lanes(to, lanes, n, rows, pitch, 0);
      continue;
    }
    const int64_t safe = ls_min_i64(
        rows, limit - c < LANES ? 0 : (limit - c - LANES) / pitch + 1);
    reduce->lanes(to, lanes, 1, safe, pitch, 0);
    reduce->rows(to, from + (size_t)(safe * pitch) * reduce->size, rows - safe,
                 pitch, columns - c);
  }
}

// Adds rows of 16-bit floats, some of which are widened at a time: together if
// they are adjacent.
static void add_halves(const reduce_params *self, void *sums, const void *in,
                       int64_t rows, int64_t columns) {
  float wide[CHUNK + LANES];
  int64_t n = 0;
  for (int64_t i = 0; i < rows; i += n) {
    n = ls_min_i64(CHUNK / columns, rows - i);
    const uint16_t *from = (const uint16_t *)in + i * self->pitch;
    const bool adjacent = self->pitch == columns;
    for (int64_t k = 0; k < (adjacent ? 1 : n); ++k)
      ls_widen(self->half, wide + k * columns, from + k * self->pitch,
               adjacent ? n * columns : columns);
    add_columns(self, sums, wide, n, columns, columns, CHUNK + LANES);
  }
}

// Columns that are reduced together, and their start.
typedef struct tile {
  int64_t output, columns, from;
} tile;

static tile tile_at(const reduce_params *self, int64_t unit) {
  const int64_t outer = unit / self->column_tiles;
  const int64_t column = unit % self->column_tiles * COLUMNS;
  return (tile){.output = outer * self->columns + column,
                .columns = ls_min_i64(COLUMNS, self->columns - column),
                .from = ls_walk_at(&self->kept, outer).offset + column};
}

// Computes the sums of a tile's chain `c`; there is room for COLUMNS of them.
static void sum_chain(const reduce_params *self, void *sums, const void *in,
                      const tile *t, int64_t c) {
  const int64_t of_run = ls_blocks_of(self->run, CHAIN);
  const int64_t row = c % of_run * CHAIN;
  const int64_t rows = ls_min_i64(CHAIN, self->run - row);
  const int64_t at = t->from + row * self->pitch +
                     ls_walk_at(&self->reduced, c / of_run).offset;
  self->reduce.fill(sums, COLUMNS);
  if (self->half != LS_DTYPE_NONE)
    add_halves(self, sums, element_at(self, in, at), rows, t->columns);
  else
    add_columns(self, sums, element_at(self, in, at), rows, self->pitch,
                t->columns, self->total - at);
}

static void column_loop(const ls_kernel_call *call, int64_t begin_block,
                        int64_t end_block) {
  const reduce_params *self = call->params;
  const int64_t end =
      ls_min_i64(end_block * self->units_per_block, self->units);
  for (int64_t u = begin_block * self->units_per_block; u < end; ++u) {
    const tile t = tile_at(self, u);
    ACCUMULATORS(sums, COLUMNS);
    ACCUMULATORS(chain, COLUMNS);
    if (self->chains == 0) self->reduce.fill(sums, t.columns);
    for (int64_t c = 0; c < self->chains; ++c) {
      sum_chain(self, c == 0 ? sums : chain, call->in[0], &t, c);
      if (c > 0) self->reduce.rows(sums, chain, 1, 0, t.columns);
    }
    store_results(self, call->out[0], t.output, sums, t.columns);
  }
}

// ---- In two steps ----------------------------------------------------------
// First step: a block is a chain of a tile.
static void chain_loop(const ls_kernel_call *call, int64_t begin_block,
                       int64_t end_block) {
  const reduce_params *self = call->params;
  const size_t stride = COLUMNS * self->reduce.size;
  for (int64_t b = begin_block; b < end_block; ++b) {
    const tile t = tile_at(self, b / self->chains);
    sum_chain(self, (char *)call->out[0] + (size_t)b * stride, call->in[0], &t,
              b % self->chains);
  }
}

// Second step: a block is a tile.
static void add_chains_loop(const ls_kernel_call *call, int64_t begin_block,
                            int64_t end_block) {
  const reduce_params *self = call->params;
  const size_t stride = COLUMNS * self->reduce.size;
  for (int64_t u = begin_block; u < end_block; ++u) {
    const tile t = tile_at(self, u);
    const char *chain =
        (const char *)call->in[0] + (size_t)(u * self->chains) * stride;
    ACCUMULATORS(sums, COLUMNS);
    memcpy(sums, chain, (size_t)t.columns * self->reduce.size);
    for (int64_t c = 1; c < self->chains; ++c)
      self->reduce.rows(sums, chain + (size_t)c * stride, 1, 0, t.columns);
    store_results(self, call->out[0], t.output, sums, t.columns);
  }
}

static void plan_two_steps(ls_kernel_plan *plan, const reduce_params *self) {
  plan->first = chain_loop;
  plan->first_blocks = self->units * self->chains;
  plan->shared =
      (size_t)(self->units * self->chains * COLUMNS) * self->reduce.size;
  plan->only_shared = true;
  plan->loop = add_chains_loop;
  plan->blocks = self->units;
}

// ---- Plan ------------------------------------------------------------------
static const ls_reducer *reducers_of(uint16_t op,
                                     const ls_cpu_reducers *reducers) {
  if (op == LS_OP_REDUCE_MAX) return reducers->max;
  if (op == LS_OP_REDUCE_MIN) return reducers->min;
  if (op == LS_OP_REDUCE_PRODUCT) return reducers->product;
  if (op == LS_OP_REDUCE_AND) return reducers->all;
  if (op == LS_OP_REDUCE_OR) return reducers->any;
  return reducers->sum;
}

// Sorts the operand's dimensions into kept and reduced ones; returns true if
// the innermost one is reduced, or none.
static bool sort_dims(const ls_kernel_plan *plan, reduce_params *self) {
  const ls_shape shape = plan->in[0].shape;
  const ls_attr *axes = ls_node_attr(plan->node, LS_ATTR_ID_AXES);
  bool is_reduced[LS_MAX_RANK] = {false};
  for (size_t i = 0; axes != NULL && i < axes->as.ints.count; ++i)
    is_reduced[axes->as.ints.items[i]] = true;
  int64_t steps[LS_MAX_RANK];
  int64_t step = 1;
  bool innermost_is_reduced = false, found = false;
  for (int32_t i = shape.rank; i-- > 0;) {
    steps[i] = step;
    step *= shape.dim[i];
    if (!found) innermost_is_reduced = is_reduced[i];
    found = found || shape.dim[i] != 1;
  }
  for (int32_t i = 0; i < shape.rank; ++i)
    ls_strided_dims_add(is_reduced[i] ? &self->reduced : &self->kept,
                        shape.dim[i], steps[i]);
  return innermost_is_reduced || self->reduced.rank == 0;
}

// Removes the innermost dimension and returns its size, 1 if there is none.
static int64_t take_last(ls_strided_dims *dims, int64_t *out_step) {
  if (dims->rank == 0) return 1;
  const int32_t last = dims->rank - 1;
  const int64_t size = dims->size[last];
  if (out_step != NULL) *out_step = dims->step[last];
  ls_strided_dims_remove(dims, last);
  return size;
}

static ls_status plan_columns(ls_kernel_plan *plan, reduce_params *self) {
  self->run = take_last(&self->reduced, &self->pitch);
  self->columns = take_last(&self->kept, NULL);
  self->column_tiles = (self->columns + COLUMNS - 1) / COLUMNS;
  self->units = ls_strided_dims_count(&self->kept) * self->column_tiles;
  const int64_t steps = ls_strided_dims_count(&self->reduced);
  const int64_t unit = steps * self->run * ls_min_i64(self->columns, COLUMNS);
  self->units_per_block = ls_max_i64(1, LS_BLOCK / ls_max_i64(1, unit));
  self->chains = steps * ls_blocks_of(self->run, CHAIN);
  plan->loop = column_loop;
  plan->blocks = ls_blocks_of(self->units, self->units_per_block);
  if (plan->blocks < FEW_BLOCKS && self->chains >= MANY_CHAINS &&
      self->run >= CHAIN)
    plan_two_steps(plan, self);
  return ls_ok();
}

ls_status kernel_reduce(ls_kernel_plan *plan) {
  const ls_dtype dtype = plan->in[0].dtype;
  const bool half = ls_is_half(dtype);
  const ls_reducer *reduce = &reducers_of(
      plan->node->type, plan->kernels->reducers)[half ? LS_DTYPE_F32 : dtype];
  if (reduce->fill == NULL) return ls_kernel_unsupported(plan, dtype);
  LS_ARENA_NEW_OR_RETURN(plan->arena, reduce_params, self);
  self->reduce = *reduce;
  self->element = ls_dtype_size(dtype);
  self->half = half ? dtype : LS_DTYPE_NONE;
  self->total = ls_shape_num_elements(plan->in[0].shape);
  plan->params = self;
  return sort_dims(plan, self) ? plan_runs(plan, self)
                               : plan_columns(plan, self);
}
