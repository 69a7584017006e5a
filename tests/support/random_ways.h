// SPDX-License-Identifier: Apache-2.0
// A random program, run in one way or another.
#ifndef LS_TESTS_SUPPORT_RANDOM_WAYS_H_
#define LS_TESTS_SUPPORT_RANDOM_WAYS_H_

#include "support/random_program.h"

enum {
  RANDOM_STEPS = 3,
  RANDOM_REPLICAS = 3,
  RANDOM_RESULTS = RANDOM_VALUES + 1,  // The last one is the loss.
  RANDOM_MOST_VARIABLES = 64,
  RANDOM_TEXT = 240,
};

typedef enum random_how {
  RANDOM_EAGER,
  RANDOM_SESSION,
  RANDOM_FUNCTION,
  RANDOM_STRATEGY,          // A function on replicas.
  RANDOM_STRATEGY_EAGER,    // A plain callback on replicas.
  RANDOM_STRATEGY_SESSION,  // The same while a graph is built.
} random_how;

// Which values a run is asked for; eager has all.
typedef enum random_fetch {
  RANDOM_FETCH_SOME,
  RANDOM_FETCH_ALL,
  RANDOM_FETCH_LOSS,
} random_fetch;

typedef struct random_way {
  const char *name;
  random_how how;
  int threads;
  int replicas;    // Of a strategy.
  bool same_args;  // All replicas get replica 0's arguments.
  random_fetch fetch;
  bool is_tpu;              // A TPU strategy, in a session.
  uint64_t outside;         // Its ops that this draws are put outside. 0: none.
  const char *isa, *lanes;  // Values of LS_ISA and LS_LANES. NULL: default.
} random_way;

// An array's bytes, which outlive its runtime. Zeroed: there was none.
typedef struct random_bytes {
  ls_type type;
  size_t size;
  void *data;
} random_bytes;

typedef struct random_outcome {
  ls_code code;
  char message[RANDOM_TEXT];  // Of the failure.
  size_t num_outside;         // Ops that were put there.
  const char *names[RANDOM_RESULTS];
  random_bytes results[RANDOM_STEPS][RANDOM_REPLICAS][RANDOM_RESULTS];
  random_bytes variables[RANDOM_MOST_VARIABLES];
} random_outcome;

// The caller destroys it.
random_outcome *random_run(const random_program *program,
                           const random_way *way);
void random_outcome_destroy(random_outcome *self);

// Compares what both have. Returns how many arrays differ, and describes the
// first one; adds the number of arrays that were compared.
size_t random_compare(const random_outcome *a, const random_outcome *b,
                      char *text, size_t size, size_t *compared);

#endif  // LS_TESTS_SUPPORT_RANDOM_WAYS_H_
