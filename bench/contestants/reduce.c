// SPDX-License-Identifier: Apache-2.0
//
// Our contestant in bench/all_reduce, a user of the public interface: one
// process whose replicas add up a vector each, in a compiled function that is
// called for each sum. It answers what it is told on standard input, as
// reduce.py does:
//
//   run K BYTES   K all-reduces of vectors of so many bytes; the answer is one
//                 line {"ms": [...], "sum": S}, of one each, with S the first
//                 element of the sum
//
// and one question that only it is asked:
//
//   bound K BYTES  {"ms": [...]} of K times reading as many bytes as BYTES from
//                  each replica, from one end to the other, and writing BYTES
//
// Usage: reduce --replicas N --threads N

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "lockstep/lockstep.h"

enum { MOST_TIMES = 10000 };

typedef struct contestant {
  int threads;
  ls_strategy *strategy;
  ls_function *function;
  ls_variable *sum;  // Where it goes, as a gradient goes to a variable.
  ls_nest vectors, results;
  int64_t bytes;  // Of a vector.
} contestant;

// ---- The function ----------------------------------------------------------
static ls_nest step(ls_nest args, void *user) {
  const contestant *self = user;
  // A write adds up what the replicas write.
  const ls_tensor sum = ls_variable_assign(self->sum, ls_nest_tensor(args, 0));
  return ls_leaf(ls_slice_axis(sum, 0, 0, 1));
}

// A variable of so many elements, and a function that puts sums there.
static ls_status make_function(contestant *self, int64_t length) {
  if (self->function != NULL) ls_function_release(self->function);
  if (self->sum != NULL) ls_variable_release(self->sum);
  self->function = NULL;
  self->sum = NULL;
  ls_status status = ls_ok();
  {
    LS_STRATEGY_SCOPE(self->strategy);
    const ls_variable_options options = {.name = "sum",
                                         .dtype = LS_DTYPE_F32,
                                         .shape = LS_SHAPE(length),
                                         .aggregation = LS_AGGREGATION_SUM};
    status = ls_variable_create(&options, &self->sum);
  }
  LS_RETURN_IF_ERROR(status);
  return ls_function_create(
      &(ls_function_options){.call = step, .name = "add_up", .user = self},
      &self->function);
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
  ls_status status = ls_strategy_split(self->strategy, all, &self->vectors);
  ls_array_release(all);
  if (ls_status_is_ok(status)) status = make_function(self, length);
  if (ls_status_is_ok(status)) self->bytes = bytes;
  return status;
}

static double first_of_sum(const contestant *self) {
  ls_nest sum = self->results;
  if (sum.kind == LS_KIND_DISTRIBUTED) sum = ls_distributed_component(sum, 0);
  return ls_array_f64(ls_nest_as_array(sum), 0);
}

// ---- Answers ---------------------------------------------------------------
// The times of the last ones, if there are many.
static ls_status run(contestant *self, int64_t count, double *times,
                     size_t *num_times) {
  const ls_nest args = LS_TUPLE(ls_nest_retain(self->vectors));
  ls_status status = ls_ok();
  for (int64_t i = 0; i < count && ls_status_is_ok(status); ++i) {
    const double before = machine_seconds();
    status = ls_strategy_run(self->strategy, ls_traced(self->function), args,
                             &self->results);
    times[i % MOST_TIMES] = machine_seconds() - before;
  }
  ls_nest_release(args);
  *num_times = (size_t)(count < MOST_TIMES ? count : MOST_TIMES);
  return status;
}

// In memory of the kind that the vectors are in.
static ls_status run_bound(contestant *self, int64_t count, double *times,
                           size_t *num_times) {
  const int replicas = (int)ls_strategy_num_replicas(self->strategy);
  const int64_t length = self->bytes / (int64_t)sizeof(float);
  ls_array *memory = NULL;
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_F32, LS_SHAPE((replicas + 1) * length), &memory));
  float *from = ls_array_mutable_data(memory);
  for (int64_t i = 0; i < count; ++i)
    times[i] = machine_sum_run(self->threads, from + replicas * length, from,
                               (size_t)self->bytes, replicas);
  ls_array_release(memory);
  *num_times = (size_t)count;
  return ls_ok();
}

static ls_status answer_one(contestant *self, const char *order, int64_t count,
                            int64_t bytes, double *times) {
  const bool runs = strcmp(order, "run") == 0;
  size_t num_times = 0;
  LS_RETURN_IF_ERROR(make_vectors(self, bytes));
  LS_RETURN_IF_ERROR(runs ? run(self, count, times, &num_times)
                          : run_bound(self, count, times, &num_times));
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
  if (ls_status_is_ok(status)) status = answer(&self);
  ls_nest_release(self.results);
  ls_nest_release(self.vectors);
  if (self.function != NULL) ls_function_release(self.function);
  if (self.sum != NULL) ls_variable_release(self.sum);
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
