// SPDX-License-Identifier: Apache-2.0
// All that a build graph holds, as a text to compare.
#ifndef LS_TESTS_SUPPORT_DESCRIBE_H_
#define LS_TESTS_SUPPORT_DESCRIBE_H_

#include "lockstep/graph.h"

// Its ops but for their numbers, its collections, and its loss reduction. The
// caller frees it.
char *describe(const ls_graph *graph);
// Drops the numbers of values, in place.
void drop_numbers(char *text);

#endif  // LS_TESTS_SUPPORT_DESCRIBE_H_
