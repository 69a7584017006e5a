// SPDX-License-Identifier: Apache-2.0
// Ranks that save and restore together: what they tell each other.
//
// All ranks come to the same meetings in the same order; those of two threads
// differ in their names.
#ifndef LS_STATE_RANKS_H_
#define LS_STATE_RANKS_H_

#include "base/runtime_internal.h"
#include "lockstep/saver.h"
#include "lockstep/trunk.h"

// Zeroed: there is one.
typedef struct ls_ranks {
  ls_trunk *trunk;  // NULL: there is one.
  ls_allocator *allocator;
  uint64_t name[2];  // Of their meetings.
  uint64_t meetings;
  struct ls_rank_word *words;  // One a rank, to agree with.
  ls_trunk_piece *pieces;      // The same number.
} ls_ranks;

// `name` and `thread` tell these meetings from others'.
LS_MUST_USE ls_status ls_ranks_init(ls_ranks *ranks, ls_runtime *runtime,
                                    const char *name, uint64_t thread);
void ls_ranks_deinit(ls_ranks *ranks);  // Zeroed is fine.

static inline size_t ls_ranks_count(const ls_ranks *ranks) {
  return ranks->trunk == NULL ? 1 : (size_t)ranks->trunk->ranks;
}
static inline size_t ls_ranks_own(const ls_ranks *ranks) {
  return ranks->trunk == NULL ? 0 : (size_t)ranks->trunk->rank;
}

// Waits for all: what went wrong on one is what each is told; one's own failure
// first. Alone it is `own`.
LS_MUST_USE ls_status ls_ranks_agree(ls_ranks *ranks, ls_status own);
// The same, where all must have the same number, too; `what` they have.
//   LS_FAILED_PRECONDITION  another rank has another one.
LS_MUST_USE ls_status ls_ranks_agree_on(ls_ranks *ranks, ls_status own,
                                        uint64_t number, const char *what);
// All get the bytes of rank 0.
LS_MUST_USE ls_status ls_ranks_send(ls_ranks *ranks, void *data, size_t size);
// All get those of each: `size` bytes a rank, one behind the other, of which
// one's own are there.
LS_MUST_USE ls_status ls_ranks_gather(ls_ranks *ranks, void *all, size_t size);
// All learn the values of components that only their replicas' ranks know.
LS_MUST_USE ls_status ls_ranks_gather_parts(ls_ranks *ranks,
                                            const ls_saver *values);

#endif  // LS_STATE_RANKS_H_
