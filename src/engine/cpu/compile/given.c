// SPDX-License-Identifier: Apache-2.0
//
// Lent results: results of host calls that are read in the kernel's memory.
// Only for storages that nothing else writes. Results of the program, variables
// and loop-carried values have their own memory, so their values are copied; so
// are wide values, of which each replica's call writes a part.
#include "engine/cpu/compile/compile.h"

enum { LEAST_BYTES = 1024 };  // Copies of fewer bytes are cheap.

// Returns true for an instruction that may run at the same time as lanes, which
// see the bases of their launch.
static bool is_beside_lanes(const ls_cpu_compiler *self, uint32_t position) {
  if (self->origins[position].replicate != LS_CPU_NONE) return true;
  for (size_t i = 0; i < self->num_replicates; ++i) {
    const ls_cpu_stretch *stretch = &self->replicates[i];
    if (stretch->begin <= position && position <= stretch->end) return true;
  }
  return false;
}

static bool is_written_by(const ls_cpu_compiler *self,
                          const ls_cpu_storage *storage, uint32_t position) {
  uint32_t at = storage->first_access, writes = 0;
  for (; at != LS_CPU_NONE; at = self->accesses[at].next) {
    if (!self->accesses[at].is_write) continue;
    if (self->accesses[at].position != position) return false;
    ++writes;
  }
  return writes == 1;
}

static void find_outputs(ls_cpu_compiler *self, uint32_t position,
                         ls_cpu_host *host) {
  const ls_cpu_instruction *finish = &self->instructions[position];
  const uint32_t *outputs = &self->operands[finish->operand + finish->num_in];
  uint32_t *given =
      ls_arena_new_array(&self->out->arena, uint32_t, host->num_out);
  if (!ls_cpu_has_memory(self, given != NULL)) return;
  for (uint32_t i = 0; i < host->num_out; ++i) {
    const uint32_t k = host->num_in + i;
    ls_cpu_storage *storage = &self->storages[ls_cpu_root(self, outputs[i])];
    given[i] = LS_CPU_NOT_GIVEN;
    if (storage->home != LS_CPU_ARENA || storage->is_lane ||
        storage->size != host->sizes[k] || storage->size < LEAST_BYTES ||
        host->types[k].dtype == LS_DTYPE_STRING ||
        !is_written_by(self, storage, position))
      continue;
    storage->home = LS_CPU_GIVEN;
    storage->index = given[i] = self->out->num_given++;
    host->given = given;
  }
}

void ls_cpu_find_given(ls_cpu_compiler *self) {
  for (uint32_t i = 0; i < self->num_instructions && !ls_cpu_failed(self);
       ++i) {
    if (self->instructions[i].code != LS_CPU_HOST_FINISH) continue;
    ls_cpu_host *host = (ls_cpu_host *)(uintptr_t)self->instructions[i].params;
    if ((host->kernel->flags & LS_HOST_GIVES) != 0 && !host->is_for_all &&
        !host->ends_at_once && host->site != LS_CPU_NO_SITE &&
        !is_beside_lanes(self, i))
      find_outputs(self, i, host);
  }
}
