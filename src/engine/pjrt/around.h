// SPDX-License-Identifier: Apache-2.0
//
// Host calls around a launch (ls_emit_around): results of those before it are
// its arguments, its last results are operands of those after it. The worker
// of a run makes them (host.h), and the calls of all trips of a loop: before
// the launch until there are no more, or one fails; what whole trips have taken
// is computed, and then the run fails.
#ifndef LS_ENGINE_PJRT_AROUND_H_
#define LS_ENGINE_PJRT_AROUND_H_

#include "engine/pjrt/host.h"

typedef struct ls_pjrt_around ls_pjrt_around;

LS_MUST_USE ls_status ls_pjrt_around_create(ls_pjrt_instance *instance,
                                            ls_pjrt_around **out_around);
void ls_pjrt_around_destroy(ls_pjrt_around *self);  // NULL is fine.

// Chooses the code for so many trips.
LS_MUST_USE ls_status ls_pjrt_around_find_code(ls_pjrt_instance *instance,
                                               int64_t trips);
// Makes the calls before the launch, and sends their results. A failure means
// that there is no launch.
LS_MUST_USE ls_status ls_pjrt_around_begin(ls_pjrt_instance *instance);
// Asks for the operands of the calls after the launch.
LS_MUST_USE ls_status ls_pjrt_around_fetch(ls_pjrt_instance *instance);
// Makes these calls; a failure is that of the run's calls.
void ls_pjrt_around_end(ls_pjrt_instance *instance);

#endif  // LS_ENGINE_PJRT_AROUND_H_
