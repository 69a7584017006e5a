// SPDX-License-Identifier: Apache-2.0
// Layer: runtime
//
// Traced functions: a callback that runs once to record its ops, and from then
// on as a compiled program.
//
// A function owns its traces. A call looks for one that fits the structure,
// dtypes and shapes of the arguments, the host scalars by value, the strategy
// and the replica that calls it op by op; if there is none, the callback runs
// in a new function graph. Values that the callback reads through `user` are
// frozen in the trace. Every effect in it (assignments, prints) happens at each
// call, in order.
//
// A function called while another graph is being built becomes part of it, also
// if a strategy runs it (lockstep/strategy.h: ls_strategy_run), and so do
// several, of strategies with different numbers of replicas; a session that
// fetches one of its results runs its effects first. A function may call
// others, and itself with a condition that ends the recursion; callbacks nest
// up to LS_MAX_NESTED_CALLS deep.
//
// Threads: any number of threads may call, clear, print and measure a function
// at the same time; its callback then runs in several threads at once, if these
// need a trace each. A nest of results is used by one call at a time. The
// caller holds a reference to the function until the call has returned.
//
// Calls that use a variable which one of them writes run one after another, and
// none is overtaken for long; others run concurrently. A call whose program
// calls the host (lockstep/host.h), or has a loop that assigns variables, does
// not block readers: from start to end it works with the values at its start,
// and its writes become visible, all at once, when it has succeeded. If it
// fails, or is cancelled (lockstep/cancel.h), they never do, except for such a
// loop: its variables then have the values of the last complete iteration, or
// are all unchanged where that is not known: on several ranks, and where a host
// call stands between its writes of variables. Other writers of the same
// variables wait for its end. So a host function may use all variables, but may
// not write those that its own run writes: that is LS_FAILED_PRECONDITION. Host
// functions that wait for each other's runs in a circle are ended by the
// runtime's stall_ms.
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

// Options of a function. Zero in a field means its default.
typedef struct ls_function_options {
  ls_callback call;             // Required.
  void *user;                   // Must live until `release`.
  const char *name;             // Default "function".
  void (*release)(void *user);  // Called when the function is destroyed.
  // Seed of its random ops, where it runs as a program of its own: called in
  // a graph that is built, another function, or with a tape, its ops draw by
  // the seed of that graph, function or thread.
  int64_t seed;
  // Parameters of `call`, lent for the function's life. Default: any.
  const ls_parameters *parameters;
} ls_function_options;

// Creates a function. The caller owns a reference.
LS_API LS_MUST_USE ls_status ls_function_create(
    const ls_function_options *options, ls_function **out_function);
LS_API ls_function *ls_function_retain(ls_function *function);
LS_API void ls_function_release(ls_function *function);
// Drops all traces: the callback runs again at the next call. A call in
// progress, in this thread or another, finishes with its trace.
LS_API void ls_function_clear(ls_function *function);

// Calls the function. `args` is lent: a nest of arrays, eager tensors (or
// tensors of the graph being built), host scalars, variables. `*results` is
// in-out: arrays of the right type with no other owner, and not among the
// arguments, are filled in place, otherwise the old value is released and a new
// one made (start with a zeroed nest). So it may hold the arguments. Results
// that are one value are one array. After a failure it holds the same arrays as
// before; elements of those that the call was filling are undefined.
//   LS_FAILED_PRECONDITION  callbacks are nested too deep: names the function.
LS_API LS_MUST_USE ls_status ls_function_call(ls_function *function,
                                              ls_nest args, ls_nest *results);

// Calls the function with arguments by name too, a dict or none, lent: see
// parameters.h.
//   LS_INVALID_ARGUMENT  they do not match the declared parameters.
LS_API LS_MUST_USE ls_status ls_function_call_named(ls_function *function,
                                                    ls_nest args, ls_nest named,
                                                    ls_nest *results);

// A callable for strategies: a traced function, including concrete ones; an
// object that is called through one (ls_object_type.call_entry); or a plain
// callback, which is called at each run, in eager op by op. A function is
// identified by itself, not by its address: its traces go with it.
typedef struct ls_callable {
  ls_function *traced;
  ls_callback plain;
  void *user;
  // Parameters of the plain callback; NULL: none declared.
  const ls_parameters *parameters;
  ls_object *object;  // NULL, or the object that stands for `traced`.
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
