// SPDX-License-Identifier: Apache-2.0
#include "engine/cpu/run/ranks.h"

#include "base/memory/own.h"
#include "base/trace.h"

// ---- Subtrees --------------------------------------------------------------
static uint32_t first_replica(const ls_communicator *communicator, int32_t rank,
                              int32_t replicas) {
  return (uint32_t)ls_communicator_first(communicator, rank, replicas);
}

uint32_t ls_cpu_ranks_shift(const ls_communicator *communicator,
                            int32_t replicas) {
  uint32_t borders = 0;
  for (int32_t k = 1; k < communicator->ranks; ++k)
    borders |= first_replica(communicator, k, replicas);
  return (uint32_t)__builtin_ctz(borders);
}

// Returns the end of the largest subtree that starts at replica `at` and
// contains none from `end` on: 2^k replicas from a multiple of 2^k, or the rest
// of all.
static uint32_t subtree_end(uint32_t at, uint32_t end, uint32_t replicas) {
  uint32_t size = at == 0 ? 1U << 31 : at & (~at + 1);
  for (;; size /= 2) {
    const uint32_t found = replicas - at < size ? replicas : at + size;
    if (found <= end) return found;
  }
}

static uint32_t count_subtrees(uint32_t at, uint32_t end, uint32_t replicas) {
  uint32_t count = 0;
  for (; at < end; ++count)
    at = subtree_end(at, end, replicas);
  return count;
}

uint32_t ls_cpu_ranks_leaves(const ls_cpu_share *share, ls_cpu_leaf *leaves) {
  const uint32_t first = (uint32_t)share->first;
  const uint32_t count = (uint32_t)share->end - first;
  uint32_t depth = 0, waiting = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint32_t after =
        count_subtrees(first, first + i + 1, (uint32_t)share->replicas);
    leaves[i] = (ls_cpu_leaf){i, count, waiting, waiting + 1 - after};
    waiting = after;
    if (waiting > depth) depth = waiting;
  }
  return depth;
}

uint32_t ls_cpu_ranks_subtrees(const ls_communicator *communicator,
                               int32_t replicas, ls_cpu_subtree *out) {
  uint32_t count = 0, at = 0;
  for (int32_t k = 0; k < communicator->ranks; ++k)
    for (const uint32_t end = first_replica(communicator, k + 1, replicas);
         at < end; ++count) {
      const uint32_t next = subtree_end(at, end, (uint32_t)replicas);
      if (out != NULL) out[count] = (ls_cpu_subtree){at, next, k};
      at = next;
    }
  return count;
}

size_t ls_cpu_ranks_pieces(const ls_executable *executable) {
  if (executable->communicator == NULL) return 0;
  const size_t ranks = (size_t)executable->communicator->ranks;
  const size_t results =
      (size_t)executable->num_gathered * (size_t)executable->replicas;
  return results > ranks ? results : ranks;
}

// ---- Exchanging ------------------------------------------------------------
ls_exchange_name ls_cpu_exchange_name(const ls_instance *self, uint32_t number,
                                      uint64_t iteration) {
  const ls_program *program = self->executable->program;
  return (ls_exchange_name){
      .program = {program->fingerprint[0],
                  program->fingerprint[1] + program->strategy},
      .step = self->number,
      .iteration = iteration,
      .merge = number,
  };
}

ls_status ls_cpu_await_exchange(const ls_instance *self,
                                ls_exchange *exchange) {
  ls_communicator *communicator = self->executable->communicator;
  ls_runtime *runtime = self->executable->backend->runtime;
  if (communicator->is_done(communicator, exchange))
    return communicator->wait(communicator, exchange);
  const int64_t began = ls_runtime_now(runtime);
  // A run that waits is not at work.
  ls_runtime_end_work(runtime);
  const ls_status status = communicator->wait(communicator, exchange);
  ls_runtime_begin_work(runtime);
  ls_wait_end(runtime, LS_WAIT_RANKS, began);
  return status;
}

static ls_status exchange_pieces(const ls_instance *self, uint32_t number,
                                 uint64_t iteration, size_t count) {
  ls_communicator *communicator = self->executable->communicator;
  ls_exchange exchange = {.name = ls_cpu_exchange_name(self, number, iteration),
                          .pieces = self->pieces,
                          .count = count,
                          .limit = self->limit};
  LS_RETURN_IF_ERROR(communicator->start(communicator, &exchange));
  return ls_cpu_await_exchange(self, &exchange);
}

