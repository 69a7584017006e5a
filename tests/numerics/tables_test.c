// SPDX-License-Identifier: Apache-2.0
//
// Every kernel that exists once per instruction set gives the same bytes in
// each: on ordinary numbers and on all bit patterns, for every tail, wherever
// its arrays begin. (Products and elementary functions: product_cut_test.c,
// elementary_test.c, and engine/kernel_product_test.c.)
#include "support/expect.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/threads/workers.h"
#include "engine/cpu/kernels/loops.h"
#include "engine/cpu/kernels/reduce/short_rows.h"
#include "support/kernel_tables.h"
#include "support/sanitizer.h"

// ---- Trials ----------------------------------------------------------------
enum { ARRAYS = 5, OFFSETS = 4 };

// What a kernel is given: arrays of rows x columns numbers, or more.
typedef struct trial {
  const ls_cpu_kernels *table;
  const ls_cpu_norms *norms;  // Of `dtype`.
  ls_dtype dtype;
  size_t rows, columns, count;  // count = rows * columns.
  size_t pitch;                 // Of rows that need not be dense.
  const void *in[ARRAYS];
  const int32_t *labels;  // One a row, some of them wrong.
  void *out;              // Three times as many numbers, filled alike.
  bool flag;              // Varies.
} trial;

// Calls a kernel; returns how many numbers of `out` are to be compared.
typedef size_t (*attempt)(const trial *t);

static void *part(const trial *t, size_t first) {
  return (char *)t->out + first * ls_dtype_size(t->dtype);
}

// ---- Elements and rows of floats -------------------------------------------
static size_t try_add(const trial *t) {
  t->table->add(t->out, t->in[0], t->in[1], t->count);
  return t->count;
}
static size_t try_sgd(const trial *t) {
  t->table->sgd(t->out, t->in[0], t->in[1], 0.3F, t->count);
  return t->count;
}
static size_t try_gelu_grad(const trial *t) {
  t->table->gelu_grad(t->out, t->in[0], t->in[1], t->count);
  return t->count;
}
static size_t try_gelu_again(const trial *t) {
  t->table->gelu_again(t->out, part(t, t->count), t->in[0], t->in[1], t->count);
  return 2 * t->count;
}
static size_t try_reduce(const trial *t) {
  const ls_cpu_reducers *reducers = t->table->reducers;
  const int64_t rows = (int64_t)t->rows, columns = (int64_t)t->columns;
  reducers->sum[t->dtype].runs(t->out, t->in[0], rows, columns);
  reducers->max[t->dtype].runs(part(t, t->rows), t->in[0], rows, columns);
  return 2 * t->rows;
}
static size_t try_reduce_columns(const trial *t) {
  const ls_reducer *reduce = &t->table->reducers->min[t->dtype];
  reduce->fill(t->out, (int64_t)t->columns);
  reduce->rows(t->out, t->in[0], (int64_t)t->rows, (int64_t)t->pitch,
               (int64_t)t->columns);
  return t->columns;
}
static size_t try_softmax(const trial *t) {
  t->table->softmax(t->out, t->in[0], t->rows, t->columns);
  return t->count;
}
static size_t try_log_softmax(const trial *t) {
  t->table->log_softmax(t->out, t->in[0], t->rows, t->columns);
  return t->count;
}
static size_t try_label_loss(const trial *t) {
  t->table->label_loss(t->out, t->in[0], t->labels, t->rows, t->columns);
  return t->rows;
}
static size_t try_label_loss_grad(const trial *t) {
  t->table->label_loss_grad(t->out, t->in[0], t->labels, t->in[1],
                            t->flag ? 1 : 0, t->rows, t->columns);
  return t->count;
}

static size_t try_short_rows(const trial *t) {
  const ls_cpu_short_rows *rows = t->table->short_rows;
  const size_t run = 2 + t->columns % 15, n = t->count / run;
  rows->max[t->dtype][run](t->out, t->in[0], (int64_t)n);
  rows->min[t->dtype][run](part(t, n), t->in[0], (int64_t)n);
  return 2 * n;
}

