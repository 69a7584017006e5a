// SPDX-License-Identifier: Apache-2.0
//
// Our contestant in bench/functions: computes one elementary function of arrays
// in memory, in a compiled function that writes to the same array each time. It
// answers orders on standard input, as functions_torch.py does:
//
//   run K NAME DTYPE COUNT  computes it K times; the answer is one line
//                           {"ms": [...], "sum": S}, S of the first 1000
//                           results
//
// Usage: functions --threads N

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { MAX_TIMES = 10000, SUMMED = 1000 };

typedef struct function_row {
  const char *name;
  ls_tensor (*unary)(ls_tensor x);
  ls_tensor (*binary)(ls_tensor x, ls_tensor y);
} function_row;

#define UNARY(name)                                                            \
  { #name, ls_##name, NULL }
static const function_row rows[] = {
    UNARY(neg),
    UNARY(exp),
    UNARY(expm1),
    UNARY(log),
    UNARY(log1p),
    UNARY(tanh),
    UNARY(sin),
    UNARY(cos),
    UNARY(tan),
    UNARY(erf),
    UNARY(erfc),
    {"pow", NULL, ls_pow},
    {"atan2", NULL, ls_atan2},
    {"remainder", NULL, ls_remainder},
};

typedef struct contestant {
  char name[32], dtype_name[8];
  const function_row *row;
  ls_dtype dtype;
  int64_t count;
  ls_function *function;
  ls_nest args, results;
} contestant;

static ls_nest step(ls_nest args, void *user) {
  const contestant *self = user;
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return ls_leaf(self->row->unary != NULL ? self->row->unary(x)
                                          : self->row->binary(x, y));
}

// Fills an array with numbers from 0.1 to 8, those of functions_torch.py.
static void fill_array(ls_dtype dtype, int64_t count, uint32_t stride,
                       void *data) {
  for (int64_t i = 0; i < count; ++i) {
    const double value =
        0.1 + 7.9 * (double)((uint64_t)i * stride % 1000003) / 1000003;
    if (dtype == LS_DTYPE_F64)
      ((double *)data)[i] = value;
    else
      ((float *)data)[i] = (float)value;
  }
}

static void release_row(contestant *self) {
  ls_nest_release(self->args);
  ls_nest_release(self->results);
  if (self->function != NULL) ls_function_release(self->function);
  self->args = self->results = ls_none();
  self->function = NULL;
}

// Prepares the function and its arguments, unless they are the last ones.
static ls_status prepare(contestant *self, const char *name,
                         const char *dtype_name, int64_t count) {
  if (strcmp(name, self->name) == 0 && count == self->count &&
      strcmp(dtype_name, self->dtype_name) == 0)
    return ls_ok();
  release_row(self);
  self->row = NULL;
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i)
    if (strcmp(rows[i].name, name) == 0) self->row = &rows[i];
  if (self->row == NULL) return ls_not_found("no function '%s'", name);
  LS_RETURN_IF_ERROR(ls_dtype_parse(dtype_name, &self->dtype));
  snprintf(self->name, sizeof(self->name), "%s", name);
  snprintf(self->dtype_name, sizeof(self->dtype_name), "%s", dtype_name);
  self->count = count;
  ls_nest in[2];
  static const uint32_t strides[] = {7919, 104729};
  for (size_t i = 0; i < 2; ++i) {
    in[i] = ls_nest_zeros(self->dtype, LS_SHAPE(count));
    if (ls_nest_data(in[i], 0) != NULL)
      fill_array(self->dtype, count, strides[i], ls_nest_data(in[i], 0));
  }
  self->args = ls_nest_sequence(LS_KIND_TUPLE, in, 2);
  return ls_function_create(
      &(ls_function_options){.call = step, .name = self->name, .user = self},
      &self->function);
}

static ls_status run(contestant *self, double *times, long count) {
  for (long i = 0; i < count; ++i) {
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(
        ls_function_call(self->function, self->args, &self->results));
    times[i] = machine_seconds() - before;
  }
  double sum = 0;
  for (int64_t i = 0; i < SUMMED && i < self->count; ++i)
    sum += ls_array_f64(ls_nest_as_array(self->results), i);
  printf("{\"ms\": [");
  for (long i = 0; i < count; ++i)
    printf("%s%.6g", i > 0 ? "," : "", times[i] * 1e3);
  printf("], \"sum\": %.17g}\n", sum);
  fflush(stdout);
  return ls_ok();
}

static ls_status answer(contestant *self, double *times) {
  char line[128], name[32], dtype[8];
  printf("{}\n");
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    long count = 0;
    long long size = 0;
    if (sscanf(line, "run %ld %31s %7s %lld", &count, name, dtype, &size) !=
            4 ||
        count < 1 || count > MAX_TIMES || size < 1)
      return ls_invalid_argument("expected 'run K NAME DTYPE COUNT', got '%s'",
                                 line);
    LS_RETURN_IF_ERROR(prepare(self, name, dtype, size));
    LS_RETURN_IF_ERROR(run(self, times, count));
  }
  return ls_ok();
}

int main(int argc, char **argv) {
  static contestant self;
  static double times[MAX_TIMES];
  if (argc == 3 && strcmp(argv[1], "--threads") == 0)
    setenv("LS_THREADS", argv[2], 1);
  const ls_status status = answer(&self, times);
  release_row(&self);
  if (ls_status_is_ok(status)) return 0;
  fprintf(stderr, "functions: %s\n", ls_status_message(status));
  ls_status_free(status);
  return 1;
}
