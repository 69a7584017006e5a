// SPDX-License-Identifier: Apache-2.0
// Reads and writes of variables by the replicas of a strategy, for tests.
#ifndef LS_TESTS_SUPPORT_VARIABLES_H_
#define LS_TESTS_SUPPORT_VARIABLES_H_

#include "lockstep/strategy_extended.h"
#include "support/replicas.h"

#define NONE LS_AGGREGATION_NONE
#define SUM LS_AGGREGATION_SUM
#define MEAN LS_AGGREGATION_MEAN
#define FIRST LS_AGGREGATION_ONLY_FIRST_REPLICA
#define ON_READ LS_SYNCHRONIZATION_ON_READ

// What each replica writes, replica + 1 by default, and what came of it.
typedef struct replica_writes {
  ls_variable *variable;
  ls_write_op op;
  ls_code code;  // What the write is to give.
  const char *says;
  double after[4];  // What each replica sees of it.
  ls_tensor outside;
  ls_nest value;
  bool use_value, use_outside;
} replica_writes;

// Writes on all replicas; expects `code`.
void run_writes(ls_strategy *strategy, replica_writes *writes);
// Writes where the thread is; expects success. The caller's.
ls_nest write_across(ls_variable *variable, ls_write_op op, ls_nest value);

// What each replica reads, and uses as a tensor.
typedef struct replica_reads {
  ls_variable *variable;
  double seen[4], used[4];
  int count;
} replica_reads;

// A replica's callback; `user` is the reads.
ls_nest read_in_replica(ls_nest args, void *user);

// Kinds of distributed variables: each aggregation, in each way to synchronize.
enum { NUM_KINDS = 7 };
extern const variable_kind all_kinds[NUM_KINDS];
// Of two components, 3 and 4, in eager.
ls_variable *pair_in(ls_strategy *strategy, variable_kind kind);

#endif  // LS_TESTS_SUPPORT_VARIABLES_H_
