// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/instance.h"

#include "engine/cpu/run/host_call.h"
#include "graph/graph.h"

// Returns the name of the user's op at an instruction, or a description.
static const char *name_at(const ls_executable *executable, uint32_t pc) {
  const ls_cpu_note *note = &executable->notes[pc];
  if (note->name != NULL) return note->name;
  if (note->kind != NULL) return note->kind;
  return note->node != NULL
             ? ls_node_info(note->node)->name
             : ls_cpu_code_name(executable->instructions[pc].code);
}

static void end_span(const ls_instance *self, ls_span span) {
  if (span.began != LS_NO_SPAN)
    ls_span_end(self->executable->backend->runtime, &span);
}

void ls_cpu_span_stream(const ls_instance *self, const ls_cpu_stream *stream,
                        uint32_t pc, int64_t began) {
  if (began == LS_NO_SPAN) return;
  end_span(self, (ls_span){.kind = "turn",
                           .name = name_at(self->executable, pc),
                           .began = began,
                           .of = stream == &self->main ? LS_SPAN_OF_NOTHING
                                                       : LS_SPAN_OF_REPLICA,
                           .number = stream->replica});
}

void ls_cpu_span_exchange(const ls_instance *self,
                          const ls_cpu_instruction *instruction,
                          int64_t began) {
  if (began == LS_NO_SPAN) return;
  const ls_executable *executable = self->executable;
  const uint32_t pc = (uint32_t)(instruction - executable->instructions);
  end_span(self, (ls_span){.kind = "exchange",
                           .name = name_at(executable, pc),
                           .began = began});
}

void ls_cpu_span_round(const ls_instance *self, int64_t began) {
  if (began == LS_NO_SPAN) return;
  const ls_executable *executable = self->executable;
  const uint32_t pc = (uint32_t)(self->launch - executable->instructions);
  end_span(self, (ls_span){.kind = "sweep",
                           .name = name_at(executable, pc),
                           .began = began});
}

void ls_cpu_span_call(const ls_cpu_host_record *record, int64_t queued,
                      int64_t began) {
  if (began == LS_NO_SPAN) return;
  const ls_cpu_host *host = record->host;
  const bool is_of_one =
      host->site == LS_CPU_NO_SITE || (host->is_for_all && !host->by_one_call);
  ls_span_end(
      record->call.runtime,
      &(ls_span){.kind = "host",
                 .name = host->path != NULL ? host->path : host->name,
                 .began = began,
                 .waited = queued == LS_NO_SPAN ? 0 : began - queued,
                 .of = is_of_one ? LS_SPAN_OF_REPLICA : LS_SPAN_OF_NOTHING,
                 .number = record->call.replica});
}
