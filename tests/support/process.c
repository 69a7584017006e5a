// SPDX-License-Identifier: Apache-2.0
#include "support/process.h"

#include <sys/wait.h>
#include <time.h>

#include "support/expect.h"

double seconds_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int wait_for_child(pid_t child) {
  int how = 0;
  assert_int_equal(waitpid(child, &how, 0), child);
  return WIFEXITED(how) ? WEXITSTATUS(how) : -WTERMSIG(how);
}

int64_t micros_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}
