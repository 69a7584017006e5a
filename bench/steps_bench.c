// SPDX-License-Identifier: Apache-2.0
//
// What stands around a training step, against the step alone: a loop on the
// device, calls of the host, a summary. The contestants have a net each and
// take turns; a round is as many steps as a loop has trips. Ratios are medians
// over the rounds, and least to least, of the time of a step.
//
// Usage: steps_bench [-m MODEL] [-r REPLICAS] [-t THREADS] [-k TRIPS]
//                    [-n ROUNDS] [-b BATCH] [-v]
//   -v  variables are plain ones, made outside of the strategy's scope

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MOST_ROUNDS = 1000 };

typedef struct options {
  const char *model;
  int replicas, threads, trips, rounds;
  int64_t batch;
  bool plain_variables;
} options;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "steps_bench: %s\n", ls_status_message(status));
  exit(1);
}

// ---- Kernels ---------------------------------------------------------------
static int64_t counted;

static ls_status count(ls_host_call *call) {
  __atomic_fetch_add(&counted, 1, __ATOMIC_RELAXED);
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel inline_count = {
    .name = "inline_count", .start = count, .flags = LS_HOST_INLINE};
static const ls_host_kernel user_count = {.name = "user_count", .start = count};

static void forget(void *user, const ls_summary_record *record) {
  (void)user, (void)record;
}

// ---- Contestants -----------------------------------------------------------
typedef enum way { PLAIN, LOOP, INLINE_CALL, USER_CALL, SUMMARY, WAYS } way;
static const char *const names[] = {"step", "loop", "inline call",
                                    "user's call", "summary not due"};

typedef struct contestant {
  way way;
  int trips;
  ls_model model;
  ls_function *function;
  ls_summary_writer *writer;
  ls_nest args;  // While it is being traced.
  ls_nest results;
  double times[MOST_ROUNDS];
} contestant;

static ls_tensor step_once(contestant *c, ls_nest args) {
  const ls_nest made = c->model.type->train_step(args, c->model.self);
  const ls_tensor loss = ls_nest_tensor(made, 0);
  ls_nest_release(made);
  return loss;
}

static ls_nest always(ls_nest values, void *user) {
  (void)values, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1));
}

static ls_nest trip(ls_nest values, void *user) {
  contestant *c = user;
  (void)values;
  return ls_leaf(step_once(c, c->args));
}

static ls_nest step(ls_nest args, void *user) {
  contestant *c = user;
  if (c->way == LOOP) {
    c->args = args;
    return ls_step_while(always, trip, c, ls_leaf(ls_scalar(LS_DTYPE_F32, 0)),
                         c->trips);
  }
  const ls_tensor loss = step_once(c, args);
  if (c->way == INLINE_CALL)
    (void)ls_host_call_add(&inline_count, NULL, &loss, 1);
  if (c->way == USER_CALL) (void)ls_host_call_add(&user_count, NULL, &loss, 1);
  if (c->way == SUMMARY) {
    LS_SUMMARY_SCOPE(c->writer);
    (void)ls_summary("loss", loss);
  }
  return ls_leaf(loss);
}

static void make(contestant *c, way w, const options *o,
                 ls_strategy *strategy) {
  c->way = w;
  c->trips = o->trips;
  c->results = ls_none();
  const ls_model_type *type = ls_model_find(o->model);
  if (o->plain_variables) {
    check(ls_model_create(type, NULL, &c->model));
  } else {
    LS_STRATEGY_SCOPE(strategy);
    check(ls_model_create(type, NULL, &c->model));
  }
  check(ls_summary_writer_create(forget, NULL, &c->writer));
  ls_summary_writer_set_every(c->writer, 1000);
  ls_summary_writer_set_step(c->writer, 1);
  check(ls_function_create(&(ls_function_options){.call = step, .user = c},
                           &c->function));
}

static void release(contestant *c) {
  ls_nest_release(c->results);
  ls_function_release(c->function);
  ls_summary_writer_release(c->writer);
  ls_model_destroy(&c->model);
}

