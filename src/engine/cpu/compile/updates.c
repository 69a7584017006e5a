// SPDX-License-Identifier: Apache-2.0
//
// Early updates of variables: they move up to the instructions that make their
// operands.
//
// An optimizer follows all gradients. There it would read each gradient from
// memory; right after the product that makes it, a gradient is still in a
// cache, and the next gradient can reuse its memory. Also, updates of equally
// large arrays are then no longer adjacent, where fuse.c would group them
// arbitrarily.
//
// Elementwise and small instructions move if their results only go into
// variables. Two that use one storage, which one of them writes, keep their
// order, and none moves across a jump, a park or a jump target. So a run
// computes the same values. On several ranks the instruction that makes a
// gradient is the end of its exchange (exchanges.c).
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/kernels/loops.h"

// Most bytes that a small instruction may touch.
enum { SMALL_BYTES = 64 };

// Target positions: slot p comes after the instruction that stays at p.
typedef struct slots {
  const bool *is_target;
  // Per position: the slot of an update; NONE: the instruction stays.
  uint32_t *slot;
  // State of a scan per root: slots of the last write and the last use.
  uint32_t *write, *use;
  bool goes_down;  // The scan goes from the end to the beginning.
} slots;

static bool is_light(const ls_cpu_compiler *self, uint32_t i) {
  const ls_cpu_instruction *at = &self->instructions[i];
  return at->code == LS_CPU_KERNEL &&
         (at->loop == ls_elementwise_loop ||
          self->origins[i].note.bytes <= SMALL_BYTES);
}

static bool is_read(const ls_cpu_compiler *self, uint32_t i, uint32_t operand) {
  return operand < self->instructions[i].num_in;
}

static uint32_t operand_root(const ls_cpu_compiler *self, uint32_t i,
                             uint32_t operand) {
  return self->operands[self->instructions[i].operand + operand];
}

// Returns true if each result goes to a variable or is read only by updates (is
// not `wanted`).
static bool is_update(const ls_cpu_compiler *self, const bool *wanted,
                      uint32_t i) {
  if (!is_light(self, i)) return false;
  for (uint32_t k = 0; k < ls_cpu_num_operands(self, i); ++k) {
    const uint32_t root = operand_root(self, i, k);
    const ls_cpu_home home = self->storages[root].home;
    if (!is_read(self, i, k) && home != LS_CPU_VARIABLE &&
        home != LS_CPU_NEW_VALUE && (home != LS_CPU_ARENA || wanted[root]))
      return false;
  }
  return true;
}

// Gives each update a slot: its current position.
static void find_updates(const ls_cpu_compiler *self, slots *s, bool *wanted) {
  for (uint32_t i = (uint32_t)self->num_instructions; i-- > 0;) {
    const bool moves =
        !ls_cpu_is_wall(self, s->is_target, i) && is_update(self, wanted, i);
    s->slot[i] = moves ? i : LS_CPU_NONE;
    for (uint32_t k = 0; !moves && k < ls_cpu_num_operands(self, i); ++k)
      if (is_read(self, i, k)) wanted[operand_root(self, i, k)] = true;
  }
}

// ---- Scans -----------------------------------------------------------------
static uint32_t further_slot(const slots *s, uint32_t a, uint32_t b) {
  return s->goes_down == (a < b) ? a : b;
}

// Returns the slot nearest to `end` to which an update can move without passing
// an instruction of the scan that it depends on.
static uint32_t slot_beside(const ls_cpu_compiler *self, const slots *s,
                            uint32_t i, uint32_t end) {
  uint32_t slot = end;
  for (uint32_t k = 0; k < ls_cpu_num_operands(self, i); ++k)
    slot = further_slot(
        s, slot,
        (is_read(self, i, k) ? s->write : s->use)[operand_root(self, i, k)]);
  return slot;
}

static void pass_instruction(const ls_cpu_compiler *self, slots *s, uint32_t i,
                             uint32_t slot) {
  for (uint32_t k = 0; k < ls_cpu_num_operands(self, i); ++k) {
    const uint32_t root = operand_root(self, i, k);
    s->use[root] = further_slot(s, s->use[root], slot);
    if (!is_read(self, i, k))
      s->write[root] = further_slot(s, s->write[root], slot);
  }
}

