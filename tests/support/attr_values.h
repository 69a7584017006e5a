// SPDX-License-Identifier: Apache-2.0
//
// What can stand in an attribute by its row in attrs.def, and what cannot.
#ifndef LS_TESTS_SUPPORT_ATTR_VALUES_H_
#define LS_TESTS_SUPPORT_ATTR_VALUES_H_

#include "graph/graph.h"

enum { ATTR_VALUES = 24, ATTR_OPERANDS = 16 };

// Lists are lent until some more have been asked for.
typedef struct attr_values {
  ls_attr items[ATTR_VALUES];
  size_t count;
} attr_values;

// What attributes point to.
typedef struct attr_holdings {
  ls_array *array;
  ls_object *variable, *gradient, *other;
} attr_holdings;
extern attr_holdings attr_values_held;
void attr_values_hold(ls_runtime *runtime);
void attr_values_release(void);

// At its bounds; and beyond them, for an op of less than ATTR_OPERANDS.
attr_values attr_values_within(const ls_attr_info *info);
attr_values attr_values_beyond(const ls_attr_info *info);

#endif  // LS_TESTS_SUPPORT_ATTR_VALUES_H_
