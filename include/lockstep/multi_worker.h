// SPDX-License-Identifier: Apache-2.0
// Layer: distribute
//
// Several workers: a strategy whose replicas are spread over the processes of a
// cluster, and the cross-device ops for it.
//
// Sums have the same bits with every choice here, as with all cross-device ops.
//
// Threads: as in lockstep/strategy.h and lockstep/cross_device.h.
#ifndef LOCKSTEP_MULTI_WORKER_H_
#define LOCKSTEP_MULTI_WORKER_H_

#include "lockstep/cluster.h"
#include "lockstep/cross_device.h"
#include "lockstep/strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Collective ops --------------------------------------------------------
typedef enum ls_collective_implementation {
  LS_COLLECTIVE_AUTO,
  LS_COLLECTIVE_RING,
  LS_COLLECTIVE_NCCL,
} ls_collective_implementation;
// Zero in a field means its default.
typedef struct ls_collective_options {
  // In a build graph a batch is joined from its end into packs, which are full
  // when they hold more than that many bytes. Default 0: one pack.
  int64_t bytes_per_pack;
  // Longest wait for another member. Then the call or the run fails with
  // DEADLINE_EXCEEDED, and so do all later ones of all ranks. Default 0: none.
  double timeout_seconds;
  ls_collective_implementation implementation;  // No result depends on it.
} ls_collective_options;
// Parses AUTO, RING or NCCL, in any case.
//   LS_INVALID_ARGUMENT  another text.
LS_API LS_MUST_USE ls_status ls_collective_implementation_parse(
    const char *text, ls_collective_implementation *out_implementation);
// Returns `first` with those fields of `second` that are not their defaults.
LS_API ls_collective_options ls_collective_options_merge(
    const ls_collective_options *first, const ls_collective_options *second);

// Creates ops for a group: `devices` of this process, and as many of each other
// rank. A value has a component for each of these devices, or for all of the
// group, in order of ranks. In eager those of other ranks are fetched, so that
// all ranks create their ops in the same order, and make the same calls of each
// in the same order, one at a time; values of functions and graphs have all
// components.
//   LS_INVALID_ARGUMENT     group_size is no multiple of num_devices; options.
//   LS_FAILED_PRECONDITION  the runtime has another number of ranks.
LS_API LS_MUST_USE ls_status ls_collective_ops_create(
    const char *const *devices, size_t num_devices, int32_t group_size,
    const ls_collective_options *options, ls_cross_device **out_ops);

// ---- All-reduce by specs ---------------------------------------------------
// Rule for the tensors of a batch whose size is at most `limit`.
typedef struct ls_all_reduce_spec {
  // "nccl", "nccl/xring", "nccl/rechd", "nccl/pscpu", "xring", "pscpu", "psgpu"
  // or "pscpu/pscpu".
  const char *name;
  ls_opt shards;  // Default 1.
  ls_opt limit;   // Number of elements; negative, the default: any.
} ls_all_reduce_spec;
// Zero in a field means its default.
typedef struct ls_spec_all_reduce_options {
  const char *const *workers;  // Prefixes of devices: "/job:worker/task:0".
  size_t num_workers;
  int32_t gpus_per_worker;
  const ls_all_reduce_spec *specs;  // NULL: "pscpu/pscpu" with 2 shards.
  size_t num_specs;
  ls_opt num_packs;  // As in ls_all_reduce_options. Default 0.
  int64_t small_max_bytes;
  ls_opt small_max_group;
} ls_spec_all_reduce_options;
// Creates ops for several workers in one graph. The specs are checked, and
// select nothing: there is one order of addition. Batches need known shapes.
//   LS_INVALID_ARGUMENT  no specs, or no workers; an unknown name; limits that
//                        do not rise or end with one; more shards than devices
//                        to add on; "rechd" on a number of devices that is no
//                        power of two, a ring of one.
LS_API LS_MUST_USE ls_status ls_spec_all_reduce_create(
    const ls_spec_all_reduce_options *options, ls_cross_device **out_ops);

// ---- The strategy ----------------------------------------------------------
// A process in its cluster. Zero in a field means its default.
typedef struct ls_worker_options {
  const ls_cluster_spec *cluster;  // Required, with the two below.
  const char *task_type;
  ls_opt task_id;
  const ls_collective_options *collective;  // For its cross-device ops.
} ls_worker_options;
// Creates a mirrored strategy over all workers of a cluster: `local` describes
// the replicas of each worker, whose number is multiplied by that of workers.
// Worker w of the cluster, the chief first, is rank w of the runtime's
// communicator. Its variables start from the chief's values; only the chief
// saves checkpoints and writes summaries.
//   LS_INVALID_ARGUMENT     task_type or task_id is missing, or no worker's;
//                           local has devices.
//   LS_FAILED_PRECONDITION  the runtime has another number of ranks, or another
//                           rank.
LS_API LS_MUST_USE ls_status ls_multi_worker_strategy_create(
    const ls_mirrored_options *local, const ls_worker_options *worker,
    ls_strategy **out_strategy);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_MULTI_WORKER_H_
