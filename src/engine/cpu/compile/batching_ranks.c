// SPDX-License-Identifier: Apache-2.0
//
// Merges of replicas that run as one batch if other ranks host replicas, too:
// this rank's replicas are the batch. Each rank adds up the maximal subtrees of
// its replicas, and the exchange of these sums (run/sums.h) adds them up to the
// whole tree: so the additions equal those on a single rank.
//
// Sums that become ready one after the other travel together, until they are
// LEAST_SENT bytes or the result of one is needed. If the next one is much
// smaller and only NEAR nodes away, it travels with them. Where a rank has the
// sums of several subtrees, products are computed and sent in some BANDs of
// rows at a time, so that few rows of all these sums need memory. These are
// rules on the program and on sizes alone, so all ranks make the same
// exchanges.
#include "engine/cpu/compile/batching.h"
#include "engine/cpu/run/ranks.h"
#include "engine/cpu/run/sums.h"

enum { LEAST_SENT = 256 << 10, NEAR = 4, MUCH_SMALLER = 16, BAND = 128 };

// Emits an exchange of storages; it writes the last `num_out` and reads the
// others.
static void emit_exchange(ls_cpu_compiler *compiler, const ls_graph *graph,
                          const ls_node *node, const ls_cpu_exchange *params,
                          const uint32_t *storages, uint32_t count,
                          uint32_t num_out) {
  ls_cpu_exchange *kept = ls_arena_new(&compiler->out->arena, ls_cpu_exchange);
  if (!ls_cpu_has_memory(compiler, kept != NULL)) return;
  *kept = *params;
  const uint32_t position = ls_cpu_emit(compiler, LS_CPU_EXCHANGE, node);
  for (uint32_t i = 0; i < count; ++i)
    if (i < count - num_out)
      ls_cpu_read(compiler, storages[i]);
    else
      ls_cpu_write(compiler, storages[i]);
  ls_cpu_label(compiler, graph, node);
  if (ls_cpu_failed(compiler)) return;
  // The number identifies the exchange among ranks, like a slot.
  ls_cpu_at(compiler, position)->number = compiler->out->num_slots++;
  ls_cpu_at(compiler, position)->params = kept;
}

// ---- Merges ----------------------------------------------------------------
// Emits a gather: puts this rank's rows in place, then exchanges the rows of
// all.
static void emit_gather(ls_cpu_classes *self, uint32_t m, ls_cpu_merge *steps,
                        uint32_t result) {
  const ls_cpu_share *share = &self->compiler->share;
  const ls_cpu_batched *first = &self->items[0];
  const ls_cpu_range own = {(uint32_t)share->first, (uint32_t)share->end};
  const uint32_t storages[] = {result, result};
  ls_cpu_merge_steps(self, m, &own, steps, result);
  emit_exchange(self->compiler, first->graph, first->body->merges[m],
                &(ls_cpu_exchange){.share = *share, .merge = steps}, storages,
                2, 1);
}

// Emits the start or the end of an exchange of sums. `operands` are ordered as
// ls_cpu_sums says.
static void emit_sums(ls_cpu_classes *self, ls_cpu_code code,
                      const ls_cpu_sums *sums, const uint32_t *operands) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_node *merge = self->unsent[0].merge;
  const uint32_t position = ls_cpu_emit(compiler, code, merge);
  const uint32_t num_own = sums->count * sums->num_own;
  for (uint32_t i = 0; i < num_own; ++i)
    ls_cpu_read(compiler, operands[i]);
  for (uint32_t i = num_own; i < ls_cpu_sums_operands(sums); ++i)
    ls_cpu_write(compiler, operands[i]);
  ls_cpu_label(compiler, self->items[0].graph, merge);
  if (ls_cpu_failed(compiler)) return;
  ls_cpu_at(compiler, position)->number = sums->number;
  ls_cpu_at(compiler, position)->params = sums;
}

// Returns the operands of the exchange of all sums that are unsent; NULL
// without memory.
static const uint32_t *list_operands(ls_cpu_classes *self,
                                     const ls_cpu_sums *sums) {
  ls_cpu_compiler *compiler = self->compiler;
  uint32_t *operands =
      ls_arena_new_array(&compiler->temp, uint32_t, ls_cpu_sums_operands(sums));
  uint32_t count = 0;
  if (operands == NULL) return NULL;
  for (uint32_t i = 0; i < sums->count; ++i)
    for (uint32_t k = 0; k < sums->num_own; ++k)
      operands[count++] = self->unsent[i].own[k];
  operands[count++] = ls_cpu_new_shared(compiler, sums->received);
  for (uint32_t i = 0; i < sums->count; ++i)
    operands[count++] = self->unsent[i].result;
  return operands;
}

