// SPDX-License-Identifier: Apache-2.0
// Releases that LS_OWN uses for types of tpu and of lower layers.
#ifndef LS_TPU_OWN_H_
#define LS_TPU_OWN_H_

#include "distribute/own.h"
#include "lockstep/infeed.h"
#include "lockstep/topology.h"
#include "lockstep/tpu_system.h"

LS_OWNED_POINTER(ls_device_assignment, ls_device_assignment_release)
LS_OWNED_POINTER(ls_infeed_queue, ls_infeed_queue_release)
LS_OWNED_POINTER(ls_pod, ls_pod_release)
LS_OWNED_POINTER(ls_tpu_metadata, ls_tpu_metadata_destroy)
LS_OWNED_POINTER(ls_topology, ls_topology_release)
LS_OWNED_POINTER(ls_tpu_resolver, ls_tpu_resolver_release)

#endif  // LS_TPU_OWN_H_
