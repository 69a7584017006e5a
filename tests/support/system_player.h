// SPDX-License-Identifier: Apache-2.0
// Plays the plan of one system: builds what runs there, and does what was
// drawn.
#ifndef LS_TESTS_SUPPORT_SYSTEM_PLAYER_H_
#define LS_TESTS_SUPPORT_SYSTEM_PLAYER_H_

#include "lockstep/tpu_strategy.h"
#include "support/fitted.h"
#include "support/system_plan.h"

// What came of an act.
typedef struct system_outcome {
  ls_code code;
  float value;
} system_outcome;

typedef struct system_player {
  const system_plan *plan;
  const char *other_job;  // NULL: it is alone.
  ls_runtime *runtime;
  int size;  // Of the plan's, now.
  ls_tpu_resolver *resolver;
  // What is built; NULL: it is not, or not of this way.
  ls_strategy *strategy;
  ls_variable *variable;
  ls_function *function;
  ls_graph *graph;
  ls_session *session;
  ls_nest fetches;
  fitted estimator;
  char folder[24];
  int next, runs;
  system_outcome outcomes[SYSTEM_MOST_ACTS];
  char wrong[600];  // A failure that names the wrong system; "": none.
} system_player;

// Initializes the system and builds, in this runtime. `name`: of its folder.
void system_player_begin(system_player *p, const system_plan *plan,
                         ls_runtime *runtime, const char *name);
void system_player_end(system_player *p);
// Whether acts are left.
bool system_player_goes_on(const system_player *p);
// Does the next one, in the current runtime.
void system_player_act(system_player *p);

#endif  // LS_TESTS_SUPPORT_SYSTEM_PLAYER_H_
