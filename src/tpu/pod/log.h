// SPDX-License-Identifier: Apache-2.0
//
// Lines in the runtime's log, of this folder.
#ifndef LS_TPU_POD_LOG_H_
#define LS_TPU_POD_LOG_H_

#include <stdarg.h>

#include "base/runtime_internal.h"

LS_PRINTF(3, 4)
static inline void ls_tpu_log(ls_runtime *runtime, ls_log_level level,
                              const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_log_v(runtime, level, "tpu", format, arguments);
  va_end(arguments);
}

#endif  // LS_TPU_POD_LOG_H_
