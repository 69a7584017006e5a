// SPDX-License-Identifier: Apache-2.0
// Scenarios with every single request for memory refused, and then done again.
#ifndef LS_TESTS_SUPPORT_FAULT_H_
#define LS_TESTS_SUPPORT_FAULT_H_

#include "support/expect.h"

// What a scenario does with `size` zeroed bytes of its own. `begin`, which may
// be NULL, finds memory; `act` meets the failure and is then called again, on
// what the first call left; `outcome` is a number that both ways must end with
// (NULL: op by op, what was done before a failure stays); `end` takes what
// stands, whatever became of it.
typedef struct fault_scenario {
  const char *name;
  size_t size;
  ls_status (*begin)(void *self);
  ls_status (*act)(void *self);
  double (*outcome)(void *self);
  void (*end)(void *self);
} fault_scenario;

// For each request that `act` makes: with that one refused it gives
// RESOURCE_EXHAUSTED (op by op also OK); called again it works and has the
// outcome of a run without a failure; behind `end` no memory is lost. A refused
// request that nobody tells of would make another program of the same ops.
void expect_faults_survived(const fault_scenario *scenario);
// The same under a runtime of these options, but for the allocator; data are
// read on the thread that asks, unless they say how many threads read ahead.
void expect_faults_survived_under(ls_runtime_options options,
                                  const fault_scenario *scenario);

#endif  // LS_TESTS_SUPPORT_FAULT_H_
