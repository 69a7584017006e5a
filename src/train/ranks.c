// SPDX-License-Identifier: Apache-2.0
#include "train/ranks.h"

#include <string.h>

static const char name[] = "a run's ranks";

ls_status ls_run_ranks_init(ls_run_ranks *ranks, ls_runtime *runtime,
                            const ls_strategy *strategy) {
  ls_communicator *communicator = ls_runtime_communicator(runtime);
  *ranks = (ls_run_ranks){.allocator = ls_runtime_allocator(runtime)};
  if (communicator == NULL || communicator->ranks < 2 ||
      ls_strategy_num_replicas(strategy) < 2)
    return ls_ok();
  ranks->communicator = communicator;
  ranks->words =
      ls_new_array(ranks->allocator, int64_t, (size_t)communicator->ranks);
  return ranks->words == NULL ? ls_out_of_memory() : ls_ok();
}

void ls_run_ranks_deinit(ls_run_ranks *ranks) {
  if (ranks->allocator == NULL) return;
  ls_release(ranks->allocator, ranks->words);
  *ranks = (ls_run_ranks){0};
}

bool ls_run_ranks_writes(const ls_run_ranks *ranks) {
  return ranks->communicator == NULL || ranks->communicator->rank == 0;
}

// ---- Exchanges -------------------------------------------------------------
ls_status ls_run_ranks_exchange(ls_run_ranks *ranks, int64_t own,
                                int64_t *out_first, int64_t *out_bits) {
  *out_first = *out_bits = own;
  ls_communicator *communicator = ranks->communicator;
  if (communicator == NULL) return ls_ok();
  ranks->words[communicator->rank] = own;
  // A name that no program uses.
  const ls_exchange_name exchange = {
      .program = {ls_hash(name, sizeof(name), 0), 0},
      .iteration = ranks->num_exchanges++,
      .merge = UINT32_MAX - 2,
  };
  LS_RETURN_IF_ERROR(ls_communicator_gather(
      communicator, &exchange, ranks->words, sizeof(*ranks->words)));
  *out_first = ranks->words[0];
  for (int32_t k = 0; k < communicator->ranks; ++k)
    *out_bits |= ranks->words[k];
  return ls_ok();
}

ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops, bool *out_stops) {
  const ls_rank_party *party = &ranks->party;
  int64_t first = 0, bits = 0;
  *out_stops = stops;
  if (ranks->communicator == NULL) return ls_ok();
  const int64_t sent = party->send != NULL ? party->send(party->user) : 0;
  const ls_status status = ls_run_ranks_exchange(
      ranks, (int64_t)((uint64_t)sent << 1) | stops, &first, &bits);
  *out_stops = (bits & 1) != 0;
  if (party->receive != NULL)
    party->receive(party->user, first >> 1, bits >> 1);
  return status;
}

ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own) {
  int64_t first = 0, bits = 0;
  ls_communicator *communicator = ranks->communicator;
  if (communicator == NULL || ls_status_is_ok(own))
    return ls_status_is_ok(own) ? ls_run_ranks_exchange(ranks, 0, &first, &bits)
                                : own;
  communicator->cancel(communicator, own);
  return own;
}
