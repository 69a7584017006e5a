// SPDX-License-Identifier: Apache-2.0
#include "support/thread_count.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "support/expect.h"

static void *end(void *user) { return user; }

int thread_count(void) {
  static bool has_begun;
  if (!has_begun) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    has_begun = true;
  }
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  assert_non_null(folder);
  for (const struct dirent *it; (it = readdir(folder)) != NULL;)
    count += it->d_name[0] != '.';
  closedir(folder);
  return count;
}

int threads_called(const char *name) {
  int count = 0;
  DIR *folder = opendir("/proc/self/task");
  assert_non_null(folder);
  for (const struct dirent *it; (it = readdir(folder)) != NULL;) {
    char path[300], line[32] = "";
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", it->d_name);
    FILE *file = fopen(path, "r");
    if (file == NULL) continue;  // It has just ended, or is none.
    if (fgets(line, sizeof(line), file) != NULL)
      count +=
          strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == '\n';
    fclose(file);
  }
  closedir(folder);
  return count;
}
