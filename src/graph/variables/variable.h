// SPDX-License-Identifier: Apache-2.0
//
// Variables, private part: identity and rules. The values are in runtime/.
#ifndef LS_GRAPH_VARIABLES_VARIABLE_H_
#define LS_GRAPH_VARIABLES_VARIABLE_H_

#include "graph/graph.h"
#include "lockstep/variable.h"
#include "lockstep/variable_parts.h"

extern const ls_object_type ls_variable_object_type;

// Rules for reads and writes of a variable that stands for others (a
// distributed variable or a handle); static tables in distribute/.
typedef struct ls_variable_rules ls_variable_rules;
struct ls_variable_rules {
  const char *class_name;
  // True for variables of strategies whose replicas run in replicated
  // computations (flow.h): there a replica accesses its own variable by a
  // handle.
  bool replicates;
  // For handles: true if the handle stands for all of its targets at once. Ops
  // then use a handle op only in replicated computations and exports.
  bool is_replicated;
  ls_tensor (*read)(ls_variable *container);
  ls_tensor (*as_tensor)(ls_variable *container);
  ls_tensor (*write)(ls_variable *container, uint16_t op, ls_tensor value);
  ls_tensor (*scatter)(ls_variable *container, ls_scatter_op op,
                       ls_tensor indices, ls_tensor updates);
  // Returns the variable that an access from the current thread uses.
  ls_variable *(*here)(const ls_variable *variable);
  // Two functions: one combines the components' values to the value saved in a
  // file, the other splits a restored value for the components. The caller owns
  // the arrays. NULL: the first component's value is saved, and restored to all
  // components.
  ls_status (*make_saved)(ls_variable *container, ls_array *const *components,
                          ls_array **out_value);
  ls_status (*share_saved)(ls_variable *container, const ls_array *value,
                           ls_array **out_share);
};

// A queue of variables that are initialized later, all at once.
typedef struct ls_late_values {
  ls_status (*initialize)(struct ls_late_values *self);
} ls_late_values;

struct ls_variable {
  ls_object object;
  ls_allocator *allocator;
  ls_runtime *runtime;
  char *name;
  ls_type type;
  uint64_t id;  // Unique in the runtime, in order of creation.
  bool trainable;
  ls_graph *graph;  // The variable's build graph; NULL in eager mode.
  ls_op initializer;
  ls_tensor initial_value;  // In a build graph only.
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  char *device;         // Canonical; NULL: none.
  ls_object *strategy;  // The strategy that made the variable; NULL: none.

  ls_callback constraint;
  void *constraint_user;

  // For a container: its components and rules. A component points to its
  // container as long as that exists. Users see `class_name`, which depends on
  // the policy (distribute/variables/variable_create.h).
  const char *class_name;
  void *policy;
  const ls_variable_rules *rules;
  ls_variable **components;
  size_t num_components;
  size_t *own;  // By replica: its component. NULL: the component of its id.
  ls_variable *container;
  // Id of a component's container, even after the container was freed; else the
  // variable's own id.
  uint64_t family;
  size_t index;
  // For a handle (distribute/variables/handle.c): its targets, and the handle's
  // state.
  ls_variable **targets;
  size_t num_targets;
  ls_object *kept;
  ls_variable *packed;  // For a container: a packed handle over its components.
  // For a container whose replicas have several cores: a handle over each
  // replica's cores, which users see in place of the component. NULL: none.
  ls_variable **replicated;
  ls_slice_info *slice;  // NULL: none.
  // Id of the file (state/saved_file.c) that set the first value if the
  // variable has not been restored since; else 0.
  uint64_t restored_from;
  // The strategy's queue that holds the first value, for variables with a late
  // first value and their components; the value is stored before the first read
  // or write. NULL: it is stored.
  ls_late_values *late;
  bool joining;     // True if it will be a component without a stored value.
  bool is_dropped;  // True if a refused call that made it removed its ops.
};

// Opens a scope in which variables are made for use with `variable`: plain ones
// if it is plain or NULL, one for all replicas that are traced together, else
// as enclosing scopes decide. Ends with ls_scope_end.
void ls_beside_begin(ls_scope *scope, const ls_variable *variable);
#define LS_BESIDE_SCOPE(variable) LS_SCOPE_(ls_beside_begin, variable)

// Returns a component as users see it: a handle over the replica's cores if
// there is one.
static inline ls_variable *ls_variable_seen(const ls_variable *container,
                                            size_t index) {
  return container->replicated != NULL ? container->replicated[index]
                                       : container->components[index];
}
// Returns the component that is a replica's own.
static inline ls_variable *ls_variable_own(const ls_variable *container,
                                           size_t replica) {
  return container
      ->components[container->own == NULL ? replica : container->own[replica]];
}
// Returns the variable that a node reads or writes. In a one-replica
// computation, whose ops are lowered into the enclosing graph, it is the
// component on that replica's core.
ls_variable *ls_node_variable(const ls_node *node);
// Returns the component of the node's variable on the core of each of
// `replicas` replicas; NULL without a mark LS_MARK_CORE_COPIES that lists them.
const int64_t *ls_node_core_copies(const ls_node *node, size_t replicas);
// Returns the variable that an op names, or NULL: that of its container.
ls_variable *ls_node_named_variable(const ls_node *node);
// Returns true if the op, or an op in its regions, writes a variable of the
// same family: the variable, its container or a component.
bool ls_node_writes(const ls_node *node, const ls_variable *variable);
// Returns the plain variable for the current thread. For a container: the
// component of the current replica or update; across replicas the one on the
// current device, else the first. For a handle: its target.
ls_variable *ls_variable_here(const ls_variable *variable);
// Returns the variable to which an access refers. In an export without
// components, that is the first component of a container or its packed handle;
// else it is the variable itself.
ls_variable *ls_variable_meant(const ls_variable *variable);
// Stores the variable's first value before a read or write, with all others in
// its queue.
static inline ls_status ls_variable_settle(const ls_variable *variable) {
  ls_late_values *late = __atomic_load_n(&variable->late, __ATOMIC_ACQUIRE);
  return late == NULL ? ls_ok() : late->initialize(late);
}
// Returns true if a strategy makes variables in the current scope.
bool ls_in_strategy_scope(void);
// Returns true if only the library's own creator follows.
bool ls_creator_is_last(const ls_creator *creator);
// Makes a variable without ops or value, for the parser and for creation.
ls_status ls_variable_make(ls_runtime *runtime, const char *name, ls_type type,
                           bool trainable, ls_variable **out_variable);
// Makes the op `type` on the variable itself, without its rules.
ls_tensor ls_variable_op(uint16_t type, ls_variable *variable,
                         const ls_tensor *value);
ls_tensor ls_variable_scatter_op(ls_variable *variable, ls_scatter_op op,
                                 ls_tensor indices, ls_tensor updates);

#endif  // LS_GRAPH_VARIABLES_VARIABLE_H_
