// SPDX-License-Identifier: Apache-2.0
//
// The class of a kind of strategy: one static table a kind.
//
// The public functions check what they are given and call the table; nobody
// asks which kind it is. A new kind is a file with its table and a public
// header with its constructor. It takes from the other tables what it shares
// with them.
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

// A data set, or the function that makes one for each pipeline.
typedef struct ls_input_request {
  const char *noun;  // The call, for messages.
  ls_nest dataset;
  ls_dataset_function function;  // NULL: `dataset` is given.
  void *user;
  const struct ls_input_options *options;  // Not NULL; see distribute_input.h.
} ls_input_request;

// A run of a callable, with the arguments as it gets them.
typedef struct ls_run_request {
  ls_callable callable;
  ls_nest args;
  // The last of them is a dict of arguments by name: an argument each.
  bool has_names;
  const ls_run_options *options;  // Not NULL.
} ls_run_request;

typedef struct ls_strategy_class {
  const char *name;  // Of labels; devices follow where there are any.
  size_t size;       // Of its struct, which begins with an ls_strategy.
  // In force where no other one is; its scope hides none and can be left out.
  bool is_default;
  // Values and variables have a component for each replica, on its device.
  // Else there is one replica, for which they are what they are.
  bool distributes;
  // Variables can be put beside a component of another one, as beside all.
  bool beside_components;
  bool has_host_tables;  // A table made in its scope is one on each host.
  bool gathers_equal;    // What its replicas gather has one shape on all.
  // The most inputs of an add or a concatenation over components; 0: any
  // number.
  size_t most_inputs;
  bool needs_static_shapes;  // Of what replicas are given, but for batches.
  // Functions of data sets have one pipeline a host, and none a replica.
  bool has_host_pipelines;
  // The classes of its variables; NULL: they are plain.
  const ls_variable_class_map *classes;
  const ls_variable_policy_map *policies;

  // Checks a run before anything of it is done: its arguments are not yet bound
  // to `parameters`, which may be NULL. `noun` is what runs, for messages.
  // NULL: there is nothing to check, and options for TPU strategies are
  // refused.
  ls_status (*check_run)(const ls_strategy *strategy,
                         const ls_run_request *request,
                         const ls_parameters *parameters, const char *noun);
  // On the replicas, from cross-replica context. Plain callables make new
  // `results`, traced ones fill those of the call before.
  ls_status (*run)(ls_strategy *strategy, ls_crossing *crossing,
                   const ls_run_request *request, ls_nest *results);
  // A plain callback for each replica. NULL: that is to run it.
  ls_status (*call_each)(ls_strategy *strategy, ls_callback callback,
                         ls_nest args, void *user, ls_nest *results);

  // In cross-replica context. A nest or a batch of leaves in, one out.
  ls_status (*reduce)(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                      const ls_reduce_options *options, ls_nest *out_value);
  // These two check `op` themselves.
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

  // Where the thread is.
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
  // Returns the value as others see it; NULL: itself.
  ls_nest (*value_container)(ls_nest leaf);
  // After a container and its components have been made; NULL: nothing.
  ls_status (*adopt)(ls_strategy *strategy, const ls_variable_options *options,
                     ls_variable *container);
  // After a scope of it was left; NULL: nothing.
  void (*leave)(ls_strategy *strategy);
  // As ls_strategy_non_slot_devices.
  ls_status (*non_slot_devices)(const ls_strategy *strategy,
                                ls_variable *const *variables,
                                size_t num_variables, const char **devices,
                                size_t capacity, size_t *out_count);
  // Frees its fields beyond an ls_strategy, half-made too. NULL: nothing.
  void (*destroy)(ls_strategy *strategy);
} ls_strategy_class;

// Makes one of a kind; what the kind knows beyond an ls_strategy is zero. A
// kind that distributes says where each replica is, and then all name it: see
// ls_strategy_set_label.
ls_status ls_strategy_make(const ls_strategy_class *kind, ls_runtime *runtime,
                           int32_t num_replicas, ls_strategy **out_strategy);
// Where replica `index` is; from num_replicas on the next column, if there are
// several.
//   LS_INVALID_ARGUMENT  no name of a device.
ls_status ls_strategy_place(ls_strategy *strategy, int32_t index,
                            const char *device);

extern const ls_strategy_class ls_default_strategy_class;
extern const ls_strategy_class ls_mirrored_strategy_class;

// ---- What strategies with a device for each replica do ----------------------
ls_status ls_mirrored_run(ls_strategy *strategy, ls_crossing *crossing,
                          const ls_run_request *request, ls_nest *results);
ls_status ls_mirrored_reduce(ls_strategy *strategy, ls_reduce_op op,
                             ls_nest value, const ls_reduce_options *options,
                             ls_nest *out_value);
ls_status ls_mirrored_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                ls_nest value, ls_destinations where,
                                ls_nest *out_value);
ls_status ls_mirrored_batch_reduce_to(ls_strategy *strategy, ls_reduce_op op,
                                      const ls_nest *values,
                                      const ls_destinations *where,
                                      size_t count, ls_nest *results);
ls_status ls_mirrored_broadcast_to(ls_strategy *strategy, ls_nest value,
                                   ls_destinations where, ls_nest *out_value);
ls_status ls_mirrored_gather(ls_strategy *strategy, ls_nest value, int axis,
                             ls_nest *out_value);
ls_status ls_mirrored_fetch(ls_strategy *strategy, ls_nest value,
                            const char *device, ls_callback fn, void *user,
                            ls_nest *out_value);
ls_status ls_mirrored_update(const ls_update_call *call, ls_variable *variable,
                             ls_nest *out_value);
ls_status ls_mirrored_update_non_slot(const ls_update_call *call,
                                      const char *const *devices,
                                      size_t num_devices, ls_nest *out_value);
ls_status ls_mirrored_map(const ls_update_call *call, const ls_nest *items,
                          size_t num_items, ls_nest *out_value);
ls_status ls_mirrored_create_variable(ls_strategy *strategy,
                                      const ls_creator *next,
                                      const ls_variable_options *options,
                                      ls_variable **out_variable);
ls_status ls_mirrored_non_slot_devices(const ls_strategy *strategy,
                                       ls_variable *const *variables,
                                       size_t num_variables,
                                       const char **devices, size_t capacity,
                                       size_t *out_count);
extern const ls_variable_class_map ls_mirrored_classes;
extern const ls_variable_policy_map ls_mirrored_policies;

#endif  // LS_DISTRIBUTE_BASE_CLASS_H_
