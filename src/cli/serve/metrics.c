// SPDX-License-Identifier: Apache-2.0
// Counts of answers, their times, and batches, in Prometheus's text format.
#define _GNU_SOURCE
#include <time.h>

#include "cli/serve/serve.h"

static const int codes[] = {200, 400, 404, 405, 411, 413, 415, 500, 503};
static const double seconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01,
                                 0.025,  0.05,  0.1,    0.25,  0.5,
                                 1,      2.5,   5,      10};
enum {
  NUM_CODES = sizeof(codes) / sizeof(*codes),
  NUM_SECONDS = sizeof(seconds) / sizeof(*seconds),
  NUM_SIZES = 16,  // Powers of two.
};

static struct {
  int64_t answers[NUM_CODES];
  int64_t times[NUM_SECONDS + 1], time_ns;
  int64_t batches[NUM_SIZES + 1], rows;
} counts;  // All atomic.

static void count(int64_t *place, int64_t by) {
  __atomic_add_fetch(place, by, __ATOMIC_RELAXED);
}

static int64_t count_of(const int64_t *place) {
  return __atomic_load_n(place, __ATOMIC_RELAXED);
}

int64_t cli_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

void cli_metrics_answer(int code, int64_t ns) {
  int i = 0, k = 0;
  while (i < NUM_CODES - 1 && codes[i] != code)
    ++i;
  while (k < NUM_SECONDS && (double)ns / 1e9 > seconds[k])
    ++k;
  count(&counts.answers[i], 1);
  count(&counts.times[k], 1);
  count(&counts.time_ns, ns);
}

void cli_metrics_batch(int64_t rows) {
  int i = 0;
  while (i < NUM_SIZES && (INT64_C(1) << i) < rows)
    ++i;
  count(&counts.batches[i], 1);
  count(&counts.rows, rows);
}

int64_t cli_metrics_answers(void) {
  int64_t all = 0;
  for (int i = 0; i < NUM_CODES; ++i)
    all += count_of(&counts.answers[i]);
  return all;
}

static void write_head(FILE *to, const char *name, const char *type,
                       const char *help) {
  fprintf(to, "# HELP lockstep_%s %s\n# TYPE lockstep_%s %s\n", name, help,
          name, type);
}

// Writes a histogram of `size` bounds; NULL: they are powers of two.
static void write_histogram(FILE *to, const char *name, const char *help,
                            const double *bounds, const int64_t *places,
                            int size, double sum) {
  int64_t all = 0;
  write_head(to, name, "histogram", help);
  for (int i = 0; i < size; ++i) {
    all += count_of(&places[i]);
    fprintf(to, "lockstep_%s_bucket{le=\"%g\"} %lld\n", name,
            bounds != NULL ? bounds[i] : (double)(1 << i), (long long)all);
  }
  all += count_of(&places[size]);
  fprintf(to,
          "lockstep_%s_bucket{le=\"+Inf\"} %lld\nlockstep_%s_sum %.9g\n"
          "lockstep_%s_count %lld\n",
          name, (long long)all, name, sum, name, (long long)all);
}

void cli_metrics_write(FILE *to, int64_t waiting) {
  write_head(to, "requests_total", "counter", "Answers by their code.");
  for (int i = 0; i < NUM_CODES; ++i)
    fprintf(to, "lockstep_requests_total{code=\"%d\"} %lld\n", codes[i],
            (long long)count_of(&counts.answers[i]));
  write_histogram(to, "request_seconds",
                  "Time from a request's header to its answer.", seconds,
                  counts.times, NUM_SECONDS,
                  (double)count_of(&counts.time_ns) / 1e9);
  write_histogram(to, "batch_rows", "Rows that ran together.", NULL,
                  counts.batches, NUM_SIZES, (double)count_of(&counts.rows));
  write_head(to, "waiting_requests", "gauge", "Requests in the queue.");
  fprintf(to, "lockstep_waiting_requests %lld\n", (long long)waiting);
}
