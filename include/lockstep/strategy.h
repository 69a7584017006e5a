// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Strategies: run one step on many replicas.
//
// Replicas are logical: their number is part of the program; the number of
// threads that work on them is not. A traced function that a strategy runs is
// traced for every replica, each with its own arguments; where the traces agree
// there is one body. Values that are equal on all replicas are computed and
// stored once. A plain callback is called for each replica, op by op in eager,
// otherwise into the graph that is being built. The calls take turns on one
// thread: each runs up to its next collective, merge call or aggregated write,
// where it waits for the others, which may change the data of `user`.
//
// While a graph is being built (a build graph, a traced function's callback, a
// loop's or branch's) a run becomes part of it. One program may thus hold runs
// of several strategies, whatever their numbers of replicas: in sequence,
// alternating in a loop, using each other's results (ls_strategy_reduce). Each
// gives the result it has in a program of its own. A run cannot begin inside a
// replica of another strategy.
//
// Reference-counted. All inputs are copied when a strategy is created.
//
// Threads: any number of threads may run on a strategy at the same time, each
// with its own scopes; a plain callback then runs in several threads at once.
// Set its cross-device ops or prefetch only while no thread runs on it.
#ifndef LOCKSTEP_STRATEGY_H_
#define LOCKSTEP_STRATEGY_H_

#include "lockstep/distributed.h"
#include "lockstep/function.h"
#include "lockstep/replica.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_cross_device ls_cross_device;  // lockstep/cross_device.h

// ---- Creation --------------------------------------------------------------
// Zero in a field means its default. At most one of num_replicas, devices and
// num_gpus may be given; with none: one replica per GPU if there are any, else
// per CPU.
typedef struct ls_mirrored_options {
  const char *name;     // Name in its label. Default: a number of its own.
  ls_opt num_replicas;  // One replica on each of that many logical CPUs.
  // One replica on each, in this order. On a plug-in, which must have them when
  // replicas run, traced steps run there (lockstep/device.h).
  const char *const *devices;
  size_t num_devices;
  ls_opt num_gpus;  // One replica on each of "/device:GPU:0" and so on.
  ls_cross_device *cross_device;  // Retained. Default: reduce to one.
  ls_flag prefetch;               // On: prefetches input to the devices.
  // Prefix of the name scope "<prefix>_<r>/" for ops of a plain callback's
  // replica r > 0, in a graph. Default "replica".
  const char *scope_prefix;
  // On: all its variables are of one class, with a policy each, as described in
  // lockstep/variable_recipe.h. Default off.
  ls_flag variable_policies;
} ls_mirrored_options;
// Creates a mirrored strategy: a copy of the step on each replica, with equal
// variables on all. The caller owns a reference.
//   LS_INVALID_ARGUMENT  less than one replica, a duplicate device, more than
//                        one of the three choices.
LS_API LS_MUST_USE ls_status ls_mirrored_strategy_create(
    const ls_mirrored_options *options, ls_strategy **out_strategy);
// Creates a mirrored strategy of one replica, on this device.
LS_API LS_MUST_USE ls_status
ls_one_device_strategy_create(const char *device, ls_strategy **out_strategy);
// Returns the runtime's default strategy, in force when none was entered. Lent.
LS_API LS_MUST_USE ls_status ls_strategy_default(ls_strategy **out_strategy);

LS_API ls_strategy *ls_strategy_retain(ls_strategy *strategy);
LS_API void ls_strategy_release(ls_strategy *strategy);

// ---- Properties ------------------------------------------------------------
// Returns its name in messages: kind, name or number, replicas and devices,
// such as "mirrored strategy 'train' (2 replicas on CPU:0, CPU:1)". Lent.
LS_API const char *ls_strategy_label(const ls_strategy *strategy);
LS_API int32_t ls_strategy_num_replicas(const ls_strategy *strategy);
LS_API bool ls_strategy_is_single_replica(const ls_strategy *strategy);

