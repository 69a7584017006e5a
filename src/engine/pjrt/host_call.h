// SPDX-License-Identifier: Apache-2.0
//
// Single host calls of programs on devices, and the state of a run's calls.
#ifndef LS_ENGINE_PJRT_HOST_CALL_H_
#define LS_ENGINE_PJRT_HOST_CALL_H_

#include "base/cancel.h"
#include "base/threads/host_threads.h"
#include "base/threads/worker.h"
#include "engine/pjrt/host.h"

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
  return (size_t)ls_shape_num_elements(site->types[operand].shape) *
         ls_dtype_size(site->types[operand].dtype);
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
// Makes a call that all devices share (visit.c): by the first that comes, or
// the last one if the call takes values of all. Returns true if it has failed,
// and all devices know.
bool ls_pjrt_visit_call(ls_pjrt_hosts *self, size_t index, int32_t device,
                        char *const *buffers);
// Forgets the visits of a run that is over.
void ls_pjrt_end_visits(ls_pjrt_site *site, size_t devices);
void ls_pjrt_drop_visits(ls_allocator *allocator, ls_pjrt_visit *visits);
// Makes a site's calls of so many devices, from `first` on (host.c); gives
// zeros after a failure.
void ls_pjrt_call_site(ls_pjrt_hosts *self, size_t index, int32_t first,
                       char *const *const *buffers, int32_t devices);
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

#endif  // LS_ENGINE_PJRT_HOST_CALL_H_
