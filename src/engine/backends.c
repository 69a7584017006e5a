// SPDX-License-Identifier: Apache-2.0
//
// The choice of a runtime's back end: the only file outside of a back end that
// names one.
#include <stdio.h>

#include "base/device_parts.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "engine/backend.h"
#include "engine/cpu/kernels/loops.h"
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
  LS_REQUIRE_OUT(out_facts, runtime);
  ls_backend *backend = NULL;
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  *out_facts = (ls_device_facts){.type = "CPU", .count = 1};
  if (backend->vtable->describe != NULL)
    backend->vtable->describe(backend, out_facts);
  return ls_ok();
}

ls_status ls_device_find(ls_runtime *runtime, const char *name,
                         int32_t *out_device, bool *out_is_core) {
  ls_device_facts facts;
  ls_device_parts parts;
  *out_device = LS_DEVICE_ANY;
  *out_is_core = false;
  LS_RETURN_IF_ERROR(ls_device_parse(name, &parts));
  LS_RETURN_IF_ERROR(ls_device_describe(runtime, &facts));
  const bool is_local =
      (parts.job[0] == '\0' || strcmp(parts.job, "localhost") == 0) &&
      parts.replica <= 0 && parts.task <= 0;
  const bool fits = strcmp(parts.type, facts.type) == 0;
  if (!fits && strcmp(parts.type, "CPU") == 0) {
    *out_device = LS_DEVICE_HOST;
    return ls_ok();
  }
  // Another job's devices, and the CPU engine's, are logical.
  if (fits && (facts.plugin == NULL || !is_local)) return ls_ok();
  if (fits && parts.index < facts.count) {
    *out_device = parts.index == LS_LEFT_OUT ? 0 : parts.index;
    return ls_ok();
  }
  if (runtime->has_core != NULL &&
      runtime->has_core(runtime, name, out_device)) {
    *out_is_core = true;
    return ls_ok();
  }
  char range[64] = "";
  if (facts.plugin != NULL)
    snprintf(range, sizeof(range), ", %s:0 to %s:%d", facts.type, facts.type,
             facts.count - 1);
  return LS_STATUS(fits ? LS_NOT_FOUND : LS_UNIMPLEMENTED,
                   "running on device '%s': the devices of this runtime are of "
                   "type %s%s (ls_runtime_options), beside cores of TPU "
                   "systems that are initialized",
                   name, facts.type, range);
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

// ---- Labels ----------------------------------------------------------------
static ls_status no_class(const ls_labels *self, uint64_t label) {
  char text[32];
  if (self->dtype == LS_DTYPE_U64)
    snprintf(text, sizeof(text), "%llu", (unsigned long long)label);
  else
    snprintf(text, sizeof(text), "%lld", (long long)label);
  return self->num_classes == 0
             ? ls_invalid_argument("label %s, but there are no classes", text)
             : ls_invalid_argument(
                   "label %s is none of the %lld classes, 0 to %lld", text,
                   (long long)self->num_classes,
                   (long long)self->num_classes - 1);
}

ls_status ls_labels_check(const ls_labels *self, const void *labels) {
  const uint64_t limit = (uint64_t)self->num_classes;
  switch (self->dtype) {
#define CASE(unused, D, T, W)                                                  \
  case LS_DTYPE_##D: {                                                         \
    const T *in = labels;                                                      \
    for (int64_t i = 0; i < self->count; ++i)                                  \
      if ((uint64_t)in[i] >= limit) return no_class(self, (uint64_t)in[i]);    \
    break;                                                                     \
  }
    LS_EACH_INTEGER(CASE, )
#undef CASE
  default:
    break;
  }
  return ls_ok();
}
