// SPDX-License-Identifier: Apache-2.0
// A plug-in around another one, which LS_SHIM_PLUGIN names: it counts calls,
// refuses buffers that were donated, fails where a test tells it to, and gives
// devices coordinates as TPUs have.
#ifndef LS_TESTS_SUPPORT_SHIM_H_
#define LS_TESTS_SUPPORT_SHIM_H_

#include <stddef.h>

#include "support/plugin.h"

typedef enum shim_fault {
  SHIM_NONE,
  // Faults of the table.
  SHIM_NO_TABLE,
  SHIM_SHORT_TABLE,
  SHIM_OTHER_MAJOR,
  SHIM_NO_EXECUTE,
  SHIM_INITIALIZE,
  // Faults of clients.
  SHIM_CREATE,
  SHIM_NO_DEVICES,
  SHIM_DESCRIBE,
  // Faults of programs.
  SHIM_COMPILE,
  SHIM_OTHER_DEVICES,
  SHIM_OTHER_RESULTS,
  SHIM_MEMORY_STATS,
  SHIM_SERIALIZE,
  SHIM_LOAD,
  // Faults of runs.
  SHIM_UPLOAD,
  SHIM_UPLOAD_EVENT,
  SHIM_EXECUTE,        // Refused before anything is done.
  SHIM_EXECUTE_LATE,   // Refused after the arguments were taken.
  SHIM_EXECUTE_EVENT,  // The launch fails on the device.
  SHIM_DOWNLOAD,
  SHIM_DOWNLOAD_EVENT,
} shim_fault;

enum { SHIM_DEVICES = 16 };

typedef struct shim_state {
  shim_fault fault;
  int skip;  // Calls of this kind that go well before one fails.
  int compiles, loads, executes, uploads, downloads;
  size_t upload_bytes, download_bytes;
  int num_devices;  // Devices of the last launch, and the first ones' ids.
  int devices[SHIM_DEVICES];
  // Not 0: devices have coordinates, in rows of so many chips along x, and
  // belong to so many hosts in turn.
  int mesh_x, num_hosts;
  const char *platform;  // The name of the devices' platform; NULL: their own.
  int misuses;  // Uses of buffers that were donated.
  bool has_columns;  // Devices keep what they compute in columns.
  // Devices that launches came to while another one was coming to them; not 0:
  // how long each takes.
  int crossings;
  unsigned launch_micros;
  int live_buffers, live_events, live_executables;
} shim_state;

// Returns the state of the shim, all zero again; it is around the plug-in of
// plugin_device. Skips the running test without one.
shim_state *shim_begin(void);
const char *shim_device(void);  // Static text.
// A runtime on so many devices of the shim, current until it is ended.
open_place shim_runtime(int num_devices);

#endif  // LS_TESTS_SUPPORT_SHIM_H_
