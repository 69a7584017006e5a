// SPDX-License-Identifier: Apache-2.0
//
// Fusion of adjacent elementwise instructions.
//
// A fused kernel goes over its elements tile by tile and runs every step on a
// tile before it starts the next tile, so that intermediate results stay in the
// first cache. A value that nothing outside reads is never written to memory:
// it lives in a tile-sized register in scratch. Each element sees the same
// operations in the same order, so the bits are those of the single steps.
//
// Fusion works on storages after they were shared (storage.c) and before they
// get addresses (plan.c). Independent scalar instructions between two members,
// such as those that compute a learning rate, are moved before the group.
#include "engine/cpu/compile/compile.h"
#include "engine/cpu/kernels/element/chain.h"
#include "engine/cpu/kernels/index.h"

// Limits: instructions moved before a group, and bytes that each of them may
// touch; and bytes of the shortest rows of views: shorter ones are copied into
// tiles.
enum { MOST_MOVED = 24, SMALL_BYTES = 64, LEAST_ROW_BYTES = 512 };

typedef struct group {
  uint32_t steps[LS_FUSED_STEPS];
  uint32_t num_steps, num_moved;
  int64_t count;  // Number of elements.
} group;

// ---- Instructions that may be fused ----------------------------------------
static const ls_elementwise *elementwise_of(const ls_cpu_instruction *at) {
  const ls_elementwise *work = at->params;
  if (at->code != LS_CPU_KERNEL) return NULL;
  if (at->loop == ls_move_loop) return work->scalars != 0 ? work : NULL;
  return at->loop == ls_elementwise_loop || at->loop == ls_half_loop ? work
                                                                     : NULL;
}

static const ls_elementwise *work_of(const ls_cpu_compiler *self,
                                     const group *g, uint32_t step) {
  return elementwise_of(&self->instructions[g->steps[step]]);
}

// Returns true if an instruction uses `root`, or with `writes_only` if it
// writes it.
static bool uses_root(const ls_cpu_compiler *self, uint32_t position,
                      uint32_t root, bool writes_only) {
  const ls_cpu_instruction *at = &self->instructions[position];
  const uint32_t *operands = &self->operands[at->operand];
  for (uint32_t k = writes_only ? at->num_in : 0; k < at->num_in + at->num_out;
       ++k)
    if (operands[k] == root) return true;
  return false;
}

// Returns true if two instructions may be swapped: neither writes a storage
// that the other uses.
static bool are_independent(const ls_cpu_compiler *self, uint32_t a,
                            uint32_t b) {
  const ls_cpu_instruction *x = &self->instructions[a];
  const uint32_t *operands = &self->operands[x->operand];
  for (uint32_t k = 0; k < x->num_in + x->num_out; ++k)
    if (uses_root(self, b, operands[k], k < x->num_in)) return false;
  return true;
}

static bool can_move_before(const ls_cpu_compiler *self, const group *g,
                            uint32_t position) {
  const ls_cpu_instruction *at = &self->instructions[position];
  if (g->num_moved == MOST_MOVED || g->count <= 1) return false;
  if (at->code == LS_CPU_KERNEL
          ? self->origins[position].note.bytes > SMALL_BYTES
          : at->code != LS_CPU_COPY || at->size > SMALL_BYTES)
    return false;
  for (uint32_t i = 0; i < g->num_steps; ++i)
    if (!are_independent(self, g->steps[i], position)) return false;
  return true;
}

// Returns true if an instruction can join the group. An element of one step may
// depend only on the same element of other steps: no step may read as a scalar
// what another step writes.
static bool can_join(const ls_cpu_compiler *self, const group *g,
                     uint32_t position) {
  const ls_cpu_instruction *at = &self->instructions[position];
  const ls_elementwise *work = elementwise_of(at);
  if (work == NULL || work->count != g->count || g->num_steps == LS_FUSED_STEPS)
    return false;
  const uint32_t *operands = &self->operands[at->operand];
  for (uint32_t i = 0; i < g->num_steps; ++i) {
    const ls_cpu_instruction *other = &self->instructions[g->steps[i]];
    const ls_elementwise *other_work = elementwise_of(other);
    for (uint32_t k = 0; k < at->num_in; ++k)
      if ((work->scalars >> k & 1U) != 0 &&
          uses_root(self, g->steps[i], operands[k], true))
        return false;
    for (uint32_t k = 0; k < other->num_in; ++k)
      if ((other_work->scalars >> k & 1U) != 0 &&
          uses_root(self, position, self->operands[other->operand + k], true))
        return false;
  }
  return true;
}

