// SPDX-License-Identifier: Apache-2.0
//
// A training step of a mirrored strategy, which gets its batch as arguments,
// against a loop of many steps on the cores of a pod, which take theirs from
// infeeds that a thread feeds. The contestants have a net each and take turns;
// a round is as many steps as a loop has. Ratios are medians over the rounds,
// and least to least, of the time of a step; memory is that of a process that
// does the one or the other alone.
//
// Usage: tpu_loop_bench [-m MODEL] [-r REPLICAS] [-t THREADS] [-k TRIPS]
//                       [-n ROUNDS] [-b BATCH] [-d DEPTH]
//   -d  tuples that an infeed holds (default 2)

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MOST_ROUNDS = 1000, MOST_REPLICAS = 4096, LEAVES = 2 };

typedef struct options {
  const char *model;
  int replicas, threads, trips, rounds, depth;
  int64_t batch;
} options;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "tpu_loop_bench: %s\n", ls_status_message(status));
  exit(1);
}

// ---- Contestants -----------------------------------------------------------
typedef enum way { STEP, LOOP, WAYS } way;
static const char *const names[] = {"step", "loop"};

typedef struct contestant {
  way way;
  const options *options;
  ls_runtime *runtime;
  ls_strategy *strategy;
  ls_model model;
  ls_function *function;
  ls_nest args, results;
  const char *devices[MOST_REPLICAS];
  double times[MOST_ROUNDS];
} contestant;

static ls_tensor step_once(contestant *c, ls_nest args) {
  const ls_nest made = c->model.type->train_step(args, c->model.self);
  const ls_tensor loss = ls_nest_tensor(made, 0);
  ls_nest_release(made);
  return loss;
}

static ls_nest trip(ls_nest values, void *user) {
  const ls_nest args = LS_TUPLE(ls_leaf(ls_nest_tensor(values, 1)),
                                ls_leaf(ls_nest_tensor(values, 2)));
  const ls_tensor loss = step_once(user, args);
  ls_nest_release(args);
  return LS_LIST(ls_leaf(loss));
}

static const ls_array *part(const contestant *c, size_t leaf, size_t replica) {
  const ls_nest item = ls_nest_item(c->args, leaf);
  return ls_nest_as_array(item.kind == LS_KIND_DISTRIBUTED
                              ? ls_distributed_component(item, replica)
                              : item);
}

static ls_nest steps(ls_nest args, void *user) {
  contestant *c = user;
  ls_dtype dtypes[LEAVES];
  ls_shape shapes[LEAVES];
  ls_nest outputs = ls_none();
  ls_training_loop loop = {.body = trip, .user = c};
  if (c->way == STEP) return ls_leaf(step_once(c, args));
  for (size_t i = 0; i < LEAVES; ++i) {
    dtypes[i] = ls_array_dtype(part(c, i, 0));
    shapes[i] = ls_array_shape(part(c, i, 0));
    shapes[i].dim[0] *= c->options->replicas;
  }
  check(ls_infeed_queue_create(&(ls_infeed_options){.dtypes = dtypes,
                                                    .num_dtypes = LEAVES,
                                                    .shapes = shapes,
                                                    .num_shapes = LEAVES},
                               &loop.infeed));
  const ls_nest inputs = LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 0)));
  const ls_status status =
      ls_training_repeat(c->options->trips, &loop, inputs, &outputs);
  ls_infeed_queue_release(loop.infeed);
  ls_nest_release(inputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static void *feed(void *user) {
  const contestant *c = user;
  ls_runtime_make_current(c->runtime);
  for (int k = 0; k < c->options->trips; ++k)
    // The last first, as a training run does: one wait does for all.
    for (size_t r = (size_t)c->options->replicas; r-- > 0;) {
      const ls_nest tuple = LS_TUPLE(
          ls_nest_array(ls_array_retain((ls_array *)(uintptr_t)part(c, 0, r))),
          ls_nest_array(ls_array_retain((ls_array *)(uintptr_t)part(c, 1, r))));
      check(ls_infeed_put(c->devices[r], tuple));
      ls_nest_release(tuple);
    }
  ls_runtime_make_current(NULL);
  return NULL;
}

static void make_strategy(contestant *c) {
  const int replicas = c->options->replicas;
  size_t count = 0;
  char name[64];
  ls_tpu_resolver *resolver = NULL;
  if (c->way == STEP) {
    check(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)},
        &c->strategy));
    return;
  }
  snprintf(name, sizeof(name), "virtual:%dx1,cores=1", replicas);
  check(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = name,
                                 .queue_depth = c->options->depth},
      &resolver));
  check(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                               &c->strategy));
  ls_tpu_resolver_release(resolver);
  check(ls_strategy_worker_devices(c->strategy, c->devices, MOST_REPLICAS,
                                   &count));
}

static void make(contestant *c, way w, const options *o, ls_runtime *runtime) {
  ls_nest batch = ls_none();
  c->way = w;
  c->options = o;
  c->runtime = runtime;
  c->results = ls_none();
  make_strategy(c);
  const ls_model_type *type = ls_model_find(o->model);
  check(ls_model_create(type, NULL, &c->model));
  check(ls_model_synthetic_batch(type, o->batch, &batch));
  check(ls_train_split(c->strategy, batch, &c->args));
  ls_nest_release(batch);
  check(ls_function_create(&(ls_function_options){.call = steps, .user = c},
                           &c->function));
}

