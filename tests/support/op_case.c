// SPDX-License-Identifier: Apache-2.0
#include "support/op_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "lockstep/shape_rules.h"
#include "lockstep/variable.h"
#include "support/expect.h"

const op_case *const op_case_tables[] = {
    element_cases, shape_cases, index_cases, reduce_cases, convolution_cases,
    window_cases,  norm_cases,  flow_cases,  NULL};

// ---- Drawing ---------------------------------------------------------------
int64_t trial_between(trial *t, int64_t low, int64_t high) {
  return loop_random_between(t->random, low, high);
}

ls_shape trial_shape(trial *t, int32_t least, int32_t most) {
  ls_shape shape = {.rank = (int32_t)trial_between(t, least, most)};
  for (int32_t i = 0; i < shape.rank; ++i)
    shape.dim[i] = trial_between(t, 1, 5);
  if (shape.rank == 0) return shape;
  const int64_t kind = trial_between(t, 0, 11), at = kind % shape.rank;
  if (kind == 11) shape.dim[at] = 0;
  if (kind == 10) shape.dim[at] = trial_between(t, 6, 40);
  return shape;
}

static double unit(trial *t) { return loop_random_bits(t->random) * 0x1p-32; }

ls_array *trial_add_in(trial *t, ls_dtype dtype, ls_shape shape, double low,
                       double high) {
  assert_true(t->count < TRIAL_OPERANDS);
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  t->operand[t->count++] = array;
  for (int64_t k = 0; k < ls_array_num_elements(array); ++k) {
    double x = low + (high - low) * unit(t);
    if (!ls_dtype_is_float(dtype)) x = floor(x);
    if (ls_dtype_is_unsigned(dtype)) x = fabs(x);
    if (dtype == LS_DTYPE_BOOL) x = loop_random_bits(t->random) & 1;
    ls_array_set_f64(array, k, x);
  }
  return array;
}

// A float that is none of the usual ones, or bits of any kind.
static void make_odd(trial *t, ls_array *array) {
  static const double odd[] = {NAN, INFINITY, -INFINITY, 0.0, -0.0};
  const ls_dtype dtype = ls_array_dtype(array);
  for (int64_t k = 0; k < ls_array_num_elements(array); ++k) {
    if (ls_dtype_is_float(dtype)) {
      if (t->row->odd && trial_between(t, 0, 6) == 0)
        ls_array_set_f64(array, k, odd[trial_between(t, 0, 4)]);
    } else if (ls_dtype_is_integer(dtype) && t->round % 2 == 1 &&
               (t->row->one != NULL || t->row->two != NULL)) {
      const uint64_t high = loop_random_bits(t->random);
      const uint64_t bits = high << 32 | loop_random_bits(t->random);
      ref_store(dtype, (ref_number){.whole = (int64_t)bits},
                ls_array_mutable_data(array), k);
    }
  }
}

ls_array *trial_add(trial *t, ls_shape shape) {
  const op_case *row = t->row;
  const bool given = row->low != 0 || row->high != 0;
  ls_array *array = trial_add_in(t, t->dtype, shape, given ? row->low : -2,
                                 given ? row->high : 2);
  make_odd(t, array);
  return array;
}

ls_shape trial_part(trial *t, ls_shape shape) {
  const int32_t drop = (int32_t)trial_between(t, 0, shape.rank);
  ls_shape part = {.rank = shape.rank - (drop % 2 == 0 ? 0 : drop)};
  for (int32_t i = 0; i < part.rank; ++i)
    part.dim[i] =
        trial_between(t, 0, 3) == 0 ? 1 : shape.dim[shape.rank - part.rank + i];
  return part;
}

static void draw_default(trial *t) {
  const ls_shape shape = trial_shape(t, 0, 4);
  if (t->row->two == NULL) {
    trial_add(t, shape);
    return;
  }
  // Either one may be the part.
  const ls_shape part = trial_part(t, shape);
  const bool first = trial_between(t, 0, 1) == 0;
  trial_add(t, first ? part : shape);
  trial_add(t, first ? shape : part);
}

// ---- Running ---------------------------------------------------------------
void trial_init(trial *t, const op_case *row, ls_dtype dtype, int round,
                loop_random *random) {
  *t = (trial){.row = row, .dtype = dtype, .round = round, .random = random};
  if (row->draw != NULL)
    row->draw(t);
  else
    draw_default(t);
}

void trial_deinit(trial *t) {
  for (size_t i = 0; i < t->count; ++i)
    ls_array_release(t->operand[i]);
  if (t->variable != NULL) ls_variable_release(t->variable);
  *t = (trial){0};
}

ls_nest trial_make(const trial *t, const ls_tensor *xs) {
  const op_case *row = t->row;
  if (row->one != NULL) return ls_leaf(row->one(xs[0]));
  if (row->two != NULL) return ls_leaf(row->two(xs[0], xs[1]));
  return row->make(t, xs);
}

// The first row of the op.
static const op_case *find_case(uint16_t op) {
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row)
      if (row->op == op) return row;
  return NULL;
}

ref_function op_case_compute(uint16_t op) {
  const op_case *row = find_case(op);
  return row == NULL ? NULL : row->compute;
}

bool any_case(uint16_t op, bool (*matches)(const op_case *row)) {
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row)
      if (row->op == op && matches(row)) return true;
  return false;
}

enum { MOST_TESTS = 256, MOST_NAME = 100 };

// Makes a test of each row, returns how many of `most` there are.
static size_t make_tests(bool (*matches)(const op_case *row),
                         void (*check)(void **row), const char *sentence,
                         struct CMUnitTest tests[MOST_TESTS]) {
  static char names[MOST_TESTS][MOST_NAME];
  size_t count = 0;
  for (size_t i = 0; op_case_tables[i] != NULL; ++i)
    for (const op_case *row = op_case_tables[i]; row->dtypes != 0; ++row) {
      if (matches != NULL && !matches(row)) continue;
      if (count == MOST_TESTS) abort();
      snprintf(names[count], MOST_NAME, "%s %s", ls_op_table[row->op].name,
               sentence);
      tests[count] =
          (struct CMUnitTest){.name = names[count],
                              .test_func = check,
                              .initial_state = (void *)(uintptr_t)row};
      ++count;
    }
  return count;
}

int op_case_tests_run(const unit_tests *tests,
                      bool (*matches)(const op_case *row),
                      void (*check)(void **row), const char *sentence) {
  struct CMUnitTest rows[MOST_TESTS] = {{0}};
  const size_t count = make_tests(matches, check, sentence, rows);
  return unit_tests_run(tests, 0, tests->file) +
         _cmocka_run_group_tests(tests->file, rows, count, NULL, NULL);
}
