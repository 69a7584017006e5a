// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/fused.h"

// Elements of a tile. Fewer show the price of a step, more leave the first
// cache. Registers lie 48 floats further apart than they are long, so that no
// two alias.
enum { TILE = 512, REGISTER_BYTES = TILE * 8 + 48 * 4 };

size_t ls_fused_scratch(const ls_fused *fused) {
  return (size_t)fused->num_registers * REGISTER_BYTES;
}

// One step on elements [k, k + count) of its operands.
static inline void run_step(const ls_fused *self, const ls_fused_step *step,
                            char *const *slots, int64_t k, int64_t count) {
  const ls_elementwise *work = step->work;
  const uint32_t memory = self->num_in + self->num_out;
  const void *in[3];
  for (uint32_t i = 0; i < work->num_in; ++i) {
    const bool moves = step->slot[i] < memory && (work->scalars >> i & 1U) == 0;
    in[i] = slots[step->slot[i]] + (moves ? (size_t)k * work->in_size[i] : 0);
  }
  const uint8_t out = step->slot[work->num_in];
  work->span(work,
             slots[out] + (out < memory ? (size_t)k * work->out_size : 0), in,
             count);
}

void ls_fused_loop(const ls_kernel_call *call, int64_t begin_block,
                   int64_t end_block) {
  const ls_fused *self = call->params;
  const int64_t end = ls_min_i64(end_block * LS_BLOCK, self->count);
  char *slots[LS_FUSED_SLOTS];
  uint32_t n = 0;
  for (uint32_t i = 0; i < self->num_in; ++i)
    slots[n++] = (char *)(uintptr_t)call->in[i];  // Only read.
  for (uint32_t i = 0; i < self->num_out; ++i)
    slots[n++] = call->out[i];
  for (uint32_t i = 0; i < self->num_registers; ++i)
    slots[n++] = (char *)call->scratch + i * (size_t)REGISTER_BYTES;
  for (int64_t k = begin_block * LS_BLOCK; k < end; k += TILE)
    for (uint32_t i = 0; i < self->num_steps; ++i)
      run_step(self, &self->steps[i], slots, k, ls_min_i64(TILE, end - k));
}
