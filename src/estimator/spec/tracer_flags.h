// SPDX-License-Identifier: Apache-2.0
// What the environment says of tensor tracing.
#ifndef LS_ESTIMATOR_SPEC_TRACER_FLAGS_H_
#define LS_ESTIMATOR_SPEC_TRACER_FLAGS_H_

#include "base/memory/arena.h"
#include "lockstep/tensor_tracer.h"

typedef enum ls_trace_mode {
  LS_TRACE_NAN_INF,
  LS_TRACE_PART_TENSOR,
  LS_TRACE_FULL_TENSOR,
  LS_TRACE_NORM,
  LS_TRACE_MAX_ABS,
  LS_TRACE_MODES,
} ls_trace_mode;
const char *ls_trace_mode_name(ls_trace_mode mode);

typedef enum ls_tracer_list {
  LS_TRACER_INCLUDED_NAMES,
  LS_TRACER_INCLUDED_TYPES,
  LS_TRACER_EXCLUDED_NAMES,
  LS_TRACER_EXCLUDED_TYPES,
  LS_TRACER_LISTS,
} ls_tracer_list;

typedef struct ls_tracer_flags {
  bool enabled;
  ls_trace_mode mode;
  bool scalars;
  int64_t first, last;  // Of what would be traced.
  const char **patterns[LS_TRACER_LISTS];
  size_t num_patterns[LS_TRACER_LISTS];
} ls_tracer_flags;

// Texts are in the arena. `name` is what the text is called.
//   LS_INVALID_ARGUMENT  lists what there is.
LS_MUST_USE ls_status ls_tracer_flags_parse(ls_arena *memory, const char *name,
                                            const char *text,
                                            ls_tracer_flags *out_flags);
// Those of the environment.
LS_MUST_USE ls_status ls_tracer_flags_read(ls_arena *memory,
                                           ls_tracer_flags *out_flags);
// Whether an op of this name and type is to be traced.
bool ls_tracer_flags_take(const ls_tracer_flags *flags, const char *name,
                          const char *type);

#endif  // LS_ESTIMATOR_SPEC_TRACER_FLAGS_H_
