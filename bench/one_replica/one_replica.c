// SPDX-License-Identifier: Apache-2.0
//
// How one replica's training step is best spread over the cores: the
// reference models in each way, timed in turn, against the peak of the
// machine measured from registers in the same run.
// Design: docs/design/0001-one-replica-on-many-cores.md.
//
// Before anything is timed, each model takes three steps in each way: blocks
// and lanes must leave the same bits on one thread and on all, and every way
// the same loss within rounding.
//
// Usage: one_replica [-t THREADS] [-r ROUNDS] [-s SECONDS] [-m MODEL] [-p]
//   -t  threads; default: the cores
//   -r  undisturbed samples wanted of each way; default 15
//   -s  seconds to try for them, each model; default 120
//   -m  only the models whose name begins so
//   -p  instead of the table, where the time of a step in blocks goes: the
//       best of ROUNDS steps, for each instruction

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"
#include "one_replica/model.h"

enum { MAX_ROUNDS = 1000, CHECKED_STEPS = 3 };

// What runs a step: a model built in a way, on so many threads.
typedef struct bench_way {
  const char *name;
  bench_model *model;
  step_options options;
  double loss;  // After CHECKED_STEPS steps.
  int samples;  // Undisturbed ones.
  double times[MAX_ROUNDS];
} bench_way;

enum { MAX_WAYS = 8 };

typedef struct bench_pools {
  ls_workers *one, *all;
} bench_pools;

static int compare(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void *allocated(size_t size) {
  void *made = malloc(size);
  if (made == NULL) die("out of memory");
  return made;
}

static void take_step(const bench_way *way, const bench_pools *pools) {
  ls_workers *pool = way->options.threads == 1 ? pools->one : pools->all;
  model_step(way->model, pool, &way->options);
}

// ---- Undisturbed samples ---------------------------------------------------
// All threads work or spin during a step, so where they got less than all the
// time of their cores, something else ran and the sample says nothing.
#define QUIET_SHARE 0.98

// The threads to watch: a pool's, or OpenMP's where it is NULL.
typedef struct stopwatch {
  ls_workers *pool;
  int threads;
  double wall, cpu;
} stopwatch;

static void read_clock_of(void *user, int worker) {
  ((double *)user)[worker] = thread_seconds_now();
}

// The clock of a process knows what its other threads used only up to their
// last tick; each must read its own.
static double cpu_seconds(const stopwatch *watch) {
  if (watch->pool == NULL) return openmp_seconds_now(watch->threads);
  double clocks[MAX_THREADS] = {0}, sum = 0;
  if (ls_workers_run(watch->pool, read_clock_of, clocks) != NULL) {
    die("no threads");
  }
  for (int i = 0; i < watch->threads; ++i)
    sum += clocks[i];
  return sum;
}

static stopwatch start_watch(ls_workers *pool, int threads) {
  stopwatch watch = {.pool = pool, .threads = threads};
  watch.cpu = cpu_seconds(&watch);
  watch.wall = seconds_now();
  return watch;
}

// True if nothing disturbed the threads since the start.
static bool stop_watch(const stopwatch *watch, double *seconds) {
  *seconds = seconds_now() - watch->wall;
  const double cpu = cpu_seconds(watch) - watch->cpu;
  return cpu >= QUIET_SHARE * *seconds * watch->threads;
}

// ---- Peak ------------------------------------------------------------------
typedef struct {
  int64_t rounds;
  float sinks[MAX_THREADS][64];  // Cache lines apart.
  double flops[MAX_THREADS];
} peak_job;

static void run_peak(void *user, int worker) {
  peak_job *job = user;
  job->flops[worker] = machine_multiply_add(job->sinks[worker], job->rounds);
}

// Flops a second of all threads at once, from registers; false if disturbed.
static bool measure_peak(ls_workers *pool, double *peak) {
  static peak_job job;
  const int threads = ls_workers_count(pool);
  job.rounds = 10000;  // Wakes the threads.
  if (ls_workers_run(pool, run_peak, &job) != NULL) die("no threads");
  job.rounds = 1000000;
  const stopwatch watch = start_watch(pool, threads);
  if (ls_workers_run(pool, run_peak, &job) != NULL) die("no threads");
  double seconds = 0, flops = 0;
  const bool quiet = stop_watch(&watch, &seconds);
  for (int i = 0; i < threads; ++i)
    flops += job.flops[i];
  if (quiet && flops / seconds > *peak) *peak = flops / seconds;
  return quiet;
}

// ---- Ways ------------------------------------------------------------------
// The ways of one model: the first is the base, on one thread.
static size_t make_ways(const bench_recipe *recipe, int threads,
                        bench_way *ways) {
  const model_options blocks = {.lanes = 1, .threads = threads};
  const model_options halves = {.lanes = threads, .threads = threads};
  const model_options eighths = {.lanes = 8, .threads = threads};
  const model_options vendor = {.lanes = 1, .threads = threads, .vendor = true};
  bench_model *shared = model_create(recipe, &blocks);
  static char lanes[32];
  snprintf(lanes, sizeof lanes, "%d slices", threads);
  const bench_way made[] = {
      {.name = "1 thread", .model = shared, .options = {.threads = 1}},
      {.name = "blocks", .model = shared, .options = {.threads = threads}},
      {.name = "blocks, chains",
       .model = shared,
       .options = {.threads = threads, .chains = true}},
      {.name = lanes,
       .model = model_create(recipe, &halves),
       .options = {.threads = threads}},
      {.name = "8 slices",
       .model = model_create(recipe, &eighths),
       .options = {.threads = threads}},
      {.name = "oneDNN's threads",
       .model = model_create(recipe, &vendor),
       .options = {.threads = threads}},
  };
  const size_t n = sizeof made / sizeof *made;
  memcpy(ways, made, sizeof made);
  return n;
}

static void destroy_ways(bench_way *ways, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (i == 0 || ways[i].model != ways[i - 1].model) {
      model_destroy(ways[i].model);
    }
  }
}

