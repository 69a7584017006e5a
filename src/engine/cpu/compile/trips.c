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

// Returns true if an instruction writes a storage of this kind.
static bool writes_to(const ls_cpu_compiler *self, uint32_t i,
                      ls_cpu_home home) {
  const ls_cpu_instruction *at = &self->instructions[i];
  if (at->code == LS_CPU_NOTHING) return false;
  for (uint32_t k = at->num_in; k < at->num_in + at->num_out; ++k) {
    const uint32_t root = ls_cpu_root(self, self->operands[at->operand + k]);
    if (self->storages[root].home == home) return true;
  }
  return false;
}

bool ls_cpu_commits(const ls_cpu_compiler *self, uint32_t i) {
  return self->program->apart
             ? writes_to(self, i, LS_CPU_NEW_VALUE) && in_a_loop(self, i)
             : writes_to(self, i, LS_CPU_VARIABLE);
}

// ---- Programs that update variables in place -------------------------------
static bool may_fail(ls_cpu_code code) {
  return code == LS_CPU_HOST_START || code == LS_CPU_HOST_FINISH ||
         code == LS_CPU_LABELS || code == LS_CPU_STACK_PUSH ||
         code == LS_CPU_STACK_POP;
}

// Returns the range of positions during which an instruction may run; for lanes
// from launch to join.
static ls_cpu_stretch time_of(const ls_cpu_compiler *self, uint32_t i) {
  const uint32_t replicate = self->origins[i].replicate;
  ls_cpu_stretch time = {i, i};
  if (replicate != LS_CPU_NONE) time = self->replicates[replicate];
  for (size_t k = 0; k < self->num_loops; ++k) {
    const ls_cpu_stretch *loop = &self->loops[k];
    if (!ls_cpu_is_within(loop, i)) continue;
    if (loop->begin < time.begin) time.begin = loop->begin;
    if (loop->end > time.end) time.end = loop->end;
  }
  return time;
}

static bool may_tear_variables(const ls_cpu_compiler *self) {
  uint32_t first_write = UINT32_MAX, last_failure = 0;
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    const bool fails = may_fail(self->instructions[i].code);
    if (!fails && !writes_to(self, i, LS_CPU_VARIABLE)) continue;
    const ls_cpu_stretch time = time_of(self, i);
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

static void extend_stretch(ls_cpu_stretch *stretch, uint32_t begin,
                           uint32_t end) {
  if (begin < stretch->begin) stretch->begin = begin;
  if (end > stretch->end) stretch->end = end;
}

// Extends `writes` by an instruction. One in an inner loop or among lanes may
// write at any time of the loop or launch.
static void cover_write(const ls_cpu_compiler *self, const ls_cpu_stretch *loop,
                        uint32_t i, ls_cpu_stretch *writes) {
  extend_stretch(writes, i, i);
  for (size_t k = 0; k < self->num_loops; ++k) {
    const ls_cpu_stretch *inner = &self->loops[k];
    if (inner != loop && ls_cpu_is_within(inner, i))
      extend_stretch(writes, inner->begin, inner->end);
  }
  const uint32_t replicate = self->origins[i].replicate;
  if (replicate != LS_CPU_NONE)
    extend_stretch(writes, self->replicates[replicate].begin,
                   self->replicates[replicate].end);
}

// Returns true if a variable's new value is complete before the loop begins.
static bool begins_before(const ls_cpu_compiler *self, uint32_t use,
                          uint32_t begin) {
  for (uint32_t i = 0; i < begin; ++i) {
    const ls_cpu_instruction *at = &self->instructions[i];
    if (at->code == LS_CPU_NOTHING) continue;
    for (uint32_t k = at->num_in; k < at->num_in + at->num_out; ++k) {
      const ls_cpu_storage *s =
          &self->storages[ls_cpu_root(self, self->operands[at->operand + k])];
      if (s->home == LS_CPU_NEW_VALUE && s->index == use) return true;
    }
  }
  return false;
}

static void find_trips(ls_cpu_compiler *self) {
  const ls_program *program = self->program;
  const ls_cpu_stretch *loop = NULL;
  ls_cpu_stretch writes = {UINT32_MAX, 0};
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    if (!writes_to(self, i, LS_CPU_NEW_VALUE)) continue;
    const ls_cpu_stretch *around = loop_around(self, i);
    if (around == NULL && loop == NULL) continue;
    if (around == NULL || (loop != NULL && loop != around)) return;
    loop = around;
    cover_write(self, loop, i, &writes);
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
