// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Variables: identity and rules. A variable has a name, a type and flags, but
// no value: values are in stores, one for eager, one in each session.
//
// Counted. Reads and writes are ops of the thread's current graph.
//
// Threads: a variable may be used in any number of threads at the same time.
// Each read gives a whole value, never a part of a write nor one older than
// another read that came before; writes are one after another, and what changes
// a value loses nobody's change. Calls and runs follow the same rules with all
// the variables that they use: see function.h. The release of the last
// reference is ordered against all other uses by the caller.
#ifndef LOCKSTEP_VARIABLE_H_
#define LOCKSTEP_VARIABLE_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_variable ls_variable;

// A callback over nests; `args` is lent, the result is the caller's.
typedef ls_nest (*ls_callback)(ls_nest args, void *user);

// When the components of a distributed variable are made equal.
typedef enum ls_variable_synchronization {
  LS_SYNCHRONIZATION_AUTO = 0,  // In a strategy: ON_WRITE.
  LS_SYNCHRONIZATION_NONE = 1,
  LS_SYNCHRONIZATION_ON_WRITE = 2,
  LS_SYNCHRONIZATION_ON_READ = 3,
} ls_variable_synchronization;

// How values of several replicas become one.
typedef enum ls_variable_aggregation {
  LS_AGGREGATION_NONE = 0,
  LS_AGGREGATION_SUM = 1,
  LS_AGGREGATION_MEAN = 2,
  LS_AGGREGATION_ONLY_FIRST_REPLICA = 3,
} ls_variable_aggregation;

// Into how many parts each dimension of a variable is cut: `parts` has room for
// one number a dimension.
typedef ls_status (*ls_partitioner)(ls_dtype dtype, ls_shape shape,
                                    int64_t *parts);

// How to make a variable. Zero in a field means its default.
typedef struct ls_variable_options {
  const char *name;  // Within the current name scope. Default "Variable".
  ls_dtype dtype;    // Default: the initial value's.
  ls_shape shape;    // Used with an initializer callback.
  // The initial value: an array (lent, copied), else a tensor, else what the
  // callback returns (a tensor leaf of this dtype and shape), else zeros of
  // `dtype` and `shape`. Ops for it are made in the init scope.
  const ls_array *initial_array;
  ls_tensor initial_value;
  ls_callback initializer;  // args: none.
  void *initializer_user;
  // What another variable started with; in place of the others.
  ls_variable *initial_of;
  // Of which open file of saved values (lockstep/saved_file.h) `initial_array`
  // is, by its number, which ls_saved_file_create_variable knows. 0: none.
  uint64_t restored_from;
  // In eager: no value at all until it is assigned, only `dtype` and `shape`.
  // In a build graph no variable has one before its initializer has run.
  bool no_value;
  ls_flag trainable;  // Default on, but off where synchronization is ON_READ.
  // What follows counts in the scope of a strategy.
  ls_variable_synchronization synchronization;
  ls_variable_aggregation aggregation;
  // In a build graph: the collections to be in. NULL: "variables". Not NULL
  // and none: no collection.
  const char *const *collections;
  size_t num_collections;
  // Beside this one, on its device; in a strategy that made it a component on
  // each of its devices, in its order. Lent for the call.
  ls_variable *colocate_with;
  // In a strategy: a component on each of these, in their order, also on one.
  // NULL: all of the strategy's. Not with colocate_with.
  const char *const *devices;
  size_t num_devices;
  // In a strategy: no distributed variable but a plain one, there.
  const char *single_device;
  // In a strategy: no distributed variable but what the next creator out makes,
  // which does not see this.
  bool skip_mirrored;
  // What its value becomes after an optimizer has moved it: args is the value,
  // the result a tensor of the same type. Default: stays.
  ls_callback constraint;
  void *constraint_user;
  // Of a strategy with lazy variables: initialize it with others, later. No
  // effect elsewhere.
  bool batch_initialization;
  // Strategies drop both: no variable of theirs is cut, or kept elsewhere for
  // reading. Outside they are UNIMPLEMENTED.
  const char *caching_device;
  ls_partitioner partitioner;
} ls_variable_options;

#define LS_COLLECTION_GLOBAL_VARIABLES "variables"
#define LS_COLLECTION_TRAINABLE_VARIABLES "trainable_variables"
#define LS_COLLECTION_GLOBAL_STEP "global_step"
#define LS_COLLECTION_TRAIN_OP "train_op"
// Ops that are to run with each step though nobody fetches them, such as those
// that move the averages of a batch norm. A step of an optimizer depends on
// those that were there before it: see ls_optimizer_minimize. One may add one's
// own, and take some out.
#define LS_COLLECTION_UPDATE_OPS "update_ops"

// Creates a variable where the init scope leads: in a build graph it gets an
// initializer op, in eager it is initialized at once. The caller owns a
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
// Whether it has a value at this point, a bool scalar; of a distributed
// variable whether all components have one. The last op gets the name (NULL:
// its type).
LS_PLACED ls_tensor ls_variable_is_initialized(ls_variable *variable,
                                               const char *name);
// What it starts with in its build graph; of a distributed variable chosen as
// its device is. Failed in eager.
LS_PLACED ls_tensor ls_variable_initial_value(const ls_variable *variable);
LS_PLACED ls_tensor ls_variable_constrain(const ls_variable *variable,
                                          ls_tensor value);

// The value at this point of the current graph. Of a distributed variable: in a
// replica that of the replica's component, else that of the component on the
// current device or the first; one that is synchronized on read is aggregated
// then.
LS_PLACED ls_tensor ls_variable_read(ls_variable *variable);
// The same for use as an operand: also in the scope of another strategy.
LS_PLACED ls_tensor ls_variable_as_tensor(ls_variable *variable);
// Its rows at some indices, which no handle over it keeps.
LS_PLACED ls_tensor ls_variable_sparse_read(ls_variable *variable,
                                            ls_tensor indices);
// Writes. Each returns the value afterwards.
LS_PLACED ls_tensor ls_variable_assign(ls_variable *variable, ls_tensor value);
LS_PLACED ls_tensor ls_variable_assign_add(ls_variable *variable,
                                           ls_tensor delta);
LS_PLACED ls_tensor ls_variable_assign_sub(ls_variable *variable,
                                           ls_tensor delta);

// Writes the rows at some indices: as ls_scatter, with the variable in place of
// x. Only those rows are touched, where nothing else needs what was there
// before. For an effect alone: no gradient passes.
LS_PLACED ls_tensor ls_variable_scatter(ls_variable *variable, ls_scatter_op op,
                                        ls_tensor indices, ls_tensor updates);
LS_PLACED ls_tensor ls_variable_scatter_update(ls_variable *variable,
                                               ls_tensor indices,
                                               ls_tensor updates);
LS_PLACED ls_tensor ls_variable_scatter_add(ls_variable *variable,
                                            ls_tensor indices,
                                            ls_tensor updates);

// A leaf that holds the variable: takes one more reference.
LS_API ls_nest ls_nest_variable(ls_variable *variable);
// The variable of a leaf, lent; NULL if it is none.
LS_API ls_variable *ls_nest_as_variable(ls_nest nest);

// The op that runs all initializers of a build graph's variables.
LS_PLACED ls_op ls_global_initializer(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_VARIABLE_H_
