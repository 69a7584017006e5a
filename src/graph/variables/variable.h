// SPDX-License-Identifier: Apache-2.0
//
// The inside of a variable: identity and rules, no value.
#ifndef LS_GRAPH_VARIABLES_VARIABLE_H_
#define LS_GRAPH_VARIABLES_VARIABLE_H_

#include "graph/graph.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"

extern const ls_object_type ls_variable_object_type;

// Reads and writes of a variable that stands for others, a distributed one or a
// handle; static data, see distribute/.
typedef struct ls_variable_rules ls_variable_rules;
struct ls_variable_rules {
  const char *class_name;
  // For strategies whose replicas are replicated computations (flow.h): in one
  // all accesses are of the replica's own, through its handle.
  bool replicates;
  // For a handle: it is all of its targets, not one of them, and has itself a
  // handle in replicated computations and exports only.
  bool is_replicated;
  ls_tensor (*read)(ls_variable *container);
  ls_tensor (*as_tensor)(ls_variable *container);
  ls_tensor (*write)(ls_variable *container, uint16_t op, ls_tensor value);
  ls_tensor (*scatter)(ls_variable *container, ls_scatter_op op,
                       ls_tensor indices, ls_tensor updates);
  // The variable that it is where the thread is.
  ls_variable *(*here)(const ls_variable *variable);
  // Makes what a file holds of the components' values, and what each component
  // gets of it; arrays of the caller's. NULL: the first one's, and the same.
  ls_status (*make_saved)(ls_variable *container, ls_array *const *components,
                          ls_array **out_value);
  ls_status (*share_saved)(ls_variable *container, const ls_array *value,
                           ls_array **out_share);
};

// Keeps the first values of variables that get them later, all at once.
typedef struct ls_late_values {
  ls_status (*initialize)(struct ls_late_values *self);
} ls_late_values;

struct ls_variable {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  char *name;
  ls_type type;
  uint64_t id;  // Unique in the runtime's life; the order of creation.
  bool trainable;
  ls_graph *graph;  // Its build graph; NULL in eager.
  ls_op initializer;
  ls_tensor initial_value;  // In a build graph.
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  char *device;         // Canonical; NULL: none.
  ls_object *strategy;  // That made it; NULL: none.

  ls_callback constraint;
  void *constraint_user;

  // For a container: what it is made of, and its rules. A component knows its
  // container as long as that lives. Its class is what it is called; its policy
  // (distribute/variables/variable_create.h) goes with it.
  const char *class_name;
  void *policy;
  const ls_variable_rules *rules;
  ls_variable **components;
  size_t num_components;
  size_t *own;  // Which one is replica r's. NULL: number r.
  ls_variable *container;
  uint64_t family;  // The id of its container, even of one that has gone; else
                    // its own.
  size_t index;
  // For a handle (distribute/variables/handle.c): what it stands for, and what
  // it keeps.
  ls_variable **targets;
  size_t num_targets;
  ls_object *kept;
  ls_variable *packed;  // Of a container: a packed handle over its components.
  // For a container whose replicas have several cores: for each component the
  // handle over the replica's cores, which is what users see of it. NULL: none.
  ls_variable **replicated;
  ls_slice_info *slice;    // NULL: none.
  uint64_t restored_from;  // The file that it started with and that has not
                           // been restored since (state/saved_file.c); or 0.
  // For one whose first value has not been stored, and of its components:
  // before the first read or write it is. The strategy's, NULL: it is there.
  ls_late_values *late;
  bool joining;  // Will be a component: a value of its own is not stored yet.
  bool is_dropped;  // Its ops went with the refused call that made it.
};

// Inside, variables are made beside `variable`: plain if it is (or is NULL),
// else as the scopes around say. The pair of ls_scope_end.
void ls_beside_begin(ls_scope *scope, const ls_variable *variable);
#define LS_BESIDE_SCOPE(variable) LS_SCOPE_(ls_beside_begin, variable)

// A component as users see it.
static inline ls_variable *ls_variable_seen(const ls_variable *container,
                                            size_t index) {
  return container->replicated != NULL ? container->replicated[index]
                                       : container->components[index];
}
// The component of a container that is a replica's own.
static inline ls_variable *ls_variable_own(const ls_variable *container,
                                           size_t replica) {
  return container
      ->components[container->own == NULL ? replica : container->own[replica]];
}
// The variable of a read or write. Of a replicated computation's only replica,
// whose ops stand in the graph around it when they are lowered, it is the
// component on that replica's core.
ls_variable *ls_node_variable(const ls_node *node);
// The plain variable that this one is where the thread is: of a container the
// component of the replica or update, across replicas that on the current
// device, else the first; of a handle what it stands for.
ls_variable *ls_variable_here(const ls_variable *variable);
// Returns what an access of it means where the thread is: in an export that
// knows nothing of components the first one, for a container and its packed
// handle; else itself.
ls_variable *ls_variable_meant(const ls_variable *variable);
// Before a read or write: gives it its first value, with all that wait.
static inline ls_status ls_variable_settle(const ls_variable *variable) {
  ls_late_values *late = __atomic_load_n(&variable->late, __ATOMIC_ACQUIRE);
  return late == NULL ? ls_ok() : late->initialize(late);
}
// Returns true if variables that are made here are a strategy's.
bool ls_in_strategy_scope(void);
// A variable without ops or value: what the parser and the maker use.
ls_status ls_variable_make(ls_runtime *runtime, const char *name, ls_type type,
                           bool trainable, ls_variable **out_variable);
// The op that does `type` to the variable itself, whatever it belongs to.
ls_tensor ls_variable_op(uint16_t type, ls_variable *variable,
                         const ls_tensor *value);
ls_tensor ls_variable_scatter_op(ls_variable *variable, ls_scatter_op op,
                                 ls_tensor indices, ls_tensor updates);

#endif  // LS_GRAPH_VARIABLES_VARIABLE_H_
