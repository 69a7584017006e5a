// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/element/chain.h"
#include "engine/cpu/kernels/index.h"

// Bytes of a tile's registers and of one array in the first cache.
enum { TILE_BYTES = 24 << 10, MOST_TILE = 2048 };

int64_t ls_fused_tile(const ls_fused *fused) {
  const int64_t arrays =
      fused->num_streamed + fused->num_registers + fused->num_patterns + 1;
  int64_t tile = LS_CHUNK;
  for (uint32_t i = 0; i < fused->num_steps; ++i)
    if (fused->steps[i].work->half != LS_DTYPE_NONE) return tile;
  while (2 * tile <= ls_min_i64(MOST_TILE, TILE_BYTES / (8 * arrays)))
    tile *= 2;
  return tile;
}

// Registers are 48 floats further apart than they are long, so that no two
// alias.
static size_t register_bytes(const ls_fused *fused) {
  return (size_t)fused->tile * 8 + 48 * 4;
}

// Returns where patterns begin in scratch.
static size_t patterns_at(const ls_fused *fused) {
  return LS_HALF_SCRATCH +
         (fused->num_streamed + fused->num_registers) * register_bytes(fused);
}

// Returns the bytes of a step's pattern, which lasts for a tile from any of its
// elements on; 0: the step has none.
static size_t pattern_bytes(const ls_fused *fused, const ls_fused_step *step) {
  if (step->period == 0) return 0;
  const size_t elements = (size_t)(fused->tile + step->period);
  return ls_round_to_line(elements * step->work->out_size) + 48 * 4;
}

size_t ls_fused_scratch(const ls_fused *fused) {
  size_t bytes = patterns_at(fused);
  for (uint32_t i = 0; i < fused->num_steps; ++i)
    bytes += pattern_bytes(fused, &fused->steps[i]);
  return bytes;
}

// Runs a step on `count` elements from `at` on.
static inline void run_step(const ls_fused_step *step, char *const *slots,
                            int64_t at, int64_t count, void *scratch) {
  const ls_elementwise *work = step->work;
  const void *in[3];
  if (work->moves) {
    ls_move(work, slots[step->slot[1]], slots[step->slot[0]], at, count);
    return;
  }
  for (uint32_t i = 0; i < work->num_in; ++i)
    in[i] = slots[step->slot[i]];
  void *out = slots[step->slot[work->num_in]];
  if (work->half != LS_DTYPE_NONE)
    ls_half_chunk(work, out, in, count, scratch);
  else
    work->span(work, out, in, count);
}

// Runs the steps on a tile whose elements begin at `slots`.
static void run_steps(const ls_fused *self, char *const *slots, int64_t at,
                      int64_t count, void *scratch) {
  const bool by_chains = count % LS_CHAIN_ELEMENTS == 0;
  for (uint32_t i = 0; i < self->num_steps;) {
    const ls_fused_step *step = &self->steps[i];
    if (step->is_view) {
      ++i;
    } else if (by_chains && step->stages != NULL) {
      self->chains->run(step->stages, slots, count);
      i += step->chained;
    } else {
      run_step(step, slots, at, count, scratch);
      ++i;
    }
  }
}

static void fill_patterns(const ls_fused *self, char *const *slots,
                          char *pattern) {
  for (uint32_t i = 0; i < self->num_steps; ++i) {
    const ls_fused_step *step = &self->steps[i];
    if (step->period > 0)
      ls_move(step->work, pattern, slots[step->slot[0]], 0,
              ls_min_i64(self->tile + step->period, self->count));
    pattern += pattern_bytes(self, step);
  }
}

// Sets the slots of views for a tile from element `at` on. Returns its number
// of elements: a tile ends where a row of a view does.
static int64_t set_views(const ls_fused *self, char **slots, char *pattern,
                         int64_t at, int64_t count) {
  for (uint32_t i = 0; i < self->num_steps; ++i) {
    const ls_fused_step *step = &self->steps[i];
    if (step->period > 0) {
      slots[step->slot[1]] =
          pattern + (size_t)(at % step->period) * step->work->out_size;
      pattern += pattern_bytes(self, step);
    } else if (step->is_view) {
      slots[step->slot[1]] =
          ls_move_view_at(step->work, slots[step->slot[0]], at, &count);
    }
  }
  return count;
}

static void stream_tile(const ls_fused *self, const ls_kernel_call *call,
                        char *const *slots, int64_t k, int64_t count) {
  for (uint32_t i = self->num_out - self->num_streamed; i < self->num_out;
       ++i) {
    const size_t size = self->sizes[self->num_in + i];
    self->kernels->stream((char *)call->out[i] + (size_t)k * size,
                          slots[self->num_in + i], (size_t)count * size);
  }
}

void ls_fused_loop(const ls_kernel_call *call, int64_t begin_block,
                   int64_t end_block) {
  const ls_fused *self = call->params;
  const int64_t begin = begin_block * LS_BLOCK;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  char *slots[LS_FUSED_SLOTS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < self->num_in; ++i)
    slots[n++] = (char *)(uintptr_t)call->in[i];  // Inputs are only read.
  for (uint32_t i = 0; i < self->num_out - self->num_streamed; ++i)
    slots[n++] = call->out[i];
  const uint32_t num_arrays = n;
  for (uint32_t i = 0; i < self->num_streamed + self->num_registers; ++i)
    slots[n++] =
        (char *)call->scratch + LS_HALF_SCRATCH + i * register_bytes(self);
  for (uint32_t i = 0; i < num_arrays; ++i)
    slots[i] += (size_t)begin * self->sizes[i];
  char *patterns = (char *)call->scratch + patterns_at(self);
  fill_patterns(self, slots, patterns);
  for (int64_t k = begin, count; k < end; k += count) {
    count =
        set_views(self, slots, patterns, k, ls_min_i64(self->tile, end - k));
    if (count > LS_CHAIN_ELEMENTS && self->has_chains)
      count -= count % LS_CHAIN_ELEMENTS;
    run_steps(self, slots, k, count, call->scratch);
    stream_tile(self, call, slots, k, count);
    for (uint32_t i = 0; i < num_arrays; ++i)
      slots[i] += (size_t)count * self->sizes[i];
  }
  if (self->num_streamed > 0) self->kernels->stream_end();
}