static void release(contestant *c) {
  ls_nest_release(c->results);
  ls_nest_release(c->args);
  ls_function_release(c->function);
  ls_model_destroy(&c->model);
  ls_strategy_release(c->strategy);
}

// Seconds of a step.
static double run(contestant *c) {
  const int calls = c->way == LOOP ? 1 : c->options->trips;
  const ls_nest args = c->way == LOOP ? ls_none() : c->args;
  pthread_t feeder;
  const double begin = machine_seconds();
  if (c->way == LOOP && pthread_create(&feeder, NULL, feed, c) != 0) exit(1);
  for (int i = 0; i < calls; ++i)
    check(ls_strategy_run(c->strategy, ls_traced(c->function), args,
                          &c->results));
  if (c->way == LOOP) pthread_join(feeder, NULL);
  return (machine_seconds() - begin) / c->options->trips;
}

static void end(ls_runtime *runtime) {
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
}

static ls_runtime *begin(const options *o) {
  ls_runtime *runtime = NULL;
  check(ls_runtime_create(&(ls_runtime_options){.threads = o->threads},
                          &runtime));
  ls_runtime_make_current(runtime);
  return runtime;
}

// ---- Figures ---------------------------------------------------------------
// MiB of a process that runs two rounds of it, which need not be long.
static double memory_of(way w, const options *all) {
  options few = *all;
  const options *o = &few;
  if (few.trips > 10) few.trips = 10;
  struct rusage usage;
  int how = 0;
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) {
    contestant *c = calloc(1, sizeof(*c));
    ls_runtime *runtime = begin(o);
    if (c == NULL) _exit(1);
    make(c, w, o, runtime);
    for (int i = 0; i < 2; ++i)
      (void)run(c);
    _exit(0);
  }
  if (child < 0 || wait4(child, &how, 0, &usage) != child || how != 0) exit(1);
  return (double)usage.ru_maxrss / 1024;
}

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

static void print(const contestant *all, const options *o,
                  const double memory[WAYS]) {
  const contestant *plain = &all[STEP];
  printf("%-6s %12s %12s %10s %10s %10s %10s\n", "", "median us", "least us",
         "median", "least", "MiB", "MiB ratio");
  for (int w = 0; w < WAYS; ++w) {
    double ratios[MOST_ROUNDS];
    for (int i = 0; i < o->rounds; ++i)
      ratios[i] = all[w].times[i] / plain->times[i];
    printf("%-6s %12.2f %12.2f %10.4f %10.4f %10.0f %10.3f\n", names[w],
           median(all[w].times, o->rounds) * 1e6,
           least(all[w].times, o->rounds) * 1e6, median(ratios, o->rounds),
           least(all[w].times, o->rounds) / least(plain->times, o->rounds),
           memory[w], memory[w] / memory[STEP]);
  }
  printf("%s, %d replicas, batches of %lld, %d steps a loop, %d rounds\n",
         o->model, o->replicas, (long long)o->batch, o->trips, o->rounds);
}

static options parse(int argc, char **argv) {
  options o = {"mlp", 8, 0, 100, 15, 2, 0};
  int c = 0;
  while ((c = getopt(argc, argv, "m:r:t:k:n:b:d:")) != -1) {
    const int number = optarg == NULL ? 0 : atoi(optarg);
    if (c == 'm') o.model = optarg;
    if (c == 'r') o.replicas = number;
    if (c == 't') o.threads = number;
    if (c == 'k') o.trips = number;
    if (c == 'n') o.rounds = number;
    if (c == 'b') o.batch = number;
    if (c == 'd') o.depth = number;
    if (c == '?') exit(2);
  }
  const ls_model_type *type = ls_model_find(o.model);
  if (type == NULL || o.rounds < 1 || o.rounds > MOST_ROUNDS || o.trips < 1 ||
      o.replicas < 1 || o.replicas > MOST_REPLICAS)
    exit(2);
  if (o.batch == 0) o.batch = type->batch_size;
  if (o.batch < o.replicas) o.batch = o.replicas;
  o.batch -= o.batch % o.replicas;  // A loop's parts are of one size.
  return o;
}

int main(int argc, char **argv) {
  const options o = parse(argc, argv);
  double memory[WAYS];
  for (int w = 0; w < WAYS; ++w)
    memory[w] = memory_of((way)w, &o);
  ls_runtime *runtime = begin(&o);
  contestant *all = calloc(WAYS, sizeof(*all));
  if (all == NULL) exit(1);
  for (int w = 0; w < WAYS; ++w)
    make(&all[w], (way)w, &o, runtime);
  for (int i = -1; i < o.rounds; ++i)
    for (int w = 0; w < WAYS; ++w) {
      const double seconds = run(&all[w]);
      if (i >= 0) all[w].times[i] = seconds;
    }
  print(all, &o, memory);
  for (int w = 0; w < WAYS; ++w)
    release(&all[w]);
  free(all);
  end(runtime);
  return 0;
}
