// SPDX-License-Identifier: Apache-2.0
#include "net/mpi/mpi_wire.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MESSAGE_TAG = 0, FIRST_TAG = 1 };

ls_status ls_mpi_check(ls_mpi *self, int code, const char *act) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  if (code == MPI_SUCCESS) return ls_ok();
  MPI_Error_string(code, text, &size);
  return LS_MPI_STATUS(self, LS_UNAVAILABLE, "MPI cannot %s: %.*s", act, size,
                       text);
}

static void note_news(ls_mpi *self) {
  __atomic_store_n(&self->num_calm, 0, __ATOMIC_RELAXED);
}

// ---- Parts of transfers ----------------------------------------------------
// Starts the next part of a transfer. Parts are small enough that MPI, which
// may copy one in a single call, does not keep this rank from showing that it
// lives.
static int start_part(ls_mpi *self, size_t number) {
  ls_mpi_transfer *transfer = &self->transfers[number];
  MPI_Request *request = &self->requests[number];
  const size_t most = (size_t)64 << 20;
  const size_t size = transfer->left < most ? transfer->left : most;
  char *data = transfer->data;
  transfer->data += size;
  transfer->left -= size;
  return transfer->receives
             ? MPI_Irecv(data, (int)size, MPI_BYTE, transfer->peer,
                         transfer->tag, self->comm, request)
             : MPI_Isend(data, (int)size, MPI_BYTE, transfer->peer,
                         transfer->tag, self->comm, request);
}

// Returns true if one of two transfers has parts that come before those of the
// other: both ranks send and receive them in this order, as all have one tag.
static bool is_ahead(const ls_mpi_transfer *first,
                     const ls_mpi_transfer *second) {
  return (first->state == LS_TRANSFER_ACTIVE ||
          first->state == LS_TRANSFER_WAITING) &&
         first->left > 0 && first->receives == second->receives &&
         first->peer == second->peer && first->tag == second->tag &&
         first->order < second->order;
}

// Starts a transfer, if none is ahead of it.
static int start_if_first(ls_mpi *self, size_t number) {
  ls_mpi_transfer *transfer = &self->transfers[number];
  transfer->state = LS_TRANSFER_WAITING;
  for (size_t i = 0; i < self->num_transfers; ++i)
    if (is_ahead(&self->transfers[i], transfer)) return MPI_SUCCESS;
  const int code = start_part(self, number);
  transfer->state = code == MPI_SUCCESS ? LS_TRANSFER_ACTIVE : LS_TRANSFER_FREE;
  return code;
}

// Starts the transfers behind one whose last part has been started.
static void start_behind(ls_mpi *self, const ls_mpi_transfer *ahead) {
  for (size_t i = 0; i < self->num_transfers; ++i) {
    ls_mpi_transfer *transfer = &self->transfers[i];
    if (transfer->state != LS_TRANSFER_WAITING ||
        transfer->peer != ahead->peer || transfer->tag != ahead->tag ||
        transfer->receives != ahead->receives)
      continue;
    const int code = start_if_first(self, i);
    if (code == MPI_SUCCESS) continue;
    transfer->code = code;
    transfer->state = LS_TRANSFER_ENDED;
    --self->num_active;
  }
}

// Notes that MPI has ended a part of a transfer, and starts the next one.
static void end_part(ls_mpi *self, size_t number, int code) {
  ls_mpi_transfer *transfer = &self->transfers[number];
  const bool is_active = transfer->state == LS_TRANSFER_ACTIVE;
  if (code == MPI_SUCCESS && is_active && transfer->left > 0 &&
      !transfer->is_dropped) {
    code = start_part(self, number);
    if (transfer->left == 0) start_behind(self, transfer);
    if (code == MPI_SUCCESS) return;
  }
  transfer->code = code;
  transfer->state = is_active ? LS_TRANSFER_ENDED : LS_TRANSFER_FREE;
  --self->num_active;
}

// Finds out which parts have ended.
static void test_active(ls_mpi *self) {
  int count = 0;
  const int code = MPI_Testsome((int)self->num_transfers, self->requests,
                                &count, self->ended, self->statuses);
  for (int i = 0; count != MPI_UNDEFINED && i < count; ++i) {
    end_part(self, (size_t)self->ended[i],
             code == MPI_ERR_IN_STATUS ? self->statuses[i].MPI_ERROR : code);
    note_news(self);
  }
}

// ---- Messages --------------------------------------------------------------
// Finds a buffer whose message has left, or makes one.
static ls_status find_send(ls_mpi *self, ls_mpi_envelope **out_send) {
  const ls_mpi_services *services = &self->services;
  for (size_t i = 0; i < self->num_sends; ++i) {
    ls_mpi_envelope *send = self->sends[self->next_send];
    int has_left = 0;
    self->next_send = (self->next_send + 1) % self->num_sends;
    const int code = MPI_Test(&send->request, &has_left, MPI_STATUS_IGNORE);
    *out_send = send;
    if (code != MPI_SUCCESS) return ls_mpi_check(self, code, "send a message");
    if (has_left) return ls_ok();
  }
  ls_mpi_envelope *made = services->allocator->allocate(
      services->allocator, sizeof(*made), sizeof(void *));
  if (made == NULL ||
      !services->grow(services->allocator, &self->sends, &self->sends_capacity,
                      self->num_sends + 1, sizeof(*self->sends))) {
    services->allocator->release(services->allocator, made);
    return LS_MPI_STATUS(self, LS_RESOURCE_EXHAUSTED, "out of memory");
  }
  made->request = MPI_REQUEST_NULL;
  self->sends[self->num_sends++] = *out_send = made;
  return ls_ok();
}

