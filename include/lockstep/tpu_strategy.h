// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// TPU strategies: a replica on each core of a pod, or on some cores of its own.
//
// Everything that strategies do (lockstep/strategy.h) works on one. What it
// runs is built once, as a replicated computation (lockstep/replicate.h), in
// which the replica's id is a tensor; merge calls run where they stand. So a
// run is part of a graph: of one that is being built, or of a traced function.
// With the same data and number of replicas the bits are those of a mirrored
// strategy.
//
// In a run's cross-replica context (a merge call) values are the replica's own:
// ls_strategy_reduce and its kin add over all replicas, destinations do not
// count, broadcast_to gives all the first replica's value, and an update calls
// its function once, with the variable as a whole. Outside values have
// components, mirrored ones too, which are put together on the first replica's
// host, no more than 200 in one op, and go where they shall be from there; a
// value without components is one for all. What replicas gather has one shape.
//
// Threads: as of all strategies.
#ifndef LOCKSTEP_TPU_STRATEGY_H_
#define LOCKSTEP_TPU_STRATEGY_H_

#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "lockstep/tpu_system.h"

#ifdef __cplusplus
extern "C" {
#endif

// How to make one. Zero in a field means its default.
typedef struct ls_tpu_options {
  const char *name;  // In its label. Default: a number of its own.
  // Which system, retained; it is asked for its metadata once, here, and need
  // not be initialized before. Default: one without a name, the local system.
  ls_tpu_resolver *resolver;
  // Where replicas are, retained. Default: one on each core of the system.
  ls_device_assignment *assignment;
  // Whether a replica's cores are one to what it computes (SPMD). No result
  // depends on it. Default off.
  ls_flag spmd;
} ls_tpu_options;

// Creates a strategy. The caller owns a reference. The runtime's gauges tell of
// it (lockstep/gauge.h).
//   LS_NOT_FOUND         no TPU in the system: names its master and its
//   devices. LS_INVALID_ARGUMENT  the assignment is of another system: names
//   both. LS_UNIMPLEMENTED     the system stands behind addresses; see
//   tpu_system.h.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_create(
    const ls_tpu_options *options, ls_strategy **out_strategy);

// The flavour of before: the same, but for logical devices
// (lockstep/logical_device.h). Each call writes a warning.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_experimental_create(
    const ls_tpu_options *options, ls_strategy **out_strategy);

// That of version 1, which has no gather, no values from functions, and no
// logical devices. Zero in a field means its default.
typedef struct ls_tpu_v1_options {
  const char *name;  // These are as above.
  ls_tpu_resolver *resolver;
  // How many steps a run of steps on an iterator makes. Default 1.
  ls_opt steps_per_run;
  ls_device_assignment *assignment;
} ls_tpu_v1_options;
LS_API LS_MUST_USE ls_status ls_tpu_strategy_v1_create(
    const ls_tpu_v1_options *options, ls_strategy **out_strategy);

// ---- What it is ------------------------------------------------------------
// What it was made with; of the default it is the resolver that was made. NULL:
// it is no TPU strategy. Lent. The metadata is as it was then.
LS_API ls_tpu_resolver *ls_tpu_strategy_resolver(const ls_strategy *strategy);
LS_API const ls_tpu_metadata *
ls_tpu_strategy_metadata(const ls_strategy *strategy);
// The canonical name of a replica's logical core.
//   LS_INVALID_ARGUMENT  no TPU strategy, or no such replica or core.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_device(const ls_strategy *strategy,
                                                    int32_t replica,
                                                    int32_t core,
                                                    ls_device_name *out_name);
// The CPU of the host of the first replica's first core.
//   LS_INVALID_ARGUMENT  no TPU strategy.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_host(const ls_strategy *strategy,
                                                  ls_device_name *out_name);
// Hosts that replicas have their first cores on, without an assignment those of
// the system; and replicas that fit on a host of the system, which says nothing
// of how they are spread. 0: it is no TPU strategy.
LS_API int32_t ls_tpu_strategy_num_hosts(const ls_strategy *strategy);
LS_API int32_t
ls_tpu_strategy_num_replicas_per_host(const ls_strategy *strategy);
// Steps of a run of steps on an iterator; every flavour has a number. 0: it is
// no TPU strategy.
LS_API int64_t ls_tpu_strategy_steps_per_run(const ls_strategy *strategy);
LS_API bool ls_tpu_strategy_spmd(const ls_strategy *strategy);
// Which replica of its worker a replica is: a whole pod is one worker, so it is
// the replica's id. -1: there is no such replica, or it is no TPU strategy.
LS_API int32_t ls_tpu_strategy_local_replica_id(const ls_strategy *strategy,
                                                int32_t replica);

// ---- Sessions --------------------------------------------------------------
// A copy of a configuration (NULL: of the defaults) for sessions that are to
// run on the strategy's system: with state of their own, and with the cluster
// that its resolver names now, if it names one. The caller's to give back.
//   LS_INVALID_ARGUMENT  it is no TPU strategy.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_update_config(
    const ls_strategy *strategy, const ls_session_config *config,
    ls_session_config *out_config);
// Puts that copy in the place of `config`; without one it does nothing. Who is
// who in a cluster is for other kinds of strategies: it is not looked at.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_configure(
    const ls_strategy *strategy, ls_session_config *config,
    const ls_cluster_spec *cluster, const char *task_type, ls_opt task_id);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_STRATEGY_H_