// ---- Spans, of both types --------------------------------------------------
// Of two operands, one of which may be a scalar, then of one.
static size_t try_spans(const trial *t) {
  static const uint16_t of_two[] = {
      LS_OP_ADD,     LS_OP_SUB,     LS_OP_MUL,      LS_OP_DIV,
      LS_OP_MAXIMUM, LS_OP_MINIMUM, LS_OP_RELU_GRAD};
  static const uint16_t of_one[] = {LS_OP_NEG, LS_OP_ABS, LS_OP_SQRT,
                                    LS_OP_SIGN, LS_OP_RELU};
  const int64_t n = (int64_t)t->count;
  const ls_elementwise work = {.scalars = (uint32_t)(t->columns % 3)};
  ls_span_of(of_two[t->columns % LS_COUNT_OF(of_two)], t->dtype,
             t->table)(&work, t->out, t->in, n);
  ls_span_of(of_one[t->columns % LS_COUNT_OF(of_one)], t->dtype,
             t->table)(&work, part(t, t->count), t->in, n);
  return 2 * t->count;
}
static size_t try_clamp(const trial *t) {
  const ls_elementwise work = {.scalars = t->flag ? 5 : 0};
  ls_span_of(LS_OP_CLAMP, t->dtype, t->table)(&work, t->out, t->in,
                                              (int64_t)t->count);
  return t->count;
}

// ---- Windows ---------------------------------------------------------------
static size_t try_window_max(const trial *t) {
  const ls_cpu_taps taps = {.count = 4,
                            .pixels = 1,
                            .channels = t->count,
                            .x = t->in,
                            .y = t->out,
                            .scale = 1,
                            .takes_largest = true};
  t->table->taps_f32->multiply(&taps);
  return t->count;
}
static const ls_cpu_windows *windows_of(const trial *t) {
  return &t->table->windows[t->dtype == LS_DTYPE_F64];
}
static size_t try_window_compare(const trial *t) {
  const int64_t n = (int64_t)t->count;
  const size_t bytes = t->count * ls_dtype_size(t->dtype);
  void *at = part(t, t->count);
  memcpy(t->out, t->in[0], bytes);
  memset(at, 0, bytes);
  for (int64_t tap = 1; tap < 4; ++tap)
    windows_of(t)->compare(t->out, at, t->in[tap], tap, n);
  memset(part(t, 2 * t->count), 0, bytes);
  windows_of(t)->give(part(t, 2 * t->count), at, 2, t->in[4], n);
  return 3 * t->count;
}
static size_t try_window_give_four(const trial *t) {
  // Four quarters, so that all fit.
  const size_t n = t->count / 2;
  void *dx[4] = {t->out, part(t, n), part(t, 2 * n), part(t, 3 * n)};
  windows_of(t)->give_four(dx, t->in, t->in[4], (int64_t)n);
  return 4 * n;
}
static size_t try_window_places(const trial *t) {
  const float *const x[] = {t->in[0], t->in[1], t->in[2], t->in[3]};
  const size_t n = t->count / 16 * 16;
  float *out = t->out;
  t->table->windows->place_of_four(out, (uint8_t *)(out + n), x, n);
  for (size_t i = n; i-- > 0;)
    out[n + i] = ((uint8_t *)(out + n))[i];
  return 2 * n;
}
static size_t try_window_products(const trial *t) {
  // Two pixels and two taps, each with half as many channels.
  const size_t n = t->count / 2;
  const void *const x[] = {t->in[0], t->in[1]};
  void *const w[] = {part(t, 2 * n), part(t, 3 * n)};
  const ls_cpu_taps taps = {.count = 2,
                            .pixels = 2,
                            .channels = n,
                            .step = n,
                            .x = x,
                            .w = w,
                            .y = t->out,
                            .pitch = n,
                            .bias = t->flag ? t->in[3] : NULL,
                            .relu = t->flag,
                            .fused = t->columns % 2 == 0};
  memcpy(w[0], t->in[2], 2 * n * sizeof(float));
  t->table->taps_f32->multiply(&taps);
  t->table->taps_f32->add(&taps);
  return 4 * n;
}

