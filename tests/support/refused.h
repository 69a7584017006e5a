// SPDX-License-Identifier: Apache-2.0
// Results of refused calls. A call writes its results to `out`, `second`,
// which hold garbage before it and nothing but zeros (none, NULL)
// after it.
#ifndef LS_TESTS_SUPPORT_REFUSED_H_
#define LS_TESTS_SUPPORT_REFUSED_H_

#include <string.h>

#include "lockstep/device_name.h"
#include "lockstep/shape.h"
#include "support/counted.h"
#include "support/expect.h"

enum { REFUSED_GARBAGE = 0xa5 };

// Expects that `status` is an error, which it frees, and `size` zeros at `out`.
static inline void expect_refused_at(ls_status status, const void *out,
                                     size_t size, const char *call,
                                     const char *file, int line) {
  const unsigned char *bytes = out;
  size_t at = 0;
  while (at < size && bytes[at] == 0)
    ++at;
  if (ls_status_is_ok(status) || at < size) {
    print_error("%s:%d: %s %s\n", file, line, call,
                ls_status_is_ok(status) ? "is not refused"
                                        : "leaves garbage in a result");
    _fail(file, line);
  }
  ls_status_free(status);
}

#define REFUSED(type, call)                                                    \
  do {                                                                         \
    type out;                                                                  \
    memset(&out, REFUSED_GARBAGE, sizeof(out));                                \
    const ls_status refused_ = (call);                                         \
    expect_refused_at(refused_, &out, sizeof(out), #call, __FILE__, __LINE__); \
  } while (0)
// The same of a shape, which is unknown.
#define REFUSED_SHAPE(call)                                                    \
  do {                                                                         \
    ls_shape out = {.rank = 1};                                                \
    const ls_status refused_ = (call);                                         \
    out.rank -= LS_UNKNOWN_RANK;                                               \
    expect_refused_at(refused_, &out.rank, sizeof(out.rank), #call, __FILE__,  \
                      __LINE__);                                               \
  } while (0)
// The same of a device's name, which is "".
#define REFUSED_NAME(call)                                                     \
  do {                                                                         \
    ls_device_name out = {"garbage"};                                          \
    const ls_status refused_ = (call);                                         \
    expect_refused_at(refused_, out.text, 1, #call, __FILE__, __LINE__);       \
  } while (0)
// The same of a number, which is NaN.
#define REFUSED_NUMBER(call)                                                   \
  do {                                                                         \
    double out = 1;                                                            \
    const ls_status refused_ = (call);                                         \
    const bool is_number = out == out;                                         \
    expect_refused_at(refused_, &is_number, sizeof(is_number), #call,          \
                      __FILE__, __LINE__);                                     \
  } while (0)
// The same of a call that lacks nothing but memory.
#define REFUSED_MEMORY(type, call)                                             \
  do {                                                                         \
    counted counted_ = counted_begin(1);                                       \
    ls_counting_allocator_fail_at(counted_.memory, 1);                         \
    REFUSED(type, call);                                                       \
    ls_counting_allocator_fail_at(counted_.memory, 0);                         \
    counted_end(&counted_);                                                    \
  } while (0)
#define REFUSED_TWO(type, type2, call)                                         \
  do {                                                                         \
    type out;                                                                  \
    type2 second;                                                              \
    memset(&out, REFUSED_GARBAGE, sizeof(out));                                \
    memset(&second, REFUSED_GARBAGE, sizeof(second));                          \
    const ls_status refused_ = (call);                                         \
    expect_refused_at(ls_status_is_ok(refused_)                                \
                          ? ls_ok()                                            \
                          : LS_STATUS(LS_INTERNAL, "refused"),                 \
                      &second, sizeof(second), #call, __FILE__, __LINE__);     \
    expect_refused_at(refused_, &out, sizeof(out), #call, __FILE__, __LINE__); \
  } while (0)

#endif  // LS_TESTS_SUPPORT_REFUSED_H_
