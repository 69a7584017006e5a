// SPDX-License-Identifier: Apache-2.0
// Tensor tracing: its flags in the environment, and its log lines.
#ifndef LS_ESTIMATOR_SPEC_TRACER_FLAGS_H_
#define LS_ESTIMATOR_SPEC_TRACER_FLAGS_H_

#include "base/memory/arena.h"
#include "lockstep/object.h"
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
  int64_t first, last;  // Indices of the first and last tensor to trace.
  const char **patterns[LS_TRACER_LISTS];
  size_t num_patterns[LS_TRACER_LISTS];
} ls_tracer_flags;

// Reads the flags in the environment; texts are in the arena.
//   LS_INVALID_ARGUMENT  lists all flags
LS_MUST_USE ls_status ls_tracer_flags_read(ls_arena *memory,
                                           ls_tracer_flags *out_flags);
// Returns true if an op of this name and type should be traced.
bool ls_tracer_flags_take(const ls_tracer_flags *flags, const char *name,
                          const char *type);

// ---- Lines of the log about tensors: an op on the host (tensor_tracer.c)----
// Makes the state of an op that logs tensors: the mode, and the tensors' names.
// The caller releases `*out`.
LS_MUST_USE ls_status ls_trace_lines_create(ls_trace_mode mode,
                                            const ls_tensor *tensors,
                                            size_t count, ls_object **out);
// Adds the op that logs a fact found for each tensor. Its id is 0 on failure,
// with the error in the graph.
ls_op ls_trace_lines_add(ls_object *lines, const ls_tensor *found,
                         size_t count);

#endif  // LS_ESTIMATOR_SPEC_TRACER_FLAGS_H_
