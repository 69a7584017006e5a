// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Variables: identity and rules. A variable has a name, a type and flags, but
// no value: values are in stores, one for eager, one in each session.
//
// Reference-counted. Reads and writes are ops of the thread's current graph.
//
// Threads: any number of threads may use a variable at the same time. Each read
// gives a complete value, never part of a write, and never one older than that
// of an earlier read; writes happen one after another, and updates are atomic.
// Calls and runs follow the same rules for all the variables that they use: see
// function.h. The caller must order the release of the last reference after all
// other uses.
#ifndef LOCKSTEP_VARIABLE_H_
#define LOCKSTEP_VARIABLE_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_variable ls_variable;

// A callback over nests; `args` is lent, the caller of the callback owns the
// result.
typedef ls_nest (*ls_callback)(ls_nest args, void *user);

// When the components of a distributed variable are made equal.
typedef enum ls_variable_synchronization {
  LS_SYNCHRONIZATION_AUTO = 0,  // In a strategy: ON_WRITE.
  LS_SYNCHRONIZATION_NONE = 1,
  LS_SYNCHRONIZATION_ON_WRITE = 2,
  LS_SYNCHRONIZATION_ON_READ = 3,
} ls_variable_synchronization;

// Aggregation of the values of several replicas.
typedef enum ls_variable_aggregation {
  LS_AGGREGATION_NONE = 0,
  LS_AGGREGATION_SUM = 1,
  LS_AGGREGATION_MEAN = 2,
  LS_AGGREGATION_ONLY_FIRST_REPLICA = 3,
} ls_variable_aggregation;

// Sets the number of parts along each dimension of a variable: `parts` has room
// for one number per dimension.
typedef ls_status (*ls_partitioner)(ls_dtype dtype, ls_shape shape,
                                    int64_t *parts);

// Options of a variable. Zero in a field means its default.
typedef struct ls_variable_options {
  const char *name;  // Name within the current name scope. Default "Variable".
  ls_dtype dtype;    // Default: the initial value's.
  ls_shape shape;    // Used with an initializer callback.
  // The initial value: an array (lent, copied), else a tensor, else the
  // callback's result (a tensor leaf of this dtype and shape), else zeros of
  // `dtype` and `shape`. Ops for it are made in the init scope.
  const ls_array *initial_array;
  ls_tensor initial_value;
  ls_callback initializer;  // args: none.
  void *initializer_user;
  // Uses the initial value of another variable; instead of the others.
  ls_variable *initial_of;
  // Number of the open file of saved values (lockstep/saved_file.h) that
  // `initial_array` comes from; set by ls_saved_file_create_variable. 0: none.
  uint64_t restored_from;
  // In eager: has no value until it is assigned, only `dtype` and `shape`. In a
  // build graph no variable has a value before its initializer has run.
  bool no_value;
  ls_flag trainable;  // Default on, but off if synchronization is ON_READ.
  // The following apply in the scope of a strategy.
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  // In a build graph: collections to add the variable to. NULL: "variables". An
  // empty list: none.
  const char *const *collections;
  size_t num_collections;
  // Creates it on the device of this one; in a strategy that made that one,
  // with a component on each of its devices, in its order. Lent for the call.
  ls_variable *colocate_with;
  // In a strategy: a component on each of these devices, in their order, also
  // if there is only one. NULL: all of the strategy's. Not with colocate_with.
  const char *const *devices;
  size_t num_devices;
  // In a strategy: makes a plain variable, on this device, instead of a
  // distributed one.
  const char *single_device;
  // In a strategy: makes the variable of the next outer creator, which does not
  // see this field, instead of a distributed one.
  bool skip_mirrored;
  // Maps the value after an optimizer has updated it: args is the value, the
  // result a tensor of the same type. Default: unchanged.
  ls_callback constraint;
  void *constraint_user;
  // In a strategy with lazy variables: initializes it together with others,
  // later. No effect elsewhere.
  bool batch_initialization;
  // Strategies drop both: their variables are neither partitioned nor cached.
  // Outside they are UNIMPLEMENTED.
  const char *caching_device;
  ls_partitioner partitioner;
} ls_variable_options;

