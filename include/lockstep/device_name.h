// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Names of devices: "/job:worker/replica:0/task:1/device:GPU:0".
//
// A name may leave parts out; its canonical form has all of them. Two names
// mean the same device when their canonical forms are equal.
//
// Threads: these are pure functions of their arguments.
#ifndef LOCKSTEP_DEVICE_NAME_H_
#define LOCKSTEP_DEVICE_NAME_H_

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { LS_MAX_DEVICE_NAME = 256 };

// A device's name as an owned text, by value.
typedef struct ls_device_name {
  char text[LS_MAX_DEVICE_NAME];
} ls_device_name;

// Computes the canonical form. Parts missing in `name` come from `fallback`
// (NULL: "") and then from "/job:localhost/replica:0/task:0/device:CPU:0". The
// short forms "CPU:0" and "/cpu:0" are understood; an index "*" counts as left
// out.
//   LS_INVALID_ARGUMENT  an unknown attribute or type, one of them twice, an
//                        index that is no number, an empty part as in "/job:"
//                        or "/device::3", or "/" alone; "" leaves all out.
LS_API LS_MUST_USE ls_status ls_device_canonical(const char *name,
                                                 const char *fallback,
                                                 ls_device_name *out_name);
// Fills the parts missing in `name` from `around` (NULL: ""), part by part,
// where type and index are separate parts; a part missing in both stays left
// out. Device scopes of a graph work so: "/device:GPU:1" in
// "/job:worker/task:2" is "/job:worker/task:2/device:GPU:1", "/gpu" in "/cpu:3"
// is "/device:GPU:3".
//   LS_INVALID_ARGUMENT  as for the canonical form.
LS_API LS_MUST_USE ls_status ls_device_merge(const char *name,
                                             const char *around,
                                             ls_device_name *out_name);
// Computes the host of a device: the name with type CPU and index 0, and every
// other part unchanged.
LS_API LS_MUST_USE ls_status ls_device_host(const char *name,
                                            ls_device_name *out_name);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_DEVICE_NAME_H_
