// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Traced functions: a callback that is run once to record its ops, then as a
// compiled program.
//
// A function owns its traces. A call looks for one that fits the structure,
// dtypes and shapes of the arguments, the host scalars by value and the
// strategy; without one the callback is run in a new function graph. What the
// callback reads through `user` is frozen at the trace. Every effect in it
// (assignments, prints) runs at each call, in order.
//
// Called while another graph is being built, a function becomes part of it,
// also one that a strategy runs (lockstep/strategy.h: ls_strategy_run), and
// several of strategies with other numbers of replicas; a session that fetches
// one of its results runs its effects before. A function may call others, and
// itself with something that ends it; callbacks run inside of each other
// LS_MAX_NESTED_CALLS deep.
//
// Threads: any number of threads may call, clear, print and measure a function
// at the same time; its callback then runs in several threads at once, when
// these need a trace each. A nest of results is one call's at a time. Who calls
// a function holds a reference to it until the call has returned.
//
// Calls that use a variable which one of them writes run one after another, and
// none is passed by others for long; others run side by side. A call whose
// program calls the host (lockstep/host.h), or has a loop that gives variables
// their values, keeps nobody from reading: from its start to its end it works
// with the values that there were at its start, and what it writes is seen by
// others, all at once, when it has ended well. If it fails, or is cancelled
// (lockstep/cancel.h), never, but for such a loop: its variables are as the
// last whole trip left them, or all as before, where that trip is not known: on
// several ranks, and where a call of the host stands between its writes of
// variables. Whoever else writes what it writes waits for its end. So a
// function on the host may use all variables, but for writing what its own run
// writes: that is LS_FAILED_PRECONDITION. Functions on the host that wait for
// each other's runs in a circle end by the runtime's stall_ms.
#ifndef LOCKSTEP_FUNCTION_H_
#define LOCKSTEP_FUNCTION_H_

#include "lockstep/ops.h"
#include "lockstep/parameters.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_function ls_function;

enum { LS_MAX_NESTED_CALLS = 64 };

// How to make a function. Zero in a field means its default.
typedef struct ls_function_options {
  ls_callback call;                 // Required.
  void *user;                       // Must live until `release`.
  const char *name;                 // Default "function".
  void (*release)(void *user);      // Called when the function goes.
  int64_t seed;                     // Of its random ops.
  const ls_parameters *parameters;  // What `call` takes, lent for the
                                    // function's life. Default: anything.
} ls_function_options;

// Creates a function. The caller owns a reference.
LS_API LS_MUST_USE ls_status ls_function_create(
    const ls_function_options *options, ls_function **out_function);
LS_API ls_function *ls_function_retain(ls_function *function);
LS_API void ls_function_release(ls_function *function);
// Drops all traces: the callback runs again at the next call. A call that runs
// meanwhile, in this thread or another, ends with the trace it has.
LS_API void ls_function_clear(ls_function *function);

// Calls the function. `args` is lent: a nest of arrays, eager tensors (or
// tensors of the graph being built), host scalars, variables. `*results` is
// in-out: arrays of the right type that nobody else holds are filled in place,
// else it is released and made anew (start with a zeroed nest). Results that
// are one value are one array. After a failure it holds the arrays it held
// before.
//   LS_FAILED_PRECONDITION  callbacks are too deep inside of each other: names
//                           the function.
LS_API LS_MUST_USE ls_status ls_function_call(ls_function *function,
                                              ls_nest args, ls_nest *results);

// The same with arguments by name, a dict or none, lent: see parameters.h.
//   LS_INVALID_ARGUMENT  they are not what its parameters declare.
LS_API LS_MUST_USE ls_status ls_function_call_named(ls_function *function,
                                                    ls_nest args, ls_nest named,
                                                    ls_nest *results);

// What a strategy runs: a traced function, concrete ones too; an object that is
// called by one (ls_object_type.call_entry); or a plain callback, which is
// called at each run, in eager op by op. A function is known by itself, not by
// where it lies: what was traced of it goes with it.
typedef struct ls_callable {
  ls_function *traced;
  ls_callback plain;
  void *user;
  const ls_parameters *parameters;  // Of the plain one; NULL: nothing declared.
  ls_object *object;                // NULL, or what stands for `traced`.
} ls_callable;
static inline ls_callable ls_traced(ls_function *function) {
  const ls_callable callable = {function, NULL, NULL, NULL, NULL};
  return callable;
}
static inline ls_callable ls_plain(ls_callback callback, void *user) {
  const ls_callable callable = {NULL, callback, user, NULL, NULL};
  return callable;
}
static inline ls_callable ls_called(ls_object *object) {
  const ls_callable callable = {NULL, NULL, NULL, NULL, object};
  return callable;
}

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FUNCTION_H_
