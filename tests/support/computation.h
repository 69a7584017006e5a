// SPDX-License-Identifier: Apache-2.0
// Replicated computations for tests: a graph that is current, its session, and
// what an op of it says.
#ifndef LS_TESTS_SUPPORT_COMPUTATION_H_
#define LS_TESTS_SUPPORT_COMPUTATION_H_

#include "base/memory/own.h"
#include "lockstep/replicate.h"
#include "lockstep/session.h"
#include "support/expect.h"
#include "support/values.h"

// A build graph and a session on it, which is made at the first fetch.
typedef struct computation {
  ls_graph *graph;
  ls_scope scope;
  ls_session *session;
  ls_nest outputs;
} computation;

void computation_open(computation *self);
// Also checks the graph.
void computation_close(computation *self);
LS_OWNED_STRUCT(computation, computation_close)

// inputs[r] = [r + 1], for as many replicas.
ls_nest computation_inputs(size_t replicas);
// Replicates it, and keeps what it gives.
void computation_replicate(computation *self, size_t replicas, ls_callback fn,
                           void *user);
// Output `i` of a replica, or what a tensor is, as a number.
double computation_output(computation *self, size_t replica, size_t i);
double computation_fetch(computation *self, ls_tensor value);
ls_status computation_run(computation *self, ls_nest fetches);
// Gives all variables of the graph their first values.
void computation_initialize(computation *self, ls_variable *variable);

// A text attribute; NULL: the op has none.
const char *attr_text(ls_op op, const char *name);
ls_op op_named(const ls_graph *graph, const char *name);
void expect_outside(ls_tensor value, const char *cluster);

static inline ls_tensor f32_of(double value) {
  return ls_scalar(LS_DTYPE_F32, value);
}

#endif  // LS_TESTS_SUPPORT_COMPUTATION_H_
