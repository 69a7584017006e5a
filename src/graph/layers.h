// SPDX-License-Identifier: Apache-2.0
//
// What layers and rooms ask of those above them where no table comes with a
// call. src/layers.c, which is of no layer, ties them together.
#ifndef LS_GRAPH_LAYERS_H_
#define LS_GRAPH_LAYERS_H_

typedef struct ls_layers {
  const struct ls_eager_vtable *eager;  // See graph/eager_vtable.h.
  // Of who is in force where no other strategy is.
  const struct ls_strategy_class *default_strategy;
} ls_layers;

extern const ls_layers ls_library_layers __attribute__((visibility("hidden")));

#endif  // LS_GRAPH_LAYERS_H_
