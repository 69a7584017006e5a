// SPDX-License-Identifier: Apache-2.0
// Rings: chips of a mesh in an order in which each is beside the one before it,
// and the last beside the first.
#ifndef LS_TPU_POD_RING_H_
#define LS_TPU_POD_RING_H_

#include "lockstep/runtime.h"
#include "lockstep/topology.h"

// All chips of a mesh of these sizes, in order; the core is 0. The caller gives
// `*out_chips` back with the runtime's allocator. Sizes that are odd make no
// ring: then chips follow one another by z, y and x, and a line is logged.
LS_MUST_USE ls_status ls_ring_3d(ls_runtime *runtime, const int32_t sizes[3],
                                 ls_coordinate **out_chips);

#endif  // LS_TPU_POD_RING_H_
