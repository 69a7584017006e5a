// SPDX-License-Identifier: Apache-2.0
//
// Values that a failed run leaves in variables.
//
// In a program that updates variables in place nothing should fail after the
// first update; if something may, the program is flagged and compiled again
// with separate new values. Such a program then leaves the values of whole
// trips: at certain positions the new values of all loop-carried variables are
// those of the same trip. That holds if one outermost loop computes them and no
// instruction after it: from the loop's head to the first instruction that
// gives a variable its value of the trip, and after the last such instruction.
#include "engine/cpu/compile/compile.h"

static bool in_a_loop(const ls_cpu_compiler *self, uint32_t position) {
  for (size_t i = 0; i < self->num_loops; ++i)
    if (ls_cpu_is_within(&self->loops[i], position)) return true;
  return false;
}

// Returns true if an instruction writes a storage of this kind with this index,
// or with any.
static bool writes_to(const ls_cpu_compiler *self, uint32_t i, ls_cpu_home home,
                      uint32_t index) {
  const ls_cpu_instruction *at = &self->instructions[i];
  for (uint32_t k = at->num_in; k < ls_cpu_num_operands(self, i); ++k) {
    const ls_cpu_storage *s =
        &self->storages[ls_cpu_root(self, self->operands[at->operand + k])];
    if (s->home == home && (index == LS_CPU_NONE || s->index == index))
      return true;
  }
  return false;
}

bool ls_cpu_commits(const ls_cpu_compiler *self, uint32_t i) {
  return self->program->apart
             ? writes_to(self, i, LS_CPU_NEW_VALUE, LS_CPU_NONE) &&
                   in_a_loop(self, i)
             : writes_to(self, i, LS_CPU_VARIABLE, LS_CPU_NONE);
}

// ---- Programs that update variables in place -------------------------------
static bool may_fail(ls_cpu_code code) {
  return code == LS_CPU_HOST_START || code == LS_CPU_HOST_FINISH ||
         code == LS_CPU_LABELS || code == LS_CPU_STACK_PUSH ||
         code == LS_CPU_STACK_POP;
}

static void extend_stretch(ls_cpu_stretch *stretch,
                           const ls_cpu_stretch *other) {
  if (other->begin < stretch->begin) stretch->begin = other->begin;
  if (other->end > stretch->end) stretch->end = other->end;
}

// Returns the range of positions during which an instruction may run, within a
// trip of `trip`, if that is not NULL; for lanes from launch to join.
static ls_cpu_stretch time_of(const ls_cpu_compiler *self, uint32_t i,
                              const ls_cpu_stretch *trip) {
  const uint32_t replicate = self->origins[i].replicate;
  ls_cpu_stretch time = {i, i};
  if (replicate != LS_CPU_NONE) time = self->replicates[replicate];
  for (size_t k = 0; k < self->num_loops; ++k)
    if (&self->loops[k] != trip && ls_cpu_is_within(&self->loops[k], i))
      extend_stretch(&time, &self->loops[k]);
  return time;
}

static bool may_tear_variables(const ls_cpu_compiler *self) {
  uint32_t first_write = UINT32_MAX, last_failure = 0;
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    const bool fails = may_fail(self->instructions[i].code);
    if (!fails && !writes_to(self, i, LS_CPU_VARIABLE, LS_CPU_NONE)) continue;
    const ls_cpu_stretch time = time_of(self, i, NULL);
    if (fails && time.end > last_failure) last_failure = time.end;
    if (!fails && time.begin < first_write) first_write = time.begin;
  }
  return first_write < last_failure;
}

// ---- Programs with separate new values -------------------------------------

// Returns the outermost loop around an instruction; NULL: none.
static const ls_cpu_stretch *loop_around(const ls_cpu_compiler *self,
                                         uint32_t position) {
  const ls_cpu_stretch *outer = NULL;
  for (size_t i = 0; i < self->num_loops; ++i) {
    const ls_cpu_stretch *loop = &self->loops[i];
    if (ls_cpu_is_within(loop, position) &&
        (outer == NULL || loop->begin < outer->begin))
      outer = loop;
  }
  return outer;
}

// Returns true if a variable's new value is complete before the loop begins.
static bool begins_before(const ls_cpu_compiler *self, uint32_t use,
                          uint32_t begin) {
  for (uint32_t i = 0; i < begin; ++i)
    if (writes_to(self, i, LS_CPU_NEW_VALUE, use)) return true;
  return false;
}

static void find_trips(ls_cpu_compiler *self) {
  const ls_program *program = self->program;
  const ls_cpu_stretch *loop = NULL;
  ls_cpu_stretch writes = {UINT32_MAX, 0};
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    if (!writes_to(self, i, LS_CPU_NEW_VALUE, LS_CPU_NONE)) continue;
    const ls_cpu_stretch *around = loop_around(self, i);
    if (around == NULL && loop == NULL) continue;
    if (around == NULL || (loop != NULL && loop != around)) return;
    loop = around;
    const ls_cpu_stretch time = time_of(self, i, loop);
    extend_stretch(&writes, &time);
  }
  if (loop == NULL) return;
  for (uint32_t k = 0; k < program->num_uses; ++k)
    if (program->uses[k].written && !begins_before(self, k, loop->begin))
      return;
  self->out->trips =
      (ls_cpu_trips){true, loop->begin, writes.begin, writes.end};
}

void ls_cpu_find_failure_values(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  if (!self->program->apart)
    self->out->facts.tears = may_tear_variables(self);
  else if (self->out->communicator == NULL)
    find_trips(self);
}