// Moves each update up as far as possible.
static void move_up(const ls_cpu_compiler *self, slots *s) {
  uint32_t wall = 0;
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    if (ls_cpu_is_wall(self, s->is_target, i)) wall = i;
    const bool moves = s->slot[i] != LS_CPU_NONE;
    if (moves) s->slot[i] = slot_beside(self, s, i, wall);
    pass_instruction(self, s, i, moves ? s->slot[i] : i);
  }
}

// Moves operands of updates down to their users: instructions that use only old
// values could otherwise run far ahead of the gradient that they are combined
// with.
static void move_down(const ls_cpu_compiler *self, slots *s) {
  uint32_t wall = LS_CPU_NONE;
  s->goes_down = true;
  for (uint32_t i = (uint32_t)self->num_instructions; i-- > 1;) {
    if (ls_cpu_is_wall(self, s->is_target, i)) wall = i - 1;
    const bool moves = s->slot[i] != LS_CPU_NONE;
    const uint32_t slot = moves ? slot_beside(self, s, i, LS_CPU_NONE) : i - 1;
    if (moves && slot != LS_CPU_NONE) s->slot[i] = further_slot(s, slot, wall);
    pass_instruction(self, s, i, moves ? s->slot[i] : slot);
  }
}

// ---- The new order ---------------------------------------------------------
bool ls_cpu_reorder(ls_cpu_compiler *self, const uint32_t *moves) {
  const uint32_t count = (uint32_t)self->num_instructions;
  uint32_t *first = ls_arena_new_array(&self->temp, uint32_t, count);
  uint32_t *next = ls_arena_new_array(&self->temp, uint32_t, count);
  const ls_cpu_instruction *instructions = ls_arena_copy(
      &self->temp, self->instructions, count * sizeof(*instructions));
  const ls_cpu_origin *origins =
      ls_arena_copy(&self->temp, self->origins, count * sizeof(*origins));
  if (first == NULL || next == NULL || instructions == NULL || origins == NULL)
    return false;
  memset(first, 0xff, count * sizeof(*first));
  for (uint32_t i = count; i-- > 0;) {
    if (moves[i] == LS_CPU_NONE) continue;
    next[i] = first[moves[i]];
    first[moves[i]] = i;
  }
  uint32_t position = 0;
  for (uint32_t slot = 0; slot < count; ++slot) {
    if (moves[slot] == LS_CPU_NONE) {
      self->instructions[position] = instructions[slot];
      self->origins[position++] = origins[slot];
    }
    for (uint32_t i = first[slot]; i != LS_CPU_NONE; i = next[i]) {
      self->instructions[position] = instructions[i];
      self->origins[position++] = origins[i];
    }
  }
  ls_cpu_forget_accesses(self);
  ls_cpu_collect_accesses(self);
  return true;
}

void ls_cpu_advance_updates(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  ls_arena *temp = &self->temp;
  const size_t roots = self->num_storages;
  bool *wanted = ls_arena_new_array(temp, bool, roots);
  slots s = {
      .is_target = ls_cpu_targets(self),
      .slot = ls_arena_new_array(temp, uint32_t, self->num_instructions),
      .write = ls_arena_new_array(temp, uint32_t, roots),
      .use = ls_arena_new_array(temp, uint32_t, roots),
  };
  if (!ls_cpu_has_memory(self, wanted != NULL && s.is_target != NULL &&
                                   s.slot != NULL && s.write != NULL &&
                                   s.use != NULL))
    return;
  find_updates(self, &s, wanted);
  move_up(self, &s);
  memset(s.write, 0xff, roots * sizeof(*s.write));
  memset(s.use, 0xff, roots * sizeof(*s.use));
  move_down(self, &s);
  if (!ls_cpu_reorder(self, s.slot)) ls_cpu_fail(self, ls_out_of_memory());
}
