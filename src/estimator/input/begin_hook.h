// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_INPUT_BEGIN_HOOK_H_
#define LS_ESTIMATOR_INPUT_BEGIN_HOOK_H_

#include "lockstep/hook.h"
#include "lockstep/iterator.h"

// A hook that begins iterators, retained, once there is a session: where it was
// restored to, else at the start.
LS_MUST_USE ls_status ls_begin_hook(ls_iterator *const *iterators, size_t count,
                                    ls_hook **out_hook);

#endif  // LS_ESTIMATOR_INPUT_BEGIN_HOOK_H_
