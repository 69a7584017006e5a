// SPDX-License-Identifier: Apache-2.0
//
// The context of a replicated computation: a flow (graph/flow.h) that marks the
// ops made in it, ties them to the computation's pivot, and knows which of them
// are compiled outside.
//
// The owner keeps a context as long as a scope of it is open; what the context
// has collected can be read afterwards, too.
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
  // The index of each replica's copy; NULL: the order of the variable's
  // strategy.
  int64_t *copies;
} ls_tpu_handle;

typedef struct ls_tpu_context {
  ls_system_flow around;  // The flow, with system and assignment.
  ls_allocator *allocator;
  char *name;  // Name of the cluster.
  bool spmd;   // True if a replica's cores run one partitioned program.
  int32_t num_replicas;
  ls_op pivot;

  bool was_entered;
  const char *outer_device;  // The graph's device at the first entry.

  // Outside compilation: the cluster to which ops are added (NULL: none), the
  // device scope to restore afterwards, and the number of clusters that were
  // numbered so far.
  char *outside;
  const char *inner_device;
  uint32_t outside_counter;
  bool maps;  // True if outside ops belong to a mapped function: see outside.c.

  // Gradients being built: the stack of ops with which they are colocated, and
  // the op that opened the current cluster (id 0: none).
  ls_op *gradients;
  size_t num_gradients, gradients_capacity;
  ls_op colocated;

  char **host_compute_cores;  // "cluster:core", in order of entry.
  size_t num_host_compute_cores, host_compute_cores_capacity;
  ls_op *unsupported;  // Ops that no core runs.
  size_t num_unsupported, unsupported_capacity;
  ls_op *waits;  // Ops without a value that the whole computation waits for.
  size_t num_waits, waits_capacity;
  ls_tpu_handle *handles;  // One handle per variable used.
  size_t num_handles, handles_capacity;
} ls_tpu_context;

// Makes a context of the current graph. `pivot` may be an empty op at first.
ls_status ls_tpu_context_init(ls_tpu_context *context, const char *name,
                              int32_t num_replicas, ls_op pivot);
void ls_tpu_context_deinit(ls_tpu_context *context);
// Adds ops to the computation until ls_scope_end. It may be entered any number
// of times.
void ls_tpu_context_enter(ls_scope *scope, ls_tpu_context *context);
// Returns the innermost enclosing context, NULL if there is none.
ls_tpu_context *ls_tpu_context_current(void);

// Puts ops into an outside compiled cluster until it is exited. `name` NULL:
// the cluster is named by its number.
//   LS_UNIMPLEMENTED  entered twice, or exited without an entry
ls_status ls_tpu_context_enter_outside(ls_tpu_context *context,
                                       const char *name);
ls_status ls_tpu_context_exit_outside(ls_tpu_context *context);

// Calls `fn` as ls_outside_compilation does; `maps` marks its ops as mapped
// (outside.c).
ls_nest ls_outside_compilation_marked(ls_callback fn, void *user, ls_nest args,
                                      bool maps);

// Enters and leaves gradients, as flows do (graph/flow.h). A zeroed op has no
// effect.
ls_status ls_tpu_context_enter_gradient(ls_tpu_context *context, ls_op op,
                                        const char *uid);
ls_status ls_tpu_context_exit_gradient(ls_tpu_context *context, ls_op op,
                                       const char *uid);

// Returns the handle of a variable in the computation: an op outside of it,
// named "<name>/handle" and made once. Ops of the variable name it in
// LS_MARK_HANDLE. See variable_handles.c.
//   LS_INVALID_ARGUMENT  no copy is on a core of some replica: names it
ls_status ls_tpu_context_handle(ls_tpu_context *context, ls_variable *variable,
                                const ls_tpu_handle **out_handle);
// Refuses a write that would leave some copies of a variable with ON_WRITE
// synchronization unchanged.
ls_status ls_tpu_context_check_write(const ls_tpu_context *context,
                                     const ls_tpu_handle *handle);
#define LS_MARK_HANDLE "_handle"
// Returns the variable that an op with these attributes uses by handle; NULL if
// it uses none.
ls_variable *ls_tpu_handled_variable(const ls_attr *attrs, size_t count);

// Logs the ops of the computation that no core can run.
void ls_tpu_context_report(const ls_tpu_context *context);

#endif  // LS_TPU_REPLICATE_CONTEXT_H_
