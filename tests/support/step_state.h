// SPDX-License-Identifier: Apache-2.0
// Random steps of replicas: their variables, what replicas get, and where one
// is in its step.
#ifndef LS_TESTS_SUPPORT_STEP_STATE_H_
#define LS_TESTS_SUPPORT_STEP_STATE_H_

#include "support/ways.h"

enum { WIDTH = 3, VARIABLES = 6, VALUES = 24, RESULTS = 40 };

// A step is a function of its seed: each replica draws the same.
typedef struct random_step {
  uint64_t seed;
  bool prints;
  bool draws_nothing;
} random_step;

typedef struct drawing {
  uint64_t state;
} drawing;

// Where a replica is in its step.
typedef struct step_state {
  ways *self;
  drawing draw;
  bool prints;
  ls_tensor values[VALUES];
  bool met[VALUES];  // The same on all replicas.
  size_t count;
  ls_nest results[RESULTS];
  size_t num_results;
  int depth;   // Loops and branches around.
  bool apart;  // In one that not all replicas take.
  ls_status status;
} step_state;

// A number below n.
uint32_t step_below(drawing *draw, uint32_t n);

// What variable v of a step is, but for the first one.
struct kind {
  ls_variable_aggregation aggregation;
  ls_variable_synchronization synchronization;
};
const struct kind *step_kind(uint64_t seed, size_t v);

// Of a case whose user is a random_step: `make` and `args`.
void step_variables(ways *self);
ls_nest step_rows(const ways *self, int k, int r);

// A value to go on with; the same on all replicas if `met`.
void step_add(step_state *s, ls_tensor value, bool met);
size_t step_pick(step_state *s);
// Takes the status over; the first one counts.
void step_fail(step_state *s, ls_status status);
// What was given back: a result of the replica, and if it is one tensor, a
// value to go on with.
void step_keep(step_state *s, ls_nest given, bool is_value, bool met);

// ---- step_acts.c -----------------------------------------------------------
// Arithmetic; something that replicas put together; a write.
void step_compute(step_state *s);
void step_meet(step_state *s);
void step_write(step_state *s, ls_variable *v);

#endif  // LS_TESTS_SUPPORT_STEP_STATE_H_