// ---- Operands of a group ---------------------------------------------------
// Location of a step's operand: among the group's inputs or outputs, in a
// register, or in the operand of a move.
typedef enum place_kind { INPUT, OUTPUT, REGISTER, VIEW } place_kind;
typedef struct place {
  place_kind kind;
  uint32_t index;
} place;

typedef struct slots {
  uint32_t in[LS_FUSED_SLOTS], out[LS_FUSED_SLOTS];  // Root storages.
  uint32_t num_in, num_out;
  // Number of streamed outputs, which are the last ones.
  uint32_t num_streamed;
  // Roots in registers and views: the place of each, and the step of its last
  // use.
  uint32_t root[LS_FUSED_SLOTS], last[LS_FUSED_SLOTS];
  place kept[LS_FUSED_SLOTS];
  uint32_t num_kept, num_registers, num_views;
  place places[LS_FUSED_STEPS][4];   // Per step and operand.
  uint32_t scalars[LS_FUSED_STEPS];  // Per step: views that are one number.
} slots;

// Returns the index of `root` in a list, or the list's length if it is not
// there.
static uint32_t index_in(const uint32_t *list, uint32_t count, uint32_t root) {
  uint32_t i = 0;
  while (i < count && list[i] != root)
    ++i;
  return i;
}

// Returns true if nothing after the group reads `root`.
static bool ends_inside(const ls_cpu_compiler *self, const group *g,
                        uint32_t root) {
  ls_cpu_stretch extent;
  return self->storages[root].home == LS_CPU_ARENA &&
         ls_cpu_extent(self, root, &extent) &&
         extent.end <= g->steps[g->num_steps - 1];
}

static uint32_t last_use(const ls_cpu_compiler *self, const group *g,
                         uint32_t root) {
  uint32_t last = 0;
  for (uint32_t i = 0; i < g->num_steps; ++i)
    if (uses_root(self, g->steps[i], root, false)) last = i;
  return last;
}

// Returns the lowest register that is free in step `step`.
static uint32_t free_register(const slots *s, uint32_t step) {
  for (uint32_t r = 0;; ++r) {
    bool taken = false;
    for (uint32_t i = 0; i < s->num_kept; ++i)
      taken |= s->kept[i].kind == REGISTER && s->kept[i].index == r &&
               s->last[i] >= step;
    if (!taken) return r;
  }
}

// Returns the index of `root` in a list, after adding it if it is not there.
static uint32_t add_to(uint32_t *list, uint32_t *count, uint32_t root) {
  const uint32_t i = index_in(list, *count, root);
  if (i == *count && i < LS_FUSED_SLOTS) list[(*count)++] = root;
  return i;
}

// Returns true if a step can read the operands in `numbers` as scalars, too.
static bool takes_scalars(const ls_elementwise *work, uint32_t numbers) {
  return numbers == 0 || (work->num_in == 2 && (work->scalars | numbers) != 3);
}

// Returns true if the steps that read the result of a move can read its operand
// in its place, up to the step that writes `root` again, if the group has one.
static bool make_view(const ls_cpu_compiler *self, const group *g, slots *s,
                      uint32_t step, uint32_t root) {
  int64_t columns = 0;
  if (!work_of(self, g, step)->moves) return false;
  const ls_move_view view = ls_move_view_of(work_of(self, g, step), &columns);
  if (ls_move_period(work_of(self, g, step)) == 0 &&
      (view == LS_VIEW_NONE ||
       columns * work_of(self, g, step)->out_size < LEAST_ROW_BYTES))
    return false;
  uint32_t scalars[LS_FUSED_STEPS];
  memcpy(scalars, s->scalars, sizeof(scalars));
  bool ends = false;
  for (uint32_t i = step + 1; i < g->num_steps && !ends; ++i) {
    const ls_cpu_instruction *at = &self->instructions[g->steps[i]];
    for (uint32_t k = 0; k < at->num_in && view == LS_VIEW_NUMBER; ++k)
      if (self->operands[at->operand + k] == root) scalars[i] |= 1U << k;
    if (!takes_scalars(elementwise_of(at), scalars[i])) return false;
    ends = uses_root(self, g->steps[i], root, true);
  }
  if (!ends && !ends_inside(self, g, root)) return false;
  memcpy(s->scalars, scalars, sizeof(scalars));
  return true;
}

