// SPDX-License-Identifier: Apache-2.0
//
// Where and how a program runs: a runtime with its threads and switches, one of
// several stand-in ranks.
#ifndef LS_TESTS_SUPPORT_PLACE_H_
#define LS_TESTS_SUPPORT_PLACE_H_

#include "base/memory/own.h"
#include "lockstep/communicator.h"
#include "lockstep/runtime.h"

typedef struct ls_communicator ls_communicator;

typedef struct place {
  const char *cut, *lanes;  // LS_CUT and LS_LANES.
  int threads, ranks;       // No ranks: one that knows of no other.
} place;

// A runtime of such a place, current on this thread until it is closed.
typedef struct open_place {
  ls_runtime *runtime, *before;
} open_place;

ls_status place_open(const place *where, ls_communicator *communicator,
                     open_place *out);
// `status`: how it went there; it comes back, or what closing says.
ls_status place_close(open_place *self, ls_status status);
// A runtime with these options, current until it is ended.
open_place runtime_begin(ls_runtime_options options);
void runtime_end(open_place *self);
LS_OWNED_STRUCT(open_place, runtime_end)

#endif  // LS_TESTS_SUPPORT_PLACE_H_
