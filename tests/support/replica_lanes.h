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

// Runs the tests with replicas side by side, by blocks, and by 1 to 8 threads;
// and `lane_tests` by one thread, each way. Returns how many have failed.
int lanes_run_tests(const struct CMUnitTest *tests, size_t count,
                    const struct CMUnitTest *lane_tests, size_t lane_count);

#endif  // LS_TESTS_SUPPORT_REPLICA_LANES_H_
