// SPDX-License-Identifier: Apache-2.0
// LS_OWN types of train and the layers below.
#ifndef LS_TRAIN_OWN_H_
#define LS_TRAIN_OWN_H_

#include "lockstep/events.h"
#include "lockstep/hook.h"
#include "nn/own.h"

LS_OWNED_POINTER(ls_event_numbers, ls_event_numbers_destroy)
LS_OWNED_POINTER(ls_hook, ls_hook_release)

#endif  // LS_TRAIN_OWN_H_
