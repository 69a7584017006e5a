// SPDX-License-Identifier: Apache-2.0
//
// What a traced run notes (base/trace.h): turns, sweeps, calls of the host, and
// waits for it. Each is called with what ls_span_begin gave where the work
// began, and does nothing if that is LS_NO_SPAN.
#ifndef LS_ENGINE_CPU_RUN_SPANS_H_
#define LS_ENGINE_CPU_RUN_SPANS_H_

#include "base/trace.h"
#include "engine/cpu/run/instance.h"

static inline int64_t ls_cpu_span_begin(const ls_instance *self) {
  return ls_span_begin(self->executable->backend->runtime);
}

// A stream has gone from an instruction to where it parks or ends.
void ls_cpu_span_turn(const ls_instance *self, const ls_cpu_stream *stream,
                      uint32_t pc, int64_t began);
// All lanes of a launch have had a turn.
void ls_cpu_span_sweep(const ls_instance *self, int64_t began);
// A host kernel has been called: that of a record, which was handed over at
// `queued`; LS_NO_SPAN: it was called where it came up.
void ls_cpu_span_call(const ls_cpu_host_record *record, int64_t queued,
                      int64_t began);

#endif  // LS_ENGINE_CPU_RUN_SPANS_H_
