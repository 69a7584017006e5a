// SPDX-License-Identifier: Apache-2.0
//
// The choice of a runtime's back end: the only file outside of a back end that
// names one.
#include "base/require.h"
#include "base/runtime_internal.h"
#include "engine/backend.h"
#include "lockstep/runtime_settings.h"

static ls_status make_backend(ls_runtime *runtime, ls_backend **out_backend) {
  const bool is_cpu = strcmp(ls_runtime_device(runtime), "cpu") == 0;
  LS_RETURN_IF_ERROR(is_cpu ? ls_cpu_backend_create(runtime, out_backend)
                            : ls_pjrt_backend_create(runtime, out_backend));
  ls_runtime_set_slot(runtime, LS_SLOT_ENGINE, *out_backend,
                      is_cpu ? ls_cpu_backend_destroy
                             : ls_pjrt_backend_destroy);
  return ls_ok();
}

ls_status ls_device_describe(ls_runtime *runtime, ls_device_facts *out_facts) {
  LS_REQUIRE_OUT(out_facts);
  LS_REQUIRE(runtime);
  ls_backend *backend = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  *out_facts = (ls_device_facts){.type = "CPU", .count = 1};
  if (backend->vtable->describe != NULL)
    backend->vtable->describe(backend, out_facts);
  return ls_ok();
}

ls_status ls_runtime_backend(ls_runtime *runtime, ls_backend **out_backend) {
  ls_status status = ls_ok();
  *out_backend = ls_runtime_slot(runtime, LS_SLOT_ENGINE);
  if (*out_backend != NULL) return ls_ok();
  ls_runtime_lock(runtime);
  *out_backend = ls_runtime_slot(runtime, LS_SLOT_ENGINE);
  if (*out_backend == NULL) status = make_backend(runtime, out_backend);
  ls_runtime_unlock(runtime);
  return status;
}
