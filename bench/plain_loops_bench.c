// SPDX-License-Identifier: Apache-2.0
//
// Ops against plain loops (common/plain.h) on one thread, on arrays of some
// MiB. Both take turns; a ratio of 1.2 says that ours takes 1.2 times as long.
//
// Usage: plain_loops_bench [ROUNDS [NAME]]   (default 30; only rows whose name
// has NAME in it)

#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/machine.h"
#include "common/plain.h"
#include "lockstep/lockstep.h"

enum { MANY = 1 << 20, OPERANDS = 3 };

// An operand's numbers: those of floats in [-4, 4), of integers any.
typedef struct operand {
  ls_dtype dtype;  // NONE: there is none.
  ls_shape shape;
  int64_t below;  // Not 0: whole numbers from 0 to below that.
} operand;

typedef struct row {
  const char *name;
  ls_tensor (*make)(const ls_tensor *in);
  plain_loop plain;
  plain_sizes sizes;
  operand in[OPERANDS];
  double tolerance;  // Of results, which are of type `out`.
  ls_dtype out;
  int64_t results;
} row;

// ---- Ops -------------------------------------------------------------------
static ls_tensor make_clamp(const ls_tensor *in) {
  return ls_clamp(in[0], in[1], in[2]);
}
static ls_tensor make_remainder(const ls_tensor *in) {
  return ls_remainder(in[0], in[1]);
}
static ls_tensor make_popcount(const ls_tensor *in) {
  return ls_popcount(in[0]);
}
static ls_tensor make_atan2(const ls_tensor *in) {
  return ls_atan2(in[0], in[1]);
}
static ls_tensor make_erfc(const ls_tensor *in) { return ls_erfc(in[0]); }
static ls_tensor make_scan_rows(const ls_tensor *in) {
  return ls_linear_scan(in[0], in[1], 1, false);
}
static ls_tensor make_scan_columns(const ls_tensor *in) {
  return ls_linear_scan(in[0], in[1], 0, false);
}
static ls_tensor make_maxima(const ls_tensor *in) {
  return ls_reduce_max(in[0], LS_AXES(1));
}
static ls_tensor make_scatter_update(const ls_tensor *in) {
  return ls_scatter(LS_SCATTER_UPDATE, in[0], in[1], in[2]);
}
static ls_tensor make_scatter_add(const ls_tensor *in) {
  return ls_scatter(LS_SCATTER_ADD, in[0], in[1], in[2]);
}

enum { IMAGES = 4, SIDE = 28, CHANNELS = 64, MULTIPLIER = 2 };
static const ls_convolution_options depthwise = {.padding = LS_PADDING_SAME,
                                                 .groups = CHANNELS};
static ls_tensor make_depthwise_input(const ls_tensor *in) {
  return ls_conv_grad_input(in[0], in[1], in[2], &depthwise);
}
static ls_tensor make_depthwise_weights(const ls_tensor *in) {
  return ls_conv_grad_weights(in[0], in[1], in[2], &depthwise);
}

// ---- Rows ------------------------------------------------------------------
#define F32 LS_DTYPE_F32
#define I32 LS_DTYPE_I32
#define ALL                                                                    \
  { .count = MANY }
#define OF(...) LS_SHAPE(__VA_ARGS__)
#define MAXIMA(text, D, loop, n)                                               \
  {                                                                            \
    text, make_maxima, loop, {.rows = MANY / (n), .columns = n},               \
        {{D, OF(MANY / (n), n), 0}}, 0, D, MANY / (n)                          \
  }
#define CONVOLUTION                                                            \
  {                                                                            \
    .images = IMAGES, .height = SIDE, .width = SIDE, .channels = CHANNELS,     \
    .multiplier = MULTIPLIER                                                   \
  }
#define IMAGE(channels) OF(IMAGES, SIDE, SIDE, channels)
#define MADE (CHANNELS * MULTIPLIER)

