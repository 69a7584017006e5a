// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_ENQUEUE_LOOP_H_
#define LS_ESTIMATOR_ENQUEUE_LOOP_H_

#include "estimator/enqueue.h"

// Builds the ops in a loop, on the host whose device scope stands: as many
// times as the loop variable says, or, of a prediction, until what was fed said
// stop. The loop's last value, a scalar: the count, or the signal.
LS_MUST_USE ls_status ls_enqueue_loop(ls_enqueue *enqueue, ls_tensor *out_last);

#endif  // LS_ESTIMATOR_ENQUEUE_LOOP_H_
