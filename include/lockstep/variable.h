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

// Creates a variable and gives its value where the thread is: a cast of it,
// where a scope of bfloat16 stores it otherwise.
LS_API LS_MUST_USE ls_status ls_get_variable(const ls_variable_options *options,
                                             ls_variable **out_variable,
                                             ls_tensor *out_value);
// Inside, what ls_get_variable makes of bf16 is stored as f32, so that small
// changes add up, and its value is bf16; initial values are converted. Names
// get the prefix of the name scope `name`, NULL or "": none. The pair of
// ls_scope_end.
LS_API void ls_bfloat16_scope_begin(ls_scope *scope, const char *name);
#define LS_BFLOAT16_SCOPE(name) LS_SCOPE_(ls_bfloat16_scope_begin, name)

// ---- Creators --------------------------------------------------------------
// What makes variables inside of a scope: the innermost creator first, each
// asking the next one out; the last makes a plain variable.
typedef struct ls_creator ls_creator;
// The caller owns a reference to `*out_variable`.
typedef ls_status (*ls_variable_creator)(const ls_creator *next,
                                         const ls_variable_options *options,
                                         void *user,
                                         ls_variable **out_variable);
LS_API LS_MUST_USE ls_status
ls_creator_create(const ls_creator *creator, const ls_variable_options *options,
                  ls_variable **out_variable);
// Inside, variables are made by `create`; the pair of ls_scope_end.
LS_API void ls_creator_scope_begin(ls_scope *scope, ls_variable_creator create,
                                   void *user);
#define LS_CREATOR_SCOPE(create, user)                                         \
  LS_SCOPE_(ls_creator_scope_begin, create, user)

// ---- Variables -------------------------------------------------------------
LS_API ls_variable *ls_variable_retain(ls_variable *variable);
LS_API void ls_variable_release(ls_variable *variable);

LS_API const char *ls_variable_name(const ls_variable *variable);
LS_API ls_dtype ls_variable_dtype(const ls_variable *variable);
LS_API ls_shape ls_variable_shape(const ls_variable *variable);
LS_API bool ls_variable_is_trainable(const ls_variable *variable);
// What it was made with; AUTO and NONE of a plain variable.
LS_API ls_variable_synchronization
ls_variable_synchronization_of(const ls_variable *variable);
LS_API ls_variable_aggregation
ls_variable_aggregation_of(const ls_variable *variable);
// The canonical name of its device, lent; "" when it has none. Of a distributed
// variable: in a replica or update the device of that component, else of the
// one on the current device, else of the first; in a computation of a TPU
// strategy it is on none.
LS_API const char *ls_variable_device(const ls_variable *variable);
// Of a distributed variable, the container: how many components it has, and the
// i-th, lent (NULL when there is none). 0 of any other.
LS_API size_t ls_variable_num_components(const ls_variable *variable);
LS_API ls_variable *ls_variable_component(const ls_variable *variable,
                                          size_t index);
// The build graph it was made in; NULL: eager.
LS_API ls_graph *ls_variable_graph(const ls_variable *variable);
// A number that no other variable ever has; of a distributed one that of its
// first component.
LS_API uint64_t ls_variable_id(const ls_variable *variable);
// The op that initializes it in its build graph; failed in eager. Another one
// can be set; that of a distributed variable runs those of all components.
LS_API ls_op ls_variable_initializer(const ls_variable *variable);
//   LS_INVALID_ARGUMENT  no op of its build graph.
LS_API LS_MUST_USE ls_status ls_variable_set_initializer(ls_variable *variable,
                                                         ls_op op);
// Whether it has a value at this point, a bool scalar; of a distributed
// variable whether all components have one. The last op gets the name (NULL:
// its type).
LS_PLACED ls_tensor ls_variable_is_initialized(ls_variable *variable,
                                               const char *name);
// What it starts with in its build graph; of a distributed variable chosen as
// its device is. Failed in eager.
LS_PLACED ls_tensor ls_variable_initial_value(const ls_variable *variable);
// A value as the variable's constraint wants it; without one as it is.
// Optimizers ask for it.
LS_API bool ls_variable_has_constraint(const ls_variable *variable);
LS_PLACED ls_tensor ls_variable_constrain(const ls_variable *variable,
                                          ls_tensor value);
// That a variable is a slice of a larger one, kept for who asks: a saver writes
// it by its own name and shape. Of a distributed variable set on every
// component.
typedef struct ls_slice_info {
  char full_name[256];  // Of the whole.
  ls_shape full_shape;
  ls_shape offset;  // Where this one begins, in each dimension.
} ls_slice_info;
LS_API LS_MUST_USE ls_status ls_variable_set_slice(ls_variable *variable,
                                                   const ls_slice_info *slice);
LS_API const ls_slice_info *ls_variable_slice(const ls_variable *variable);

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
