// SPDX-License-Identifier: Apache-2.0
//
// TPU strategies inside: a class of their own among strategies.
#ifndef LS_TPU_STRATEGY_H_
#define LS_TPU_STRATEGY_H_

#include "distribute/strategies/strategy.h"
#include "lockstep/tpu_strategy.h"

typedef struct ls_tpu_strategy {
  ls_strategy base;
} ls_tpu_strategy;

extern const ls_strategy_class ls_tpu_strategy_class;

// What the class does, where it is not what mirrored strategies do.
ls_status ls_tpu_class_run(ls_strategy *strategy, ls_crossing *crossing,
                           ls_callable callable, ls_nest args,
                           ls_nest *results);

#endif  // LS_TPU_STRATEGY_H_
