// SPDX-License-Identifier: Apache-2.0
//
// Wire over MPI, as the files of a module see it. Messages are sent and
// received with one tag, in rings of buffers; data travels with the number of
// its message as tag. Nothing waits in MPI, and nothing is collective once the
// wire is open.
#ifndef LS_NET_MPI_MPI_WIRE_H_
#define LS_NET_MPI_MPI_WIRE_H_

#include <mpi.h>

#include "net/mpi/module.h"

enum { LS_MPI_RECEIVES = 16 };

// A message to or from MPI, and its request.
typedef struct ls_mpi_envelope {
  MPI_Request request;
  ls_message message;
} ls_mpi_envelope;

typedef enum ls_mpi_transfer_state {
  LS_TRANSFER_FREE,
  LS_TRANSFER_WAITING,  // Another one of its message is ahead.
  LS_TRANSFER_ACTIVE,
  LS_TRANSFER_ABANDONED,  // Was dropped, and could not be cancelled.
  LS_TRANSFER_ENDED,
} ls_mpi_transfer_state;

typedef struct ls_mpi_transfer {
  ls_mpi_transfer_state state;
  bool receives, is_dropped;
  int peer, tag;
  uint64_t order;  // Number among all.
  char *data;      // The next part.
  size_t left;     // Bytes from there on.
  int code;        // MPI's, at the end.
} ls_mpi_transfer;

typedef struct ls_mpi {
  ls_mpi_wire base;
  ls_mpi_services services;
  MPI_Comm comm;
  bool is_finalized_here;  // MPI was initialized here.
  char (*hosts)[MPI_MAX_PROCESSOR_NAME];
  int tags;      // Number of tags of transfers.
  int spins;     // Times to look for news before a thread yields.
  int num_calm;  // Times without news in a row; atomic.
  // Receives are posted and completed round the ring, so that messages keep
  // their order.
  ls_mpi_envelope receives[LS_MPI_RECEIVES];
  size_t next_receive;
  bool is_lent;    // The message of `next_receive` is with the caller.
  bool is_broken;  // No more messages can be received, which was reported.
  ls_mpi_envelope **sends;
  size_t num_sends, sends_capacity, next_send;
  // Transfers by number, in arrays as MPI_Testsome wants them.
  ls_mpi_transfer *transfers;
  MPI_Request *requests;
  MPI_Status *statuses;
  int *ended;
  size_t num_transfers, num_active;
  uint64_t num_started;
  size_t transfers_capacity, requests_capacity, statuses_capacity;
  size_t ended_capacity;
} ls_mpi;

#define LS_MPI_STATUS(self, code, ...)                                         \
  (self)->services.make_status(code, __FILE__, __LINE__, __VA_ARGS__)

// Returns UNAVAILABLE with MPI's text unless its code says success; `act`
// completes "MPI cannot ...".
ls_status ls_mpi_check(ls_mpi *self, int code, const char *act);

// Sets the functions of the wire, and posts the receives of messages.
ls_status ls_mpi_begin(ls_mpi *self);
// Cancels the receives and completes what was sent; returns false if something
// is still under way.
bool ls_mpi_end(ls_mpi *self);

#endif  // LS_NET_MPI_MPI_WIRE_H_
