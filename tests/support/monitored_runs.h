// SPDX-License-Identifier: Apache-2.0
// A graph whose train op counts steps and adds to a variable, a runtime whose
// clock and log the test has, and a monitored session on it.
#ifndef LS_TESTS_SUPPORT_MONITORED_RUNS_H_
#define LS_TESTS_SUPPORT_MONITORED_RUNS_H_

#include "base/memory/own.h"
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "support/expect.h"
#include "support/spec.h"

typedef struct monitored_runs {
  ls_runtime *runtime;
  ls_graph *graph;
  ls_variable *step, *weight;
  ls_op train;  // step += 1, then weight += 2.
  ls_op late;   // step += late_steps, of the hook below.
  int64_t late_steps;
  ls_tensor loss;   // 1 / (the step before + 1).
  ls_tensor input;  // A placeholder, f32.
  ls_monitored_session *session;
  ls_nest results;  // Lent.
} monitored_runs;

void monitored_runs_begin(monitored_runs *self);
// Closes the session too, if one is open: without a failure.
void monitored_runs_end(monitored_runs *self);
LS_OWNED_STRUCT(monitored_runs, monitored_runs_end)
// Another graph like it; sessions are closed.
void monitored_runs_renew(monitored_runs *self);

// A session with these hooks, which are taken over.
void monitored_runs_open(monitored_runs *self, ls_hook *const *hooks,
                         size_t num_hooks, const char *checkpoints);
// A hook that makes `late`, behind what hooks before it have made: in its runs
// they read the step from before.
ls_hook *monitored_runs_late(monitored_runs *self, int64_t steps);
ls_status monitored_runs_try_late(monitored_runs *self);  // A run of it.
ls_status monitored_runs_try(monitored_runs *self);       // A run of `train`.
// Runs until it should stop, at most so often; how often it ran.
int monitored_runs_all(monitored_runs *self, int most);
// Closes the session after this status of its last run.
ls_status monitored_runs_try_close(monitored_runs *self, ls_status status);
void monitored_runs_close(monitored_runs *self);
int64_t monitored_runs_step(monitored_runs *self);

// The clock of the runtime, in seconds, and what was logged since the last
// look, line by line.
void monitored_runs_pass(double seconds);
double monitored_runs_now(void);
// Called whenever somebody sleeps; NULL: nothing is.
void monitored_runs_on_sleep(void (*call)(void *user), void *user);
const char *monitored_runs_log(void);
// Called when a line with such a part is logged; NULL: nothing is.
void monitored_runs_on_line(const char *part, void (*call)(void *user),
                            void *user);

#endif  // LS_TESTS_SUPPORT_MONITORED_RUNS_H_
