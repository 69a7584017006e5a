// SPDX-License-Identifier: Apache-2.0
//
// Starts host calls early and waits for them late.
//
// A call on a host thread starts as soon as its inputs are computed, and is
// waited for where its results are first needed, so that the rest is computed
// meanwhile. Two instructions that use one storage, which one of them writes,
// keep their order; no instruction moves across a jump, a park, a jump target
// or another host call. So a run computes the same values, and calls start in
// program order, each after the previous ones have ended.
//
// Elementwise instructions whose results are needed only after the call stay
// next to their user, with which they are fused: moved away, their results
// would be written to memory and read again.
//
// Instructions that may fail (a call, a check of labels) end, where possible,
// before the first variable gets its new value, or its value of a loop's trip;
// instructions that read new values start after the last. See trips.c.
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/kernels/element/chain.h"

static bool is_passed(const ls_cpu_compiler *self, uint32_t i) {
  const ls_cpu_code code = self->instructions[i].code;
  return code == LS_CPU_KERNEL || code == LS_CPU_COPY ||
         code == LS_CPU_LABELS || code == LS_CPU_NOTHING;
}

// Sorts instructions beside a call (or its end) into those that must stay on
// their side, because they or their dependents are needed there, and those that
// may pass to the other side.
typedef struct side {
  ls_cpu_compiler *self;
  const bool *is_target;
  // Per root: read, or written, by instructions that stay.
  bool *is_read, *is_written;
  uint32_t *stay, *pass;  // Positions of instructions that stay and that pass.
  uint32_t num_stay, num_pass;
  // Per position: stays because it will be fused with an instruction that
  // stays.
  bool *is_kept;
  bool *is_passed_read;  // Per root: read by instructions that pass.
} side;

static void add_stay(side *s, uint32_t i) {
  const ls_cpu_compiler *self = s->self;
  const ls_cpu_instruction *at = &self->instructions[i];
  for (uint32_t k = 0; k < ls_cpu_num_operands(self, i); ++k)
    (k < at->num_in ? s->is_read
                    : s->is_written)[self->operands[at->operand + k]] = true;
  s->stay[s->num_stay++] = i;
}

static bool depends_on_stay(const side *s, uint32_t i) {
  const ls_cpu_compiler *self = s->self;
  const ls_cpu_instruction *at = &self->instructions[i];
  for (uint32_t k = 0; k < ls_cpu_num_operands(self, i); ++k) {
    const uint32_t root = self->operands[at->operand + k];
    if (s->is_written[root] || (k >= at->num_in && s->is_read[root]))
      return true;
  }
  return false;
}

static void clear_marks(side *s) {
  const ls_cpu_compiler *self = s->self;
  for (uint32_t n = 0; n < s->num_stay; ++n) {
    const ls_cpu_instruction *at = &self->instructions[s->stay[n]];
    for (uint32_t k = 0; k < ls_cpu_num_operands(self, s->stay[n]); ++k)
      s->is_read[self->operands[at->operand + k]] =
          s->is_written[self->operands[at->operand + k]] = false;
  }
  s->num_stay = s->num_pass = 0;
}

// Adds an instruction to one of the lists. With `keeps_values`, instructions
// that give a variable its value of a trip stay, too.
static void place_instruction(side *s, uint32_t i, bool keeps_values) {
  if (s->is_kept[i] || depends_on_stay(s, i) ||
      (keeps_values && ls_cpu_commits(s->self, i)))
    add_stay(s, i);
  else
    s->pass[s->num_pass++] = i;
}

static void reverse_positions(uint32_t *items, uint32_t count) {
  for (uint32_t i = 0; i < count / 2; ++i) {
    const uint32_t item = items[i];
    items[i] = items[count - 1 - i];
    items[count - 1 - i] = item;
  }
}

static bool any_commits(const side *s) {
  for (uint32_t n = 0; n < s->num_stay; ++n)
    if (ls_cpu_commits(s->self, s->stay[n])) return true;
  return false;
}

// Writes the instructions of the first list, then those of the second, to
// `position` and after.
static bool write_lists(side *s, uint32_t position, const uint32_t *first,
                        uint32_t num_first, const uint32_t *second,
                        uint32_t num_second) {
  ls_cpu_compiler *self = s->self;
  const uint32_t count = num_first + num_second;
  ls_cpu_instruction *instructions =
      ls_arena_new_array(&self->temp, ls_cpu_instruction, count);
  ls_cpu_origin *origins =
      ls_arena_new_array(&self->temp, ls_cpu_origin, count);
  if (instructions == NULL || origins == NULL) return false;
  for (uint32_t n = 0; n < count; ++n) {
    const uint32_t i = n < num_first ? first[n] : second[n - num_first];
    instructions[n] = self->instructions[i];
    origins[n] = self->origins[i];
  }
  // Clears the marks while the instructions are at their old positions.
  clear_marks(s);
  memcpy(&self->instructions[position], instructions,
         count * sizeof(*instructions));
  memcpy(&self->origins[position], origins, count * sizeof(*origins));
  return true;
}

// Moves instructions that the call at `begin` to `end` does not need after the
// call; leaves them if they read a variable's new value.
static bool start_early(side *s, uint32_t begin, uint32_t end,
                        bool *out_looks) {
  uint32_t first = begin;
  for (uint32_t i = end + 1; i-- > begin;)
    add_stay(s, i);
  while (first > 0 && !s->is_target[first] && is_passed(s->self, first - 1)) {
    // Checks keep their order, as the first failure is the one to report.
    if (s->self->instructions[--first].code == LS_CPU_LABELS)
      add_stay(s, first);
    else
      place_instruction(s, first, false);
  }
  *out_looks = any_commits(s);
  if (*out_looks || s->num_pass == 0) {
    clear_marks(s);
    return true;
  }
  reverse_positions(s->stay, s->num_stay);
  reverse_positions(s->pass, s->num_pass);
  return write_lists(s, first, s->stay, s->num_stay, s->pass, s->num_pass);
}

