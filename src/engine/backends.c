// SPDX-License-Identifier: Apache-2.0
//
// The table of back ends: the only file outside of a back end that names one.
#include "base/runtime_internal.h"
#include "engine/backend.h"

typedef struct backend_row {
  ls_status (*create)(ls_runtime *runtime, ls_backend **out_backend);
  ls_status (*destroy)(void *backend);
} backend_row;

// Back ends; a runtime uses the first.
static const backend_row backends[] = {
    {ls_cpu_backend_create, ls_cpu_backend_destroy},
};

ls_status ls_runtime_backend(ls_runtime *runtime, ls_backend **out_backend) {
  const backend_row *row = &backends[0];
  ls_status status = ls_ok();
  *out_backend = ls_runtime_slot(runtime, LS_SLOT_ENGINE);
  if (*out_backend != NULL) return ls_ok();
  ls_runtime_lock(runtime);
  *out_backend = ls_runtime_slot(runtime, LS_SLOT_ENGINE);
  if (*out_backend == NULL) {
    status = row->create(runtime, out_backend);
    if (ls_status_is_ok(status))
      ls_runtime_set_slot(runtime, LS_SLOT_ENGINE, *out_backend, row->destroy);
  }
  ls_runtime_unlock(runtime);
  return status;
}
