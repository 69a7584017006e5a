// SPDX-License-Identifier: Apache-2.0
//
// What the rules of ops that hold child graphs share.
#ifndef LS_GRAD_RULES_FLOW_H_
#define LS_GRAD_RULES_FLOW_H_

#include "grad/rules.h"
#include "grad/walk.h"

// A walk of a child graph: from values of it, whose gradients the seeds give,
// to goals among its values and to variables.
typedef struct ls_gradient_inner {
  ls_forward *forward;
  ls_gradient_seed *seeds;
  size_t num_seeds;
  ls_gradient_goal *goals;
  size_t num_goals;
} ls_gradient_inner;

ls_status ls_gradient_walk_inner(const ls_gradient *g,
                                 const ls_gradient_inner *inner);
// Parameter `index` of the child graph.
static inline ls_tensor ls_gradient_parameter(const ls_forward *forward,
                                              size_t index) {
  return (ls_tensor){forward->graph, forward->graph->parameters[index]};
}

#endif  // LS_GRAD_RULES_FLOW_H_
