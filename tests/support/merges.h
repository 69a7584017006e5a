// SPDX-License-Identifier: Apache-2.0
// Merge functions for tests that run in all ways, and arguments for them.
#ifndef LS_TESTS_SUPPORT_MERGES_H_
#define LS_TESTS_SUPPORT_MERGES_H_

#include "support/ways.h"

// The arguments of replica r: three numbers and one.
ls_nest rows_of(const ways *self, int step, int r);
// Argument i of a replica.
ls_tensor argument(ls_nest args, size_t i);
// Replica r's part of an argument of a merge function.
ls_tensor part_of(ls_nest leaf, size_t r);

// Merge functions: the sum of the first argument, and what was given.
ls_nest add_up(ls_strategy *strategy, ls_nest args, void *user);
ls_nest give_back(ls_strategy *strategy, ls_nest args, void *user);

// The argument of replica r: r + 1.
ls_nest number_of_replica(const ways *self, int step, int r);
// The value, or the failure, which takes the value along.
ls_nest taken(ls_status status, const ls_nest *value);

#endif  // LS_TESTS_SUPPORT_MERGES_H_
