// SPDX-License-Identifier: Apache-2.0
// Settings in the environment. They have the names that managers of clusters
// set, TF_TPU_X; LS_TPU_X, which means the same, wins.
#ifndef LS_ESTIMATOR_CONFIG_SETTING_H_
#define LS_ESTIMATOR_CONFIG_SETTING_H_

#include "base/runtime_internal.h"

typedef struct ls_setting {
  const char *name;   // The one that is set, or that was asked for.
  const char *value;  // NULL: neither is set. Lent by the environment.
  char own[48];
} ls_setting;

// Of a name with or without "TF_", of which the other is "LS_" and the rest.
void ls_setting_read(const ls_runtime *runtime, const char *name,
                     ls_setting *out);

#endif  // LS_ESTIMATOR_CONFIG_SETTING_H_
