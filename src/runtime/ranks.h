// SPDX-License-Identifier: Apache-2.0
//
// Ranks compare the programs that they share, before the first run of each.
//
// A program is shared if it was lowered from ops of several replicas, whether
// it exchanges anything or not; all others run on one rank or on each, as the
// caller wants. A comparison is an exchange of the ranks' records, named by the
// strategy and the number of its comparisons so far. So all ranks make
// strategies of several replicas in the same order, and start the programs of
// each strategy in the same order; what threads do with different strategies at
// the same time may come in any order. The names are those of MPI: a strategy
// is like a communicator there.
//
// A runtime compares each program of a strategy once, even if it is compiled or
// bound again.
#ifndef LS_RUNTIME_RANKS_H_
#define LS_RUNTIME_RANKS_H_

#include "runtime/compiled.h"

// Returns true if the runtime has other ranks, with which it shares the
// program.
bool ls_ranks_share(const ls_program *program);

// Lists the ops of a shared program, a line for each, with a hash and the
// user's op; sets NULL for other programs. The graph that was lowered must
// still exist. The caller frees the list.
ls_status ls_ranks_list_ops(const ls_program *program, char **out_ops);

// Compares a shared program and how it is about to run with those of all other
// ranks, if that has not been done. A difference cancels the communicator, so
// that nobody waits.
//   LS_FAILED_PRECONDITION  on all ranks: names two of them and what differs.
ls_status ls_ranks_meet(ls_compiled *compiled, const ls_run_args *args);

// Numbers a run of a shared program, which starts now. A run that does not
// start has no number, as it is tried again on this rank alone.
void ls_ranks_number(const ls_compiled *compiled, ls_run_args *args);

// Tells other ranks about a failed run of a strategy with several replicas,
// because otherwise they would wait for this rank: only about this rank's own
// problems (memory, a file). Wrong common arguments make all ranks fail, and
// the end of the data comes at the same step in all.
void ls_ranks_tell(ls_runtime *runtime, ls_status status);

// Compares the ops that all replicas of a strategy have run one by one, from an
// id of the eager graph on, with those of other ranks: once for each list of
// types. Each rank runs all replicas, and exchanges nothing. Ops whose frame
// has ended are not compared.
//   LS_FAILED_PRECONDITION  as of ls_ranks_meet.
LS_MUST_USE ls_status ls_ranks_meet_eager(ls_graph *graph, uint64_t first_id,
                                          uint64_t strategy, int32_t replicas);

#endif  // LS_RUNTIME_RANKS_H_
