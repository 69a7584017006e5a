// SPDX-License-Identifier: Apache-2.0
// The parts of a device's name. See lockstep/device_name.h.
//
// Thread-safe: functions of their arguments alone.
#ifndef LS_BASE_DEVICE_PARTS_H_
#define LS_BASE_DEVICE_PARTS_H_

#include "lockstep/cluster.h"
#include "lockstep/device_name.h"

enum { LS_MAX_DEVICE_PART = 64, LS_LEFT_OUT = -1 };

// Parts of a device name; a missing part is "" or LS_LEFT_OUT.
typedef struct ls_device_parts {
  char job[LS_MAX_DEVICE_PART];
  int replica, task;
  char type[LS_MAX_DEVICE_PART];
  int index;
} ls_device_parts;

// Parses a name; NULL has no parts.
//   LS_INVALID_ARGUMENT  malformed, as for ls_device_canonical.
LS_MUST_USE ls_status ls_device_parse(const char *name,
                                      ls_device_parts *out_parts);
// Prints the name with these parts; "" if there are none.
void ls_device_print(const ls_device_parts *parts, ls_device_name *out_name);
// Names a device of a worker, the chief first, of a cluster that was checked.
void ls_cluster_device(const ls_cluster_spec *spec, int32_t worker,
                       const char *type, int32_t index,
                       ls_device_name *out_name);

#endif  // LS_BASE_DEVICE_PARTS_H_
