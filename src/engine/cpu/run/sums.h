// SPDX-License-Identifier: Apache-2.0
//
// Sums over the replicas of all ranks.
//
// A rank adds up the maximal subtrees of its own replicas. Ranks exchange these
// sums, and they are added up along the rest of the tree: the additions, and so
// the bits, are those of one rank. Small sums go to all ranks, and each adds
// them up. Large ones go in parts: part k of each subtree's sum goes to rank k,
// which adds up its part and then sends the result to all.
//
// Several merges may travel in one exchange, which has the parts of all of
// them as one.
#ifndef LS_ENGINE_CPU_RUN_SUMS_H_
#define LS_ENGINE_CPU_RUN_SUMS_H_

#include "engine/cpu/run/instance.h"

// The sum of one merge.
typedef struct ls_cpu_sum {
  const ls_cpu_merge *merge;  // Adds up this rank's elements.
  size_t count;               // All elements,
  size_t first;               // and those of earlier merges, in granules.
  size_t offset;              // The first element's position in the result.
  size_t begin, end;          // This rank's elements.
  size_t width, narrow;       // Bytes of an element of sums, and of the result.
  // The sums of other ranks' subtrees: their offset in the buffer of received
  // sums, and the distance from one to the next.
  size_t received, stride;
} ls_cpu_sum;

// An exchange of sums, as compiled. Its operands are, for each merge, the sums
// of this rank's subtrees, in order; then a buffer for those of other ranks;
// then the result of each merge. A result without conversion may be in the
// first of its sums.
struct ls_cpu_sums {
  uint32_t index;   // Among the exchanges of sums of the executable.
  uint32_t number;  // Identifies the exchange among ranks, like a slot.
  uint32_t replicas;
  const ls_cpu_subtree *subtrees;  // All ranks' subtrees, num_own of this one.
  uint32_t num_subtrees, num_own;
  ls_cpu_sum *sums;  // One per merge.
  uint32_t count;
  size_t granules, bytes;  // Size of the sums of a subtree.
  bool in_parts;           // A rank adds up its part only.
  size_t received;         // Size of the buffer of received sums.
  size_t scratch;          // Scratch that the additions need, in bytes.
};

// One merge of an exchange that is being compiled, or some of its elements.
typedef struct ls_cpu_summed {
  const ls_node *node;
  const ls_cpu_merge *merge;
  size_t first, count;
} ls_cpu_summed;

// Makes an exchange of the sums of some merges, of so many replicas. All memory
// comes from the executable's arena.
ls_status ls_cpu_sums_make(ls_executable *executable,
                           const ls_cpu_kernels *kernels, int32_t replicas,
                           const ls_cpu_summed *merges, uint32_t count,
                           ls_cpu_sums **out_sums);
static inline uint32_t ls_cpu_sums_operands(const ls_cpu_sums *self) {
  return self->count * (self->num_own + 1) + 1;
}

// ---- Running ---------------------------------------------------------------
typedef enum ls_cpu_flight_phase {
  LS_CPU_FLIGHT_OVER,     // Nothing is under way.
  LS_CPU_FLIGHT_SUMS,     // Sums are under way, which this rank adds up then.
  LS_CPU_FLIGHT_RESULTS,  // Results are under way.
} ls_cpu_flight_phase;

// The state of an exchange of sums in an instance.
struct ls_cpu_flight {
  const ls_cpu_sums *sums;
  const ls_cpu_instruction *at;  // Names it.
  ls_cpu_flight *next;           // In the order of the starts.
  ls_cpu_flight_phase phase;
  ls_exchange exchange;
  ls_exchange_piece *pieces;
  void **operands;
  int64_t began;  // See ls_span_begin.
  ls_status failure;
};

// Makes the flights of an instance. Destroys them; none may be under way.
ls_status ls_cpu_flights_make(ls_instance *self);
void ls_cpu_flights_destroy(ls_instance *self);

// Starts an exchange of sums, whose operands the caller has set in its flight.
// Their memory is lent until the exchange is finished.
ls_status ls_cpu_sums_start(ls_instance *self, const ls_cpu_sums *sums,
                            const ls_cpu_instruction *at, uint64_t iteration);
// Lets exchanges under way proceed, without waiting: adds up sums that have
// come, and sends results.
void ls_cpu_sums_proceed(ls_instance *self);
// Waits until the results of an exchange that was started are there.
ls_status ls_cpu_sums_finish(ls_instance *self, const ls_cpu_sums *sums);
// Waits for all exchanges under way, after a failure.
void ls_cpu_sums_drain(ls_instance *self);

#endif  // LS_ENGINE_CPU_RUN_SUMS_H_
