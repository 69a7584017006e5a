// SPDX-License-Identifier: Apache-2.0
//
// A training step fed by an iterator, against the same step on one fixed batch:
// images as bytes, shuffled, scaled, batched, dealt to replicas. The
// contestants have a net each and take turns; a round is some steps. Ratios are
// medians over the rounds, and least to least, of the time of a step; CPU is
// that of all threads.
//
// Usage: input_bench [-m MODEL] [-r REPLICAS] [-t THREADS] [-k STEPS]
//                    [-n ROUNDS] [-b BATCH]

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/machine.h"
#include "data/iterator.h"
#include "lockstep/lockstep.h"

enum { MOST_ROUNDS = 1000, EXAMPLES = 60000, WAYS = 4 };
static const char *const names[] = {"fixed batch", "iterator, no prefetch",
                                    "iterator", "iterator, all help"};

typedef struct options {
  const char *model;
  int replicas, threads, steps, rounds;
  int64_t batch;
} options;

typedef struct contestant {
  ls_model model;
  ls_function *function;
  ls_iterator *input;  // NULL: a fixed batch.
  ls_nest args, results;
  double times[MOST_ROUNDS], cpu;
} contestant;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "input_bench: %s\n", ls_status_message(status));
  exit(1);
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static double cpu_seconds(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

// Bytes that stand for images, and labels.
static ls_dataset *make_data(const ls_model_type *type, const options *o) {
  const int64_t width = ls_shape_num_elements(type->example_shape);
  ls_array *x = NULL, *y = NULL;
  check(ls_array_create(LS_DTYPE_U8, LS_SHAPE(EXAMPLES, width), &x));
  check(ls_array_create(LS_DTYPE_U8, LS_SHAPE(EXAMPLES), &y));
  uint8_t *bytes = ls_array_mutable_data(x), *labels = ls_array_mutable_data(y);
  for (int64_t i = 0; i < EXAMPLES * width; ++i)
    bytes[i] = (uint8_t)(i * 2654435761 >> 13);
  for (int i = 0; i < EXAMPLES; ++i)
    labels[i] = (uint8_t)(i % 10);
  ls_dataset *data =
      ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(x), ls_nest_array(y)));
  data = ls_dataset_repeat(ls_dataset_shuffle(data, NULL), -1);
  data =
      ls_dataset_convert(data, 0,
                         &(ls_convert_options){.dtype = LS_DTYPE_F32,
                                               .scale = 1.0 / 255,
                                               .shape = &type->example_shape});
  data =
      ls_dataset_convert(data, 1, &(ls_convert_options){.dtype = LS_DTYPE_I32});
  data = ls_dataset_batch(data, &(ls_batch_options){.size = o->batch});
  return o->replicas > 1 ? ls_dataset_parts(data, o->replicas) : data;
}

static void begin(contestant *c, int way, const ls_model_type *type,
                  ls_dataset *data) {
  const ls_iterator_options some = {0}, none = {.prefetch = LS_SOME(0)};
  check(ls_model_create(type, &(ls_model_options){.metrics = true}, &c->model));
  check(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = c->model.self},
      &c->function));
  check(ls_iterator_create(data, way == 2 ? &some : &none, &c->input));
  if (way == 3) check(ls_iterator_let_help(c->input));  // As ls_train does.
  check(ls_iterator_next(c->input, &c->args));
  if (way > 0) return;
  ls_iterator_release(c->input);
  c->input = NULL;
}

static void run(contestant *c, ls_strategy *strategy, int steps, int round) {
  const double began = seconds(), cpu = cpu_seconds();
  for (int i = 0; i < steps; ++i) {
    if (c->input != NULL) check(ls_iterator_next(c->input, &c->args));
    check(ls_strategy_run(strategy, ls_traced(c->function), c->args,
                          &c->results));
  }
  if (round < 0) return;
  c->times[round] = (seconds() - began) / steps;
  c->cpu += (cpu_seconds() - cpu) / steps;
}

static void end(contestant *c) {
  ls_nest_release(c->args);
  ls_nest_release(c->results);
  ls_iterator_release(c->input);
  ls_function_release(c->function);
  ls_model_destroy(&c->model);
}

static void report(contestant *all, const options *o) {
  double medians[WAYS], leasts[WAYS];
  for (int w = 0; w < WAYS; ++w) {
    double ratios[MOST_ROUNDS];
    leasts[w] = all[w].times[0];
    for (int i = 0; i < o->rounds; ++i) {
      ratios[i] = all[w].times[i] / all[0].times[i];
      if (all[w].times[i] < leasts[w]) leasts[w] = all[w].times[i];
    }
    medians[w] = machine_median(ratios, (size_t)o->rounds);
    printf("%-22s %8.1f us least, %8.1f us CPU; ratio %.3f median, %.3f least, "
           "%.3f CPU\n",
           names[w], leasts[w] * 1e6, all[w].cpu / o->rounds * 1e6, medians[w],
           leasts[w] / leasts[0], all[w].cpu / all[0].cpu);
  }
}

int main(int argc, char **argv) {
  options o = {
      .model = "mlp", .replicas = 1, .steps = 20, .rounds = 60, .batch = 128};
  for (int c; (c = getopt(argc, argv, "m:r:t:k:n:b:")) != -1;) {
    if (c == 'm') o.model = optarg;
    if (c == 'r') o.replicas = atoi(optarg);
    if (c == 't') o.threads = atoi(optarg);
    if (c == 'k') o.steps = atoi(optarg);
    if (c == 'n') o.rounds = atoi(optarg);
    if (c == 'b') o.batch = atoll(optarg);
    if (c == '?') return 2;
  }
  if (o.rounds < 1 || o.rounds > MOST_ROUNDS || o.steps < 1) return 2;
  ls_runtime *runtime = NULL;
  check(
      ls_runtime_create(&(ls_runtime_options){.threads = o.threads}, &runtime));
  ls_runtime_make_current(runtime);
  const ls_model_type *type = ls_model_find(o.model);
  if (type == NULL) return 2;
  ls_strategy *strategy = NULL;
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(o.replicas)}, &strategy));
  ls_dataset *data = make_data(type, &o);
  static contestant all[WAYS];
  for (int w = 0; w < WAYS; ++w)
    begin(&all[w], w, type, data);
  for (int round = -2; round < o.rounds; ++round) {
    for (int w = 0; w < WAYS; ++w)
      run(&all[w], strategy, o.steps, round);
  }
  report(all, &o);
  for (int w = 0; w < WAYS; ++w)
    end(&all[w]);
  ls_dataset_release(data);
  ls_strategy_release(strategy);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}
