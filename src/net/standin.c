// SPDX-License-Identifier: Apache-2.0
//
// A communicator for tests, in place of one between processes: ranks are
// threads that exchange data in memory.
//
// An exchange is a rendezvous of all ranks under one name. The last rank to
// arrive opens it; each rank then copies the others' pieces directly from their
// memory, and none leaves before all have copied. Once a rank has left, its
// next exchange under the same name is a new rendezvous.
#include "base/memory/allocator.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/worker.h"
#include "lockstep/trunk.h"

// One rendezvous. The lock guards it, except for the memory of the pieces.
typedef struct meeting {
  struct meeting *next;
  ls_trunk_name name;
  // Pieces of each rank; NULL before its arrival.
  const ls_trunk_piece **pieces;
  size_t count;
  int32_t arrived, copied, left;
  int32_t last;  // The rank that arrived last.
} meeting;

typedef struct standin standin;

// The communicator of one rank.
typedef struct rank_end {
  ls_trunk trunk;
  standin *shared;
  ls_worker worker;
  ls_rank_function function;
  void *user;
  bool ended;  // Guarded by the lock.
  // Nanoseconds that this rank has waited for each rank. Atomic.
  int64_t *waited_for;
} rank_end;

struct standin {
  ls_allocator *allocator;
  int32_t ranks;
  rank_end *ends;
  int64_t *waited_for;   // `waited_for` of all ranks.
  ls_mutex lock;         // Guards the fields below.
  ls_condition changed;  // Signalled on every change that a rank may wait for.
  meeting *meetings;     // Rendezvous that some ranks have not left yet.
  meeting *spare;        // Finished rendezvous, for reuse.
  ls_status failure;     // First failure.
};

// ---- Rendezvous ------------------------------------------------------------
static bool has_name(const meeting *m, const ls_trunk_name *name) {
  return m->name.program[0] == name->program[0] &&
         m->name.program[1] == name->program[1] &&
         m->name.iteration == name->iteration && m->name.merge == name->merge;
}

static void destroy_meetings(standin *self, meeting *list) {
  while (list != NULL) {
    meeting *next = list->next;
    ls_release(self->allocator, list->pieces);
    ls_release(self->allocator, list);
    list = next;
  }
}

static meeting *make_meeting(standin *self) {
  meeting *m = self->spare;
  if (m != NULL) {
    self->spare = m->next;
    memset(m->pieces, 0, (size_t)self->ranks * sizeof(*m->pieces));
    *m = (meeting){.pieces = m->pieces};
    return m;
  }
  m = ls_new(self->allocator, meeting);
  if (m == NULL) return NULL;
  m->pieces = ls_new_array(self->allocator, const ls_trunk_piece *,
                           (size_t)self->ranks);
  if (m->pieces != NULL) return m;
  ls_release(self->allocator, m);
  return NULL;
}

// Returns the rendezvous of this name at which the rank has not arrived yet, or
// a new one.
static meeting *find_or_make_meeting(standin *self, const ls_trunk_name *name,
                                     size_t count) {
  for (meeting *m = self->meetings; m != NULL; m = m->next)
    if (m->arrived < self->ranks && has_name(m, name)) return m;
  meeting *m = make_meeting(self);
  if (m == NULL) return NULL;
  m->name = *name;
  m->count = count;
  m->next = self->meetings;
  self->meetings = m;
  return m;
}

static void leave_meeting(standin *self, meeting *m) {
  if (++m->left < self->ranks) return;
  meeting **at = &self->meetings;
  while (*at != m)
    at = &(*at)->next;
  *at = m->next;
  m->next = self->spare;
  self->spare = m;
}

// Returns the common failure, or a failure that names a rank which has ended.
static ls_status check_other_ranks(const standin *self, const meeting *m,
                                   int32_t rank) {
  if (self->failure != NULL) return ls_status_clone(self->failure);
  for (int32_t k = 0; k < self->ranks; ++k)
    if (m->pieces[k] == NULL && self->ends[k].ended)
      return LS_STATUS(LS_FAILED_PRECONDITION,
                       "rank %d waits for rank %d, which has ended", rank, k);
  return ls_ok();
}

static int64_t now_ns(void) {
  const ls_clock *clock = ls_clock_system();
  return clock->now(clock->user);
}

// Waits until all ranks have arrived. Requires the lock.
static ls_status arrive_at(rank_end *self, const ls_trunk_name *name,
                           const ls_trunk_piece *pieces, size_t count,
                           meeting **out_meeting) {
  standin *shared = self->shared;
  const int32_t rank = self->trunk.rank;
  // After a failure, other ranks may have withdrawn their pieces.
  if (shared->failure != NULL) return ls_status_clone(shared->failure);
  meeting *m = find_or_make_meeting(shared, name, count);
  if (m == NULL) return ls_out_of_memory();
  if (m->pieces[rank] != NULL || m->count != count)
    return ls_internal("rank %d comes %s", rank,
                       m->count != count ? "with other pieces than the others"
                                         : "twice to one exchange");
  m->pieces[rank] = pieces;
  *out_meeting = m;
  if (++m->arrived == shared->ranks) {
    m->last = rank;
    ls_condition_broadcast(&shared->changed);
    return ls_ok();
  }
  const int64_t began = now_ns();
  while (m->arrived < shared->ranks) {
    LS_RETURN_IF_ERROR(check_other_ranks(shared, m, rank));
    ls_condition_wait(&shared->changed, &shared->lock);
  }
  __atomic_add_fetch(&self->waited_for[m->last], now_ns() - began,
                     __ATOMIC_RELAXED);
  return ls_ok();
}

