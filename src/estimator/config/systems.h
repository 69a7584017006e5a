// SPDX-License-Identifier: Apache-2.0
//
// What all modes of a context share: what was asked of the systems behind its
// masters.
#ifndef LS_ESTIMATOR_CONFIG_SYSTEMS_H_
#define LS_ESTIMATOR_CONFIG_SYSTEMS_H_

#include "base/runtime_internal.h"
#include "estimator/config/context.h"
#include "tpu/system/resolver.h"

// The system behind one master.
typedef struct ls_estimator_system {
  const char *master;         // The configuration's; NULL: not asked yet.
  ls_tpu_metadata *metadata;  // NULL: one core.
  ls_device_assignment *assignment;  // NULL: not made, or none.
} ls_estimator_system;

struct ls_estimator_systems {
  ls_runtime *runtime;
  ls_estimator_facts facts;  // With defaults.
  bool one_core;
  ls_estimator_system systems[2];  // One, where masters are the same.
  bool validated[LS_NUM_MODES];
};

static inline const ls_run_values *
ls_estimator_config(ls_estimator_context context) {
  return ls_run_config_values(context.systems->facts.config);
}
LS_MUST_USE ls_status ls_estimator_check_mode(ls_estimator_context context);
// Of the mode's master; asked for its metadata.
LS_MUST_USE ls_status ls_estimator_system_of(ls_estimator_context context,
                                             ls_estimator_system **out_system);
// Of the mode's master: the configuration's own, where that is its master; else
// one of the name. The caller's.
LS_MUST_USE ls_status ls_estimator_resolver(ls_estimator_context context,
                                            ls_tpu_resolver **out_resolver);
// The identity of that system, in the current graph until ls_scope_end: what is
// made for it stays its own.
typedef struct ls_estimator_scope {
  ls_scope scope;
  ls_system_flow flow;
  ls_system_id *id;
} ls_estimator_scope;
LS_MUST_USE ls_status ls_estimator_scope_begin(ls_estimator_scope *self,
                                               ls_estimator_context context);
void ls_estimator_scope_end(ls_estimator_scope *self);
// Its pod; NULL: it is not there, or not of this process. The caller releases
// it.
LS_MUST_USE ls_status ls_estimator_pod(ls_estimator_context context,
                                       ls_pod **out_pod);
// Whether what was configured can be: validate.c.
LS_MUST_USE ls_status ls_estimator_validate(ls_estimator_context context);
// Of a mode, as it was given.
ls_opt ls_estimator_batch_size(ls_estimator_context context);

#endif  // LS_ESTIMATOR_CONFIG_SYSTEMS_H_
