// SPDX-License-Identifier: Apache-2.0
// Layer: net
//
// The trunk: how the processes that train together exchange what they merge.
//
// A strategy has R replicas in all; rank k of n hosts replicas k R / n up to
// (k + 1) R / n, rounded down, and every rank makes the same calls in the same
// order. A rank runs its own replicas alone: arguments of others must have
// their shapes, but are not looked at by replicas. Iterators of distributed
// data sets give arrays for them that have a shape and no value. What replicas
// merge, and their results one by one, come to every rank, so that variables
// and results are the same bytes everywhere, and the same as on one rank.
//
// A runtime is told of its trunk when it is made; without one it is alone.
// Before they first run something together, ranks compare what they compute
// with (math, kernels): if one would give other bits, all refuse
// with FAILED_PRECONDITION, which names both.
//
// A rank whose step or training fails cancels the trunk: all others' steps fail
// with its error, which names it. Only what is wrong for all ranks alike before
// a program runs (INVALID_ARGUMENT, FAILED_PRECONDITION, UNIMPLEMENTED), and
// the end of data (OUT_OF_RANGE), to which all come at the same step, leave
// them in step.
//
// Threads: a trunk is used by all programs of its process at the same time;
// they differ in their names.
#ifndef LOCKSTEP_TRUNK_H_
#define LOCKSTEP_TRUNK_H_

#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is exchanged, the same on all ranks: a program by its fingerprint, which
// of its merges, and which time in a loop.
typedef struct ls_trunk_name {
  uint64_t program[2];
  uint64_t iteration;
  uint32_t merge;
} ls_trunk_name;

// Bytes of one rank. All ranks list the same pieces in the same order, each
// with memory of its own: it sends those of itself and receives the others.
typedef struct ls_trunk_piece {
  void *data;
  size_t size;
  int32_t rank;
} ls_trunk_piece;

// One rank's end of a trunk: a table of functions that a transport fills in.
// Thread-safe: programs that run side by side differ in their names.
typedef struct ls_trunk ls_trunk;
struct ls_trunk {
  int32_t rank, ranks;
  // Waits for all ranks, and returns when every rank has every piece. A rank
  // that failed or ended is an error of all others.
  ls_status (*exchange)(ls_trunk *self, const ls_trunk_name *name,
                        const ls_trunk_piece *pieces, size_t count);
  // Tells all ranks that this one has failed, by `why` (lent): what they wait
  // for, and whatever they exchange from now on, fails likewise, as they are
  // no longer in step. The first failure stays.
  void (*cancel)(ls_trunk *self, ls_status why);
  // For each rank, how long this one has waited in exchanges to which that one
  // came last: nanoseconds, in all, to be read by atomic loads. NULL: the
  // transport does not know.
  const int64_t *waited_for;
};

// The first replica that a rank hosts; that of rank `ranks` is the number of
// all.
LS_API int32_t ls_trunk_first(const ls_trunk *self, int32_t rank,
                              int32_t replicas);

// ---- The stand-in ----------------------------------------------------------
// What a rank does, from its beginning to its end. It makes a runtime with this
// trunk, makes it current, and destroys it.
typedef ls_status (*ls_rank_function)(ls_trunk *trunk, void *user);

// Stands in for `ranks` processes: runs the function for each of them, on a
// thread of its own, and waits for all. They meet in memory. A rank whose
// function fails tells the others; the first failure, with its rank, is what
// comes back.
//   LS_INVALID_ARGUMENT  less than one rank.
LS_API LS_MUST_USE ls_status ls_standin_run(int32_t ranks,
                                            ls_rank_function function,
                                            void *user);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TRUNK_H_
