// SPDX-License-Identifier: Apache-2.0
// Numbers of arguments, where callbacks declare what they take.
#ifndef LS_TPU_REPLICATE_ARITY_H_
#define LS_TPU_REPLICATE_ARITY_H_

#include "lockstep/infeed.h"
#include "lockstep/parameters.h"

// Whether `what` takes the inputs and, if `takes_infeed`, a queue's elements
// behind them. NULL for the parameters: it takes anything; for the queue: there
// is none.
LS_MUST_USE ls_status ls_check_arity(const ls_parameters *parameters,
                                     const char *what, ls_nest inputs,
                                     const ls_infeed_queue *queue,
                                     bool takes_infeed);

#endif  // LS_TPU_REPLICATE_ARITY_H_
