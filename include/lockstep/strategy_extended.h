// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Extended calls of strategies: devices, destinations, updates, components of
// values, colocation and handles of variables. For code that is written for any
// strategy, such as optimizers and layers; in TensorFlow this is
// StrategyExtended.
//
// Threads: as in lockstep/strategy.h.
#ifndef LOCKSTEP_STRATEGY_EXTENDED_H_
#define LOCKSTEP_STRATEGY_EXTENDED_H_

#include "lockstep/cross_device.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- What it is ------------------------------------------------------------
// Canonical names of all devices, in replica order: writes up to `capacity`,
// lent for the strategy's life. `*out_count` is their number.
//   LS_FAILED_PRECONDITION  the default strategy, which has none.
LS_API LS_MUST_USE ls_status
ls_strategy_worker_devices(const ls_strategy *strategy, const char **devices,
                           size_t capacity, size_t *out_count);
LS_API LS_MUST_USE ls_status
ls_strategy_parameter_devices(const ls_strategy *strategy, const char **devices,
                              size_t capacity, size_t *out_count);
// Finds where state that belongs to no variable lives: on all devices; on a TPU
// strategy the host of the first one; on the default strategy the device of the
// variable with the smallest name.
LS_API LS_MUST_USE ls_status ls_strategy_non_slot_devices(
    const ls_strategy *strategy, ls_variable *const *variables,
    size_t num_variables, const char **devices, size_t capacity,
    size_t *out_count);
// A PerReplica of integers: component k is k. In cross-replica context only.
LS_API LS_MUST_USE ls_status
ls_strategy_worker_device_index(ls_strategy *strategy, ls_nest *out_index);
LS_API bool ls_strategy_between_graph(const ls_strategy *strategy);
LS_API bool ls_strategy_should_init(const ls_strategy *strategy);
LS_API bool ls_strategy_should_checkpoint(const ls_strategy *strategy);
LS_API bool ls_strategy_should_save_summary(const ls_strategy *strategy);
LS_API bool ls_strategy_is_multi_worker(const ls_strategy *strategy);
LS_API bool ls_strategy_has_global_batches(const ls_strategy *strategy);
// Returns true if replicas without data get empty values where rows come
// unevenly.
LS_API bool ls_strategy_allows_partial_batches(const ls_strategy *strategy);
// Returns true if its programs want shapes that are known while building.
LS_API bool ls_strategy_needs_static_shapes(const ls_strategy *strategy);
// Returns true if a distributed variable that is made in eager gets one packed
// handle, for functions to capture in place of one a replica. No result depends
// on it. For variables that are made later.
LS_API bool ls_strategy_packs_variables(const ls_strategy *strategy);
LS_API void ls_strategy_set_packs_variables(ls_strategy *strategy, bool packs);
// Returns true if its variables are of one class, with a policy each.
LS_API bool ls_strategy_uses_policies(const ls_strategy *strategy);
// Returns its cross-device ops, lent until they are replaced; NULL on the
// default strategy.
LS_API ls_cross_device *ls_strategy_cross_device(const ls_strategy *strategy);
// Puts others in their place (retained; NULL: reduce to one), for calls made
// after this one. Not while replicas run.
//   LS_FAILED_PRECONDITION  the default strategy.
LS_API LS_MUST_USE ls_status ls_strategy_set_cross_device(
    ls_strategy *strategy, ls_cross_device *cross_device);
LS_API ls_flag ls_strategy_prefetch(const ls_strategy *strategy);
LS_API void ls_strategy_set_prefetch(ls_strategy *strategy, ls_flag prefetch);

// ---- Scopes ----------------------------------------------------------------
// Returns true if the strategy made the variable, or a component of it; of the
// default strategy, if no strategy did.
LS_API bool ls_strategy_made(const ls_strategy *strategy,
                             const ls_variable *variable);
// The strategy that made it, lent; NULL: none.
LS_API ls_strategy *ls_variable_strategy(const ls_variable *variable);

// ---- Losses ----------------------------------------------------------------
// Inside, on this thread, losses of the strategy are scaled for an estimator;
// the pair of ls_scope_end.
LS_API void ls_scale_loss_scope_begin(ls_scope *scope, ls_strategy *strategy);
#define LS_SCALE_LOSS_SCOPE(strategy)                                          \
  LS_SCOPE_(ls_scale_loss_scope_begin, strategy)
// Returns how losses are reduced over the replicas of the strategy in force:
// SUM; in such a scope MEAN, unless the last loss of the current graph was a
// sum
// ("weighted_sum" or "sum").
LS_API ls_reduce_op ls_loss_reduction(void);

// ---- Running ---------------------------------------------------------------
// The same for a plain callback. A TPU strategy calls it once, as replica 0,
// with the arguments as they are, and gives what it returns: it is for the
// cross-replica context of a step.
LS_API LS_MUST_USE ls_status
ls_strategy_call_for_each_replica(ls_strategy *strategy, ls_callback callback,
                                  ls_nest args, void *user, ls_nest *results);

