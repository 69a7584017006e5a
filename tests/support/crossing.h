// SPDX-License-Identifier: Apache-2.0
//
// Exchanges in which every rank sends other bytes to every other one, over any
// communicator of at most MOST_CROSSING ranks.
#ifndef LS_TESTS_SUPPORT_CROSSING_H_
#define LS_TESTS_SUPPORT_CROSSING_H_

#include "lockstep/communicator.h"

enum { MOST_CROSSING = 8 };

typedef struct crossing {
  unsigned char *out[MOST_CROSSING], *in[MOST_CROSSING];
  ls_exchange_piece pieces[2 * MOST_CROSSING];
  ls_exchange exchange;
  size_t size;
  int32_t salt;
} crossing;

// Makes an exchange of `size` bytes from each rank to each. `salt` tells it
// from others.
void crossing_init(crossing *self, const ls_communicator *communicator,
                   size_t size, int32_t salt);
// Compares what has come, and releases its memory.
ls_status crossing_check(crossing *self, const ls_communicator *communicator);
// Releases the memory of one that was not waited for.
void crossing_deinit(crossing *self, const ls_communicator *communicator);

// ---- Functions of a rank ---------------------------------------------------
// Exchanges `*size` (a size_t) bytes from each to each, some rounds.
ls_status cross(ls_communicator *communicator, void *size);
// Starts many exchanges in another order on each rank, and waits in a third.
ls_status cross_in_disorder(ls_communicator *communicator, void *unused);
// Gathers and broadcasts, small and large.
ls_status gather_and_broadcast(ls_communicator *communicator, void *unused);

#endif  // LS_TESTS_SUPPORT_CROSSING_H_
