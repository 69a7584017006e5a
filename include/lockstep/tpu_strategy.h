// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// TPU strategies: one replica per core of a pod, or per group of cores.
//
// Everything that strategies do (lockstep/strategy.h) works on one. A run's
// callable is built once, as a replicated computation (lockstep/replicate.h),
// in which the replica's id is a tensor; merge calls run in place. So a run is
// part of a graph: of one that is being built, or of a traced function. With
// the same data and number of replicas the bits are those of a mirrored
// strategy.
//
// In a run's cross-replica context (a merge call) values are the replica's own:
// ls_strategy_reduce and its kin add over all replicas, destinations are
// ignored, gather concatenates the values of all replicas, except those that
// the merge call itself has reduced or gathered, broadcast_to gives all the
// first replica's value, and an update calls its function once, with the
// variable as a whole. Values from outside have components, mirrored ones too,
// which are gathered on the first replica's host, no more than 200 in one op,
// and sent to their destinations from there; a value without components is the
// same for all. Gathered values must have one shape on all replicas.
//
// Threads: as for all strategies.
#ifndef LOCKSTEP_TPU_STRATEGY_H_
#define LOCKSTEP_TPU_STRATEGY_H_

#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/tpu_system.h"

#ifdef __cplusplus
extern "C" {
#endif

// Options of a TPU strategy. Zero in a field means its default.
typedef struct ls_tpu_options {
  const char *name;  // In its label. Default: a number of its own.
  // Resolver of the system, retained; queried for its metadata once, here; the
  // system need not be initialized before. Default: one without a name, the
  // local system.
  ls_tpu_resolver *resolver;
  // Cores of the replicas, retained. Default: one on each core of the system.
  ls_device_assignment *assignment;
  // On: a replica's cores form one device for its computation (SPMD). No result
  // depends on it. Default off.
  ls_flag spmd;
} ls_tpu_options;

// Creates a strategy. The caller owns a reference. Sets the runtime's gauges
// (lockstep/gauge.h).
//   LS_NOT_FOUND         the system has no TPU: names its master and its
//                        devices.
//   LS_INVALID_ARGUMENT  the assignment is of another system: names both.
//   LS_UNIMPLEMENTED     the system is given by addresses; see tpu_system.h.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_create(
    const ls_tpu_options *options, ls_strategy **out_strategy);

// Creates the experimental variant: the same, except for logical devices
// (lockstep/logical_device.h). Each call writes a warning.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_experimental_create(
    const ls_tpu_options *options, ls_strategy **out_strategy);

// Options of the v1 variant, which has no gather, no values from functions, and
// no logical devices. Zero in a field means its default.
typedef struct ls_tpu_v1_options {
  const char *name;  // Name and resolver are as in ls_tpu_options.
  ls_tpu_resolver *resolver;
  // Number of steps that a run of steps on an iterator makes. Default 1.
  ls_opt steps_per_run;
  ls_device_assignment *assignment;
} ls_tpu_v1_options;
LS_API LS_MUST_USE ls_status ls_tpu_strategy_v1_create(
    const ls_tpu_v1_options *options, ls_strategy **out_strategy);

// ---- Properties ------------------------------------------------------------
// Return the resolver it was created with, by default the one it made, and the
// metadata as it was then; NULL for other strategies. Lent.
LS_API ls_tpu_resolver *ls_tpu_strategy_resolver(const ls_strategy *strategy);
LS_API const ls_tpu_metadata *
ls_tpu_strategy_metadata(const ls_strategy *strategy);
// Gets the canonical name of a replica's logical core.
//   LS_INVALID_ARGUMENT  no TPU strategy, or no such replica or core.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_device(const ls_strategy *strategy,
                                                    int32_t replica,
                                                    int32_t core,
                                                    ls_device_name *out_name);
// Gets the CPU of the host of the first replica's first core.
//   LS_INVALID_ARGUMENT  no TPU strategy.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_host(const ls_strategy *strategy,
                                                  ls_device_name *out_name);
// Return the number of hosts that have a replica's first core, without an
// assignment those of the system; and the number of replicas that fit on a host
// of the system, however they are distributed. 0 for other strategies.
LS_API int32_t ls_tpu_strategy_num_hosts(const ls_strategy *strategy);
LS_API int32_t
ls_tpu_strategy_num_replicas_per_host(const ls_strategy *strategy);
// Returns the number of steps that a run of steps on an iterator makes, in
// every variant; 0 for other strategies.
LS_API int64_t ls_tpu_strategy_steps_per_run(const ls_strategy *strategy);
LS_API bool ls_tpu_strategy_spmd(const ls_strategy *strategy);
// Returns the replica's number on its worker: a whole pod is one worker, so it
// is the replica's id. -1 if there is no such replica, or for other strategies.
LS_API int32_t ls_tpu_strategy_local_replica_id(const ls_strategy *strategy,
                                                int32_t replica);

// ---- Sessions --------------------------------------------------------------
// Copies a configuration (NULL: the defaults) for sessions on the strategy's
// system: with state of their own, and with the cluster that its resolver
// currently names, if any. The caller frees it (ls_session_config_deinit).
//   LS_INVALID_ARGUMENT  it is no TPU strategy.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_update_config(
    const ls_strategy *strategy, const ls_session_config *config,
    ls_session_config *out_config);
// Replaces `config` by such a copy; does nothing for NULL. The roles in a
// cluster matter to other kinds of strategies and are ignored.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_configure(
    const ls_strategy *strategy, ls_session_config *config,
    const ls_cluster_spec *cluster, const char *task_type, ls_opt task_id);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_STRATEGY_H_
