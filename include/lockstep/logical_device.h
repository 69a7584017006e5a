// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Logical devices: the cores of one replica of a TPU strategy, counted from 0.
//
// An annotation assigns a value to some of them, whole or in parts. It is an op
// whose result is its operand, with the assignment in its attributes
// `sharding`, `tile` and `devices`, and as one text in the mark `_XlaSharding`.
// No result depends on it: it binds names and is checked, and each replica is
// computed as one.
//
// Threads: scopes belong to their thread; an op maker adds to the current graph
// of the thread that calls it.
#ifndef LOCKSTEP_LOGICAL_DEVICE_H_
#define LOCKSTEP_LOGICAL_DEVICE_H_

#include "lockstep/ops.h"
#include "lockstep/tpu_strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// Returns the number of a replica's logical devices: the cores of its
// assignment, else 1; 0 if it is no TPU strategy.
LS_API int32_t ls_num_logical_devices(const ls_strategy *strategy);

// ---- Annotations -----------------------------------------------------------
// Annotations need the current variant of TPU strategies; on the others they
// are UNIMPLEMENTED. If a value has several, ops that use the result of the
// last one see that one.
//
// Assigns x to logical device k. Refused if cores form one device (the option
// spmd).
LS_PLACED ls_tensor ls_assign_to_logical_device(const ls_strategy *strategy,
                                                ls_tensor x, int32_t k);
// Splits x along each dimension into parts[i] parts, whose product is the
// number of logical devices; they are assigned in row-major order, one part
// each.
LS_PLACED ls_tensor ls_split_to_logical_devices(const ls_strategy *strategy,
                                                ls_tensor x,
                                                const int64_t *parts,
                                                size_t num_parts);
// Replicates x to all logical devices.
LS_PLACED ls_tensor ls_replicate_to_logical_devices(const ls_strategy *strategy,
                                                    ls_tensor x);

// Returns the annotation of the op that made x: "maximal tile=[1] devices=[3]",
// "tiled tile=[2,1] devices=[0,1]" or "replicated"; "" if it has none. Lent by
// its graph.
LS_API const char *ls_tensor_sharding(ls_tensor x);

// ---- Scopes ----------------------------------------------------------------
// Selects logical device k on this thread, until ls_scope_end: worker and
// parameter devices are those of its column, new variables are on them, and in
// a replicated computation ops are placed on core k. The innermost scope of a
// strategy applies.
//   LS_INVALID_ARGUMENT  there is no device k, or it is no TPU strategy.
LS_API void ls_logical_device_scope_begin(ls_scope *scope,
                                          const ls_strategy *strategy,
                                          int32_t k);
#define LS_LOGICAL_DEVICE_SCOPE(strategy, k)                                   \
  LS_SCOPE_(ls_logical_device_scope_begin, strategy, k)
// Does the same for the strategy of the current replica context.
//   LS_FAILED_PRECONDITION  the replica is not the current one.
LS_API void ls_replica_logical_device_scope_begin(ls_scope *scope,
                                                  const ls_replica *replica,
                                                  int32_t k);
#define LS_REPLICA_LOGICAL_DEVICE_SCOPE(replica, k)                            \
  LS_SCOPE_(ls_replica_logical_device_scope_begin, replica, k)

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_LOGICAL_DEVICE_H_
