// SPDX-License-Identifier: Apache-2.0
// Log lines, and how often a line may come.
#include "base/plain.h"
#include "base/runtime_internal.h"

static void write_line(ls_runtime *runtime, ls_log_level level,
                       const char *source, const char *text) {
  const ls_log_line line = {level, source, text};
  runtime->log(runtime->log_user, &line);
}

void ls_log_v(ls_runtime *runtime, ls_log_level level, const char *source,
              const char *format, va_list arguments) {
  if (runtime == NULL || runtime->log == NULL) return;
  char near[512];
  va_list again;
  va_copy(again, arguments);
  const int length = ls_format_v(near, sizeof(near), format, arguments);
  char *far = NULL;
  if (length >= (int)sizeof(near)) {
    far = ls_allocate(ls_allocator_system(), (size_t)length + 1);
    if (far != NULL) ls_format_v(far, (size_t)length + 1, format, again);
  }
  va_end(again);
  // Without memory a long line is cut.
  write_line(runtime, level, source, far != NULL ? far : near);
  ls_release(ls_allocator_system(), far);
}

void ls_runtime_log(ls_runtime *runtime, ls_log_level level, const char *source,
                    const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_log_v(runtime, level, source, format, arguments);
  va_end(arguments);
}

// Counts one more time for `key`, unless there were `limit` already. Without
// memory to remember, a line comes rather than not.
static bool take_turn(ls_runtime *runtime, const char *key, int limit) {
  ls_runtime_lock(runtime);
  const uintptr_t times =
      (uintptr_t)ls_map_find_text(&runtime->log_counts, key);
  bool allowed = limit > 0 && times < (uintptr_t)limit;
  if (allowed) {
    (void)!ls_map_insert_text(&runtime->log_counts, key, (void *)(times + 1));
  }
  ls_runtime_unlock(runtime);
  return allowed;
}

void ls_log_limited(ls_runtime *runtime, const char *key, int limit,
                    ls_log_level level, const char *source, const char *format,
                    ...) {
  if (runtime == NULL || !take_turn(runtime, key, limit)) return;
  va_list arguments;
  va_start(arguments, format);
  ls_log_v(runtime, level, source, format, arguments);
  va_end(arguments);
}
