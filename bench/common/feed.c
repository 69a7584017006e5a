// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include "common/feed.h"

#include <stdio.h>
#include <sys/resource.h>

#include "common/machine.h"

double feed_sum_bytes(const unsigned char *values, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += values[i];
  return (double)sum;
}

double feed_sum_floats(const float *values, size_t count) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i)
    sum += (double)values[i];
  return sum;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static int answer(feed_next next, void *user, long count) {
  const double began = machine_seconds(), cpu = cpu_seconds();
  int64_t examples = 0;
  for (long done = 0; done < count;) {
    const int64_t some = next(user, NULL);
    if (some < 0) return -1;
    if (some > 0) ++done;
    examples += some;
  }
  const double wall = machine_seconds() - began;
  printf("{\"ms\": [%.6g], \"cpu_ms\": %.9g, \"examples\": %lld}\n",
         wall * 1e3 / (double)count, (cpu_seconds() - cpu) * 1e3,
         (long long)examples);
  fflush(stdout);
  return 0;
}

int feed_serve(feed_next next, void *user) {
  int64_t examples = 0, some;
  double sum = 0;
  while ((some = next(user, &sum)) > 0)
    examples += some;
  if (some < 0 || examples == 0) return 1;
  printf("{\"examples\": %lld, \"mean\": %.9g}\n", (long long)examples,
         sum / (double)examples);
  fflush(stdout);
  char line[64];
  while (fgets(line, sizeof(line), stdin) != NULL) {
    long count = 0;
    if (sscanf(line, "run %ld", &count) != 1 || count < 1) {
      fprintf(stderr, "expected 'run K', got '%s'\n", line);
      return 2;
    }
    if (answer(next, user, count) != 0) return 1;
  }
  return 0;
}
