// SPDX-License-Identifier: Apache-2.0
// Layer: graph
//
// Op makers beyond arithmetic: loops and branches, custom gradients, stacks,
// collectives, host ops. Their conventions are those of ops.h, which includes
// this header.
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
// Repeats values = body(values) while condition(values) is true. `initial` is
// any nest of tensors (scalars become tensors), taken over; the body must keep
// structure, dtypes and shapes. max_trips 0: no bound. Returns the final
// values, or a failed nest. The condition may write variables, each time it is
// evaluated. In a graph a variable that the loop writes must have a value
// before, which it keeps without an iteration.
//   LS_UNIMPLEMENTED  in a graph: a condition that writes variables also draws
//                     random numbers, or the gradient of such a loop is taken.
//
// In eager it ends with the first op that fails in an iteration.
LS_PLACED ls_nest ls_while(ls_flow_callback condition, ls_flow_callback body,
                           void *user, ls_nest initial, int64_t max_trips);
// Works as ls_while, and counts each iteration as a step: in iteration t the
// random ops of the body draw what they would draw in the t-th of as many runs
// or calls without the loop, and a run with a loop of k iterations counts as k
// steps. It does so when it ends: runs that begin meanwhile in other threads
// draw what its later iterations draw. Inside such a loop another one is an
// ordinary loop. In eager, where ops run one by one, it is ls_while.
LS_PLACED ls_nest ls_step_while(ls_flow_callback condition,
                                ls_flow_callback body, void *user,
                                ls_nest initial, int64_t max_trips);
// Returns then_branch(none) if `predicate`, a bool scalar, is true, else
// else_branch(none). Both must return the same structure and types. In a graph
// a variable that only one of them writes must have a value before, which it
// keeps in the other.
LS_PLACED ls_nest ls_cond(ls_tensor predicate, ls_flow_callback then_branch,
                          ls_flow_callback else_branch, void *user);

// Returns the same values, all computed before any of them is used further; no
// op moves across, and equal ops on both sides remain two. `values` is taken
// over.
LS_PLACED ls_nest ls_barrier(ls_nest values);

// Returns the gradients of the inputs' leaves: as many leaves as the inputs
// have, each a tensor (or number) of the input's type, or none for no gradient.
// All arguments are lent; the gradient of an output that nothing depends on is
// zeros, or none if its type is not differentiable, such as an integer or a
// bool.
typedef ls_nest (*ls_gradient_callback)(ls_nest inputs, ls_nest outputs,
                                        ls_nest output_gradients, void *user);
// Returns forward(inputs), with `gradient` as its gradient. No gradient flows
// through the ops that `forward` makes, nor to other values it uses; so reading
// a trainable variable in it is refused: make it an input. `gradient` is called
// each time a gradient is taken, so `user` must live as long as the graph or
// tape. `inputs` is taken over.
LS_PLACED ls_nest ls_custom_gradient(ls_flow_callback forward,
                                     ls_gradient_callback gradient, void *user,
                                     ls_nest inputs);

// ---- Stacks ----------------------------------------------------------------
// A stack is a variant scalar that lives inside one run: it may be loop-carried
// and pass through branches, but is neither fed nor fetched. Each value of a
// stack is used once, by the op that makes the next one. Elements are numbers,
// bools or stacks, all of one type.
//
// Makes an empty stack. LS_DTYPE_NONE: the type of what will be pushed.
LS_PLACED ls_tensor ls_stack_new(ls_dtype dtype, ls_shape shape);
// Makes a stack of endless zeros, the zero of gradients of stacks: popping it
// when nothing was pushed gives zeros.
LS_PLACED ls_tensor ls_stack_zeros(void);
LS_PLACED ls_tensor ls_stack_push(ls_tensor stack, ls_tensor value);
// Pops the top: output 0 is the stack without it, output 1 the top, of this
// type. A run fails with FAILED_PRECONDITION if the stack is empty.
LS_PLACED ls_op ls_stack_pop(ls_tensor stack, ls_dtype dtype, ls_shape shape);

