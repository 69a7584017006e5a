// SPDX-License-Identifier: Apache-2.0
//
// A training step on several ranks of some threads each, against one process
// with as many threads in all. Both take turns, while the other ranks wait. The
// ranks are the processes of a launcher (mpirun -n 2 ranks_bench), else threads
// of this process. Ratios are medians over the rounds.
//
// Open MPI binds each process to one core, also the single one: give mpirun the
// option --bind-to none.
//
// Usage: ranks_bench [-m MODEL] [-r REPLICAS] [-p RANKS] [-t THREADS]
//                    [-k STEPS] [-n ROUNDS] [-b BATCH] [-T TRACE] [-P]
//   -T  writes a trace of rank 0
//   -P  prints rank 0's plan

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/trace.h"
#include "common/machine.h"
#include "lockstep/communicator.h"
#include "lockstep/full.h"
#include "lockstep/mpi.h"

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
  ls_runtime_make_current(c->runtime);
  ls_nest_release(c->result);
  ls_nest_release(c->args);
  ls_function_release(c->function);
  ls_model_destroy(&c->model);
  ls_strategy_release(c->strategy);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(c->runtime));
}

// ---- Turns -----------------------------------------------------------------
// Waits for all ranks.
static void meet(ls_communicator *communicator) {
  const ls_exchange_name name = {.merge = UINT32_MAX};
  char *all = calloc((size_t)communicator->ranks, 1);
  if (all == NULL) exit(1);
  check(ls_communicator_gather(communicator, &name, all, 1));
  free(all);
}

static double time_steps(contestant *c) {
  ls_runtime_make_current(c->runtime);
  const double begin = machine_seconds();
  run_steps(c);
  return (machine_seconds() - begin) / options.steps;
}

// Runs a round: rank 0 by itself, then all ranks.
static void run_round(contestant *c, contestant *single,
                      ls_communicator *communicator, int round) {
  const double time = single != NULL ? time_steps(single) : 0;
  meet(communicator);
  const int64_t before = ls_runtime_waited(c->runtime, LS_WAIT_RANKS);
  const double shared_time = time_steps(c);
  meet(communicator);
  if (single == NULL || round < 0) return;
  alone[round] = time;
  ranked[round] = shared_time;
  waited[round] =
      (double)(ls_runtime_waited(c->runtime, LS_WAIT_RANKS) - before) * 1e-9 /
      options.steps;
}

// Runs steps of all ranks while rank 0 is traced.
static void run_traced(contestant *c, bool is_first) {
  ls_trace *trace = NULL;
  ls_runtime_make_current(c->runtime);
  if (is_first)
    check(ls_trace_begin(c->runtime, &(ls_trace_options){.path = options.trace},
                         &trace));
  run_steps(c);
  if (trace == NULL) return;
  ls_trace_end(trace);
  check(ls_trace_write(trace, NULL));
  ls_trace_destroy(trace);
}

static ls_status run_rank(ls_communicator *communicator, void *user) {
  const bool is_first = communicator->rank == 0;
  contestant c, single;
  (void)user;
  if (is_first) options.ranks = communicator->ranks;
  if (is_first) make(&single, options.threads * options.ranks, NULL);
  make(&c, options.threads, communicator);
  for (int i = -1; i < options.rounds; ++i)
    run_round(&c, is_first ? &single : NULL, communicator, i);
  if (options.trace != NULL) run_traced(&c, is_first);
  if (is_first) {
    print_memory(&single, "alone: ", false);
    print_memory(&c, "a rank:", options.prints_plan);
    release(&single);
  }
  release(&c);
  return ls_ok();
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
  if (ls_mpi_find_launcher(NULL).name == NULL) {
    check(ls_standin_run(options.ranks, run_rank, NULL));
    print_times();
    return 0;
  }
  ls_communicator *ranks = NULL;
  check(ls_mpi_open(NULL, &ranks));
  check(run_rank(ranks, NULL));
  if (ranks->rank == 0) print_times();
  check(ls_mpi_close(ranks));
  return 0;
}
