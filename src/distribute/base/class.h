// SPDX-License-Identifier: Apache-2.0
//
// The class of a kind of strategy: one static table per kind.
//
// Public functions check their arguments and call the table; no other code
// depends on a strategy's kind. A new kind is a file with its table, which may
// use functions of other kinds, and a public header with a constructor.
#ifndef LS_DISTRIBUTE_BASE_CLASS_H_
#define LS_DISTRIBUTE_BASE_CLASS_H_

#include "graph/variables/variable.h"
#include "lockstep/cross_device.h"
#include "lockstep/distribute_input.h"
#include "lockstep/strategy.h"
#include "lockstep/variable_parts.h"
#include "lockstep/variable_recipe.h"

typedef struct ls_crossing ls_crossing;
typedef struct ls_update_call ls_update_call;

// The input to distribute: a data set, or a function that makes a data set for
// each pipeline.
typedef struct ls_input_request {
  const char *noun;  // Name of the public call, for messages.
  ls_nest dataset;
  ls_dataset_function function;  // NULL: `dataset` is given.
  void *user;
  // Options of the call, never NULL; see distribute_input.h.
  const struct ls_input_options *options;
} ls_input_request;

// A run of a callable, with arguments in the form that the callable receives.
typedef struct ls_run_request {
  ls_callable callable;
  ls_nest args;
  // True if the last argument is a dict of arguments by name.
  bool has_names;
  const ls_run_options *options;  // Never NULL.
} ls_run_request;

typedef struct ls_strategy_class {
  const char *name;  // Start of labels; the devices follow if there are any.
  size_t size;  // Size of the kind's struct, which begins with an ls_strategy.
  // True for the default strategy, which is current outside all scopes. Its own
  // scope changes nothing and is optional.
  bool is_default;
  // True if values and variables have a component for each replica, on the
  // replica's device. False: there is one replica, and values and variables are
  // plain.
  bool distributes;
  // True if a variable may be placed next to a single component of another
  // variable.
  bool beside_components;
  bool has_host_tables;  // True if its tables have a copy on each host.
  bool gathers_equal;    // True if gathers need equal shapes.
  // Most inputs of an add or a concatenation over components; 0: no limit.
  size_t most_inputs;
  // True if arguments of replicas, except batches, need static shapes.
  bool needs_static_shapes;
  // True if functions of data sets are called for each host only, never for
  // each replica.
  bool has_host_pipelines;
  // Classes of the kind's variables; NULL: plain variables.
  const ls_variable_class_map *classes;
  const ls_variable_policy_map *policies;

  // Checks a run before it starts. The arguments are not bound to `parameters`
  // (may be NULL) yet; `noun` names the callable in messages. NULL: only
  // options for TPU strategies are refused.
  ls_status (*check_run)(const ls_strategy *strategy,
                         const ls_run_request *request,
                         const ls_parameters *parameters, const char *noun);
  // Runs the callable on the replicas, from cross-replica context. A plain
  // callable makes new `results`; a traced one fills the results of its
  // previous call.
  ls_status (*run)(ls_strategy *strategy, ls_crossing *crossing,
                   const ls_run_request *request, ls_nest *results);
  // Calls a plain callback for each replica. NULL: `run` does this.
  ls_status (*call_each)(ls_strategy *strategy, ls_callback callback,
                         ls_nest args, void *user, ls_nest *results);

  // Reduces in cross-replica context: one nest to a nest, or a list of leaves
  // to a list.
  ls_status (*reduce)(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                      const ls_reduce_options *options, ls_nest *out_value);
  // Reduces to destinations. reduce_to and batch_reduce_to must check `op`
  // themselves.
  ls_status (*reduce_to)(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                         ls_destinations where, ls_nest *out_value);
  ls_status (*batch_reduce_to)(ls_strategy *strategy, ls_reduce_op op,
                               const ls_nest *values,
                               const ls_destinations *where, size_t count,
                               ls_nest *results);
  ls_status (*broadcast_to)(ls_strategy *strategy, ls_nest value,
                            ls_destinations where, ls_nest *out_value);
  ls_status (*gather)(ls_strategy *strategy, ls_nest value, int axis,
                      ls_nest *out_value);
  ls_status (*fetch)(ls_strategy *strategy, ls_nest value, const char *device,
                     ls_callback fn, void *user, ls_nest *out_value);

  // Updates variables and maps values, in the thread's current context.
  ls_status (*update)(const ls_update_call *call, ls_variable *variable,
                      ls_nest *out_value);
  ls_status (*update_non_slot)(const ls_update_call *call,
                               const char *const *devices, size_t num_devices,
                               ls_nest *out_value);
  ls_status (*map)(const ls_update_call *call, const ls_nest *items,
                   size_t num_items, ls_nest *out_value);
  ls_status (*create_variable)(ls_strategy *strategy, const ls_creator *next,
                               const ls_variable_options *options,
                               ls_variable **out_variable);
  ls_status (*distribute)(ls_strategy *strategy,
                          const ls_input_request *request, ls_nest *out_value);
  // Returns the value that other code sees in place of a leaf, such as a
  // component's container. NULL: the leaf.
  ls_nest (*value_container)(ls_nest leaf);
  // Called after a container and its components were made. May be NULL.
  ls_status (*adopt)(ls_strategy *strategy, const ls_variable_options *options,
                     ls_variable *container);
  // Called after a scope of the strategy was left. May be NULL.
  void (*leave)(ls_strategy *strategy);
  // Implements ls_strategy_non_slot_devices.
  ls_status (*non_slot_devices)(const ls_strategy *strategy,
                                ls_variable *const *variables,
                                size_t num_variables, const char **devices,
                                size_t capacity, size_t *out_count);
  // Frees the fields after the ls_strategy, in partly built strategies, too.
  // May be NULL.
  void (*destroy)(ls_strategy *strategy);
} ls_strategy_class;