// Takes the checked steps from the model's present state, which it restores;
// their last state goes to `after`.
static void try_way(bench_way *way, const bench_pools *pools, void *after) {
  void *before = allocated(model_state_size(way->model));
  model_save(way->model, before);
  for (int i = 0; i < CHECKED_STEPS; ++i)
    take_step(way, pools);
  way->loss = model_loss(way->model);
  model_save(way->model, after);
  model_load(way->model, before);
  free(before);
}

static void check_way(bench_way *ways, size_t i, const bench_pools *pools) {
  const size_t size = model_state_size(ways[i].model);
  void *many = allocated(size), *one = allocated(size);
  try_way(&ways[i], pools, many);
  if (!(fabs(ways[i].loss - ways[0].loss) < 1e-3 * fabs(ways[0].loss))) {
    die("%s, %s: loss %.6f, not %.6f", ways[i].model->recipe->name,
        ways[i].name, ways[i].loss, ways[0].loss);
  }
  if (!ways[i].model->options.vendor) {
    bench_way alone = ways[i];
    alone.options.threads = 1;
    try_way(&alone, pools, one);
    if (memcmp(many, one, size) != 0) {
      die("%s, %s: other bits on one thread", ways[i].model->recipe->name,
          ways[i].name);
    }
  }
  free(many);
  free(one);
}

static void check_ways(bench_way *ways, size_t n, const bench_pools *pools) {
  void *unused = allocated(model_state_size(ways[0].model));
  try_way(&ways[0], pools, unused);
  free(unused);
  for (size_t i = 0; i < n; ++i)
    check_way(ways, i, pools);
}

// ---- Timing ----------------------------------------------------------------
// Takes one sample; false if it was disturbed.
static bool time_way(bench_way *way, const bench_pools *pools) {
  const bool vendor = way->model->options.vendor;
  const int threads = way->options.threads;
  ls_workers *pool = threads == 1 ? pools->one : pools->all;
  take_step(way, pools);  // Wakes threads, fills caches.
  const stopwatch watch = start_watch(vendor ? NULL : pool, threads);
  take_step(way, pools);
  double seconds = 0;
  const bool quiet = stop_watch(&watch, &seconds);
  if (quiet) way->times[way->samples++] = seconds;
  // OpenMP's threads spin for a while after their last work.
  if (vendor) usleep(50000);
  return quiet;
}

// Takes `rounds` samples of each way, in turn and while nothing else runs, for
// at most so many seconds. Returns the peak.
static double time_ways(bench_way *ways, size_t n, int rounds, double seconds,
                        const bench_pools *pools) {
  const double start = seconds_now();
  double peak = 0;
  for (int i = 0; i < rounds * (int)n;) {
    const bool quiet = measure_peak(pools->all, &peak) &&
                       time_way(&ways[(size_t)i % n], pools);
    if (quiet) {
      ++i;
    } else if (seconds_now() - start > seconds) {
      break;
    } else {
      usleep(50000);  // Whatever it is, let it finish.
    }
  }
  return peak;
}

