// SPDX-License-Identifier: Apache-2.0
// What tests expect: statuses and texts.
#ifndef LS_TESTS_SUPPORT_EXPECT_H_
#define LS_TESTS_SUPPORT_EXPECT_H_

#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/graph.h"
#include "lockstep/runtime.h"
#include "lockstep/status.h"
#include "support/test.h"

// An owner of a text that the library has printed: LS_OWN(printed, text) =
// NULL. Locals of tests are owners, as HACKING.md says.
LS_OWNED_(printed, char *, ls_text_release(*ls_owned))

// Declares the owner `name` as LS_OWN does, zeroed, and begins it: `begin` gets
// its address and the arguments that follow. LS_OWN_BEGUN(computation, c,
// computation_open) opens c; its end is that of its block.
#define LS_OWN_BEGUN(noun, name, begin, ...)                                   \
  LS_OWN(noun, name) = {0};                                                    \
  begin(&(name), ##__VA_ARGS__)
// Declares `Type *name`, which `free` gives back at the end of its block.
#define HEAP(Type, name) Type *name __attribute__((cleanup(heap_end), unused))
static inline void heap_end(void *heap_place) {
  void *memory = NULL;
  memcpy(&memory, heap_place, sizeof(memory));
  free(memory);
}

// Expects OK; prints and frees any other status.
#define expect_ok(status)                                                      \
  expect_status_at((status), LS_OK, "", __FILE__, __LINE__)
// Expects a status of this code whose text contains `part`. Frees it.
#define expect_status(status, code, part)                                      \
  expect_status_at((status), (code), (part), __FILE__, __LINE__)
void expect_status_at(ls_status status, ls_code code, const char *part,
                      const char *file, int line);
// Expects that an argument is refused, in these words: most often one of NULL.
#define expect_null(status, part)                                              \
  expect_status((status), LS_INVALID_ARGUMENT, (part))
// Expects that the call of `function` with these arguments refuses `argument`,
// which is NULL among them, by name.
#define expect_null_argument(argument, function, ...)                          \
  expect_null(function(__VA_ARGS__), #function ": " #argument " is NULL")

// Expects that `text` contains `part`.
#define expect_contains(text, part)                                            \
  expect_contains_at((text), (part), __FILE__, __LINE__)
void expect_contains_at(const char *text, const char *part, const char *file,
                        int line);
// Returns how often `part` stands in `text`.
int count_parts(const char *text, const char *part);

#endif  // LS_TESTS_SUPPORT_EXPECT_H_