// ---- Values ----------------------------------------------------------------
// The components of a distributed value, in the order of the strategy's devices
// if those are its devices, else by device; of anything else it alone. A list.
LS_API LS_MUST_USE ls_status ls_strategy_unwrap(ls_strategy *strategy,
                                                ls_nest value,
                                                ls_nest *out_list);
// One op that runs after all components; that of the only one, if it has no
// name.
LS_API LS_MUST_USE ls_status ls_strategy_group(ls_strategy *strategy,
                                               ls_nest value, const char *name,
                                               ls_op *out_op);
// The component of a distributed leaf on a device (NULL: the current one) or,
// in the replicas' order, its host; the caller's. Other leaves are their own.
//   LS_INVALID_ARGUMENT  no component is there.
LS_API LS_MUST_USE ls_status ls_distributed_get(ls_nest leaf,
                                                const char *device,
                                                ls_nest *out_component);
// Returns what a component is to the strategy: on a mirrored one its container
// (ls_value_container), on others, as every other value, itself. Lent.
LS_API ls_nest ls_strategy_value_container(const ls_strategy *strategy,
                                           ls_nest leaf);
// Returns true if a component is on the device.
LS_API bool ls_distributed_is_on(ls_nest leaf, const char *device);
// A distributed leaf (or any other) as a tensor where the thread is.
//   LS_FAILED_PRECONDITION  a PerReplica outside of a strategy's replicas.
LS_API LS_MUST_USE ls_status ls_distributed_as_tensor(ls_nest leaf,
                                                      ls_tensor *out_tensor);
//   LS_INVALID_ARGUMENT  of another type than this.
LS_API LS_MUST_USE ls_status ls_distributed_as_tensor_of(ls_nest leaf,
                                                         ls_dtype dtype,
                                                         ls_tensor *out_tensor);
// A nest with `function` of each leaf, and of each component of a distributed
// value, which keeps its kind and devices. The caller owns the result.
//   LS_FAILED_PRECONDITION  a PerReplica in one of several replicas, which sees
//                           its own component alone.
LS_API LS_MUST_USE ls_status ls_distributed_map(ls_nest nest,
                                                ls_leaf_function function,
                                                void *user, ls_nest *out_nest);

// SUM or MEAN from its name, in any case.
//   LS_INVALID_ARGUMENT  another text.
LS_API LS_MUST_USE ls_status ls_reduce_op_parse(const char *text,
                                                ls_reduce_op *out_op);

// The same for one value, to the destinations: a tensor on one device, else a
// Mirrored.
LS_API LS_MUST_USE ls_status ls_strategy_reduce_to(ls_strategy *strategy,
                                                   ls_reduce_op op,
                                                   ls_nest value,
                                                   ls_destinations destinations,
                                                   ls_nest *out_value);
// One result a pair, in their order, as a list.
LS_API LS_MUST_USE ls_status ls_strategy_batch_reduce_to(
    ls_strategy *strategy, ls_reduce_op op, const ls_nest *values,
    const ls_destinations *destinations, size_t count, ls_nest *out_list);
// A tensor on each destination (none given: every device of the strategy), as a
// Mirrored; on one device a tensor. Host scalars come back as they are.
LS_API LS_MUST_USE ls_status
ls_strategy_broadcast_to(ls_strategy *strategy, ls_nest value,
                         ls_destinations destinations, ls_nest *out_value);

// ---- Update, fetch, map ----------------------------------------------------
// Calls fn((component, arguments...)) for each component of the variable, under
// its device: a tuple of the component and component r of each leaf of `args`
// (a tuple). The results are put together by ls_update_regroup.
//
// In a replica it is a merge call: the arguments are those of all replicas.
// What an aggregated ON_WRITE variable is updated with is the same on all: what
// all_reduce, all_gather, a broadcast or a merge call has given, and what is
// one value for all.
//   LS_INVALID_ARGUMENT  not a distributed variable; an argument that is
//                        distributed and not mirrored: nothing has been called.
LS_API LS_MUST_USE ls_status ls_strategy_update(ls_strategy *strategy,
                                                ls_variable *variable,
                                                ls_callback fn, ls_nest args,
                                                void *user, bool group,
                                                ls_nest *out_value);
// The same for each of some devices, without a variable.
LS_API LS_MUST_USE ls_status ls_strategy_update_non_slot(
    ls_strategy *strategy, const char *const *devices, size_t num_devices,
    ls_callback fn, ls_nest args, void *user, bool group, ls_nest *out_value);
// fn (NULL: itself) of a mirrored value or distributed variable, as a tensor on
// one device (NULL: "/device:CPU:0").
LS_API LS_MUST_USE ls_status ls_strategy_fetch(ls_strategy *strategy,
                                               ls_nest value,
                                               const char *destination,
                                               ls_callback fn, void *user,
                                               ls_nest *out_value);
// fn((item, arguments...)) for each item, the k-th on device k mod n: a
// PerReplica of map outputs.
LS_API LS_MUST_USE ls_status ls_strategy_map(ls_strategy *strategy,
                                             const ls_nest *items,
                                             size_t num_items, ls_callback fn,
                                             ls_nest args, void *user,
                                             ls_nest *out_value);

