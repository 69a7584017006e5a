// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_CONFIG_PARAMS_H_
#define LS_ESTIMATOR_CONFIG_PARAMS_H_

#include "base/runtime_internal.h"
#include "lockstep/estimator_functions.h"

#define LS_PARAM_BATCH_SIZE "batch_size"
#define LS_PARAM_CONTEXT "context"
#define LS_PARAM_USE_TPU "use_tpu"
#define LS_PARAM_CACHE "cache"

// A copy, its arrays too; of none an empty dict. The caller's.
ls_nest ls_params_copy(ls_nest params);

#endif  // LS_ESTIMATOR_CONFIG_PARAMS_H_
