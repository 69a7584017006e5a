// SPDX-License-Identifier: Apache-2.0
// A graph to build gradients in, and what is in it.
#ifndef LS_TESTS_SUPPORT_GRADIENT_GRAPH_H_
#define LS_TESTS_SUPPORT_GRADIENT_GRAPH_H_

#include "lockstep/gradients.h"
#include "lockstep/graph.h"
#include "lockstep/variable.h"

typedef struct gradient_graph {
  ls_graph *graph;
  ls_scope scope;
  char text[16384];
} gradient_graph;

// The state of a cmocka test. The graph is verified when it is torn down.
int gradient_graph_set_up(void **state);
int gradient_graph_tear_down(void **state);

// Of f32[2,3], in the current graph.
ls_tensor gradient_input(const char *name);
ls_variable *gradient_variable(const char *name);

// The gradient of y with respect to x.
ls_tensor gradient_of(ls_tensor y, ls_tensor x,
                      const ls_gradient_options *options);

// Texts are valid until the next one. The names of the ops from number `from`,
// constants and broadcasts left out.
const char *gradient_names_from(gradient_graph *self, size_t from);
ls_op gradient_op(const gradient_graph *self, const char *name);
// "a b" of an attribute that is a list of texts; "" without it.
const char *gradient_strings(gradient_graph *self, ls_op op, const char *name);
// The status of the gradient of `y` to `x`.
ls_status gradient_refusal(ls_tensor y, ls_tensor x,
                           const ls_gradient_options *options);

#endif  // LS_TESTS_SUPPORT_GRADIENT_GRAPH_H_
