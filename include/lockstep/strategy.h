// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Strategies: how one step runs on many replicas.
//
// Replicas are logical: their number is part of the program; how many threads
// work on them is not. A traced function that a strategy runs is traced for
// every replica, each with its own arguments; where the traces agree there is
// one body. Values that are equal on all replicas are computed and stored
// once. A plain callback runs on one replica after the other, op by op in
// eager, into the graph that is being built else.
//
// Where a graph is being built (a build graph, a traced function's callback, a
// loop's or branch's) a run becomes part of it. One program may thus hold runs
// of several strategies, whatever their numbers of replicas: one behind the
// other, in turns in a loop, on what others gave (ls_strategy_reduce). Each
// gives what it does in a program of its own. A run does not begin inside of a
// replica of another strategy.
//
// Counted. All inputs are copied when a strategy is made.
//
// Threads: any number of threads may run on a strategy at the same time, each
// with its own scopes; a plain callback then runs in several threads at once.
// Setting its cross-device ops or prefetch is for when nobody runs.
#ifndef LOCKSTEP_STRATEGY_H_
#define LOCKSTEP_STRATEGY_H_

#include "lockstep/distributed.h"
#include "lockstep/function.h"
#include "lockstep/replica.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cross_device ls_cross_device;  // lockstep/cross_device.h

// ---- Making ----------------------------------------------------------------
// Zero in a field means its default. At most one of num_replicas, devices and
// num_gpus is given; with none: a replica on each GPU there is, else on each
// CPU.
typedef struct ls_mirrored_options {
  const char *name;            // In its label. Default: a number of its own.
  ls_opt num_replicas;         // On that many logical CPUs.
  const char *const *devices;  // A replica on each, in this order.
  size_t num_devices;
  ls_opt num_gpus;                // On "/device:GPU:0" and so on.
  ls_cross_device *cross_device;  // Retained. Default: reduce to one.
  ls_flag prefetch;  // Whether input goes to the devices ahead of use.
  // What ops of a plain callback's replica r > 0 are built in, in a graph: the
  // name scope "<prefix>_<r>/". Default "replica".
  const char *scope_prefix;
  // Whether its variables are of one class, with a policy each, as
  // lockstep/variable_recipe.h tells. Default off.
  ls_flag variable_policies;
} ls_mirrored_options;
// Creates a mirrored strategy: a copy of the step on each replica, variables
// equal on all. The caller owns a reference.
//   LS_INVALID_ARGUMENT  less than one replica, a device twice, two ways of
//                        saying where.
LS_API LS_MUST_USE ls_status ls_mirrored_strategy_create(
    const ls_mirrored_options *options, ls_strategy **out_strategy);
// A mirrored strategy of one replica, on this device.
LS_API LS_MUST_USE ls_status
ls_one_device_strategy_create(const char *device, ls_strategy **out_strategy);
// The runtime's default strategy: what is in force when none was entered. Lent.
LS_API LS_MUST_USE ls_status ls_strategy_default(ls_strategy **out_strategy);

LS_API ls_strategy *ls_strategy_retain(ls_strategy *strategy);
LS_API void ls_strategy_release(ls_strategy *strategy);

// ---- What it is ------------------------------------------------------------
// What messages call it: kind, name or number, replicas and devices, such as
// "mirrored strategy 'train' (2 replicas on CPU:0, CPU:1)". Lent.
LS_API const char *ls_strategy_label(const ls_strategy *strategy);
LS_API int32_t ls_strategy_num_replicas(const ls_strategy *strategy);
LS_API bool ls_strategy_is_single_replica(const ls_strategy *strategy);

// ---- Scopes ----------------------------------------------------------------
// Inside, variables are made by the strategy and it is in force; the pair of
// ls_strategy_scope_end. Refused inside of another strategy and inside of one
// of its own replicas.
LS_API void ls_strategy_scope_begin(ls_scope *scope, ls_strategy *strategy);
//   LS_FAILED_PRECONDITION  a scope opened after it is still open: names its
//                           kind, and everything stays as it is.
LS_API LS_MUST_USE ls_status ls_strategy_scope_end(ls_scope *scope);
#define LS_STRATEGY_SCOPE(strategy) LS_SCOPE_(ls_strategy_scope_begin, strategy)
// Puts the strategy in force without a scope, in place of what was put so
// before; NULL: the default one. It is the thread's, and left when that ends.
//   LS_FAILED_PRECONDITION  inside of a scope.
LS_API LS_MUST_USE ls_status ls_strategy_set_current(ls_strategy *strategy);

// ---- Running ---------------------------------------------------------------
// Runs the callable on every replica, in the strategy's scope. Replica r gets
// component r of each distributed leaf of `args` (a lent tuple or list), and
// every other leaf as it is; a distributed variable stays whole. `*results` is
// the replicas' results put together: leaves that are the same on all come back
// as they are, others as PerReplica. A traced function's tensors are PerReplica
// always; where all replicas compute one value, such as a sum over them, all
// components are one array. In-out as in ls_function_call. What one replica
// gave is read by ls_strategy_replica_result, whatever the leaves have become.
LS_API LS_MUST_USE ls_status ls_strategy_run(ls_strategy *strategy,
                                             ls_callable callable, ls_nest args,
                                             ls_nest *results);
