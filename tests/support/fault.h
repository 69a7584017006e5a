// SPDX-License-Identifier: Apache-2.0
// Scenarios with every single request for memory refused in turn.
//
//   MEMORY_TEST(parse_a_topology) {   // A row of the table.
//     LS_OWN(ls_topology, topology) = NULL;
//     return ls_topology_parse(text, sizeof(text), &topology);
//   }
//
// refuse_each drives all of them: with the 1st, 2nd, 3rd ... request refused
// the scenario gives RESOURCE_EXHAUSTED and loses no memory, tried again it
// works, and with none refused it gives OK.
#ifndef LS_TESTS_SUPPORT_FAULT_H_
#define LS_TESTS_SUPPORT_FAULT_H_

#include "support/expect.h"

typedef struct fault_scenario {
  const char *name;
  // Zeroed bytes of its own, which the functions get. 0: `act` gets `user`,
  // stands for a whole life, may do without what it is refused, and is not
  // called again on what a failure left.
  size_t size;
  ls_status (*begin)(void *self);  // Finds memory. May be NULL.
  ls_status (*act)(void *self);    // Meets the failure, and is called again.
  // A number that all ways must end with. NULL: as op by op, what was done
  // before a failure stays, and a failure may be in what was made.
  double (*outcome)(void *self);
  void (*end)(void *self);  // Takes what stands. May be NULL.
  void *user;
  // Of the runtime, but for its allocator. One thread unless they say more;
  // data are read on the thread that asks unless they say how many read ahead.
  ls_runtime_options options;
} fault_scenario;

// Fails the test unless the scenario survives each refused request that `act`
// makes; with sanitizers each fifth.
void refuse_each(const fault_scenario *scenario);
// The same of all rows of a table.
#define REFUSE_ROWS(rows)                                                      \
  for (size_t row_ = 0; row_ < sizeof(rows) / sizeof(*(rows)); ++row_)         \
  refuse_each(&(rows)[row_])
// The same of a function alone.
#define REFUSE_EACH(function, user_)                                           \
  refuse_each(&(fault_scenario){                                               \
      .name = #function, .act = (function), .user = (user_)})

// The test that a function survives, whose body follows and gives a status.
// More fields of the scenario may be named: .size, .begin, .outcome, .end.
#define MEMORY_TEST(function, ...)                                             \
  static ls_status function(void *self);                                       \
  TEST_NAMED(0, function##_survives, #function " survives refused memory") {   \
    refuse_each(&(fault_scenario){                                             \
        .name = #function, .act = (function), ##__VA_ARGS__});                 \
  }                                                                            \
  static ls_status function(__attribute__((unused)) void *self)

#endif  // LS_TESTS_SUPPORT_FAULT_H_
