// SPDX-License-Identifier: Apache-2.0
//
// Addresses: a scan over the positions with a first-fit allocator.
//
// There are three arenas: shared, a frame per lane (values that live across a
// park) and one scratch for all lanes of a thread (other values). Buffers start
// on cache lines, apart as ls_cpu_stride has it.
#include "engine/cpu/compile/compile.h"

// Least size of a sum that kernels add to directly. A smaller sum is still on
// its way to the cache when the next lane starts, and reading it back within a
// product takes longer than a separate addition.
enum { LEAST_ADDED = 16384 };

// A buffer that is live at the scan's current position, or is planned already.
typedef struct block {
  size_t offset, size;
  uint32_t end;
} block;

// State of an arena while its buffers are placed. `blocks` are ordered by
// offset.
typedef struct arena_plan {
  uint32_t base;
  block *blocks;
  size_t count;
  size_t bytes;  // Highest number of bytes in use.
} arena_plan;

// Removes the buffers that ended before `position`.
static void expire_blocks(arena_plan *arena, uint32_t position) {
  size_t kept = 0;
  for (size_t i = 0; i < arena->count; ++i)
    if (arena->blocks[i].end >= position)
      arena->blocks[kept++] = arena->blocks[i];
  arena->count = kept;
}

// Places a buffer in the lowest gap that is wide enough; returns its offset.
static size_t place_block(arena_plan *arena, size_t size, uint32_t end) {
  size_t offset = 0, at = 0;
  for (; at < arena->count; ++at) {
    const block *next = &arena->blocks[at];
    if (next->offset >= offset && next->offset - offset >= size) break;
    offset = next->offset + next->size;
  }
  memmove(arena->blocks + at + 1, arena->blocks + at,
          (arena->count - at) * sizeof(*arena->blocks));
  arena->blocks[at] = (block){offset, size, end};
  ++arena->count;
  if (offset + size > arena->bytes) arena->bytes = offset + size;
  return offset;
}

// Returns true if a lane may park while the storage is live.
static bool crosses_park(const ls_cpu_compiler *self,
                         const ls_cpu_stretch *life) {
  for (size_t i = 0; i < self->num_parks; ++i)
    if (life->begin < self->parks[i] && self->parks[i] <= life->end)
      return true;
  return false;
}

static void set_place(ls_cpu_compiler *self, ls_cpu_storage *storage,
                      uint32_t base, size_t offset) {
  if (offset / LS_CACHE_LINE > UINT32_MAX) {
    ls_cpu_fail(self, LS_STATUS(LS_RESOURCE_EXHAUSTED,
                                "a program's buffers take %zu bytes; 256 GiB "
                                "is what an engine can address",
                                offset));
    return;
  }
  storage->place = (ls_cpu_place){base, (uint32_t)(offset / LS_CACHE_LINE)};
}

// ---- The scan --------------------------------------------------------------
// Lists of storages by the position at which they begin.
typedef struct scan_state {
  uint32_t *first;  // Per position: a storage that begins there, or NONE.
  // Per storage: the next one that begins at the same position.
  uint32_t *next;
  ls_cpu_stretch *lives;
  arena_plan shared, frame, scratch;
} scan_state;

static ls_status init_scan(ls_cpu_compiler *self, scan_state *out) {
  ls_arena *temp = &self->temp;
  const size_t positions = self->num_instructions;
  const size_t count = self->num_storages;
  *out = (scan_state){
      .first = ls_arena_new_array(temp, uint32_t, positions),
      .next = ls_arena_new_array(temp, uint32_t, count),
      .lives = ls_arena_new_array(temp, ls_cpu_stretch, count),
      .shared = {.base = LS_CPU_BASE_SHARED,
                 .blocks = ls_arena_new_array(temp, block, count + 1)},
      .frame = {.base = LS_CPU_BASE_FRAME,
                .blocks = ls_arena_new_array(temp, block, count + 1)},
      .scratch = {.base = LS_CPU_BASE_SCRATCH,
                  .blocks = ls_arena_new_array(temp, block, count + 1)},
  };
  if (out->first == NULL || out->next == NULL || out->lives == NULL ||
      out->shared.blocks == NULL || out->frame.blocks == NULL ||
      out->scratch.blocks == NULL)
    return ls_out_of_memory();
  memset(out->first, 0xff, positions * sizeof(*out->first));
  // Goes from last to first, so that lists are in order of creation.
  for (uint32_t i = (uint32_t)count; i-- > 0;) {
    ls_cpu_storage *storage = &self->storages[i];
    ls_cpu_stretch *life = &out->lives[i];
    if (storage->home != LS_CPU_ARENA || storage->merged != i ||
        !ls_cpu_extent(self, i, life))
      continue;
    storage->in_frame = storage->is_lane && crosses_park(self, life);
    out->next[i] = out->first[life->begin];
    out->first[life->begin] = i;
  }
  return ls_ok();
}

