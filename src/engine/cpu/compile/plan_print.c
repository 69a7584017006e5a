// SPDX-License-Identifier: Apache-2.0
//
// The plan as text: every instruction with the places of its operands, and
// totals.
#include "base/text.h"
#include "engine/cpu/run/executable.h"
#include "engine/cpu/run/sums.h"

static const char *const code_names[] = {
    [LS_CPU_NOTHING] = "nothing",
    [LS_CPU_KERNEL] = "kernel",
    [LS_CPU_COPY] = "copy",
    [LS_CPU_LABELS] = "labels",
    [LS_CPU_BRANCH] = "branch",
    [LS_CPU_JUMP] = "jump",
    [LS_CPU_LOOP_BEGIN] = "loop_begin",
    [LS_CPU_LOOP_NEXT] = "loop_next",
    [LS_CPU_LOOP_END] = "loop_end",
    [LS_CPU_STACK_NEW] = "stack_new",
    [LS_CPU_STACK_PUSH] = "stack_push",
    [LS_CPU_STACK_POP] = "stack_pop",
    [LS_CPU_HOST_START] = "host_start",
    [LS_CPU_HOST_FINISH] = "host_finish",
    [LS_CPU_LAUNCH] = "launch",
    [LS_CPU_AWAIT] = "await",
    [LS_CPU_PUBLISH] = "publish",
    [LS_CPU_JOIN] = "join",
    [LS_CPU_EQUAL] = "merge_equal",
    [LS_CPU_EXCHANGE] = "exchange",
    [LS_CPU_SUMS_START] = "sums_start",
    [LS_CPU_SUMS_FINISH] = "sums_finish",
    [LS_CPU_SELECT] = "select",
    [LS_CPU_WAIT] = "wait",
    [LS_CPU_TURN] = "turn",
    [LS_CPU_POST] = "post",
    [LS_CPU_MEET] = "meet",
    [LS_CPU_END] = "end",
};

const char *ls_cpu_code_name(ls_cpu_code code) {
  return (size_t)code < LS_COUNT_OF(code_names) ? code_names[code] : "?";
}

// Prints "shared+0x40", "input 2", ...
static void print_place(const ls_executable *self, ls_cpu_place place,
                        size_t size, ls_text *text) {
  static const char *const arenas[] = {
      [LS_CPU_BASE_CONSTANTS] = "constant",
      [LS_CPU_BASE_SHARED] = "shared",
      [LS_CPU_BASE_FRAME] = "frame",
      [LS_CPU_BASE_SCRATCH] = "scratch",
  };
  const struct {
    uint32_t begin;
    const char *name;
  } groups[] = {
      {ls_cpu_base_contributions(self), "contribution"},
      {ls_cpu_base_gathered(self), "gathered"},
      {ls_cpu_base_split(self), "split"},
      {ls_cpu_base_given(self), "given"},
      {ls_cpu_base_new_values(self), "new value"},
      {ls_cpu_base_variables(self), "variable"},
      {ls_cpu_base_outputs(self), "output"},
      {ls_cpu_base_inputs(), "input"},
  };
  if (place.base < LS_CPU_BASE_FIXED) {
    ls_text_append_format(text, "%s+0x%zx", arenas[place.base],
                          (size_t)place.line * 64);
  } else {
    size_t group = 0;
    while (place.base < groups[group].begin)
      ++group;
    ls_text_append_format(text, "%s %u", groups[group].name,
                          place.base - groups[group].begin);
  }
  ls_text_append_format(text, ":%zu", size);
}

static void print_operands(const ls_executable *self,
                           const ls_cpu_instruction *at, ls_text *text) {
  enum { SHOWN = 16 };  // A launch may have thousands of operands.
  const uint32_t count = at->num_in + at->num_out;
  for (uint32_t i = 0; i < count; ++i) {
    if (i == SHOWN) {
      ls_text_append_format(text, " and %u more", count - SHOWN);
      return;
    }
    ls_text_append(text, i == at->num_in ? " -> " : i == 0 ? " " : ", ");
    print_place(self, self->places[at->operand + i],
                self->place_sizes[at->operand + i], text);
  }
}