static ls_status send_message(ls_wire *wire, int32_t to,
                              const ls_message *message) {
  ls_mpi *self = (ls_mpi *)wire;
  ls_mpi_envelope *send = NULL;
  LS_RETURN_IF_ERROR(find_send(self, &send));
  const size_t size = ls_message_size(message);
  memcpy(&send->message, message, size);
  // The last message is synchronous: MPI ends some time after it, and would
  // drop a message that it has taken over and not delivered.
  const int code = message->kind == LS_MESSAGE_END
                       ? MPI_Issend(&send->message, (int)size, MPI_BYTE, to,
                                    MESSAGE_TAG, self->comm, &send->request)
                       : MPI_Isend(&send->message, (int)size, MPI_BYTE, to,
                                   MESSAGE_TAG, self->comm, &send->request);
  return ls_mpi_check(self, code, "send a message");
}

static int post_receive(ls_mpi *self, size_t number) {
  ls_mpi_envelope *receive = &self->receives[number];
  return MPI_Irecv(&receive->message, (int)sizeof(receive->message), MPI_BYTE,
                   MPI_ANY_SOURCE, MESSAGE_TAG, self->comm, &receive->request);
}

// Reports that no more messages can be received, as this rank's own failure,
// once.
static const ls_message *report_failure(ls_mpi *self, int code,
                                        int32_t *out_from) {
  ls_message *message = &self->receives[self->next_receive].message;
  char text[MPI_MAX_ERROR_STRING] = "";
  int size = 0;
  MPI_Error_string(code, text, &size);
  *message = (ls_message){.kind = LS_MESSAGE_CANCEL,
                          .number = 1,
                          .size = LS_UNAVAILABLE,
                          .shape = (uint64_t)self->base.rank};
  message->used =
      (uint32_t)snprintf(message->data, sizeof(message->data),
                         "rank %d cannot receive messages by MPI: %.*s",
                         self->base.rank, size, text) +
      1;
  *out_from = self->base.rank;
  self->is_broken = true;
  return message;
}

static const ls_message *next_message(ls_wire *wire, int32_t *out_from) {
  ls_mpi *self = (ls_mpi *)wire;
  int has_come = 0;
  MPI_Status status;
  if (self->is_lent && !self->is_broken) {
    self->is_lent = false;
    const int code = post_receive(self, self->next_receive);
    if (code != MPI_SUCCESS) return report_failure(self, code, out_from);
    self->next_receive = (self->next_receive + 1) % LS_MPI_RECEIVES;
  }
  ls_mpi_envelope *receive = &self->receives[self->next_receive];
  const int code = self->is_broken
                       ? MPI_SUCCESS
                       : MPI_Test(&receive->request, &has_come, &status);
  if (code != MPI_SUCCESS) return report_failure(self, code, out_from);
  if (has_come) {
    note_news(self);
    self->is_lent = true;
    *out_from = status.MPI_SOURCE;
    return &receive->message;
  }
  if (self->num_active > 0) test_active(self);
  return NULL;
}

// ---- Transfers -------------------------------------------------------------
static ls_status grow_transfers(ls_mpi *self) {
  const ls_mpi_services *services = &self->services;
  ls_allocator *allocator = services->allocator;
  const size_t needed = self->num_transfers + 1;
  if (!services->grow(allocator, &self->transfers, &self->transfers_capacity,
                      needed, sizeof(*self->transfers)) ||
      !services->grow(allocator, &self->requests, &self->requests_capacity,
                      needed, sizeof(*self->requests)) ||
      !services->grow(allocator, &self->statuses, &self->statuses_capacity,
                      needed, sizeof(*self->statuses)) ||
      !services->grow(allocator, &self->ended, &self->ended_capacity, needed,
                      sizeof(*self->ended)))
    return LS_MPI_STATUS(self, LS_RESOURCE_EXHAUSTED, "out of memory");
  self->transfers[self->num_transfers] = (ls_mpi_transfer){0};
  self->requests[self->num_transfers++] = MPI_REQUEST_NULL;
  return ls_ok();
}