static void place_storages(ls_cpu_compiler *self, scan_state *scan) {
  for (uint32_t at = 0; at < self->num_instructions; ++at) {
    if (scan->first[at] == LS_CPU_NONE) continue;
    expire_blocks(&scan->shared, at);
    expire_blocks(&scan->frame, at);
    expire_blocks(&scan->scratch, at);
    for (uint32_t i = scan->first[at]; i != LS_CPU_NONE; i = scan->next[i]) {
      ls_cpu_storage *storage = &self->storages[i];
      arena_plan *arena = !storage->is_lane   ? &scan->shared
                          : storage->in_frame ? &scan->frame
                                              : &scan->scratch;
      const size_t offset =
          place_block(arena, ls_cpu_stride(storage->size), scan->lives[i].end);
      set_place(self, storage, arena->base, offset);
    }
  }
}

// ---- Contributions ---------------------------------------------------------
// Returns true if the operand of a post may be a contribution: it is live from
// its computation to the post without a park between, so lanes that only push
// can compute it directly on the merge's stack.
static bool is_contribution(const ls_cpu_compiler *self, const scan_state *scan,
                            uint32_t position) {
  const ls_cpu_instruction *post = &self->instructions[position];
  const ls_cpu_merge *merge = post->params;
  const uint32_t root = ls_cpu_root(self, self->operands[post->operand]);
  const ls_cpu_storage *storage = &self->storages[root];
  return merge->widen.loop == NULL && storage->home == LS_CPU_ARENA &&
         storage->is_lane && !storage->in_frame &&
         scan->lives[root].end == position;
}

// Returns the position of the kernel that can add a contribution to the partial
// sum while computing it: nothing else reads the value, and there is no jump
// between kernel and post. Else NONE.
static uint32_t adder_of(const ls_cpu_compiler *self, const scan_state *scan,
                         uint32_t root) {
  const ls_cpu_stretch *life = &scan->lives[root];
  const ls_cpu_instruction *kernel = &self->instructions[life->begin];
  if (self->storages[root].size < LEAST_ADDED ||
      kernel->code != LS_CPU_KERNEL || !self->origins[life->begin].adds ||
      ls_cpu_root(self, self->operands[kernel->operand + kernel->num_in]) !=
          root)
    return LS_CPU_NONE;
  uint32_t at = self->storages[root].first_access;
  for (; at != LS_CPU_NONE; at = self->accesses[at].next) {
    const uint32_t position = self->accesses[at].position;
    if (position != life->begin && position != life->end) return LS_CPU_NONE;
  }
  for (uint32_t i = life->begin + 1; i < life->end; ++i) {
    const ls_cpu_code code = self->instructions[i].code;
    if (code != LS_CPU_KERNEL && code != LS_CPU_COPY && code != LS_CPU_POST &&
        code != LS_CPU_NOTHING)
      return LS_CPU_NONE;
  }
  return life->begin;
}

