// SPDX-License-Identifier: Apache-2.0
//
// A client of a plug-in: a runtime's devices, or those of a topology.
#ifndef LS_ENGINE_PJRT_CLIENT_H_
#define LS_ENGINE_PJRT_CLIENT_H_

#include "base/text.h"
#include "engine/backend.h"
#include "engine/pjrt/api.h"
#include "lockstep/runtime.h"

// ---- Plug-ins ---------------------------------------------------------------
// Shared libraries with a PJRT table. Each is loaded once a process and never
// unloaded, since the threads of an XLA runtime cannot be ended. Thread-safe.

typedef struct ls_pjrt_plugin {
  const ls_pjrt_table *table;
  char *path;  // As it was first asked for; for messages.
  void *library;
  int64_t num_bytes, modified;  // Size and time of its file, 0 if unknown.
  bool has_handler;             // Host calls are registered (host.c).
  struct ls_pjrt_plugin *next;
} ls_pjrt_plugin;

// Loads and initializes the plug-in of the runtime's option `device`, if no
// other runtime has.
//   LS_NOT_FOUND            there is no such library, or it cannot be loaded.
//   LS_INVALID_ARGUMENT     the library is no plug-in, or XLA_FLAGS has a flag
//                           that it does not know.
//   LS_FAILED_PRECONDITION  its API has another major version, or lacks a call.
// Others come from the plug-in, which has refused to be initialized.
LS_MUST_USE ls_status ls_pjrt_plugin_load(ls_runtime *runtime,
                                          const ls_pjrt_plugin **out_plugin);

// Returns true if the table has a slot. Slots that a plug-in may lack:
// serialization, figures of programs, topologies.
bool ls_pjrt_has(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot);
// Calls a function; its error becomes a status of the same code, with the
// plug-in's message. A slot that it lacks is UNIMPLEMENTED.
LS_MUST_USE ls_status ls_pjrt_call(const ls_pjrt_plugin *plugin,
                                   ls_pjrt_slot slot, void *args);
// Converts an error, which is destroyed; NULL is OK.
LS_MUST_USE ls_status ls_pjrt_take_error(const ls_pjrt_plugin *plugin,
                                         const char *call, PJRT_Error *error);
// Destroys an object by its slot; NULL is fine.
void ls_pjrt_destroy(const ls_pjrt_plugin *plugin, ls_pjrt_slot slot,
                     void *object);
// Waits for an event, destroys it and returns its status; NULL is OK.
LS_MUST_USE ls_status ls_pjrt_await(const ls_pjrt_plugin *plugin,
                                    PJRT_Event *event);

typedef struct ls_pjrt_client {
  const ls_pjrt_plugin *plugin;
  PJRT_Client *handle;                 // NULL: there is a topology instead.
  PJRT_TopologyDescription *topology;  // Programs are compiled for it.
  union {                              // Owned by the client or the topology.
    PJRT_Device *const *devices;
    PJRT_DeviceDescription *const *descriptions;
  };
  int32_t num_devices;  // Devices in use, the first ones.
  ls_text platform;     // Such as "cpu" or "cuda".
  ls_text version;      // Version of the platform, on one line.
  ls_text kind;         // Kind of the first device.
} ls_pjrt_client;

// Makes a client of the runtime's plug-in or, with the option `topology`, that
// topology, whose devices there need not be. After a failure deinit is still
// needed.
//   LS_FAILED_PRECONDITION  the plug-in's devices are not those of the option
//                           `device`.
//   LS_INVALID_ARGUMENT     it has fewer than `num_devices`.
//   LS_UNAVAILABLE          it has none.
// Others come from the plug-in.
LS_MUST_USE ls_status ls_pjrt_client_init(ls_pjrt_client *client,
                                          ls_runtime *runtime);
void ls_pjrt_client_deinit(ls_pjrt_client *client);

// Locates a device by the attributes that TPUs have; others are in a line, in
// their order.
LS_MUST_USE ls_status ls_pjrt_client_locate(const ls_pjrt_client *client,
                                            int32_t device,
                                            ls_device_location *out_location);

// How to compile a program.
typedef struct ls_pjrt_options {
  const int32_t *devices;  // Numbers of the client's devices.
  int32_t num_devices;
  bool exact;
} ls_pjrt_options;

// Writes a CompileOptionsProto: replica r runs on `devices[r]`.
LS_MUST_USE ls_status ls_pjrt_write_options(const ls_pjrt_client *client,
                                            const ls_pjrt_options *options,
                                            ls_text *out);

#endif  // LS_ENGINE_PJRT_CLIENT_H_
