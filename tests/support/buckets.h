// SPDX-License-Identifier: Apache-2.0
// What tests of buckets count and compare.
#ifndef LS_TESTS_SUPPORT_BUCKETS_H_
#define LS_TESTS_SUPPORT_BUCKETS_H_

#include "lockstep/ops.h"

// How many programs the current runtime has.
size_t buckets_num_programs(void);
// A replica's part of a result.
ls_nest buckets_component(ls_nest value, int r);
// Arguments of two replicas with these numbers of rows: x f32[n,4], y i32[n]
// from 0 to 2, and z f32[m,4], where m is the other replica's n.
ls_nest buckets_values(const int64_t *sizes);
// A constant f32[3,4].
ls_tensor buckets_table(void);
// Expects the same shape and bytes; names `i` of `what` in case `name`.
void buckets_expect_same(const char *name, const ls_array *got,
                         const ls_array *wanted, const char *what, size_t i);

#endif  // LS_TESTS_SUPPORT_BUCKETS_H_
