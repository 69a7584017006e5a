// SPDX-License-Identifier: Apache-2.0
//
// The back end of a PJRT plug-in: what its files share.
//
// It owns a CPU engine, which computes programs with `on_host`, and keeps its
// own executables, instances and buffers around those of the CPU engine.
#ifndef LS_ENGINE_PJRT_PJRT_H_
#define LS_ENGINE_PJRT_PJRT_H_

#include "base/memory/own.h"
#include "base/threads/threads.h"
#include "emit/stablehlo_module.h"
#include "engine/backend.h"
#include "engine/pjrt/client.h"

typedef struct ls_pjrt_backend {
  ls_backend base;
  ls_pjrt_client client;
  ls_text numerics_id;
  ls_text cache_folder;  // Folder of compiled programs; empty: none.
  ls_mutex arrivals_lock;
  struct ls_pjrt_arrival *arrivals;  // Under way. Under the lock.
  ls_mutex *launching;               // One per device; see run.c.
  bool exact;                        // The option exact_bits.
  bool highest;                      // Products of f32 are computed in f32.
  bool bf16;                         // They round their operands to bf16.
} ls_pjrt_backend;

static inline ls_pjrt_backend *ls_pjrt_of(const ls_backend *backend) {
  return (ls_pjrt_backend *)(uintptr_t)backend;
}

// ---- Buffers (buffer.c) ----------------------------------------------------
// The value of a variable, in host memory and on devices: on those that a
// program has put it, and on those that programs have asked for it.
//
// Threads that read may copy the value to another place at the same time.
typedef struct ls_pjrt_buffer {
  ls_buffer base;
  ls_mutex lock;         // Guards the fields below while there are readers.
  ls_buffer *host;       // The CPU engine's buffer.
  bool has_host;         // The host's value is the current one.
  PJRT_Buffer *parts[];  // Values by device; NULL: none.
} ls_pjrt_buffer;

ls_status ls_pjrt_create_buffer(ls_backend *backend, ls_type type,
                                ls_buffer **out_buffer);
ls_status ls_pjrt_upload(ls_buffer *buffer, const void *data);
ls_status ls_pjrt_download(const ls_buffer *buffer, void *data);
ls_status ls_pjrt_look(const ls_buffer *buffer, const void **out_data);
void *ls_pjrt_overwrite(ls_buffer *buffer);
ls_status ls_pjrt_copy(ls_buffer *target, const ls_buffer *from);
ls_status ls_pjrt_fill(ls_buffer *buffer, ls_executable *executable,
                       const ls_run_args *args);
// Makes the host's value current.
LS_MUST_USE ls_status ls_pjrt_buffer_to_host(ls_pjrt_buffer *buffer);
// Makes the host's value the only one, after the CPU engine has written it.
void ls_pjrt_buffer_keep_host(ls_pjrt_buffer *buffer);
// Returns the value on a device, copied there if need be. Lent.
LS_MUST_USE ls_status ls_pjrt_buffer_part(ls_pjrt_buffer *buffer,
                                          int32_t device,
                                          PJRT_Buffer **out_part);
// Drops the value on a device.
void ls_pjrt_buffer_drop(ls_pjrt_buffer *buffer, int32_t device);
// Drops the value everywhere: devices have computed a new one, which the caller
// puts into `parts`.
void ls_pjrt_buffer_renew(ls_pjrt_buffer *buffer);
bool ls_pjrt_buffer_has_value(const ls_pjrt_buffer *buffer);

// Starts to copy host data to a device. The data are lent until `*out_done`,
// which the caller awaits.
LS_MUST_USE ls_status ls_pjrt_send(const ls_pjrt_client *client, ls_type type,
                                   const void *data, int32_t device,
                                   PJRT_Buffer **out_buffer,
                                   PJRT_Event **out_done);
// Starts to copy a value of `type` to host memory, which is lent until
// `*out_done`.
LS_MUST_USE ls_status ls_pjrt_fetch(const ls_pjrt_client *client, ls_type type,
                                    PJRT_Buffer *buffer, void *data,
                                    PJRT_Event **out_done);

