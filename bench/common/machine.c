// SPDX-License-Identifier: Apache-2.0
//
// Compiled for the machine at hand. Threads meet at a barrier that spins, and
// the time is from there to the last one's end.

#define _GNU_SOURCE
#include "common/machine.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/cpu/isa/vec.h"

enum {
  MAX_THREADS = 256,
  CHAINS = 16,  // Enough to hide the latency of a multiply-add.
  ROUNDS = 2000000,
};

double machine_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double machine_median(double *times, size_t count) {
  if (count == 0) return 0;
  qsort(times, count, sizeof(*times), by_value);
  return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

// ---- Threads ---------------------------------------------------------------
typedef struct team team;

typedef struct member {
  team *team;
  int index;
  double end;
  float sink[16];  // Keeps what is computed; a cache line.
} member;

struct team {
  void (*work)(member *self);
  int count;
  atomic_int arrived;
  atomic_bool go;
  double start;
  char *to;
  const char *from;
  size_t bytes;
  size_t ways;  // Vectors that are added up.
  size_t passes;
  bool streams;  // The sum goes past the caches.
};

static void *run_member(void *user) {
  member *self = user;
  atomic_fetch_add(&self->team->arrived, 1);
  while (!atomic_load(&self->team->go)) {
  }
  self->team->work(self);
  self->end = machine_seconds();
  return NULL;
}

// The caller is member 0.
static double run_team(team *all) {
  member members[MAX_THREADS] = {0};
  pthread_t threads[MAX_THREADS];
  if (all->count > MAX_THREADS) return 0;
  int made = 0;
  for (; made + 1 < all->count; ++made) {
    members[made + 1] = (member){.team = all, .index = made + 1};
    if (pthread_create(&threads[made], NULL, run_member, &members[made + 1]))
      break;
  }
  const bool complete = made + 1 == all->count;
  if (complete) {
    while (atomic_load(&all->arrived) < made) {
    }
  } else {
    all->count = 0;  // Nothing to do for those who wait.
  }
  members[0] = (member){.team = all};
  all->start = machine_seconds();
  atomic_store(&all->go, true);
  if (complete) all->work(&members[0]);
  double end = machine_seconds();
  for (int i = 0; i < made; ++i) {
    pthread_join(threads[i], NULL);
    if (members[i + 1].end > end) end = members[i + 1].end;
  }
  return complete ? end - all->start : 0;
}

// ---- Multiply-adds ---------------------------------------------------------
double machine_multiply_add(float *sink, int64_t rounds) {
  const vf x = vf_set1(0.999f), y = vf_set1(0.001f);
  vf acc[CHAINS];
  LS_UNROLL
  for (int i = 0; i < CHAINS; ++i)
    acc[i] = vf_set1((float)i);
  for (int64_t r = 0; r < rounds; ++r) {
    LS_UNROLL
    for (int i = 0; i < CHAINS; ++i)
      acc[i] = vf_fma(acc[i], x, y);
  }
  vf sum = acc[0];
  LS_UNROLL
  for (int i = 1; i < CHAINS; ++i)
    sum = vf_add(sum, acc[i]);
  *sink = vf_sum(sum);
  return 2.0 * VF_LANES * CHAINS * (double)rounds;
}

static void multiply_add(member *self) {
  machine_multiply_add(self->sink, ROUNDS);
}

double machine_peak_flops(int threads) {
  return 2.0 * VF_LANES * CHAINS * ROUNDS * threads;
}

double machine_peak_run(int threads) {
  team all = {.work = multiply_add, .count = threads};
  return run_team(&all);
}

// ---- Copies ----------------------------------------------------------------
static void copy(member *self) {
  const team *all = self->team;
  if (all->count == 0) return;
  const size_t part = all->bytes / (size_t)all->count / 64 * 64;
  const size_t first = part * (size_t)self->index;
  const bool last = self->index == all->count - 1;
  memcpy(all->to + first, all->from + first, last ? all->bytes - first : part);
}

double machine_copy_run(int threads, void *to, const void *from, size_t bytes) {
  team all = {
      .work = copy, .count = threads, .to = to, .from = from, .bytes = bytes};
  return run_team(&all);
}

// ---- Sums ------------------------------------------------------------------
static void add_up(member *self) {
  const team *all = self->team;
  if (all->count == 0) return;
  const size_t vectors = all->bytes / sizeof(vf);
  const size_t ways = all->ways, count = (size_t)all->count;
  const size_t index = (size_t)self->index;
  const size_t begin = vectors * index / count;
  const size_t end = vectors * (index + 1) / count;
  const float *from = (const float *)(const void *)all->from;
  float *to = (float *)(void *)all->to;
  for (size_t pass = 0; pass < all->passes; ++pass) {
    for (size_t i = begin; i < end; ++i) {
      vf sum = vf_load(from + i * ways * VF_LANES);
      for (size_t k = 1; k < ways; ++k)
        sum = vf_add(sum, vf_load(from + (i * ways + k) * VF_LANES));
      if (all->streams)
        vf_stream(to + i * VF_LANES, sum);
      else
        vf_store(to + i * VF_LANES, sum);
    }
  }
  vf_stream_end();
}

// Seconds of a pass. As many as make new threads and cold caches cheap.
static double time_sums(team *all) {
  enum { BYTES_OF_A_RUN = 32 << 20 };
  all->passes = 1 + BYTES_OF_A_RUN / (all->bytes * (all->ways + 1));
  all->arrived = 0;
  all->go = false;
  return run_team(all) / (double)all->passes;
}

double machine_sum_run(int threads, void *to, const void *from, size_t bytes,
                       int ways) {
  team all = {.work = add_up,
              .count = threads,
              .to = to,
              .from = from,
              .bytes = bytes,
              .ways = (size_t)ways};
  const double stored = time_sums(&all);
  all.streams = true;
  const double streamed = time_sums(&all);
  return stored < streamed ? stored : streamed;
}
