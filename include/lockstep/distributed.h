// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Distributed values: leaves of a nest that hold one component per replica.
//
// Threads: a distributed value never changes; what holds for its components
// holds for it.
#ifndef LOCKSTEP_DISTRIBUTED_H_
#define LOCKSTEP_DISTRIBUTED_H_

#include "lockstep/nest.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_distributed_kind {
  LS_PER_REPLICA,  // Components may differ.
  LS_MIRRORED,     // Components are kept equal.
  LS_MAP_OUTPUT,   // What a map made on one device; a component of a
                   // PerReplica.
} ls_distributed_kind;

// One component per replica, in replica order; immutable and counted.
typedef struct ls_distributed ls_distributed;

// A leaf that holds `count` components, which are taken over (also on failure,
// when the result is a failed nest).
LS_API ls_nest ls_nest_distributed(ls_distributed_kind kind,
                                   const ls_nest *components, size_t count);
// The same with each component's device, canonical names that are copied; NULL
// in `devices` for one that is not known.
LS_API ls_nest ls_nest_distributed_on(ls_distributed_kind kind,
                                      const ls_nest *components,
                                      const char *const *devices, size_t count);
// Number of components; 0 when the leaf is not distributed.
LS_API size_t ls_distributed_count(ls_nest leaf);
LS_API ls_distributed_kind ls_distributed_kind_of(ls_nest leaf);
// A component, lent: valid as long as the leaf. None when out of range.
LS_API ls_nest ls_distributed_component(ls_nest leaf, size_t replica);
// The device that a component was said to be on, lent; "" when none was said.
LS_API const char *ls_distributed_device(ls_nest leaf, size_t replica);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DISTRIBUTED_H_
