// SPDX-License-Identifier: Apache-2.0
// Layer: net
//
// Communicator of the processes that train together: its ranks.
//
// A strategy has R replicas in all; rank k of n hosts replicas k R / n up to (k
// + 1) R / n, rounded down, and every rank makes the same calls in the same
// order. A rank runs its own replicas only: arguments for others must have
// their shapes, but replicas do not read them. Iterators of distributed data
// sets give arrays for them that have a shape and no value. Results of merges,
// and each replica's results, are sent to every rank, so that variables and
// results have the same bytes everywhere, and the same as on one rank. If ops
// that run one by one make the initial value of a strategy's variable and it
// differs, every rank gets rank 0's.
//
// A runtime gets its communicator when it is created; without one it is alone.
// Programs of strategies with several replicas are shared: before the first run
// of each, whether it exchanges anything or not, ranks compare its ops, their
// arithmetic (math, kernels), the number of replicas and, if it draws random
// numbers, seed and step. If anything differs, all refuse with
// FAILED_PRECONDITION, which names two ranks and the field, or the first op
// that differs with its scopes and source line on both. Programs of one
// replica, and ops that run one by one, are each rank's own: rank 0 may run
// some alone, in a session of a graph without a global step those that draw
// nothing. A strategy's replicas that run op by op are compared after their
// first call. Replicas that a build graph has op by op (ls_plain) are neither
// compared nor exchanged: each rank computes them all. A difference cancels the
// communicator.
//
// A rank whose step or training fails cancels the communicator: all others'
// steps fail with its error, which names it. Only failures that all ranks
// detect before a program runs (INVALID_ARGUMENT, FAILED_PRECONDITION,
// UNIMPLEMENTED), and the end of data (OUT_OF_RANGE), which all reach at the
// same step, leave them in step.
//
// Threads: all programs of a process use a communicator at the same time; they
// differ in the names of their exchanges. Strategies of several replicas are
// made in the same order on all ranks, and so are the first runs of each one's
// programs; threads may use different strategies in any order.
#ifndef LOCKSTEP_COMMUNICATOR_H_
#define LOCKSTEP_COMMUNICATOR_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Identity of an exchange, the same on all ranks. Exchanges of the same name
// are matched in the order in which they were started.
typedef struct ls_exchange_name {
  uint64_t program[2];  // Fingerprint of a program.
  uint64_t step;        // The run's.
  uint64_t iteration;   // The loop's.
  uint32_t merge;       // Number of the program's merge.
  uint32_t phase;       // Number within that merge.
} ls_exchange_name;

// All ranks, in place of one.
#define LS_EACH_RANK (-1)

// Bytes that one rank sends to another, or to all others. A rank lists the
// pieces that it sends and those that it receives, in memory of its own; pieces
// between two ranks come in the same order on both. Pieces of other ranks are
// ignored.
typedef struct ls_exchange_piece {
  void *data;
  size_t size;
  int32_t from;  // LS_EACH_RANK: `data` is a block of `size` bytes for each
                 // rank, and block k comes from rank k.
  int32_t to;
} ls_exchange_piece;

// An exchange: fields are set by the caller, and lent with the pieces and their
// memory from its start to the end of its wait.
typedef struct ls_exchange {
  ls_exchange_name name;
  const ls_exchange_piece *pieces;
  size_t count;
  // Longest wait in nanoseconds; then all ranks fail with DEADLINE_EXCEEDED. 0:
  // no limit.
  int64_t limit;
  // True: the thread does other work meanwhile, so the rank does not count as
  // waiting.
  bool in_background;
  void *state;  // The transport's.
} ls_exchange;

// Functions of the runtime whose rank this is, which any thread may call.
typedef struct ls_rank_services {
  void *user;
  // Writes where this rank is, as a text of less than `size` bytes.
  void (*describe)(void *user, char *text, size_t size);
  // Returns true if a run is at work, or has moved since `*seen` was last set
  // here. A run that waits for other ranks is not at work.
  bool (*goes_on)(void *user, uint64_t *seen);
  // Logs a line, at level info.
  void (*log)(void *user, const char *text);
  // Longest time, in nanoseconds, in which nothing may move on a rank that is
  // waited for; 0: for ever.
  int64_t stall;
} ls_rank_services;

