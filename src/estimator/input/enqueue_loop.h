// SPDX-License-Identifier: Apache-2.0
#ifndef LS_ESTIMATOR_INPUT_ENQUEUE_LOOP_H_
#define LS_ESTIMATOR_INPUT_ENQUEUE_LOOP_H_

#include "estimator/input/enqueue.h"

// Builds the ops in a loop, on the host whose device scope stands: as many
// times as the loop variable says, or, of a prediction, until what was fed said
// stop. The loop's last value, a scalar: the count, or the signal.
//
// Of several, whose data end at different times (`meets`), one loop reads what
// all have, and then feeds all of them, those that have ended with padding;
// when nobody has anything but that, nothing is fed, and the loop fails with
// OUT_OF_RANGE. So a trip feeds all hosts, or none.
LS_MUST_USE ls_status ls_enqueue_loop(ls_enqueue *enqueues, size_t count,
                                      ls_tensor *out_last);

#endif  // LS_ESTIMATOR_INPUT_ENQUEUE_LOOP_H_