// ---- Norms, of both types --------------------------------------------------
static ls_cpu_columns columns_of(const trial *t) {
  return (ls_cpu_columns){t->rows, t->columns, t->columns};
}
static ls_cpu_batch_norm batch_norm_of(const trial *t) {
  const char *constants = t->in[4];
  const size_t step = t->columns * ls_dtype_size(t->dtype);
  return (ls_cpu_batch_norm){.mean = constants,
                             .factor = constants + step,
                             .shift = constants + 2 * step,
                             .slope = constants + 3 * step,
                             .base = constants + 4 * step,
                             .relu = t->flag};
}
static ls_cpu_row_norm row_norm_of(const trial *t) {
  const char *constants = t->in[4];
  return (ls_cpu_row_norm){
      .scale = constants,
      .offset =
          t->flag ? constants + t->columns * ls_dtype_size(t->dtype) : NULL,
      .epsilon = 1e-5,
      .centred = t->columns % 2 == 0};
}

enum { MOST_COLUMNS = 300 };

// Doubles, whatever the type: floats are compared as half of each, so that all
// NaNs must be made one.
static size_t put_sums(const trial *t, double *sums) {
  for (size_t i = 0; i < 2 * t->columns; ++i)
    if (isnan(sums[i])) sums[i] = 0.125;
  memcpy(t->out, sums, 2 * t->columns * sizeof(*sums));
  return 2 * t->columns * sizeof(*sums) / ls_dtype_size(t->dtype);
}
static size_t try_moments(const trial *t) {
  double sums[2 * MOST_COLUMNS] = {0};
  t->norms->moments(sums, sums + t->columns, t->in[0], t->in[4], columns_of(t));
  return put_sums(t, sums);
}
static size_t try_gradient_moments(const trial *t) {
  double sums[2 * MOST_COLUMNS] = {0};
  const ls_cpu_batch_norm norm = batch_norm_of(t);
  t->norms->gradient_moments(sums, sums + t->columns, t->in[0], t->in[1], &norm,
                             columns_of(t));
  return put_sums(t, sums);
}
static size_t try_normalize(const trial *t) {
  const ls_cpu_batch_norm norm = batch_norm_of(t);
  t->norms->normalize(t->out, t->in[0], &norm, columns_of(t));
  t->norms->gradient(part(t, t->count), t->in[0], t->in[1], &norm,
                     columns_of(t));
  return 2 * t->count;
}
static size_t try_normalize_rows(const trial *t) {
  const ls_cpu_row_norm norm = row_norm_of(t);
  t->norms->normalize_rows(t->out, t->in[0], &norm, t->rows, t->columns);
  return t->count;
}
static size_t try_gradient_rows(const trial *t) {
  const ls_cpu_row_norm norm = row_norm_of(t);
  const size_t sums = 2 * t->count;
  t->norms->gradient_rows(t->out, t->flag ? part(t, t->count) : NULL,
                          part(t, sums),
                          t->flag ? part(t, sums + t->columns) : NULL, t->in[0],
                          t->in[1], &norm, t->rows, t->columns);
  return sums + 2 * t->columns;
}
static size_t try_softmax_gradient(const trial *t) {
  t->norms->softmax_gradient(t->out, t->in[0], t->in[1], t->count);
  t->norms->scale(part(t, t->count), t->in[0], 0.7, t->count);
  return 2 * t->count;
}

// ---- Running them ----------------------------------------------------------
static const struct {
  const char *name;
  attempt run;
  bool both;  // Also of doubles.
} attempts[] = {
    {"add", try_add, false},
    {"sgd", try_sgd, false},
    {"gelu_grad", try_gelu_grad, false},
    {"gelu_again", try_gelu_again, false},
    {"sums and maxima", try_reduce, true},
    {"minima of columns", try_reduce_columns, true},
    {"extremes of short rows", try_short_rows, true},
    {"softmax", try_softmax, false},
    {"log_softmax", try_log_softmax, false},
    {"label_loss", try_label_loss, false},
    {"label_loss_grad", try_label_loss_grad, false},
    {"windows max", try_window_max, false},
    {"windows compare and give", try_window_compare, true},
    {"windows give_four", try_window_give_four, true},
    {"windows place_of_four", try_window_places, false},
    {"windows add_products", try_window_products, false},
    {"spans", try_spans, true},
    {"clamp", try_clamp, true},
    {"moments", try_moments, true},
    {"gradient_moments", try_gradient_moments, true},
    {"normalize and gradient", try_normalize, true},
    {"normalize_rows", try_normalize_rows, true},
    {"gradient_rows", try_gradient_rows, true},
    {"softmax_gradient and scale", try_softmax_gradient, true},
};

