// SPDX-License-Identifier: Apache-2.0
//
// Host calls of programs on devices: custom calls of a handler (ffi.h).
//
// A worker launches the program, since a plug-in may compute on the thread that
// launches and wait there for a call, which may wait for another run of the
// caller. Kernels work on copies of their operands: inline ones on the thread
// of the handler, others on the runtime's host threads, so that a call that
// never ends keeps only its record alive. A device's calls are made one after
// another: each takes the ticket, a tensor<2xui64> of the run's number and the
// device, that the one before it has given.
//
// After a failed call the run's other calls give zeros, since another device
// would wait in a collective for ever. A failure that all devices know marks
// their tickets: loops end, with the values of their last whole trip.
#ifndef LS_ENGINE_PJRT_HOST_H_
#define LS_ENGINE_PJRT_HOST_H_

#include "engine/pjrt/pjrt.h"

typedef struct ls_pjrt_hosts ls_pjrt_hosts;

// Registers the handler with a client's plug-in.
//   LS_UNIMPLEMENTED  the plug-in has no FFI, or no CPU or CUDA devices.
LS_MUST_USE ls_status ls_pjrt_register_handler(const ls_pjrt_client *client);

// Makes the host calls of an instance.
LS_MUST_USE ls_status ls_pjrt_hosts_create(ls_pjrt_instance *instance,
                                           ls_pjrt_hosts **out_hosts);
void ls_pjrt_hosts_destroy(ls_pjrt_hosts *self);  // NULL is fine.

// Begins a run and returns its number on devices. ls_pjrt_hosts_launch launches
// it.
uint64_t ls_pjrt_hosts_begin(ls_pjrt_hosts *self, const ls_run_args *args);
LS_MUST_USE ls_status ls_pjrt_hosts_launch(ls_pjrt_hosts *self);
// Returns true if the program has ended, or if its calls were stopped.
bool ls_pjrt_hosts_has_ended(ls_pjrt_hosts *self);
bool ls_pjrt_hosts_are_over(ls_pjrt_hosts *self);
// Blocks until one of several programs has ended, or for some time only if
// `others` are waited for, too. If one is cancelled, or waits
// for a call while nothing has progressed for as long as the runtime allows,
// its calls end.
void ls_pjrt_hosts_wait(ls_pjrt_hosts *const *hosts, size_t count, bool others);
// Makes the calls of the run end with this status; the program then ends.
void ls_pjrt_hosts_stop(ls_pjrt_hosts *self, ls_status status);
// Waits for the end of the program, if the run has begun, and returns the first
// failure of a call.
// `*out_loop` is the id of the loop that it has ended after whole trips, 0 if
// it was in none.
LS_MUST_USE ls_status ls_pjrt_hosts_finish(ls_pjrt_hosts *self,
                                           uint64_t *out_loop);

#endif  // LS_ENGINE_PJRT_HOST_H_
