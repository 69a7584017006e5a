// SPDX-License-Identifier: Apache-2.0
//
// Spans of a traced run (base/trace.h): execution of streams, rounds over the
// lanes, host calls, and waits for them. Each function takes the result of
// ls_span_begin at the start of the work, and does nothing if that is
// LS_NO_SPAN.
#ifndef LS_ENGINE_CPU_RUN_SPANS_H_
#define LS_ENGINE_CPU_RUN_SPANS_H_

#include "base/trace.h"
#include "engine/cpu/run/instance.h"

static inline int64_t ls_cpu_span_begin(const ls_instance *self) {
  return ls_span_begin(self->executable->backend->runtime);
}

// Ends the span of a stream that ran from an instruction to its current
// position.
void ls_cpu_span_stream(const ls_instance *self, const ls_cpu_stream *stream,
                        uint32_t pc, int64_t began);
// Ends the span of a round over all lanes of a launch.
void ls_cpu_span_round(const ls_instance *self, int64_t began);
// Ends the span of a host kernel's call; `queued` is the time of submission, or
// LS_NO_SPAN for inline calls.
void ls_cpu_span_call(const ls_cpu_host_record *record, int64_t queued,
                      int64_t began);

#endif  // LS_ENGINE_CPU_RUN_SPANS_H_
