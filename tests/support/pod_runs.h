// SPDX-License-Identifier: Apache-2.0
// A runtime with an initialized pod, and a build graph with a session for ops
// that go to its cores.
#ifndef LS_TESTS_SUPPORT_POD_RUNS_H_
#define LS_TESTS_SUPPORT_POD_RUNS_H_

#include "base/memory/own.h"
#include "lockstep/infeed.h"
#include "lockstep/session.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/spec.h"
#include "tpu/pod/pod.h"

typedef struct pod_runs {
  counted c;
  ls_pod *pod;
  ls_graph *graph;
  ls_session *session;
  ls_nest results;  // Of the last run.
} pod_runs;

// A pod of so many hosts with so many cores each, and an empty graph.
pod_runs pod_runs_begin(int hosts, int cores, ls_runtime_options options);
void pod_runs_end(pod_runs *self);
LS_OWNED_STRUCT(pod_runs, pod_runs_end)
// The same on one thread, with a clock that nobody waits for, from 0 on, and
// the last warning.
pod_runs pod_runs_begin_watched(int hosts, int cores);
extern int64_t pod_runs_now;
extern char pod_runs_warning[256];
void pod_inject(ls_pod *pod, ls_pod_fault fault);

// Runs ops, or tensors; `fetches` is taken over.
ls_status pod_runs_try(pod_runs *self, ls_nest fetches);
void pod_runs_do(pod_runs *self, ls_nest fetches);
// The number in item `index` of the last results.
double pod_runs_number(const pod_runs *self, size_t index);

// An f32 scalar constant.
ls_tensor pod_number(double value);
// Ops that put or take one, on the host of task `task`.
ls_op put_number(int task, int core, double value);
ls_op put_tensor(int task, int core, ls_tensor value);
ls_tensor get_number(int task, int core);  // From the outfeed.
// On the core.
ls_tensor take_number(int task, int core);
ls_op give_tensor(int task, int core, ls_tensor value);

#endif  // LS_TESTS_SUPPORT_POD_RUNS_H_
