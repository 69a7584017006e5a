// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdlib.h>
#include <string.h>

#include "support/bystander.h"
#include "support/counted.h"
#include "support/sanitizer.h"

static uint64_t requests_of(const ls_counting_allocator *memory) {
  return ls_counting_allocator_counts(memory).allocations;
}
static uint64_t blocks_of(const ls_counting_allocator *memory) {
  return ls_counting_allocator_counts(memory).live_blocks;
}

// Lets the scenario act with request `nth` refused, 0: none. Whether there were
// that many.
static bool act_once(const fault_scenario *s, void *self,
                     ls_counting_allocator *memory, uint64_t nth) {
  const unsigned long long shown = nth;
  const uint64_t before = requests_of(memory);
  ls_counting_allocator_fail_at(memory, nth);
  const ls_status status = s->act(self);
  ls_counting_allocator_fail_at(memory, 0);
  const bool refused = nth > 0 && requests_of(memory) - before >= nth;
  if (ls_status_is_ok(status)) {
    if (refused && s->outcome != NULL)
      fail_msg("%s: request %llu was refused, and there is no status", s->name,
               shown);
    return refused;
  }
  if (!refused || ls_status_code(status) != LS_RESOURCE_EXHAUSTED)
    print_error("%s, request %llu:\n", s->name, shown);
  expect_status(status, refused ? LS_RESOURCE_EXHAUSTED : LS_OK, "");
  if (s->size > 0) {
    const ls_status again = s->act(self);
    if (!ls_status_is_ok(again))
      print_error("%s, again after request %llu failed:\n", s->name, shown);
    expect_ok(again);
  }
  return refused;
}

// One life of the scenario with request `nth` of its act refused. Once warm, it
// leaves no memory behind.
static bool live(const fault_scenario *s, ls_counting_allocator *memory,
                 uint64_t nth, bool warm, double *outcome) {
  const uint64_t before = blocks_of(memory);
  void *own = s->size > 0 ? calloc(1, s->size) : NULL;
  void *self = s->size > 0 ? own : s->user;
  if (s->begin != NULL) expect_ok(s->begin(self));
  const bool refused = act_once(s, self, memory, nth);
  *outcome = s->outcome == NULL ? 0 : s->outcome(self);
  if (s->end != NULL) s->end(self);
  free(own);
  const uint64_t left = blocks_of(memory);
  if (left != before && warm)
    fail_msg("%s: %lld blocks lost with request %llu refused", s->name,
             (long long)(left - before), (unsigned long long)nth);
  return refused;
}

void refuse_each(const fault_scenario *scenario) {
  ls_runtime_options options = scenario->options;
  if (options.threads == 0) options.threads = 1;
  // Threads that read ahead would make some of the requests, at any time.
  if (!options.input_threads.set) options.input_threads = LS_SOME(0);
  bystander_forbid("all memory is counted");
  counted memory = counted_begin_with(options);
  double wanted = 0, got = 0;
  // What is made once per runtime is not counted as lost.
  live(scenario, memory.memory, 0, false, &wanted);
  live(scenario, memory.memory, 0, true, &wanted);
  uint64_t nth = 1;
  while (live(scenario, memory.memory, nth, true, &got)) {
    if (memcmp(&wanted, &got, sizeof(got)) != 0)
      fail_msg("%s: %.17g and not %.17g after request %llu was refused",
               scenario->name, got, wanted, (unsigned long long)nth);
    nth += FAULT_STRIDE;
  }
  print_message("%s: %llu requests\n", scenario->name,
                (unsigned long long)(nth - 1) / FAULT_STRIDE);
  assert_true(nth > 1);  // Else the test has tested nothing.
  counted_end(&memory);
  bystander_forbid(NULL);
}
