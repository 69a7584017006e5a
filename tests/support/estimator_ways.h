// SPDX-License-Identifier: Apache-2.0
// Every way to run an estimator's model, with one replica and several.
#ifndef LS_TESTS_SUPPORT_ESTIMATOR_WAYS_H_
#define LS_TESTS_SUPPORT_ESTIMATOR_WAYS_H_

#include "support/estimators.h"

enum { ESTIMATOR_WAYS = 5 };
// Way and replicas of number `i` of them.
static inline estimator_case estimator_case_of(int i) {
  static const estimator_case cases[ESTIMATOR_WAYS] = {
      {.way = ON_CPU, .replicas = 1},      {.way = ON_TPU, .replicas = 1},
      {.way = ON_TPU, .replicas = 3},      {.way = IN_STRATEGY, .replicas = 1},
      {.way = IN_STRATEGY, .replicas = 3},
  };
  return cases[i];
}

#endif  // LS_TESTS_SUPPORT_ESTIMATOR_WAYS_H_
