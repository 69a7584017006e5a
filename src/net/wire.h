// SPDX-License-Identifier: Apache-2.0
//
// Wire: what carries messages between ranks. An exchanger (exchanger.h) matches
// messages to exchanges, counts them and watches the ranks; a wire only moves
// bytes: in memory (standin.c), or by MPI (mpi/).
//
// Between two ranks messages arrive in the order in which they were sent, each
// at most once. A message has room for little data; more data follows it
// directly from the sender's memory to the receiver's.
//
// Threads: the caller calls one function at a time, except for `idle`.
#ifndef LS_NET_WIRE_H_
#define LS_NET_WIRE_H_

#include "lockstep/communicator.h"

enum { LS_MESSAGE_ROOM = 4000 };

typedef enum ls_message_kind {
  LS_MESSAGE_EXCHANGE,  // Pieces of an exchange, in `data` or behind it.
  LS_MESSAGE_CANCEL,    // A failure: its code is `size`, its text is `data`.
  LS_MESSAGE_BEAT,      // The sender lives; see watch.c.
  LS_MESSAGE_END,       // The sender's last message.
} ls_message_kind;

typedef struct ls_message {
  uint32_t kind;
  uint32_t used;    // Bytes of `data`.
  uint64_t number;  // Position among the sender's to this rank, from 1.
  ls_exchange_name name;
  uint64_t size;   // Bytes of all pieces.
  uint64_t shape;  // Hash of the pieces' sizes.
  char data[LS_MESSAGE_ROOM];
} ls_message;

// Returns the bytes of a message that are in use.
static inline size_t ls_message_size(const ls_message *message) {
  return offsetof(ls_message, data) + message->used;
}

// A transfer of data under way; 0: none.
typedef uintptr_t ls_transfer;

typedef struct ls_wire ls_wire;
struct ls_wire {
  // Sends a message, which is copied.
  ls_status (*send)(ls_wire *self, int32_t to, const ls_message *message);
  // Returns the next message that has come, lent until the next call, and its
  // sender; NULL: there is none at the moment.
  const ls_message *(*next)(ls_wire *self, int32_t *out_from);
  // Starts to send data behind a message to a rank, or to receive it from one.
  // Data behind one message is received in the order in which it is sent, with
  // equal sizes, which are not 0.
  ls_status (*move)(ls_wire *self, int32_t peer, bool sends,
                    const ls_message *message, void *data, size_t size,
                    ls_transfer *out_transfer);
  // Returns true if a transfer has ended, with or without a failure.
  bool (*test)(ls_wire *self, ls_transfer transfer, ls_status *out_status);
  // Gives up a transfer. Returns true if its memory is not touched from now on;
  // false while the other rank may do so, until a test says that it has ended.
  // `is_gone`: the other rank takes no part any more, so nothing is waited for.
  bool (*drop)(ls_wire *self, ls_transfer transfer, bool is_gone);
  // Waits until something may have happened, for at most `nanos`.
  void (*idle)(ls_wire *self, int64_t nanos);
};

#endif  // LS_NET_WIRE_H_
