// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Where the thread is: outside of strategies, in a replica, or across replicas.
//
// Execution starts in the default replica context (replica 0 of 1). In the
// scope of a strategy, and inside of a merge or update function, it is in that
// strategy's cross-replica context; inside of a callback that a strategy runs,
// in a replica context. The state belongs to a thread and to the graph in which
// it was entered: another graph starts in the default state, a function that is
// traced sees the state of its caller.
//
// Threads: where a thread is, it alone knows; a replica's context is used in
// its own callback, whatever thread that runs on.
#ifndef LOCKSTEP_REPLICA_H_
#define LOCKSTEP_REPLICA_H_

#include "lockstep/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_strategy ls_strategy;
// A replica context: lent to the replica's callback, and current in it only.
typedef struct ls_replica ls_replica;

// ---- What holds here -------------------------------------------------------
// The strategy in force, lent; the default one when nothing was entered. NULL
// only without memory.
LS_API ls_strategy *ls_strategy_current(void);
// Whether a strategy other than the default one is in force.
LS_API bool ls_has_strategy(void);
LS_API bool ls_in_cross_replica_context(void);
// The current replica context; NULL in a cross-replica context. Lent to the
// callback while it runs, on its thread: kept longer it is refused, until its
// strategy goes, after which it must not be used.
LS_API ls_replica *ls_replica_context(void);
// In an update function: the number of the component that is being updated.
LS_API ls_opt ls_update_replica_id(void);
// Its device, "" outside.
LS_API const char *ls_update_device(void);

// How many replicas the current replica's step runs on; 1 outside.
LS_API int32_t ls_num_replicas(void);
// The replica's id as a plain number: 0 where no strategy is in force, -1 in a
// cross-replica context and where it is not known while tracing: in a run of a
// TPU strategy, which is traced once for all. (The tensor is ls_replica_id.)
LS_API int32_t ls_replica_number(void);

// ---- A replica context -----------------------------------------------------
// Anywhere.
LS_API ls_strategy *ls_replica_strategy(const ls_replica *replica);
LS_API int32_t ls_replica_num_replicas(const ls_replica *replica);
// The rest is for the current replica context.
//   LS_FAILED_PRECONDITION  it is not; names what is current.
LS_API LS_MUST_USE ls_status ls_replica_device(const ls_replica *replica,
                                               const char **out_device);
// The id, an i32 scalar made here.
LS_API LS_MUST_USE ls_status
ls_replica_id_in_sync_group(const ls_replica *replica, ls_tensor *out_id);
LS_API LS_MUST_USE ls_status ls_replica_is_single(const ls_replica *replica,
                                                  bool *out_is_single);

// How many examples this replica has, a scalar of an integer or float type made
// here; false if all replicas have the same number, or none is known. It is
// dimension 0 of the first argument of the run that has a component with rows
// for each replica, unless the step has given it.
//
// Optimizers and batch norm weigh by it, so that the mean over replicas is the
// mean over all examples. A replica without examples counts nothing.
LS_API bool ls_replica_examples(ls_tensor *out_count);
// Gives the number of this replica's examples, a scalar. All replicas give one.
//   LS_FAILED_PRECONDITION  the replica is not the current one.
//   LS_INVALID_ARGUMENT     no scalar of an integer or float type.
LS_API LS_MUST_USE ls_status ls_replica_set_examples(ls_replica *replica,
                                                     ls_tensor count);

// Inside, the number of this replica's examples is `count`, also where no
// strategy is in force, as in a computation that ls_replicate makes, and
// whatever the step has given: for who builds a step around a user's. It holds
// in the graph where it is opened and inside of that; the pair of ls_scope_end.
//   LS_INVALID_ARGUMENT  as above.
LS_API void ls_examples_scope_begin(ls_scope *scope, ls_tensor count);
#define LS_EXAMPLES_SCOPE(examples) LS_SCOPE_(ls_examples_scope_begin, examples)

// What all replicas do together, in cross-replica context. `args` is lent; the
// result is the caller's. ls_fail refuses.
typedef ls_nest (*ls_merge_function)(ls_strategy *strategy, ls_nest args,
                                     void *user);
// Pauses until every replica has come here; then replica 0's `merge` runs once
// on the regrouped arguments (lent), and each replica goes on with its part of
// the result. A failed nest when a replica or the merge failed: return it, and
// nothing done afterwards counts.
// Gradients pass, to all replicas' arguments from all replicas' results: all
// replicas are to ask for them. What is one value for all (a variable that
// `merge` reads, or one tensor that all have given) has its gradient on replica
// 0 and zeros elsewhere, which add up to it.
LS_API ls_nest ls_replica_merge_call(ls_replica *replica,
                                     ls_merge_function merge, ls_nest args,
                                     void *user);
// Every leaf reduced over the replicas (SUM or MEAN), the same on each. Its
// gradient is the same reduction of the replicas' gradients.
LS_API ls_nest ls_replica_all_reduce(ls_replica *replica, ls_reduce_op op,
                                     ls_nest nest);
// Every leaf's mean over the replicas, each of which counts as its weight says
// (0: not at all, whatever its value is): the sum of w v times 1 / the sum of
// w. With weights of 1 the bits are those of the plain mean.
//   LS_INVALID_ARGUMENT  not one weight a replica, or a negative one.
LS_API ls_nest ls_replica_weighted_mean(ls_replica *replica, ls_nest nest,
                                        const double *weights,
                                        size_t num_weights);
// Every leaf's parts of all replicas behind each other along an axis.
LS_API ls_nest ls_replica_all_gather(ls_replica *replica, ls_nest nest,
                                     int axis);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_REPLICA_H_
