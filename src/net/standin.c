// SPDX-License-Identifier: Apache-2.0
//
// The stand-in for other processes: ranks are threads, and meet in memory.
//
// An exchange is a meeting of all ranks under one name. Who comes last opens
// it; each rank then copies the others' pieces straight from where they lie,
// and none leaves before all have copied. So a name is free again when one rank
// leaves, and the next meeting under it is another one.
#include "base/memory/allocator.h"
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/threads.h"
#include "lockstep/trunk.h"

// One exchange. Guarded by the lock, but for what pieces point to.
typedef struct meeting {
  struct meeting *next;
  ls_trunk_name name;
  const ls_trunk_piece **pieces;  // Of each rank; NULL: it has not come.
  size_t count;
  int32_t arrived, copied, left;
  int32_t last;  // Who came last, once all have.
} meeting;

typedef struct standin standin;

// A rank's end.
typedef struct rank_end {
  ls_trunk trunk;
  standin *all;
  ls_thread thread;
  ls_rank_function function;
  void *user;
  bool ended;           // Guarded by the lock.
  int64_t *waited_for;  // Of each rank. Atomic.
} rank_end;

struct standin {
  ls_allocator *allocator;
  int32_t ranks;
  rank_end *ends;
  int64_t *waited_for;   // Of each rank, of each rank.
  ls_mutex lock;         // Guards what follows.
  ls_condition changed;  // Whatever a rank may wait for.
  meeting *meetings;     // That not all have left.
  meeting *spare;        // Those that are over.
  ls_status failure;     // The first one.
};

// ---- Meetings --------------------------------------------------------------
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

