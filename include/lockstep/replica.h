// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Context of a thread: outside of strategies, in a replica, or across replicas.
//
// Execution starts in the default replica context (replica 0 of 1). In the
// scope of a strategy, and inside a merge or update function, it is in that
// strategy's cross-replica context; inside a callback that a strategy runs, in
// a replica context. The context belongs to a thread and to the graph in which
// it was entered: another graph starts in the default context, a function that
// is traced sees the context of its caller.
//
// Threads: each thread has its own context; a replica's context is used in its
// own callback, whatever thread that runs on.
#ifndef LOCKSTEP_REPLICA_H_
#define LOCKSTEP_REPLICA_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_strategy ls_strategy;
// A replica context: lent to the replica's callback, and current in it only.
typedef struct ls_replica ls_replica;

// ---- Current context -------------------------------------------------------
// Returns the strategy in force, lent; the default one when none was entered.
// NULL only if memory runs out.
LS_API ls_strategy *ls_strategy_current(void);
// Returns true if a strategy other than the default one is in force.
LS_API bool ls_has_strategy(void);
LS_API bool ls_in_cross_replica_context(void);
// Returns the current replica context; NULL in a cross-replica context. Lent to
// the callback while it runs, on its thread: later uses are refused, until its
// strategy is destroyed, after which it must not be used.
LS_API ls_replica *ls_replica_context(void);
// Returns, in an update function, the number of the component that is being
// updated.
LS_API ls_opt ls_update_replica_id(void);
// Returns that component's device, "" outside.
LS_API const char *ls_update_device(void);

// Returns the number of replicas of the current replica's step; 1 outside.
LS_API int32_t ls_num_replicas(void);
// Returns the replica's id as a plain number: 0 if no strategy is in force, -1
// in a cross-replica context and where it is not known while tracing: in a run
// of a TPU strategy, which is traced once for all. (The tensor is
// ls_replica_id.)
LS_API int32_t ls_replica_number(void);

// ---- A replica context -----------------------------------------------------
// These may be called anywhere.
LS_API ls_strategy *ls_replica_strategy(const ls_replica *replica);
LS_API int32_t ls_replica_num_replicas(const ls_replica *replica);
// The following need the current replica context.
//   LS_FAILED_PRECONDITION  it is not current; names the current one.
LS_API LS_MUST_USE ls_status ls_replica_device(const ls_replica *replica,
                                               const char **out_device);
// Makes the replica's id, an i32 scalar.
LS_API LS_MUST_USE ls_status
ls_replica_id_in_sync_group(const ls_replica *replica, ls_tensor *out_id);
LS_API LS_MUST_USE ls_status ls_replica_is_single(const ls_replica *replica,
                                                  bool *out_is_single);

// Gets the number of this replica's examples, a scalar of an integer or float
// type made here; returns false if all replicas have the same number, or none
// is known. It is dimension 0 of the first argument of the run that has a
// component with rows for each replica, unless the step has set it.
//
// Optimizers and batch norm weight by it, so that the mean over replicas is the
// mean over all examples. A replica without examples has no weight.
LS_API bool ls_replica_examples(ls_tensor *out_count);
// Sets the number of this replica's examples, a scalar. All replicas must set
// one.
//   LS_FAILED_PRECONDITION  the replica is not the current one.
//   LS_INVALID_ARGUMENT     no scalar of an integer or float type.
LS_API LS_MUST_USE ls_status ls_replica_set_examples(ls_replica *replica,
                                                     ls_tensor count);

// Begins a scope in which the number of this replica's examples is `count`,
// also if no strategy is in force, as in a computation of ls_replicate, and
// whatever the step has set: for code that builds a step around a user's. It
// applies to the graph in which it is opened and to those inside; end it with
// ls_scope_end.
//   LS_INVALID_ARGUMENT  no scalar of an integer or float type.
LS_API void ls_examples_scope_begin(ls_scope *scope, ls_tensor count);
#define LS_EXAMPLES_SCOPE(examples) LS_SCOPE_(ls_examples_scope_begin, examples)

// Runs once for all replicas, in cross-replica context. `args` is lent; the
// caller owns the result. ls_fail refuses.
typedef ls_nest (*ls_merge_function)(ls_strategy *strategy, ls_nest args,
                                     void *user);
// Waits until every replica has made this call; then replica 0's `merge` runs
// once on the regrouped arguments (lent), and each replica continues with its
// part of the result. Returns a failed nest when a replica or the merge failed:
// return it, and later actions have no effect. Gradients pass, to all replicas'
// arguments from all replicas' results: all replicas must compute them. A value
// common to all (a variable that `merge` reads, or one tensor that all have
// passed) has its gradient on replica 0 and zeros elsewhere, so that the sum is
// right.
LS_API ls_nest ls_replica_merge_call(ls_replica *replica,
                                     ls_merge_function merge, ls_nest args,
                                     void *user);
// Reduces every leaf over the replicas (SUM or MEAN); all get the same result.
// The gradient is the same reduction of the replicas' gradients.
LS_API ls_nest ls_replica_all_reduce(ls_replica *replica, ls_reduce_op op,
                                     ls_nest nest);
// Returns every leaf's mean over the replicas, weighted (0: ignored, whatever
// the value): the sum of w v times 1 / the sum of w. With weights of 1 the bits
// are those of the plain mean.
//   LS_INVALID_ARGUMENT  not one weight per replica, a negative one, or a sum
//                        that f32 does not hold.
LS_API ls_nest ls_replica_weighted_mean(ls_replica *replica, ls_nest nest,
                                        const double *weights,
                                        size_t num_weights);
// Concatenates every leaf's parts of all replicas along an axis.
LS_API ls_nest ls_replica_all_gather(ls_replica *replica, ls_nest nest,
                                     int axis);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_REPLICA_H_
