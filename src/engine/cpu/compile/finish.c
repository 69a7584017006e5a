// SPDX-License-Identifier: Apache-2.0
//
// The last step of compiling: writes the plan into the executable.
#include "engine/cpu/compile/compile.h"

// Closes the gaps of removed instructions, and adjusts targets.
static void compact_instructions(ls_cpu_compiler *self, uint32_t *moved) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    moved[i] = count;
    count += self->instructions[i].code != LS_CPU_NOTHING;
  }
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    if (self->instructions[i].code == LS_CPU_NOTHING) continue;
    ls_cpu_instruction *instruction = &self->instructions[moved[i]];
    *instruction = self->instructions[i];
    instruction->target = moved[instruction->target];
    self->origins[moved[i]] = self->origins[i];
  }
  self->num_instructions = count;
}

static void write_instructions(ls_cpu_compiler *self) {
  ls_executable *out = self->out;
  for (size_t i = 0; i < self->num_instructions; ++i) {
    const ls_cpu_instruction *instruction = &self->instructions[i];
    out->instructions[i] = *instruction;
    out->notes[i] = self->origins[i].note;
    if (instruction->code == LS_CPU_HOST_START) {
      const ls_cpu_host *host = instruction->params;
      if (host->site != LS_CPU_NO_SITE) out->sites[host->site] = host;
    }
    const uint32_t operands = instruction->num_in + instruction->num_out;
    // A launch reads its operands one by one, not through the operand array.
    if (instruction->code != LS_CPU_LAUNCH && operands > out->max_operands) {
      out->max_operands = operands;
    }
  }
  for (size_t i = 0; i < self->num_operands; ++i) {
    const uint32_t root = ls_cpu_root(self, self->operands[i]);
    out->places[i] = self->storages[root].place;
    out->place_sizes[i] = self->storages[root].size;
  }
  out->num_instructions = self->num_instructions;
  out->num_places = self->num_operands;
  out->facts.num_instructions = self->num_instructions;
}

static void write_constants(ls_cpu_compiler *self) {
  for (size_t i = 0; i < self->num_storages; ++i) {
    const ls_cpu_storage *storage = &self->storages[i];
    if (storage->home != LS_CPU_CONSTANT || storage->size == 0) continue;
    memcpy(self->out->constants + (size_t)storage->place.line * 64,
           storage->data, storage->size);
  }
}

// Gives each output spare memory for runs that do not want the output, as other
// results may be computed from it. Memory that no run touches costs only
// address space.
static void place_spares(ls_cpu_compiler *self) {
  ls_executable *out = self->out;
  const ls_graph *body = self->program->body;
  size_t offset = 0;
  for (size_t i = 0; i < self->program->num_outputs; ++i) {
    out->spare_offsets[i] = offset;
    const size_t size = ls_cpu_ref_size(body, body->results[i]);
    offset += (size + 63) & ~(size_t)63;
  }
  out->spare_bytes = offset;
}

void ls_cpu_finish(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  ls_executable *out = self->out;
  uint32_t *moved =
      ls_arena_new_array(&self->temp, uint32_t, self->num_instructions);
  if (!ls_cpu_has_memory(self, moved != NULL)) return;
  compact_instructions(self, moved);
  ls_cpu_trips *trips = &out->trips;
  trips->begin = moved[trips->begin];
  trips->first = moved[trips->first];
  trips->last = moved[trips->last];
  ls_arena *arena = &out->arena;
  const size_t count = self->num_instructions;
  out->instructions = ls_arena_new_array(arena, ls_cpu_instruction, count);
  out->notes = ls_arena_new_array(arena, ls_cpu_note, count);
  out->places = ls_arena_new_array(arena, ls_cpu_place, self->num_operands);
  out->place_sizes = ls_arena_new_array(arena, size_t, self->num_operands);
  out->spare_offsets =
      ls_arena_new_array(arena, size_t, self->program->num_outputs);
  out->sites = ls_arena_new_array(arena, const ls_cpu_host *, out->num_sites);
  out->constants =
      ls_allocate_large(self->allocator, out->facts.constant_bytes);
  out->stack_is_endless = ls_arena_copy(arena, self->endless_stacks,
                                        out->num_stacks * sizeof(bool));
  if (!ls_cpu_has_memory(
          self, out->stack_is_endless != NULL && out->instructions != NULL &&
                    out->notes != NULL && out->places != NULL &&
                    out->place_sizes != NULL && out->spare_offsets != NULL &&
                    out->sites != NULL && out->constants != NULL))
    return;
  write_instructions(self);
  write_constants(self);
  place_spares(self);
}
