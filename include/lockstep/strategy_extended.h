// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Extended calls of strategies: devices, destinations, updates, components of
// values, colocation and handles of variables. For code that works with any
// strategy, such as optimizers and layers; TensorFlow's StrategyExtended.
//
// Threads: as in lockstep/strategy.h.
#ifndef LOCKSTEP_STRATEGY_EXTENDED_H_
#define LOCKSTEP_STRATEGY_EXTENDED_H_

#include "lockstep/cross_device.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Properties ------------------------------------------------------------
// List canonical names of all devices, in replica order: write up to
// `capacity`, lent for the strategy's life. `*out_count` is their number.
//   LS_FAILED_PRECONDITION  the default strategy, which has none.
LS_API LS_MUST_USE ls_status
ls_strategy_worker_devices(const ls_strategy *strategy, const char **devices,
                           size_t capacity, size_t *out_count);
LS_API LS_MUST_USE ls_status
ls_strategy_parameter_devices(const ls_strategy *strategy, const char **devices,
                              size_t capacity, size_t *out_count);
// Lists the devices for state that belongs to no variable: all devices; on a
// TPU strategy the host of the first one; on the default strategy the device of
// the variable with the smallest name.
LS_API LS_MUST_USE ls_status ls_strategy_non_slot_devices(
    const ls_strategy *strategy, ls_variable *const *variables,
    size_t num_variables, const char **devices, size_t capacity,
    size_t *out_count);
// Makes a PerReplica of integers: component k is k. In cross-replica context
// only.
LS_API LS_MUST_USE ls_status
ls_strategy_worker_device_index(ls_strategy *strategy, ls_nest *out_index);
// Return true if the replicas are spread over several processes.
LS_API bool ls_strategy_between_graph(const ls_strategy *strategy);
LS_API bool ls_strategy_is_multi_worker(const ls_strategy *strategy);
LS_API bool ls_strategy_should_init(const ls_strategy *strategy);
// Return true in a process that saves and writes: of several only in rank 0.
LS_API bool ls_strategy_should_checkpoint(const ls_strategy *strategy);
LS_API bool ls_strategy_should_save_summary(const ls_strategy *strategy);
LS_API bool ls_strategy_has_global_batches(const ls_strategy *strategy);
// Returns true if replicas without data get empty values when rows do not
// divide evenly.
LS_API bool ls_strategy_allows_partial_batches(const ls_strategy *strategy);
// Returns true if its programs need shapes that are known while building.
LS_API bool ls_strategy_needs_static_shapes(const ls_strategy *strategy);
// Get and set if a distributed variable created in eager from now on gets one
// packed handle, which functions capture instead of one per replica. No result
// depends on it.
LS_API bool ls_strategy_packs_variables(const ls_strategy *strategy);
LS_API void ls_strategy_set_packs_variables(ls_strategy *strategy, bool packs);
// Returns true if all its variables are of one class, with a policy each.
LS_API bool ls_strategy_uses_policies(const ls_strategy *strategy);
// Returns its cross-device ops, lent until they are replaced; NULL on the
// default strategy.
LS_API ls_cross_device *ls_strategy_cross_device(const ls_strategy *strategy);
// Replaces its cross-device ops (retained; NULL: reduce to one), for later
// calls. Not while replicas run.
//   LS_FAILED_PRECONDITION  the default strategy.
LS_API LS_MUST_USE ls_status ls_strategy_set_cross_device(
    ls_strategy *strategy, ls_cross_device *cross_device);
LS_API ls_flag ls_strategy_prefetch(const ls_strategy *strategy);
LS_API void ls_strategy_set_prefetch(ls_strategy *strategy, ls_flag prefetch);

// ---- Scopes ----------------------------------------------------------------
// Returns true if the strategy made the variable, or a component of it; for the
// default strategy, if no strategy did.
LS_API bool ls_strategy_made(const ls_strategy *strategy,
                             const ls_variable *variable);
// Returns the strategy that made it, lent; NULL: none.
LS_API ls_strategy *ls_variable_strategy(const ls_variable *variable);

// ---- Losses ----------------------------------------------------------------
// Begins a scope in which losses of the strategy on this thread are scaled for
// an estimator; end it with ls_scope_end.
LS_API void ls_scale_loss_scope_begin(ls_scope *scope, ls_strategy *strategy);
#define LS_SCALE_LOSS_SCOPE(strategy)                                          \
  LS_SCOPE_(ls_scale_loss_scope_begin, strategy)
// Returns the reduction of losses over the replicas of the strategy in force:
// SUM; in such a scope MEAN, unless the last loss of the current graph was a
// sum ("weighted_sum" or "sum").
LS_API ls_reduce_op ls_loss_reduction(void);

// ---- Running ---------------------------------------------------------------
// Calls a plain callback for each replica. A TPU strategy calls it once, as
// replica 0, with the arguments unchanged, and returns its result: for the
// cross-replica context of a step.
LS_API LS_MUST_USE ls_status
ls_strategy_call_for_each_replica(ls_strategy *strategy, ls_callback callback,
                                  ls_nest args, void *user, ls_nest *results);

