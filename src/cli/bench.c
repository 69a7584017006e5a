// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

typedef struct bench_flags {
  cli_step_flags step;
  int64_t steps;
  bool json;
} bench_flags;

typedef struct bench_figures {
  double first_step_ms, min_ms, median_ms, in_a_row_ms;
  int64_t steps;
  int threads;
  const char *math;
  double flops, gflops, rss_mb;
} bench_figures;

// Without --steps: runs for this long, but at least this many steps.
static const double budget_ms = 2000;
enum { WARM_STEPS = 10, LEAST_STEPS = 20, MOST_STEPS = 100000 };
enum { STEPS_UNDER_WAY = 8 };  // As many as a device takes.
// Rows of steps: several, each short, so that other processes rarely run in
// between.
enum { LEAST_ROWS = 8, MOST_IN_A_ROW = 32 };

// ---- Time ------------------------------------------------------------------
static double now_ms(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

// Returns the start time of the process, on CLOCK_BOOTTIME, from
// /proc/self/stat. That counts in ticks, so a time since then is up to 10 ms
// too long, never too short. 0 if the system does not report it.
static double process_start_ms(void) {
  char text[1024];
  CLI_OWN(FILE, file) = fopen("/proc/self/stat", "r");
  if (file == NULL) return 0;
  const size_t size = fread(text, 1, sizeof(text) - 1, file);
  text[size] = '\0';
  // The second field is the program's name in parentheses, and may hold any
  // character. The start time is the 22nd, 20 fields later.
  const char *at = strrchr(text, ')');
  for (int field = 0; at != NULL && field < 20; ++field)
    at = strchr(at + 1, ' ');
  const long ticks = sysconf(_SC_CLK_TCK);
  return at != NULL && ticks > 0 ? strtod(at, NULL) * 1e3 / (double)ticks : 0;
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

// ---- Running ---------------------------------------------------------------
// Waits for results, which a device computes after the step's call.
static ls_status wait_for(ls_nest results) {
  if (results.kind == LS_KIND_ARRAY)
    return ls_array_wait(ls_nest_as_array(results));
  for (size_t i = 0; i < ls_nest_count(results); ++i)
    LS_RETURN_IF_ERROR(wait_for(ls_nest_item(results, i)));
  for (size_t r = 0; r < ls_distributed_count(results); ++r)
    LS_RETURN_IF_ERROR(wait_for(ls_distributed_component(results, r)));
  return ls_ok();
}

static ls_status time_step(cli_step *step, ls_nest *results, double *out_ms) {
  const double before = now_ms(CLOCK_MONOTONIC);
  LS_RETURN_IF_ERROR(cli_step_run(step, results));
  LS_RETURN_IF_ERROR(wait_for(*results));
  *out_ms = now_ms(CLOCK_MONOTONIC) - before;
  return ls_ok();
}

// Times steps that are not waited for one by one; per step.
static ls_status time_row(cli_step *step, ls_nest *results, int64_t count,
                          double *out_ms) {
  const double before = now_ms(CLOCK_MONOTONIC);
  for (int64_t i = 0; i < count; ++i)
    LS_RETURN_IF_ERROR(cli_step_run(step, &results[i % STEPS_UNDER_WAY]));
  for (int i = 0; i < STEPS_UNDER_WAY; ++i)
    LS_RETURN_IF_ERROR(wait_for(results[i]));
  *out_ms = (now_ms(CLOCK_MONOTONIC) - before) / (double)count;
  return ls_ok();
}

static double find_median(double *times, int64_t count) {
  qsort(times, (size_t)count, sizeof(times[0]), by_value);
  return (times[(count - 1) / 2] + times[count / 2]) / 2;
}

// Times rows of steps, `count` in all; the median, as that of single steps.
static ls_status time_rows(cli_step *step, int64_t count, double *times,
                           double *out_ms) {
  ls_nest results[STEPS_UNDER_WAY] = {{0}};
  int64_t each = count < LEAST_ROWS ? 1 : count / LEAST_ROWS;
  if (each > MOST_IN_A_ROW) each = MOST_IN_A_ROW;
  const int64_t rows = count / each;
  ls_status status = ls_ok();
  for (int64_t i = 0; i < rows && ls_status_is_ok(status); ++i)
    status = time_row(step, results, each, &times[i]);
  *out_ms = find_median(times, rows);
  for (int i = 0; i < STEPS_UNDER_WAY; ++i)
    ls_nest_release(results[i]);
  return status;
}

static ls_status measure_steps(const bench_flags *flags, cli_step *step,
                               ls_nest *results, double *times,
                               bench_figures *figures) {
  double ms = 0;
  LS_RETURN_IF_ERROR(time_step(step, results, &ms));
  const double start = process_start_ms();
  figures->first_step_ms = start > 0 ? now_ms(CLOCK_BOOTTIME) - start : ms;
  for (int i = 0; i < WARM_STEPS; ++i)
    LS_RETURN_IF_ERROR(time_step(step, results, &ms));
  const double end = now_ms(CLOCK_MONOTONIC) + budget_ms;
  int64_t done = 0;
  while (done < (flags->steps > 0 ? flags->steps : MOST_STEPS)) {
    LS_RETURN_IF_ERROR(time_step(step, results, &times[done]));
    ++done;
    if (flags->steps == 0 && done >= LEAST_STEPS &&
        now_ms(CLOCK_MONOTONIC) > end)
      break;
  }
  figures->steps = done;
  figures->median_ms = find_median(times, done);
  figures->min_ms = times[0];
  return time_rows(step, done, times, &figures->in_a_row_ms);
}

static ls_status time_model(bench_flags *flags, bench_figures *figures) {
  const int64_t most = flags->steps > 0 ? flags->steps : MOST_STEPS;
  CLI_OWN_ARRAY_OR_RETURN(double, times, (size_t)most);
  CLI_OWN(cli_step, step) = {0};
  CLI_OWN(ls_nest, results) = {0};
  ls_program_figures program = {0};
  LS_RETURN_IF_ERROR(cli_step_open(&flags->step, &step));
  LS_RETURN_IF_ERROR(measure_steps(flags, &step, &results, times, figures));
  LS_RETURN_IF_ERROR(ls_function_describe_program(step.function, &program));
  const ls_model_type *type = flags->step.type;
  figures->flops =
      type != NULL && type->flops_per_example > 0
          ? type->flops_per_example * (double)flags->step.batch_size
      : program.flops >= 0 ? program.flops
                           : (double)NAN;
  return ls_ok();
}

static void print_figures(const bench_flags *all, const bench_figures *f) {
  const cli_step_flags *flags = &all->step;
  if (all->json) {
    cli_print_text('{', "model", flags->model);
    printf(",\"replicas\":%lld,\"threads\":%d,\"precision\":\"%s\","
           "\"math\":\"%s\",\"batch_size\":%lld,\"steps\":%lld,\"min_ms\":%.6g,"
           "\"median_ms\":%.6g,\"in_a_row_ms\":%.6g,\"first_step_ms\":%.6g,"
           "\"rss_mb\":%.6g",
           (long long)flags->replicas, f->threads, flags->precision, f->math,
           (long long)flags->batch_size, (long long)f->steps, f->min_ms,
           f->median_ms, f->in_a_row_ms, f->first_step_ms, f->rss_mb);
    cli_print_member(',', "gflops", f->gflops, 6);
    printf("}\n");
    return;
  }
  printf("%s, %lld replica%s, %d thread%s, %s, %s math, batch of %lld\n",
         flags->model, (long long)flags->replicas,
         flags->replicas == 1 ? "" : "s", f->threads,
         f->threads == 1 ? "" : "s", flags->precision, f->math,
         (long long)flags->batch_size);
  printf("  step        %.4g ms median, %.4g ms least, of %lld\n", f->median_ms,
         f->min_ms, (long long)f->steps);
  printf("  in a row    %.4g ms median, not waited for one by one\n",
         f->in_a_row_ms);
  printf("  first step  %.4g ms after the process began\n", f->first_step_ms);
  if (isfinite(f->gflops)) printf("  speed       %.4g Gflop/s\n", f->gflops);
  printf("  memory      %.4g MiB at most\n", f->rss_mb);
}

static ls_status bench_model(void *user, ls_runtime *runtime) {
  bench_flags *flags = user;
  bench_figures figures = {0};
  LS_RETURN_IF_ERROR(time_model(flags, &figures));
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  figures.gflops = figures.flops / figures.median_ms * 1e-6;
  figures.rss_mb = (double)usage.ru_maxrss / 1024;
  figures.threads = ls_runtime_threads(runtime);
  figures.math = cli_math_name(runtime);
  print_figures(flags, &figures);
  return ls_ok();
}

int cli_bench(int argc, char **argv) {
  bench_flags flags = {.step = {.replicas = 1, .precision = "f32"}};
  const cli_option options[] = {
      {"replicas", CLI_COUNT, &flags.step.replicas, "N",
       "replicas that share the batch (default 1)"},
      CLI_THREADS_OPTION(&flags.step.threads),
      CLI_DEVICE_OPTIONS,
      {"steps", CLI_COUNT, &flags.steps, "N",
       "steps to time (default: for 2 seconds)"},
      CLI_BATCH_OPTION(&flags.step.batch_size),
      CLI_PRECISION_OPTION(&flags.step.precision),
      CLI_STEP_TASK_OPTIONS(&flags.step),
      CLI_MATH_OPTION(&flags.step.math),
      CLI_TRACE_OPTION(&flags.step.trace),
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON: model, replicas, threads, precision, math, "
       "batch_size, steps, min_ms, median_ms, in_a_row_ms, first_step_ms, "
       "rss_mb, gflops"},
  };
  const cli_syntax syntax = {
      .command = "bench",
      .about =
          "Times a model's training step on synthetic data: the median and the "
          "least of many steps, each waited for, after 10 warm-up steps; the "
          "median time of a step in rows of up to 32, where a device computes "
          "one while the next ones are sent; the time from the start of the "
          "process to the end of the first step (up to 10 ms too long); the "
          "speed of products at the median; and peak memory. MODEL may be a "
          "shared library of models or estimators: ./mine.so or "
          "./mine.so:NAME, or a model's run; an estimator's step gets the "
          "first batch of its input again and again.",
      CLI_OPTIONS(options),
      .operand_form = "MODEL",
      .operand = &flags.step.model};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  return cli_with_step("bench", &flags.step, bench_model, &flags);
}
