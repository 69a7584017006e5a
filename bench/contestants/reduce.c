// SPDX-License-Identifier: Apache-2.0
//
// Our contestant in bench/all_reduce, a user of the public interface: one
// process whose replicas add up a vector each, in a loop of a compiled
// function. It answers what it is told on standard input, as reduce.py does:
//
//   run K BYTES   K all-reduces of vectors of so many bytes; the answer is one
//                 line {"ms": [...], "sum": S}, of one each, with S the first
//                 element of the sum
//
// and two questions that only it is asked:
//
//   call K BYTES  {"ms": [...]} of K calls of the function with no trip
//   copy K BYTES  {"ms": [...]} of K copies that read and write as many bytes
//                 as BYTES from each replica and BYTES to the result
//
// Usage: reduce --replicas N --threads N

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "lockstep/lockstep.h"

enum { MOST_CALLS = 10, MOST_TIMES = 10000 };

typedef struct contestant {
  int threads;
  ls_strategy *strategy;
  ls_function *function;
  ls_nest vectors, results;
  int64_t bytes;  // Of a vector.
} contestant;

// ---- The function ----------------------------------------------------------
typedef struct loop {
  ls_tensor trips, vector;
} loop;

static ls_nest goes_on(ls_nest values, void *user) {
  const loop *l = user;
  return ls_leaf(ls_less(ls_nest_tensor(values, 0), l->trips));
}

static ls_nest add_up(ls_nest values, void *user) {
  const loop *l = user;
  const ls_tensor sum = ls_all_reduce(LS_REDUCE_SUM, l->vector);
  return LS_TUPLE(ls_leaf(ls_add_scalar(ls_nest_tensor(values, 0), 1)),
                  ls_leaf(ls_slice_axis(sum, 0, 0, 1)));
}

// (trips, vector): the sum of the vectors of all, made so many times; the
// result is its first element, so that a call costs the same whatever the size.
static ls_nest step(ls_nest args, void *user) {
  (void)user;
  loop l = {ls_nest_tensor(args, 0), ls_nest_tensor(args, 1)};
  const ls_tensor zero = ls_broadcast(ls_scalar(LS_DTYPE_F32, 0), LS_SHAPE(1));
  return ls_while(
      goes_on, add_up, &l,
      LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I64, 0)), ls_leaf(zero)), 0);
}

static ls_status call(contestant *self, int64_t trips) {
  ls_array *count = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create_copy(LS_DTYPE_I64, LS_SCALAR, &trips, &count));
  const ls_nest args =
      LS_TUPLE(ls_nest_array(count), ls_nest_retain(self->vectors));
  const ls_status status = ls_strategy_run(
      self->strategy, ls_traced(self->function), args, &self->results);
  ls_nest_release(args);
  return status;
}

// ---- Vectors ---------------------------------------------------------------
// Replica r's holds r + 1. Another size starts afresh.
static ls_status make_vectors(contestant *self, int64_t bytes) {
  if (self->bytes == bytes) return ls_ok();
  ls_nest_release(self->vectors);
  ls_nest_release(self->results);
  self->vectors = self->results = ls_none();
  self->bytes = 0;
  const int64_t replicas = ls_strategy_num_replicas(self->strategy);
  const int64_t length = bytes / (int64_t)sizeof(float);
  ls_array *all = NULL;
  LS_RETURN_IF_ERROR(
      ls_array_create(LS_DTYPE_F32, LS_SHAPE(replicas * length), &all));
  float *at = ls_array_mutable_data(all);
  for (int64_t r = 0; r < replicas; ++r)
    for (int64_t i = 0; i < length; ++i)
      *at++ = (float)(r + 1);
  const ls_status status =
      ls_strategy_split(self->strategy, all, &self->vectors);
  ls_array_release(all);
  if (ls_status_is_ok(status)) self->bytes = bytes;
  return status;
}

static double first_of_sum(const contestant *self) {
  ls_nest sum = ls_nest_item(self->results, 1);
  if (ls_distributed_count(sum) > 0) sum = ls_distributed_component(sum, 0);
  return ls_array_f64(ls_nest_as_array(sum), 0);
}