// ---- Values ----------------------------------------------------------------
// Lists the components of a distributed value, in the order of the strategy's
// devices if it is on these, else by device; of anything else itself alone. On
// several ranks: of a value for each replica those of this process.
LS_API LS_MUST_USE ls_status ls_strategy_unwrap(ls_strategy *strategy,
                                                ls_nest value,
                                                ls_nest *out_list);
// Makes one op that runs after all components; without a name and with one
// component that component's op.
LS_API LS_MUST_USE ls_status ls_strategy_group(ls_strategy *strategy,
                                               ls_nest value, const char *name,
                                               ls_op *out_op);
// Gets the component of a distributed leaf for a device (NULL: the current
// one): the one on it or, if the components are in replica order on the
// strategy's devices or their hosts, that replica's. The caller owns it. Other
// leaves are returned.
//   LS_INVALID_ARGUMENT  no component is there.
LS_API LS_MUST_USE ls_status ls_distributed_get(ls_nest leaf,
                                                const char *device,
                                                ls_nest *out_component);
// Returns the strategy's view of a component: on a mirrored one its container
// (ls_value_container), on others, and for every other value, itself. Lent.
LS_API ls_nest ls_strategy_value_container(const ls_strategy *strategy,
                                           ls_nest leaf);
// Returns true if a component is on the device.
LS_API bool ls_distributed_is_on(ls_nest leaf, const char *device);
// Returns a distributed leaf (or any other) as a tensor in the thread's current
// context.
//   LS_FAILED_PRECONDITION  a PerReplica outside of a strategy's replicas.
LS_API LS_MUST_USE ls_status ls_distributed_as_tensor(ls_nest leaf,
                                                      ls_tensor *out_tensor);
// Returns it as a tensor of this type.
//   LS_INVALID_ARGUMENT  it is of another type.
LS_API LS_MUST_USE ls_status ls_distributed_as_tensor_of(ls_nest leaf,
                                                         ls_dtype dtype,
                                                         ls_tensor *out_tensor);
// Applies `function` to each leaf of a nest, and to each component of a
// distributed value, which keeps its kind and devices. The caller owns the
// result.
//   LS_FAILED_PRECONDITION  a PerReplica in one of several replicas, which sees
//                           its own component alone.
LS_API LS_MUST_USE ls_status ls_distributed_map(ls_nest nest,
                                                ls_leaf_function function,
                                                void *user, ls_nest *out_nest);

// Parses SUM or MEAN, in any case.
//   LS_INVALID_ARGUMENT  another text.
LS_API LS_MUST_USE ls_status ls_reduce_op_parse(const char *text,
                                                ls_reduce_op *out_op);

// Reduces one value to the destinations: a tensor on one device, else a
// Mirrored.
LS_API LS_MUST_USE ls_status ls_strategy_reduce_to(ls_strategy *strategy,
                                                   ls_reduce_op op,
                                                   ls_nest value,
                                                   ls_destinations destinations,
                                                   ls_nest *out_value);
// Reduces several values: one result per pair, in order, as a list.
LS_API LS_MUST_USE ls_status ls_strategy_batch_reduce_to(
    ls_strategy *strategy, ls_reduce_op op, const ls_nest *values,
    const ls_destinations *destinations, size_t count, ls_nest *out_list);
// Copies a tensor to each destination (none given: every device of the
// strategy), as a Mirrored; on one device a tensor. Host scalars are returned
// as they are.
LS_API LS_MUST_USE ls_status
ls_strategy_broadcast_to(ls_strategy *strategy, ls_nest value,
                         ls_destinations destinations, ls_nest *out_value);

// ---- Update, fetch, map ----------------------------------------------------
// Calls fn((component, arguments...)) for each component of the variable, under
// its device: a tuple of the component and component r of each leaf of `args`
// (a tuple). ls_update_regroup combines the results.
//
// In a replica it is a merge call: the arguments are those of all replicas.
// Updates of an aggregated ON_WRITE variable must be the same on all: results
// of all_reduce, all_gather, a broadcast or a merge call, and values common to
// all.
//   LS_INVALID_ARGUMENT  not a distributed variable; an argument that is
//                        distributed and not mirrored: nothing has been called.
LS_API LS_MUST_USE ls_status ls_strategy_update(ls_strategy *strategy,
                                                ls_variable *variable,
                                                ls_callback fn, ls_nest args,
                                                void *user, bool group,
                                                ls_nest *out_value);
// Calls fn for each of some devices, without a variable, with the arguments'
// components there; of those that name no devices, the k-th for the k-th device
// of the list. There may be more components than devices.
LS_API LS_MUST_USE ls_status ls_strategy_update_non_slot(
    ls_strategy *strategy, const char *const *devices, size_t num_devices,
    ls_callback fn, ls_nest args, void *user, bool group, ls_nest *out_value);
