// SPDX-License-Identifier: Apache-2.0
#include "base/memory/graveyard.h"

#include "base/memory/allocator.h"
#include "base/threads/threads.h"

static ls_mutex graves_lock = {PTHREAD_MUTEX_INITIALIZER, true};
static void *graves[LS_GRAVES];
static size_t next_grave;

void ls_bury(void *memory) {
  if (memory == NULL) return;
  ls_mutex_lock(&graves_lock);
  void *oldest = graves[next_grave];
  graves[next_grave] = memory;
  next_grave = (next_grave + 1) % LS_GRAVES;
  ls_mutex_unlock(&graves_lock);
  ls_release(ls_allocator_system(), oldest);
}
