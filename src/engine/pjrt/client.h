// SPDX-License-Identifier: Apache-2.0
//
// A client of a plug-in: a runtime's devices, or those of a topology.
#ifndef LS_ENGINE_PJRT_CLIENT_H_
#define LS_ENGINE_PJRT_CLIENT_H_

#include "base/text.h"
#include "engine/backend.h"
#include "engine/pjrt/plugin.h"

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
