// SPDX-License-Identifier: Apache-2.0
//
// The context of a replicated computation: a flow (graph/flow.h) that marks the
// ops made in it, ties them to the computation's pivot, and knows which part of
// them is compiled outside.
//
// The context is its owner's, who keeps it as long as a scope of it is open;
// what it has collected can be read afterwards, too.
#ifndef LS_TPU_REPLICATE_CONTEXT_H_
#define LS_TPU_REPLICATE_CONTEXT_H_

#include "graph/flow.h"
#include "graph/gather/gather.h"
#include "lockstep/topology.h"
#include "lockstep/variable.h"
#include "tpu/pod/system_id.h"

// The replicated handle of a variable of a TPU strategy.
typedef struct ls_tpu_handle {
  const ls_variable *variable;
  ls_op op;
  // The index of each replica's copy; NULL: as the variable's strategy has
  // them.
  int64_t *copies;
} ls_tpu_handle;

typedef struct ls_tpu_context {
  ls_system_flow around;  // Its flow, whose cores they are, and which.
  ls_allocator *allocator;
  char *name;  // The cluster's.
  bool spmd;   // A replica's cores are one to it.
  int32_t num_replicas;
  ls_op pivot;

  bool was_entered;
  const char *outer_device;  // Of the graph: what held at the first entry.

  // Outside compilation: the cluster that ops go to, NULL: none; what was the
  // device before; how many clusters have got a number.
  char *outside;
  const char *inner_device;
  uint32_t outside_counter;
  bool maps;  // Ops outside are a mapped function's: see outside_map.c.

  // Gradients that are being built: what they lie beside, and which of it has
  // opened the cluster at hand (id 0: none).
  ls_op *gradients;
  size_t num_gradients, gradients_capacity;
  ls_op colocated;

  char **host_compute_cores;  // "cluster:core", in order of entry.
  size_t num_host_compute_cores, host_compute_cores_capacity;
  ls_op *unsupported;  // Ops that no core runs.
  size_t num_unsupported, unsupported_capacity;
  ls_op *waits;  // What all of it waits for, which has no value.
  size_t num_waits, waits_capacity;
  ls_tpu_handle *handles;  // One a variable that it uses.
  size_t num_handles, handles_capacity;
} ls_tpu_context;

// A context of the current graph. The pivot may be no op yet.
ls_status ls_tpu_context_init(ls_tpu_context *context, const char *name,
                              int32_t num_replicas, ls_op pivot);
void ls_tpu_context_deinit(ls_tpu_context *context);
// Ops are the computation's until ls_scope_end; any number of times.
void ls_tpu_context_enter(ls_scope *scope, ls_tpu_context *context);
// The innermost context here or around; NULL: none.
ls_tpu_context *ls_tpu_context_current(void);

// Ops go to an outside compiled cluster until it is exited. `name` NULL: the
// next number.
//   LS_UNIMPLEMENTED  in one already; not in one.
ls_status ls_tpu_context_enter_outside(ls_tpu_context *context,
                                       const char *name);
ls_status ls_tpu_context_exit_outside(ls_tpu_context *context);

// ls_outside_compilation; with `maps` ops say that they are mapped: outside.c.
ls_nest ls_outside_compilation_marked(ls_callback fn, void *user, ls_nest args,
                                      bool maps);

// Enters and leaves gradients, as flows do (graph/flow.h). A zeroed op:
// nothing.
ls_status ls_tpu_context_enter_gradient(ls_tpu_context *context, ls_op op,
                                        const char *uid);
ls_status ls_tpu_context_exit_gradient(ls_tpu_context *context, ls_op op,
                                       const char *uid);

// The handle of a variable in the computation: an op around it,
// "<name>/handle", that is made once. Ops of the variable name it in
// LS_MARK_HANDLE. See variable_handles.c.
//   LS_INVALID_ARGUMENT  no copy is on a core of some replica: names it.
ls_status ls_tpu_context_handle(ls_tpu_context *context, ls_variable *variable,
                                const ls_tpu_handle **out_handle);
// Refuses a write that leaves copies of an ON_WRITE variable as they were.
ls_status ls_tpu_context_check_write(const ls_tpu_context *context,
                                     const ls_tpu_handle *handle);
#define LS_MARK_HANDLE "_handle"
// Returns the variable through whose handle an op being made goes; NULL: none.
ls_variable *ls_tpu_handled_variable(const ls_attr *attrs, size_t count);

// Logs what was collected that no core runs.
void ls_tpu_context_report(const ls_tpu_context *context);

#endif  // LS_TPU_REPLICATE_CONTEXT_H_
