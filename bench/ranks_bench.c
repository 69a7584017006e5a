// SPDX-License-Identifier: Apache-2.0
//
// A training step on several ranks of some threads each, against one process
// with as many threads in all. Both take turns; the ranks are threads of this
// process (the stand-in). Ratios are medians over the rounds.
//
// Usage: ranks_bench [-m MODEL] [-r REPLICAS] [-p RANKS] [-t THREADS]
//                    [-k STEPS] [-n ROUNDS] [-b BATCH] [-T TRACE] [-P]
//   -T  writes a trace of rank 0
//   -P  prints rank 0's plan

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace.h"
#include "common/machine.h"
#include "lockstep/communicator.h"
#include "lockstep/full.h"

enum { MOST_ROUNDS = 1000 };

static struct {
  const char *model, *trace;
  int replicas, ranks, threads, steps, rounds;
  int64_t batch;
  bool prints_plan;
} options = {.model = "mlp",
             .replicas = 8,
             .ranks = 2,
             .threads = 1,
             .steps = 20,
             .rounds = 15};

static pthread_barrier_t turn;  // All ranks and the single process.
static double alone[MOST_ROUNDS], ranked[MOST_ROUNDS], waited[MOST_ROUNDS];

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "ranks_bench: %s\n", ls_status_message(status));
  exit(1);
}

// ---- A contestant ----------------------------------------------------------
typedef struct contestant {
  ls_runtime *runtime;
  ls_strategy *strategy;
  ls_model model;
  ls_function *function;
  ls_nest args, result;
} contestant;

static ls_nest split_batch(const contestant *c, const ls_model_type *type) {
  ls_nest batch = ls_none(), parts[2];
  check(ls_model_synthetic_batch(
      type, options.batch > 0 ? options.batch : type->batch_size, &batch));
  for (size_t i = 0; i < 2; ++i)
    check(ls_strategy_split(
        c->strategy, ls_nest_as_array(ls_nest_item(batch, i)), &parts[i]));
  ls_nest_release(batch);
  return LS_TUPLE(parts[0], parts[1]);
}

static void make(contestant *c, int threads, ls_communicator *communicator) {
  *c = (contestant){.args = ls_none(), .result = ls_none()};
  check(ls_runtime_create(
      &(ls_runtime_options){.threads = threads, .communicator = communicator},
      &c->runtime));
  ls_runtime_make_current(c->runtime);
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(options.replicas)},
      &c->strategy));
  const ls_model_type *type = ls_model_find(options.model);
  if (type == NULL) exit(2);
  {
    LS_STRATEGY_SCOPE(c->strategy);
    check(ls_model_create(type, NULL, &c->model));
  }
  check(ls_function_create(
      &(ls_function_options){.call = type->train_step, .user = c->model.self},
      &c->function));
  c->args = split_batch(c, type);
}

static void run_steps(contestant *c) {
  for (int i = 0; i < options.steps; ++i)
    check(ls_strategy_run(c->strategy, ls_traced(c->function), c->args,
                          &c->result));
}

static void print_memory(const contestant *c, const char *who, bool in_full) {
  char *plan = NULL;
  check(ls_function_print_plan(c->function, &plan));
  const char *bytes = strstr(plan, "bytes:");
  if (bytes != NULL) printf("%s %.*s\n", who, (int)strcspn(bytes, "\n"), bytes);
  if (in_full) printf("%s\n", plan);
  ls_text_release(plan);
}

static void release(contestant *c) {
  ls_nest_release(c->result);
  ls_nest_release(c->args);
  ls_function_release(c->function);
  ls_model_destroy(&c->model);
  ls_strategy_release(c->strategy);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(c->runtime));
}

// ---- Turns -----------------------------------------------------------------
// Runs the rounds of a rank. Its time is that of all, which begin together.
static void run_rank_rounds(contestant *c, bool is_first) {
  for (int i = -1; i < options.rounds; ++i) {
    pthread_barrier_wait(&turn);  // The single process has had its turn.
    const double begin = machine_seconds();
    const int64_t before = ls_runtime_waited(c->runtime, LS_WAIT_RANKS);
    run_steps(c);
    if (is_first && i >= 0) {
      ranked[i] = (machine_seconds() - begin) / options.steps;
      waited[i] =
          (double)(ls_runtime_waited(c->runtime, LS_WAIT_RANKS) - before) *
          1e-9 / options.steps;
    }
    pthread_barrier_wait(&turn);
  }
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  const bool is_first = communicator->rank == 0;
  contestant c;
  (void)user;
  make(&c, options.threads, communicator);
  run_steps(&c);
  run_rank_rounds(&c, is_first);
  ls_trace *trace = NULL;
  if (is_first && options.trace != NULL)
    check(ls_trace_begin(c.runtime, &(ls_trace_options){.path = options.trace},
                         &trace));
  run_steps(&c);
  if (trace != NULL) {
    ls_trace_end(trace);
    check(ls_trace_write(trace, NULL));
    ls_trace_destroy(trace);
  }
  if (is_first) print_memory(&c, "a rank:", options.prints_plan);
  release(&c);
  return ls_ok();
}

static void *run_ranks(void *user) {
  (void)user;
  check(ls_standin_run(options.ranks, run_rank, NULL));
  return NULL;
}

static void run_alone(void) {
  contestant c;
  make(&c, options.threads * options.ranks, NULL);
  run_steps(&c);
  for (int i = -1; i < options.rounds; ++i) {
    const double begin = machine_seconds();
    run_steps(&c);
    if (i >= 0) alone[i] = (machine_seconds() - begin) / options.steps;
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
  }
  print_memory(&c, "alone: ", false);
  release(&c);
}

// ---- Figures ---------------------------------------------------------------
static double median(const double *values) {
  double copy[MOST_ROUNDS];
  memcpy(copy, values, (size_t)options.rounds * sizeof(*copy));
  return machine_median(copy, (size_t)options.rounds);
}

static void print_times(void) {
  double ratios[MOST_ROUNDS];
  for (int i = 0; i < options.rounds; ++i)
    ratios[i] = ranked[i] / alone[i];
  printf("%s, %d replicas: %d ranks of %d threads %.1f us (waits %.1f), alone "
         "%.1f us, ratio %.3f\n",
         options.model, options.replicas, options.ranks, options.threads,
         median(ranked) * 1e6, median(waited) * 1e6, median(alone) * 1e6,
         median(ratios));
}

static void parse(int argc, char **argv) {
  int c = 0;
  while ((c = getopt(argc, argv, "m:r:p:t:k:n:b:T:P")) != -1) {
    const int number = optarg == NULL ? 0 : atoi(optarg);
    if (c == 'm') options.model = optarg;
    if (c == 'r') options.replicas = number;
    if (c == 'p') options.ranks = number;
    if (c == 't') options.threads = number;
    if (c == 'k') options.steps = number;
    if (c == 'n') options.rounds = number;
    if (c == 'b') options.batch = number;
    if (c == 'T') options.trace = optarg;
    if (c == 'P') options.prints_plan = true;
    if (c == '?') exit(2);
  }
  if (options.rounds < 1 || options.rounds > MOST_ROUNDS || options.steps < 1 ||
      options.ranks < 1 || options.threads < 1)
    exit(2);
}

int main(int argc, char **argv) {
  parse(argc, argv);
  pthread_t ranks;
  if (pthread_barrier_init(&turn, NULL, (unsigned)options.ranks + 1) != 0 ||
      pthread_create(&ranks, NULL, run_ranks, NULL) != 0)
    return 1;
  run_alone();
  pthread_join(ranks, NULL);
  print_times();
  return 0;
}
