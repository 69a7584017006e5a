// SPDX-License-Identifier: Apache-2.0
// Layer: net
//
// Trunk: the communicator of the processes that train together.
//
// A strategy has R replicas in all; rank k of n hosts replicas k R / n up to (k
// + 1) R / n, rounded down, and every rank makes the same calls in the same
// order. A rank runs its own replicas only: arguments for others must have
// their shapes, but replicas do not read them. Iterators of distributed data
// sets give arrays for them that have a shape and no value. Results of merges,
// and each replica's results, are sent to every rank, so that variables and
// results have the same bytes everywhere, and the same as on one rank.
//
// A runtime gets its trunk when it is created; without one it is alone. Before
// the first collective ranks compare their arithmetic (math, kernels): if one
// would compute other bits, all refuse with FAILED_PRECONDITION, which names
// both.
//
// A rank whose step or training fails cancels the trunk: all others' steps fail
// with its error, which names it. Only failures that all ranks detect before a
// program runs (INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED), and the
// end of data (OUT_OF_RANGE), which all reach at the same step, leave them in
// step.
//
// Threads: all programs of a process use a trunk at the same time; they differ
// in their names.
#ifndef LOCKSTEP_TRUNK_H_
#define LOCKSTEP_TRUNK_H_

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Identity of an exchange, the same on all ranks: the fingerprint of a program,
// the number of its merge, and the iteration of a loop.
typedef struct ls_trunk_name {
  uint64_t program[2];
  uint64_t iteration;
  uint32_t merge;
} ls_trunk_name;

// Bytes of one rank. All ranks list the same pieces in the same order, each
// with memory of its own: a rank sends its own pieces and receives the others.
typedef struct ls_trunk_piece {
  void *data;
  size_t size;
  int32_t rank;
} ls_trunk_piece;

// One rank's end of a trunk: a table of functions that a transport implements.
// Thread-safe: programs that run concurrently differ in their names.
typedef struct ls_trunk ls_trunk;
struct ls_trunk {
  int32_t rank, ranks;
  // Waits for all ranks, and returns when every rank has every piece. If one
  // rank fails or ends, all others fail.
  ls_status (*exchange)(ls_trunk *self, const ls_trunk_name *name,
                        const ls_trunk_piece *pieces, size_t count);
  // Tells all ranks that this one has failed, with `failure` (lent): their
  // waits and all later exchanges fail likewise, as they are no longer in step.
  // The first failure stays.
  void (*cancel)(ls_trunk *self, ls_status failure);
  // For each rank, the total nanoseconds that this one has waited in exchanges
  // to which that one came last; read by atomic loads. NULL: the transport does
  // not measure it.
  const int64_t *waited_for;
};

// Returns the first replica that a rank hosts; for rank `ranks` the number of
// all replicas.
LS_API int32_t ls_trunk_first(const ls_trunk *self, int32_t rank,
                              int32_t replicas);

// ---- The stand-in ----------------------------------------------------------
// Main function of a rank. It creates a runtime with this trunk, makes it
// current, and destroys it.
typedef ls_status (*ls_rank_function)(ls_trunk *trunk, void *user);

// Simulates `ranks` processes: runs the function for each of them, on a thread
// of its own, and waits for all. They communicate in memory. A rank whose
// function fails notifies the others; returns the first failure, with its rank.
//   LS_INVALID_ARGUMENT  less than one rank.
LS_API LS_MUST_USE ls_status ls_standin_run(int32_t ranks,
                                            ls_rank_function function,
                                            void *user);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRUNK_H_
