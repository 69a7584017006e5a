// SPDX-License-Identifier: Apache-2.0
// Initializes a model from another run, or from a file.
#ifndef LS_TRAIN_FOLDER_WARM_START_H_
#define LS_TRAIN_FOLDER_WARM_START_H_

#include "base/runtime_internal.h"
#include "lockstep/train.h"

// Sets the model's variables, not the optimizer's, and logs it. NULL does
// nothing.
LS_MUST_USE ls_status ls_warm_start_apply(ls_runtime *runtime,
                                          const ls_model *model,
                                          const ls_warm_start *warm_start);

#endif  // LS_TRAIN_FOLDER_WARM_START_H_
