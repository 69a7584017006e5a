// SPDX-License-Identifier: Apache-2.0
// A thread that is told how often to do something: what feeds the cores of an
// estimator's loop, or takes what they say.
//
// Counts are told by one thread, which also stops and joins; they are read by
// the controller's own.
#ifndef LS_ESTIMATOR_DEVICE_CONTROLLER_H_
#define LS_ESTIMATOR_DEVICE_CONTROLLER_H_

#include "base/runtime_internal.h"
#include "base/threads/worker.h"

typedef struct ls_controller ls_controller;

// Runs on the thread until the controller is stopped, reading counts.
typedef void (*ls_controller_function)(ls_controller *controller, void *user);

// Begins the thread, which has the runtime of the caller. `name` is lent.
// `once`: the first count is passed on alone, later ones are dropped.
LS_MUST_USE ls_status ls_controller_start(const char *name,
                                          ls_controller_function fn, void *user,
                                          bool once, ls_controller **out);
// One more count, above 0, behind those that were sent. No limit.
LS_MUST_USE ls_status ls_controller_send(ls_controller *controller,
                                         int64_t count);
// Behind the counts so far: reading ends there.
void ls_controller_stop(ls_controller *controller);
// Stops it, waits for its thread, and frees it. NULL is fine.
void ls_controller_join(ls_controller *controller);

// For the thread: waits for the next count. False: it was stopped, for good.
bool ls_controller_next(ls_controller *controller, int64_t *out_count);

#endif  // LS_ESTIMATOR_DEVICE_CONTROLLER_H_