static place keep_root(slots *s, uint32_t root, uint32_t last, place at) {
  uint32_t *next = at.kind == VIEW ? &s->num_views : &s->num_registers;
  if (at.index + 1 > *next) *next = at.index + 1;
  s->root[s->num_kept] = root;
  s->last[s->num_kept] = last;
  s->kept[s->num_kept++] = at;
  return at;
}

// Returns the location of a step's operand. A value that is written and not
// read after the group gets a register; other written values are outputs.
static place locate_operand(const ls_cpu_compiler *self, const group *g,
                            slots *s, uint32_t step, uint32_t root,
                            bool is_write) {
  uint32_t kept = index_in(s->root, s->num_kept, root);
  if (kept < s->num_kept && is_write && s->kept[kept].kind == VIEW) {
    s->root[kept] = UINT32_MAX;
    kept = s->num_kept;
  }
  if (kept < s->num_kept) return s->kept[kept];
  if (!is_write && index_in(s->out, s->num_out, root) == s->num_out)
    return (place){INPUT, add_to(s->in, &s->num_in, root)};
  const uint32_t last = last_use(self, g, root);
  if (kept < LS_FUSED_SLOTS && make_view(self, g, s, step, root))
    return keep_root(s, root, last, (place){VIEW, s->num_views});
  if (kept < LS_FUSED_SLOTS && ends_inside(self, g, root))
    return keep_root(s, root, last, (place){REGISTER, free_register(s, step)});
  return (place){OUTPUT, add_to(s->out, &s->num_out, root)};
}

// Assigns locations to all operands. Returns false if there are too many.
static bool assign_slots(const ls_cpu_compiler *self, const group *g,
                         slots *s) {
  for (uint32_t i = 0; i < g->num_steps; ++i) {
    const ls_cpu_instruction *at = &self->instructions[g->steps[i]];
    for (uint32_t k = 0; k < at->num_in + at->num_out; ++k) {
      s->places[i][k] = locate_operand(
          self, g, s, i, self->operands[at->operand + k], k >= at->num_in);
      if (s->places[i][k].index == LS_FUSED_SLOTS) return false;
    }
  }
  return s->num_in + s->num_out + s->num_registers + s->num_views <=
         LS_FUSED_SLOTS;
}

static uint8_t slot_of(const slots *s, place at) {
  const uint32_t registers = s->num_in + s->num_out;
  const uint32_t first[] = {0, s->num_in, registers,
                            registers + s->num_registers};
  return (uint8_t)(first[at.kind] + at.index);
}

// Returns true if each step alone would write its result with streaming stores;
// moves do as the others.
static bool all_stream(const ls_cpu_compiler *self, const group *g) {
  bool any = false;
  for (uint32_t i = 0; i < g->num_steps; ++i) {
    const ls_elementwise *work = work_of(self, g, i);
    if (work->streams == NULL && !work->moves) return false;
    any |= !work->moves;
  }
  return any;
}

static void swap_outputs(const group *g, slots *s, uint32_t a, uint32_t b) {
  const uint32_t root = s->out[a];
  s->out[a] = s->out[b];
  s->out[b] = root;
  for (uint32_t i = 0; i < g->num_steps; ++i)
    for (uint32_t k = 0; k < LS_COUNT_OF(s->places[i]); ++k) {
      place *at = &s->places[i][k];
      if (at->kind == OUTPUT && (at->index == a || at->index == b))
        at->index = a + b - at->index;
    }
}

