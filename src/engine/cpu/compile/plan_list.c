// SPDX-License-Identifier: Apache-2.0
//
// The plan as figures: the work of each instruction, and how long its results
// stay in working memory.
#include "engine/cpu/run/executable.h"

// A part of working memory: bytes of an arena.
typedef struct extent {
  uint32_t base;
  size_t begin, end;
} extent;

static extent extent_of(const ls_executable *self, size_t operand) {
  const ls_cpu_place place = self->places[operand];
  const size_t begin = (size_t)place.line * 64;
  return (extent){place.base, begin, begin + self->place_sizes[operand]};
}

static bool is_working_memory(uint32_t base) {
  return base == LS_CPU_BASE_SHARED || base == LS_CPU_BASE_FRAME ||
         base == LS_CPU_BASE_SCRATCH;
}

// Returns true if an operand of the instruction, from `first` on, overlaps.
static bool overlaps(const ls_executable *self, uint32_t first, uint32_t count,
                     const extent *value) {
  for (uint32_t i = 0; i < count; ++i) {
    const extent other = extent_of(self, first + i);
    if (other.base == value->base && other.begin < value->end &&
        other.end > value->begin)
      return true;
  }
  return false;
}

// Returns the last instruction that reads a value of instruction `pc` before
// one overwrites it.
static size_t find_last_reader(const ls_executable *self, size_t pc,
                               const extent *value) {
  size_t last = pc;
  for (size_t i = pc + 1; i < self->num_instructions; ++i) {
    const ls_cpu_instruction *at = &self->instructions[i];
    if (overlaps(self, at->operand, at->num_in, value)) last = i;
    if (overlaps(self, at->operand + at->num_in, at->num_out, value)) break;
  }
  return last;
}

static ls_instruction_figures describe_instruction(const ls_executable *self,
                                                   size_t pc) {
  const ls_cpu_instruction *at = &self->instructions[pc];
  const ls_cpu_note *note = &self->notes[pc];
  ls_instruction_figures figures = {
      .name = note->name != NULL ? note->name : "",
      .flops = note->flops * note->trips,
      .bytes_accessed = (double)note->bytes * note->trips,
      .last_reader = pc};
  if (at->code != LS_CPU_KERNEL) return figures;
  for (uint32_t i = at->num_in; i < (uint32_t)at->num_in + at->num_out; ++i) {
    const extent value = extent_of(self, at->operand + i);
    if (!is_working_memory(value.base)) continue;
    const size_t copies =
        value.base == LS_CPU_BASE_SHARED ? 1 : self->num_lanes;
    const size_t reader = find_last_reader(self, pc, &value);
    figures.value_bytes += (int64_t)((value.end - value.begin) * copies);
    if (reader > figures.last_reader) figures.last_reader = reader;
  }
  return figures;
}

ls_status ls_cpu_list_instructions(const ls_executable *self,
                                   ls_instruction_figures *instructions,
                                   size_t capacity, size_t *out_count) {
  const size_t count = self->num_instructions;
  for (size_t pc = 0; pc < count && pc < capacity; ++pc)
    instructions[pc] = describe_instruction(self, pc);
  *out_count = count;
  return ls_ok();
}
