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

#include "base/runtime_internal.h"
#include "base/threads/host_threads.h"
#include "base/threads/worker.h"
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

// ---- Single calls (host_call.c), and the state of a run's calls ------------
typedef struct ls_pjrt_record ls_pjrt_record;  // A call of a site and device.

// A call that all devices share: what each has brought and takes away. Devices
// need not be at the same call at the same time.
typedef struct ls_pjrt_visit {
  struct ls_pjrt_visit *next;
  uint64_t number;  // Number among the site's calls.
  char ***buffers;  // Inputs, then outputs, of each device, in `data`.
  char **lists, *data;
  int32_t num_came, num_left;
  bool is_called, has_failed;
} ls_pjrt_visit;

// State of a site.
typedef struct ls_pjrt_site {
  ls_pjrt_record **records;        // One for each device.
  uint64_t *numbers;               // Number of calls that each has come to.
  ls_pjrt_visit *visits, *unused;  // Visits that some have come to, and free.
  // Host memory of each device's operands, made when it is first needed; none
  // for devices whose memory is the host's.
  char **staged;
} ls_pjrt_site;

struct ls_pjrt_hosts {
  ls_pjrt_executable *executable;
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_host_threads *threads;  // The lock there guards what follows.
  ls_pjrt_instance *instance;
  ls_worker worker;
  ls_pjrt_site *sites;
  struct ls_pjrt_hosts *next;  // In the list of runs.
  uint64_t number;
  uint64_t run;
  ls_cancel *cancels[LS_CANCELS];
  int32_t num_out;        // Calls that are waited for.
  int64_t moved;          // Time at which something has progressed.
  uint64_t progress;      // See ls_runtime_goes_on.
  const char *waits_for;  // The op of the last one; NULL: it has ended.
  bool has_ended, is_over;
  uint64_t loop;  // The loop that a failure has ended; 0: none.
  bool is_torn;   // Some devices may not know of a failure.
  ls_status status;
};

// Returns the bytes of an operand, or output after the inputs, of one replica.
static inline size_t ls_pjrt_host_bytes(const ls_emit_host *site,
                                        size_t operand) {
  return ls_type_bytes(site->types[operand]);
}

// Returns the bytes of what a device has of it.
static inline size_t ls_pjrt_device_bytes(const ls_emit_host *site,
                                          size_t operand) {
  return ls_pjrt_host_bytes(site, operand) *
         (site->wide[operand] ? (size_t)site->num_local : 1);
}

// Places so many rows of each operand, or output after the inputs, of each
// device in memory; devices share what is not wide. Returns the size. Memory
// NULL: for the size alone.
size_t ls_pjrt_place_operands(const ls_emit_host *site, size_t devices,
                              size_t rows, char *memory, char ***lists);
// Makes the calls of replicas from `first` on: `buffers` are the inputs, then
// the outputs, on each of so many devices. The record at `place` is made when
// it is first needed.
LS_MUST_USE ls_status ls_pjrt_call_host(ls_pjrt_hosts *self,
                                        ls_pjrt_record **place,
                                        const ls_emit_host *site, int32_t first,
                                        char *const *const *buffers,
                                        int32_t devices);
// Returns true for calls that devices share.
bool ls_pjrt_is_shared(const ls_pjrt_hosts *self, const ls_emit_host *site);
// Makes a site's calls of so many devices (host.c).
LS_MUST_USE ls_status ls_pjrt_try_site(ls_pjrt_hosts *self, size_t index,
                                       int32_t first,
                                       char *const *const *buffers,
                                       int32_t devices);
// Makes the calls of a device at a site (host.c): `buffers` are its inputs and
// outputs. Marks the ticket's device after a failure that all devices know.
void ls_pjrt_answer_call(ls_pjrt_hosts *self, size_t index, uint64_t *device,
                         char *const *buffers);
// Returns the run of this number, NULL if it is over.
ls_pjrt_hosts *ls_pjrt_find_run(uint64_t number);
void ls_pjrt_record_destroy(ls_allocator *allocator, ls_pjrt_record *record);

// ---- Calls around a launch (around.c) ---------------------------------------
// Host calls around a launch (ls_emit_around): results of those before it are
// its arguments, its last results are operands of those after it. The worker
// of a run makes them (host.h), and the calls of all trips of a loop: before
// the launch until there are no more, or one fails; what whole trips have taken
// is computed, and then the run fails.

typedef struct ls_pjrt_around ls_pjrt_around;

LS_MUST_USE ls_status ls_pjrt_around_create(ls_pjrt_instance *instance,
                                            ls_pjrt_around **out_around);
void ls_pjrt_around_destroy(ls_pjrt_around *self);  // NULL is fine.

// Chooses the code for so many trips.
LS_MUST_USE ls_status ls_pjrt_around_find_code(ls_pjrt_instance *instance,
                                               int64_t trips);
// Makes the calls before the launch, and sends their results. A failure means
// that there is no launch.
LS_MUST_USE ls_status ls_pjrt_around_begin(ls_pjrt_instance *instance);
// Asks for the operands of the calls after the launch.
LS_MUST_USE ls_status ls_pjrt_around_fetch(ls_pjrt_instance *instance);
// Makes these calls; a failure is that of the run's calls.
void ls_pjrt_around_end(ls_pjrt_instance *instance);

#endif  // LS_ENGINE_PJRT_HOST_H_
