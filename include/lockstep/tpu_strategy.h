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
// Threads: as of all strategies.
#ifndef LOCKSTEP_TPU_STRATEGY_H_
#define LOCKSTEP_TPU_STRATEGY_H_

#include "lockstep/strategy.h"
#include "lockstep/topology.h"

#ifdef __cplusplus
extern "C" {
#endif

// How to make one. Zero in a field means its default.
typedef struct ls_tpu_options {
  const char *name;  // In its label. Default: a number of its own.
  // Where replicas are, retained. Default: one on each core of the local pod.
  ls_device_assignment *assignment;
} ls_tpu_options;

// Creates a strategy. The caller owns a reference.
//   LS_NOT_FOUND  no assignment, and no TPU in the local system.
LS_API LS_MUST_USE ls_status ls_tpu_strategy_create(
    const ls_tpu_options *options, ls_strategy **out_strategy);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_TPU_STRATEGY_H_