// Returns fn (NULL: identity) of a mirrored value or distributed variable, as a
// tensor on one device (NULL: "/device:CPU:0").
LS_API LS_MUST_USE ls_status ls_strategy_fetch(ls_strategy *strategy,
                                               ls_nest value,
                                               const char *destination,
                                               ls_callback fn, void *user,
                                               ls_nest *out_value);
// Calls fn((item, arguments...)) for each item, the k-th on device k mod n; the
// result is a PerReplica of map outputs.
LS_API LS_MUST_USE ls_status ls_strategy_map(ls_strategy *strategy,
                                             const ls_nest *items,
                                             size_t num_items, ls_callback fn,
                                             ls_nest args, void *user,
                                             ls_nest *out_value);

// ---- Variables -------------------------------------------------------------
// Converts an aggregation to SUM or MEAN.
//   LS_INVALID_ARGUMENT  it is another one.
LS_API LS_MUST_USE ls_status ls_aggregation_reduce_op(
    ls_variable_aggregation aggregation, ls_reduce_op *out_op);
// Return OK if new variables can be colocated with this one
// (colocate_vars_with): the first for a distributed variable that this strategy
// made; the second for any that it made.
//   LS_INVALID_ARGUMENT  names what it is instead, and who made it.
LS_API LS_MUST_USE ls_status ls_validate_colocate_distributed_variable(
    ls_nest value, const ls_strategy *strategy);
LS_API LS_MUST_USE ls_status ls_validate_colocate(ls_nest value,
                                                  const ls_strategy *strategy);
// Begins a scope in which a variable synchronized on read, used as a tensor in
// a replica, is the aggregate of all replicas' components; end it with
// ls_scope_end. In a computation of a TPU strategy the scope has no effect: each
// replica reads its own component.
LS_API void ls_sync_on_read_scope_begin(ls_scope *scope);
#define LS_SYNC_ON_READ_SCOPE LS_BARE_SCOPE_(ls_sync_on_read_scope_begin)

// Gets a variable for raw access, lent: itself, or in a replica, an update or
// outside of strategies its component.
//   LS_FAILED_PRECONDITION  a distributed variable in a cross-replica context.
//   LS_UNIMPLEMENTED        a replicated variable (lockstep/tpu_variable.h),
//                           outside of computations and exports.
LS_API LS_MUST_USE ls_status ls_variable_handle(ls_variable *variable,
                                                ls_variable **out_handle);
// Returns a variable as a reference that others write through: itself.
//   LS_INVALID_ARGUMENT  a distributed variable: use its value
//                        (ls_variable_read).
LS_API LS_MUST_USE ls_status
ls_variable_as_reference(ls_variable *variable, ls_variable **out_reference);
// Copies a variable with its value, in eager: a distributed one gets new
// components on the same devices. The caller owns a reference.
//   LS_FAILED_PRECONDITION  inside another strategy.
//   LS_UNIMPLEMENTED        a variable of a build graph.
LS_API LS_MUST_USE ls_status ls_variable_copy(ls_variable *variable,
                                              ls_variable **out_copy);
// Describes the op of a variable: that of its handle, in a cross-replica
// context of its first component. Texts are lent.
typedef struct ls_op_description {
  const char *name, *type;
  const ls_graph *graph;  // NULL: eager.
} ls_op_description;
LS_API ls_op_description
ls_variable_op_description(const ls_variable *variable);
// Returns true if all fields are equal.
LS_API bool ls_op_description_equal(const ls_op_description *a,
                                    const ls_op_description *b);

// Scopes for new variables, in either context of the strategy; refused if it is
// not in force, also for a variable created inside after it was left.
//   LS_FAILED_PRECONDITION  names the strategy.
// New variables are synchronized on read by SUM or MEAN, and not trainable.
LS_API void ls_sync_on_read_variables_scope_begin(ls_scope *scope,
                                                  ls_strategy *strategy,
                                                  ls_reduce_op method);
LS_API void ls_replica_sync_on_read_variables_scope_begin(
    ls_scope *scope, const ls_replica *replica, ls_reduce_op method);
// Begins a scope in which new variables have components where `with` (lent
// until the scope ends) has them: a variable that the strategy made, or a
// distributed value on its devices. (colocate_vars_with)
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
  const char *name;    // Name of the write ops.
  bool no_read_value;  // Returns the op (in eager none) instead of the value.
} ls_write_options;
// Writes a variable: the general form of ls_variable_assign. A value is a
// tensor, an array, a host scalar (which gets the variable's type, if that has
// its value) or a distributed value, or a variable. Across replicas the result
// is a Mirrored of each component's new value; in a replica it is that
// replica's.
//
// When replicas write an aggregated ON_WRITE variable, a distributed value from
// outside counts as a value of each, as does a variable that each may have its
// own of; another variable is one value for all.
LS_API LS_MUST_USE ls_status ls_variable_write(ls_variable *variable,
                                               ls_write_op op, ls_nest value,
                                               const ls_write_options *options,
                                               ls_nest *out_value);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRATEGY_EXTENDED_H_
