// SPDX-License-Identifier: Apache-2.0
// Programs of an estimator on virtual pods, fed by hand.
#ifndef LS_TESTS_SUPPORT_PROGRAMS_H_
#define LS_TESTS_SUPPORT_PROGRAMS_H_

#include "base/memory/own.h"
#include "estimator/loop/program.h"
#include "lockstep/cross_replica.h"
#include "lockstep/optimizers.h"
#include "lockstep/session.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/spec.h"
#include "support/values.h"

enum { PROGRAMS_ROWS = 2, PROGRAMS_COLUMNS = 3, PROGRAMS_MOST = 8 };

typedef struct programs_options {
  ls_estimator_mode mode;
  int replicas;  // 1, 3 (of one host), 8 (of two) or, of two cores each, 4.
  int rows;      // Of a replica's batch. Default 2.
  ls_tpu_config tpu;
  ls_status (*model)(void *user, ls_model_call *call, ls_estimator_spec **out);
  void *user;
  const ls_parameters *arguments;
  ls_nest (*cache)(void *user, int64_t batch_size);
  bool any_batch, replica_0_loss, no_labels, pads;
  const char *tracer_flags;  // Of the environment. Default: none.
  bool on_cpu, no_batch;     // For a CPU; no batch size is given.
} programs_options;

typedef struct programs {
  programs_options options;
  counted runtime;
  ls_tpu_resolver *resolver;
  ls_run_config *config;
  ls_plans *plans;
  ls_graph *graph;
  ls_session *session;
  ls_variable *global_step;
  ls_model_function model;
  ls_input_function input;
  ls_estimator_calls calls;
  ls_input_feed feed;
  ls_estimator_program program;
  ls_nest results;       // Of the last run.
  int warnings, traced;  // Lines of the log: of the tracer, those.
  char last_warning[300];
} programs;

// A system, a graph, and a feed. Features are f32 [rows, 3] and
// labels f32 [rows, 1].
void programs_begin(programs *self, programs_options options);
void programs_end(programs *self);
LS_OWNED_STRUCT(programs, programs_end)
// The same in the current runtime.
void programs_begin_here(programs *self, programs_options options);
void programs_end_here(programs *self);
ls_status programs_try(programs *self);
void programs_build(programs *self);

// Feeds replica r a tuple, whose numbers are those of this step. `real`: how
// many rows are, where that is said; `stops`: of a prediction.
void programs_put(programs *self, int64_t step, int replica, int real,
                  bool stops);
// Its first core.
ls_device_name programs_core(const programs *self, int replica);
void programs_put_all(programs *self, int64_t step);
void programs_close(programs *self);  // No more tuples.
// The features (0) or labels (1) that replica r gets; the caller's.
ls_array *programs_fed(const programs *self, int64_t step, int replica,
                       int which);

// Initializes all variables; sets how many steps a run makes.
void programs_initialize(programs *self);
void programs_set_steps(programs *self, int64_t count);
ls_status programs_try_run(programs *self, ls_nest fetches);  // Taken over.
void programs_run(programs *self, ls_nest fetches);
// Item `index` of what was fetched, a list; -1: what was fetched.
double programs_number(const programs *self, int index);
const ls_array *programs_array(const programs *self, int index);
// The variable's value in the session; the caller's.
ls_array *programs_value(programs *self, ls_variable *variable);

#endif  // LS_TESTS_SUPPORT_PROGRAMS_H_
