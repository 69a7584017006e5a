// SPDX-License-Identifier: Apache-2.0
#include "estimator/config/setting.h"
#include "lockstep/runtime_settings.h"

#include <stdio.h>
#include <string.h>

void ls_setting_read(const ls_runtime *runtime, const char *name,
                     ls_setting *out) {
  const char *rest = strncmp(name, "TF_", 3) == 0 ? name + 3 : name;
  snprintf(out->own, sizeof(out->own), "LS_%s", rest);
  out->name = out->own;
  out->value = ls_runtime_environment(runtime, out->own);
  if (out->value != NULL) return;
  out->name = name;
  out->value = ls_runtime_environment(runtime, name);
}
