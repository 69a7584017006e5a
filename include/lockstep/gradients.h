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

// Ways to add several gradients of one value.
enum {
  LS_AGGREGATE_ADD_N = 0,  // Adds all in one op.
  LS_AGGREGATE_DEFAULT = LS_AGGREGATE_ADD_N,
  LS_AGGREGATE_EXPERIMENTAL_TREE = 1,  // Adds two at a time, as a tree.
  // Adds each as it becomes available.
  LS_AGGREGATE_EXPERIMENTAL_ACCUMULATE_N = 2,
};

// Zero in a field means its default.
typedef struct ls_gradient_options {
  const ls_nest *grad_ys;  // One per y, none for ones. Default: all ones.
  size_t num_grad_ys;      // Must equal the number of ys, if given.
  const char *name;        // Name scope. Default "gradients".
  // Places gradient ops on the devices of their forward ops.
  bool colocate_with_ops;
  bool gate;        // Computes all gradients of an op before any is used.
  int aggregation;  // LS_AGGREGATE_...
  const ls_nest *stop_gradients;  // Not differentiated through.
  size_t num_stop_gradients;
  bool unconnected_zero;  // Returns zeros instead of none for an unconnected x.
} ls_gradient_options;

// Computes the gradient of the sum of `ys` with respect to each of `xs`, which
// are tensors or variables: `grads[i]` is a tensor leaf, or none if no path
// leads there. `options` may be NULL.
//
// In a replica, through collectives (all_reduce and the like), it is the
// gradient of the sum over all replicas, which needs collectives of its own:
// all replicas must make this call.
//
// Through a loop, gradients of variables and of values from outside are the
// sums of the iterations' gradients, added from the last iteration to the
// first. Inside a loop's body gradients are taken with respect to the body's
// parameters and loop-invariant values, not to the loop's initial values.
//   LS_INVALID_ARGUMENT     inside a loop, with respect to its initial value.
//   LS_NOT_FOUND            an op on a needed path has no gradient.
//   LS_FAILED_PRECONDITION  in an eager graph: use ls_tape_gradients there.
LS_API LS_MUST_USE ls_status ls_gradients(const ls_nest *ys, size_t num_ys,
                                          const ls_nest *xs, size_t num_xs,
                                          const ls_gradient_options *options,
                                          ls_nest *grads);

// Returns the gradient of the sum of y with respect to x, a tensor: as one call
// of ls_gradients, but zeros if no path leads to x; if x is a read of a
// variable, then first the gradient with respect to the variable, as y may use
// another read. For gradients inside a model: ls_gradient(ls_gradient(u, x), x).
LS_PLACED ls_tensor ls_gradient(ls_tensor y, ls_tensor x);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_GRADIENTS_H_
