// SPDX-License-Identifier: Apache-2.0
// Ranks of one run: what they agree on around their steps.
#ifndef LS_TRAIN_RANKS_H_
#define LS_TRAIN_RANKS_H_

#include "base/runtime_internal.h"
#include "lockstep/strategy.h"
#include "lockstep/trunk.h"

// Who tells the others something beside a stop, in bits, and hears rank 0's and
// all of theirs.
typedef struct ls_rank_party {
  void *user;
  int64_t (*tell)(void *user);  // NULL: nobody.
  void (*hear)(void *user, int64_t first, int64_t bits);
} ls_rank_party;

// Zeroed: the run is alone.
typedef struct ls_run_ranks {
  ls_trunk *trunk;  // NULL: alone.
  ls_allocator *allocator;
  int64_t *words;  // One a rank.
  ls_trunk_piece *pieces;
  uint64_t meetings;
  ls_rank_party party;
} ls_run_ranks;

LS_MUST_USE ls_status ls_run_ranks_init(ls_run_ranks *ranks,
                                        ls_runtime *runtime,
                                        const ls_strategy *strategy);
void ls_run_ranks_deinit(ls_run_ranks *ranks);
// Whether this one writes the run's files.
bool ls_run_ranks_writes(const ls_run_ranks *ranks);

// All tell a number, and learn rank 0's and all their bits. Alone it is its
// own.
LS_MUST_USE ls_status ls_run_ranks_tell(ls_run_ranks *ranks, int64_t own,
                                        int64_t *out_first, int64_t *out_bits);
// Whether one of them asks for a stop, and what the party has to tell.
LS_MUST_USE ls_status ls_run_ranks_ask(ls_run_ranks *ranks, bool stops,
                                       bool *out_stops);
// Waits until all is well on all of them. What is not on one, all are told.
LS_MUST_USE ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own);

#endif  // LS_TRAIN_RANKS_H_
