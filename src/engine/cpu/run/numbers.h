// SPDX-License-Identifier: Apache-2.0
// Search for the op that makes the first NaN of a run, with the runtime's
// option find_nan: each kernel's operands are looked at before it runs, and its
// results after. The results also go to the runtime's watch.
#ifndef LS_ENGINE_CPU_RUN_NUMBERS_H_
#define LS_ENGINE_CPU_RUN_NUMBERS_H_

#include "base/runtime_internal.h"
#include "engine/cpu/run/instance.h"

// Numbers of an operand.
typedef struct ls_cpu_range {
  double low, high;   // Without NaN.
  int64_t first_nan;  // Index of the first NaN; -1: there is none.
} ls_cpu_range;

// Sources of a NaN, the better the later.
typedef enum ls_cpu_nan_kind {
  LS_CPU_NO_NAN,
  LS_CPU_NAN_PASSED,  // An op whose operands have NaN, or cannot be looked at.
  LS_CPU_NAN_GIVEN,   // An input or a variable of the program.
  LS_CPU_NAN_MADE,    // An op whose operands are numbers.
} ls_cpu_nan_kind;

enum { LS_CPU_RANGES = 4 };

// The best source that a worker has seen in a run.
struct ls_cpu_numbers {
  ls_cpu_nan_kind kind;
  char text[LS_NAN_TEXT];
  ls_nan_row row;
  // Operands of the current instruction.
  ls_cpu_range ranges[LS_CPU_RANGES];
  bool has_nan;
};

// Looks at the inputs and variables of a run that begins.
void ls_cpu_numbers_begin(ls_instance *self);
// Look at a kernel's operands, and at its results.
void ls_cpu_numbers_before(const ls_instance *self, ls_cpu_worker *worker,
                           uint32_t pc, void *const *operands);
void ls_cpu_numbers_after(const ls_instance *self, ls_cpu_worker *worker,
                          int32_t replica, uint32_t pc, void *const *operands);
// Tells the runtime the best source of a run that ends.
void ls_cpu_numbers_end(const ls_instance *self);

#endif  // LS_ENGINE_CPU_RUN_NUMBERS_H_
