// SPDX-License-Identifier: Apache-2.0
//
// Making distributed variables: someone makes the components, and what they are
// wrapped in follows from the synchronization and two tables.
#ifndef LS_DIST_VARIABLE_CREATE_H_
#define LS_DIST_VARIABLE_CREATE_H_

#include "dist/variable.h"

// Components in the order of their replicas.
typedef struct ls_component_list {
  ls_allocator *allocator;
  ls_variable **items;
  size_t count, capacity;
} ls_component_list;
// Takes the component over, also on failure.
ls_status ls_component_list_add(ls_component_list *list,
                                ls_variable *component);

// Makes the components of one variable. What it has added is released when it
// fails.
typedef ls_status (*ls_component_creator)(ls_strategy *strategy,
                                          const ls_variable_options *options,
                                          void *user,
                                          ls_component_list *components);

// What variables are, by their synchronization. NULL: there is no such class.
typedef struct ls_variable_class_map {
  const ls_variable_rules *on_write, *on_read;
  // With policies: one class, and one for batch initialization.
  const char *variable_class, *lazy_variable_class;
} ls_variable_class_map;
// The rules that a policy gives a variable, by its synchronization.
typedef struct ls_variable_policy_map {
  const ls_variable_rules *on_write, *on_read;
} ls_variable_policy_map;
extern const ls_variable_class_map ls_mirrored_classes;
extern const ls_variable_policy_map ls_mirrored_policies;

// What a variable of a general class follows. Its own, never shared.
typedef struct ls_variable_policy {
  const ls_variable_rules *rules;
  ls_variable_aggregation aggregation;
} ls_variable_policy;

typedef struct ls_variable_recipe {
  ls_strategy *strategy;
  ls_component_creator create;  // Called once.
  void *user;
  const ls_variable_class_map *classes;
  const ls_variable_policy_map *policies;
} ls_variable_recipe;
// Makes a distributed variable. Nothing done meanwhile is recorded on a tape;
// the creator gets the options with the synchronization resolved, without
// collections, caching device and batch flag.
//   LS_INVALID_ARGUMENT  wrong options, before anything is made; no component;
//                        batch initialization without a class for it.
ls_status ls_create_mirrored_variable(const ls_variable_recipe *recipe,
                                      const ls_variable_options *options,
                                      ls_variable **out_variable);

#endif  // LS_DIST_VARIABLE_CREATE_H_