// ---- Replicas --------------------------------------------------------------
typedef enum ls_reduce_op {
  LS_REDUCE_SUM,
  LS_REDUCE_MEAN,
  LS_REDUCE_MAX,
  LS_REDUCE_MIN,
} ls_reduce_op;
// Returns "SUM", "MEAN", "MAX" or "MIN"; NULL for another number.
LS_API const char *ls_reduce_op_name(ls_reduce_op op);
// Returns the sum (mean, ...) of x over all replicas, on every replica, added
// along the canonical tree on replica ids. The mean of integers is a true
// division: f64 for 32 and 64 bits, f32 for fewer. Outside replicas: x.
LS_PLACED ls_tensor ls_all_reduce(ls_reduce_op op, ls_tensor x);
// Concatenates the replicas' x along an axis, on every replica. Other
// dimensions than the axis have the same size on all. Outside replicas: x.
LS_PLACED ls_tensor ls_all_gather(ls_tensor x, int axis);
// Returns this replica's part of the sum (mean, ...) of x over all replicas: x
// is cut along an axis into equal parts, in replica order. Outside replicas: x.
LS_PLACED ls_tensor ls_reduce_scatter(ls_reduce_op op, ls_tensor x, int axis);
// Returns such a part as long as this replica's `like` along the axis. All
// parts together are as long as x.
LS_PLACED ls_tensor ls_reduce_scatter_like(ls_reduce_op op, ls_tensor x,
                                           int axis, ls_tensor like);
// Groups of replicas, all of one size; each replica is in exactly one. Sums go
// along the canonical tree over a group's members by id, and so do gathered
// rows; the order in which members are listed matters for ls_all_to_all.
typedef struct ls_replica_groups {
  const int32_t *members;  // Group by group.
  size_t size, count;      // Members per group; number of groups.
} ls_replica_groups;
// Reduce and gather within groups. NULL: one group of all. x has the same shape
// on all.
LS_PLACED ls_tensor ls_all_reduce_in(ls_reduce_op op, ls_tensor x,
                                     const ls_replica_groups *groups);
LS_PLACED ls_tensor ls_all_gather_in(ls_tensor x, int axis,
                                     const ls_replica_groups *groups);
LS_PLACED ls_tensor ls_reduce_scatter_in(ls_reduce_op op, ls_tensor x, int axis,
                                         const ls_replica_groups *groups);
// Cuts x along `split_axis` into as many parts as a group has members, sends
// part i to member i, and concatenates the received parts along `concat_axis`.
LS_PLACED ls_tensor ls_all_to_all(ls_tensor x, int split_axis, int concat_axis,
                                  const ls_replica_groups *groups);
// Sends the x of replica pairs[i][0] to replica pairs[i][1]; a replica that is
// no target gets zeros. No replica is source or target twice.
LS_PLACED ls_tensor ls_collective_permute(ls_tensor x,
                                          const int32_t (*pairs)[2],
                                          size_t num_pairs);
// Returns the x of replica `root`, on every replica.
LS_PLACED ls_tensor ls_collective_broadcast(ls_tensor x, int32_t root);
// Returns this replica's id, an i32 scalar; 0 outside replicas.
LS_PLACED ls_tensor ls_replica_id(void);

// ---- Host ------------------------------------------------------------------
// Prints `label` and the values at each run, as a line of information in the
// runtime's log: to standard error, unless the runtime has a log function.
LS_PLACED ls_op ls_print(const char *label, ls_tensor value);
// Fails the run with INVALID_ARGUMENT and `message` if `condition`, a bool
// scalar, is false. In eager, outside of runs and loops, the op alone fails:
// ls_tensor_status(ls_op_output(op, 0)).
LS_PLACED ls_op ls_assert_true(ls_tensor condition, const char *message);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_FLOW_H_
