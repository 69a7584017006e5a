// SPDX-License-Identifier: Apache-2.0
#include "lockstep/communicator.h"

#include <string.h>

#include "base/memory/own.h"
#include "base/threads/threads.h"
#include "base/threads/workers.h"
#include "net/waiting.h"

static _Thread_local int64_t exchange_limit;

int64_t ls_exchange_limit(void) { return exchange_limit; }

int64_t ls_exchange_limit_set(int64_t nanos) {
  const int64_t before = exchange_limit;
  exchange_limit = nanos;
  return before;
}

int32_t ls_communicator_first(const ls_communicator *self, int32_t rank,
                              int32_t replicas) {
  return (int32_t)((int64_t)replicas * rank / self->ranks);
}

int32_t ls_communicator_find(const ls_communicator *self, int32_t replica,
                             int32_t replicas) {
  int32_t rank = 0;
  while (rank + 1 < self->ranks &&
         replica >= ls_communicator_first(self, rank + 1, replicas))
    ++rank;
  return rank;
}

ls_status ls_communicator_exchange(ls_communicator *self,
                                   const ls_exchange_name *name,
                                   const ls_exchange_piece *pieces,
                                   size_t count) {
  ls_exchange exchange = {.name = *name,
                          .pieces = pieces,
                          .count = count,
                          .limit = ls_exchange_limit()};
  LS_RETURN_IF_ERROR(self->start(self, &exchange));
  return self->wait(self, &exchange);
}

ls_status ls_communicator_exchange_in_background(
    ls_communicator *self, const ls_exchange_name *name,
    const ls_exchange_piece *pieces, size_t count) {
  enum { SHORT_NANOS = 20 * 1000, LONG_NANOS = 1000 * 1000 };
  ls_exchange exchange = {
      .name = *name, .pieces = pieces, .count = count, .in_background = true};
  LS_RETURN_IF_ERROR(self->start(self, &exchange));
  for (int64_t nanos = SHORT_NANOS; !self->is_done(self, &exchange);
       nanos = nanos < LONG_NANOS / 2 ? nanos * 5 / 4 : LONG_NANOS)
    ls_thread_sleep(nanos);
  return self->wait(self, &exchange);
}

ls_status ls_communicator_gather(ls_communicator *self,
                                 const ls_exchange_name *name, void *all,
                                 size_t size) {
  const ls_exchange_piece piece = {all, size, LS_EACH_RANK, LS_EACH_RANK};
  return ls_communicator_exchange(self, name, &piece, 1);
}

ls_status ls_communicator_broadcast(ls_communicator *self,
                                    const ls_exchange_name *name, int32_t from,
                                    void *data, size_t size) {
  const ls_exchange_piece piece = {data, size, from, LS_EACH_RANK};
  return ls_communicator_exchange(self, name, &piece, 1);
}

// ---- Cores -----------------------------------------------------------------
static bool is_same_host(const ls_communicator *self, int32_t a, int32_t b) {
  return self->host == NULL ||
         strcmp(self->host(self, a), self->host(self, b)) == 0;
}

// Counts the ranks that have the same cores as this one, and those in front of
// it.
static ls_status count_sharers(ls_communicator *self, uint64_t own, int *part,
                               int *parts) {
  const ls_exchange_name name = {.merge = UINT32_MAX - 4};
  LS_OWN_ARRAY(ls_allocator_system(), uint64_t, all, (size_t)self->ranks);
  if (all == NULL) return ls_out_of_memory();
  all[self->rank] = own;
  LS_RETURN_IF_ERROR(ls_communicator_gather(self, &name, all, sizeof(*all)));
  *part = *parts = 0;
  for (int32_t k = 0; k < self->ranks; ++k) {
    if (all[k] != own || !is_same_host(self, k, self->rank)) continue;
    *part += k < self->rank;
    ++*parts;
  }
  return ls_ok();
}

ls_status ls_communicator_share_cores(ls_communicator *self) {
  int part = 0, parts = 1;
  ls_cores *cores = NULL;
  LS_RETURN_IF_ERROR(ls_cores_create(ls_allocator_system(), &cores));
  const ls_status status =
      count_sharers(self, ls_cores_identify(cores), &part, &parts);
  // A rank that cannot be bound computes the same.
  if (ls_status_is_ok(status) && parts > 1)
    (void)ls_cores_share(cores, part, parts);
  ls_cores_destroy(cores);
  return status;
}
