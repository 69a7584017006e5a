// SPDX-License-Identifier: Apache-2.0
// Ranks of a run: their agreement around steps.
#ifndef LS_TRAIN_RANKS_H_
#define LS_TRAIN_RANKS_H_

#include "base/runtime_internal.h"
#include "lockstep/communicator.h"
#include "lockstep/strategy.h"

// Bits to exchange with other ranks together with a stop: `send` returns own
// bits, `receive` gets rank 0's and the union of all.
typedef struct ls_rank_party {
  void *user;
  int64_t (*send)(void *user);  // NULL: sends nothing.
  void (*receive)(void *user, int64_t first, int64_t bits);
} ls_rank_party;

// Zeroed: a single rank.
typedef struct ls_run_ranks {
  ls_communicator *communicator;  // NULL: a single rank.
  ls_allocator *allocator;
  int64_t *words;  // One per rank.
  uint64_t num_exchanges;
  ls_rank_party party;
} ls_run_ranks;

LS_MUST_USE ls_status ls_run_ranks_init(ls_run_ranks *ranks,
                                        ls_runtime *runtime,
                                        const ls_strategy *strategy);
void ls_run_ranks_deinit(ls_run_ranks *ranks);
// Returns true on the rank that writes the run's files.
bool ls_run_ranks_writes(const ls_run_ranks *ranks);

// All-gathers a number; returns rank 0's, and the bitwise or of all. A single
// rank gets its own.
LS_MUST_USE ls_status ls_run_ranks_exchange(ls_run_ranks *ranks, int64_t own,
                                            int64_t *out_first,
                                            int64_t *out_bits);
// Returns true in `*out_stops` if a rank requests a stop; also exchanges the
// party's bits.
LS_MUST_USE ls_status ls_run_ranks_stop(ls_run_ranks *ranks, bool stops,
                                        bool *out_stops);
// Waits for all ranks; a failure on one is reported to all.
LS_MUST_USE ls_status ls_run_ranks_agree(ls_run_ranks *ranks, ls_status own);

#endif  // LS_TRAIN_RANKS_H_