// ---- Executables (executable.c) --------------------------------------------
// A program as the plug-in has compiled it.
typedef struct ls_pjrt_code {
  struct ls_pjrt_code *next;
  PJRT_LoadedExecutable *loaded;  // NULL: for a topology.
  int64_t room;                   // See ls_emit_around.
} ls_pjrt_code;

typedef struct ls_pjrt_labels ls_pjrt_labels;
typedef struct ls_pjrt_executable {
  int references;
  ls_pjrt_backend *backend;
  ls_program *program;  // Retained.
  ls_executable *host;  // The CPU engine's; NULL: devices compute the program.
  // The rest is for devices.
  ls_arena arena;
  ls_mutex lock;           // Guards `codes` and the figures of facts.
  ls_pjrt_code *codes;     // The one with most room first.
  const int32_t *devices;  // Numbers of the client's devices.
  int32_t num_devices;
  ls_hlo_layout layout;
  const int32_t *aliases;  // See ls_hlo_program.
  uint32_t *written;       // The written uses, in the order of their results.
  size_t num_written;
  ls_pjrt_labels *labels;  // Labels that the host checks.
  ls_plan_facts facts;
} ls_pjrt_executable;

// Returns the functions of the CPU engine, which computes what is on_host.
static inline const struct ls_backend_vtable *
ls_pjrt_host_table(const ls_pjrt_executable *executable) {
  return executable->backend->base.host->vtable;
}
// Counts the results of a launch on each device.
static inline size_t ls_pjrt_num_results(const ls_pjrt_executable *executable) {
  return executable->layout.num_results + executable->layout.counts +
         executable->layout.around.given.count;
}
// Returns the code for so many trips of the loop that makes calls around the
// launch; compiles it if there is none. Lent by the executable.
LS_MUST_USE ls_status ls_pjrt_find_code(ls_pjrt_executable *executable,
                                        int64_t trips,
                                        const ls_pjrt_code **out_code);

ls_status ls_pjrt_compile(ls_backend *backend, const ls_program *program,
                          ls_executable **out_executable);
void ls_pjrt_release_executable(ls_executable *executable);
ls_plan_facts ls_pjrt_facts(const ls_executable *executable);
ls_status ls_pjrt_print_plan(const ls_executable *executable, ls_text *text);

// ---- Labels that the host gives (labels.c) ---------------------------------
LS_MUST_USE ls_status ls_pjrt_find_labels(ls_pjrt_executable *self);
// Checks the labels among the results of a call for so many replicas, or, with
// site NULL, among the program's inputs.
//   LS_INVALID_ARGUMENT  one is no class
LS_MUST_USE ls_status ls_pjrt_check_labels(const ls_pjrt_executable *self,
                                           const ls_emit_host *site,
                                           const void *const *values,
                                           int32_t replicas);

// ---- Compiled programs in files -------------------------------------------
// Finds the folder: LS_PJRT_CACHE, else that of the user's caches.
LS_MUST_USE ls_status ls_pjrt_cache_init(ls_pjrt_backend *self);

// ---- Instances (instance.c) ------------------------------------------------
// Values that a program takes after its parameters: three if it draws, the last
// if devices call the host, or a loop makes calls around the launch.
enum {
  LS_PJRT_STEP,
  LS_PJRT_SEED,
  LS_PJRT_REPLICA,
  LS_PJRT_RUN,
  LS_PJRT_TRIPS = LS_PJRT_RUN,
  LS_PJRT_SCALARS
};
// Launches of an instance that may be under way; the next one waits.
enum { LS_PJRT_LAUNCHES = 8 };