#define LS_COLLECTION_GLOBAL_VARIABLES "variables"
#define LS_COLLECTION_LOCAL_VARIABLES "local_variables"  // Not in checkpoints.
#define LS_COLLECTION_TRAINABLE_VARIABLES "trainable_variables"
#define LS_COLLECTION_GLOBAL_STEP "global_step"
#define LS_COLLECTION_TRAIN_OP "train_op"
// Ops that must run with each step although nothing fetches them, such as
// updates of a batch norm's moving averages. A step of an optimizer depends on
// those that were added before it: see ls_optimizer_minimize. Programs may add
// and remove ops.
#define LS_COLLECTION_UPDATE_OPS "update_ops"

// Creates a variable in the graph of the init scope: in a build graph it gets
// an initializer op, in eager it is initialized at once. The caller owns a
// reference.
//   LS_INVALID_ARGUMENT  no dtype, or an initial value of another type; with
//                        `no_value` an initial value, or a build graph.
LS_API LS_MUST_USE ls_status ls_variable_create(
    const ls_variable_options *options, ls_variable **out_variable);

// ---- Variables -------------------------------------------------------------
LS_API ls_variable *ls_variable_retain(ls_variable *variable);
LS_API void ls_variable_release(ls_variable *variable);

LS_API const char *ls_variable_name(const ls_variable *variable);
LS_API ls_dtype ls_variable_dtype(const ls_variable *variable);
LS_API ls_shape ls_variable_shape(const ls_variable *variable);
LS_API bool ls_variable_is_trainable(const ls_variable *variable);
// Returns true, as a bool scalar, if it has a value at this point; for a
// distributed variable if all components have one. The last op gets the name
// (NULL: its type).
LS_PLACED ls_tensor ls_variable_is_initialized(ls_variable *variable,
                                               const char *name);
// Returns its initial value in its build graph; for a distributed variable
// chosen as its device is. Failed in eager.
LS_PLACED ls_tensor ls_variable_initial_value(const ls_variable *variable);
LS_PLACED ls_tensor ls_variable_constrain(const ls_variable *variable,
                                          ls_tensor value);

// Reads the value at this point of the current graph. Of a distributed
// variable: in a replica that of the replica's component, else that of the
// component on the current device or the first; one that is synchronized on
// read is then aggregated.
LS_PLACED ls_tensor ls_variable_read(ls_variable *variable);
// Reads it for use as an operand: also in the scope of another strategy.
LS_PLACED ls_tensor ls_variable_as_tensor(ls_variable *variable);
// Reads its rows at some indices; no caching handle keeps them.
LS_PLACED ls_tensor ls_variable_sparse_read(ls_variable *variable,
                                            ls_tensor indices);
// Writes. Each returns the new value.
LS_PLACED ls_tensor ls_variable_assign(ls_variable *variable, ls_tensor value);
LS_PLACED ls_tensor ls_variable_assign_add(ls_variable *variable,
                                           ls_tensor delta);
LS_PLACED ls_tensor ls_variable_assign_sub(ls_variable *variable,
                                           ls_tensor delta);

// Writes the rows at some indices: as ls_scatter, with the variable in place of
// x. Only those rows are modified in memory, if nothing else needs the old
// value. For its effect only: no gradient passes.
LS_PLACED ls_tensor ls_variable_scatter(ls_variable *variable, ls_scatter_op op,
                                        ls_tensor indices, ls_tensor updates);
LS_PLACED ls_tensor ls_variable_scatter_update(ls_variable *variable,
                                               ls_tensor indices,
                                               ls_tensor updates);
LS_PLACED ls_tensor ls_variable_scatter_add(ls_variable *variable,
                                            ls_tensor indices,
                                            ls_tensor updates);

// Makes a leaf that holds the variable: adds a reference.
LS_API ls_nest ls_nest_variable(ls_variable *variable);
// Returns the variable of a leaf, lent; NULL if it is none.
LS_API ls_variable *ls_nest_as_variable(ls_nest nest);

// Makes the op that runs all initializers of a build graph's variables.
LS_PLACED ls_op ls_global_initializer(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_VARIABLE_H_
