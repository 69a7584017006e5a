// SPDX-License-Identifier: Apache-2.0
//
// Making distributed variables, inside: see lockstep/variable_recipe.h.
#ifndef LS_DISTRIBUTE_VARIABLES_VARIABLE_CREATE_H_
#define LS_DISTRIBUTE_VARIABLES_VARIABLE_CREATE_H_

#include "distribute/variables/variable.h"
#include "lockstep/variable_recipe.h"

struct ls_component_list {
  ls_allocator *allocator;
  ls_variable **items;
  size_t count, capacity;
};

// What a variable of a general class follows. Its own, never shared.
typedef struct ls_variable_policy {
  const ls_variable_rules *rules;
  ls_variable_aggregation aggregation;
} ls_variable_policy;

#endif  // LS_DISTRIBUTE_VARIABLES_VARIABLE_CREATE_H_