static void fill_rows(row *rows, size_t *out_count) {
  const operand all = {F32, OF(MANY), 0}, one = {F32, LS_SCALAR, 0};
  const operand whole = {I32, OF(MANY), 0}, digit = {I32, LS_SCALAR, 9};
  const operand wide = {F32, OF(1024, 1024), 0};
  const operand places = {I32, OF(MANY), MANY};
  const operand x = {F32, IMAGE(CHANNELS), 0}, dy = {F32, IMAGE(MADE), 0};
  const operand w = {F32, OF(3, 3, 1, MADE), 0};
  const row list[] = {
      {"clamp f32, scalar bounds",
       make_clamp,
       plain_clamp,
       ALL,
       {one, all, one},
       0,
       F32,
       MANY},
      {"clamp f32",
       make_clamp,
       plain_clamp_each,
       ALL,
       {all, all, all},
       0,
       F32,
       MANY},
      {"clamp i32, scalar bounds",
       make_clamp,
       plain_clamp_i32,
       ALL,
       {digit, whole, digit},
       0,
       I32,
       MANY},
      {"remainder f32",
       make_remainder,
       plain_remainder,
       ALL,
       {all, all},
       0,
       F32,
       MANY},
      {"remainder i32",
       make_remainder,
       plain_remainder_i32,
       ALL,
       {whole, whole},
       0,
       I32,
       MANY},
      {"popcount i32",
       make_popcount,
       plain_popcount_i32,
       ALL,
       {whole},
       0,
       I32,
       MANY},
      {"popcount i64",
       make_popcount,
       plain_popcount_i64,
       ALL,
       {{LS_DTYPE_I64, OF(MANY), 0}},
       0,
       LS_DTYPE_I64,
       MANY},
      {"popcount u8",
       make_popcount,
       plain_popcount_u8,
       ALL,
       {{LS_DTYPE_U8, OF(MANY), 0}},
       0,
       LS_DTYPE_U8,
       MANY},
      {"atan2 f32", make_atan2, plain_atan2, ALL, {all, all}, 1e-6, F32, MANY},
      {"erfc f32", make_erfc, plain_erfc, ALL, {all}, 1e-6, F32, MANY},
      {"linear_scan, rows of 1024",
       make_scan_rows,
       plain_scan_rows,
       {.rows = 1024, .columns = 1024},
       {wide, wide},
       0,
       F32,
       MANY},
      {"linear_scan, columns",
       make_scan_columns,
       plain_scan_columns,
       {.rows = 1024, .columns = 1024},
       {wide, wide},
       0,
       F32,
       MANY},
      MAXIMA("maxima of 2", F32, plain_maxima, 2),
      MAXIMA("maxima of 4", F32, plain_maxima, 4),
      MAXIMA("maxima of 7", F32, plain_maxima, 7),
      MAXIMA("maxima of 8", F32, plain_maxima, 8),
      MAXIMA("maxima of 16", F32, plain_maxima, 16),
      MAXIMA("maxima of 24", F32, plain_maxima, 24),
      MAXIMA("maxima of 4, i32", I32, plain_maxima_i32, 4),
      {"scatter update",
       make_scatter_update,
       plain_scatter_update,
       {.count = MANY, .rows = MANY},
       {all, places, all},
       0,
       F32,
       MANY},
      {"scatter add",
       make_scatter_add,
       plain_scatter_add,
       {.count = MANY, .rows = MANY},
       {all, places, all},
       0,
       F32,
       MANY},
      {"depthwise by 2, to input",
       make_depthwise_input,
       plain_depthwise_input,
       CONVOLUTION,
       {dy, w, x},
       1e-5,
       F32,
       IMAGES * SIDE * SIDE * CHANNELS},
      {"depthwise by 2, to weights",
       make_depthwise_weights,
       plain_depthwise_weights,
       CONVOLUTION,
       {x, dy, w},
       1e-3,
       F32,
       9 * MADE},
  };
  *out_count = sizeof(list) / sizeof(list[0]);
  if (rows != NULL) memcpy(rows, list, sizeof(list));
}

// ---- Data ------------------------------------------------------------------
static uint32_t next_random(uint32_t *state) {
  *state = *state * 1664525U + 1013904223U;
  return *state ^ *state >> 15;
}

static void fill(const operand *of, void *data, uint32_t state) {
  const int64_t count = ls_shape_num_elements(of->shape);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t any = next_random(&state);
    const int64_t some = of->below == 0 ? (int64_t)any : any % of->below;
    if (of->dtype == LS_DTYPE_F32)
      ((float *)data)[i] = (float)(any >> 8) * 0x1p-21F - 4.0F;
    else if (of->dtype == LS_DTYPE_I32)
      ((int32_t *)data)[i] = (int32_t)some | (of->below == 0);
    else if (of->dtype == LS_DTYPE_I64)
      ((int64_t *)data)[i] = some << 32 | next_random(&state);
    else
      ((uint8_t *)data)[i] = (uint8_t)(any >> 9);
  }
}

static double number_at(ls_dtype dtype, const void *data, int64_t i) {
  switch (dtype) {
  case LS_DTYPE_F32:
    return (double)((const float *)data)[i];
  case LS_DTYPE_I32:
    return ((const int32_t *)data)[i];
  case LS_DTYPE_I64:
    return (double)((const int64_t *)data)[i];
  default:
    return ((const uint8_t *)data)[i];
  }
}

static ls_status compare(const row *self, const void *got, const void *want) {
  for (int64_t i = 0; i < self->results; ++i) {
    const double a = number_at(self->out, got, i);
    const double b = number_at(self->out, want, i);
    if (fabs(a - b) <= self->tolerance * fmax(1.0, fabs(b)) || a == b ||
        (a != a && b != b))
      continue;
    return ls_internal("'%s': element %lld is %g, by the loop %g", self->name,
                       (long long)i, a, b);
  }
  return ls_ok();
}