// Numbers that an array of a shape needs: its own, five constants a column,
// and of outputs some more.
static size_t room_of(size_t rows, size_t columns) {
  return rows * (columns + 3) + 5 * columns + 8;
}

static void compare_tables(const kernel_tables *tables, attempt run,
                           const char *name, trial *t, size_t offset) {
  const size_t size = ls_dtype_size(t->dtype);
  const size_t room = 3 * room_of(t->rows, t->columns) * size;
  char *first = numbers_create(room, 0), *next = numbers_create(room, offset);
  for (size_t k = 0; k < tables->count; ++k) {
    t->table = tables->at[k];
    t->norms =
        t->dtype == LS_DTYPE_F64 ? t->table->norms_f64 : t->table->norms_f32;
    // Where the arrays begin does not matter either: the first table's are on
    // a cache line.
    t->out = k == 0 ? first : next;
    for (size_t i = 0; i < room; i += size)
      memcpy((char *)t->out + i,
             (const char *)t->in[2] + i % (t->columns * size), size);
    const size_t count = run(t);
    assert_in_range(count, 0, room / size);
    if (k > 0)
      expect_same_numbers(name, t->table->name, t->dtype, first, next, count);
  }
  numbers_free(first, 0);
  numbers_free(next, offset);
}

static void try_shape(const kernel_tables *tables, ls_dtype dtype, size_t rows,
                      size_t columns, number_kind kind, loop_random *random) {
  const size_t size = ls_dtype_size(dtype);
  const size_t offset = loop_random_bits(random) % OFFSETS * size;
  const size_t room = room_of(rows, columns);
  trial t = {.dtype = dtype,
             .rows = rows,
             .columns = columns,
             .count = rows * columns,
             .pitch = columns + rows % 3,
             .flag = loop_random_bits(random) % 2 == 0};
  void *in[ARRAYS];
  for (size_t i = 0; i < ARRAYS; ++i) {
    t.in[i] = in[i] = numbers_create(room * size, offset);
    numbers_fill(dtype, in[i], room, kind, random);
  }
  int32_t *labels = numbers_create((rows + 1) * sizeof(*labels), 0);
  for (size_t i = 0; i < rows; ++i)
    labels[i] = (int32_t)loop_random_between(random, -1, (int64_t)columns);
  t.labels = labels;
  char name[128];
  for (size_t i = 0; i < LS_COUNT_OF(attempts); ++i) {
    if (dtype == LS_DTYPE_F64 && !attempts[i].both) continue;
    snprintf(name, sizeof(name), "%s of %s [%zu, %zu], %s numbers",
             attempts[i].name, ls_dtype_name(dtype), rows, columns,
             kind == NUMBERS_ANY ? "any" : "small");
    compare_tables(tables, attempts[i].run, name, &t, offset);
  }
  for (size_t i = 0; i < ARRAYS; ++i)
    numbers_free(in[i], offset);
  numbers_free(labels, 0);
}

static void every_table_gives_the_same_bytes(number_kind kind) {
  static const size_t rows_of[] = {1, 2, 3, 5, 17, 40};
  static const size_t wide[] = {40, 63, 64, 65, 127, 129, MOST_COLUMNS};
  const kernel_tables tables = kernel_tables_find();
  loop_random random = {loop_random_seed()};
  for (int type = 0; type < 2; ++type) {
    const ls_dtype dtype = type == 0 ? LS_DTYPE_F32 : LS_DTYPE_F64;
    for (size_t columns = 1; columns < 35; columns += LS_SANITIZED ? 3 : 1)
      try_shape(&tables, dtype, rows_of[columns % LS_COUNT_OF(rows_of)],
                columns, kind, &random);
    for (size_t i = 0; i < LS_COUNT_OF(wide); ++i)
      try_shape(&tables, dtype, rows_of[i % LS_COUNT_OF(rows_of)], wide[i],
                kind, &random);
  }
}

