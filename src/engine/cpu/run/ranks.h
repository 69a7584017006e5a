// SPDX-License-Identifier: Apache-2.0
//
// Ranks: the exchanges of this process with those that host other replicas.
//
// Rows of a gather and results of replicas are sent to all ranks unchanged;
// sums of merges have their own file, sums.h.
#ifndef LS_ENGINE_CPU_RUN_RANKS_H_
#define LS_ENGINE_CPU_RUN_RANKS_H_

#include "engine/cpu/run/instance.h"

// Fills in the places of this rank's lanes, as if they were one part whose
// stack ends with the rank's subtrees. Returns the buffers that it needs.
uint32_t ls_cpu_ranks_leaves(const ls_cpu_share *share, ls_cpu_leaf *leaves);
// Returns the largest part_shift with which no part has lanes of two ranks.
uint32_t ls_cpu_ranks_shift(const ls_communicator *communicator,
                            int32_t replicas);

// Returns the most pieces of any exchange; 0 without other ranks.
size_t ls_cpu_ranks_pieces(const ls_executable *executable);

// Adds the op of an instruction to a failure.
ls_status ls_cpu_annotate_merge(const ls_instance *self,
                                const ls_cpu_instruction *at, ls_status status);

// Exchanges the rows of a gather.
ls_status ls_cpu_exchange_rows(ls_instance *self,
                               const ls_cpu_instruction *post, void *result);

// Returns OK once all ranks have executed `instruction` without failure; OK at
// once without other ranks.
ls_status ls_cpu_ranks_agree(ls_instance *self,
                             const ls_cpu_instruction *instruction);

// Exchanges the results of all replicas, after all lanes of the launch have
// ended.
ls_status ls_cpu_exchange_results(ls_instance *self);

// Lists the maximal subtrees of all ranks, in order; `out` may be NULL. Returns
// their number.
uint32_t ls_cpu_ranks_subtrees(const ls_communicator *communicator,
                               int32_t replicas, ls_cpu_subtree *out);

// Executes an EXCHANGE, in an iteration of the stream.
ls_status ls_cpu_exchange_batched(ls_instance *self,
                                  const ls_cpu_instruction *at,
                                  uint64_t iteration);

#endif  // LS_ENGINE_CPU_RUN_RANKS_H_