static ls_status send_sums(ls_cpu_classes *self) {
  ls_cpu_compiler *compiler = self->compiler;
  const uint32_t count = self->num_unsent;
  ls_cpu_sums *sums = NULL;
  LS_ARENA_ARRAY_OR_RETURN(&compiler->temp, ls_cpu_summed, summed, count);
  for (uint32_t i = 0; i < count; ++i)
    summed[i] = (ls_cpu_summed){self->unsent[i].merge, self->unsent[i].steps,
                                self->unsent[i].first, self->unsent[i].count};
  LS_RETURN_IF_ERROR(ls_cpu_sums_make(compiler->out, compiler->kernels,
                                      compiler->share.replicas, summed, count,
                                      &sums));
  ls_cpu_need_scratch(compiler, sums->scratch, LS_CPU_MANY_BLOCKS);
  sums->number = compiler->out->num_slots++;
  const uint32_t *operands = list_operands(self, sums);
  if (operands == NULL) return ls_out_of_memory();
  emit_sums(self, LS_CPU_SUMS_START, sums, operands);
  emit_sums(self, LS_CPU_SUMS_FINISH, sums, operands);
  return ls_ok();
}

static void send_all(ls_cpu_classes *self) {
  if (self->num_unsent == 0 || ls_cpu_failed(self->compiler)) return;
  const ls_status status = send_sums(self);
  if (!ls_status_is_ok(status)) ls_cpu_fail(self->compiler, status);
  self->num_unsent = 0;
  self->unsent_bytes = 0;
}

void ls_cpu_send_before(ls_cpu_classes *self, const ls_node *node) {
  for (uint32_t i = 0; i < self->num_unsent; ++i)
    for (uint32_t k = 0; k < node->num_inputs; ++k)
      if (ls_ref_id(node->inputs[k]) == self->unsent[i].merge->id) {
        send_all(self);
        return;
      }
}

// Returns true if the next merge is small and near.
static bool waits_for_next(const ls_cpu_classes *self, uint32_t e) {
  const ls_cpu_batched *first = &self->items[0];
  const uint32_t next = self->order[e + 1];
  return self->addends[next * self->count].before <= first->emitted + NEAR &&
         ls_type_bytes(first->body->merges[next]->outputs[0]) <=
             self->unsent_bytes / MUCH_SMALLER;
}

void ls_cpu_send_ready(ls_cpu_classes *self, uint32_t e) {
  if (e + 1 == self->region->num_merges ||
      (self->unsent_bytes >= LEAST_SENT && !waits_for_next(self, e)))
    send_all(self);
}

// The subtrees of all ranks.
typedef struct all_subtrees {
  ls_cpu_subtree *items;
  uint32_t count;
  uint32_t most;  // Most subtrees of a rank.
} all_subtrees;

static bool find_subtrees(const ls_cpu_classes *self, all_subtrees *out) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_communicator *communicator = compiler->out->communicator;
  const int32_t replicas = compiler->share.replicas;
  out->count = ls_cpu_ranks_subtrees(communicator, replicas, NULL);
  out->items = ls_arena_new_array(&compiler->temp, ls_cpu_subtree, out->count);
  if (!ls_cpu_has_memory(compiler, out->items != NULL)) return false;
  (void)ls_cpu_ranks_subtrees(communicator, replicas, out->items);
  for (uint32_t i = 0, own = 0; i < out->count; ++i) {
    own = i > 0 && out->items[i].rank == out->items[i - 1].rank ? own + 1 : 1;
    if (own > out->most) out->most = own;
  }
  return true;
}

// Emits rows `first` to `end` of the sums of this rank's subtrees, or all of
// them with `end` 0: the first one in the storage of the result, if that has
// the type of the additions. Returns the storages; NULL without memory.
static uint32_t *emit_own(ls_cpu_classes *self, uint32_t m,
                          const all_subtrees *subtrees, int64_t first,
                          int64_t end, const ls_cpu_merge *steps,
                          uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  uint32_t *own = ls_arena_new_array(&compiler->temp, uint32_t, subtrees->most);
  uint32_t at = 0;
  for (uint32_t i = 0; own != NULL && i < subtrees->count; ++i) {
    const ls_cpu_subtree *subtree = &subtrees->items[i];
    const ls_cpu_range range = {subtree->first, subtree->end};
    if (subtree->rank != compiler->out->communicator->rank) continue;
    own[at] = end > 0 ? ls_cpu_merge_rows(self, m, &range, first, end)
                      : ls_cpu_merge_range(self, m, &range, steps,
                                           at == 0 ? result : LS_CPU_NONE);
    ++at;
  }
  if (own == NULL) ls_cpu_fail(compiler, ls_out_of_memory());
  return own;
}

// Sends first what the merge, or what it computes itself, reads.
static void send_operands(ls_cpu_classes *self, uint32_t m) {
  const ls_cpu_batched *first = &self->items[0];
  const ls_node *merge = first->body->merges[m];
  const ls_node *product = self->addends[m * self->count].product;
  ls_cpu_send_before(self, merge);
  ls_cpu_send_before(self, ls_graph_node_of(first->graph, merge->inputs[0]));
  if (product != NULL) ls_cpu_send_before(self, product);
}

