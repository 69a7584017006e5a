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

// State of a site: what all replicas share is called by the first device, from
// whose results the others copy.
typedef struct ls_pjrt_site {
  ls_pjrt_record **records;  // One for each device.
  uint64_t *rounds;          // Number of results that each device has taken.
  uint64_t round;            // Number of calls of the first device.
  int32_t takers;            // Devices that have not copied its results.
  char **results;
} ls_pjrt_site;

struct ls_pjrt_hosts {
  ls_pjrt_executable *executable;
  ls_allocator *allocator;
  ls_runtime *runtime;
  ls_host_threads *threads;  // The lock there guards what follows.
  void (*launch)(void *user);
  void *user;
  ls_worker worker;
  ls_pjrt_site *sites;
  struct ls_pjrt_hosts *next;  // In the list of runs.
  uint64_t number;
  uint64_t run;
  ls_cancel *cancels[LS_CANCELS];
  int32_t num_out;        // Calls that are waited for.
  const char *waits_for;  // The op of the last one; NULL: it has ended.
  bool has_ended, is_over;
  ls_status status;
};

// Returns the bytes of an operand, or output after the inputs, of one replica.
static inline size_t ls_pjrt_host_bytes(const ls_emit_host *site,
                                        size_t operand) {
  return (size_t)ls_shape_num_elements(site->types[operand].shape) *
         ls_dtype_size(site->types[operand].dtype);
}

// Makes the calls of a device's replicas: `buffers` are the inputs and outputs.
// The record at `place` is made when it is first needed.
LS_MUST_USE ls_status ls_pjrt_call_host(ls_pjrt_hosts *self,
                                        ls_pjrt_record **place,
                                        const ls_emit_host *site,
                                        int32_t device, char *const *buffers);
void ls_pjrt_record_destroy(ls_allocator *allocator, ls_pjrt_record *record);

#endif  // LS_ENGINE_PJRT_HOST_CALL_H_
