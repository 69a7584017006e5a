// SPDX-License-Identifier: Apache-2.0
//
// Scopes: a graph or region that is being copied into its lowered counterpart,
// and helpers of the ops' lowering functions.
#ifndef LS_LOWER_SCOPE_H_
#define LS_LOWER_SCOPE_H_

#include "base/text.h"
#include "lower/lower.h"
#include "lower/mask.h"

// A variable's value in a replicate body that a merge has read.
typedef struct ls_met_value {
  ls_variable *variable;
  const ls_graph *body;
  uint64_t ref;
} ls_met_value;

// A lowered loop or branch of replicas that contains steps (lower/apart.h).
typedef struct ls_step_flow {
  const ls_graph *graph;
  const ls_node *node;
  ls_op source;
} ls_step_flow;

typedef struct ls_lowering {
  ls_runtime *runtime;
  ls_allocator *allocator;
  const ls_lower_request *request;
  ls_program *program;
  size_t uses_capacity;
  const ls_variable_states *variables;
  ls_variable **containers;  // Containers of which a component was written.
  size_t num_containers, containers_capacity;
  ls_met_value *met;  // Values read in the current replicate op.
  size_t num_met, met_capacity;
  ls_step_flow *step_flows;  // Loops and branches of the current replicate op.
  size_t num_step_flows, step_flows_capacity;
  ls_op *apart;  // Ops of the source that are taken apart.
  size_t num_apart, apart_capacity;
  ls_text launched;    // Names of the computations with a launch in the list.
  int32_t device;      // The first that an op outside of replicas names.
  bool names_several;  // Other ops name others.
  bool names_host, names_other;  // Ops name the CPU beside it; others do not.
  ls_map stacks;              // Lowered (graph, ref) of a stack -> its facts.
  const ls_buckets *buckets;  // NULL: sizes are constants.
} ls_lowering;

// A graph or region that is being lowered.
struct ls_lower_scope {
  ls_lowering *all;
  struct ls_lower_scope *outer;  // Scope of the enclosing graph; NULL: none.
  ls_graph *from, *to;
  ls_map values;     // Ref in `from` -> ref in `to`.
  ls_map variables;  // Variable -> its current value in `to` (variable.c).
  ls_map known;      // Key of a pure node -> node id in `to`.
  ls_text key;       // Scratch.
  // In a replicate body and its regions: number of replicas; else 0.
  int32_t replicas;
  bool in_classes;  // True if other classes of replicas have other shapes.
  bool in_merge;    // True if nodes run once, for all replicas.
  bool in_steps;    // True in loops whose trips are steps.
  bool in_apart;    // True in a loop or branch taken apart (lower/apart.h).
  // In a replicate body: the bodies of all classes, which are lowered together,
  // and one replica of this body's class.
  const ls_node *holder;  // The replicate op.
  struct ls_lower_scope *bodies;
  size_t num_bodies;
  const int64_t *classes;  // Class of each replica.
  // Distributed variables that have a value for each replica in this scope.
  ls_variable *const *own;
  size_t num_own;
  int32_t replica;
  ls_masks *masks;  // Masks of padded values, NULL if there are none.
};

ls_status ls_lower_scope_init(ls_lower_scope *scope, ls_lowering *all,
                              ls_lower_scope *outer, ls_graph *from,
                              ls_graph *to);
void ls_lower_scope_deinit(ls_lower_scope *scope);
LS_OWNED_STRUCT(ls_lower_scope, ls_lower_scope_deinit)

// Lowers the nodes of `scopes[0].from` that its results and effects need. If
// several scopes lower one graph, each node is lowered in all scopes before the
// next node.
ls_status ls_lower_nodes(ls_lower_scope *scopes, size_t num_scopes,
                         const uint64_t *roots, size_t num_roots,
                         const ls_op *targets, size_t num_targets,
                         bool effects_are_roots);

// Returns the lowered ref of a ref in `from`.
uint64_t ls_lowered(const ls_lower_scope *scope, uint64_t ref);
// Sets it, unless the ref is fed: then it stays the feed.
ls_status ls_lower_map(ls_lower_scope *scope, uint64_t from, uint64_t to);
ls_type ls_lowered_type(const ls_lower_scope *scope, uint64_t to_ref);

// Appends a lowered node and infers its types, or returns an equal pure node.
// `origin` is the node of the source.
ls_status ls_lower_append(ls_lower_scope *scope, const ls_op_spec *spec,
                          const uint64_t *inputs, const ls_node *origin,
                          ls_node **out_node);
// Appends a node with one output.
ls_status ls_lower_make(ls_lower_scope *scope, uint16_t type,
                        const uint64_t *inputs, size_t num_inputs,
                        const ls_attr *attrs, size_t num_attrs,
                        const ls_node *origin, uint64_t *out_ref);
// Converts a value to `dtype`, unless it has it.
ls_status ls_lower_convert(ls_lower_scope *scope, uint64_t ref, ls_dtype dtype,
                           const ls_node *origin, uint64_t *out_ref);
// Makes a scalar constant of `dtype`.
ls_status ls_lower_scalar(ls_lower_scope *scope, ls_dtype dtype, double value,
                          const ls_node *origin, uint64_t *out_ref);
// Broadcasts `ref` to `shape`, unless it has that shape.
ls_status ls_lower_broadcast(ls_lower_scope *scope, uint64_t ref,
                             ls_shape shape, const ls_node *origin,
                             uint64_t *out_ref);

// Reshapes `ref`; the number of elements stays.
ls_status ls_lower_reshape(ls_lower_scope *scope, uint64_t ref, ls_shape shape,
                           const ls_node *origin, uint64_t *out_ref);

// Returns true if a list of variables has this one.
bool ls_lower_lists(ls_variable *const *list, size_t count,
                    const ls_variable *variable);
// Reads a variable's current value. ls_lower_write sets a new one. The
// innermost scope with a value counts; reading in a region captures.
ls_status ls_lower_read(ls_lower_scope *scope, ls_variable *variable,
                        uint64_t *out_ref);
ls_status ls_lower_write(ls_lower_scope *scope, ls_variable *variable,
                         uint64_t ref);
// Returns the value that this scope itself knows; 0: none.
uint64_t ls_lower_known(const ls_lower_scope *scope,
                        const ls_variable *variable);
// Sets a variable's value at the start of a region that writes the variable.
// The value was read outside.
ls_status ls_lower_set(ls_lower_scope *scope, ls_variable *variable,
                       uint64_t ref);
// Finds out if the components have different values in this scope, where the
// variable has no value for each replica.
ls_status ls_lower_differs(ls_lower_scope *scope, const ls_variable *variable,
                           bool *out_differs);
// Completes the uses of distributed variables of which components were written:
// one write of the container if all values are the same, else one write per
// component.
ls_status ls_lower_containers(ls_lower_scope *scope);

#endif  // LS_LOWER_SCOPE_H_