// Copies the pieces of the other ranks, whose memory is valid until all have
// left.
static ls_status copy_pieces(const meeting *m, int32_t rank) {
  for (size_t i = 0; i < m->count; ++i) {
    const ls_trunk_piece *own_piece = &m->pieces[rank][i];
    if (own_piece->rank == rank) continue;
    const ls_trunk_piece *other_piece = &m->pieces[own_piece->rank][i];
    if (other_piece->size != own_piece->size ||
        other_piece->rank != own_piece->rank)
      return ls_internal("piece %zu is %zu bytes of rank %d for rank %d, %zu "
                         "bytes of rank %d for rank %d",
                         i, own_piece->size, own_piece->rank, rank,
                         other_piece->size, other_piece->rank, own_piece->rank);
    if (own_piece->size > 0)
      memcpy(own_piece->data, other_piece->data, own_piece->size);
  }
  return ls_ok();
}

static ls_status exchange_pieces(ls_trunk *trunk, const ls_trunk_name *name,
                                 const ls_trunk_piece *pieces, size_t count) {
  if (count == 0) return ls_ok();
  rank_end *self = (rank_end *)trunk;
  standin *shared = self->shared;
  meeting *m = NULL;
  ls_mutex_lock(&shared->lock);
  ls_status status = arrive_at(self, name, pieces, count, &m);
  ls_mutex_unlock(&shared->lock);
  if (!ls_status_is_ok(status)) return status;
  status = copy_pieces(m, trunk->rank);
  ls_mutex_lock(&shared->lock);
  if (++m->copied == shared->ranks) ls_condition_broadcast(&shared->changed);
  while (m->copied < shared->ranks)
    ls_condition_wait(&shared->changed, &shared->lock);
  leave_meeting(shared, m);
  ls_mutex_unlock(&shared->lock);
  return status;
}

static void cancel_all(ls_trunk *trunk, ls_status why) {
  standin *shared = ((rank_end *)trunk)->shared;
  ls_mutex_lock(&shared->lock);
  if (shared->failure == NULL)
    shared->failure = ls_status_annotate(
        ls_status_clone(why), "on rank %d of %d", trunk->rank, trunk->ranks);
  ls_condition_broadcast(&shared->changed);
  ls_mutex_unlock(&shared->lock);
}

// ---- Ranks -----------------------------------------------------------------
static void run_rank(void *user) {
  rank_end *self = user;
  ls_status status = self->function(&self->trunk, self->user);
  if (!ls_status_is_ok(status)) cancel_all(&self->trunk, status);
  ls_status_free(status);
  standin *shared = self->shared;
  ls_mutex_lock(&shared->lock);
  self->ended = true;
  ls_condition_broadcast(&shared->changed);
  ls_mutex_unlock(&shared->lock);
}

static void start_rank(standin *self, int32_t rank, ls_rank_function function,
                       void *user) {
  rank_end *end = &self->ends[rank];
  end->waited_for = self->waited_for + (ptrdiff_t)rank * self->ranks;
  end->trunk = (ls_trunk){.rank = rank,
                          .ranks = self->ranks,
                          .exchange = exchange_pieces,
                          .cancel = cancel_all,
                          .waited_for = end->waited_for};
  end->shared = self;
  end->function = function;
  end->user = user;
  ls_status status = ls_worker_start(&end->worker, "rank", NULL, run_rank, end);
  if (!ls_status_is_ok(status)) cancel_all(&end->trunk, status);
  ls_status_free(status);
}

static ls_status init_standin(standin *self, int32_t ranks) {
  *self = (standin){.allocator = ls_allocator_system(), .ranks = ranks};
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->changed));
  self->ends = ls_new_array(self->allocator, rank_end, (size_t)ranks);
  self->waited_for =
      ls_new_array(self->allocator, int64_t, (size_t)ranks * (size_t)ranks);
  return self->ends != NULL && self->waited_for != NULL ? ls_ok()
                                                        : ls_out_of_memory();
}

static void deinit_standin(standin *self) {
  destroy_meetings(self, self->meetings);
  destroy_meetings(self, self->spare);
  ls_release(self->allocator, self->ends);
  ls_release(self->allocator, self->waited_for);
  ls_condition_deinit(&self->changed);
  ls_mutex_deinit(&self->lock);
}

ls_status ls_standin_run(int32_t ranks, ls_rank_function function, void *user) {
  LS_REQUIRE(function);
  if (ranks < 1)
    return ls_invalid_argument(
        "a simulation of %d ranks: at least one is needed", ranks);
  standin self;
  ls_status status = init_standin(&self, ranks);
  if (ls_status_is_ok(status)) {
    for (int32_t k = 0; k < ranks; ++k)
      start_rank(&self, k, function, user);
    for (int32_t k = 0; k < ranks; ++k)
      ls_worker_join(&self.ends[k].worker);
    status = self.failure;
  }
  deinit_standin(&self);
  return status;
}