// Moves the outputs that overwrite no input to the end of the list: they are
// streamed.
static void choose_streamed(const ls_cpu_compiler *self, const group *g,
                            slots *s) {
  if (!all_stream(self, g)) return;
  for (uint32_t i = s->num_out; i > 0; --i) {
    if (index_in(s->in, s->num_in, s->out[i - 1]) < s->num_in) continue;
    swap_outputs(g, s, i - 1, s->num_out - ++s->num_streamed);
  }
}

// ---- Fusing ----------------------------------------------------------------
static ls_fused_step make_fused_step(const ls_elementwise *work, const slots *s,
                                     const place *places, ls_fused *fused) {
  ls_fused_step step = {.work = work,
                        .is_view = places[work->num_in].kind == VIEW};
  if (step.is_view) step.period = ls_move_period(work);
  fused->num_patterns += step.period > 0;
  for (uint32_t k = 0; k <= work->num_in; ++k) {
    const uint8_t slot = step.slot[k] = slot_of(s, places[k]);
    if (places[k].kind >= REGISTER || (work->scalars >> k & 1U) != 0) continue;
    fused->sizes[slot] =
        (uint8_t)(k < work->num_in ? work->in_size[k] : work->out_size);
  }
  return step;
}

// Returns the work of a step, whose views of one number are scalars.
static const ls_elementwise *with_scalars(ls_cpu_compiler *self,
                                          const ls_elementwise *work,
                                          uint32_t scalars) {
  if (scalars == 0) return work;
  ls_elementwise *copy = ls_arena_copy(&self->out->arena, work, sizeof(*work));
  if (ls_cpu_has_memory(self, copy != NULL)) copy->scalars |= scalars;
  return copy;
}

static ls_fused *make_fused(ls_cpu_compiler *self, const group *g,
                            const slots *s) {
  ls_fused *fused = ls_arena_new(&self->out->arena, ls_fused);
  ls_fused_step *steps =
      ls_arena_new_array(&self->out->arena, ls_fused_step, g->num_steps);
  if (!ls_cpu_has_memory(self, fused != NULL && steps != NULL)) return NULL;
  *fused = (ls_fused){.count = g->count,
                      .steps = steps,
                      .num_steps = g->num_steps,
                      .num_in = s->num_in,
                      .num_out = s->num_out,
                      .num_streamed = s->num_streamed,
                      .num_registers = s->num_registers,
                      .chains = self->kernels->chains,
                      .kernels = self->kernels};
  for (uint32_t i = 0; i < g->num_steps; ++i) {
    const ls_elementwise *work =
        with_scalars(self, work_of(self, g, i), s->scalars[i]);
    if (work == NULL) return NULL;
    steps[i] = make_fused_step(work, s, s->places[i], fused);
  }
  fused->tile = ls_fused_tile(fused);
  if (!ls_cpu_has_memory(self,
                         ls_chain_steps(&self->out->arena, fused->chains, steps,
                                        g->num_steps, s->num_in + s->num_out)))
    return NULL;
  for (uint32_t i = 0; i < g->num_steps; ++i)
    fused->has_chains |= steps[i].stages != NULL;
  return fused;
}

static size_t count_bytes(const ls_cpu_compiler *self, const slots *s) {
  size_t bytes = 0;
  for (uint32_t i = 0; i < s->num_in; ++i)
    bytes += self->storages[s->in[i]].size;
  for (uint32_t i = 0; i < s->num_out; ++i)
    bytes += self->storages[s->out[i]].size;
  return bytes;
}

