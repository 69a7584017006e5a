// SPDX-License-Identifier: Apache-2.0
//
// A loop of steps on the cores of a pod, made by hand, and what feeds and takes
// beside it: step k gives replica r the number (k + 1) (r + 1), from a source
// on the hosts; the replicas add theirs up and say them, and a sink hears them.
#ifndef LS_TESTS_SUPPORT_DEVICE_RUNS_H_
#define LS_TESTS_SUPPORT_DEVICE_RUNS_H_

#include "base/memory/own.h"
#include "estimator/config/plan.h"
#include "estimator/device/device.h"
#include "lockstep/estimator_hooks.h"
#include "lockstep/host.h"
#include "lockstep/infeed.h"
#include "lockstep/monitored_session.h"
#include "lockstep/object.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/spec.h"

enum { DEVICE_RUNS_MOST = 8 };  // Replicas.

// A thing on the host that can fail. All atomic.
typedef struct device_end {
  ls_object object;
  int64_t count;   // What has gone through.
  int64_t at;      // What fails, or waits for ever; -1: nothing.
  int32_t code;    // By what; 0: it waits until it is cancelled.
  bool waits;      // It does. Atomic.
  bool once;       // It fails once; not atomic.
  int32_t wrong;   // Values that were not as they should be.
  int32_t micros;  // That each takes.
} device_end;

typedef struct device_runs_options {
  int hosts, cores;  // Of a host. Default 1 each.
  const ls_tpu_config *tpu;
  bool loops;     // The hosts feed by a loop of their own.
  bool silent;    // The cores say nothing.
  bool predicts;  // The program is one of the enqueue ops, and goes on up to a
                  // number that is 0; a run takes what one step says.
  bool asks_compiler, watches;
  const char *asks;  // As the environment says it. Default: "1", or nothing.
  const ls_session_config *session_config;
  bool real_clock;  // Else that of the test, which moves when one sleeps.
  bool input_end_fails;
  int64_t stall_ms;    // As of ls_runtime_options.
  int64_t core_bytes;  // Of a core. Default: enough.
} device_runs_options;

typedef struct device_runs {
  device_runs_options options;
  counted world;
  int replicas;
  ls_tpu_resolver *resolver;
  ls_run_config *config;
  ls_plans *plans;
  const ls_plan *plan;
  ls_device_assignment *assignment;
  ls_infeed_queue *queue;
  ls_graph *graph;
  ls_variable *step, *total, *iterations;
  ls_nest enqueue, dequeue, close;
  ls_tensor compile_status;
  ls_op train;
  ls_tensor said, stopping;  // Of a prediction.
  device_end source, sink;
  ls_rendezvous *rendezvous;
  ls_hook *hook;
  bool input_ended;
  ls_monitored_session *session;
  ls_nest results;
} device_runs;

// Up to the graph.
void device_runs_begin(device_runs *self, const device_runs_options *options);
void device_runs_make_hook(device_runs *self);
// A session with the hook and, in front of it, `others`, taken over.
ls_status device_runs_try_open(device_runs *self, ls_hook *const *others,
                               size_t num_others);
void device_runs_open(device_runs *self, ls_hook *const *others,
                      size_t num_others);
ls_status device_runs_try(device_runs *self);  // A run.
// Runs until it should stop or fails.
ls_status device_runs_all(device_runs *self);
// Closes the session.
ls_status device_runs_close(device_runs *self, ls_status how);
// Another graph like it.
void device_runs_renew(device_runs *self);
void device_runs_end(device_runs *self);
LS_OWNED_STRUCT(device_runs, device_runs_end)

int64_t device_runs_step(device_runs *self);
double device_runs_total(device_runs *self);
ls_pod *device_runs_pod(device_runs *self);  // The caller's; NULL: shut down.
// What was logged since the last look, behind a letter for how serious it is.
const char *device_runs_log(void);
// Called with each line; NULL: nothing is.
void device_runs_on_line(void (*call)(const char *line));
double device_runs_now(void);  // The test's clock, in seconds.

#endif  // LS_TESTS_SUPPORT_DEVICE_RUNS_H_