ls_status ls_cpu_annotate_merge(const ls_instance *self,
                                const ls_cpu_instruction *at,
                                ls_status status) {
  const ls_executable *executable = self->executable;
  const char *label = executable->notes[at - executable->instructions].label;
  return ls_status_annotate(status, "in %s", label != NULL ? label : "a merge");
}

// Lists the rows of each rank as pieces. Returns their number.
static size_t list_row_pieces(ls_instance *self, const ls_cpu_merge *merge,
                              void *result) {
  const ls_communicator *communicator = self->executable->communicator;
  for (int32_t k = 0; k < communicator->ranks; ++k) {
    const size_t begin =
        merge->offsets[first_replica(communicator, k, merge->replicas)];
    const size_t end =
        merge->offsets[first_replica(communicator, k + 1, merge->replicas)];
    self->pieces[k] = (ls_exchange_piece){(char *)result + begin, end - begin,
                                          k, LS_EACH_RANK};
  }
  return (size_t)communicator->ranks;
}

ls_status ls_cpu_exchange_rows(ls_instance *self,
                               const ls_cpu_instruction *post, void *result) {
  return ls_cpu_annotate_merge(
      self, post,
      exchange_pieces(self, post->number, self->slots[post->number].generation,
                      list_row_pieces(self, post->params, result)));
}

// Lists `count` results of each replica, starting at a place. Returns the
// number of pieces.
static size_t list_result_pieces(ls_instance *self, const ls_cpu_share *share,
                                 size_t place, uint32_t count) {
  const ls_executable *executable = self->executable;
  const ls_communicator *communicator = executable->communicator;
  size_t pieces = 0;
  for (uint32_t g = 0; g < count; ++g)
    for (int32_t k = 0; k < communicator->ranks; ++k)
      for (uint32_t r = first_replica(communicator, k, share->replicas);
           r < first_replica(communicator, k + 1, share->replicas);
           ++r, ++place)
        self->pieces[pieces++] = (ls_exchange_piece){
            .data =
                ls_cpu_resolve(&self->workers[0], executable->places[place]),
            .size = executable->place_sizes[place],
            .from = k,
            .to = LS_EACH_RANK,
        };
  return pieces;
}

ls_status ls_cpu_exchange_results(ls_instance *self) {
  const ls_executable *executable = self->executable;
  const ls_cpu_instruction *instruction = self->launch;
  const ls_cpu_launch *launch = instruction->params;
  const size_t count = list_result_pieces(
      self, &launch->share, instruction->operand + instruction->num_in,
      launch->num_gathered);
  // Launches are numbered after the slots. Positions of instructions would not
  // do, as they differ between ranks.
  const uint32_t number = executable->num_slots + launch->index;
  return ls_status_annotate(exchange_pieces(self, number, 0, count),
                            "with the results of replicas");
}

// ---- Batched replicas ------------------------------------------------------
ls_status ls_cpu_exchange_batched(ls_instance *self,
                                  const ls_cpu_instruction *at,
                                  uint64_t iteration) {
  const ls_executable *executable = self->executable;
  const ls_cpu_exchange *params = at->params;
  if (params->merge == NULL)
    return exchange_pieces(self, at->number, iteration,
                           list_result_pieces(self, &params->share, at->operand,
                                              params->num_results));
  void *result =
      ls_cpu_resolve(&self->workers[0], executable->places[at->operand]);
  return exchange_pieces(self, at->number, iteration,
                         list_row_pieces(self, params->merge, result));
}

ls_status ls_cpu_ranks_agree(ls_instance *self,
                             const ls_cpu_instruction *instruction) {
  const ls_executable *executable = self->executable;
  if (executable->communicator == NULL) return ls_ok();
  const ls_cpu_host *host = instruction->params;
  self->pieces[0] =
      (ls_exchange_piece){.from = LS_EACH_RANK, .to = LS_EACH_RANK};
  return ls_status_annotate(exchange_pieces(self, host->number, 0, 1),
                            "behind %s", host->label);
}
