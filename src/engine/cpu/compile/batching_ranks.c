// SPDX-License-Identifier: Apache-2.0
//
// Merges of replicas that run as one batch if other ranks host replicas, too:
// this rank's replicas are the batch. Each rank adds up the maximal subtrees of
// its replicas, ranks exchange these sums, and each rank adds them up to the
// whole tree: so the additions equal those on a single rank.
#include "engine/cpu/compile/batching.h"
#include "engine/cpu/run/ranks.h"

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

static void emit_reduce(ls_cpu_classes *self, uint32_t m, ls_cpu_merge *steps,
                        uint32_t result) {
  ls_cpu_compiler *compiler = self->compiler;
  const ls_communicator *communicator = compiler->out->communicator;
  const int32_t replicas = compiler->share.replicas;
  const ls_cpu_batched *first = &self->items[0];
  const uint32_t count = ls_cpu_ranks_subtrees(communicator, replicas, NULL);
  ls_cpu_subtree *subtrees =
      ls_arena_new_array(&compiler->out->arena, ls_cpu_subtree, count);
  uint32_t *sums =
      ls_arena_new_array(&compiler->temp, uint32_t, (size_t)count + 1);
  if (subtrees == NULL || sums == NULL) {
    ls_cpu_fail(compiler, ls_out_of_memory());
    return;
  }
  (void)ls_cpu_ranks_subtrees(communicator, replicas, subtrees);
  for (uint32_t i = 0; i < count; ++i) {
    const ls_cpu_range range = {subtrees[i].first, subtrees[i].end};
    sums[i] = subtrees[i].rank == communicator->rank
                  ? ls_cpu_merge_range(self, m, &range, steps)
                  : ls_cpu_new_shared(compiler, steps->bytes);
  }
  sums[count] = result;
  emit_exchange(compiler, first->graph, first->body->merges[m],
                &(ls_cpu_exchange){.share = compiler->share,
                                   .merge = steps,
                                   .subtrees = subtrees,
                                   .num_subtrees = count},
                sums, count + 1, 1);
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
