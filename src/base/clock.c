// SPDX-License-Identifier: Apache-2.0
// The system's clock.
#include <time.h>

#include "base/runtime_internal.h"

enum { NANOS_PER_SECOND = 1000000000 };

static int64_t read_clock(clockid_t which) {
  struct timespec now = {0};
  clock_gettime(which, &now);
  return (int64_t)now.tv_sec * NANOS_PER_SECOND + (int64_t)now.tv_nsec;
}

static int64_t system_now(void *user) {
  (void)user;
  return read_clock(CLOCK_MONOTONIC);
}

static int64_t system_wall(void *user) {
  (void)user;
  return read_clock(CLOCK_REALTIME);
}

static void system_sleep(void *user, int64_t nanos) {
  (void)user;
  ls_thread_sleep(nanos);
}

const ls_clock *ls_clock_system(void) {
  static const ls_clock clock = {system_now, system_wall, system_sleep, NULL};
  return &clock;
}

int64_t ls_runtime_now(const ls_runtime *runtime) {
  return runtime->clock.now(runtime->clock.user);
}

int64_t ls_runtime_wall(const ls_runtime *runtime) {
  return runtime->clock.wall(runtime->clock.user);
}

void ls_runtime_sleep(const ls_runtime *runtime, int64_t nanos) {
  runtime->clock.sleep(runtime->clock.user, nanos);
}