// Finds the contributions of one replicate op. Its posts are in its lane code,
// after its join.
static void find_contributions(ls_cpu_compiler *self, const scan_state *scan,
                               uint32_t replicate) {
  const ls_cpu_stretch *stretch = &self->replicates[replicate];
  ls_cpu_launch *launch =
      (ls_cpu_launch *)(uintptr_t)self->instructions[stretch->begin].params;
  const uint32_t begin = self->instructions[stretch->begin].target;
  const uint32_t end = self->instructions[stretch->end].target;
  ls_cpu_contribution *made =
      ls_arena_new_array(&self->out->arena, ls_cpu_contribution,
                         (size_t)launch->num_slots * launch->num_bodies);
  if (!ls_cpu_has_memory(self, made != NULL)) return;
  uint32_t count = 0;
  for (uint32_t i = begin; i < end; ++i) {
    const ls_cpu_instruction *post = &self->instructions[i];
    if (post->code != LS_CPU_POST || !is_contribution(self, scan, i)) continue;
    const uint32_t *operands = &self->operands[post->operand];
    const uint32_t root = ls_cpu_root(self, operands[0]);
    ls_cpu_storage *storage = &self->storages[root];
    const uint32_t adder = adder_of(self, scan, root);
    if (adder != LS_CPU_NONE) self->instructions[adder].adds_to = count + 1;
    made[count] = (ls_cpu_contribution){
        .merge = post->params,
        .partials = self->storages[ls_cpu_root(self, operands[1])].place,
        .staging = storage->place,
        .adds = adder != LS_CPU_NONE,
    };
    storage->home = LS_CPU_CONTRIBUTION;
    storage->index = count++;
  }
  launch->contributions = made;
  launch->num_contributions = count;
  ls_executable *out = self->out;
  if (count > out->num_contributions) out->num_contributions = count;
}

// ---- Bases -----------------------------------------------------------------
static void place_bases(ls_cpu_compiler *self) {
  const ls_executable *out = self->out;
  const uint32_t bases[] = {
      [LS_CPU_INPUT] = ls_cpu_base_inputs(),
      [LS_CPU_OUTPUT] = ls_cpu_base_outputs(out),
      [LS_CPU_VARIABLE] = ls_cpu_base_variables(out),
      [LS_CPU_NEW_VALUE] = ls_cpu_base_new_values(out),
      [LS_CPU_GIVEN] = ls_cpu_base_given(out),
      [LS_CPU_SPLIT] = ls_cpu_base_split(out),
      [LS_CPU_GATHERED] = ls_cpu_base_gathered(out),
      [LS_CPU_CONTRIBUTION] = ls_cpu_base_contributions(out),
  };
  size_t constants = 0;
  for (uint32_t i = 0; i < self->num_storages; ++i) {
    ls_cpu_storage *storage = &self->storages[i];
    if (storage->home == LS_CPU_CONSTANT) {
      set_place(self, storage, LS_CPU_BASE_CONSTANTS, constants);
      constants += ls_cpu_stride(storage->size);
    } else if (storage->home != LS_CPU_ARENA) {
      storage->place = (ls_cpu_place){bases[storage->home] + storage->index, 0};
    }
  }
  self->out->facts.constant_bytes = constants;
}

void ls_cpu_plan_memory(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  scan_state scan;
  ls_status status = init_scan(self, &scan);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail(self, status);
    return;
  }
  place_storages(self, &scan);
  for (uint32_t i = 0; i < self->num_replicates; ++i)
    find_contributions(self, &scan, i);
  if (ls_cpu_failed(self)) return;
  place_bases(self);
  ls_plan_facts *facts = &self->out->facts;
  facts->shared_bytes = scan.shared.bytes;
  facts->frame_bytes = scan.frame.bytes;
  facts->scratch_bytes = scan.scratch.bytes;
}

// ---- The executable ---------------------------------------------------------
// The last step of compiling: writes the plan into the executable.

// Closes the gaps of removed instructions, and adjusts targets.
static void compact_instructions(ls_cpu_compiler *self, uint32_t *moved) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    moved[i] = count;
    count += self->instructions[i].code != LS_CPU_NOTHING;
  }
  for (uint32_t i = 0; i < self->num_instructions; ++i) {
    if (self->instructions[i].code == LS_CPU_NOTHING) continue;
    ls_cpu_instruction *instruction = &self->instructions[moved[i]];
    *instruction = self->instructions[i];
    instruction->target = moved[instruction->target];
    self->origins[moved[i]] = self->origins[i];
  }
  self->num_instructions = count;
}

