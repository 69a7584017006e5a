// SPDX-License-Identifier: Apache-2.0
// Whether a model can be trained: what its step must give and change.
#ifndef LS_TRAIN_STEP_CHECK_H_
#define LS_TRAIN_STEP_CHECK_H_

#include "lockstep/models.h"

// INVALID_ARGUMENT unless the model lists variables and `step`, whose first
// call gave `results`, is one as lockstep/models.h asks for: it gives "loss"
// and "accuracy", and changes something that is trained.
LS_MUST_USE ls_status ls_train_check_step(const ls_model *model,
                                          const ls_function *step,
                                          ls_nest results);

#endif  // LS_TRAIN_STEP_CHECK_H_
