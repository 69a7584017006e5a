// SPDX-License-Identifier: Apache-2.0
//
// Chains: elementwise steps on f32 that pass results on in registers.
//
// A chain is a list of stages of a machine with one accumulator, a few vectors
// wide. A stage loads it, combines it with an operand, or stores it, and calls
// the next stage with the accumulator as arguments: where the compiler makes
// that a jump, only the stage's operands go through memory. Besides the
// accumulator the machine keeps one array that is read often.
//
// Each element sees the operations of the steps, in their order, each rounded,
// so the bits are those of the spans (kernels/loops.h).
#ifndef LS_ENGINE_CPU_KERNELS_ELEMENT_CHAIN_H_
#define LS_ENGINE_CPU_KERNELS_ELEMENT_CHAIN_H_

#include "engine/cpu/kernels/loops.h"

// Chains run on multiples of so many elements; spans compute the rest.
enum { LS_CHAIN_ELEMENTS = 64 };

// A stage; its true type depends on the instruction set.
typedef void ls_chain_stage_fn(void);

typedef struct ls_chain_stage {
  ls_chain_stage_fn *run;
  // Slots of its operands that are not kept, or of the result.
  uint8_t slot[2];
} ls_chain_stage;

// Source of a stage's second operand: a register argument, memory, or one
// number for all elements.
enum { LS_CHAIN_KEPT, LS_CHAIN_ARRAY, LS_CHAIN_NUMBER, LS_CHAIN_SOURCES };

// Operation that may follow a product in the same stage: + y, - y, or y minus
// it.
enum { LS_CHAIN_PLUS, LS_CHAIN_MINUS, LS_CHAIN_FROM, LS_CHAIN_ENDS };

// The stages for one instruction set. NULL: no stage for the op.
struct ls_cpu_chains {
  // Runs stages, the last being `store_last`, on a multiple of
  // LS_CHAIN_ELEMENTS elements. slots[i] points to the start of an array, or to
  // a number.
  void (*run)(const ls_chain_stage *stages, char *const *slots, int64_t count);
  ls_chain_stage_fn *load, *keep, *store, *store_last;
  ls_chain_stage_fn *unary[LS_OP_COUNT];
  // Stages [op][second operand is on the left][source of the second operand].
  ls_chain_stage_fn *binary[LS_OP_COUNT][2][LS_CHAIN_SOURCES];
  // A product with one operand, followed by an operation with another.
  ls_chain_stage_fn *product[LS_CHAIN_ENDS][LS_CHAIN_SOURCES][LS_CHAIN_SOURCES];
};

typedef struct ls_fused_step ls_fused_step;

// Assigns stages to the steps that can be chained. Slots from `registers` on
// are not read after the last step. If two slots are one array, only one is
// written, and from then on the other is not read. Returns false without
// memory.
bool ls_chain_steps(ls_arena *arena, const ls_cpu_chains *chains,
                    ls_fused_step *steps, uint32_t num_steps,
                    uint32_t registers);

// ---- Fused steps -----------------------------------------------------------
// Elementwise steps that run tile by tile; made by compile/fuse.c.

enum { LS_FUSED_STEPS = 24, LS_FUSED_SLOTS = 32 };  // Limits.

struct ls_fused_step {
  const ls_elementwise *work;
  uint8_t slot[4];  // Slots of the step's inputs, then of its output.
  // A move whose result is not stored: its slot points into the operand or, if
  // `period` is above 0, into some of these elements, repeated in scratch.
  bool is_view;
  int64_t period;
  // Stages of the chain that begins here; NULL: none.
  const ls_chain_stage *stages;
  uint32_t chained;  // Number of steps in that chain.
};

typedef struct ls_fused {
  int64_t count;  // Elements,
  int64_t tile;   // and at most those of a tile.
  const ls_fused_step *steps;
  uint32_t num_steps;
  bool has_chains;  // Some steps have stages.
  // Numbers of slots, in this order; those of views follow. The last outputs
  // are streamed (kernels/loops.h): a tile of them is computed in scratch, like
  // a register.
  uint32_t num_in, num_out, num_streamed, num_registers;
  uint32_t num_patterns;          // Views with a period.
  uint8_t sizes[LS_FUSED_SLOTS];  // Bytes per element; 0: a scalar.
  const ls_cpu_chains *chains;
  const ls_cpu_kernels *kernels;
} ls_fused;

void ls_fused_loop(const ls_kernel_call *call, int64_t begin_block,
                   int64_t end_block);
// Returns the elements of a tile: small ones pay more per step, large ones
// leave the first cache.
int64_t ls_fused_tile(const ls_fused *fused);
size_t ls_fused_scratch(const ls_fused *fused);

#endif  // LS_ENGINE_CPU_KERNELS_ELEMENT_CHAIN_H_
