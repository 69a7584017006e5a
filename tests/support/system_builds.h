// SPDX-License-Identifier: Apache-2.0
// What a player's system runs: each adds something of its replicas to a
// variable, and gives what that has then.
#ifndef LS_TESTS_SUPPORT_SYSTEM_BUILDS_H_
#define LS_TESTS_SUPPORT_SYSTEM_BUILDS_H_

#include "support/system_player.h"

// A function that the strategy runs.
ls_status system_build_function(system_player *p);
// In the current graph: a run of the strategy; or a replicated computation,
// fed by loops of enqueue ops where that is the way.
ls_status system_build_run(system_player *p);
ls_status system_build_replicated(system_player *p);

#endif  // LS_TESTS_SUPPORT_SYSTEM_BUILDS_H_
