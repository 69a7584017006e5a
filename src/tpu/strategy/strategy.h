// SPDX-License-Identifier: Apache-2.0
//
// TPU strategies, private part: a strategy class of its own.
#ifndef LS_TPU_STRATEGY_STRATEGY_H_
#define LS_TPU_STRATEGY_STRATEGY_H_

#include "base/device_parts.h"
#include "distribute/base/strategy.h"
#include "distribute/context/context.h"
#include "distribute/variables/variable.h"
#include "graph/compare/compare.h"
#include "lockstep/replicate.h"
#include "lockstep/tpu_strategy.h"
#include "tpu/pod/pod.h"

extern const ls_strategy_class ls_tpu_strategy_class;

// API variants of one strategy class.
typedef struct ls_tpu_flavour {
  const char *name;     // Name in messages.
  const char *version;  // Cell of the gauge "strategy".
  // The name in deprecation lines, and its replacement; NULL: not deprecated.
  const char *symbol, *instead;
  bool has_logical_devices;
} ls_tpu_flavour;

// An initial value that waits to be stored. The strategy's
// lock guards it.
typedef struct ls_tpu_late_value {
  ls_variable *variable;
  ls_array *value;
} ls_tpu_late_value;
typedef struct ls_tpu_late {
  ls_late_values base;
  struct ls_tpu_strategy *owner;
  ls_tpu_late_value *items;
  size_t count, capacity;
} ls_tpu_late;

typedef struct ls_tpu_strategy {
  ls_strategy base;
  const ls_tpu_flavour *flavour;
  ls_tpu_resolver *resolver;
  // The system's metadata when the strategy was made.
  ls_tpu_metadata *metadata;
  ls_strategy_cores cores;
  int64_t steps_per_run;       // For steps on an iterator.
  struct ls_tpu_steps *steps;  // Steps being built, see steps.c.
  // Default of the run option: the cores of a replica run one program.
  bool spmd;
  ls_device_name host;  // Host of the first replica's first core.
  ls_tpu_late late;
} ls_tpu_strategy;

// Returns the strategy as a TPU strategy, NULL if it is of another kind.
static inline ls_tpu_strategy *ls_tpu_strategy_of(const ls_strategy *strategy) {
  return strategy->kind == &ls_tpu_strategy_class
             ? (ls_tpu_strategy *)(uintptr_t)strategy
             : NULL;
}
// Finds the core of a replica, for strategies of any kind. The core of a TPU
// strategy's replica is in the strategy's system. The caller releases it
// (ls_core_release).
//   LS_NOT_FOUND  the replica's device is not a core, or does not exist
LS_MUST_USE ls_status ls_strategy_core(const ls_strategy *strategy,
                                       int32_t replica, ls_core **out_core);

// Functions of the class of TPU strategies that differ from those of mirrored
// strategies.
LS_STRATEGY_FUNCTION(run, ls_tpu_class_run);

// Classes of a TPU strategy's variables: replicated_variable.c.
extern const ls_variable_class_map ls_tpu_classes;
extern const ls_variable_policy_map ls_tpu_policies;
void ls_tpu_late_init(ls_tpu_strategy *strategy);
LS_STRATEGY_FUNCTION(adopt, ls_tpu_class_adopt);
LS_STRATEGY_FUNCTION(leave, ls_tpu_class_leave);

// Implements the class's call_each: calls the callback once, as replica 0.
LS_STRATEGY_FUNCTION(call_each, ls_tpu_class_call_each);

// ---- Run -------------------------------------------------------------------
// Options of a run, with unset ones taken from the strategy.
typedef struct ls_tpu_way {
  ls_strategy *strategy;
  ls_xla_options xla;
  bool dynamic_batch, bucketize, soft_placement;
  // True if the last argument is a dict by name: see ls_run_request.
  bool has_names;
} ls_tpu_way;

// Implements the class's check_run.
LS_STRATEGY_FUNCTION(check_run, ls_tpu_class_check_run);

// ---- Update ----------------------------------------------------------------
// Implements the class's updates of variables.
LS_STRATEGY_FUNCTION(update, ls_tpu_class_update);
LS_STRATEGY_FUNCTION(update_non_slot, ls_tpu_class_update_non_slot);
LS_STRATEGY_FUNCTION(non_slot_devices, ls_tpu_class_non_slot_devices);

// ---- Values ----------------------------------------------------------------
// Makes the cross-device ops of a TPU strategy, which reduce values on its
// host.
ls_status ls_tpu_cross_device_create(const char *host,
                                     ls_cross_device **out_ops);

// Implements the class's reductions and copies.
LS_STRATEGY_FUNCTION(reduce, ls_tpu_class_reduce);
LS_STRATEGY_FUNCTION(reduce_to, ls_tpu_class_reduce_to);
LS_STRATEGY_FUNCTION(batch_reduce_to, ls_tpu_class_batch_reduce_to);
LS_STRATEGY_FUNCTION(broadcast_to, ls_tpu_class_broadcast_to);
LS_STRATEGY_FUNCTION(gather, ls_tpu_class_gather);

#endif  // LS_TPU_STRATEGY_STRATEGY_H_
