// SPDX-License-Identifier: Apache-2.0
//
// Kernels and their parameters, from which instructions are made.
//
// `kernel_<name>`, named in the last column of ops.def, prepares a lowered
// node: it chooses a loop for the types and shapes and stores the loop's
// parameters in the arena. The loop then runs without look-ups. Work is cut
// into blocks of outputs whose number is a function of the shapes alone; blocks
// may run on any thread, in any order, with the same bits.
#ifndef LS_ENGINE_CPU_KERNELS_KERNEL_H_
#define LS_ENGINE_CPU_KERNELS_KERNEL_H_

#include "engine/backend.h"
#include "engine/cpu/kernels.h"

typedef struct ls_cpu_team ls_cpu_team;

// Arguments of a loop.
typedef struct ls_kernel_call {
  const void *const *in;
  void *const *out;
  void *scratch;  // plan.scratch bytes per thread, aligned to 64.
  const void *params;
  // For random ops. `iteration` combines the counters of the enclosing loops.
  uint64_t step, seed, iteration;
  int32_t replica;
  const ls_cpu_team *team;  // Opaque to kernels.
  // Adds the result to output 0, as the right operand. Set when this kernel
  // makes a lane's contribution and the addition is the first step of a merge
  // (compile/plan.c), and only if the plan's `adds` allows it.
  bool adds;
} ls_kernel_call;

typedef void (*ls_kernel_loop)(const ls_kernel_call *call, int64_t begin_block,
                               int64_t end_block);

// Plan of an instruction, filled by a prepare function.
typedef struct ls_kernel_plan {
  // Given by the compiler.
  const ls_node *node;
  const ls_type *in;  // One per input.
  size_t num_in;
  const ls_type *out;  // One per output.
  size_t num_out;
  const ls_cpu_kernels *kernels;
  // True unless the math mode is LS_MATH_DIRECT or LS_MATH_BF16_DIRECT.
  bool fast;
  ls_arena *arena;
  // Filled by the prepare function.
  ls_kernel_loop loop;
  const void *params;      // Allocated in the arena.
  int64_t blocks;          // At least 1; a function of the shapes alone.
  size_t scratch;          // Bytes per thread.
  uint32_t in_place;       // Bit i: output 0 may be exactly input i,
  uint32_t next_in_place;  // and the same for output 1.
  // Two steps, if `first` is set: `first` runs to its end in blocks of its own
  // before `loop` begins, and leaves `shared` bytes, aligned to 64, which are
  // its last output and `loop`'s last input. `first` writes the leading
  // `first_outputs` outputs, `loop` the others. in_place refers to the step
  // that writes output 0; only the other step may read that input, too.
  ls_kernel_loop first;
  int64_t first_blocks;
  size_t shared;
  uint32_t first_outputs;
  bool only_shared;  // `loop` reads no other input.
  // Output 0 has the bytes of input 0 (reshape): nothing to do if they share
  // storage; otherwise `loop` copies.
  bool alias;
  bool adds;     // `loop` supports the call's `adds`.
  double flops;  // 2 per multiply-add of products; 0 for other ops.
  // Input `labels` holds class numbers, 0 to num_classes - 1: a run with any
  // other label fails before `loop`. num_classes 0: no labels.
  uint32_t labels;
  int64_t num_classes;
} ls_kernel_plan;

// Ends a plan of one step: `loop` runs in so many blocks.
static inline ls_status ls_kernel_runs(ls_kernel_plan *plan,
                                       ls_kernel_loop loop, const void *params,
                                       int64_t blocks) {
  plan->loop = loop;
  plan->params = params;
  plan->blocks = blocks;
  return ls_ok();
}

typedef ls_status (*ls_kernel_prepare)(ls_kernel_plan *plan);

// Returns the prepare function of an op, from ops.def; NULL: the compiler
// handles the op itself.
ls_kernel_prepare ls_kernel_prepare_of(uint16_t op_type);

// ---- Prepare functions, named in the column `kernel` of ops.def ------------
#define LS_OP(id, name, inputs, traits, shape, gradient, lower, kernel, ...)   \
  ls_status kernel_##kernel(ls_kernel_plan *plan);
#include "graph/lowered_ops.def"
#include "lockstep/ops.def"
#undef LS_OP

#endif  // LS_ENGINE_CPU_KERNELS_KERNEL_H_
