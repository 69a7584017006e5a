// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Exports: scopes in which functions are traced for a directory that programs
// load which may know nothing of replicas.
//
// Except with LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES, a distributed variable
// stands for its first component, a plain variable, inside an export: reads and
// writes of any kind, its handle, op, initializer and conversions use that
// component alone, also in a replica and in another strategy's scope, on
// whatever device is current. A function has separate traces for exports of
// each policy.
//
// Threads: an export belongs to its thread, and to the replicas that it starts.
#ifndef LOCKSTEP_EXPORT_H_
#define LOCKSTEP_EXPORT_H_

#include "lockstep/function.h"
#include "lockstep/record.h"

#ifdef __cplusplus
extern "C" {
#endif

// Selects what an export keeps of variables.
typedef enum ls_export_policy {
  LS_EXPORT_NONE = 0,                      // Values only.
  LS_EXPORT_SAVE_VARIABLE_DEVICES,         // Also their devices.
  LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES,  // Also every component.
} ls_export_policy;

// Begins a scope in which functions are traced for an export; end it with
// ls_scope_end.
//   LS_INVALID_ARGUMENT     in the scope: no such policy.
//   LS_FAILED_PRECONDITION  in the scope: inside another export, which stays in
//                           force.
LS_API void ls_export_begin(ls_scope *scope, ls_export_policy policy);
#define LS_EXPORT_SCOPE(policy) LS_SCOPE_(ls_export_begin, policy)
LS_API bool ls_in_export(void);

// ---- Contents of an export -------------------------------------------------
// Returns the variable whose value an export stores for this one, lent: the
// first component for a distributed variable, its packed handle and all its
// components, but with EXPAND each component for itself; a plain variable for
// itself.
//   LS_FAILED_PRECONDITION  not in an export.
LS_API LS_MUST_USE ls_status ls_export_resource(const ls_variable *variable,
                                                ls_variable **out_resource);
// Writes the export's description of a variable: its "name"; if the policy is
// not NONE its "device" ("" if it has none); with EXPAND, for a distributed
// one, "components": one each, in order under "0", "1" and so on, with "name"
// and "device".
//   LS_FAILED_PRECONDITION  not in an export.
LS_API LS_MUST_USE ls_status ls_export_describe(const ls_variable *variable,
                                                ls_record *record);
// Returns the graph that an export stores for a function, lent until the
// function is cleared. `args` is a nest like those of calls, whose values do
// not matter: the function is traced for it here, and not run, unless it was
// traced in an export of this policy before. NULL: its most recent trace,
// preferably of an export.
//   LS_FAILED_PRECONDITION  not in an export, or not in eager; no args and no
//                           trace.
//   LS_INVALID_ARGUMENT     no args, and it was traced outside of an export,
//                           where it writes a distributed variable across or
//                           from all replicas, or reads a sum across them:
//                           names the variable.
LS_API LS_MUST_USE ls_status ls_export_function(ls_function *function,
                                                const ls_nest *args,
                                                const ls_graph **out_graph);

// ---- Checkpoints beside a run ----------------------------------------------
// Copies an eager variable to the CPU of its host, so that it can be saved from
// there while it keeps changing: a plain variable with its name, shape, dtype,
// aggregation and trainable flag, and the value that ls_variable_read gives.
// `*copy` is in-out: NULL creates one, which the caller owns; otherwise the
// earlier copy gets the value.
//   LS_UNIMPLEMENTED        a variable of a build graph.
//   LS_FAILED_PRECONDITION  a distributed variable, in a replica.
//   LS_INVALID_ARGUMENT     `*copy` is of another type; its aggregation makes
//                           no value.
LS_API LS_MUST_USE ls_status ls_variable_copy_to_cpu(ls_variable *variable,
                                                     ls_variable **copy);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EXPORT_H_
