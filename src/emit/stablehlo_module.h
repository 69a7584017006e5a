// SPDX-License-Identifier: Apache-2.0
//
// Whole StableHLO modules: one function "main", whose arguments are the
// parameters of a lowered graph.
#ifndef LS_EMIT_STABLEHLO_MODULE_H_
#define LS_EMIT_STABLEHLO_MODULE_H_

#include "emit/stablehlo.h"

typedef struct ls_hlo_module {
  ls_emit_source source;
  bool highest;  // Products of f32 have f32's precision, not the device's.
  // Attributes of each argument and result, such as `ls.input = "x"`; NULL, or
  // NULL in one place: none.
  const char *const *argument_marks, *const *result_marks;
  const uint64_t *results;  // Refs of the source's body.
  size_t num_results;
} ls_hlo_module;

// Appends the text of a module.
//   LS_UNIMPLEMENTED  an op or dtype that has no form in StableHLO.
LS_MUST_USE ls_status ls_hlo_write_module(const ls_hlo_module *module,
                                          ls_arena *memory, ls_text *out);

// ---- Programs --------------------------------------------------------------
// Describes a lowered program for `num_devices` devices, which all run one
// module; replicas are divided among them in order.
typedef struct ls_hlo_program {
  ls_graph *body;
  // The result that takes over the memory of each parameter of the body, or
  // -1. NULL: none does.
  const int32_t *aliases;
  int32_t num_devices;  // 1: there are no collectives.
  bool exact;    // Sums over replicas have the CPU engine's order, and each
                 // replica's ops stand apart.
  bool highest;  // See ls_hlo_module.
  bool bf16;     // Products of f32 round their operands to bf16.
  // Most trips of a loop with calls of the host, of which the program does not
  // say how many it makes (ls_emit_around).
  int64_t room;
} ls_hlo_program;

// Position of an argument of the module in the list of the body's parameters,
// or of a result in the list of its results: first + device * stride. Stride 0:
// it is the same on every device.
typedef struct ls_hlo_slot {
  uint32_t first, stride;
} ls_hlo_slot;

static inline size_t ls_hlo_slot_at(ls_hlo_slot slot, int32_t device) {
  return slot.first + (size_t)device * slot.stride;
}

typedef struct ls_hlo_layout {
  ls_hlo_slot *arguments, *results;  // Memory of the arena.
  size_t num_arguments, num_results;
  // True if three more arguments, ui64 scalars, follow: step, seed, and the
  // replica that runs a program without replicas (ls_run_args).
  bool draws;
  // Sites of host calls. If devices make them, the number of the run follows,
  // too, a ui64 scalar. Else that of the trips follows if a loop makes calls,
  // then results of the sites that are called before the launch; the operands
  // of those called after it are the last results.
  ls_emit_host *hosts;
  size_t num_hosts;
  ls_emit_around around;
  // True if one more result follows, a ui64 scalar: the most trips of loops
  // that count steps, at least 1.
  bool counts;
} ls_hlo_layout;

// Appends the text of a program's module. Arguments and results have the types
// of the values at their positions. An alias is an attribute of the argument:
// tf.aliasing_output.
//   LS_UNIMPLEMENTED  an op or dtype that has no form, naming op and line.
LS_MUST_USE ls_status ls_hlo_write_program(const ls_hlo_program *program,
                                           ls_arena *memory, ls_text *out,
                                           ls_hlo_layout *out_layout);

#endif  // LS_EMIT_STABLEHLO_MODULE_H_