// Returns true if all results are read by instructions that stay and by no
// others.
static bool is_part(const side *s, uint32_t i) {
  const ls_cpu_compiler *self = s->self;
  const ls_cpu_instruction *at = &self->instructions[i];
  bool is_part = at->code == LS_CPU_KERNEL && at->loop == ls_elementwise_loop;
  for (uint32_t k = at->num_in; k < ls_cpu_num_operands(self, i) && is_part;
       ++k) {
    const uint32_t root = self->operands[at->operand + k];
    is_part = s->is_read[root] && !s->is_passed_read[root];
  }
  return is_part;
}

// Marks the elementwise instructions that stay with their users. Returns true
// if there are any.
static bool keep_parts(side *s) {
  const ls_cpu_compiler *self = s->self;
  bool found = false;
  for (uint32_t n = s->num_pass; n-- > 0;) {
    const uint32_t i = s->pass[n];
    const ls_cpu_instruction *at = &self->instructions[i];
    const bool stays = is_part(s, i);
    s->is_kept[i] = stays;
    found |= stays;
    for (uint32_t k = 0; k < at->num_in && at->code != LS_CPU_NOTHING; ++k)
      (stays ? s->is_read
             : s->is_passed_read)[self->operands[at->operand + k]] = true;
  }
  for (uint32_t n = 0; n < s->num_pass; ++n) {
    const ls_cpu_instruction *at = &self->instructions[s->pass[n]];
    for (uint32_t k = 0; k < ls_cpu_num_operands(self, s->pass[n]); ++k) {
      const uint32_t root = self->operands[at->operand + k];
      s->is_passed_read[root] = s->is_read[root] = false;
    }
  }
  return found;
}

static void place_instructions_from(side *s, uint32_t begin, uint32_t end,
                                    bool keeps_values) {
  const ls_cpu_compiler *self = s->self;
  for (uint32_t i = begin; i <= end; ++i)
    add_stay(s, i);
  for (uint32_t i = end + 1;
       i < self->num_instructions && !s->is_target[i] && is_passed(self, i);
       ++i)
    place_instruction(s, i, keeps_values);
}

// Moves instructions that do not need the results at `begin` to `end` before
// them.
static bool end_late(side *s, uint32_t begin, uint32_t end, bool keeps_values) {
  place_instructions_from(s, begin, end, keeps_values);
  if (keep_parts(s)) {
    clear_marks(s);
    place_instructions_from(s, begin, end, keeps_values);
    for (uint32_t n = 0; n < s->num_stay; ++n)
      s->is_kept[s->stay[n]] = false;
  }
  if (s->num_pass == 0) {
    clear_marks(s);
    return true;
  }
  return write_lists(s, begin, s->pass, s->num_pass, s->stay, s->num_stay);
}

static const ls_cpu_host *host_at(const ls_cpu_compiler *self, uint32_t i,
                                  ls_cpu_code code) {
  if (self->instructions[i].code != code) return NULL;
  const ls_cpu_host *host = self->instructions[i].params;
  return host->site == LS_CPU_NO_SITE ? NULL : host;
}

// Goes from the last call to the first, so instructions that move down are not
// visited again.
static bool overlap_calls(side *s, bool *looks) {
  const ls_cpu_compiler *self = s->self;
  const uint32_t count = (uint32_t)self->num_instructions;
  const ls_cpu_host *host = NULL;
  for (uint32_t i = 0; i < count; ++i) {
    bool looks_too = false;
    host = host_at(self, i, LS_CPU_HOST_START);
    if (host != NULL && !start_early(s, i, i + 1, &looks[host->site]))
      return false;
    if (self->instructions[i].code == LS_CPU_LABELS &&
        self->origins[i].replicate == LS_CPU_NONE &&
        !start_early(s, i, i, &looks_too))
      return false;
  }
  for (uint32_t i = count; i-- > 0;) {
    host = host_at(self, i, LS_CPU_HOST_START);
    if (host != NULL && looks[host->site] && !end_late(s, i, i + 1, false))
      return false;
    host = host_at(self, i, LS_CPU_HOST_FINISH);
    if (host != NULL && !host->ends_at_once &&
        !end_late(s, i, i, !looks[host->site]))
      return false;
  }
  return true;
}

void ls_cpu_overlap_calls(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  const size_t count = self->num_instructions;
  ls_arena *temp = &self->temp;
  side s = {
      .self = self,
      .is_target = ls_cpu_targets(self),
      .is_read = ls_arena_new_array(temp, bool, self->num_storages),
      .is_written = ls_arena_new_array(temp, bool, self->num_storages),
      .stay = ls_arena_new_array(temp, uint32_t, count),
      .pass = ls_arena_new_array(temp, uint32_t, count),
      .is_kept = ls_arena_new_array(temp, bool, count),
      .is_passed_read = ls_arena_new_array(temp, bool, self->num_storages),
  };
  bool *looks = ls_arena_new_array(temp, bool, self->out->num_sites + 1);
  if (s.is_target == NULL || s.is_read == NULL || s.is_written == NULL ||
      s.stay == NULL || s.pass == NULL || s.is_kept == NULL ||
      s.is_passed_read == NULL || looks == NULL || !overlap_calls(&s, looks)) {
    ls_cpu_fail(self, ls_out_of_memory());
    return;
  }
  ls_cpu_forget_accesses(self);
  ls_cpu_collect_accesses(self);
}
