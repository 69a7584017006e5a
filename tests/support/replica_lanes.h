// SPDX-License-Identifier: Apache-2.0
// Lowered programs of replicas, the tree that their sums follow, and all ways
// in which an engine runs replicas.
#ifndef LS_TESTS_SUPPORT_REPLICA_LANES_H_
#define LS_TESTS_SUPPORT_REPLICA_LANES_H_

#include "support/expect.h"
#include "support/lowered.h"

enum { LANES_WIDTH = 7, LANES_MOST = 1024, LANES_COUNTS = 10 };

// Numbers of replicas, from 1 to LANES_MOST.
extern const int32_t lanes_counts[LANES_COUNTS];

void lanes_create(lowered *program, const char *text);
// "graph lowered ..." of one split f32[7] in `replicas` parts: the body behind
// its parameter %1, and the types of its outputs, ":N" or "" for one. The
// caller frees it.
char *lanes_text(int32_t replicas, const char *outputs, const char *body,
                 const char *types);

// A number so that sums depend on their order, and a row of them a replica.
float lanes_value(size_t i);
extern float lanes_values[LANES_MOST][LANES_WIDTH];
extern const void *lanes_rows[LANES_MOST];
void lanes_fill_values(void);
// Sum of n values, `stride` apart: split at the largest power of two below n.
float lanes_tree_sum(const float *values, size_t n, size_t stride);

// Tests that one thread runs, by lanes alone; and tests that are run once, as
// the caller's runtime does it.
enum { LANES_ALL_WAYS, LANES_ONE_THREAD, LANES_ONCE };
#define LANE_TEST(name) TEST_IN(LANES_ONE_THREAD, name)
#define ONCE_TEST(name) TEST_IN(LANES_ONCE, name)

// Runs the tests of a file, TEST_FILE(.run = lanes_run_tests): all others with
// replicas side by side, by blocks, and by 1 to 8 threads. Returns how many
// have failed.
int lanes_run_tests(const unit_tests *tests);

#endif  // LS_TESTS_SUPPORT_REPLICA_LANES_H_
