// SPDX-License-Identifier: Apache-2.0
// Labels: integers that must be numbers of classes.
#ifndef LS_ENGINE_LABELS_H_
#define LS_ENGINE_LABELS_H_

#include "lockstep/array.h"

typedef struct ls_labels {
  ls_dtype dtype;
  int64_t count, num_classes;
} ls_labels;

// Returns INVALID_ARGUMENT, naming the first label that is no class.
LS_MUST_USE ls_status ls_labels_check(const ls_labels *self,
                                      const void *labels);

#endif  // LS_ENGINE_LABELS_H_