TEST(ordinary_numbers_give_the_same_bytes_in_every_table) {
  every_table_gives_the_same_bytes(NUMBERS_SMALL);
}

TEST(any_bits_give_the_same_bytes_in_every_table) {
  every_table_gives_the_same_bytes(NUMBERS_ANY);
}

TEST(they_do_so_too_where_denormals_are_zero) {
  const uint64_t mode = ls_float_mode_enter();
  every_table_gives_the_same_bytes(NUMBERS_ANY);
  ls_float_mode_leave(mode);
}

// ---- Winograd's transforms -------------------------------------------------
enum { PLANES = 36, IN = 36, OUT = 16, WINDOWS = 4, MOST = 64 };

// All of them, on `channels` (and as many rows); returns the numbers written.
static size_t transform(const ls_cpu_kernels *kernels, size_t channels,
                        const float *in, float *out, bool flag) {
  const ls_cpu_winograd *w = kernels->winograd;
  const ls_cpu_winograd_planes *f32 = kernels->winograd_f32;
  const float *inputs[IN];
  float *outputs[OUT], *at = out;
  for (size_t i = 0; i < IN; ++i)
    inputs[i] = in + i * channels;
  f32->input(at, inputs, channels, channels);
  at += PLANES * channels;
  for (size_t i = 0; i < OUT; ++i, at += channels)
    outputs[i] = at;
  w->output(outputs, in, channels, flag ? in + PLANES * channels : NULL, flag);
  float *maxima[WINDOWS];
  uint8_t *places[WINDOWS], found[WINDOWS * MOST];
  for (size_t i = 0; i < WINDOWS; ++i, at += channels) {
    maxima[i] = at;
    places[i] = found + i * channels;
  }
  w->output_pooled(maxima, places, in, channels,
                   flag ? in + PLANES * channels : NULL, flag);
  for (size_t i = 0; i < WINDOWS * channels; ++i)
    *at++ = found[i];
  w->gradient(at, inputs, channels);
  at += PLANES * channels;
  // Taps [9, 16, channels], and turned around.
  const ls_cpu_block all = {0, 16, 0, channels};
  f32->weights(at, in, 16, channels, &all);
  at += PLANES * 16 * channels;
  f32->turned_weights(at, in, 16, channels, &all);
  at += PLANES * 16 * channels;
  const size_t plane = 16 * channels, parts = 3;
  w->weights_gradient(at, in, parts, PLANES * plane, plane, plane);
  at += 9 * plane;
  return (size_t)(at - out);
}

TEST(winograd_transforms_are_the_same_in_every_table) {
  enum { INPUTS = 3 * PLANES * 16 * MOST };
  const kernel_tables tables = kernel_tables_find();
  const size_t room =
      (2 * PLANES + OUT + 2 * WINDOWS + 2 * PLANES * 16 + 9 * 16) * MOST;
  loop_random random = {loop_random_seed()};
  float *in = numbers_create(INPUTS * sizeof(*in), 4);
  float *first = numbers_create(room * sizeof(*first), 0);
  float *next = numbers_create(room * sizeof(*next), 8);
  for (size_t channels = 16; channels <= MOST; channels += 16) {
    for (int kind = 0; kind < 2; ++kind) {
      numbers_fill(LS_DTYPE_F32, in, INPUTS, (number_kind)kind, &random);
      for (size_t k = 0; k < tables.count; ++k) {
        float *out = k == 0 ? first : next;
        const size_t count =
            transform(tables.at[k], channels, in, out, channels % 32 == 0);
        assert_in_range(count, 1, room);
        expect_same_numbers("winograd", tables.at[k]->name, LS_DTYPE_F32, first,
                            out, count);
      }
    }
  }
  numbers_free(in, 4);
  numbers_free(first, 0);
  numbers_free(next, 8);
}