// ---- Answers ---------------------------------------------------------------
// Some calls that share the trips.
static ls_status run(contestant *self, int64_t count, double *times,
                     size_t *num_times) {
  const int64_t calls = count < MOST_CALLS ? count : MOST_CALLS;
  for (int64_t i = 0; i < calls; ++i) {
    const int64_t trips = (i + 1) * count / calls - i * count / calls;
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(call(self, trips));
    times[i] = (machine_seconds() - before) / (double)trips;
  }
  *num_times = (size_t)calls;
  return ls_ok();
}

static ls_status run_empty(contestant *self, int64_t count, double *times,
                           size_t *num_times) {
  for (int64_t i = 0; i < count; ++i) {
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(call(self, 0));
    times[i] = machine_seconds() - before;
  }
  *num_times = (size_t)count;
  return ls_ok();
}

// A copy reads and writes each byte, so half as many are copied.
static ls_status run_copy(contestant *self, int64_t count, double *times,
                          size_t *num_times) {
  const int64_t replicas = ls_strategy_num_replicas(self->strategy);
  const size_t bytes = (size_t)(self->bytes * (replicas + 1)) / 2;
  char *memory = malloc(2 * bytes);
  if (memory == NULL) return ls_out_of_memory();
  memset(memory, 1, 2 * bytes);
  for (int64_t i = 0; i < count; ++i)
    times[i] = machine_copy_run(self->threads, memory, memory + bytes, bytes);
  free(memory);
  *num_times = (size_t)count;
  return ls_ok();
}

static ls_status answer_one(contestant *self, const char *order, int64_t count,
                            int64_t bytes, double *times) {
  const bool runs = strcmp(order, "run") == 0;
  size_t num_times = 0;
  LS_RETURN_IF_ERROR(make_vectors(self, bytes));
  LS_RETURN_IF_ERROR(runs ? run(self, count, times, &num_times)
                     : strcmp(order, "call") == 0
                         ? run_empty(self, count, times, &num_times)
                         : run_copy(self, count, times, &num_times));
  printf("{\"ms\": [");
  for (size_t i = 0; i < num_times; ++i)
    printf("%s%.6g", i > 0 ? "," : "", times[i] * 1e3);
  if (runs)
    printf("], \"sum\": %.9g}\n", first_of_sum(self));
  else
    printf("]}\n");
  fflush(stdout);
  return ls_ok();
}

static ls_status answer(contestant *self) {
  static double times[MOST_TIMES];
  char line[64], order[8];
  ls_status status = ls_ok();
  printf("{}\n");
  fflush(stdout);
  while (ls_status_is_ok(status) && fgets(line, sizeof(line), stdin) != NULL) {
    long long count = 0, bytes = 0;
    if (sscanf(line, "%7s %lld %lld", order, &count, &bytes) != 3 ||
        count < 1 || bytes < (int)sizeof(float) ||
        (strcmp(order, "run") != 0 && count > MOST_TIMES))
      status = ls_invalid_argument("expected 'run K BYTES', got '%s'", line);
    else
      status = answer_one(self, order, count, bytes, times);
  }
  return status;
}

// ---- Main ------------------------------------------------------------------
static ls_status serve(int replicas, int threads) {
  ls_runtime *runtime = NULL;
  LS_RETURN_IF_ERROR(
      ls_runtime_create(&(ls_runtime_options){.threads = threads}, &runtime));
  ls_runtime_make_current(runtime);
  contestant self = {.threads = threads};
  ls_status status = ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)},
      &self.strategy);
  if (ls_status_is_ok(status))
    status = ls_function_create(
        &(ls_function_options){.call = step, .name = "add_up"}, &self.function);
  if (ls_status_is_ok(status)) status = answer(&self);
  ls_nest_release(self.results);
  ls_nest_release(self.vectors);
  if (self.function != NULL) ls_function_release(self.function);
  if (self.strategy != NULL) ls_strategy_release(self.strategy);
  ls_runtime_make_current(NULL);
  return ls_status_join(status, ls_runtime_destroy(runtime));
}

int main(int argc, char **argv) {
  if (argc != 5 || strcmp(argv[1], "--replicas") != 0 ||
      strcmp(argv[3], "--threads") != 0) {
    fprintf(stderr, "usage: reduce --replicas N --threads N\n");
    return 2;
  }
  const ls_status status = serve(atoi(argv[2]), atoi(argv[4]));
  if (ls_status_is_ok(status)) return EXIT_SUCCESS;
  fprintf(stderr, "%s: %s\n", ls_code_name(ls_status_code(status)),
          ls_status_message(status));
  ls_status_free(status);
  return EXIT_FAILURE;
}
