// SPDX-License-Identifier: Apache-2.0
//
// A wire in memory, in place of one between processes: ranks are threads of one
// process.
#include <string.h>

#include "base/memory/list.h"
#include "base/require.h"
#include "net/standin.h"

// Data that one rank sends and another receives; who comes second copies it.
struct ls_parcel {
  ls_parcel *next;
  int32_t from, to;
  uint64_t number;   // The message's.
  const void *data;  // NULL: the sender has not come yet.
  void *memory;      // NULL: the receiver has not come yet.
  size_t size;
  int32_t owners;  // Number of sides that hold the transfer.
  bool is_copied;
};

static void tell(ls_rank_end *end) {
  end->has_news = true;
  ls_condition_signal(&end->event);
}

// ---- Messages --------------------------------------------------------------
void ls_standin_deliver(ls_standin *self, int32_t to, ls_letter *letter) {
  ls_rank_end *end = &self->ends[to];
  letter->next = NULL;
  *end->inbox_end = letter;
  end->inbox_end = &letter->next;
  tell(end);
}

static ls_status send_letter(ls_wire *wire, int32_t to,
                             const ls_message *message) {
  const ls_rank_end *self = (ls_rank_end *)wire;
  ls_standin *shared = self->shared;
  ls_letter *sent = ls_allocate(shared->allocator, sizeof(*sent));
  if (sent == NULL) return ls_out_of_memory();
  sent->from = self->rank;
  memcpy(&sent->message, message, ls_message_size(message));
  ls_mutex_lock(&shared->lock);
  if (shared->simulation != NULL)
    ls_simulation_send(shared->simulation, to, sent);
  else
    ls_standin_deliver(shared, to, sent);
  ls_mutex_unlock(&shared->lock);
  return ls_ok();
}

static const ls_message *next_letter(ls_wire *wire, int32_t *out_from) {
  ls_rank_end *self = (ls_rank_end *)wire;
  ls_standin *shared = self->shared;
  ls_release(shared->allocator, self->taken);
  ls_mutex_lock(&shared->lock);
  ls_letter **at = &self->inbox;
  while (*at != NULL && shared->simulation != NULL &&
         !ls_simulation_has_come(shared->simulation, *at))
    at = &(*at)->next;
  ls_letter *first = self->taken = *at;
  if (first != NULL) {
    *at = first->next;
    if (first->next == NULL) self->inbox_end = at;
  }
  ls_mutex_unlock(&shared->lock);
  if (first == NULL) return NULL;
  *out_from = first->from;
  return &first->message;
}

// ---- Data ------------------------------------------------------------------
// Returns the oldest parcel of a message whose one side is there, and the other
// one not; or a new one.
static ls_parcel *find_or_make_parcel(ls_standin *self,
                                      const ls_parcel *wanted) {
  ls_parcel **at = &self->parcels;
  for (; *at != NULL; at = &(*at)->next) {
    ls_parcel *found = *at;
    if (found->from != wanted->from || found->to != wanted->to ||
        found->number != wanted->number ||
        (found->data == NULL) == (wanted->data == NULL))
      continue;
    *at = found->next;
    return found;
  }
  ls_parcel *made = ls_new(self->allocator, ls_parcel);
  if (made == NULL) return NULL;
  *made = *wanted;
  *at = made;
  return made;
}

static ls_status move_data(ls_wire *wire, int32_t peer, bool sends,
                           const ls_message *message, void *data, size_t size,
                           ls_transfer *out_transfer) {
  ls_rank_end *self = (ls_rank_end *)wire;
  ls_standin *shared = self->shared;
  const ls_parcel side = {.from = sends ? self->rank : peer,
                          .to = sends ? peer : self->rank,
                          .number = message->number,
                          .data = sends ? data : NULL,
                          .memory = sends ? NULL : data,
                          .size = size};
  ls_mutex_lock(&shared->lock);
  ls_parcel *found = find_or_make_parcel(shared, &side);
  if (found != NULL && ++found->owners == 2) {
    if (sends)
      found->data = data;
    else
      found->memory = data;
    memcpy(found->memory, found->data, found->size);
    found->is_copied = true;
    tell(&shared->ends[found->from]);
    tell(&shared->ends[found->to]);
  }
  ls_mutex_unlock(&shared->lock);
  *out_transfer = (ls_transfer)found;
  return found == NULL ? ls_out_of_memory() : ls_ok();
}

// Ends one side of a transfer; requires the lock.
static void leave_parcel(ls_standin *self, ls_parcel *left) {
  if (--left->owners > 0) return;
  if (!left->is_copied) {
    LS_UNLINK(&self->parcels, left, next);
  }
  ls_release(self->allocator, left);
}

static bool test_data(ls_wire *wire, ls_transfer transfer,
                      ls_status *out_status) {
  ls_standin *shared = ((ls_rank_end *)wire)->shared;
  ls_parcel *tested = (ls_parcel *)transfer;
  (void)out_status;  // Memory does not fail.
  ls_mutex_lock(&shared->lock);
  const bool is_copied = tested->is_copied;
  if (is_copied) leave_parcel(shared, tested);
  ls_mutex_unlock(&shared->lock);
  return is_copied;
}

static bool drop_data(ls_wire *wire, ls_transfer transfer, bool is_gone) {
  ls_standin *shared = ((ls_rank_end *)wire)->shared;
  (void)is_gone;  // Data is copied under the lock.
  ls_mutex_lock(&shared->lock);
  leave_parcel(shared, (ls_parcel *)transfer);
  ls_mutex_unlock(&shared->lock);
  return true;
}

