// SPDX-License-Identifier: Apache-2.0
#include "base/threads/thread_state.h"

#include <pthread.h>

_Thread_local ls_thread_state ls_this_thread;

static pthread_key_t end_key;
static bool has_end_key;

// Calls the layers' functions, the highest first. A function that registers
// again causes one more call of this.
static void leave_thread(void *state) {
  ls_thread_state *self = state;
  for (int i = LS_THREAD_LAYERS - 1; i >= 0; --i) {
    void (*leave)(void) = self->leave[i];
    self->leave[i] = NULL;
    if (leave != NULL) leave();
  }
  for (int i = 0; i < LS_THREAD_LAYERS; ++i)
    if (self->leave[i] != NULL) return;
  *self = (ls_thread_state){0};
}

static void make_end_key(void) {
  has_end_key = pthread_key_create(&end_key, leave_thread) == 0;
}

bool ls_thread_at_end(ls_thread_layer layer, void (*leave)(void)) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, make_end_key);
  if (!has_end_key || pthread_setspecific(end_key, &ls_this_thread) != 0)
    return false;
  ls_this_thread.leave[layer] = leave;
  return true;
}
