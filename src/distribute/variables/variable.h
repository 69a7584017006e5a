// SPDX-License-Identifier: Apache-2.0
//
// Distributed variables, private part: the component that the current thread
// accesses, and the effect of reads and writes of the container.
#ifndef LS_DISTRIBUTE_VARIABLES_VARIABLE_H_
#define LS_DISTRIBUTE_VARIABLES_VARIABLE_H_

#include "base/values/nest_builder.h"
#include "distribute/base/strategy.h"
#include "distribute/values/values.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_recipe.h"

extern const ls_variable_rules ls_mirrored_rules;
extern const ls_variable_rules ls_sync_on_read_rules;

typedef enum ls_place_kind {
  LS_PLACE_CROSS,    // Cross-replica, or no strategy: all components.
  LS_PLACE_REPLICA,  // In a replica that runs op by op: component `index`.
  LS_PLACE_UPDATE,   // In an update function: component `index`.
  // In the trace of a replica: the container stands for the replica's
  // component.
  LS_PLACE_TRACE,
} ls_place_kind;

typedef struct ls_place {
  ls_place_kind kind;
  bool entered;  // False if no strategy was entered.
  size_t index;
  int32_t count;  // Number of replicas, in a replica or its trace.
  bool in_merge;  // In a merge call of a computation: values are the same.
  // The current replica; NULL in a computation outside a strategy's run, too.
  ls_replica *replica;
} ls_place;

static inline ls_strategy *ls_strategy_of(const ls_variable *container) {
  return (ls_strategy *)container->strategy;
}
// Returns true if a variable's components may differ: its writes in replicas
// are not aggregated.
static inline bool ls_variable_differs_freely(const ls_variable *variable) {
  return variable->aggregation == LS_AGGREGATION_NONE ||
         variable->synchronization == LS_SYNCHRONIZATION_ON_READ;
}
// Finds the thread's place with respect to a container. If `foreign`, the
// cross-replica context of another strategy is accepted, too.
ls_status ls_place_of(const ls_variable *container, bool foreign,
                      ls_place *out_place);
// Finds the component of a replica: the one on the replica's device.
//   LS_INVALID_ARGUMENT  no such component: names the replica
ls_status ls_variable_own_index(const ls_variable *container, int32_t replica,
                                size_t *out_index);
// Returns the component on the current device, else the first one, in
// cross-replica context.
size_t ls_component_here(const ls_variable *container);
const char *ls_aggregation_name(ls_variable_aggregation aggregation);
// Makes a handle with these rules and the properties of its first target.
// `name` NULL: the name of that target. The caller owns the reference.
ls_status ls_handle_make(const char *name, ls_variable *const *targets,
                         size_t count, const ls_variable_rules *rules,
                         ls_variable **out_handle);
// Checks that leaves are plain variables of one type, as a handle needs them.
// `noun` is for messages.
ls_status ls_handle_check_targets(const char *noun, const ls_nest *leaves,
                                  size_t count);
// Gives a container a packed handle, which has its components as targets.
ls_status ls_variable_pack(ls_variable *container);
// Writes the CPU of a device's host: the device's name up to its type.
void ls_host_cpu_of(const char *device, char *host, size_t size);
// Records that the current trace cannot be exported, because of an access
// `name` of the variable; `how` is the reason.
LS_MUST_USE ls_status ls_note_unsaveable(const ls_variable *container,
                                         const char *access, const char *how);
// Reads component `index`, on its device.
ls_tensor ls_read_component(ls_variable *container, size_t index);

// ---- Values of writes ------------------------------------------------------
// Converts a leaf to a tensor of the variable's type. Host scalars are
// converted to that type.
ls_status ls_value_as_tensor(const ls_variable *variable, ls_nest leaf,
                             ls_tensor *out_tensor);
// Refuses a host scalar that the variable's integer type does not have.
ls_status ls_value_check_scalar(const ls_variable *variable, ls_nest leaf);
// Returns the part of a value that belongs to component `index`.
ls_nest ls_value_part(ls_nest value, size_t index);
// Orders the components of values by the devices of the variable's, if they are
// on these; the caller owns the result.
ls_status ls_value_order(const ls_variable *variable, ls_nest value,
                         ls_nest *out_value);
// Makes the share of each component, so that the sum of the shares is the
// value.
ls_status ls_share_of_sum(const ls_variable *container, ls_nest value,
                          ls_nest *out_share);

