// SPDX-License-Identifier: Apache-2.0
//
// Late ends of exchanges of sums with other ranks.
//
// An exchange starts as soon as the sums are computed. Its end, which waits for
// the results, moves down to the first instruction that uses one of them, so
// that other gradients are computed while the sums travel. After the last start
// the ends of all exchanges under way come together, in the order of the
// starts: updates.c then moves the update of each variable up to its gradient's
// end, so that updates of the first variables run while the last sums travel.
//
// Sums under way keep their memory: an end comes before a start with which more
// than twice the sums of the largest exchange would be under way.
//
// No end moves across a jump, a park or a jump target, and no start moves at
// all: ranks start exchanges in the same order.
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/run/sums.h"

enum { MOST_UNDER_WAY = 2 };  // Relative to the largest exchange.

// State of the scan over the instructions.
typedef struct scan_state {
  ls_cpu_compiler *compiler;
  const bool *is_target;
  // Per position: an exchange starts later in the same straight stretch of
  // instructions.
  bool *starts_later;
  uint32_t *slot;  // See ls_cpu_reorder.
  // Ends of the exchanges under way, in the order of the starts.
  uint32_t *ends;
  uint32_t num_ends;
  uint32_t *users;  // Per root: number of exchanges under way that use it.
  size_t under_way, most;  // Bytes of sums.
} scan_state;

static ls_cpu_code code_at(const scan_state *s, uint32_t i) {
  return s->compiler->instructions[i].code;
}

static size_t sums_bytes(const scan_state *s, uint32_t i) {
  return ((const ls_cpu_sums *)s->compiler->instructions[i].params)->bytes;
}

static bool is_wall(const scan_state *s, uint32_t i) {
  return ls_cpu_is_wall(s->compiler, s->is_target, i);
}

// Marks the operands of an end, or drops the marks.
static void mark_operands(scan_state *s, uint32_t i, bool is_under_way) {
  const ls_cpu_instruction *at = &s->compiler->instructions[i];
  for (uint32_t k = 0; k < at->num_in + at->num_out; ++k)
    s->users[s->compiler->operands[at->operand + k]] +=
        is_under_way ? 1U : UINT32_MAX;
}

static void begin_exchange(scan_state *s, uint32_t i) {
  s->ends[s->num_ends++] = i;
  s->under_way += sums_bytes(s, i);
  mark_operands(s, i, true);
}

// Places the first `count` ends before position `i`.
static void end_exchanges(scan_state *s, uint32_t count, uint32_t i) {
  for (uint32_t k = 0; k < count; ++k) {
    s->slot[s->ends[k]] = i - 1;
    s->under_way -= sums_bytes(s, s->ends[k]);
    mark_operands(s, s->ends[k], false);
  }
  s->num_ends -= count;
  memmove(s->ends, s->ends + count, s->num_ends * sizeof(*s->ends));
}

// Returns true if an instruction uses an operand of an exchange under way.
static bool uses_operand(const scan_state *s, uint32_t i) {
  const ls_cpu_instruction *at = &s->compiler->instructions[i];
  for (uint32_t k = 0; k < ls_cpu_num_operands(s->compiler, i); ++k)
    if (s->users[s->compiler->operands[at->operand + k]] > 0) return true;
  return false;
}

// Ends the exchanges whose operands an instruction uses, and those that were
// started before them; after the last start all.
static void end_used(scan_state *s, uint32_t i) {
  if (!s->starts_later[i] && uses_operand(s, i))
    end_exchanges(s, s->num_ends, i);
  while (uses_operand(s, i))
    end_exchanges(s, 1, i);
}

// Makes room for the sums of a new exchange.
static void make_room(scan_state *s, uint32_t i) {
  while (s->num_ends > 0 && s->under_way + sums_bytes(s, i) > s->most)
    end_exchanges(s, 1, i);
}

static void scan_instructions(scan_state *s) {
  const uint32_t count = (uint32_t)s->compiler->num_instructions;
  for (uint32_t i = 1; i < count; ++i) {
    if (is_wall(s, i)) {
      end_exchanges(s, s->num_ends, i);
    } else if (code_at(s, i) == LS_CPU_SUMS_FINISH) {
      begin_exchange(s, i);
    } else {
      end_used(s, i);
      if (code_at(s, i) == LS_CPU_SUMS_START) make_room(s, i);
    }
  }
}

// Finds the later starts and the largest exchange. Returns true if there are
// exchanges.
static bool find_starts(scan_state *s) {
  bool found = false;
  for (uint32_t i = (uint32_t)s->compiler->num_instructions; i-- > 0;) {
    s->starts_later[i] = found;
    const bool starts = code_at(s, i) == LS_CPU_SUMS_START;
    if (starts && sums_bytes(s, i) > s->most) s->most = sums_bytes(s, i);
    found = (starts || found) && !is_wall(s, i);
  }
  s->most *= MOST_UNDER_WAY;
  return s->most > 0;
}

void ls_cpu_delay_exchanges(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self) || self->out->num_sums == 0) return;
  ls_arena *temp = &self->temp;
  const size_t count = self->num_instructions;
  scan_state s = {
      .compiler = self,
      .is_target = ls_cpu_targets(self),
      .starts_later = ls_arena_new_array(temp, bool, count),
      .slot = ls_arena_new_array(temp, uint32_t, count),
      .ends = ls_arena_new_array(temp, uint32_t, self->out->num_sums),
      .users = ls_arena_new_array(temp, uint32_t, self->num_storages),
  };
  if (!ls_cpu_has_memory(self, s.is_target != NULL && s.starts_later != NULL &&
                                   s.slot != NULL && s.ends != NULL &&
                                   s.users != NULL))
    return;
  if (!find_starts(&s)) return;
  memset(s.slot, 0xff, count * sizeof(*s.slot));
  scan_instructions(&s);
  if (!ls_cpu_reorder(self, s.slot)) ls_cpu_fail(self, ls_out_of_memory());
}
