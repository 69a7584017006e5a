// SPDX-License-Identifier: Apache-2.0
#include "engine/labels.h"

#include <stdio.h>

#include "engine/cpu/kernels/loops.h"

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