// Seconds of a step.
static double run(contestant *c, ls_strategy *strategy, ls_nest args) {
  const int calls = c->way == LOOP ? 1 : c->trips;
  const double begin = machine_seconds();
  for (int i = 0; i < calls; ++i)
    check(ls_strategy_run(strategy, ls_traced(c->function), args, &c->results));
  return (machine_seconds() - begin) / c->trips;
}

// ---- Figures ---------------------------------------------------------------
static double least(const double *values, int n) {
  double result = values[0];
  for (int i = 1; i < n; ++i)
    if (values[i] < result) result = values[i];
  return result;
}

static double median(const double *values, int n) {
  double copy[MOST_ROUNDS];
  memcpy(copy, values, (size_t)n * sizeof(*copy));
  return machine_median(copy, (size_t)n);
}

static void print(const contestant *all, const options *o) {
  const contestant *plain = &all[PLAIN];
  printf("%-16s %12s %12s %10s %10s %14s\n", "", "median us", "least us",
         "median", "least", "us a replica");
  for (int w = 0; w < WAYS; ++w) {
    double ratios[MOST_ROUNDS], extra[MOST_ROUNDS];
    for (int i = 0; i < o->rounds; ++i) {
      ratios[i] = all[w].times[i] / plain->times[i];
      extra[i] = (all[w].times[i] - plain->times[i]) * 1e6 / o->replicas;
    }
    printf("%-16s %12.2f %12.2f %10.4f %10.4f %14.3f\n", names[w],
           median(all[w].times, o->rounds) * 1e6,
           least(all[w].times, o->rounds) * 1e6, median(ratios, o->rounds),
           least(all[w].times, o->rounds) / least(plain->times, o->rounds),
           median(extra, o->rounds));
  }
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  printf("%s, %d replicas, %d trips, %d rounds: %.0f MiB for all\n", o->model,
         o->replicas, o->trips, o->rounds, (double)usage.ru_maxrss / 1024);
}

static options parse(int argc, char **argv) {
  options o = {"mlp", 8, 0, 100, 15, 0, false};
  int c = 0;
  while ((c = getopt(argc, argv, "m:r:t:k:n:b:v")) != -1) {
    const int number = optarg == NULL ? 0 : atoi(optarg);
    if (c == 'm') o.model = optarg;
    if (c == 'r') o.replicas = number;
    if (c == 't') o.threads = number;
    if (c == 'k') o.trips = number;
    if (c == 'n') o.rounds = number;
    if (c == 'b') o.batch = number;
    if (c == 'v') o.plain_variables = true;
    if (c == '?') exit(2);
  }
  if (o.rounds < 1 || o.rounds > MOST_ROUNDS || o.trips < 1) exit(2);
  return o;
}

int main(int argc, char **argv) {
  const options o = parse(argc, argv);
  ls_runtime *runtime = NULL;
  check(
      ls_runtime_create(&(ls_runtime_options){.threads = o.threads}, &runtime));
  ls_runtime_make_current(runtime);
  ls_strategy *strategy = NULL;
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(o.replicas)}, &strategy));
  const ls_model_type *type = ls_model_find(o.model);
  if (type == NULL) exit(2);
  ls_nest batch = ls_none(), args = ls_none();
  check(ls_model_synthetic_batch(type, o.batch > 0 ? o.batch : type->batch_size,
                                 &batch));
  ls_nest parts[2];
  for (size_t i = 0; i < 2; ++i)
    check(ls_strategy_split(strategy, ls_nest_as_array(ls_nest_item(batch, i)),
                            &parts[i]));
  args = LS_TUPLE(parts[0], parts[1]);
  contestant *all = calloc(WAYS, sizeof(*all));
  if (all == NULL) exit(1);
  for (int w = 0; w < WAYS; ++w)
    make(&all[w], (way)w, &o, strategy);
  for (int i = -1; i < o.rounds; ++i)
    for (int w = 0; w < WAYS; ++w) {
      const double seconds = run(&all[w], strategy, args);
      if (i >= 0) all[w].times[i] = seconds;
    }
  print(all, &o);
  for (int w = 0; w < WAYS; ++w)
    release(&all[w]);
  free(all);
  ls_nest_release(args);
  ls_nest_release(batch);
  ls_strategy_release(strategy);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}