// ---- Timing ----------------------------------------------------------------
typedef struct contest {
  ls_nest args, result;
  const void *in[OPERANDS];
  void *out;
  double *ours, *plain;
  size_t rounds;
} contest;

static ls_nest call_row(ls_nest args, void *user) {
  const row *self = user;
  ls_tensor in[OPERANDS] = {0};
  for (size_t i = 0; i < OPERANDS; ++i)
    if (self->in[i].dtype != LS_DTYPE_NONE) in[i] = ls_nest_tensor(args, i);
  return ls_leaf(self->make(in));
}

static ls_nest make_args(const row *self, contest *c) {
  ls_nest leaves[OPERANDS] = {0};
  size_t count = 0;
  for (size_t i = 0; i < OPERANDS; ++i) {
    const operand *of = &self->in[i];
    c->in[i] = c->out;  // For loops that have no such operand.
    if (of->dtype == LS_DTYPE_NONE) continue;
    leaves[i] = ls_nest_zeros(of->dtype, of->shape);
    void *data = ls_nest_data(leaves[i], 0);
    if (data == NULL) continue;
    fill(of, data, (uint32_t)i + 1);
    c->in[i] = data;
    count = i + 1;
  }
  return ls_nest_sequence(LS_KIND_TUPLE, leaves, count);
}

static ls_status time_rounds(const row *self, ls_function *function,
                             contest *c) {
  LS_RETURN_IF_ERROR(ls_function_call(function, c->args, &c->result));
  for (size_t i = 0; i < c->rounds; ++i) {
    const double before = machine_seconds();
    LS_RETURN_IF_ERROR(ls_function_call(function, c->args, &c->result));
    const double between = machine_seconds();
    self->plain(c->out, c->in, &self->sizes);
    c->ours[i] = between - before;
    c->plain[i] = machine_seconds() - between;
  }
  return compare(self, ls_array_data(ls_nest_as_array(c->result)), c->out);
}

static void print(const row *self, const contest *c) {
  const double ours = machine_median(c->ours, c->rounds);
  const double plain = machine_median(c->plain, c->rounds);
  printf("  %-27s %9.1f us %9.1f us %8.2f %8.2f\n", self->name, ours * 1e6,
         plain * 1e6, ours / plain, c->ours[0] / c->plain[0]);
  fflush(stdout);
}

static ls_status time_row(row *self, contest *c) {
  ls_function *function = NULL;
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){.call = call_row, .user = self}, &function));
  c->args = make_args(self, c);
  c->result = (ls_nest){0};
  ls_status status = time_rounds(self, function, c);
  if (ls_status_is_ok(status)) print(self, c);
  ls_nest_release(c->result);
  ls_nest_release(c->args);
  ls_function_release(function);
  return status;
}

static ls_status time_all(size_t rounds, const char *name) {
  size_t count = 0;
  fill_rows(NULL, &count);
  row *rows = calloc(count, sizeof(*rows));
  contest c = {.out = aligned_alloc(64, MANY * sizeof(int64_t)),
               .ours = calloc(2 * rounds, sizeof(double)),
               .rounds = rounds};
  c.plain = c.ours + rounds;
  const bool has_room = rows != NULL && c.out != NULL && c.ours != NULL;
  ls_status status = has_room ? ls_ok() : ls_out_of_memory();
  if (has_room) fill_rows(rows, &count);
  printf("One thread\n  %-27s %12s %12s %8s %8s\n", "", "ours", "plain loop",
         "median", "least");
  for (size_t i = 0; i < count && ls_status_is_ok(status); ++i)
    if (strstr(rows[i].name, name) != NULL) status = time_row(&rows[i], &c);
  free(c.ours);
  free(c.out);
  free(rows);
  return status;
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 30;
  if (argc > 3 || rounds < 1) {
    fprintf(stderr, "usage: plain_loops_bench [ROUNDS [NAME]]\n");
    return 2;
  }
  ls_runtime *runtime = NULL;
  ls_status status =
      ls_runtime_create(&(ls_runtime_options){.threads = 1}, &runtime);
  if (ls_status_is_ok(status)) {
    ls_runtime_make_current(runtime);
    status = time_all((size_t)rounds, argc > 2 ? argv[2] : "");
    ls_runtime_make_current(NULL);
    status = ls_status_join(status, ls_runtime_destroy(runtime));
  }
  if (ls_status_is_ok(status)) return EXIT_SUCCESS;
  fprintf(stderr, "plain_loops_bench: %s: %s\n",
          ls_code_name(ls_status_code(status)), ls_status_message(status));
  ls_status_free(status);
  return EXIT_FAILURE;
}
