// SPDX-License-Identifier: Apache-2.0
// LS_OWN types of state and the layers below.
#ifndef LS_STATE_OWN_H_
#define LS_STATE_OWN_H_

#include "lockstep/record.h"
#include "lockstep/saved_file.h"
#include "runtime/own.h"
#include "state/checkpoint_file.h"

LS_OWNED_POINTER(ls_record, ls_record_destroy)
LS_OWNED_POINTER(ls_saved_file, ls_saved_file_close)

#endif  // LS_STATE_OWN_H_
