// SPDX-License-Identifier: Apache-2.0
//
// Who waits where, when nothing can go on.
#include "base/text.h"
#include "engine/cpu/instance.h"

static const char *label_of(const ls_instance *self, uint32_t pc) {
  const char *label = self->executable->notes[pc].label;
  return label == NULL ? "the end" : label;
}

// What a lane that stands at an instruction waits for.
static const char *reason_of(const ls_cpu_instruction *at) {
  switch (at->code) {
  case LS_CPU_WAIT:
    return "wait for the value of";
  case LS_CPU_TURN:
  case LS_CPU_POST:
    return "wait for lower replicas at";
  case LS_CPU_HOST_FINISH:
    return "wait for the host in";
  default:
    return "wait in";
  }
}

// Lanes that stand at `pc`: "replicas 0, 2, 3 and 5 more".
static uint32_t print_replicas(const ls_instance *self, uint32_t pc,
                               ls_text *text) {
  enum { NAMED = 8 };
  uint32_t count = 0;
  for (int32_t r = 0; r < self->executable->replicas; ++r) {
    const ls_cpu_stream *lane = &self->lanes[r];
    if (lane->ended || lane->pc != pc) continue;
    if (count < NAMED) {
      ls_text_append_format(text, "%s%d", count == 0 ? "" : ", ", r);
    }
    ++count;
  }
  if (count > NAMED) {
    ls_text_append_format(text, " and %u more", count - NAMED);
  }
  return count;
}

// Whether a lower lane stands at the same place.
static bool is_told(const ls_instance *self, int32_t replica) {
  for (int32_t r = 0; r < replica; ++r) {
    const ls_cpu_stream *lane = &self->lanes[r];
    if (!lane->ended && lane->pc == self->lanes[replica].pc) return true;
  }
  return false;
}

ls_status ls_cpu_deadlock(const ls_instance *self) {
  const ls_executable *executable = self->executable;
  ls_text text;
  ls_text_init(&text, self->allocator);
  uint32_t ended = 0;
  for (int32_t r = 0; r < executable->replicas; ++r) {
    if (self->lanes[r].ended) {
      ++ended;
      continue;
    }
    if (is_told(self, r)) continue;
    const uint32_t pc = self->lanes[r].pc;
    ls_text_append(&text, "\nreplicas ");
    print_replicas(self, pc, &text);
    ls_text_append_format(&text, " %s %s",
                          reason_of(&executable->instructions[pc]),
                          label_of(self, pc));
  }
  if (ended > 0) {
    ls_text_append_format(&text, "\n%u replicas have ended", ended);
  }
  ls_status status = ls_failed_precondition(
      "the replicas wait for each other: not all come to the same "
      "collectives%s",
      ls_text_data(&text));
  ls_text_deinit(&text);
  return status;
}
