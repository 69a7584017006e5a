// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdlib.h>
#include <string.h>

#include "support/bystander.h"
#include "support/counted.h"
#include "support/sanitizer.h"

// One life of the scenario with request `nth` of its act refused, 0: none.
// Whether there were that many. Once warm, it leaves no memory behind.
static bool live(const fault_scenario *s, ls_counting_allocator *memory,
                 uint64_t nth, bool warm, double *outcome) {
  const uint64_t blocks = ls_counting_allocator_counts(memory).live_blocks;
  void *self = calloc(1, s->size);
  if (s->begin != NULL) expect_ok(s->begin(self));
  const uint64_t before = ls_counting_allocator_counts(memory).allocations;
  ls_counting_allocator_fail_at(memory, nth);
  const ls_status status = s->act(self);
  ls_counting_allocator_fail_at(memory, 0);
  const uint64_t made =
      ls_counting_allocator_counts(memory).allocations - before;
  const bool failed = !ls_status_is_ok(status);
  // Op by op a failure may be in what was made.
  if (!failed && nth > 0 && made >= nth && s->outcome != NULL)
    fail_msg("%s: request %llu was refused, and there is no status", s->name,
             (unsigned long long)nth);
  if (failed) {
    if (ls_status_code(status) != LS_RESOURCE_EXHAUSTED || nth == 0)
      print_error("%s, request %llu:\n", s->name, (unsigned long long)nth);
    expect_status(status, nth == 0 ? LS_OK : LS_RESOURCE_EXHAUSTED, "");
    const ls_status again = s->act(self);
    if (!ls_status_is_ok(again))
      print_error("%s, again after request %llu failed:\n", s->name,
                  (unsigned long long)nth);
    expect_ok(again);
  }
  *outcome = s->outcome == NULL ? 0 : s->outcome(self);
  s->end(self);
  free(self);
  const uint64_t left = ls_counting_allocator_counts(memory).live_blocks;
  if (left != blocks && warm)
    fail_msg("%s: %lld blocks lost with request %llu refused", s->name,
             (long long)(left - blocks), (unsigned long long)nth);
  return made >= nth;
}

void expect_faults_survived(const fault_scenario *scenario) {
  expect_faults_survived_under((ls_runtime_options){.threads = 1}, scenario);
}

void expect_faults_survived_under(ls_runtime_options options,
                                  const fault_scenario *scenario) {
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
