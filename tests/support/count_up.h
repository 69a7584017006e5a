// SPDX-License-Identifier: Apache-2.0
// Loops that count, to be differentiated.
#ifndef LS_TESTS_SUPPORT_COUNT_UP_H_
#define LS_TESTS_SUPPORT_COUNT_UP_H_

#include "lockstep/graph.h"

// A loop of some trips around `step`, which makes the next value of one.
typedef ls_tensor (*step_function)(ls_tensor y, ls_tensor trip, ls_tensor w);
typedef struct counted {
  int trips;
  int64_t max_trips;
  step_function step;
} counted;
ls_tensor count_up(const counted *shape, ls_tensor initial, ls_tensor w);
// xs: the initial value, and what each trip uses.
ls_tensor make_counted(const ls_tensor *xs, size_t count, const void *user);

#endif  // LS_TESTS_SUPPORT_COUNT_UP_H_
