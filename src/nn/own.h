// SPDX-License-Identifier: Apache-2.0
// What LS_OWN owns of nn and of the layers below.
#ifndef LS_NN_OWN_H_
#define LS_NN_OWN_H_

#include "lockstep/losses.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "tpu/own.h"

LS_OWNED_POINTER(ls_average, ls_average_destroy)
LS_OWNED_POINTER(ls_optimizer, ls_optimizer_release)
LS_OWNED_POINTER(ls_running_mean, ls_running_mean_destroy)

#endif  // LS_NN_OWN_H_
