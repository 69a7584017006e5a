// SPDX-License-Identifier: Apache-2.0
// Status: one object per failure.
//
// The memory comes from the system, never from an injected allocator, so that a
// test of failing memory sees the same statuses. Without memory a static status
// is used.
#include "lockstep/status.h"

#include "base/memory/allocator.h"
#include "base/plain.h"
#include "base/require.h"
#include "base/status_cause.h"

struct ls_status_object {
  ls_code code;
  int line;
  const char *file;  // Static text.
  const char *text;  // Owned, except in the static status.
  ls_cause cause;
  int32_t rank;  // Plus 1; 0: this process.
};

static struct ls_status_object out_of_memory = {
    .code = LS_RESOURCE_EXHAUSTED,
    .line = __LINE__,
    .file = __FILE__,
    .text = "out of memory",
    .cause = LS_CAUSE_MEMORY,
};

ls_status ls_out_of_memory(void) { return &out_of_memory; }

const char *ls_code_name(ls_code code) {
  static const char *const names[] = {
      "OK",
      "CANCELLED",
      "UNKNOWN",
      "INVALID_ARGUMENT",
      "DEADLINE_EXCEEDED",
      "NOT_FOUND",
      "ALREADY_EXISTS",
      "PERMISSION_DENIED",
      "RESOURCE_EXHAUSTED",
      "FAILED_PRECONDITION",
      "ABORTED",
      "OUT_OF_RANGE",
      "UNIMPLEMENTED",
      "INTERNAL",
      "UNAVAILABLE",
      "DATA_LOSS",
  };
  const size_t index = (size_t)code;
  return index < LS_COUNT_OF(names) ? names[index] : "UNKNOWN";
}

ls_code ls_status_code(ls_status status) {
  return status == NULL ? LS_OK : status->code;
}

const char *ls_status_message(ls_status status) {
  return status == NULL ? "" : status->text;
}

const char *ls_status_file(ls_status status) {
  return status == NULL ? NULL : status->file;
}

int ls_status_line(ls_status status) {
  return status == NULL ? 0 : status->line;
}

// Returns `prefix` followed by the formatted text; NULL without memory.
static char *format_behind(const char *prefix, const char *format,
                           va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int length = ls_format_v(NULL, 0, format, arguments);
  const size_t before = strlen(prefix);
  // A format that cannot be printed is copied unchanged.
  const size_t added = length < 0 ? strlen(format) : (size_t)length;
  char *text = ls_allocate(ls_allocator_system(), before + added + 1);
  if (text != NULL) {
    memcpy(text, prefix, before);
    if (length < 0) {
      memcpy(text + before, format, added + 1);
    } else {
      ls_format_v(text + before, added + 1, format, again);
    }
  }
  va_end(again);
  return text;
}

// Makes a status that owns `text`.
static ls_status make_status(ls_code code, const char *file, int line,
                             char *text) {
  ls_allocator *system = ls_allocator_system();
  if (text == NULL) return ls_out_of_memory();
  ls_status status = ls_new(system, struct ls_status_object);
  if (status == NULL) {
    ls_release(system, text);
    return ls_out_of_memory();
  }
  *status = (struct ls_status_object){
      .code = code, .line = line, .file = file, .text = text};
  return status;
}

ls_status ls_status_make_v(ls_code code, const char *file, int line,
                           const char *format, va_list arguments) {
  if (code == LS_OK) return ls_ok();
  return make_status(code, file, line, format_behind("", format, arguments));
}

ls_status ls_status_make(ls_code code, const char *file, int line,
                         const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  ls_status status = ls_status_make_v(code, file, line, format, arguments);
  va_end(arguments);
  return status;
}

ls_status ls_null_argument(const char *function, const char *argument) {
  return ls_invalid_argument("%s: %s is NULL", function, argument);
}

ls_status ls_null_item(const char *function, const char *items, size_t index,
                       const char *field) {
  return ls_invalid_argument("%s: %s[%zu]%s is NULL", function, items, index,
                             field);
}

ls_status ls_status_clone(ls_status status) {
  if (status == NULL || status == &out_of_memory) return status;
  return ls_status_of_rank(
      ls_status_because(
          make_status(status->code, status->file, status->line,
                      ls_copy_text(ls_allocator_system(), status->text,
                                   strlen(status->text))),
          status->cause),
      ls_status_rank(status));
}

ls_status ls_status_because(ls_status status, ls_cause cause) {
  if (status != NULL && status != &out_of_memory) status->cause = cause;
  return status;
}

ls_cause ls_status_cause(ls_status status) {
  return status == NULL ? LS_CAUSE_UNKNOWN : status->cause;
}

ls_status ls_status_of_rank(ls_status status, int32_t rank) {
  if (status != NULL && status != &out_of_memory) status->rank = rank + 1;
  return status;
}

int32_t ls_status_rank(ls_status status) {
  return status == NULL ? -1 : status->rank - 1;
}

void ls_status_free(ls_status status) {
  if (status == NULL || status == &out_of_memory) return;
  ls_release(ls_allocator_system(), status->text);
  ls_release(ls_allocator_system(), status);
}

ls_status ls_status_join(ls_status first, ls_status second) {
  if (first == NULL) return second;
  ls_status_free(second);
  return first;
}

ls_status ls_status_annotate(ls_status status, const char *format, ...) {
  if (status == NULL) return ls_ok();
  const size_t size = strlen(status->text);
  char *prefix = ls_copy_text(ls_allocator_system(), status->text, size + 1);
  if (prefix == NULL) return status;  // Drops the note.
  prefix[size] = '\n';
  va_list arguments;
  va_start(arguments, format);
  char *text = format_behind(prefix, format, arguments);
  va_end(arguments);
  ls_release(ls_allocator_system(), prefix);
  if (text == NULL) return status;
  if (status == &out_of_memory)
    return ls_status_because(
        make_status(status->code, status->file, status->line, text),
        status->cause);
  ls_release(ls_allocator_system(), status->text);
  status->text = text;
  return status;
}
