// SPDX-License-Identifier: Apache-2.0
// Random replicated computations whose outside compiled clusters read and write
// variables of the host, call functions on it and fail, in loops and branches;
// and what they do by the rules, op by op: each op for all replicas that come
// to it, in the order of replicas.
#ifndef LS_TESTS_SUPPORT_OUTSIDE_FLOWS_H_
#define LS_TESTS_SUPPORT_OUTSIDE_FLOWS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct outside_flows_tally {
  size_t runs, failed, calls, writes;  // `failed`: that were to fail, and did.
} outside_flows_tally;

// Draws one, runs it and compares; the test fails where they differ.
void outside_flows_check(uint64_t seed, outside_flows_tally *tally);

#endif  // LS_TESTS_SUPPORT_OUTSIDE_FLOWS_H_