// Makes a strategy of a kind; the fields after the ls_strategy are zero. If the
// kind distributes, it then sets the devices of all replicas: see
// ls_strategy_set_label.
ls_status ls_strategy_make(const ls_strategy_class *kind, ls_runtime *runtime,
                           int32_t num_replicas, ls_strategy **out_strategy);
// Sets the device of replica `index`; if replicas have several devices, indices
// from num_replicas on are those of the next column.
//   LS_INVALID_ARGUMENT  not the name of a device
ls_status ls_strategy_place(ls_strategy *strategy, int32_t index,
                            const char *device);

extern const ls_strategy_class ls_default_strategy_class;
extern const ls_strategy_class ls_mirrored_strategy_class;

// Declares a function that can be this member of a class.
#define LS_STRATEGY_FUNCTION(member, name)                                     \
  __typeof__(*((ls_strategy_class *)0)->member) name

// ---- Shared by strategies with a device for each replica --------------------
LS_STRATEGY_FUNCTION(run, ls_mirrored_run);
LS_STRATEGY_FUNCTION(reduce, ls_mirrored_reduce);
LS_STRATEGY_FUNCTION(reduce_to, ls_mirrored_reduce_to);
LS_STRATEGY_FUNCTION(batch_reduce_to, ls_mirrored_batch_reduce_to);
LS_STRATEGY_FUNCTION(broadcast_to, ls_mirrored_broadcast_to);
LS_STRATEGY_FUNCTION(gather, ls_mirrored_gather);
LS_STRATEGY_FUNCTION(fetch, ls_mirrored_fetch);
LS_STRATEGY_FUNCTION(update, ls_mirrored_update);
LS_STRATEGY_FUNCTION(update_non_slot, ls_mirrored_update_non_slot);
LS_STRATEGY_FUNCTION(map, ls_mirrored_map);
LS_STRATEGY_FUNCTION(create_variable, ls_mirrored_create_variable);
LS_STRATEGY_FUNCTION(non_slot_devices, ls_mirrored_non_slot_devices);
extern const ls_variable_class_map ls_mirrored_classes;
extern const ls_variable_policy_map ls_mirrored_policies;

#endif  // LS_DISTRIBUTE_BASE_CLASS_H_
