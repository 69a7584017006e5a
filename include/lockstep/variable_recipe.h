// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Custom creation of distributed variables: the caller makes the components,
// and the synchronization and two tables determine the class of the container.
//
// Threads: variables are made under the thread's current graph and strategy, as
// everywhere.
#ifndef LOCKSTEP_VARIABLE_RECIPE_H_
#define LOCKSTEP_VARIABLE_RECIPE_H_

#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_strategy ls_strategy;  // lockstep/replica.h

// Components in replica order.
typedef struct ls_component_list ls_component_list;
// Adds a component, which is taken over, also on failure.
LS_API LS_MUST_USE ls_status ls_component_list_add(ls_component_list *list,
                                                   ls_variable *component);

// Makes the components of one variable. Components added before a failure are
// released.
typedef ls_status (*ls_component_creator)(ls_strategy *strategy,
                                          const ls_variable_options *options,
                                          void *user,
                                          ls_component_list *components);

// Rules for reading and writing the variables of a class; static data.
typedef struct ls_variable_rules ls_variable_rules;
// Return the rules of "MirroredVariable", whose components are kept equal by
// its writes, and of "SyncOnReadVariable", with a value for each replica,
// aggregated at reads.
LS_API const ls_variable_rules *ls_mirrored_variable_rules(void);
LS_API const ls_variable_rules *ls_sync_on_read_variable_rules(void);

// Classes of variables, by their synchronization. NULL: there is no such class.
typedef struct ls_variable_class_map {
  const ls_variable_rules *on_write, *on_read;
  // Class names if the strategy uses policies: one class, and one for batch
  // initialization. Lent for the variables' lives.
  const char *variable_class, *lazy_variable_class;
} ls_variable_class_map;
// Rules of a policy, by the variable's synchronization.
typedef struct ls_variable_policy_map {
  const ls_variable_rules *on_write, *on_read;
} ls_variable_policy_map;

typedef struct ls_variable_recipe {
  ls_strategy *strategy;
  ls_component_creator create;  // Called once.
  void *user;
  // NULL: as in the strategy's scope.
  const ls_variable_class_map *classes;
  const ls_variable_policy_map *policies;
} ls_variable_recipe;
// Makes a distributed variable. Tapes do not record meanwhile; the creator gets
// the options with the synchronization resolved, without collections, caching
// device and batch flag. The caller owns a reference.
//   LS_INVALID_ARGUMENT  wrong options, before anything is made; no component;
//                        batch initialization without a class for it.
LS_API LS_MUST_USE ls_status ls_create_mirrored_variable(
    const ls_variable_recipe *recipe, const ls_variable_options *options,
    ls_variable **out_variable);
// Returns the name of a distributed variable's class; "" for any other.
LS_API const char *ls_variable_class_name(const ls_variable *variable);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_VARIABLE_RECIPE_H_