// Starts to send or to receive. Data of one message keeps its order, which MPI
// promises for equal tags.
static ls_status start_transfer(ls_mpi *self, const ls_mpi_transfer *wanted,
                                ls_transfer *out_transfer) {
  size_t at = 0;
  while (at < self->num_transfers &&
         self->transfers[at].state != LS_TRANSFER_FREE)
    ++at;
  if (at == self->num_transfers) LS_RETURN_IF_ERROR(grow_transfers(self));
  self->transfers[at] = *wanted;
  self->transfers[at].order = ++self->num_started;
  LS_RETURN_IF_ERROR(
      ls_mpi_check(self, start_if_first(self, at),
                   wanted->receives ? "receive data" : "send data"));
  ++self->num_active;
  *out_transfer = at + 1;
  return ls_ok();
}

static int tag_of(const ls_mpi *self, const ls_message *message) {
  return FIRST_TAG + (int)(message->number % (uint64_t)self->tags);
}

static ls_status move_data(ls_wire *wire, int32_t peer, bool sends,
                           const ls_message *message, void *data, size_t size,
                           ls_transfer *out_transfer) {
  ls_mpi *self = (ls_mpi *)wire;
  return start_transfer(self,
                        &(ls_mpi_transfer){.receives = !sends,
                                           .peer = peer,
                                           .tag = tag_of(self, message),
                                           .data = data,
                                           .left = size},
                        out_transfer);
}

// Reports an end that next_message has found.
static bool test_data(ls_wire *wire, ls_transfer transfer,
                      ls_status *out_status) {
  ls_mpi *self = (ls_mpi *)wire;
  ls_mpi_transfer *tested = &self->transfers[transfer - 1];
  if (tested->state != LS_TRANSFER_ENDED) return false;
  tested->state = LS_TRANSFER_FREE;
  *out_status = ls_mpi_check(self, tested->code,
                             tested->receives ? "receive data" : "send data");
  return true;
}

// A receive that is not matched is cancelled. A send, and a receive that has
// begun, go on until the other side has done its part: MPI cannot take its
// hands off their memory.
static bool drop_data(ls_wire *wire, ls_transfer transfer, bool is_gone) {
  ls_mpi *self = (ls_mpi *)wire;
  ls_mpi_transfer *dropped = &self->transfers[transfer - 1];
  MPI_Request *request = &self->requests[transfer - 1];
  int has_ended = 1;
  if (dropped->state == LS_TRANSFER_WAITING) --self->num_active;
  if (dropped->state == LS_TRANSFER_ACTIVE) {
    if (dropped->receives && !dropped->is_dropped) MPI_Cancel(request);
    dropped->is_dropped = true;
    const int code = MPI_Test(request, &has_ended, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS) has_ended = 1;
    if (!has_ended && !is_gone) return false;
    self->num_active -= has_ended != 0;
  }
  dropped->state = has_ended ? LS_TRANSFER_FREE : LS_TRANSFER_ABANDONED;
  return true;
}

// ---- Waiting ---------------------------------------------------------------
static void spin_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("isb");
#endif
}

// MPI has no wait with a limit, and others may call it meanwhile: so looks
// again at once after news, later yields, and sleeps at last.
static void idle(ls_wire *wire, int64_t nanos) {
  enum { YIELDS = 2000, SLEEP = 50000 };
  ls_mpi *self = (ls_mpi *)wire;
  const int calm = __atomic_fetch_add(&self->num_calm, 1, __ATOMIC_RELAXED);
  if (calm < self->spins)
    spin_pause();
  else if (calm < self->spins + YIELDS)
    self->services.yield();
  else
    self->services.sleep(nanos < SLEEP ? nanos : SLEEP);
  if (calm > INT_MAX / 2) note_news(self);
}

// ---- Life ------------------------------------------------------------------
ls_status ls_mpi_begin(ls_mpi *self) {
  self->base.wire = (ls_wire){.send = send_message,
                              .next = next_message,
                              .move = move_data,
                              .test = test_data,
                              .drop = drop_data,
                              .idle = idle};
  for (size_t i = 0; i < LS_MPI_RECEIVES; ++i)
    self->receives[i].request = MPI_REQUEST_NULL;
  for (size_t i = 0; i < LS_MPI_RECEIVES; ++i)
    LS_RETURN_IF_ERROR(
        ls_mpi_check(self, post_receive(self, i), "receive messages"));
  return ls_ok();
}

// Waits for the end of a request, until a time. Returns true if it has ended.
static bool end_request(ls_mpi *self, MPI_Request *request, double until) {
  int has_ended = 0;
  for (;;) {
    const int code = MPI_Test(request, &has_ended, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || has_ended) return true;
    if (MPI_Wtime() > until) return false;
    self->services.yield();
  }
}

bool ls_mpi_end(ls_mpi *self) {
  static const double patience = 2;  // Seconds.
  const double until = MPI_Wtime() + patience;
  bool has_ended = true;
  for (size_t i = 0; i < self->num_sends; ++i)
    has_ended &= end_request(self, &self->sends[i]->request, until);
  for (size_t i = 0; i < LS_MPI_RECEIVES; ++i) {
    MPI_Request *request = &self->receives[i].request;
    if (*request == MPI_REQUEST_NULL) continue;
    MPI_Cancel(request);
    has_ended &= end_request(self, request, until);
  }
  return has_ended;
}
