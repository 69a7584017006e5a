// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Status: the result of every call that can fail.
//
// A status is one pointer; NULL is OK. The receiver owns it: return it,
// annotate it, report it or free it. The first line of its text states what was
// requested, what was found and what would be valid; notes added by callers
// follow, one per line.
//
// Threads: a status belongs to one thread at a time.
#ifndef LOCKSTEP_STATUS_H_
#define LOCKSTEP_STATUS_H_

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

#if defined(__GNUC__)
#define LS_API __attribute__((visibility("default")))
#define LS_MUST_USE __attribute__((warn_unused_result))
#define LS_PRINTF(at, first) __attribute__((format(printf, at, first)))
#else
#define LS_API
#define LS_MUST_USE
#define LS_PRINTF(at, first)
#endif

// Initializer that zeroes a struct, in a spelling that C11 and C++ share.
#ifdef __cplusplus
#define LS_ZEROED                                                              \
  {}
#else
#define LS_ZEROED                                                              \
  { 0 }
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Kind of failure. The numbers are absl's.
typedef enum ls_code {
  LS_OK = 0,
  LS_CANCELLED = 1,
  LS_UNKNOWN = 2,
  LS_INVALID_ARGUMENT = 3,
  LS_DEADLINE_EXCEEDED = 4,
  LS_NOT_FOUND = 5,
  LS_ALREADY_EXISTS = 6,
  LS_PERMISSION_DENIED = 7,
  LS_RESOURCE_EXHAUSTED = 8,
  LS_FAILED_PRECONDITION = 9,
  LS_ABORTED = 10,
  LS_OUT_OF_RANGE = 11,
  LS_UNIMPLEMENTED = 12,
  LS_INTERNAL = 13,
  LS_UNAVAILABLE = 14,
  LS_DATA_LOSS = 15,
} ls_code;

typedef struct ls_status_object *ls_status;

// Returns OK.
static inline ls_status ls_ok(void) { return NULL; }
static inline bool ls_status_is_ok(ls_status status) { return status == NULL; }

// Returns the code, LS_OK for NULL.
LS_API ls_code ls_status_code(ls_status status);

// Returns "INVALID_ARGUMENT" and so on; "OK" for LS_OK.
LS_API const char *ls_code_name(ls_code code);

// Returns the text without the code: the message, then notes, one per line. ""
// for OK. Valid until the status is annotated or freed.
LS_API const char *ls_status_message(ls_status status);

// Return the position in the library's source where the status was made. NULL
// and 0 for OK.
LS_API const char *ls_status_file(ls_status status);
LS_API int ls_status_line(ls_status status);

// Copies a status. The caller owns the copy.
LS_API ls_status ls_status_clone(ls_status status);

// Frees a status; NULL is fine.
LS_API void ls_status_free(ls_status status);

// Returns the first of two that is an error, OK if none is; takes both over and
// frees the other. For cleanup that may fail after a failure.
LS_API LS_MUST_USE ls_status ls_status_join(ls_status first, ls_status second);

// Adds a note on its own line and returns the status. OK stays OK.
LS_API LS_MUST_USE ls_status ls_status_annotate(ls_status status,
                                                const char *format, ...)
    LS_PRINTF(2, 3);

// Makes a status. Never fails: if memory runs out it returns the static
// RESOURCE_EXHAUSTED one.
LS_API LS_MUST_USE ls_status ls_status_make(ls_code code, const char *file,
                                            int line, const char *format, ...)
    LS_PRINTF(4, 5);
LS_API LS_MUST_USE ls_status ls_status_make_v(ls_code code, const char *file,
                                              int line, const char *format,
                                              va_list arguments);

// Returns the static "out of memory" status: allocates nothing.
LS_API LS_MUST_USE ls_status ls_out_of_memory(void);

#define LS_STATUS(code, ...)                                                   \
  ls_status_make((code), __FILE__, __LINE__, __VA_ARGS__)
#define ls_invalid_argument(...) LS_STATUS(LS_INVALID_ARGUMENT, __VA_ARGS__)
#define ls_failed_precondition(...)                                            \
  LS_STATUS(LS_FAILED_PRECONDITION, __VA_ARGS__)
#define ls_not_found(...) LS_STATUS(LS_NOT_FOUND, __VA_ARGS__)
#define ls_unimplemented(...) LS_STATUS(LS_UNIMPLEMENTED, __VA_ARGS__)
#define ls_out_of_range(...) LS_STATUS(LS_OUT_OF_RANGE, __VA_ARGS__)
#define ls_internal(...) LS_STATUS(LS_INTERNAL, __VA_ARGS__)

#define LS_CONCAT_(a, b) a##b
#define LS_CONCAT(a, b) LS_CONCAT_(a, b)

// Returns the status of `expr` from the enclosing function unless it is OK.
#define LS_RETURN_IF_ERROR(expr)                                               \
  do {                                                                         \
    ls_status ls_status_local_ = (expr);                                       \
    if (ls_status_local_ != NULL) return ls_status_local_;                     \
  } while (0)

// Stores the status of `expr` in `status` and jumps unless it is OK.
#define LS_GOTO_IF_ERROR(label, status, expr)                                  \
  do {                                                                         \
    (status) = (expr);                                                         \
    if ((status) != NULL) goto label;                                          \
  } while (0)

// An optional integer. Zeroed: not given. LS_SOME(0): zero was given.
typedef struct ls_opt {
  bool set;
  long long value;
} ls_opt;
#ifdef __cplusplus
#define LS_SOME(v) (ls_opt{true, (v)})
#else
#define LS_SOME(v) ((ls_opt){.set = true, .value = (v)})
#endif

// A flag whose default depends on its use.
typedef enum ls_flag {
  LS_FLAG_DEFAULT = 0,
  LS_FLAG_ON = 1,
  LS_FLAG_OFF = 2,
} ls_flag;

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_STATUS_H_
