// SPDX-License-Identifier: Apache-2.0
//
// Mirrored strategies, private part.
#ifndef LS_DISTRIBUTE_KINDS_MIRRORED_H_
#define LS_DISTRIBUTE_KINDS_MIRRORED_H_

#include "distribute/base/strategy.h"
#include "lockstep/multi_worker.h"

// The workers of a cluster that was checked.
typedef struct ls_mirrored_workers {
  const ls_cluster_spec *cluster;
  int32_t count, own;
  const ls_collective_options *collective;
} ls_mirrored_workers;

// Makes a mirrored strategy; `workers` are those of a cluster, each with the
// devices that the options describe. NULL: this process alone.
ls_status ls_mirrored_make(const ls_mirrored_options *options,
                           const ls_mirrored_workers *workers,
                           ls_strategy **out_strategy);

#endif  // LS_DISTRIBUTE_KINDS_MIRRORED_H_