// Returns how many rows of a sum travel at once; 0: the whole sum does. Where a
// rank has the sums of several subtrees of products, whole ones would need
// several times the memory of the result.
static int64_t rows_at_once(const ls_cpu_classes *self, uint32_t m,
                            const all_subtrees *subtrees) {
  const ls_type type = self->items[0].body->merges[m]->outputs[0];
  const uint32_t ranks = (uint32_t)self->compiler->out->communicator->ranks;
  if (subtrees->most < 2 || self->addends[m].kind != LS_CPU_COMES_PRODUCT)
    return 0;
  const int64_t rows = type.shape.dim[0];
  int64_t some =
      LEAST_SENT / (type.shape.dim[1] * (int64_t)ls_dtype_size(type.dtype));
  const int64_t share = rows / (subtrees->most + subtrees->count / ranks);
  if (some < share) some = share;
  some = (some + BAND - 1) / BAND * BAND;
  return some < rows ? some : 0;
}

static void add_unsent(ls_cpu_classes *self, const ls_cpu_unsent *unsent) {
  if (unsent->own == NULL) return;
  self->unsent[self->num_unsent++] = *unsent;
  self->unsent_bytes +=
      unsent->count * ls_dtype_size(unsent->merge->outputs[0].dtype);
}

static void emit_reduce(ls_cpu_classes *self, uint32_t m,
                        const ls_cpu_merge *steps, uint32_t result) {
  const ls_node *merge = self->items[0].body->merges[m];
  all_subtrees subtrees = {0};
  if (!find_subtrees(self, &subtrees)) return;
  ls_cpu_unsent unsent = {
      .merge = merge,
      .steps = steps,
      .count = (size_t)ls_shape_num_elements(merge->outputs[0].shape),
      .result = result};
  const int64_t step = rows_at_once(self, m, &subtrees);
  if (step == 0) {
    unsent.own = emit_own(self, m, &subtrees, 0, 0, steps, result);
    add_unsent(self, &unsent);
    return;
  }
  const ls_shape shape = merge->outputs[0].shape;
  for (int64_t row = 0; row < shape.dim[0]; row += step) {
    const int64_t left = shape.dim[0] - row;
    const int64_t end = row + (left < step ? left : step);
    if (row > 0) send_all(self);
    unsent.first = (size_t)(row * shape.dim[1]);
    unsent.count = (size_t)((end - row) * shape.dim[1]);
    unsent.own = emit_own(self, m, &subtrees, row, end, steps, LS_CPU_NONE);
    add_unsent(self, &unsent);
  }
}

void ls_cpu_merge_on_ranks(ls_cpu_classes *self, uint32_t m, uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_cpu_batched *first = &self->items[0];
  const ls_node *merge = first->body->merges[m];
  ls_cpu_merge *steps = NULL;
  const ls_status status =
      ls_cpu_merge_prepare(compiler->kernels, &compiler->out->arena, merge,
                           merge->outputs[0], compiler->share.replicas, &steps);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail_at(compiler, first->graph, merge, status);
    return;
  }
  ls_cpu_need_scratch(compiler, steps->scratch, LS_CPU_MANY_BLOCKS);
  send_operands(self, m);
  if (steps->offsets != NULL)
    emit_gather(self, m, steps, result);
  else
    emit_reduce(self, m, steps, result);
}

// ---- Results ---------------------------------------------------------------
void ls_cpu_exchange_gathered(ls_cpu_classes *self) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_cpu_region *region = self->region;
  ls_executable *out = compiler->out;
  const ls_cpu_share *share = &compiler->share;
  const uint32_t replicas = (uint32_t)share->replicas;
  uint32_t *storages = ls_arena_new_array(
      &compiler->temp, uint32_t, (size_t)region->num_gathered * replicas);
  uint32_t count = 0, results = 0;
  if (!ls_cpu_has_memory(compiler, storages != NULL)) return;
  for (uint32_t g = 0; g < region->num_gathered; ++g) {
    if (!region->is_gathered[g]) continue;
    const ls_graph *graph = self->items[0].graph;
    ++results;
    for (uint32_t r = 0; r < replicas; ++r) {
      uint32_t *storage = &region->gathered[g * replicas + r];
      if ((int32_t)r < share->first || (int32_t)r >= share->end)
        *storage = ls_cpu_new_shared(compiler,
                                     ls_cpu_ref_size(graph, graph->results[g]));
      storages[count++] = *storage;
    }
  }
  if (results == 0) return;
  if (results > out->num_gathered) out->num_gathered = results;
  emit_exchange(compiler, self->items[0].graph, region->op,
                &(ls_cpu_exchange){.share = *share, .num_results = results},
                storages, count, count);
}