static void write_instructions(ls_cpu_compiler *self) {
  ls_executable *out = self->out;
  for (size_t i = 0; i < self->num_instructions; ++i) {
    const ls_cpu_instruction *instruction = &self->instructions[i];
    out->instructions[i] = *instruction;
    out->notes[i] = self->origins[i].note;
    if (instruction->code == LS_CPU_HOST_START) {
      const ls_cpu_host *host = instruction->params;
      if (host->site != LS_CPU_NO_SITE) out->sites[host->site] = host;
    }
    const uint32_t operands = instruction->num_in + instruction->num_out;
    // A launch reads its operands one by one, not through the operand array.
    if (instruction->code != LS_CPU_LAUNCH && operands > out->max_operands)
      out->max_operands = operands;
  }
  for (size_t i = 0; i < self->num_operands; ++i) {
    const uint32_t root = ls_cpu_root(self, self->operands[i]);
    out->places[i] = self->storages[root].place;
    out->place_sizes[i] = self->storages[root].size;
  }
  out->num_instructions = self->num_instructions;
  out->num_places = self->num_operands;
  out->facts.num_instructions = self->num_instructions;
}

static void write_constants(ls_cpu_compiler *self) {
  for (size_t i = 0; i < self->num_storages; ++i) {
    const ls_cpu_storage *storage = &self->storages[i];
    if (storage->home != LS_CPU_CONSTANT || storage->size == 0) continue;
    memcpy(self->out->constants + (size_t)storage->place.line * 64,
           storage->data, storage->size);
  }
}

// Gives each output spare memory for runs that do not want the output, as other
// results may be computed from it. Memory that no run touches costs only
// address space.
static void place_spares(ls_cpu_compiler *self) {
  ls_executable *out = self->out;
  const ls_graph *body = self->program->body;
  size_t offset = 0;
  for (size_t i = 0; i < self->program->num_outputs; ++i) {
    out->spare_offsets[i] = offset;
    const size_t size = ls_cpu_ref_size(body, body->results[i]);
    offset += ls_round_to_line(size);
  }
  out->spare_bytes = offset;
}

void ls_cpu_finish(ls_cpu_compiler *self) {
  if (ls_cpu_failed(self)) return;
  ls_executable *out = self->out;
  uint32_t *moved =
      ls_arena_new_array(&self->temp, uint32_t, self->num_instructions);
  if (!ls_cpu_has_memory(self, moved != NULL)) return;
  compact_instructions(self, moved);
  ls_cpu_trips *trips = &out->trips;
  trips->begin = moved[trips->begin];
  trips->first = moved[trips->first];
  trips->last = moved[trips->last];
  ls_arena *arena = &out->arena;
  const size_t count = self->num_instructions;
  out->instructions = ls_arena_new_array(arena, ls_cpu_instruction, count);
  out->notes = ls_arena_new_array(arena, ls_cpu_note, count);
  out->places = ls_arena_new_array(arena, ls_cpu_place, self->num_operands);
  out->place_sizes = ls_arena_new_array(arena, size_t, self->num_operands);
  out->spare_offsets =
      ls_arena_new_array(arena, size_t, self->program->num_outputs);
  out->sites = ls_arena_new_array(arena, const ls_cpu_host *, out->num_sites);
  out->constants =
      ls_allocate_large(self->allocator, out->facts.constant_bytes);
  out->stack_is_endless = ls_arena_copy(arena, self->endless_stacks,
                                        out->num_stacks * sizeof(bool));
  if (!ls_cpu_has_memory(
          self, out->stack_is_endless != NULL && out->instructions != NULL &&
                    out->notes != NULL && out->places != NULL &&
                    out->place_sizes != NULL && out->spare_offsets != NULL &&
                    out->sites != NULL && out->constants != NULL))
    return;
  write_instructions(self);
  write_constants(self);
  place_spares(self);
}