// How a replicated computation is compiled. Zero in a field means its default.
typedef struct ls_xla_options {
  // Whether a replica's cores are one to the computation. Default on.
  ls_flag spmd;
  // Whether ops see the real sizes of what is padded. Default on.
  ls_flag dynamic_padder;
} ls_xla_options;
// How to run. Zero in a field means its default.
typedef struct ls_run_options {
  // Whether replicas of a plain callback may run at the same time. Default on.
  // It is a permission: today they take turns on the caller's thread, and
  // results are the same either way. Building is always one after the other.
  ls_flag run_concurrently;
  // Arguments by name, a dict, lent: see parameters.h.
  ls_nest named;
  // The others are for TPU strategies, and refused by those of other kinds.
  //
  // Whether sizes of arguments may differ between replicas, or be unknown while
  // building. Default on.
  ls_flag dynamic_batch;
  // Whether these are padded to powers of two, so that fewer programs are
  // compiled. Default off.
  ls_flag bucketize;
  // Lent, and taken whole. Default: SPMD as the strategy was made with, and the
  // dynamic padder.
  const ls_xla_options *xla;
  // Whether ops that no core runs go to the host by themselves. Default on.
  ls_flag soft_placement;
} ls_run_options;
LS_API LS_MUST_USE ls_status ls_strategy_run_with(ls_strategy *strategy,
                                                  ls_callable callable,
                                                  ls_nest args,
                                                  const ls_run_options *options,
                                                  ls_nest *results);

// ---- Values ----------------------------------------------------------------
// Cuts dimension 0 of an array into one view per replica: sizes differ by at
// most one, larger ones first. The views keep the array.
LS_API LS_MUST_USE ls_status ls_strategy_split(ls_strategy *strategy,
                                               ls_array *array,
                                               ls_nest *out_value);
// One value from a function of (replica, number of replicas), called for each
// replica in order; always a PerReplica, on the default strategy its value.
typedef ls_nest (*ls_value_function)(int32_t replica, int32_t replicas,
                                     void *user);
LS_API LS_MUST_USE ls_status ls_strategy_values_from_function(
    ls_strategy *strategy, ls_value_function function, void *user,
    ls_nest *out_value);
// The components of a distributed value as a tuple; of a nest a tuple of nests;
// anything else a 1-tuple.
LS_API LS_MUST_USE ls_status ls_strategy_local_results(ls_strategy *strategy,
                                                       ls_nest value,
                                                       ls_nest *out_tuple);
// What one replica gave, or what of any nest is for it: of a distributed leaf
// or variable its component, of anything else, which is the same on all, that.
// The one way that works for every kind of result. The caller owns it.
//   LS_OUT_OF_RANGE      no such replica.
//   LS_INVALID_ARGUMENT  a leaf without a component for it; names the device.
LS_API LS_MUST_USE ls_status ls_strategy_replica_result(ls_strategy *strategy,
                                                        ls_nest results,
                                                        int32_t replica,
                                                        ls_nest *out_result);

// How to reduce. Zero in a field means its default.
typedef struct ls_reduce_options {
  // Also along these axes within each replica; negative ones count from the
  // end. NULL: across replicas only. Not NULL and none: the same.
  const int *axes;
  size_t num_axes;
  // MEAN: one number a replica. The sum of w v times 1 / the sum of w; a weight
  // of 0 leaves the value out, whatever it is. NULL: all 1.
  const double *weights;
  size_t num_weights;
} ls_reduce_options;
// The sum (or mean) over a PerReplica's components, along the canonical tree, a
// leaf at a time: arrays give an array, tensors a tensor. Any other leaf: MEAN
// gives it, SUM only with one replica, or of a host zero. The caller owns the
// result.
LS_API LS_MUST_USE ls_status ls_strategy_reduce(ls_strategy *strategy,
                                                ls_reduce_op op, ls_nest value,
                                                ls_nest *out_value);
LS_API LS_MUST_USE ls_status
ls_strategy_reduce_with(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                        const ls_reduce_options *options, ls_nest *out_value);
// The components behind each other along an axis, in replica order.
LS_API LS_MUST_USE ls_status ls_strategy_gather(ls_strategy *strategy,
                                                ls_nest value, int axis,
                                                ls_nest *out_value);

// ---- Input -----------------------------------------------------------------
// Which part of the input a pipeline is for.
typedef struct ls_input_context {
  int32_t num_pipelines, pipeline;
  int32_t num_replicas;  // That work in step.
} ls_input_context;
// A data set for a pipeline, as an object leaf.
typedef ls_nest (*ls_dataset_function)(ls_input_context context, void *user);
// The data set (an object leaf, lent) for the strategy's replicas: on the
// default strategy itself, else a distributed one, whose batches are split:
// distribute_input.h says how, and has options and iterators.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_dataset(
    ls_strategy *strategy, ls_nest dataset, ls_nest *out_dataset);
// The same of one made for each pipeline, whose elements are not split: on the
// default strategy for pipeline 0 of 1.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_datasets_from_function(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    ls_nest *out_dataset);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRATEGY_H_
