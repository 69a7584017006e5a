// SPDX-License-Identifier: Apache-2.0
//
// What lower layers ask of upper ones, of which they know nothing but these
// tables. src/layers.c, which is of no layer, ties them together.
#ifndef LS_BASE_LAYERS_H_
#define LS_BASE_LAYERS_H_

#include "lockstep/array.h"
#include "lockstep/nest.h"

// Handles name values of graphs; what nests show of them.
typedef struct ls_tensor_vtable {
  void (*print)(ls_tensor tensor, char *buffer, size_t size);
  void (*print_op)(ls_op op, char *buffer, size_t size);
  // The value of an eager tensor or constant, lent; NULL: not known.
  ls_array *(*known_value)(ls_tensor tensor);
} ls_tensor_vtable;

typedef struct ls_layers {
  const ls_tensor_vtable *tensors;
  const struct ls_eager_vtable *eager;  // Of new runtimes.
  const struct ls_strategy_class *default_strategy;
} ls_layers;

extern const ls_layers ls_library_layers __attribute__((visibility("hidden")));

#endif  // LS_BASE_LAYERS_H_