static void print_instruction(const ls_executable *self, size_t pc,
                              ls_text *text) {
  const ls_cpu_instruction *at = &self->instructions[pc];
  const ls_cpu_note *note = &self->notes[pc];
  ls_text_append_format(text, "%5zu  %s", pc, ls_cpu_code_name(at->code));
  switch (at->code) {
  case LS_CPU_BRANCH:
  case LS_CPU_JUMP:
  case LS_CPU_LOOP_NEXT:
  case LS_CPU_JOIN:
    ls_text_append_format(text, " %u", at->target);
    break;
  case LS_CPU_LAUNCH: {
    const ls_cpu_launch *launch = at->params;
    ls_text_append_format(text, " %u", at->target);
    if (launch->num_parts > 1)
      ls_text_append_format(text, " in %u parts", launch->num_parts);
    break;
  }
  case LS_CPU_SELECT:
    ls_text_append_format(text, " #%u %u", at->number, at->target);
    break;
  case LS_CPU_AWAIT:
  case LS_CPU_PUBLISH:
  case LS_CPU_WAIT:
  case LS_CPU_TURN:
  case LS_CPU_POST:
  case LS_CPU_MEET:
  case LS_CPU_STACK_NEW:
    ls_text_append_format(text, " #%u", at->number);
    break;
  case LS_CPU_SUMS_START:
  case LS_CPU_SUMS_FINISH: {
    const ls_cpu_sums *sums = at->params;
    ls_text_append_format(text, " #%u %u of %zu bytes%s", at->number,
                          sums->count, sums->bytes,
                          sums->in_parts ? " in parts" : "");
    break;
  }
  case LS_CPU_KERNEL:
    if (at->size > 1)
      ls_text_append_format(text, " x%lld", (long long)at->size);
    break;
  default:
    break;
  }
  if (note->kind != NULL || note->node != NULL) {
    ls_text_append_format(text, " %s",
                          note->kind != NULL ? note->kind
                                             : ls_node_info(note->node)->name);
  }
  if (note->name != NULL) ls_text_append_format(text, " '%s'", note->name);
  print_operands(self, at, text);
  ls_text_append_char(text, '\n');
}

// Returns true if the lane code of some launch begins here.
static bool begins_lanes(const ls_executable *self, size_t pc) {
  for (size_t i = 0; i < pc; ++i) {
    const ls_cpu_instruction *at = &self->instructions[i];
    if (at->code == LS_CPU_LAUNCH && at->target == pc) return true;
  }
  return false;
}

ls_status ls_cpu_print_plan(const ls_executable *self, ls_text *text) {
  const ls_plan_facts *facts = &self->facts;
  const ls_program *program = self->program;
  ls_text_append_format(
      text,
      "inputs %zu, outputs %zu, variables %zu, replicas %d\n"
      "instructions %zu, flops %.0f\n"
      "bytes: shared %zu, frame %zu, scratch %zu, constants %zu, kernels %zu\n",
      program->num_inputs, program->num_outputs, program->num_uses,
      self->replicas, facts->num_instructions, facts->figures.flops,
      facts->shared_bytes, facts->frame_bytes, facts->scratch_bytes,
      facts->constant_bytes, self->kernel_scratch);
  for (size_t pc = 0; pc < self->num_instructions; ++pc) {
    if (begins_lanes(self, pc)) ls_text_append(text, "lanes:\n");
    const bool is_after =
        pc > 0 && self->instructions[pc - 1].code == LS_CPU_END;
    if (pc == 0 || is_after) ls_text_append(text, "shared:\n");
    print_instruction(self, pc, text);
  }
  return ls_text_status(text);
}

// ---- Figures ----------------------------------------------------------------
// The plan as figures: the work of each instruction, and how long its results
// stay in working memory.

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
