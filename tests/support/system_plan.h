// SPDX-License-Identifier: Apache-2.0
// Draws programs of two systems: which pods, what runs on them, and what
// happens to them meanwhile.
#ifndef LS_TESTS_SUPPORT_SYSTEM_PLAN_H_
#define LS_TESTS_SUPPORT_SYSTEM_PLAN_H_

#include <stdbool.h>
#include <stdint.h>

enum { SYSTEM_MOST_ACTS = 14 };

typedef enum system_way {
  BY_FUNCTION,
  BY_SESSION,
  BY_REPLICATE,
  BY_INFEED,   // Tuples are put by hand.
  BY_ENQUEUE,  // Loops of enqueue ops feed a loop on the cores.
  BY_ESTIMATOR,
  NUM_SYSTEM_WAYS,
} system_way;
extern const char *const system_way_names[NUM_SYSTEM_WAYS];

typedef enum system_act {
  RUN,
  INITIALIZE,
  SHUT_DOWN,
  LOSE,     // A host or a core.
  RESIZE,   // Shuts it down and initializes one of another size; what was
            // built stays that of the old one.
  REBUILD,  // Initializes it and builds what runs again.
  NUM_SYSTEM_ACTS,
} system_act;
extern const char *const system_act_names[NUM_SYSTEM_ACTS];

// A pod as a resolver names it.
typedef struct system_size {
  const char *name;
  const char *local;  // Of the local system.
} system_size;

typedef struct system_plan {
  system_size sizes[2];  // At first, and resized.
  const char *job;
  system_way way;
  system_act acts[SYSTEM_MOST_ACTS];
  int num_acts;
} system_plan;

typedef struct pair_plan {
  uint64_t seed;
  bool two_runtimes, two_threads;
  system_plan systems[2];
} pair_plan;

pair_plan pair_plan_of(uint64_t seed);
bool system_plan_is_local(const system_plan *plan);

#endif  // LS_TESTS_SUPPORT_SYSTEM_PLAN_H_
