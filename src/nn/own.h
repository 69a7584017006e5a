// SPDX-License-Identifier: Apache-2.0
// Releases that LS_OWN uses for types of nn and of lower layers.
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
