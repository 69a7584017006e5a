// SPDX-License-Identifier: Apache-2.0
//
// Sharing of memory between storages.
//
// Each storage lists its accesses. A copy T = S is removed if S can be computed
// in T from the start, and a kernel works in place if its operand is not used
// later. So results are computed directly in the caller's arrays, new values of
// variables in their buffers, and all values of a loop-carried variable in one
// place.
#include "engine/cpu/compile/compile.h"

// ---- Lent results -----------------------------------------------------------
// Lent results: results of host calls that are read in the kernel's memory.
// Only for storages that nothing else writes. Results of the program, variables
// and loop-carried values have their own memory, so their values are copied; so
// are wide values, of which each replica's call writes a part.

enum { LEAST_BYTES = 1024 };  // Copies of fewer bytes are cheap.

// Returns true for an instruction that may run at the same time as lanes, which
// see the bases of their launch.
static bool is_beside_lanes(const ls_cpu_compiler *self, uint32_t position) {
  if (self->origins[position].replicate != LS_CPU_NONE) return true;
  for (size_t i = 0; i < self->num_replicates; ++i)
    if (ls_cpu_is_within(&self->replicates[i], position)) return true;
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

// Finds results of host calls that can be read in the kernel's memory. Called
// after the removal of copies.
static void find_given(ls_cpu_compiler *self) {
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

// ---- Accesses --------------------------------------------------------------
// Extends the storage's span to cover one more access.
static void extend_span(ls_cpu_storage *storage, uint32_t low, uint32_t high) {
  if (storage->first_access == LS_CPU_NONE || low < storage->span.begin)
    storage->span.begin = low;
  if (storage->first_access == LS_CPU_NONE || high > storage->span.end)
    storage->span.end = high;
}

// Adds an access. Lanes may access a shared storage at any time between launch
// and join; so may the launch on their behalf.
static void add_access(ls_cpu_compiler *self, uint32_t position,
                       uint32_t operand, bool is_write) {
  ls_cpu_storage *storage = &self->storages[self->operands[operand]];
  const uint32_t replicate = self->origins[position].replicate;
  ls_cpu_access access = {position, position, position, LS_CPU_NONE, is_write};
  if (replicate != LS_CPU_NONE && !storage->is_lane) {
    access.low = self->replicates[replicate].begin;
    access.high = self->replicates[replicate].end;
  }
  const uint32_t index = (uint32_t)self->num_accesses++;
  self->accesses[index] = access;
  extend_span(storage, access.low, access.high);
  if (storage->first_access == LS_CPU_NONE)
    storage->first_access = index;
  else
    self->accesses[storage->last_access].next = index;
  storage->last_access = index;
  const ls_cpu_code code = self->instructions[position].code;
  storage->by_host |=
      is_write && (code == LS_CPU_HOST_START || code == LS_CPU_HOST_FINISH);
}

void ls_cpu_collect_accesses(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  if (!ls_cpu_has_memory(self, LS_GROW(self->allocator, self->accesses,
                                       self->accesses_capacity,
                                       self->num_operands + 1)))
    return;
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    const ls_cpu_instruction *instruction = &self->instructions[i];
    if (instruction->code == LS_CPU_NOTHING) continue;
    for (uint32_t k = 0; k < instruction->num_in + instruction->num_out; ++k)
      add_access(self, i, instruction->operand + k, k >= instruction->num_in);
  }
}

void ls_cpu_forget_accesses(ls_cpu_compiler *self) {
  self->num_accesses = 0;
  for (size_t i = 0; i < self->num_storages; ++i)
    self->storages[i].first_access = self->storages[i].last_access =
        LS_CPU_NONE;
}

uint32_t ls_cpu_root(const ls_cpu_compiler *self, uint32_t storage) {
  while (self->storages[storage].merged != storage)
    storage = self->storages[storage].merged;
  return storage;
}

static const ls_cpu_access *first_access(const ls_cpu_compiler *self,
                                         uint32_t root) {
  const uint32_t first = self->storages[root].first_access;
  return first == LS_CPU_NONE ? NULL : &self->accesses[first];
}
static const ls_cpu_access *next_access(const ls_cpu_compiler *self,
                                        const ls_cpu_access *access) {
  return access->next == LS_CPU_NONE ? NULL : &self->accesses[access->next];
}

// A storage that is first written before a loop and used in it lives to the
// loop's end: the next trip uses it again.
bool ls_cpu_extent(const ls_cpu_compiler *self, uint32_t root,
                   ls_cpu_stretch *out_extent) {
  if (first_access(self, root) == NULL) return false;
  ls_cpu_stretch extent = self->storages[root].span;
  for (size_t i = 0; i < self->num_loops; ++i) {
    const ls_cpu_stretch *loop = &self->loops[i];
    if (extent.begin >= loop->begin || loop->end <= extent.end) continue;
    for (const ls_cpu_access *a = first_access(self, root); a != NULL;
         a = next_access(self, a)) {
      if (!ls_cpu_is_within(loop, a->position)) continue;
      extent.end = loop->end;
      break;
    }
  }
  *out_extent = extent;
  return true;
}

// ---- Sharing ---------------------------------------------------------------
static void join_storages(ls_cpu_compiler *self, uint32_t from, uint32_t into) {
  ls_cpu_storage *s = &self->storages[from], *t = &self->storages[into];
  s->merged = into;
  t->by_host |= s->by_host;
  if (s->first_access == LS_CPU_NONE) return;
  extend_span(t, s->span.begin, s->span.end);
  if (t->first_access == LS_CPU_NONE)
    t->first_access = s->first_access;
  else
    self->accesses[t->last_access].next = s->first_access;
  t->last_access = s->last_access;
}

static bool works_in_place(ls_cpu_code code) {
  return code == LS_CPU_KERNEL || code == LS_CPU_STACK_PUSH ||
         code == LS_CPU_STACK_POP;
}

// Returns the index of the instruction's output on `root`, if there is one.
static uint32_t output_on(const ls_cpu_compiler *self, uint32_t position,
                          uint32_t root) {
  const ls_cpu_instruction *instruction = &self->instructions[position];
  const uint32_t *operands = &self->operands[instruction->operand];
  uint32_t found = LS_CPU_NONE;
  for (uint32_t i = 0; i < instruction->num_out; ++i) {
    if (ls_cpu_root(self, operands[instruction->num_in + i]) != root) continue;
    if (found != LS_CPU_NONE) return LS_CPU_NONE;
    found = i;
  }
  return found;
}

static bool takes_place(const ls_cpu_compiler *self, uint32_t position,
                        uint32_t output, uint32_t input) {
  return output < LS_COUNT_OF(self->origins->in_place) && input < 32 &&
         (self->origins[position].in_place[output] >> input & 1U) != 0;
}

// Returns true if the output on `output` could be on `root` with regard to the
// instruction's other operands: each operand on `root` must be one that may be
// overwritten.
static bool may_overwrite(const ls_cpu_compiler *self, uint32_t position,
                          uint32_t output, uint32_t root) {
  const ls_cpu_instruction *instruction = &self->instructions[position];
  const uint32_t *operands = &self->operands[instruction->operand];
  if (instruction->code == LS_CPU_COPY) return true;
  if (!works_in_place(instruction->code)) return false;
  const uint32_t number = output_on(self, position, output);
  if (number == LS_CPU_NONE) return false;
  for (uint32_t i = 0; i < instruction->num_in; ++i)
    if (ls_cpu_root(self, operands[i]) == root &&
        !takes_place(self, position, number, i))
      return false;
  for (uint32_t i = 0; i < instruction->num_out; ++i)
    if (i != number &&
        ls_cpu_root(self, operands[instruction->num_in + i]) == root)
      return false;
  return true;
}

// Returns true if both positions are in the same loops. Requires that `inner`
// follows `outer` and that each loop around `outer` encloses `inner` too.
static bool in_same_loops(const ls_cpu_compiler *self, uint32_t outer,
                          uint32_t inner) {
  for (size_t i = 0; i < self->num_loops; ++i)
    if (ls_cpu_is_within(&self->loops[i], inner) &&
        !ls_cpu_is_within(&self->loops[i], outer))
      return false;
  return true;
}

// Returns true if nothing writes `root` in the positions `after` < p <= `last`.
static bool is_unchanged(const ls_cpu_compiler *self, uint32_t root,
                         uint32_t after, uint32_t last) {
  for (const ls_cpu_access *a = first_access(self, root); a != NULL;
       a = next_access(self, a))
    if (a->is_write && a->high > after && a->low <= last &&
        a->position != after)
      return false;
  return true;
}

// Returns true if a run that reaches one of the positions does not reach the
// other, in one trip of the common loops.
static bool exclude_each_other(const ls_cpu_compiler *self, uint32_t p,
                               uint32_t q) {
  for (size_t i = 0; i < self->num_forks; ++i) {
    const ls_cpu_stretch *branches = self->forks[i].branches;
    if ((ls_cpu_is_within(&branches[0], p) &&
         ls_cpu_is_within(&branches[1], q)) ||
        (ls_cpu_is_within(&branches[1], p) &&
         ls_cpu_is_within(&branches[0], q)))
      return true;
  }
  return false;
}

static bool same_loops(const ls_cpu_compiler *self, uint32_t p, uint32_t q) {
  return in_same_loops(self, p, q) && in_same_loops(self, q, p);
}

static bool is_copy_between(const ls_cpu_compiler *self, uint32_t position,
                            uint32_t from, uint32_t target) {
  const ls_cpu_instruction *instruction = &self->instructions[position];
  const uint32_t *operands = &self->operands[instruction->operand];
  return instruction->code == LS_CPU_COPY &&
         ls_cpu_root(self, operands[0]) == from &&
         ls_cpu_root(self, operands[1]) == target;
}

// Returns true if a run that reaches q has reached p before, in the same trip.
static bool leads_to(const ls_cpu_compiler *self, uint32_t p, uint32_t q) {
  for (size_t i = 0; i < self->num_forks; ++i)
    for (int k = 0; k < 2; ++k)
      if (ls_cpu_is_within(&self->forks[i].branches[k], p) &&
          !ls_cpu_is_within(&self->forks[i].branches[k], q))
        return false;
  return p < q && same_loops(self, p, q);
}

// Returns true if the read of T sees a value that a branch other than the
// copy's has written since S began.
static bool reads_new(const ls_cpu_compiler *self, const ls_cpu_access *a,
                      uint32_t t, uint32_t begin, uint32_t copy) {
  for (const ls_cpu_access *w = first_access(self, t); w != NULL;
       w = next_access(self, w))
    if (w->is_write && w->low == w->high && w->position > begin &&
        exclude_each_other(self, w->position, copy) &&
        leads_to(self, w->position, a->position) &&
        !is_copy_between(self, w->position, t, t))
      return true;
  return false;
}

// Returns true if an access of T between S's beginning and the copy sees the
// same T if S shares T's memory. Either the access is in a branch that excludes
// the copy, or it copies T's value to S, as a branch does that leaves the value
// unchanged; and nothing that leads to it has written S, or uses S after T is
// written.
static bool passes_by(const ls_cpu_compiler *self, const ls_cpu_access *a,
                      uint32_t s, uint32_t t, uint32_t begin, uint32_t copy) {
  const bool moves = is_copy_between(self, a->position, s, t) ||
                     is_copy_between(self, a->position, t, s);
  if (a->low != a->high || !same_loops(self, a->position, begin) ||
      !same_loops(self, a->position, copy))
    return false;
  if (!exclude_each_other(self, a->position, copy) && (!moves || a->is_write))
    return false;
  if (!a->is_write && reads_new(self, a, t, begin, copy)) return true;
  for (const ls_cpu_access *x = first_access(self, s); x != NULL;
       x = next_access(self, x)) {
    if (x->low == x->high) {
      if (x->position == a->position && moves) continue;
      if (exclude_each_other(self, x->position, a->position)) continue;
    }
    if (a->is_write ? x->high >= a->position : x->is_write) return false;
  }
  return true;
}

// Returns true if only the copy uses T from the beginning of S up to the copy.
// The instruction that begins S may read T if it can work in place.
static bool is_free(const ls_cpu_compiler *self, uint32_t s, uint32_t t,
                    uint32_t begin, uint32_t copy) {
  for (const ls_cpu_access *a = first_access(self, t); a != NULL;
       a = next_access(self, a)) {
    if (a->position == copy || a->high < begin || a->low > copy) continue;
    if (passes_by(self, a, s, t, begin, copy)) continue;
    if (a->position != begin || a->is_write ||
        !may_overwrite(self, a->position, s, t))
      return false;
  }
  return true;
}

// Returns true if S may share T's memory, which makes the copy T = S at `copy`
// unnecessary: T must be free from the beginning of S up to the copy, and
// afterwards neither may change while the other is in use.
static bool may_share(const ls_cpu_compiler *self, uint32_t s, uint32_t t,
                      uint32_t copy) {
  const ls_cpu_storage *from = &self->storages[s], *target = &self->storages[t];
  ls_cpu_stretch life, other;
  if (s == t || from->home != LS_CPU_ARENA ||
      from->is_lane != target->is_lane || from->size != target->size ||
      !ls_cpu_extent(self, s, &life) || !ls_cpu_extent(self, t, &other))
    return false;
  // A failed host call may leave a variable half written.
  if (target->home == LS_CPU_VARIABLE && from->by_host) return false;
  // If the copy is never reached, T's value from before the loop is still
  // needed.
  if (!in_same_loops(self, life.begin, copy)) return false;
  // A result of the program is in use to the end.
  const uint32_t end = target->home == LS_CPU_ARENA ? other.end : UINT32_MAX;
  return is_free(self, s, t, life.begin, copy) &&
         is_unchanged(self, t, copy, life.end) &&
         is_unchanged(self, s, copy, end);
}

static void drop_copies(ls_cpu_compiler *self) {
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    ls_cpu_instruction *instruction = &self->instructions[i];
    if (instruction->code != LS_CPU_COPY) continue;
    const uint32_t *operands = &self->operands[instruction->operand];
    const uint32_t from = ls_cpu_root(self, operands[0]);
    const uint32_t target = ls_cpu_root(self, operands[1]);
    if (from != target && may_share(self, from, target, i))
      join_storages(self, from, target);
  }
  // Removes copies from a storage to itself, also those created by removing
  // others.
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    ls_cpu_instruction *instruction = &self->instructions[i];
    if (instruction->code != LS_CPU_COPY) continue;
    const uint32_t *operands = &self->operands[instruction->operand];
    if (ls_cpu_root(self, operands[0]) == ls_cpu_root(self, operands[1]) ||
        instruction->size == 0)
      instruction->code = LS_CPU_NOTHING;
  }
}