static void idle(ls_wire *wire, int64_t nanos) {
  ls_rank_end *self = (ls_rank_end *)wire;
  ls_mutex_lock(&self->shared->lock);
  if (self->shared->simulation != NULL)
    ls_simulation_yield(self->shared->simulation, self->rank, nanos);
  else if (!self->has_news)
    (void)ls_condition_wait_for(&self->event, &self->shared->lock, nanos);
  self->has_news = false;
  ls_mutex_unlock(&self->shared->lock);
}

// ---- Ranks -----------------------------------------------------------------
// Ends a rank; `meets`: it is simulated, and waits for the others to end.
static void end_rank(ls_rank_end *self, ls_status status, bool meets) {
  const ls_simulation *simulation = self->shared->simulation;
  ls_communicator *communicator = &self->exchanger.base;
  if (!ls_status_is_ok(status)) communicator->cancel(communicator, status);
  ls_status_free(status);
  ls_status failure = ls_exchanger_end(&self->exchanger);
  if (meets && !ls_simulation_is_dead(simulation, self->rank))
    failure = ls_status_join(failure, ls_exchanger_meet(&self->exchanger));
  const bool counts = !meets || !ls_simulation_is_dead(simulation, self->rank);
  ls_mutex_lock(&self->shared->lock);
  if (ls_status_is_ok(self->shared->failure) && counts)
    self->shared->failure = failure;
  else
    ls_status_free(failure);
  ls_mutex_unlock(&self->shared->lock);
}

static void run_rank(void *user) {
  ls_rank_end *self = user;
  ls_standin *shared = self->shared;
  if (shared->simulation != NULL)
    ls_simulation_begin(shared->simulation, self->rank);
  end_rank(self, self->function(&self->exchanger.base, self->user),
           shared->simulation != NULL);
  if (shared->simulation != NULL)
    ls_simulation_end(shared->simulation, self->rank, true);
}

static ls_status init_end(ls_standin *self, int32_t rank) {
  ls_rank_end *end = &self->ends[rank];
  end->wire = (ls_wire){.send = send_letter,
                        .next = next_letter,
                        .move = move_data,
                        .test = test_data,
                        .drop = drop_data,
                        .idle = idle};
  end->shared = self;
  end->rank = rank;
  end->inbox_end = &end->inbox;
  LS_RETURN_IF_ERROR(ls_condition_init(&end->event));
  return ls_exchanger_init(&end->exchanger, &end->wire,
                           &(ls_exchanger_options){.rank = rank,
                                                   .ranks = self->ranks,
                                                   .clock = ls_simulation_clock(
                                                       self->simulation, rank),
                                                   .watches = true});
}

static void deinit_end(ls_rank_end *self) {
  ls_allocator *allocator = self->shared->allocator;
  ls_release(allocator, self->taken);
  while (self->inbox != NULL) {
    ls_letter *next = self->inbox->next;
    ls_release(allocator, self->inbox);
    self->inbox = next;
  }
  ls_exchanger_deinit(&self->exchanger);
  ls_condition_deinit(&self->event);
}

static ls_status init_standin(ls_standin *self, int32_t ranks,
                              ls_simulation *simulation) {
  *self = (ls_standin){.allocator = ls_allocator_system(),
                       .ranks = ranks,
                       .simulation = simulation};
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  if (simulation != NULL)
    LS_RETURN_IF_ERROR(ls_simulation_attach(simulation, self));
  self->ends = ls_new_array(self->allocator, ls_rank_end, (size_t)ranks);
  if (self->ends == NULL) return ls_out_of_memory();
  for (int32_t k = 0; k < ranks; ++k)
    LS_RETURN_IF_ERROR(init_end(self, k));
  return ls_ok();
}

static void deinit_standin(ls_standin *self) {
  // Parts of an unfinished transfer are left by the exchanges of both sides.
  for (int32_t k = 0; self->ends != NULL && k < self->ranks; ++k)
    if (self->ends[k].shared != NULL) deinit_end(&self->ends[k]);
  ls_release(self->allocator, self->ends);
  if (self->simulation != NULL) ls_simulation_detach(self->simulation);
  ls_mutex_deinit(&self->lock);
}

static void run_ranks(ls_standin *self, ls_rank_function function, void *user) {
  for (int32_t k = 0; k < self->ranks; ++k) {
    ls_rank_end *end = &self->ends[k];
    end->function = function;
    end->user = user;
    ls_status status = self->simulation == NULL
                           ? ls_exchanger_start_worker(&end->exchanger)
                           : ls_ok();
    if (ls_status_is_ok(status))
      status = ls_worker_start(&end->worker, "rank", NULL, run_rank, end);
    if (ls_status_is_ok(status)) continue;
    if (self->simulation != NULL) ls_simulation_end(self->simulation, k, false);
    end_rank(end, status, false);
  }
  for (int32_t k = 0; k < self->ranks; ++k)
    ls_worker_join(&self->ends[k].worker);
}

ls_status ls_standin_run_in(ls_simulation *simulation, int32_t ranks,
                            ls_rank_function function, void *user) {
  LS_REQUIRE(function);
  if (ranks < 1)
    return ls_invalid_argument(
        "a simulation of %d ranks: at least one is needed", ranks);
  ls_standin self;
  ls_status status = init_standin(&self, ranks, simulation);
  if (ls_status_is_ok(status)) {
    run_ranks(&self, function, user);
    status = self.failure;
  }
  deinit_standin(&self);
  return status;
}

ls_status ls_standin_run(int32_t ranks, ls_rank_function function, void *user) {
  return ls_standin_run_in(NULL, ranks, function, user);
}
