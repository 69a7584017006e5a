// SPDX-License-Identifier: Apache-2.0
//
// Clusters, private part.
#ifndef LS_BASE_CLUSTER_H_
#define LS_BASE_CLUSTER_H_

#include "lockstep/cluster.h"

// Names a device of a worker, the chief first, of a cluster that was checked.
void ls_cluster_device(const ls_cluster_spec *spec, int32_t worker,
                       const char *type, int32_t index,
                       ls_device_name *out_name);

#endif  // LS_BASE_CLUSTER_H_
