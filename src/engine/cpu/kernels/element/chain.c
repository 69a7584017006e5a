// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/kernels/element/chain.h"

// Shorter chains are no faster than spans, which find their operands in the
// first cache.
enum { LEAST_STEPS = 3 };

// Builds the stages of steps [begin, end). `held` is the slot whose value is in
// the accumulator, `kept` the slot held in the kept registers; NO_SLOT: none.
enum { NO_SLOT = UINT8_MAX, MOST_STAGES = 3 * LS_FUSED_STEPS + 1 };

typedef struct chain {
  const ls_cpu_chains *chains;
  const ls_fused_step *steps;  // All steps of the group.
  uint32_t num_steps, registers, begin, end;
  uint8_t held, kept;
  // Source of the operand of the last stage, if that is a product; else
  // LS_CHAIN_SOURCES.
  uint32_t product;
  ls_chain_stage stages[MOST_STAGES];
  uint32_t num_stages;
} chain;

static bool is_scalar_operand(const ls_fused_step *step, uint32_t operand) {
  return (step->work->scalars >> operand & 1U) != 0;
}

static uint8_t result_of(const ls_fused_step *step) {
  return step->slot[step->work->num_in];
}

// Counts how often a step reads the elements of a slot.
static uint32_t reads_of(const ls_fused_step *step, uint8_t slot) {
  uint32_t count = 0;
  for (uint32_t k = 0; k < step->work->num_in; ++k)
    count += step->slot[k] == slot && !is_scalar_operand(step, k);
  return count;
}

static bool has_stage(const ls_cpu_chains *chains, const ls_fused_step *step) {
  const uint16_t op = step->work->f32_op;
  return chains->unary[op] != NULL || chains->binary[op][0][0] != NULL;
}

// Returns true if the result of step `i` must be stored in its slot: a later
// step reads it from there, not from the accumulator.
static bool must_store(const chain *self, uint32_t i) {
  const uint8_t slot = result_of(&self->steps[i]);
  for (uint32_t j = i + 1; j < self->num_steps; ++j) {
    const bool is_next = j == i + 1 && j < self->end;
    if (reads_of(&self->steps[j], slot) > (is_next ? 1U : 0U)) return true;
    if (result_of(&self->steps[j]) == slot) return false;
  }
  return slot < self->registers;
}

// Chooses the array to keep in registers: the one that the chain reads most
// often, at least three times, and never writes. Fewer reads cost no more from
// memory.
static uint8_t choose_kept(const chain *self) {
  uint32_t reads[LS_FUSED_SLOTS] = {0};
  bool is_written[LS_FUSED_SLOTS] = {false};
  for (uint32_t i = self->begin; i < self->end; ++i) {
    const ls_fused_step *step = &self->steps[i];
    for (uint32_t k = 0; k < step->work->num_in; ++k)
      reads[step->slot[k]] += !is_scalar_operand(step, k);
    is_written[result_of(step)] = true;
  }
  uint8_t best = NO_SLOT;
  uint32_t most = 2;
  for (uint8_t slot = 0; slot < LS_FUSED_SLOTS; ++slot) {
    if (is_written[slot] || reads[slot] <= most) continue;
    best = slot;
    most = reads[slot];
  }
  return best;
}

static void push_stage(chain *self, ls_chain_stage_fn *run, uint8_t slot) {
  self->stages[self->num_stages++] =
      (ls_chain_stage){.run = run, .slot = {slot}};
  self->product = LS_CHAIN_SOURCES;
}

// Joins this op with the preceding product in one stage, if there is such a
// stage.
static bool joins_product(chain *self, uint16_t op, bool on_left,
                          uint32_t source, uint8_t slot) {
  if (self->product == LS_CHAIN_SOURCES || (op != LS_OP_ADD && op != LS_OP_SUB))
    return false;
  const uint32_t end = op == LS_OP_ADD ? LS_CHAIN_PLUS
                       : on_left       ? LS_CHAIN_FROM
                                       : LS_CHAIN_MINUS;
  ls_chain_stage *stage = &self->stages[self->num_stages - 1];
  stage->run = self->chains->product[end][self->product][source];
  stage->slot[1] = slot;
  self->product = LS_CHAIN_SOURCES;
  return true;
}

// Combines the accumulator with operand `k`, which is on the left if it is the
// first.
static void combine_operand(chain *self, const ls_fused_step *step,
                            uint32_t k) {
  const uint16_t op = step->work->f32_op;
  const uint8_t slot = step->slot[k];
  const uint32_t source = is_scalar_operand(step, k) ? LS_CHAIN_NUMBER
                          : slot == self->kept       ? LS_CHAIN_KEPT
                                                     : LS_CHAIN_ARRAY;
  if (joins_product(self, op, k == 0, source, slot)) return;
  push_stage(self, self->chains->binary[op][k == 0][source], slot);
  if (op == LS_OP_MUL) self->product = source;
}

// Adds the stages of a step. One of its operands is in the accumulator, or is
// loaded into it.
static void add_step(chain *self, uint32_t i) {
  const ls_fused_step *step = &self->steps[i];
  uint32_t k = 0;  // Operand that is in the accumulator.
  if (step->work->num_in == 2 &&
      (is_scalar_operand(step, 0) ||
       (step->slot[0] != self->held && step->slot[1] == self->held)))
    k = 1;
  if (step->slot[k] != self->held)
    push_stage(self, self->chains->load, step->slot[k]);
  if (step->work->num_in == 2)
    combine_operand(self, step, 1 - k);
  else
    push_stage(self, self->chains->unary[step->work->f32_op], 0);
  self->held = result_of(step);
  if (i + 1 == self->end)
    push_stage(self, self->chains->store_last, self->held);
  else if (must_store(self, i))
    push_stage(self, self->chains->store, self->held);
}

static const ls_chain_stage *make_stages(chain *self, ls_arena *arena) {
  self->num_stages = 0;
  self->product = LS_CHAIN_SOURCES;
  self->held = NO_SLOT;
  self->kept = choose_kept(self);
  if (self->kept != NO_SLOT) push_stage(self, self->chains->keep, self->kept);
  for (uint32_t i = self->begin; i < self->end; ++i)
    add_step(self, i);
  return ls_arena_copy(arena, self->stages,
                       self->num_stages * sizeof(*self->stages));
}

bool ls_chain_steps(ls_arena *arena, const ls_cpu_chains *chains,
                    ls_fused_step *steps, uint32_t num_steps,
                    uint32_t registers) {
  chain c = {.chains = chains,
             .steps = steps,
             .num_steps = num_steps,
             .registers = registers};
  for (uint32_t i = 0; i < num_steps; i = c.end + 1) {
    c.begin = c.end = i;
    while (c.end < num_steps && has_stage(chains, &steps[c.end]))
      ++c.end;
    if (c.end - c.begin < LEAST_STEPS) continue;
    steps[c.begin].stages = make_stages(&c, arena);
    steps[c.begin].chained = c.end - c.begin;
    if (steps[c.begin].stages == NULL) return false;
  }
  return true;
}
