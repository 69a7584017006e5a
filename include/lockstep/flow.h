// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Op makers that are more than arithmetic: loops and branches, gradients of a
// caller's own, stacks, what replicas put together, what the host does. They
// are as those of ops.h, which includes this header.
//
// Threads: a maker adds to the current graph of the thread that calls it.
#ifndef LOCKSTEP_FLOW_H_
#define LOCKSTEP_FLOW_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Control flow ----------------------------------------------------------
typedef ls_nest (*ls_flow_callback)(ls_nest values, void *user);
// Repeats values = body(values) while condition(values) holds. `initial` is
// any nest of tensors (scalars become tensors), taken over; the body must keep
// structure, dtypes and shapes. max_trips 0: no bound. Returns the final
// values, or a failed nest. The condition may write variables, each time that
// it is computed.
//   LS_UNIMPLEMENTED  in a graph: one that does also draws random numbers, or
//                     the gradient of such a loop is taken.
LS_PLACED ls_nest ls_while(ls_flow_callback condition, ls_flow_callback body,
                           void *user, ls_nest initial, int64_t max_trips);
// The same, and each trip is a step: in trip t the random ops of the body draw
// what they would in the t-th of as many runs or calls without the loop, and a
// run with a loop of k trips counts as k. Inside of such a loop another one is
// an ordinary loop. In eager, where ops run one by one, as ls_while.
LS_PLACED ls_nest ls_step_while(ls_flow_callback condition,
                                ls_flow_callback body, void *user,
                                ls_nest initial, int64_t max_trips);
// then_branch(none) where `predicate`, a bool scalar, holds, else
// else_branch(none). Both must return the same structure and types.
LS_PLACED ls_nest ls_cond(ls_tensor predicate, ls_flow_callback then_branch,
                          ls_flow_callback else_branch, void *user);

// The same values, of which all tensors are computed before any is used
// further; no op moves across, and equal ops on both sides stay two. `values`
// is taken over.
LS_PLACED ls_nest ls_barrier(ls_nest values);

// Gives the gradients of the inputs' leaves: as many leaves as the inputs have,
// each a tensor (or number) of the input's type, or none for no gradient. All
// arguments are lent; where nothing came for an output its gradient is zeros,
// and none where it is no number with a fraction, such as an integer or a bool.
typedef ls_nest (*ls_gradient_callback)(ls_nest inputs, ls_nest outputs,
                                        ls_nest output_gradients, void *user);
// forward(inputs), whose gradient is what `gradient` says. No gradient flows
// through the ops that `forward` makes, nor to what else it uses; so reading a
// trainable variable in it is refused: make it an input. `gradient` is called
// each time that a gradient is taken, so `user` lives as long as the graph or
// tape. `inputs` is taken over.
LS_PLACED ls_nest ls_custom_gradient(ls_flow_callback forward,
                                     ls_gradient_callback gradient, void *user,
                                     ls_nest inputs);

// ---- Stacks ----------------------------------------------------------------
// A stack is a variant scalar that lives inside of one run: it goes round in
// loops and through branches, but is neither fed nor fetched. Each value of a
// stack is used once, by what gives the next one. Elements are numbers, bools
// or stacks, all of one type.
//
// An empty stack. LS_DTYPE_NONE: of what will be pushed.
LS_PLACED ls_tensor ls_stack_new(ls_dtype dtype, ls_shape shape);
// A stack of endless zeros, which is the zero that gradients of stacks have:
// taking from it when nothing was pushed gives zeros.
LS_PLACED ls_tensor ls_stack_zeros(void);
LS_PLACED ls_tensor ls_stack_push(ls_tensor stack, ls_tensor value);
// Output 0 is the stack without its top, output 1 the top, of this type. A run
// fails with FAILED_PRECONDITION if there is none.
LS_PLACED ls_op ls_stack_pop(ls_tensor stack, ls_dtype dtype, ls_shape shape);

// ---- Replicas --------------------------------------------------------------
typedef enum ls_reduce_op {
  LS_REDUCE_SUM,
  LS_REDUCE_MEAN,
  LS_REDUCE_MAX,
  LS_REDUCE_MIN,
} ls_reduce_op;
// "SUM", "MEAN", "MAX" or "MIN"; NULL of another number.
LS_API const char *ls_reduce_op_name(ls_reduce_op op);
// The sum (mean, ...) of x over all replicas, on every replica, added along
// the canonical tree on replica ids. The mean of integers is a true division:
// f64 of 32 and 64 bits, f32 of fewer. Outside replicas: x.
LS_PLACED ls_tensor ls_all_reduce(ls_reduce_op op, ls_tensor x);
// The replicas' x, one behind the other along an axis, on every replica. Other
// sizes than that along the axis are the same on all. Outside replicas: x.
LS_PLACED ls_tensor ls_all_gather(ls_tensor x, int axis);
// This replica's part of the sum (mean, ...) of x over all replicas: x is cut
// along an axis into equal parts, in order of replica id. Outside replicas: x.
LS_PLACED ls_tensor ls_reduce_scatter(ls_reduce_op op, ls_tensor x, int axis);
// The same in parts as long as each replica's `like` along the axis.
LS_PLACED ls_tensor ls_reduce_scatter_like(ls_reduce_op op, ls_tensor x,
                                           int axis, ls_tensor like);
// Groups of replicas, all of one size; each replica is in one of them. Sums go
// along the canonical tree over a group's members by id, and so do gathered
// rows; the order in which members are listed counts in ls_all_to_all.
typedef struct ls_replica_groups {
  const int32_t *members;  // Group by group.
  size_t size, count;      // Members of a group; groups.
} ls_replica_groups;
// The same within groups. NULL: one group of all. x has one shape on all.
LS_PLACED ls_tensor ls_all_reduce_in(ls_reduce_op op, ls_tensor x,
                                     const ls_replica_groups *groups);
LS_PLACED ls_tensor ls_all_gather_in(ls_tensor x, int axis,
                                     const ls_replica_groups *groups);
LS_PLACED ls_tensor ls_reduce_scatter_in(ls_reduce_op op, ls_tensor x, int axis,
                                         const ls_replica_groups *groups);
// x is cut along `split_axis` into as many parts as a group has members, part i
// goes to member i, and what comes is put together along `concat_axis`.
LS_PLACED ls_tensor ls_all_to_all(ls_tensor x, int split_axis, int concat_axis,
                                  const ls_replica_groups *groups);
// Replica pairs[i][1] gets the x of replica pairs[i][0]; who is no target gets
// zeros. Nobody is source or target twice.
LS_PLACED ls_tensor ls_collective_permute(ls_tensor x,
                                          const int32_t (*pairs)[2],
                                          size_t num_pairs);
// The x of replica `root`, on every replica.
LS_PLACED ls_tensor ls_collective_broadcast(ls_tensor x, int32_t root);
// This replica's id, an i32 scalar; 0 outside replicas.
LS_PLACED ls_tensor ls_replica_id(void);

// ---- Host ------------------------------------------------------------------
// Prints `label` and the values when run, as a line of information in the
// runtime's log: to standard error, unless the runtime has a sink of its own.
LS_PLACED ls_op ls_print(const char *label, ls_tensor value);
// Fails the run with INVALID_ARGUMENT and `message` unless `condition`, a bool
// scalar, holds.
LS_PLACED ls_op ls_assert_true(ls_tensor condition, const char *message);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FLOW_H_
