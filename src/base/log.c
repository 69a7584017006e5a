// SPDX-License-Identifier: Apache-2.0
// Log lines: the default sink on standard error, and limits on repeated lines.
#define _GNU_SOURCE
#include <stdio.h>

#include "base/plain.h"
#include "base/runtime_internal.h"

// ---- Standard error --------------------------------------------------------
// Returns true if a line with this source, level and text was noted before,
// else notes it. Uses a table of hashes without lock or allocation, since the
// caller may hold any lock. A line may be forgotten after LS_LOG_SEEN other
// lines.
static bool note_seen(ls_runtime *runtime, const ls_log_line *line) {
  enum { PROBES = 8 };
  uint64_t hash = ls_hash(line->source, strlen(line->source), line->level);
  hash = ls_hash(line->text, strlen(line->text), hash);
  if (hash == 0) hash = 1;  // 0 marks a free entry.
  for (size_t i = 0; i < PROBES; ++i) {
    uint64_t *entry = &runtime->log_seen[(hash + i) % LS_LOG_SEEN];
    uint64_t found = 0;
    if (__atomic_compare_exchange_n(entry, &found, hash, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return false;
    if (found == hash) return true;
  }
  __atomic_store_n(&runtime->log_seen[hash % LS_LOG_SEEN], hash,
                   __ATOMIC_RELAXED);
  return false;
}

// Writes a line, with one system call unless it is long. Replaces control
// characters, which could change the terminal.
static void write_plain(const char *level, const ls_log_line *line) {
  char piece[1024];
  int head = snprintf(piece, sizeof(piece) / 2, "lockstep: %s: %s: ", level,
                      line->source);
  size_t size =
      (size_t)head < sizeof(piece) / 2 ? (size_t)head : sizeof(piece) / 2 - 1;
  flockfile(stderr);
  for (const char *at = line->text; *at != '\0'; ++at) {
    const unsigned char c = (unsigned char)*at;
    const bool is_control = (c < 0x20 && c != '\n' && c != '\t') || c == 0x7f;
    piece[size++] = is_control ? '?' : *at;
    if (size < sizeof(piece)) continue;
    fwrite(piece, 1, size, stderr);
    size = 0;
  }
  piece[size++] = '\n';
  fwrite(piece, 1, size, stderr);
  funlockfile(stderr);
}

void ls_log_to_standard_error(void *user, const ls_log_line *line) {
  static const char *const levels[] = {"error", "warning", "info", "debug"};
  ls_runtime *runtime = user;
  if ((int)line->level >= ls_debug_log_levels(runtime)) return;
  if (line->level <= LS_LOG_WARNING && note_seen(runtime, line)) return;
  write_plain(levels[line->level], line);
}

// ---- Lines -----------------------------------------------------------------
static void log_write_line(ls_runtime *runtime, ls_log_level level,
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
  // Without memory a long line is truncated.
  log_write_line(runtime, level, source, far != NULL ? far : near);
  ls_release(ls_allocator_system(), far);
}

void ls_runtime_log(ls_runtime *runtime, ls_log_level level, const char *source,
                    const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_log_v(runtime, level, source, format, arguments);
  va_end(arguments);
}

// Returns true and counts the line if `key` was logged fewer than `limit`
// times. Without memory to count, returns true.
static bool take_turn(ls_runtime *runtime, const char *key, int limit) {
  ls_runtime_lock(runtime);
  const uintptr_t times =
      (uintptr_t)ls_map_find_text(&runtime->log_counts, key);
  bool allowed = limit > 0 && times < (uintptr_t)limit;
  if (allowed)
    (void)!ls_map_insert_text(&runtime->log_counts, key, (void *)(times + 1));
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