// The meeting of this name that some rank still has to come to, or a new one.
static meeting *find_or_make(standin *self, const ls_trunk_name *name,
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

static void leave(standin *self, meeting *m) {
  if (++m->left < self->ranks) return;
  meeting **at = &self->meetings;
  while (*at != m)
    at = &(*at)->next;
  *at = m->next;
  m->next = self->spare;
  self->spare = m;
}

// The failure of all, or a rank that will not come any more.
static ls_status check_others(const standin *self, const meeting *m,
                              int32_t rank) {
  if (self->failure != NULL) return ls_status_clone(self->failure);
  for (int32_t k = 0; k < self->ranks; ++k)
    if (m->pieces[k] == NULL && self->ends[k].ended)
      return LS_STATUS(LS_FAILED_PRECONDITION,
                       "rank %d waits for rank %d, which has ended", rank, k);
  return ls_ok();
}

static int64_t now(void) {
  const ls_clock *clock = ls_clock_system();
  return clock->now(clock->user);
}

// Until all are there. The lock is held.
static ls_status arrive(rank_end *self, const ls_trunk_name *name,
                        const ls_trunk_piece *pieces, size_t count,
                        meeting **out_meeting) {
  standin *all = self->all;
  const int32_t rank = self->trunk.rank;
  // Who went away from a meeting has left what it brought.
  if (all->failure != NULL) return ls_status_clone(all->failure);
  meeting *m = find_or_make(all, name, count);
  if (m == NULL) return ls_out_of_memory();
  if (m->pieces[rank] != NULL || m->count != count)
    return ls_internal("rank %d comes %s", rank,
                       m->count != count ? "with other pieces than the others"
                                         : "twice to one exchange");
  m->pieces[rank] = pieces;
  *out_meeting = m;
  if (++m->arrived == all->ranks) {
    m->last = rank;
    ls_condition_broadcast(&all->changed);
    return ls_ok();
  }
  const int64_t began = now();
  while (m->arrived < all->ranks) {
    LS_RETURN_IF_ERROR(check_others(all, m, rank));
    ls_condition_wait(&all->changed, &all->lock);
  }
  __atomic_add_fetch(&self->waited_for[m->last], now() - began,
                     __ATOMIC_RELAXED);
  return ls_ok();
}

// What the others have brought. Nobody changes that before all have left.
static ls_status copy_pieces(const meeting *m, int32_t rank) {
  for (size_t i = 0; i < m->count; ++i) {
    const ls_trunk_piece *mine = &m->pieces[rank][i];
    if (mine->rank == rank) continue;
    const ls_trunk_piece *theirs = &m->pieces[mine->rank][i];
    if (theirs->size != mine->size || theirs->rank != mine->rank)
      return ls_internal("piece %zu is %zu bytes of rank %d for rank %d, %zu "
                         "bytes of rank %d for rank %d",
                         i, mine->size, mine->rank, rank, theirs->size,
                         theirs->rank, mine->rank);
    if (mine->size > 0) memcpy(mine->data, theirs->data, mine->size);
  }
  return ls_ok();
}

static ls_status exchange(ls_trunk *trunk, const ls_trunk_name *name,
                          const ls_trunk_piece *pieces, size_t count) {
  if (count == 0) return ls_ok();
  rank_end *self = (rank_end *)trunk;
  standin *all = self->all;
  meeting *m = NULL;
  ls_mutex_lock(&all->lock);
  ls_status status = arrive(self, name, pieces, count, &m);
  ls_mutex_unlock(&all->lock);
  if (!ls_status_is_ok(status)) return status;
  status = copy_pieces(m, trunk->rank);
  ls_mutex_lock(&all->lock);
  if (++m->copied == all->ranks) ls_condition_broadcast(&all->changed);
  while (m->copied < all->ranks)
    ls_condition_wait(&all->changed, &all->lock);
  leave(all, m);
  ls_mutex_unlock(&all->lock);
  return status;
}

static void cancel(ls_trunk *trunk, ls_status why) {
  standin *all = ((rank_end *)trunk)->all;
  ls_mutex_lock(&all->lock);
  if (all->failure == NULL)
    all->failure = ls_status_annotate(ls_status_clone(why), "on rank %d of %d",
                                      trunk->rank, trunk->ranks);
  ls_condition_broadcast(&all->changed);
  ls_mutex_unlock(&all->lock);
}

// ---- Ranks -----------------------------------------------------------------
static void run_rank(void *user) {
  rank_end *self = user;
  ls_status status = self->function(&self->trunk, self->user);
  if (!ls_status_is_ok(status)) cancel(&self->trunk, status);
  ls_status_free(status);
  standin *all = self->all;
  ls_mutex_lock(&all->lock);
  self->ended = true;
  ls_condition_broadcast(&all->changed);
  ls_mutex_unlock(&all->lock);
}

static void start_rank(standin *self, int32_t rank, ls_rank_function function,
                       void *user) {
  rank_end *end = &self->ends[rank];
  end->waited_for = self->waited_for + (ptrdiff_t)rank * self->ranks;
  end->trunk = (ls_trunk){.rank = rank,
                          .ranks = self->ranks,
                          .exchange = exchange,
                          .cancel = cancel,
                          .waited_for = end->waited_for};
  end->all = self;
  end->function = function;
  end->user = user;
  ls_status status = ls_thread_start(&end->thread, "rank", run_rank, end);
  if (!ls_status_is_ok(status)) cancel(&end->trunk, status);
  ls_status_free(status);
}

static ls_status init(standin *self, int32_t ranks) {
  *self = (standin){.allocator = ls_allocator_system(), .ranks = ranks};
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->changed));
  self->ends = ls_new_array(self->allocator, rank_end, (size_t)ranks);
  self->waited_for =
      ls_new_array(self->allocator, int64_t, (size_t)ranks * (size_t)ranks);
  return self->ends != NULL && self->waited_for != NULL ? ls_ok()
                                                        : ls_out_of_memory();
}

static void deinit(standin *self) {
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
    return ls_invalid_argument("a stand-in of %d ranks: at least one is needed",
                               ranks);
  standin self;
  ls_status status = init(&self, ranks);
  if (ls_status_is_ok(status)) {
    for (int32_t k = 0; k < ranks; ++k)
      start_rank(&self, k, function, user);
    for (int32_t k = 0; k < ranks; ++k)
      ls_thread_join(&self.ends[k].thread);
    status = self.failure;
  }
  deinit(&self);
  return status;
}
