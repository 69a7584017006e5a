// SPDX-License-Identifier: Apache-2.0
//
// The loop of bench/languages in C: a step of 8 replicas of a dense layer, with
// its batch and its loss. Prints, for each round, seconds of wall time, of this
// thread's running, of its waiting for a core, and of all threads' CPU time.
//
// Usage: language_step STEPS ROUNDS INPUTS
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "lockstep/full.h"

typedef struct net {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static ls_nest make_step(ls_nest args, void *user) {
  const net *n = user;
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_dense_layer_apply(n->layer, ls_nest_tensor(args, 0)),
      ls_nest_tensor(args, 1));
  ls_optimizer_minimize(n->optimizer, loss);
  return ls_leaf(ls_all_reduce(LS_REDUCE_MEAN, loss));
}

typedef struct times {
  double wall, run, wait, cpu;
} times;

static double read_clock(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static times read_times(void) {
  long long run = 0, wait = 0;
  FILE *file = fopen("/proc/thread-self/schedstat", "r");
  if (file == NULL || fscanf(file, "%lld %lld", &run, &wait) != 2) exit(1);
  fclose(file);
  return (times){read_clock(CLOCK_MONOTONIC), 1e-9 * (double)run,
                 1e-9 * (double)wait, read_clock(CLOCK_PROCESS_CPUTIME_ID)};
}

static ls_status run_steps(ls_strategy *strategy, ls_function *function,
                           ls_iterator *batches, int steps, double *sum) {
  ls_nest batch = ls_none(), loss = ls_none();
  ls_status status = ls_ok();
  for (int i = 0; i < steps && ls_status_is_ok(status); ++i) {
    status = ls_iterator_next(batches, &batch);
    if (ls_status_is_ok(status))
      status = ls_strategy_run(strategy, ls_traced(function), batch, &loss);
    *sum += ls_nest_number(ls_distributed_component(loss, 0));
  }
  ls_nest_release(batch);
  ls_nest_release(loss);
  return status;
}

static ls_iterator *read_examples(ls_bag *bag, int inputs) {
  ls_dataset *data = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 64, .shape = LS_SHAPE(inputs), .num_classes = 10});
  data = ls_dataset_batch(ls_dataset_repeat(data, -1),
                          &(ls_batch_options){.size = 64});
  return ls_iterator_in(bag, ls_dataset_in(bag, ls_dataset_parts(data, 8)));
}

static ls_status measure(ls_bag *bag, int steps, int rounds, int inputs) {
  net n = {ls_dense_layer_in(bag, .inputs = inputs, .units = 10),
           ls_sgd_in(bag, .learning_rate = 0.01)};
  ls_strategy *strategy =
      ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(8));
  ls_function *function = ls_function_in(bag, .call = make_step, .user = &n);
  ls_iterator *batches = read_examples(bag, inputs);
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  double sum = 0;
  for (int round = -1; round < rounds; ++round) {  // The first one traces.
    const times from = read_times();
    LS_RETURN_IF_ERROR(run_steps(strategy, function, batches, steps, &sum));
    const times to = read_times();
    if (round >= 0)
      printf("%.9f %.9f %.9f %.9f\n", to.wall - from.wall, to.run - from.run,
             to.wait - from.wait, to.cpu - from.cpu);
  }
  return ls_ok();
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  ls_bag bag = {0};
  ls_runtime *runtime = NULL;
  ls_status status =
      ls_runtime_create(&(ls_runtime_options){.threads = 1}, &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = measure(&bag, atoi(argv[1]), atoi(argv[2]), atoi(argv[3]));
    ls_bag_empty(&bag);
    ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  const bool ok = ls_status_is_ok(status);
  if (!ok) fprintf(stderr, "%s\n", ls_status_message(status));
  ls_status_free(status);
  return ok ? 0 : 1;
}
