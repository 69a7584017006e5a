// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Exports: scopes in which functions are traced for a directory that others
// load, who may know nothing of replicas.
//
// But with LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES a distributed variable is its
// first component there, a plain variable: that alone is what reads and writes
// of any kind, its handle, op, initializer and conversions mean, also in a
// replica and in another strategy's scope, on whatever device is current. A
// function has traces of its own in exports of each policy.
//
// Threads: an export is its thread's, and the replicas' that it starts.
#ifndef LOCKSTEP_EXPORT_H_
#define LOCKSTEP_EXPORT_H_

#include "lockstep/function.h"
#include "lockstep/record.h"

#ifdef __cplusplus
extern "C" {
#endif

// What is kept of variables.
typedef enum ls_export_policy {
  LS_EXPORT_NONE = 0,                      // Values alone.
  LS_EXPORT_SAVE_VARIABLE_DEVICES,         // And the devices they were on.
  LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES,  // And every component.
} ls_export_policy;

// Inside, functions are traced for an export; the pair of ls_scope_end.
//   LS_INVALID_ARGUMENT     in the scope: no such policy.
//   LS_FAILED_PRECONDITION  in the scope: inside of another one, which stays.
LS_API void ls_export_begin(ls_scope *scope, ls_export_policy policy);
#define LS_EXPORT_SCOPE(policy) LS_SCOPE_(ls_export_begin, policy)
LS_API bool ls_in_export(void);

// ---- What an export holds --------------------------------------------------
// The variable whose value stands for this one there, lent: the first component
// for a distributed variable, its packed handle and all its components, but
// with EXPAND a component for itself; a plain variable for itself.
//   LS_FAILED_PRECONDITION  not in an export.
LS_API LS_MUST_USE ls_status ls_export_resource(const ls_variable *variable,
                                                ls_variable **out_resource);
// Sets what the export says of a variable: its "name"; where the policy is not
// NONE its "device" ("" if it has none); with EXPAND, of a distributed one,
// "components": one each, in their order under "0", "1" and so on, with "name"
// and "device".
//   LS_FAILED_PRECONDITION  not in an export.
LS_API LS_MUST_USE ls_status ls_export_describe(const ls_variable *variable,
                                                ls_record *record);
// The graph that an export holds of a function, lent until the function is
// cleared. `args` is a nest like those of calls, whose values do not count: the
// function is traced for it here, and not run, unless it was in an export of
// this policy. NULL: as it was traced last, best here.
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
// Copies an eager variable to the CPU of its host, to be saved from there while
// it goes on changing: a plain variable of its name, shape, dtype, aggregation
// and trainable flag, with the value that ls_variable_read gives. `*copy` is
// in-out: NULL makes one, the caller's; else the copy of before gets the value.
//   LS_UNIMPLEMENTED         a variable of a build graph.
//   LS_FAILED_PRECONDITION   of a distributed one, in a replica.
//   LS_INVALID_ARGUMENT      `*copy` is of another type; its aggregation makes
//                            no value.
LS_API LS_MUST_USE ls_status ls_variable_copy_to_cpu(ls_variable *variable,
                                                     ls_variable **copy);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_EXPORT_H_
