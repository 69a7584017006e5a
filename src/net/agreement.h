// SPDX-License-Identifier: Apache-2.0
//
// Agreement of ranks: collectives with names that no program uses.
#ifndef LS_NET_AGREEMENT_H_
#define LS_NET_AGREEMENT_H_

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "lockstep/communicator.h"

// Ranks that agree. All make the same collectives in the same order; those of
// different threads have different names. Zeroed: a single rank.
typedef struct ls_ranks {
  ls_communicator *communicator;  // NULL: a single rank.
  ls_allocator *allocator;
  ls_exchange_name name;       // The next collective's, which its step counts.
  struct ls_rank_word *words;  // One per rank.
} ls_ranks;

// Initializes ranks; `name` and `thread` distinguish their collectives from
// others.
LS_MUST_USE ls_status ls_ranks_init(ls_ranks *ranks, ls_runtime *runtime,
                                    const char *name, uint64_t thread);
void ls_ranks_deinit(ls_ranks *ranks);  // Accepts zeroed ranks.
LS_OWNED_STRUCT(ls_ranks, ls_ranks_deinit)

static inline size_t ls_ranks_count(const ls_ranks *ranks) {
  return ranks->communicator == NULL ? 1 : (size_t)ranks->communicator->ranks;
}
static inline size_t ls_ranks_own(const ls_ranks *ranks) {
  return ranks->communicator == NULL ? 0 : (size_t)ranks->communicator->rank;
}

// Waits for all ranks, and fails on all if `own` is a failure on one; puts the
// own failure first. A single rank returns `own`.
LS_MUST_USE ls_status ls_ranks_agree(ls_ranks *ranks, ls_status own);
// Agrees as ls_ranks_agree does, and requires `number` to be equal on all
// ranks; messages call it `noun`.
//   LS_FAILED_PRECONDITION  another rank has another number
LS_MUST_USE ls_status ls_ranks_agree_on(ls_ranks *ranks, ls_status own,
                                        uint64_t number, const char *noun);
// Returns true in `*out_any` if `own` is true on a rank.
LS_MUST_USE ls_status ls_ranks_any(ls_ranks *ranks, bool own, bool *out_any);
// Broadcasts the bytes of rank 0.
LS_MUST_USE ls_status ls_ranks_send(ls_ranks *ranks, void *data, size_t size);
// Copies a text of rank `from`, which is `own` there, to all. The caller frees
// it.
LS_MUST_USE ls_status ls_ranks_send_text(ls_ranks *ranks, int32_t from,
                                         const char *own, char **out_text);
// All-gathers `size` bytes per rank, concatenated in rank order; the caller has
// stored its own.
LS_MUST_USE ls_status ls_ranks_gather(ls_ranks *ranks, void *all, size_t size);
// Exchanges pieces.
LS_MUST_USE ls_status ls_ranks_exchange(ls_ranks *ranks,
                                        const ls_exchange_piece *pieces,
                                        size_t count);

// ---- Comparing -------------------------------------------------------------
// Facts that are the same on all ranks.
typedef struct ls_rank_facts {
  const char *verb;     // "train with".
  ls_code code;         // Code of a difference; LS_OK: LS_FAILED_PRECONDITION.
  const ls_text *text;  // A line for each: "noun: value\n".
  // If only the last line differs, ranks compare these texts, by a function
  // which names their difference. NULL: there are none.
  const char *details;
  ls_status (*describe)(const char *verb, int32_t rank, const char *first,
                        const char *other);
} ls_rank_facts;

// Compares the facts of all ranks. `own` is this rank's failure so far, which
// then is that of all.
//   LS_FAILED_PRECONDITION  (or `code`) on all ranks: "ranks 0 and 2 train with
//                           another noun: value and value".
LS_MUST_USE ls_status ls_ranks_compare(ls_ranks *ranks, ls_status own,
                                       const ls_rank_facts *facts);

#endif  // LS_NET_AGREEMENT_H_
