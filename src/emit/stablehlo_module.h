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

#endif  // LS_EMIT_STABLEHLO_MODULE_H_
