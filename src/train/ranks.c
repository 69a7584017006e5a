// SPDX-License-Identifier: Apache-2.0
#include "train/ranks.h"

#include <string.h>

static const char name[] = "a run's ranks";

ls_status ls_run_ranks_init(ls_run_ranks *ranks, ls_runtime *runtime,
                            const ls_strategy *strategy) {
  ls_trunk *trunk = ls_runtime_trunk(runtime);
  *ranks = (ls_run_ranks){.allocator = ls_runtime_allocator(runtime)};
  if (trunk == NULL || trunk->ranks < 2 ||
      ls_strategy_num_replicas(strategy) < 2)
    return ls_ok();
  ranks->trunk = trunk;
  ranks->words = ls_new_array(ranks->allocator, int64_t, (size_t)trunk->ranks);
  ranks->pieces =
      ls_new_array(ranks->allocator, ls_trunk_piece, (size_t)trunk->ranks);
  return ranks->words == NULL || ranks->pieces == NULL ? ls_out_of_memory()
                                                       : ls_ok();
}

void ls_run_ranks_deinit(ls_run_ranks *ranks) {
  if (ranks->allocator == NULL) return;
  ls_release(ranks->allocator, ranks->words);
  ls_release(ranks->allocator, ranks->pieces);
  *ranks = (ls_run_ranks){0};
}

bool ls_run_ranks_writes(const ls_run_ranks *ranks) {
  return ranks->trunk == NULL || ranks->trunk->rank == 0;
}

// ---- Exchanges -------------------------------------------------------------
// Exchanges pieces under a name that no program uses.
static ls_status exchange_pieces(ls_run_ranks *ranks,
                                 const ls_trunk_piece *pieces, size_t count) {
  const ls_trunk_name exchange = {
      .program = {ls_hash(name, sizeof(name), 0), 0},
      .iteration = ranks->num_exchanges++,
      .merge = UINT32_MAX - 2,
  };
  return ranks->trunk->exchange(ranks->trunk, &exchange, pieces, count);
}

ls_status ls_run_ranks_exchange(ls_run_ranks *ranks, int64_t own,
                                int64_t *out_first, int64_t *out_bits) {
  *out_first = *out_bits = own;
  ls_trunk *trunk = ranks->trunk;
  if (trunk == NULL) return ls_ok();
  ranks->words[trunk->rank] = own;
  for (int32_t k = 0; k < trunk->ranks; ++k)
    ranks->pieces[k] =
        (ls_trunk_piece){&ranks->words[k], sizeof(*ranks->words), k};
  LS_RETURN_IF_ERROR(
      exchange_pieces(ranks, ranks->pieces, (size_t)trunk->ranks));
  *out_first = ranks->words[0];
  for (int32_t k = 0; k < trunk->ranks; ++k)
    *out_bits |= ranks->words[k];
  return ls_ok();
}

ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops, bool *out_stops) {
  const ls_rank_party *party = &ranks->party;
  int64_t first = 0, bits = 0;
  *out_stops = stops;
  if (ranks->trunk == NULL) return ls_ok();
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
  ls_trunk *trunk = ranks->trunk;
  if (trunk == NULL || ls_status_is_ok(own))
    return ls_status_is_ok(own) ? ls_run_ranks_exchange(ranks, 0, &first, &bits)
                                : own;
  trunk->cancel(trunk, own);
  return own;
}
