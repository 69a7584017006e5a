// SPDX-License-Identifier: Apache-2.0
#include "estimator/spec/captured.h"

#include "base/runtime_internal.h"

ls_status ls_captured_set(ls_captured *captured, const char *what,
                          void *value) {
  if (captured->is_set)
    return ls_failed_precondition("InternalError: %s was captured before, and "
                                  "can be once only",
                                  what);
  *captured = (ls_captured){.value = value, .is_set = true};
  return ls_ok();
}

ls_status ls_captured_get(const ls_captured *captured, const char *what,
                          void **out_value) {
  *out_value = captured->value;
  return captured->is_set
             ? ls_ok()
             : ls_failed_precondition("InternalError: %s is read and was not "
                                      "captured: what gives it was not called",
                                      what);
}
