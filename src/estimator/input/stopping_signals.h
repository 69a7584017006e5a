// SPDX-License-Identifier: Apache-2.0
//
// Signals that come with the batches of a prediction: whether it is over.
#ifndef LS_ESTIMATOR_INPUT_STOPPING_SIGNALS_H_
#define LS_ESTIMATOR_INPUT_STOPPING_SIGNALS_H_

#include "lockstep/ops.h"

// Keys of a dict of signals.
#define LS_SIGNAL_STOPPING "stopping"
#define LS_SIGNAL_PADDING "padding_mask"

// Signal stopping[0][0] of [batch, 1], a bool scalar in the current graph.
ls_tensor ls_stopping_signal(ls_tensor stopping);
// Whether to stop: of a tensor an op that says it; of a scalar or an array that
// same.
//   failed  the signal is no bool
ls_nest ls_should_stop(ls_nest signal);

#endif  // LS_ESTIMATOR_INPUT_STOPPING_SIGNALS_H_
