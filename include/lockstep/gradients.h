// SPDX-License-Identifier: Apache-2.0
// Layer: grad
//
// Gradients in build and function graphs.
//
// Threads: ops are added to the thread's current graph, which one thread at a
// time builds.
#ifndef LOCKSTEP_GRADIENTS_H_
#define LOCKSTEP_GRADIENTS_H_

#include "lockstep/ops.h"
#include "lockstep/variable.h"

#ifdef __cplusplus
extern "C" {
#endif

// How several gradients of one value are added up.
enum {
  LS_AGGREGATE_ADD_N = 0,  // By one op.
  LS_AGGREGATE_DEFAULT = LS_AGGREGATE_ADD_N,
  LS_AGGREGATE_EXPERIMENTAL_TREE = 1,          // By two at a time, as a tree.
  LS_AGGREGATE_EXPERIMENTAL_ACCUMULATE_N = 2,  // As each is there.
};

// Zero in a field means its default.
typedef struct ls_gradient_options {
  const ls_nest *grad_ys;         // One a y, none for ones. Default: all ones.
  size_t num_grad_ys;             // Checked to be the ys'. Default: not.
  const char *name;               // Name scope. Default "gradients".
  bool colocate_with_ops;         // Gradient ops beside their forward ops.
  bool gate;                      // All of an op's gradients before any is
                                  // used.
  int aggregation;                // LS_AGGREGATE_...
  const ls_nest *stop_gradients;  // Not differentiated through.
  size_t num_stop_gradients;
  bool unconnected_zero;  // Zeros for an unconnected x, not none.
} ls_gradient_options;

// The gradient of the sum of `ys` with respect to each of `xs`, which are
// tensors or variables: `grads[i]` is a tensor leaf, or none when no path
// leads there. `options` may be NULL.
//
// In a replica, where replicas have met (all_reduce and the like), it is the
// gradient of the sum over all replicas, which meet again for it: all of them
// are to ask for it.
//
// Through a loop, gradients of variables and of values from around it are the
// sums of the trips' gradients, added from the last trip to the first. Inside
// of a loop's body gradients are taken with respect to the body's parameters
// and what does not change, not to what the loop starts from.
//   LS_INVALID_ARGUMENT     with respect to a loop's initial value, inside.
//   LS_NOT_FOUND            an op on a needed path has no gradient.
//   LS_FAILED_PRECONDITION  in an eager graph: there it is ls_tape_gradients.
LS_API LS_MUST_USE ls_status ls_gradients(const ls_nest *ys, size_t num_ys,
                                          const ls_nest *xs, size_t num_xs,
                                          const ls_gradient_options *options,
                                          ls_nest *grads);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_GRADIENTS_H_