static void print_ways(bench_way *ways, size_t n, double peak) {
  for (size_t i = 0; i < n; ++i) {
    const bench_way *way = &ways[i];
    printf("%-14s %-17s %7d ", way->model->recipe->name, way->name,
           way->samples);
    if (way->samples == 0) {
      printf("  never undisturbed\n");
      continue;
    }
    qsort(ways[i].times, (size_t)way->samples, sizeof(double), compare);
    const double median = way->times[way->samples / 2], best = way->times[0];
    const double flops = model_flops(way->model);
    printf("%8.2f %8.2f %8.1f %7.1f%% %7.1f%% %9.5f\n", median * 1e3,
           best * 1e3, flops / median * 1e-9, 100.0 * flops / median / peak,
           100.0 * flops / best / peak, way->loss);
  }
}

static void measure_model(const bench_recipe *recipe, int rounds,
                          double seconds, const bench_pools *pools) {
  static bench_way ways[MAX_WAYS];
  const size_t n = make_ways(recipe, ls_workers_count(pools->all), ways);
  check_ways(ways, n, pools);
  const double peak = time_ways(ways, n, rounds, seconds, pools);
  printf("%s: %.3f Gflop a step; peak %.1f Gflop/s\n", recipe->name,
         recipe->gflops, peak * 1e-9);
  print_ways(ways, n, peak);
  fflush(stdout);
  destroy_ways(ways, n);
}

// ---- Profile ---------------------------------------------------------------
static void profile_way(const bench_way *way, int rounds,
                        const bench_pools *pools, double *sums) {
  double times[MAX_INSTRUCTIONS];
  struct bench_way profiled = *way;
  profiled.options.times = times;
  const size_t count = way->model->lanes[0]->program.count;
  take_step(way, pools);
  for (int round = 0; round < rounds; ++round) {
    memset(times, 0, sizeof times);
    take_step(&profiled, pools);
    for (size_t i = 0; i < count; ++i) {
      if (round == 0 || times[i] < sums[i]) sums[i] = times[i];
    }
  }
}

static void profile_model(const bench_recipe *recipe, int rounds,
                          const bench_pools *pools) {
  const int threads = ls_workers_count(pools->all);
  bench_model *model =
      model_create(recipe, &(model_options){.lanes = 1, .threads = threads});
  static double one[MAX_INSTRUCTIONS], all[MAX_INSTRUCTIONS];
  static bench_way ways[2];
  ways[0] = (bench_way){.model = model, .options.threads = 1};
  ways[1] = (bench_way){.model = model, .options.threads = threads};
  profile_way(&ways[0], rounds, pools, one);
  profile_way(&ways[1], rounds, pools, all);
  printf("%s: best us on 1 and %d threads\n", recipe->name, threads);
  const bench_program *program = &model->lanes[0]->program;
  for (size_t i = 0; i < program->count; ++i) {
    printf("%3zu %-14s %5lld blocks %10.1f %10.1f  %.2f\n", i,
           program->list[i].name, (long long)program->list[i].blocks,
           one[i] * 1e6, all[i] * 1e6, one[i] / all[i]);
  }
  model_destroy(model);
}

int main(int argc, char **argv) {
  static const bench_recipe *const recipes[] = {
      &mlp_recipe, &cnn_direct_recipe, &cnn_winograd_recipe, &gpt_recipe};
  int threads = ls_real_cores(), rounds = 15;
  double seconds = 120.0;
  const char *only = "";
  bool profile = false;
  for (int option; (option = getopt(argc, argv, "t:r:s:m:p")) != -1;) {
    if (option == 't') threads = atoi(optarg);
    if (option == 'r') rounds = atoi(optarg);
    if (option == 's') seconds = atof(optarg);
    if (option == 'm') only = optarg;
    if (option == 'p') profile = true;
    if (option == '?') die("see the top of one_replica.c");
  }
  if (threads < 1 || threads > 8) die("1 to 8 threads");
  if (rounds < 1 || rounds > MAX_ROUNDS) die("1 to %d rounds", MAX_ROUNDS);

  bench_pools pools = {NULL, NULL};
  if (ls_workers_create(ls_allocator_system(), 1, &pools.one) != NULL ||
      ls_workers_create(ls_allocator_system(), threads, &pools.all) != NULL) {
    die("no workers");
  }
  printf("%d threads, kernels %s\n", threads, ls_cpu_kernels_best()->name);
  if (!profile) {
    printf("%-14s %-17s %7s %8s %8s %8s %8s %8s %9s\n", "model", "way",
           "samples", "median", "best ms", "Gflop/s", "of peak", "(best)",
           "loss");
  }
  for (size_t i = 0; i < sizeof recipes / sizeof *recipes; ++i) {
    if (strncmp(recipes[i]->name, only, strlen(only)) != 0) continue;
    if (profile) {
      profile_model(recipes[i], rounds, &pools);
    } else {
      measure_model(recipes[i], rounds, seconds, &pools);
    }
  }
  ls_workers_destroy(pools.all);
  ls_workers_destroy(pools.one);
  return EXIT_SUCCESS;
}
