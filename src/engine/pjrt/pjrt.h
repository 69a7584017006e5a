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
  bool exact;    // The option exact_bits.
  bool highest;  // Products of f32 are computed in f32.
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
typedef struct ls_pjrt_executable {
  int references;
  ls_pjrt_backend *backend;
  ls_program *program;  // Retained.
  ls_executable *host;  // The CPU engine's; NULL: devices compute the program.
  // The rest is for devices.
  ls_arena arena;
  PJRT_LoadedExecutable *loaded;
  int32_t num_devices;
  ls_hlo_layout layout;
  const int32_t *aliases;  // See ls_hlo_program.
  uint32_t *written;       // The written uses, in the order of their results.
  size_t num_written;
  ls_plan_facts facts;
} ls_pjrt_executable;

ls_status ls_pjrt_compile(ls_backend *backend, const ls_program *program,
                          ls_executable **out_executable);
void ls_pjrt_release_executable(ls_executable *executable);
ls_plan_facts ls_pjrt_facts(const ls_executable *executable);
ls_status ls_pjrt_print_plan(const ls_executable *executable, ls_text *text);

// ---- Instances (run.c) -----------------------------------------------------
ls_status ls_pjrt_bind(ls_executable *executable, ls_buffer *const *buffers,
                       ls_instance **out_instance);
void ls_pjrt_rebind(ls_instance *instance, ls_buffer *const *buffers);
void ls_pjrt_destroy_instance(ls_instance *instance);
ls_status ls_pjrt_start(ls_instance *instance, const ls_run_args *args);
ls_run_state ls_pjrt_advance(ls_instance *instance);
void ls_pjrt_wait(ls_instance *const *instances, size_t count);
void ls_pjrt_stop(ls_instance *instance, ls_status status);
ls_status ls_pjrt_finish(ls_instance *instance, bool *out_keeps);
ls_status ls_pjrt_measure(ls_instance *instance, bool on);
ls_status ls_pjrt_print_cost(const ls_instance *instance, ls_text *text);

#endif  // LS_ENGINE_PJRT_PJRT_H_
