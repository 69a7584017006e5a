// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_INPUT_BEGIN_HOOK_H_
#define LS_ESTIMATOR_INPUT_BEGIN_HOOK_H_

#include "lockstep/hook.h"
#include "lockstep/iterator.h"

// Makes the hook that starts iterators when a session begins: at the restored
// position, else at the start. Holds references.
LS_MUST_USE ls_status ls_begin_hook(ls_iterator *const *iterators, size_t count,
                                    ls_hook **out_hook);

#endif  // LS_ESTIMATOR_INPUT_BEGIN_HOOK_H_