typedef struct ls_pjrt_instance {
  ls_pjrt_executable *executable;  // Counted.
  const ls_pjrt_code *code;        // Code of the last run.
  ls_buffer **buffers;             // Retained; see rebind in engine/backend.h.
  ls_instance *host;               // The CPU engine's, for programs on_host.
  ls_buffer **host_buffers;        // The host's of `buffers`; lent.
  // The rest is for devices. Lists in the arena, those of a launch by device.
  ls_arena arena;
  PJRT_Buffer ***arguments, ***results;
  PJRT_Buffer **sent;  // Inputs that were sent to devices in this run.
  size_t num_sent;
  PJRT_Event **events;  // The run waits for these.
  size_t num_events, num_ready;
  size_t num_arguments;  // Including scalars.
  size_t num_needed;     // The first events: if one fails there are no results.
  // Ends of late launches, a ring of lists by device.
  PJRT_Event **launched;
  size_t num_launched, num_ended;
  uint64_t scalars[LS_PJRT_SCALARS];
  PJRT_Buffer **scalar_parts;  // By scalar and device; NULL: not sent.
  bool has_launched, has_failed;
  bool keeps;  // The run has failed, and its new values are to be kept.
  struct ls_pjrt_hosts *hosts;    // Calls of the host; NULL: there are none.
  struct ls_pjrt_around *around;  // NULL: devices make them.
  int64_t trips;  // Trips of the loop that makes calls around the launch.
  const ls_run_args *args;     // The run's, while it has host calls.
  uint64_t num_steps, *steps;  // Steps of this run; see ls_run_args.
  ls_status status;
} ls_pjrt_instance;

static inline const ls_pjrt_client *
ls_pjrt_client_of(const ls_pjrt_instance *instance) {
  return &instance->executable->backend->client;
}
// Returns the buffer of a use's new value.
ls_pjrt_buffer *ls_pjrt_new_buffer(const ls_pjrt_instance *instance,
                                   size_t use);

// ---- Runs on devices (run.c) -----------------------------------------------
// Chooses the code of a run.
LS_MUST_USE ls_status ls_pjrt_run_prepare(ls_pjrt_instance *instance,
                                          const ls_run_args *args);
// Starts a run that is prepared. After a failure it has ended.
LS_MUST_USE ls_status ls_pjrt_run_start(ls_pjrt_instance *instance,
                                        const ls_run_args *args);
// Returns true if the run has ended; takes the events that are ready.
bool ls_pjrt_run_advance(ls_pjrt_instance *instance);
// Waits for the next event that the run needs.
void ls_pjrt_run_wait(ls_pjrt_instance *instance);
void ls_pjrt_run_fail(ls_pjrt_instance *instance, ls_status status);
// Launches an instance that calls the host, and waits for its end.
void ls_pjrt_run_hosted(ls_pjrt_instance *instance);
// Takes a scalar as the next argument of the run, or sends one to a device;
// fetches a value. The data are lent until the run's events have ended.
LS_MUST_USE ls_status ls_pjrt_run_take(ls_pjrt_instance *instance, size_t index,
                                       uint64_t value);
LS_MUST_USE ls_status ls_pjrt_run_send(ls_pjrt_instance *instance, ls_type type,
                                       const void *data, int32_t device,
                                       size_t at);
LS_MUST_USE ls_status ls_pjrt_run_fetch(ls_pjrt_instance *instance,
                                        ls_type type, PJRT_Buffer *buffer,
                                        void *data);
ls_status ls_pjrt_run_finish(ls_pjrt_instance *instance);
// Waits for the ends of late launches up to number `end`, and returns the first
// failure.
LS_MUST_USE ls_status ls_pjrt_run_drain(ls_pjrt_instance *instance, size_t end);

// ---- Results that arrive late (arrival.c) ----------------------------------
typedef struct ls_pjrt_arrival ls_pjrt_arrival;

// Starts to copy a value to an array's elements, which waits for an earlier
// copy to them.
LS_MUST_USE ls_status ls_pjrt_fetch_late(ls_pjrt_backend *backend,
                                         PJRT_Buffer *buffer, ls_array *array);
// Waits for all copies to arrays that are under way.
void ls_pjrt_end_arrivals(ls_pjrt_backend *backend);

#endif  // LS_ENGINE_PJRT_PJRT_H_
