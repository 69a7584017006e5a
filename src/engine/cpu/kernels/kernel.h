// SPDX-License-Identifier: Apache-2.0
//
// What an instruction is made of: a kernel and its parameters.
//
// `kernel_<name>` named in the last column of ops.def, prepares
// a lowered node: it chooses a loop for the types and shapes and stores what
// the loop needs in the arena. The loop then runs without a look-up. Work is
// cut into blocks of outputs whose number is a function of the shapes alone;
// blocks may run on any thread, in any order, with the same bits.
#ifndef LS_ENGINE_CPU_KERNELS_KERNEL_H_
#define LS_ENGINE_CPU_KERNELS_KERNEL_H_

#include "engine/backend.h"
#include "engine/cpu/kernels.h"

typedef struct ls_cpu_team ls_cpu_team;

// What a loop is called with.
typedef struct ls_kernel_call {
  const void *const *in;
  void *const *out;
  void *scratch;  // plan.scratch bytes, aligned to 64; each thread its own.
  const void *params;
  uint64_t step, seed, iteration;  // For random ops. Iteration: enclosing
  int32_t replica;                 // loops' counters, flattened.
  const ls_cpu_team *team;         // The engine's own.
  bool adds;  // Output 0 has a value that the result is added to, as the left
              // operand: what a lane contributes to a merge, whose first step
              // this is (compile/plan.c). Only where a kernel's plan says it
              // can.
} ls_kernel_call;

typedef void (*ls_kernel_loop)(const ls_kernel_call *call, int64_t begin_block,
                               int64_t end_block);

// Filled by a prepare function.
typedef struct ls_kernel_plan {
  // Given.
  const ls_node *node;
  const ls_type *in;  // One an input.
  size_t num_in;
  const ls_type *out;  // One an output.
  size_t num_out;
  const ls_cpu_kernels *kernels;
  bool fast;  // Not LS_MATH_DIRECT, nor LS_MATH_BF16_DIRECT.
  ls_arena *arena;
  // Wanted.
  ls_kernel_loop loop;
  const void *params;      // In the arena.
  int64_t blocks;          // At least 1. A function of the shapes alone.
  size_t scratch;          // Bytes a thread needs.
  uint32_t in_place;       // Bit i: output 0 may lie exactly on input i,
  uint32_t next_in_place;  // and output 1.
  // Two steps, if `first` is set: it runs to its end in blocks of its own
  // before `loop` begins, and leaves `shared` bytes, aligned to 64, which are
  // its last output and `loop`'s last input. Of the outputs it writes the
  // leading `first_outputs`, `loop` the rest. in_place is about the step that
  // writes output 0; only the other step may read that input too.
  ls_kernel_loop first;
  int64_t first_blocks;
  size_t shared;
  uint32_t first_outputs;
  bool only_shared;  // `loop` has no other input.
  bool alias;        // Output 0 is input 0's bytes (reshape): no work if
                     // they share storage; `loop` copies otherwise.
  bool adds;         // `loop` can do what the call's `adds` says.
  double flops;      // 2 x multiply-add of products; 0 for others.
  // Input `labels` holds numbers of classes, 0 to num_classes - 1: a run that
  // meets another fails before `loop`. 0: there are none.
  uint32_t labels;
  int64_t num_classes;
} ls_kernel_plan;

typedef ls_status (*ls_kernel_prepare)(ls_kernel_plan *plan);

// The prepare function of an op, from ops.def. NULL: the compiler's own.
ls_kernel_prepare ls_kernel_prepare_of(uint16_t op_type);

#endif  // LS_ENGINE_CPU_KERNELS_KERNEL_H_
