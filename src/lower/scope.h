// SPDX-License-Identifier: Apache-2.0
//
// Scopes: a graph or region being copied into its lowered counterpart, and what
// the lowering functions of ops do in one.
#ifndef LS_LOWER_SCOPE_H_
#define LS_LOWER_SCOPE_H_

#include "base/text.h"
#include "lower/lower.h"
#include "lower/mask.h"

// A variable's value that a merge has read in the body of a replicate.
typedef struct ls_met_value {
  ls_variable *variable;
  const ls_graph *body;
  uint64_t ref;
} ls_met_value;

// A loop or branch of replicas with steps in it (lower/apart.h), as lowered.
typedef struct ls_step_flow {
  const ls_graph *graph;
  const ls_node *node;
  ls_op source;
} ls_step_flow;

typedef struct ls_lowering {
  ls_runtime *runtime;
  ls_allocator *allocator;
  ls_program *program;
  size_t uses_capacity;
  const ls_variable_states *variables;
  ls_variable **containers;  // Of which a component is written.
  size_t num_containers, containers_capacity;
  ls_met_value *met;  // In the replicate op at hand.
  size_t num_met, met_capacity;
  ls_step_flow *step_flows;  // In the replicate op at hand.
  size_t num_step_flows, step_flows_capacity;
  ls_op *apart;  // Sources of those through which replicas go in own ways.
  size_t num_apart, apart_capacity;
  ls_text launched;  // Names of computations whose launches are listed.
  ls_map stacks;     // Lowered (graph, ref) of a stack -> what is known of it.
  const ls_buckets *buckets;  // NULL: sizes are what they are.
} ls_lowering;

// One graph or region on its way.
struct ls_lower_scope {
  ls_lowering *all;
  struct ls_lower_scope *outer;  // NULL at the top.
  ls_graph *from, *to;
  ls_map values;     // Ref in `from` -> ref in `to`.
  ls_map variables;  // Variable -> ref in `to` of its value at this point.
  ls_map known;      // A pure node's content -> node id in `to`.
  ls_text key;       // Scratch.
  int32_t replicas;  // In the body of a replicate, at any depth; 0 outside.
  bool in_classes;   // ... and replicas have other shapes than others.
  bool in_merge;     // What is lowered runs once, for all replicas.
  bool in_steps;     // In a loop whose trips are steps, at any depth.
  bool in_apart;     // In what has been taken apart (lower/apart.h).
  // In the body itself: those of all classes, lowered together, and one of this
  // one's replicas.
  const ls_node *holder;  // The replicate op.
  struct ls_lower_scope *bodies;
  size_t num_bodies;
  const int64_t *classes;  // Of each replica: its body.
  // Distributed variables of which each replica has a value of its own here.
  ls_variable *const *own;
  size_t num_own;
  int32_t replica;
  ls_masks *masks;  // Of values with padding. NULL: there are none.
};

ls_status ls_lower_scope_init(ls_lower_scope *scope, ls_lowering *all,
                              ls_lower_scope *outer, ls_graph *from,
                              ls_graph *to);
void ls_lower_scope_deinit(ls_lower_scope *scope);
LS_OWNED_STRUCT(ls_lower_scope, ls_lower_scope_deinit)

// Lowers the nodes that results and effects of `scopes[0].from` need; with
// several scopes over it each node in all of them before the next one.
ls_status ls_lower_nodes(ls_lower_scope *scopes, size_t num_scopes,
                         const uint64_t *roots, size_t num_roots,
                         const ls_op *targets, size_t num_targets,
                         bool effects_are_roots);

// The lowered ref of a ref in `from`.
uint64_t ls_lowered(const ls_lower_scope *scope, uint64_t ref);
ls_status ls_lower_map(ls_lower_scope *scope, uint64_t from, uint64_t to);
ls_type ls_lowered_type(const ls_lower_scope *scope, uint64_t to_ref);

// Appends a lowered node, inferring its types; an equal pure one is reused.
// `origin` is the node it comes from.
ls_status ls_lower_append(ls_lower_scope *scope, const ls_op_spec *spec,
                          const uint64_t *inputs, const ls_node *origin,
                          ls_node **out_node);
// One-output short form.
ls_status ls_lower_make(ls_lower_scope *scope, uint16_t type,
                        const uint64_t *inputs, size_t num_inputs,
                        const ls_attr *attrs, size_t num_attrs,
                        const ls_node *origin, uint64_t *out_ref);
// A scalar constant of `dtype`.
ls_status ls_lower_scalar(ls_lower_scope *scope, ls_dtype dtype, double value,
                          const ls_node *origin, uint64_t *out_ref);
// `ref`, broadcast to `shape` unless it has it.
ls_status ls_lower_broadcast(ls_lower_scope *scope, uint64_t ref,
                             ls_shape shape, const ls_node *origin,
                             uint64_t *out_ref);

// `ref` with another shape of as many elements.
ls_status ls_lower_reshape(ls_lower_scope *scope, uint64_t ref, ls_shape shape,
                           const ls_node *origin, uint64_t *out_ref);

// A variable's value at this point of the scope, and a new one. The innermost
// scope that holds a value decides; reading through a region captures.
ls_status ls_lower_read(ls_lower_scope *scope, ls_variable *variable,
                        uint64_t *out_ref);
ls_status ls_lower_write(ls_lower_scope *scope, ls_variable *variable,
                         uint64_t ref);
// Sets the value of a variable from the start of a region on that writes it,
// and around which it has been read.
ls_status ls_lower_set(ls_lower_scope *scope, ls_variable *variable,
                       uint64_t ref);
// Returns true if the components of a distributed variable are worth something
// by themselves at this point.
bool ls_lower_is_split(const ls_lower_scope *scope,
                       const ls_variable *container);
// Finds out whether its components have different values here, where it is
// nobody's own.
ls_status ls_lower_differs(ls_lower_scope *scope, const ls_variable *variable,
                           bool *out_differs);
// Settles the uses of distributed variables of which components were written:
// one write of all where the values are one, else one of each.
ls_status ls_lower_containers(ls_lower_scope *scope);

#endif  // LS_LOWER_SCOPE_H_