// ---- Rules -----------------------------------------------------------------
ls_tensor ls_read_mirrored(ls_variable *container);
ls_tensor ls_use_mirrored(ls_variable *container);
ls_tensor ls_read_on_read(ls_variable *container);
ls_tensor ls_use_on_read(ls_variable *container);
// Writes to the container and returns a tensor, as op makers do: the value that
// the current thread sees.
ls_tensor ls_write_as_maker(ls_variable *container, uint16_t op,
                            ls_tensor value);
// Write a value that is the same on all replicas, as an update in a merge call
// does: the variable's aggregation plays no part. Replicas that run op by op
// write a plain variable once, when all of them have come.
ls_tensor ls_write_common(ls_variable *variable, uint16_t op, ls_tensor value);
ls_tensor ls_scatter_common(ls_variable *variable, ls_scatter_op op,
                            ls_tensor indices, ls_tensor updates);
// Returns what a write made of the component that the current thread sees.
ls_tensor ls_written_here(const ls_variable *variable, ls_nest made);
ls_tensor ls_scatter_mirrored(ls_variable *container, ls_scatter_op op,
                              ls_tensor indices, ls_tensor updates);
ls_variable *ls_container_here(const ls_variable *container);
ls_tensor ls_scatter_on_read(ls_variable *container, ls_scatter_op op,
                             ls_tensor indices, ls_tensor updates);
// Make the value to save of a variable that is synchronized on read, and from a
// restored value the shares of its components.
ls_status ls_make_saved_on_read(ls_variable *container,
                                ls_array *const *components,
                                ls_array **out_value);
ls_status ls_share_saved_on_read(ls_variable *container, const ls_array *value,
                                 ls_array **out_share);

// ---- Updates ---------------------------------------------------------------
// A function called for each component, device, or item of a map.
struct ls_update_call {
  ls_strategy *strategy;
  ls_callback fn;
  void *user;
  ls_nest args;
  bool group;
};
// Makes the arguments of the function: (first, arguments of component `id`...).
// `first` is borrowed, and only present with `has_first`.
ls_nest ls_update_args(const ls_update_call *call, ls_nest first,
                       bool has_first, size_t id);
// Checks that the arguments are a list or a tuple; with `mirrored`, also that
// all values are mirrored; unless `list` is NULL, that values have a component
// for each of its devices.
ls_status ls_update_check_args(const ls_update_call *call, bool mirrored,
                               const ls_device_list *list);
// Calls the function on the device, in the name scope "update_<id>", as the
// update of component `id`, with the arguments of component `position`; appends
// its result.
ls_status ls_update_call_once(const ls_update_call *call, ls_nest first,
                              bool has_first, size_t position, int32_t id,
                              const char *device, ls_nest_builder *results);
// Returns true in a replica of the call's strategy. ls_update_in_replica
// updates there.
bool ls_update_is_in_replica(const ls_update_call *call);
ls_status ls_update_in_replica(const ls_update_call *call,
                               ls_variable *variable, ls_nest *out_value);

// Replaces each mirrored value in a nest by a tuple of its components, as
// ls_strategy_local_results does.
ls_status ls_update_ungroup(ls_strategy *strategy, ls_nest value,
                            ls_nest *out_value);

// ---- Creation (lockstep/variable_recipe.h) ---------------------------------
struct ls_component_list {
  ls_allocator *allocator;
  ls_variable **items;
  size_t count, capacity;
};

// The policy of a variable whose class is general; each variable has a policy
// of its own.
typedef struct ls_variable_policy {
  const ls_variable_rules *rules;
  ls_variable_aggregation aggregation;
} ls_variable_policy;

// ---- Writes (write_values.c) -----------------------------------------------
// A write in progress.
typedef struct ls_writing {
  ls_variable *variable;
  uint16_t op;  // The op that writes, such as LS_OP_ASSIGN.
  const ls_write_options *options;
  bool is_common;  // See ls_write_common.
} ls_writing;

static inline const char *ls_writing_name(const ls_writing *w) {
  return ls_op_table[w->op].name;
}

// Returns true if a tensor was made outside the replica, so that it is the same
// on all replicas. Ops of replicated computations are in the same graph as
// others, and have a mark.
bool ls_is_from_outside(const ls_replica *replica, ls_tensor tensor);

#endif  // LS_DISTRIBUTE_VARIABLES_VARIABLE_H_