// Appends the group's operands and turns its last instruction into the fused
// one.
static void emit_fused(ls_cpu_compiler *self, const group *g, const slots *s,
                       const ls_fused *fused) {
  const uint32_t position = g->steps[g->num_steps - 1];
  const uint32_t count = s->num_in + s->num_out;
  if (!ls_cpu_has_memory(self, LS_GROW(self->allocator, self->operands,
                                       self->operands_capacity,
                                       self->num_operands + count)))
    return;
  ls_cpu_instruction *at = &self->instructions[position];
  at->operand = (uint32_t)self->num_operands;
  at->num_in = s->num_in;
  at->num_out = s->num_out;
  uint32_t *operands = &self->operands[self->num_operands];
  memcpy(operands, s->in, s->num_in * sizeof(*operands));
  memcpy(operands + s->num_in, s->out, s->num_out * sizeof(*operands));
  self->num_operands += count;
  const size_t bytes = count_bytes(self, s);
  at->loop = ls_fused_loop;
  at->params = fused;
  at->number = ls_cpu_team_gains(0, bytes, at->size);
  self->origins[position].note.bytes = bytes;
  self->origins[position].note.kind = "fused";
  for (uint32_t i = 0; i + 1 < g->num_steps; ++i)
    self->instructions[g->steps[i]].code = LS_CPU_NOTHING;
  ls_cpu_need_scratch(self, ls_fused_scratch(fused), at->size);
}

// Returns the group with its moves first, so that they do not cut chains: as
// early as no other step uses what they write.
static group hoist_moves(const ls_cpu_compiler *self, const group *from) {
  group g = *from;
  for (uint32_t i = 0; i + 1 < g.num_steps; ++i) {
    const uint32_t step = g.steps[i];
    const ls_cpu_instruction *at = &self->instructions[step];
    if (!elementwise_of(at)->moves) continue;
    const uint32_t target = self->operands[at->operand + 1];
    uint32_t k = i;
    for (; k > 0 && !work_of(self, &g, k - 1)->moves &&
           !uses_root(self, g.steps[k - 1], target, false);
         --k)
      g.steps[k] = g.steps[k - 1];
    g.steps[k] = step;
  }
  return g;
}

// Replaces the group. Moved instructions keep their positions, which are before
// the fused one: it stands at the position of the last step.
static void fuse_group(ls_cpu_compiler *self, const group *from) {
  if (from->num_steps < 2) return;
  const group hoisted = hoist_moves(self, from), *g = &hoisted;
  slots s = {.num_in = 0};
  if (!assign_slots(self, g, &s)) {
    s = (slots){.num_in = 0};
    g = from;  // With fewer registers.
    if (!assign_slots(self, g, &s)) return;
  }
  choose_streamed(self, g, &s);
  const ls_fused *fused = make_fused(self, g, &s);
  if (fused != NULL) emit_fused(self, g, &s, fused);
}

// ---- The walk --------------------------------------------------------------
bool *ls_cpu_targets(ls_cpu_compiler *self) {
  bool *is_target =
      ls_arena_new_array(&self->temp, bool, self->num_instructions + 1);
  for (uint32_t i = 0; is_target != NULL && i < self->num_instructions; ++i) {
    switch (self->instructions[i].code) {
    case LS_CPU_BRANCH:
    case LS_CPU_JUMP:
    case LS_CPU_LOOP_NEXT:
    case LS_CPU_LAUNCH:
    case LS_CPU_JOIN:
      is_target[self->instructions[i].target] = true;
      break;
    default:
      break;
    }
  }
  return is_target;
}

static void open_group(group *g, const ls_cpu_compiler *self,
                       uint32_t position) {
  const ls_elementwise *work = elementwise_of(&self->instructions[position]);
  g->num_steps = g->num_moved = 0;
  if (work == NULL) return;
  g->count = work->count;
  g->steps[g->num_steps++] = position;
}

void ls_cpu_fuse(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  const bool *is_target = ls_cpu_targets(self);
  if (!ls_cpu_has_memory(self, is_target != NULL)) return;
  group g = {.num_steps = 0};
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    if (is_target[i]) {
      fuse_group(self, &g);
      g.num_steps = 0;
    }
    if (self->instructions[i].code == LS_CPU_NOTHING) continue;
    if (g.num_steps > 0 && can_join(self, &g, i)) {
      g.steps[g.num_steps++] = i;
    } else if (g.num_steps > 0 && can_move_before(self, &g, i)) {
      ++g.num_moved;
    } else {
      fuse_group(self, &g);
      open_group(&g, self, i);
    }
  }
  fuse_group(self, &g);
  ls_cpu_forget_accesses(self);
  ls_cpu_collect_accesses(self);
}