// ---- Scopes ----------------------------------------------------------------
// Begins a scope in which the strategy is in force and makes variables; end it
// with ls_strategy_scope_end. Refused inside another strategy and inside one of
// its own replicas.
LS_API void ls_strategy_scope_begin(ls_scope *scope, ls_strategy *strategy);
// Ends the scope.
//   LS_FAILED_PRECONDITION  a scope opened after it is still open: names its
//                           kind, and nothing changes.
LS_API LS_MUST_USE ls_status ls_strategy_scope_end(ls_scope *scope);
#define LS_STRATEGY_SCOPE(strategy) LS_SCOPE_(ls_strategy_scope_begin, strategy)
// Puts the strategy in force without a scope, replacing one set so before;
// NULL: the default one. Applies to the thread, until it ends.
//   LS_FAILED_PRECONDITION  inside a scope.
LS_API LS_MUST_USE ls_status ls_strategy_set_current(ls_strategy *strategy);

// ---- Running ---------------------------------------------------------------
// Runs the callable on every replica, in the strategy's scope. Replica r gets
// component r of each distributed leaf of `args` (a lent tuple or list), and
// every other leaf unchanged; a distributed variable is passed as a whole. An
// array is a tensor in a traced function, and stays an array in a plain
// callback in eager (ls_tensor_from_array). On a TPU strategy a number becomes
// a tensor, i32 or f32, which ls_nest_number cannot read.
// `*results` combines the replicas' results: leaves that are the same on all
// are returned as they are, others as PerReplica. With several replicas a
// traced function's tensors are always PerReplica; where all replicas compute
// one value, such as a sum over them, all components are one array. With one
// replica they are arrays; ls_distributed_component takes both. In-out as in
// ls_function_call. For one replica's part of a whole nest, whatever its
// leaves, use ls_strategy_replica_result. Op by op, the first op that fails in
// a callback fails the run, unless the callback gets the failure from the
// tensor or one computed from it (ls_tensor_status, ls_tensor_value), or as the
// status of the call that made the op, such as ls_variable_write. The status of
// a nest, such as a loop's, does not count, nor that of a later call that is
// given the tensor. Until then no further op with effects, and no function with
// such ops, runs in it.
//   LS_NOT_FOUND      the plug-in has no device of a number that was chosen:
//                     names those that it has.
//   LS_UNIMPLEMENTED  the runtime has no devices of a type that was chosen.
LS_API LS_MUST_USE ls_status ls_strategy_run(ls_strategy *strategy,
                                             ls_callable callable, ls_nest args,
                                             ls_nest *results);
// Compilation options of a replicated computation. Zero in a field means its
// default.
typedef struct ls_xla_options {
  // On: a replica's cores form one device for the computation. Default on.
  ls_flag spmd;
  // On: ops see the real sizes of padded values. Default on.
  ls_flag dynamic_padder;
} ls_xla_options;
// Options of a run. Zero in a field means its default.
typedef struct ls_run_options {
  // On: replicas of a plain callback may run at the same time. Default on. It
  // is a permission: currently they run one after another on the caller's
  // thread, and results are the same either way. Building is always sequential.
  ls_flag run_concurrently;
  // Arguments by name, a dict, lent: see parameters.h.
  ls_nest named;
  // The others are for TPU strategies, and refused by other kinds.
  //
  // On: sizes of arguments may differ between replicas, or be unknown while
  // building. Default on.
  ls_flag dynamic_batch;
  // On: such sizes are padded to powers of two, so that fewer programs are
  // compiled. Default off.
  ls_flag bucketize;
  // Lent; all fields apply. Default: SPMD as set for the strategy, and the
  // dynamic padder.
  const ls_xla_options *xla;
  // On: moves ops that cores cannot run to the host automatically. Default on.
  ls_flag soft_placement;
} ls_run_options;
LS_API LS_MUST_USE ls_status ls_strategy_run_with(ls_strategy *strategy,
                                                  ls_callable callable,
                                                  ls_nest args,
                                                  const ls_run_options *options,
                                                  ls_nest *results);

