// SPDX-License-Identifier: Apache-2.0
// An evaluator, as the run sees it.
#ifndef LS_TRAIN_EVALUATOR_H_
#define LS_TRAIN_EVALUATOR_H_

#include "lockstep/train.h"
#include "lockstep/training_parts.h"

// The function that it runs; lent.
ls_function *ls_evaluator_function(const ls_evaluator *evaluator);

#endif  // LS_TRAIN_EVALUATOR_H_
