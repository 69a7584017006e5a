// SPDX-License-Identifier: Apache-2.0
//
// The default strategy of a runtime, made when it is first asked for: in force
// where no other one is.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "distribute/context/context.h"
#include "graph/layers.h"

static ls_status default_strategy_destroy(void *strategy) {
  ls_strategy_release(strategy);
  return ls_ok();
}

static ls_status default_strategy_make(ls_runtime *runtime,
                                       ls_strategy **out_strategy) {
  LS_RETURN_IF_ERROR(ls_strategy_make(ls_library_layers.default_strategy,
                                      runtime, 1, out_strategy));
  const ls_status status = ls_strategy_set_label(*out_strategy, NULL);
  if (ls_status_is_ok(status)) return status;
  ls_strategy_release(*out_strategy);
  *out_strategy = NULL;
  return status;
}

ls_strategy *ls_default_strategy(ls_runtime *runtime) {
  ls_strategy *strategy = ls_runtime_slot(runtime, LS_SLOT_DISTRIBUTE);
  if (strategy != NULL) return strategy;
  ls_runtime_lock(runtime);
  strategy = ls_runtime_slot(runtime, LS_SLOT_DISTRIBUTE);
  if (strategy == NULL) {
    const ls_status status = default_strategy_make(runtime, &strategy);
    if (ls_status_is_ok(status))
      ls_runtime_set_slot(runtime, LS_SLOT_DISTRIBUTE, strategy,
                          default_strategy_destroy);
    ls_status_free(status);
  }
  ls_runtime_unlock(runtime);
  return strategy;
}

ls_status ls_strategy_default(ls_strategy **out_strategy) {
  LS_REQUIRE_OUT(out_strategy);
  ls_runtime *runtime = ls_runtime_current();
  *out_strategy = runtime == NULL ? NULL : ls_default_strategy(runtime);
  return *out_strategy == NULL ? ls_out_of_memory() : ls_ok();
}