// ---- Values ----------------------------------------------------------------
// Splits dimension 0 of an array into one view per replica: sizes differ by at
// most one, larger ones first. The views retain the array. The caller owns the
// value.
LS_API LS_MUST_USE ls_status ls_strategy_split(ls_strategy *strategy,
                                               ls_array *array,
                                               ls_nest *out_value);
// Makes a value by a function of (replica, number of replicas), called for each
// replica in order; always a PerReplica, on the default strategy its value.
typedef ls_nest (*ls_value_function)(int32_t replica, int32_t replicas,
                                     void *user);
LS_API LS_MUST_USE ls_status ls_strategy_values_from_function(
    ls_strategy *strategy, ls_value_function function, void *user,
    ls_nest *out_value);
// Returns the components of a distributed value as a tuple; for a nest a tuple
// of nests; for anything else a 1-tuple. On several ranks: those of this
// process. The caller owns it.
LS_API LS_MUST_USE ls_status ls_strategy_local_results(ls_strategy *strategy,
                                                       ls_nest value,
                                                       ls_nest *out_tuple);
// Returns one replica's result, or its part of any nest: the component of a
// distributed leaf or variable; any other leaf, which is the same on all,
// unchanged. It works for every kind of result. The caller owns the nest.
//   LS_OUT_OF_RANGE      no such replica.
//   LS_INVALID_ARGUMENT  a leaf without a component for it; names the device.
LS_API LS_MUST_USE ls_status ls_strategy_replica_result(ls_strategy *strategy,
                                                        ls_nest results,
                                                        int32_t replica,
                                                        ls_nest *out_result);

// Options of a reduction. Zero in a field means its default.
typedef struct ls_reduce_options {
  // Also reduces along these axes within each replica; negative ones count from
  // the end. NULL, or an empty list: across replicas only.
  const int *axes;
  size_t num_axes;
  // For MEAN: one weight per replica. The result is the sum of w v times 1 /
  // the sum of w, which f32 must hold; a weight of 0 ignores the value,
  // whatever it is, and a missing value has none. NULL: all 1.
  const double *weights;
  size_t num_weights;
} ls_reduce_options;
// Computes the sum (or mean) over a PerReplica's components, along the
// canonical tree, leaf by leaf: arrays give an array, tensors a tensor. Any
// other leaf: MEAN returns it, SUM only with one replica, or for a host zero.
// The caller owns the result.
LS_API LS_MUST_USE ls_status ls_strategy_reduce(ls_strategy *strategy,
                                                ls_reduce_op op, ls_nest value,
                                                ls_nest *out_value);
LS_API LS_MUST_USE ls_status
ls_strategy_reduce_with(ls_strategy *strategy, ls_reduce_op op, ls_nest value,
                        const ls_reduce_options *options, ls_nest *out_value);
// Concatenates the components along an axis, in replica order.
LS_API LS_MUST_USE ls_status ls_strategy_gather(ls_strategy *strategy,
                                                ls_nest value, int axis,
                                                ls_nest *out_value);

// ---- Input -----------------------------------------------------------------
// Identifies the part of the input that a pipeline reads.
typedef struct ls_input_context {
  int32_t num_pipelines, pipeline;
  int32_t num_replicas;  // Number of replicas that work in step.
} ls_input_context;
// Makes a data set for a pipeline, as an object leaf.
typedef ls_nest (*ls_dataset_function)(ls_input_context context, void *user);
// Distributes a data set (an object leaf, lent) to the strategy's replicas: on
// the default strategy returns the data set itself, else a distributed one,
// whose batches are split; distribute_input.h explains how, and has options and
// iterators. The caller owns `*out_dataset`.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_dataset(
    ls_strategy *strategy, ls_nest dataset, ls_nest *out_dataset);
// Distributes data sets made for each pipeline, whose elements are not split:
// on the default strategy for pipeline 0 of 1.
LS_API LS_MUST_USE ls_status ls_strategy_distribute_datasets_from_function(
    ls_strategy *strategy, ls_dataset_function function, void *user,
    ls_nest *out_dataset);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STRATEGY_H_