// ---- Variables -------------------------------------------------------------
// SUM or MEAN, as the aggregation says.
//   LS_INVALID_ARGUMENT  it is another one.
LS_API LS_MUST_USE ls_status ls_aggregation_reduce_op(
    ls_variable_aggregation aggregation, ls_reduce_op *out_op);
// OK when new variables can be put beside this one (colocate_vars_with): a
// distributed variable that this very strategy made; or any that it made.
//   LS_INVALID_ARGUMENT  names what it is instead, and who made it.
LS_API LS_MUST_USE ls_status ls_validate_colocate_distributed_variable(
    ls_nest value, const ls_strategy *strategy);
LS_API LS_MUST_USE ls_status ls_validate_colocate(ls_nest value,
                                                  const ls_strategy *strategy);
// Inside, a variable that is synchronized on read, used as a tensor in a
// replica, is what all replicas' components make; the pair of ls_scope_end.
LS_API void ls_sync_on_read_scope_begin(ls_scope *scope);
#define LS_SYNC_ON_READ_SCOPE LS_BARE_SCOPE_(ls_sync_on_read_scope_begin)

// Gives a variable for raw access, lent: itself, or in a replica, an update
// or outside of strategies its component.
//   LS_FAILED_PRECONDITION  a distributed variable in a cross-replica context.
//   LS_UNIMPLEMENTED        of a replicated variable (lockstep/tpu_variable.h),
//                           outside of computations and exports.
LS_API LS_MUST_USE ls_status ls_variable_handle(ls_variable *variable,
                                                ls_variable **out_handle);
// A variable as a reference that others write through: itself.
//   LS_INVALID_ARGUMENT  a distributed variable: use its value
//                        (ls_variable_read).
LS_API LS_MUST_USE ls_status
ls_variable_as_reference(ls_variable *variable, ls_variable **out_reference);
// A variable of its own with the same value, in eager: of a distributed one new
// components on the same devices. The caller owns a reference.
//   LS_FAILED_PRECONDITION  inside of another strategy.
//   LS_UNIMPLEMENTED        a variable of a build graph.
LS_API LS_MUST_USE ls_status ls_variable_copy(ls_variable *variable,
                                              ls_variable **out_copy);
// Describes the op of a variable: that of its handle, in a
// cross-replica context of its first component. Texts are lent.
typedef struct ls_op_description {
  const char *name, *type;
  const ls_graph *graph;  // NULL: eager.
} ls_op_description;
LS_API ls_op_description
ls_variable_op_description(const ls_variable *variable);
// Returns true if all fields are equal.
LS_API bool ls_op_description_equal(const ls_op_description *a,
                                    const ls_op_description *b);

// Scopes for new variables, in either context of the strategy; refused where it
// is not in force, also for a variable that is made inside after it was left.
//   LS_FAILED_PRECONDITION  names the strategy.
// New variables are synchronized on read by SUM or MEAN, and not trainable.
LS_API void ls_sync_on_read_variables_scope_begin(ls_scope *scope,
                                                  ls_strategy *strategy,
                                                  ls_reduce_op method);
LS_API void ls_replica_sync_on_read_variables_scope_begin(
    ls_scope *scope, const ls_replica *replica, ls_reduce_op method);
// New variables have components where `with` (lent until the scope ends) has
// them: a variable that the strategy made, or a distributed value on devices of
// it. (colocate_vars_with)
//   LS_INVALID_ARGUMENT  something else: names it.
LS_API void ls_colocate_variables_scope_begin(ls_scope *scope,
                                              ls_strategy *strategy,
                                              ls_nest with);
#define LS_SYNC_ON_READ_VARIABLES_SCOPE(strategy, method)                      \
  LS_SCOPE_(ls_sync_on_read_variables_scope_begin, strategy, method)
#define LS_COLOCATE_VARIABLES_SCOPE(strategy, with)                            \
  LS_SCOPE_(ls_colocate_variables_scope_begin, strategy, with)

typedef enum ls_write_op {
  LS_WRITE_ASSIGN,
  LS_WRITE_ADD,
  LS_WRITE_SUB,
} ls_write_op;
// Zero in a field means its default.
typedef struct ls_write_options {
  const char *name;    // Of the write ops.
  bool no_read_value;  // The result is the op (in eager none), not the value.
} ls_write_options;
// Writes a variable: the general form of ls_variable_assign. A value is a
// tensor, an array, a host scalar (which gets the variable's type) or a
// distributed value, or a variable. Across replicas the result is a Mirrored of
// what each component is afterwards; in a replica it is that replica's.
//
// Where replicas write an aggregated ON_WRITE variable, a distributed value
// from around them counts as a value of each, as does a variable that each may
// have its own of; another variable is one value for all.
LS_API LS_MUST_USE ls_status ls_variable_write(ls_variable *variable,
                                               ls_write_op op, ls_nest value,
                                               const ls_write_options *options,
                                               ls_nest *out_value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRATEGY_EXTENDED_H_
