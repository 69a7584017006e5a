// SPDX-License-Identifier: Apache-2.0
//
// TPU strategies inside: a class of their own among strategies.
#ifndef LS_TPU_STRATEGY_STRATEGY_H_
#define LS_TPU_STRATEGY_STRATEGY_H_

#include "base/device_parts.h"
#include "distribute/base/strategy.h"
#include "lockstep/tpu_strategy.h"
#include "tpu/pod/pod.h"

extern const ls_strategy_class ls_tpu_strategy_class;

// Of one class, they differ in what users see of them: flavours.c.
typedef struct ls_tpu_flavour {
  const char *name;     // In messages.
  const char *version;  // The cell of the gauge "strategy".
  // What log lines call it, and what is to be used instead. NULL: it is the
  // one to use.
  const char *symbol, *instead;
  bool has_logical_devices;
} ls_tpu_flavour;

// First values that wait: lazy_variables.c. Guarded by the strategy's lock.
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
  ls_tpu_metadata *metadata;  // As it was made.
  ls_strategy_cores cores;
  int64_t steps_per_run;       // Of steps on an iterator.
  struct ls_tpu_steps *steps;  // Being built, see steps.c.
  bool spmd;  // Whether a replica's cores are one, where a run does not say.
  ls_device_name host;  // Of the first replica's first core.
  ls_tpu_late late;
} ls_tpu_strategy;

// NULL: it is of another kind.
static inline ls_tpu_strategy *ls_tpu_strategy_of(const ls_strategy *strategy) {
  return strategy->kind == &ls_tpu_strategy_class
             ? (ls_tpu_strategy *)(uintptr_t)strategy
             : NULL;
}
// The core on which a replica of a strategy, of any kind, is: of a TPU strategy
// one of its own system. The caller releases it (ls_core_release).
//   LS_NOT_FOUND  its device is none, or is not there.
LS_MUST_USE ls_status ls_strategy_core(const ls_strategy *strategy,
                                       int32_t replica, ls_core **out_core);
// Initializes the system of its own resolver.
LS_MUST_USE ls_status ls_tpu_strategy_initialize_system(ls_strategy *strategy);

// Makes one of a flavour. `options` is not NULL.
LS_MUST_USE ls_status ls_tpu_strategy_make(const ls_tpu_options *options,
                                           const ls_tpu_flavour *flavour,
                                           int64_t steps_per_run,
                                           ls_strategy **out_strategy);

// What the class does, where it is not what mirrored strategies do.
ls_status ls_tpu_class_run(ls_strategy *strategy, ls_crossing *crossing,
                           const ls_run_request *request, ls_nest *results);

// Of its variables: variables.c, lazy_variables.c, replicated_variable.c.
extern const ls_variable_class_map ls_tpu_classes;
extern const ls_variable_policy_map ls_tpu_policies;
void ls_tpu_late_init(ls_tpu_strategy *strategy);
ls_status ls_tpu_class_adopt(ls_strategy *strategy,
                             const ls_variable_options *options,
                             ls_variable *container);
void ls_tpu_class_leave(ls_strategy *strategy);
// Where a replica's cores are one and several, each component of the container
// is a replicated variable.
ls_status ls_tpu_replicate_components(const ls_tpu_strategy *strategy,
                                      ls_variable *container);

#endif  // LS_TPU_STRATEGY_STRATEGY_H_