// Puts an output on an operand's storage that is not used afterwards.
static void work_in_place(ls_cpu_compiler *self, uint32_t position,
                          uint32_t number) {
  const ls_cpu_instruction *instruction = &self->instructions[position];
  if (!works_in_place(instruction->code) || number >= instruction->num_out)
    return;
  const uint32_t *operands = &self->operands[instruction->operand];
  const uint32_t out =
      ls_cpu_root(self, operands[instruction->num_in + number]);
  const ls_cpu_storage *output = &self->storages[out];
  ls_cpu_stretch life;
  if (output->home != LS_CPU_ARENA || !ls_cpu_extent(self, out, &life) ||
      life.begin != position)
    return;
  for (uint32_t i = 0; i < instruction->num_in; ++i) {
    if (!takes_place(self, position, number, i)) continue;
    const uint32_t in = ls_cpu_root(self, operands[i]);
    const ls_cpu_storage *input = &self->storages[in];
    if (in == out || input->home != LS_CPU_ARENA ||
        input->is_lane != output->is_lane || input->size != output->size ||
        !may_overwrite(self, position, out, in) ||
        !ls_cpu_extent(self, in, &life) || life.end != position)
      continue;
    join_storages(self, out, in);
    return;
  }
}

void ls_cpu_share_storages(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  drop_copies(self);
  find_given(self);
  for (uint32_t i = 0; i < self->num_instructions; ++i)
    for (uint32_t k = 0; k < LS_COUNT_OF(self->origins->in_place); ++k)
      work_in_place(self, i, k);
  for (size_t i = 0; i < self->num_operands; ++i)
    self->operands[i] = ls_cpu_root(self, self->operands[i]);
}
