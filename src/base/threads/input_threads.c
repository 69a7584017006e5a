// SPDX-License-Identifier: Apache-2.0
#include "base/threads/input_threads.h"

#include "base/memory/own.h"
#include "base/threads/worker.h"

LS_OWNED_POINTER(ls_input_threads, ls_input_threads_destroy)

struct ls_input_threads {
  ls_allocator *allocator;
  struct ls_runtime *runtime;
  int count;
  ls_mutex lock;  // Guards the fields below.
  ls_condition work;
  ls_input_task *first, *last;  // `first` is also read without the lock.
  int started, sleeping;        // `sleeping`: threads asleep and not yet woken.
  int calls;                    // Wake-ups sent to threads still asleep.
  bool stop;
  ls_worker *threads;
};

// ---- The line, with the lock held ------------------------------------------
static void input_threads_append(ls_input_threads *self, ls_input_task *task) {
  task->queued = true;
  task->next = NULL;
  task->before = self->last;
  if (self->last != NULL)
    self->last->next = task;
  else
    __atomic_store_n(&self->first, task, __ATOMIC_RELAXED);
  self->last = task;
}

static void input_threads_take_out(ls_input_threads *self,
                                   ls_input_task *task) {
  if (task->before != NULL)
    task->before->next = task->next;
  else
    __atomic_store_n(&self->first, task->next, __ATOMIC_RELAXED);
  if (task->next != NULL)
    task->next->before = task->before;
  else
    self->last = task->before;
  task->queued = false;
}

// ---- Threads ---------------------------------------------------------------
static void run_thread(void *user) {
  ls_input_threads *self = user;
  ls_mutex_lock(&self->lock);
  for (;;) {
    ls_input_task *task = self->first;
    if (task != NULL) {
      input_threads_take_out(self, task);
      ls_mutex_unlock(&self->lock);
      task->run(task);
      ls_mutex_lock(&self->lock);
      continue;
    }
    if (self->stop) break;
    ++self->sleeping;
    while (self->calls == 0 && !self->stop)
      ls_condition_wait(&self->work, &self->lock);
    if (self->calls > 0) --self->calls;
  }
  ls_mutex_unlock(&self->lock);
}

// Starts one thread; the lock is held. A failure is retried at the next task;
// until then other threads or the tasks' owners do the work.
static void start_one(ls_input_threads *self) {
  const ls_status status =
      ls_worker_start(&self->threads[self->started], "ls-input", self->runtime,
                      run_thread, self);
  if (ls_status_is_ok(status)) ++self->started;
  ls_status_free(status);
}

ls_status ls_input_threads_create(ls_allocator *allocator,
                                  struct ls_runtime *runtime, int count,
                                  ls_input_threads **out_threads) {
  *out_threads = NULL;
  LS_OWN_NEW_OR_RETURN(allocator, ls_input_threads, self);
  self->allocator = allocator;
  self->runtime = runtime;
  self->count = count;
  LS_SET_ARRAY_OR_RETURN(allocator, ls_worker, self->threads, (size_t)count);
  LS_RETURN_IF_ERROR(ls_mutex_init(&self->lock));
  LS_RETURN_IF_ERROR(ls_condition_init(&self->work));
  return ls_hand_over(&self, out_threads);
}

void ls_input_threads_destroy(ls_input_threads *self) {
  if (self == NULL) return;
  if (self->started > 0) {
    ls_mutex_lock(&self->lock);
    self->stop = true;
    ls_condition_broadcast(&self->work);
    ls_mutex_unlock(&self->lock);
  }
  for (int i = 0; i < self->started; ++i)
    ls_worker_join(&self->threads[i]);
  ls_condition_deinit(&self->work);
  ls_mutex_deinit(&self->lock);
  ls_release(self->allocator, self->threads);
  ls_release(self->allocator, self);
}

int ls_input_threads_count(const ls_input_threads *self) { return self->count; }

// ---- Tasks -----------------------------------------------------------------
// Wakes one thread; the lock is held.
static void call_one(ls_input_threads *self) {
  if (self->sleeping > 0) {
    --self->sleeping;
    ++self->calls;
    ls_condition_signal(&self->work);
  } else if (self->started < self->count) {
    start_one(self);
  }
}

void ls_input_threads_submit(ls_input_threads *self, ls_input_task *task) {
  ls_mutex_lock(&self->lock);
  input_threads_append(self, task);
  call_one(self);
  ls_mutex_unlock(&self->lock);
}

void ls_input_threads_add(ls_input_threads *self, ls_input_task *task) {
  ls_mutex_lock(&self->lock);
  input_threads_append(self, task);
  ls_mutex_unlock(&self->lock);
}

void ls_input_threads_call(ls_input_threads *self) {
  ls_mutex_lock(&self->lock);
  if (self->first != NULL) call_one(self);
  ls_mutex_unlock(&self->lock);
}

bool ls_input_threads_withdraw(ls_input_threads *self, ls_input_task *task) {
  ls_mutex_lock(&self->lock);
  const bool queued = task->queued;
  if (queued) input_threads_take_out(self, task);
  ls_mutex_unlock(&self->lock);
  return queued;
}

bool ls_input_threads_are_wanted(const ls_input_threads *self) {
  return __atomic_load_n(&self->first, __ATOMIC_RELAXED) != NULL;
}

bool ls_input_threads_are_there(ls_input_threads *self) {
  ls_mutex_lock(&self->lock);
  if (self->started == 0 && self->first != NULL) start_one(self);
  const bool are = self->started > 0;
  ls_mutex_unlock(&self->lock);
  return are;
}
