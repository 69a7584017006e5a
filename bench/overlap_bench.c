// SPDX-License-Identifier: Apache-2.0
//
// A call of the host that takes so long, beside work of the device that takes
// as long and does not need it: together, against the work alone.
//
// Usage: overlap_bench [-r REPLICAS] [-t THREADS] [-l MS] [-n ROUNDS] [-o
// TRACE]
//   -l  what both take, in milliseconds; default 5

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/lockstep.h"
#include "lockstep/trace.h"

enum { MOST_ROUNDS = 1000, WIDTH = 96 };

static double call_seconds;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "overlap_bench: %s\n", ls_status_message(status));
  exit(1);
}

// Computes all the while: it needs a core of its own. All replicas in one call.
static ls_status take_time(ls_host_call *call) {
  const double end = machine_seconds() + call_seconds;
  while (machine_seconds() < end) {
  }
  ls_host_done(call, ls_ok());
  return ls_ok();
}

static const ls_host_kernel slow_call = {
    .name = "slow_call", .start = take_time, .flags = LS_HOST_ALL};

typedef struct contestant {
  bool calls;
  int products;
  ls_function *function;
  ls_nest results;
  double times[MOST_ROUNDS];
} contestant;

static ls_nest step(ls_nest args, void *user) {
  const contestant *c = user;
  ls_tensor x = ls_nest_tensor(args, 0);
  if (c->calls) (void)ls_host_call_add(&slow_call, NULL, &x, 1);
  for (int i = 0; i < c->products; ++i)
    x = ls_tanh(ls_matmul(x, x));
  return ls_leaf(ls_reduce_sum(x, LS_ALL_AXES));
}

static void make(contestant *c, bool calls, int products) {
  c->calls = calls;
  c->products = products;
  c->results = ls_none();
  check(ls_function_create(&(ls_function_options){.call = step, .user = c},
                           &c->function));
}

static void release(contestant *c) {
  ls_nest_release(c->results);
  ls_function_release(c->function);
}

static double run(contestant *c, ls_strategy *strategy, ls_nest args) {
  const double begin = machine_seconds();
  check(ls_strategy_run(strategy, ls_traced(c->function), args, &c->results));
  return machine_seconds() - begin;
}

// So many products take about as long as the call.
static int calibrate(ls_strategy *strategy, ls_nest args) {
  enum { SOME = 20, TIMES = 20 };
  static contestant c;
  make(&c, false, SOME);
  for (int i = 0; i < TIMES; ++i)
    c.times[i] = run(&c, strategy, args);
  release(&c);
  const double each = machine_median(c.times, TIMES) / SOME;
  const int count = (int)(call_seconds / each + 0.5);
  return count < 1 ? 1 : count;
}

int main(int argc, char **argv) {
  int replicas = 8, threads = 1, rounds = 50, option = 0;
  const char *path = NULL;
  call_seconds = 5e-3;
  while ((option = getopt(argc, argv, "r:t:l:n:o:")) != -1) {
    if (option == 'r') replicas = atoi(optarg);
    if (option == 't') threads = atoi(optarg);
    if (option == 'l') call_seconds = atof(optarg) * 1e-3;
    if (option == 'n') rounds = atoi(optarg);
    if (option == 'o') path = optarg;
    if (option == '?') return 2;
  }
  if (rounds < 1 || rounds > MOST_ROUNDS) return 2;
  ls_runtime *runtime = NULL;
  check(ls_runtime_create(&(ls_runtime_options){.threads = threads}, &runtime));
  ls_runtime_make_current(runtime);
  ls_strategy *strategy = NULL;
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  ls_array *array = NULL;
  ls_nest x = ls_none();
  check(
      ls_array_create(LS_DTYPE_F32, LS_SHAPE(replicas * WIDTH, WIDTH), &array));
  check(ls_strategy_split(strategy, array, &x));
  ls_array_release(array);
  const ls_nest args = LS_LIST(x);

  static contestant alone, beside;
  const int products = calibrate(strategy, args);
  make(&alone, false, products);
  make(&beside, true, products);
  ls_trace *trace = NULL;
  if (path != NULL)
    check(ls_trace_begin(runtime, &(ls_trace_options){.path = path}, &trace));
  for (int i = 0; i < rounds; ++i) {
    alone.times[i] = run(&alone, strategy, args);
    beside.times[i] = run(&beside, strategy, args);
  }
  if (trace != NULL) {
    ls_trace_end(trace);
    check(ls_trace_write(trace, NULL));
    ls_trace_destroy(trace);
  }
  printf("%d replicas, a call of %.2f ms, %d rounds: work alone %.3f ms, with "
         "the call beside it %.3f ms (medians)\n",
         replicas, call_seconds * 1e3, rounds,
         machine_median(alone.times, (size_t)rounds) * 1e3,
         machine_median(beside.times, (size_t)rounds) * 1e3);
  release(&alone);
  release(&beside);
  ls_nest_release(args);
  ls_strategy_release(strategy);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}
