// SPDX-License-Identifier: Apache-2.0
//
// A replicated computation while it is being built.
#ifndef LS_TPU_REPLICATE_REPLICATE_H_
#define LS_TPU_REPLICATE_REPLICATE_H_

#include "base/memory/arena.h"
#include "graph/flow.h"
#include "graph/gather/gather.h"
#include "lockstep/infeed.h"
#include "lockstep/parameters.h"
#include "lockstep/replicate.h"
#include "lockstep/topology.h"
#include "lockstep/variable.h"
#include "tpu/pod/system_id.h"

// ---- The context ------------------------------------------------------------
// The context of a replicated computation: a flow (graph/flow.h) that marks the
// ops made in it, ties them to the computation's pivot, and knows which of them
// are compiled outside.
//
// The owner keeps a context as long as a scope of it is open; what the context
// has collected can be read afterwards, too.

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

// The padded axes of an input, and the index of the input that holds the first
// one's real size.
typedef struct ls_padded {
  int64_t axes[LS_MAX_RANK];
  size_t count, first_size;
} ls_padded;

typedef struct ls_replication {
  const ls_replicate_options *options;  // Never NULL.
  const char *const *devices;           // See ls_replicate_at.
  ls_system_id *system;                 // The system; NULL: the local one.
  ls_graph *graph;
  ls_arena memory;
  size_t replicas;
  ls_nest first;      // Replica 0's inputs, borrowed.
  size_t num_leaves;  // Number of the leaves, which are the first inputs.
  // The inputs after the leaves are real sizes of padded leaves.
  size_t num_inputs;
  ls_tensor *values;   // [input][replica]; zeroed if the leaf is no tensor.
  ls_padded *padding;  // Padding of each leaf; NULL: nothing is padded.
  ls_tensor *inputs;   // The values inside the computation.
  ls_tpu_context context;
  ls_op metadata;
} ls_replication;

// Checks options of XLA.
//   LS_INVALID_ARGUMENT  not a valid flag: names it
ls_status ls_check_xla_options(const ls_xla_options *options);

// Replicates on cores of a system, as ls_replicate does; replica r's outputs
// are on devices[r].
ls_status ls_replicate_at(ls_system_id *system, const char *const *devices,
                          ls_callback fn, void *user, ls_nest inputs,
                          const ls_replicate_options *options,
                          ls_nest *outputs);

// Checks the inputs and stores their values in the replication.
ls_status ls_replication_take_inputs(ls_replication *r, ls_nest inputs);
// Lists the host of each core, replica by replica; the list is empty if all are
// on one host.
ls_status ls_replication_hosts(ls_replication *r, const char *const **out_hosts,
                               size_t *out_count);

// Makes maximum shapes for replicas' inputs, of the inputs' ranks with all
// sizes unknown; the caller releases them. Also checks that all sizes are known
// and equal.
//   LS_INVALID_ARGUMENT  a tensor without a rank or with another size: names it
ls_status ls_maximum_shapes_of(ls_nest inputs, ls_nest *out_maxima);
ls_status ls_check_static_shapes(ls_nest inputs);

// Pads inputs as their maximum shapes say (padding.c). The arena owns the table
// of the inputs that hold real sizes.
ls_status ls_replication_pad(ls_replication *r);
ls_status ls_replication_padding_map(ls_replication *r, int64_t **out_numbers,
                                     size_t *out_count);
// Cuts the padding off again inside the computation.
ls_status ls_replication_unpad(const ls_replication *r, ls_tensor *values);

// Results of a computation (outputs.c).
typedef struct ls_outputs {
  ls_nest like;  // Structure of one replica's results; the caller's.
  ls_nest *leaves;
  size_t num_leaves;
  // One tensor per leaf, made inside the computation; zeroed if the leaf is no
  // tensor.
  ls_tensor *tensors;
  ls_op *ops;
  size_t num_ops;
} ls_outputs;

// Collects the callback's results, inside the computation.
ls_status ls_outputs_take(ls_replication *r, ls_nest made, ls_outputs *out);
// Makes the replicas' results, outside the computation.
ls_status ls_outputs_give(ls_replication *r, const ls_outputs *outputs,
                          ls_nest *results);

static inline bool ls_replicate_is_sequence(ls_nest nest) {
  return nest.kind == LS_KIND_LIST || nest.kind == LS_KIND_TUPLE;
}

// ---- Arity -----------------------------------------------------------------
// Numbers of arguments, checked if callbacks declare their parameters.

// Checks that a callback accepts the inputs and, if `takes_infeed`, then a
// queue's elements. `noun` names the callback in messages. Undeclared
// parameters accept anything.
LS_MUST_USE ls_status ls_check_arity(const ls_parameters *parameters,
                                     const char *noun, ls_nest inputs,
                                     const ls_infeed_queue *queue,
                                     bool takes_infeed);

#endif  // LS_TPU_REPLICATE_REPLICATE_H_
