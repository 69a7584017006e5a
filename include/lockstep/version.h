// SPDX-License-Identifier: Apache-2.0
// Layer: base
//
// Version of Lockstep. The build reads it here, too.
//
// Threads: these are constants.
#ifndef LOCKSTEP_VERSION_H_
#define LOCKSTEP_VERSION_H_

#include "lockstep/status.h"

#ifdef __cplusplus
extern "C" {
#endif

// Version of the headers. LS_VERSION_NUMBER grows with each release: 0.1.0 is
// 100.
#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0
#define LS_VERSION_NUMBER                                                      \
  (LS_VERSION_MAJOR * 10000 + LS_VERSION_MINOR * 100 + LS_VERSION_PATCH)
#define LS_VERSION                                                             \
  LS_QUOTED(LS_VERSION_MAJOR)                                                  \
  "." LS_QUOTED(LS_VERSION_MINOR) "." LS_QUOTED(LS_VERSION_PATCH)
#define LS_QUOTED(x) LS_QUOTED_(x)
#define LS_QUOTED_(x) #x

// Returns the version of the linked library: "0.1.0". Static text.
LS_API const char *ls_version(void);

#ifdef __cplusplus
}
#endif
#endif  // LOCKSTEP_VERSION_H_
