// SPDX-License-Identifier: Apache-2.0
// LS_OWN types of runtime and the layers below.
#ifndef LS_RUNTIME_OWN_H_
#define LS_RUNTIME_OWN_H_

#include "graph/own.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/session.h"

LS_OWNED_POINTER(ls_function, ls_function_release)
LS_OWNED_POINTER(ls_session, ls_session_destroy)
LS_OWNED_POINTER(ls_tape, ls_tape_release)

#endif  // LS_RUNTIME_OWN_H_
