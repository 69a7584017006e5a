// SPDX-License-Identifier: Apache-2.0
// Layer: tpu
//
// Logical devices: the cores that one replica of a TPU strategy has, counted
// from 0.
//
// An annotation says on which of them a value is to be, whole or in parts. It
// is an op whose value is its operand's, and which carries what was said in its
// attributes `sharding`, `tile` and `devices`, and as one text in the mark
// `_XlaSharding`. No result depends on it: it binds names and is checked, and
// each replica is computed as one.
//
// Threads: scopes are their thread's; an op maker adds to the current graph of
// the thread that calls it.
#ifndef LOCKSTEP_LOGICAL_DEVICE_H_
#define LOCKSTEP_LOGICAL_DEVICE_H_

#include "lockstep/ops.h"
#include "lockstep/tpu_strategy.h"

#ifdef __cplusplus
extern "C" {
#endif

// How many a replica has: cores of its assignment, else 1. 0: it is no TPU
// strategy.
LS_API int32_t ls_num_logical_devices(const ls_strategy *strategy);

// ---- Annotations -----------------------------------------------------------
// These are of the current flavour of TPU strategies; on the others they are
// UNIMPLEMENTED. Of a value with several, the last one holds for those who use
// what it gave.
//
// x is on logical device k. Refused where cores are one (the option spmd).
LS_PLACED ls_tensor ls_assign_to_logical_device(const ls_strategy *strategy,
                                                ls_tensor x, int32_t k);
// x is cut along each dimension into so many parts, whose product is the number
// of logical devices; part by part, row-major, on one each.
LS_PLACED ls_tensor ls_split_to_logical_devices(const ls_strategy *strategy,
                                                ls_tensor x,
                                                const int64_t *parts,
                                                size_t num_parts);
// x is on all of them.
LS_PLACED ls_tensor ls_replicate_to_logical_devices(const ls_strategy *strategy,
                                                    ls_tensor x);

// What the op that made x says of it: "maximal tile=[1] devices=[3]",
// "tiled tile=[2,1] devices=[0,1]" or "replicated". "": nothing. Lent by its
// graph.
LS_API const char *ls_tensor_sharding(ls_tensor x);

// ---- Scopes ----------------------------------------------------------------
// Inside, on this thread, logical device k is meant: worker and parameter
// devices are those of its column, new variables are on them, and in a
// replicated computation ops are placed on core k. The innermost scope of a
// strategy holds.
//   LS_INVALID_ARGUMENT  there is no k, or it is no TPU strategy.
LS_API void ls_logical_device_scope_begin(ls_scope *scope,
                                          const ls_strategy *strategy,
                                          int32_t k);
#define LS_LOGICAL_DEVICE_SCOPE(strategy, k)                                   \
  LS_SCOPE_(ls_logical_device_scope_begin, strategy, k)
// The same of the strategy of the current replica context.
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
