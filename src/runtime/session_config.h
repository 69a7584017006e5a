// SPDX-License-Identifier: Apache-2.0
//
// What a session is told of how to run.
#ifndef LS_RUNTIME_SESSION_CONFIG_H_
#define LS_RUNTIME_SESSION_CONFIG_H_

#include "lockstep/session.h"

// Whether a session can be had so; NULL: all defaults.
LS_MUST_USE ls_status ls_session_config_check(const ls_session_config *config);

#endif  // LS_RUNTIME_SESSION_CONFIG_H_
