// SPDX-License-Identifier: Apache-2.0
//
// Ranks: what this process exchanges with those that host other replicas.
//
// A rank adds up the maximal subtrees of its own replicas, all ranks exchange
// these sums, and each of them adds them up to the whole tree: the additions,
// and so the bits, are those of one rank. Rows of a gather and results of
// replicas go to all as they are.
#ifndef LS_ENGINE_CPU_RUN_RANKS_H_
#define LS_ENGINE_CPU_RUN_RANKS_H_

#include "engine/cpu/run/instance.h"

enum { LS_CPU_NUMERICS_ID_SIZE = 64 };

// All ranks meet before their first run: one that would not give the bits of
// the others is refused, on every rank. `id`: of LS_CPU_NUMERICS_ID_SIZE bytes.
//   LS_FAILED_PRECONDITION  names the ranks and both ids.
ls_status ls_cpu_ranks_compare(ls_trunk *trunk, ls_allocator *allocator,
                               const char *id);

// The most that parts can be shifted by, so that none has lanes of two ranks.
uint32_t ls_cpu_ranks_shift(const ls_trunk *trunk, int32_t replicas);

// Room for the pieces of any exchange; 0 without other ranks.
size_t ls_cpu_ranks_pieces(const ls_executable *executable);

// A merge whose own parts are added up: exchanges what they have, and adds up
// what all ranks have. The sum is where ls_cpu_merge_parts says.
ls_status ls_cpu_exchange_sums(ls_instance *self,
                               const ls_cpu_instruction *post,
                               ls_kernel_call *call, const ls_cpu_parts *parts,
                               void *sum);

// A gather: the rows of all ranks.
ls_status ls_cpu_exchange_rows(ls_instance *self,
                               const ls_cpu_instruction *post, void *result);

// What `instruction` did has gone well here: whether it has on all ranks.
// Nothing to ask without others.
ls_status ls_cpu_ranks_agree(ls_instance *self,
                             const ls_cpu_instruction *instruction);

// All lanes of the launch have ended: the results of all replicas.
ls_status ls_cpu_exchange_results(ls_instance *self);

// The largest subtrees of all ranks, in order; `out` may be NULL. Returns how
// many there are.
uint32_t ls_cpu_ranks_subtrees(const ls_trunk *trunk, int32_t replicas,
                               ls_cpu_subtree *out);

// What an EXCHANGE does; `call` is the stream's.
ls_status ls_cpu_exchange_batched(ls_instance *self,
                                  const ls_cpu_instruction *at,
                                  ls_kernel_call *call);

#endif  // LS_ENGINE_CPU_RUN_RANKS_H_
