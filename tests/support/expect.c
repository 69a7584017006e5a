// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <string.h>

#include "support/bystander.h"
#include "support/counted.h"
#include "support/sanitizer.h"

void expect_status_at(ls_status status, ls_code code, const char *part,
                      const char *file, int line) {
  const ls_code got = ls_status_code(status);
  const bool found = strstr(ls_status_message(status), part) != NULL;
  if (got != code || !found) {
    print_error("wanted %s with '%s', got %s: %s\n", ls_code_name(code), part,
                ls_code_name(got), ls_status_message(status));
  }
  ls_status_free(status);
  if (got != code || !found) _fail(file, line);
}

void expect_contains_at(const char *text, const char *part, const char *file,
                        int line) {
  if (strstr(text, part) != NULL) return;
  print_error("wanted '%s' in '%s'\n", part, text);
  _fail(file, line);
}

// One run with the `nth` request failing. Whether there were that many.
static bool survive_one(ls_counting_allocator *memory, uint64_t nth,
                        ls_status (*work)(void *user), void *user) {
  const ls_allocator_counts before = ls_counting_allocator_counts(memory);
  ls_counting_allocator_fail_at(memory, nth);
  ls_status status = work(user);
  ls_counting_allocator_fail_at(memory, 0);
  const ls_allocator_counts after = ls_counting_allocator_counts(memory);
  if (!ls_status_is_ok(status) &&
      ls_status_code(status) != LS_RESOURCE_EXHAUSTED) {
    print_error("with request %llu failing\n", (unsigned long long)nth);
    expect_status(status, LS_RESOURCE_EXHAUSTED, "");
  }
  ls_status_free(status);
  if (after.live_blocks != before.live_blocks) {
    fail_msg("%llu blocks lost with request %llu failing",
             (unsigned long long)(after.live_blocks - before.live_blocks),
             (unsigned long long)nth);
  }
  return after.allocations - before.allocations >= nth;
}

void expect_memory_failures_survived(ls_status (*work)(void *user),
                                     void *user) {
  bystander_forbid("all memory is counted");
  counted memory = counted_begin(1);
  // What is made once per runtime is not counted as lost.
  expect_ok(work(user));
  uint64_t nth = 1;
  while (survive_one(memory.memory, nth, work, user))
    nth += FAULT_STRIDE;
  assert_true(nth > 1);  // Else the test has tested nothing.
  counted_end(&memory);
  bystander_forbid(NULL);
}
