// SPDX-License-Identifier: Apache-2.0
#include "base/require.h"
#include "base/runtime_internal.h"
#include "base/threads/thread_state.h"

ls_status ls_cancel_create(ls_runtime *runtime, ls_cancel **out_cancel) {
  LS_REQUIRE_OUT(out_cancel, runtime);
  *out_cancel = ls_new(ls_runtime_allocator(runtime), ls_cancel);
  if (*out_cancel == NULL) return ls_out_of_memory();
  (*out_cancel)->runtime = runtime;
  ls_runtime_note_made(runtime, LS_MADE_CANCEL);
  return ls_ok();
}

void ls_cancel_destroy(ls_cancel *cancel) {
  if (cancel == NULL) return;
  ls_runtime_release(cancel->runtime, LS_MADE_CANCEL, cancel);
}

// Wakes threads that wait for the host; no other thread waits. The lock keeps a
// thread that has not seen the request from starting to wait.
void ls_cancel_request(ls_cancel *cancel) {
  __atomic_store_n(&cancel->requested, true, __ATOMIC_RELEASE);
  ls_runtime_lock(cancel->runtime);
  ls_host_threads *threads = cancel->runtime->host_threads;
  ls_runtime_unlock(cancel->runtime);
  if (threads == NULL) return;
  ls_mutex_lock(&threads->lock);
  ls_condition_broadcast(&threads->event);
  ls_mutex_unlock(&threads->lock);
}

bool ls_cancel_is_requested(const ls_cancel *cancel) {
  return __atomic_load_n(&cancel->requested, __ATOMIC_ACQUIRE);
}

void ls_cancel_reset(ls_cancel *cancel) {
  __atomic_store_n(&cancel->requested, false, __ATOMIC_RELEASE);
}

ls_cancel *ls_cancel_current(void) { return ls_this_thread.work.cancel; }

ls_cancel *ls_cancel_make_current(ls_cancel *cancel) {
  ls_cancel *before = ls_this_thread.work.cancel;
  ls_this_thread.work.cancel = cancel;
  return before;
}