// One rank's end of a communicator: a table of functions that a transport
// implements. Thread-safe.
typedef struct ls_communicator ls_communicator;
struct ls_communicator {
  int32_t rank, ranks;
  // This rank among those of its machine; 0 of 1 if the transport cannot tell.
  int32_t local_rank, local_ranks;
  // Starts to send and receive; never waits. After a failure there is nothing
  // to wait for.
  ls_status (*start)(ls_communicator *self, ls_exchange *exchange);
  // Returns true if a wait for the exchange would return at once; also lets
  // transports without a thread proceed.
  bool (*is_done)(ls_communicator *self, ls_exchange *exchange);
  // Waits until this rank has received all that it should, and its own pieces
  // may change. Called once for each exchange that was started. After a failure
  // all ranks' exchanges fail.
  //   LS_UNAVAILABLE          a rank is lost; names it and its last place.
  //   LS_FAILED_PRECONDITION  a rank from which something is missing has ended.
  //   LS_DEADLINE_EXCEEDED    nothing has moved for too long; tells where the
  //                           ranks are. Or the exchange's limit has passed.
  ls_status (*wait)(ls_communicator *self, ls_exchange *exchange);
  // Tells all ranks that this one has failed, with `failure` (lent): their
  // waits and all later exchanges fail likewise, as they are no longer in step.
  // The first failure stays.
  void (*cancel)(ls_communicator *self, ls_status failure);
  // The rank that has failed, or has found a failure, first; -1: none. Read by
  // atomic loads.
  int32_t failed_rank;
  // Name of the machine of a rank; NULL: the transport does not know it.
  const char *(*host)(const ls_communicator *self, int32_t rank);
  // Attaches the services of a runtime, which are copied; NULL detaches them,
  // after the last call of them has returned.
  void (*attach)(ls_communicator *self, const ls_rank_services *services);
  // For each rank, the total nanoseconds that this one has waited in exchanges
  // to which that one came last; read by atomic loads. NULL: the transport does
  // not measure it.
  const int64_t *waited_for;
};

// Returns the first replica that a rank hosts; for rank `ranks` the number of
// all replicas.
LS_API int32_t ls_communicator_first(const ls_communicator *self, int32_t rank,
                                     int32_t replicas);
// Returns the rank that hosts a replica.
LS_API int32_t ls_communicator_find(const ls_communicator *self,
                                    int32_t replica, int32_t replicas);

// Starts an exchange and waits for its end.
LS_API LS_MUST_USE ls_status
ls_communicator_exchange(ls_communicator *self, const ls_exchange_name *name,
                         const ls_exchange_piece *pieces, size_t count);
// Gathers `size` bytes of each rank: `all` is a block for each, of which this
// rank's is set.
LS_API LS_MUST_USE ls_status
ls_communicator_gather(ls_communicator *self, const ls_exchange_name *name,
                       void *all, size_t size);
// Copies one rank's bytes to all.
LS_API LS_MUST_USE ls_status
ls_communicator_broadcast(ls_communicator *self, const ls_exchange_name *name,
                          int32_t from, void *data, size_t size);

// Binds this thread, and those that it starts, to its share of the cores that
// this rank and others of its machine may all run on, so that a runtime that is
// created then has as many threads as the share has cores, at least one. All
// ranks make the call. Changes nothing where a launcher has bound the ranks to
// different cores.
LS_API LS_MUST_USE ls_status ls_communicator_share_cores(ls_communicator *self);

// ---- The stand-in ----------------------------------------------------------
// Main function of a rank. It creates a runtime with this communicator, makes
// it current, and destroys it.
typedef ls_status (*ls_rank_function)(ls_communicator *communicator,
                                      void *user);

// Stands in for `ranks` processes: runs the function for each of them, on a
// thread of its own, and waits for all. They communicate in memory. A rank
// whose function fails notifies the others; returns the first failure, with its
// rank. lockstep/simulation.h adds faults.
//   LS_INVALID_ARGUMENT  less than one rank.
LS_API LS_MUST_USE ls_status ls_standin_run(int32_t ranks,
                                            ls_rank_function function,
                                            void *user);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_COMMUNICATOR_H_
