// SPDX-License-Identifier: Apache-2.0
// Ranks of one run: their agreement around steps.
#ifndef LS_TRAIN_RANKS_H_
#define LS_TRAIN_RANKS_H_

#include "base/runtime_internal.h"
#include "lockstep/strategy.h"
#include "lockstep/trunk.h"

// Sends bits to the other ranks beside a stop, and receives rank 0's and all of
// theirs.
typedef struct ls_rank_party {
  void *user;
  int64_t (*send)(void *user);  // NULL: nothing is sent.
  void (*receive)(void *user, int64_t first, int64_t bits);
} ls_rank_party;

// Zeroed: the run is alone.
typedef struct ls_run_ranks {
  ls_trunk *trunk;  // NULL: alone.
  ls_allocator *allocator;
  int64_t *words;  // One a rank.
  ls_trunk_piece *pieces;
  uint64_t num_exchanges;
  ls_rank_party party;
} ls_run_ranks;

LS_MUST_USE ls_status ls_run_ranks_init(ls_run_ranks *ranks,
                                        ls_runtime *runtime,
                                        const ls_strategy *strategy);
void ls_run_ranks_deinit(ls_run_ranks *ranks);
// Returns whether this one writes the run's files.
bool ls_run_ranks_writes(const ls_run_ranks *ranks);

// Sends a number to all, and gives rank 0's and the bits of all. Alone it is
// its own.
LS_MUST_USE ls_status ls_run_ranks_exchange(ls_run_ranks *ranks, int64_t own,
                                            int64_t *out_first,
                                            int64_t *out_bits);
// Finds out whether one of them requests a stop, with the party's exchange.
LS_MUST_USE ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops,
                                        bool *out_stops);
// Waits until all is well on all of them. An error of one is reported to all.
LS_MUST_USE ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own);

#endif  // LS_TRAIN_RANKS_H_
