// SPDX-License-Identifier: Apache-2.0
//
// Merges of replicas that run as one batch if other ranks host replicas, too:
// this rank's replicas are the batch. Each rank adds up the maximal subtrees of
// its replicas, and the exchange of these sums (run/sums.h) adds them up to the
// whole tree: so the additions equal those on a single rank.
#include "engine/cpu/compile/batching.h"
#include "engine/cpu/run/sums.h"

// Emits an exchange of storages; it writes the last `num_out` and reads the
// others.
static void emit_exchange(ls_cpu_compiler *compiler, const ls_graph *graph,
                          const ls_node *node, const ls_cpu_exchange *params,
                          const uint32_t *storages, uint32_t count,
                          uint32_t num_out) {
  ls_cpu_exchange *kept = ls_arena_new(&compiler->out->arena, ls_cpu_exchange);
  if (kept == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
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
static void emit_sums(ls_cpu_classes *self, uint32_t m, ls_cpu_code code,
                      const ls_cpu_sums *sums, const uint32_t *operands) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_cpu_batched *first = &self->items[0];
  const ls_node *merge = first->body->merges[m];
  const uint32_t position = ls_cpu_emit(compiler, code, merge);
  const uint32_t num_own = sums->count * sums->num_own;
  for (uint32_t i = 0; i < num_own; ++i)
    ls_cpu_read(compiler, operands[i]);
  for (uint32_t i = num_own; i < ls_cpu_sums_operands(sums); ++i)
    ls_cpu_write(compiler, operands[i]);
  ls_cpu_label(compiler, first->graph, merge);
  if (ls_cpu_failed(compiler)) return;
  ls_cpu_at(compiler, position)->number = sums->number;
  ls_cpu_at(compiler, position)->params = sums;
}

// Emits the sums of this rank's subtrees. One that is in the type of the result
// is in its storage, and so is the result then.
static void emit_own(ls_cpu_classes *self, uint32_t m,
                     const ls_cpu_merge *steps, const ls_cpu_sums *sums,
                     uint32_t result, uint32_t *storages) {
  const int32_t rank = self->compiler->out->communicator->rank;
  for (uint32_t i = 0, own = 0; i < sums->num_subtrees; ++i) {
    const ls_cpu_range range = {sums->subtrees[i].first, sums->subtrees[i].end};
    if (sums->subtrees[i].rank != rank) continue;
    storages[own] = ls_cpu_merge_range(self, m, &range, steps,
                                       own == 0 ? result : LS_CPU_NONE);
    ++own;
  }
}

static void emit_reduce(ls_cpu_classes *self, uint32_t m, ls_cpu_merge *steps,
                        uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  ls_cpu_sums *sums = NULL;
  const ls_cpu_summed summed = {self->items[0].body->merges[m], steps};
  const ls_status status =
      ls_cpu_sums_make(compiler->out, compiler->kernels,
                       compiler->share.replicas, &summed, 1, &sums);
  if (!ls_status_is_ok(status)) {
    ls_cpu_fail(compiler, status);
    return;
  }
  ls_cpu_need_scratch(compiler, sums->scratch);
  sums->number = compiler->out->num_slots++;
  uint32_t *operands =
      ls_arena_new_array(&compiler->temp, uint32_t, ls_cpu_sums_operands(sums));
  if (operands == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
  emit_own(self, m, steps, sums, result, operands);
  operands[sums->num_own] = ls_cpu_new_shared(compiler, sums->received);
  operands[sums->num_own + 1] = result;
  emit_sums(self, m, LS_CPU_SUMS_START, sums, operands);
  emit_sums(self, m, LS_CPU_SUMS_FINISH, sums, operands);
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
  ls_cpu_need_scratch(compiler, steps->scratch);
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
  if (storages == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
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
