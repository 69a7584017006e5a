// SPDX-License-Identifier: Apache-2.0
//
// Elementwise steps that run tile by tile; made by compile/fuse.c.
#ifndef LS_ENGINE_CPU_KERNELS_ELEMENT_FUSED_H_
#define LS_ENGINE_CPU_KERNELS_ELEMENT_FUSED_H_

#include "engine/cpu/kernels/element/chain.h"

enum { LS_FUSED_STEPS = 24, LS_FUSED_SLOTS = 32 };  // Limits.

struct ls_fused_step {
  const ls_elementwise *work;
  uint8_t slot[4];  // Slots of its inputs, then of its output.
  // Stages of the chain that begins here; NULL: none.
  const ls_chain_stage *stages;
  uint32_t chained;  // Number of steps in that chain.
};

typedef struct ls_fused {
  int64_t count;  // Elements.
  const ls_fused_step *steps;
  uint32_t num_steps;
  // Numbers of slots, in this order. The last outputs are streamed
  // (kernels/streaming.h): a tile of them is computed in scratch, like a
  // register.
  uint32_t num_in, num_out, num_streamed, num_registers;
  uint8_t sizes[LS_FUSED_SLOTS];  // Bytes per element; 0: a scalar.
  const ls_cpu_chains *chains;
  const ls_cpu_kernels *kernels;
} ls_fused;

void ls_fused_loop(const ls_kernel_call *call, int64_t begin_block,
                   int64_t end_block);
size_t ls_fused_scratch(const ls_fused *fused);

#endif  // LS_ENGINE_CPU_KERNELS_ELEMENT_FUSED_H_
