// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Distributed values: leaves of a nest that hold one component per replica.
//
// Threads: a distributed value never changes; the rules of its components apply
// to it.
#ifndef LOCKSTEP_DISTRIBUTED_H_
#define LOCKSTEP_DISTRIBUTED_H_

#include "lockstep/nest.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum ls_distributed_kind {
  LS_PER_REPLICA,  // Components may differ.
  LS_MIRRORED,     // Components are kept equal.
  // Results of a map on one device; a component of a PerReplica.
  LS_MAP_OUTPUT,
} ls_distributed_kind;

// One component per replica, in replica order; immutable and reference-counted.
typedef struct ls_distributed ls_distributed;

// Makes a leaf of `count` components, which are taken over (also on failure,
// when the result is a failed nest).
LS_API ls_nest ls_nest_distributed(ls_distributed_kind kind,
                                   const ls_nest *components, size_t count);
// Makes a leaf with each component's device, as canonical names, which are
// copied; NULL in `devices` for an unknown one.
LS_API ls_nest ls_nest_distributed_on(ls_distributed_kind kind,
                                      const ls_nest *components,
                                      const char *const *devices, size_t count);
// Returns the number of components; 0 if the leaf is not distributed.
LS_API size_t ls_distributed_count(ls_nest leaf);
LS_API ls_distributed_kind ls_distributed_kind_of(ls_nest leaf);
// Returns a component, lent as long as the leaf; a none leaf when out of range.
// A nest that is not distributed is the component of every replica.
LS_API ls_nest ls_distributed_component(ls_nest leaf, size_t replica);
// Returns the device given for a component, lent; "" when none was given.
LS_API const char *ls_distributed_device(ls_nest leaf, size_t replica);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DISTRIBUTED_H_
