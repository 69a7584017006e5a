// SPDX-License-Identifier: Apache-2.0
//
// Kernels that order and scan: sort, top_k, argmin, cumsum, cumprod and
// linear_scan, against naive references over random shapes.
#include <math.h>
#include <stdlib.h>

#include "base/arena.h"
#include "engine/cpu/loops.h"
#include "support/expect.h"
#include "support/loop_case.h"

static const ls_dtype all_types[] = {
    LS_DTYPE_F64, LS_DTYPE_F32, LS_DTYPE_F16, LS_DTYPE_BF16, LS_DTYPE_I8,
    LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64, LS_DTYPE_U8,   LS_DTYPE_U16,
    LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_BOOL};
enum { NUMBERS = LS_COUNT_OF(all_types) - 1 };  // Without bool.

static ls_dtype any_type(loop_random *random, size_t count) {
  return all_types[loop_random_bits(random) % count];
}

// ---- More than one result --------------------------------------------------
enum { MOST = 4 };

// The results of an op, computed in one piece and block by block.
typedef struct results {
  void *data[MOST];
} results;

static size_t bytes_of(ls_type type) {
  return (size_t)ls_shape_num_elements(type.shape) * ls_dtype_size(type.dtype);
}

static void run_blocks(const ls_kernel_plan *plan, const loop_case *c,
                       void *const *out, bool whole) {
  void *scratch = aligned_alloc(64, (plan->scratch + 127) / 64 * 64);
  memset(scratch, 0xA5, plan->scratch);
  const ls_kernel_call call = {.in = (const void *const *)c->data,
                               .out = out,
                               .scratch = scratch,
                               .params = plan->params};
  if (whole) plan->loop(&call, 0, plan->blocks);
  for (int64_t b = plan->blocks; !whole && b-- > 0;)
    plan->loop(&call, b, b + 1);
  free(scratch);
}

static results run_many(loop_case *c, const ls_type *out, size_t num_out) {
  uint64_t inputs[LOOP_CASE_OPERANDS] = {0};
  ls_node node = {.id = 1,
                  .type = c->op,
                  .num_outputs = (uint16_t)num_out,
                  .num_inputs = c->num_in,
                  .num_attrs = c->num_attrs,
                  .inputs = inputs,
                  .outputs = (ls_type *)(uintptr_t)out,
                  .attrs = c->attrs};
  ls_arena arena;
  ls_arena_init(&arena, ls_allocator_system());
  ls_kernel_plan plan = {.node = &node,
                         .in = c->in,
                         .num_in = c->num_in,
                         .out = out,
                         .num_out = num_out,
                         .kernels = ls_cpu_kernels_best(),
                         .arena = &arena};
  expect_ok(ls_kernel_prepare_of(c->op)(&plan));
  assert_true(plan.blocks >= 1 && plan.in_place == 0);
  results first = {{NULL}}, again = {{NULL}};
  for (size_t i = 0; i < num_out; ++i) {
    first.data[i] = malloc(bytes_of(out[i]) + 1);
    again.data[i] = malloc(bytes_of(out[i]) + 1);
  }
  run_blocks(&plan, c, first.data, true);
  run_blocks(&plan, c, again.data, false);
  for (size_t i = 0; i < num_out; ++i) {
    assert_memory_equal(first.data[i], again.data[i], bytes_of(out[i]));
    free(again.data[i]);
  }
  ls_arena_deinit(&arena);
  return first;
}

static void release(results *r, loop_case *c) {
  for (size_t i = 0; i < MOST; ++i)
    free(r->data[i]);
  loop_case_deinit(c);
}

// ---- Sort ------------------------------------------------------------------
// One element beside its place, in the order that is wanted.
typedef struct item {
  double value;
  int64_t at;
} item;
static bool descending;

// -1, 0, 1; a nan is larger than any number.
static int compare_values(double x, double y) {
  if (isnan(x) || isnan(y)) return (int)!!isnan(x) - (int)!!isnan(y);
  return (x > y) - (x < y);
}

static int compare_items(const void *a, const void *b) {
  const item *x = a, *y = b;
  const int order = compare_values(x->value, y->value);
  if (order != 0) return descending ? -order : order;
  return (x->at > y->at) - (x->at < y->at);
}

// The elements of a line in the wanted order.
static item *sorted_line(ls_dtype dtype, const void *data, int64_t from,
                         int64_t step, int64_t count) {
  item *items = calloc((size_t)count + 1, sizeof(*items));
  for (int64_t i = 0; i < count; ++i)
    items[i] = (item){loop_read(dtype, data, from + i * step), i};
  qsort(items, (size_t)count, sizeof(*items), compare_items);
  return items;
}

// Puts what is special among floats into some elements.
static void add_specials(ls_dtype dtype, void *data, int64_t count,
                         loop_random *random) {
  static const double specials[] = {NAN, -0.0, 0, INFINITY, -INFINITY};
  if (!ls_dtype_is_float(dtype)) return;
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t which = loop_random_bits(random) % 20;
    if (which < LS_COUNT_OF(specials))
      loop_write(dtype, data, i, specials[which]);
  }
}

static void check_sort(ls_dtype dtype, int64_t outer, int64_t size,
                       int64_t inner, loop_random *random) {
  const ls_shape shape = LS_SHAPE(outer, size, inner);
  const ls_type out[] = {{dtype, shape},
                         {LS_DTYPE_I16, shape},
                         {LS_DTYPE_BOOL, shape},
                         {LS_DTYPE_I64, shape}};
  loop_case c = {.op = LS_OP_SORT};
  loop_case_attr(&c, LS_ATTR_I("axis", 1));
  loop_case_attr(&c, LS_ATTR_B("descending", descending));
  void *x = loop_case_add(&c, out[0], -9, 9, random);
  add_specials(dtype, x, outer * size * inner, random);
  const int16_t *carried = loop_case_add(&c, out[1], -90, 90, random);
  const uint8_t *flags = loop_case_add(&c, out[2], 0, 1, random);
  results got = run_many(&c, out, 4);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      const int64_t from = o * size * inner + i;
      item *want = sorted_line(dtype, x, from, inner, size);
      for (int64_t k = 0; k < size; ++k) {
        const int64_t at = from + k * inner, was = from + want[k].at * inner;
        assert_int_equal(((int64_t *)got.data[3])[at], want[k].at);
        assert_int_equal(
            compare_values(loop_read(dtype, got.data[0], at), want[k].value),
            0);
        assert_int_equal(((int16_t *)got.data[1])[at], carried[was]);
        assert_int_equal(((uint8_t *)got.data[2])[at], flags[was]);
      }
      free(want);
    }
  release(&got, &c);
}

static void sort_is_stable_both_ways_and_carries_operands(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 160; ++round) {
    descending = round % 2 == 1;
    const int64_t most = round % 5 == 0 ? 400 : 40;
    check_sort(all_types[(size_t)round / 2 % LS_COUNT_OF(all_types)],
               loop_random_between(&random, 0, 4),
               loop_random_between(&random, 0, most),
               loop_random_between(&random, 1, 5), &random);
  }
  descending = false;
  check_sort(LS_DTYPE_F32, 1, 20000, 1, &random);
}

static void large_numbers_sort_by_all_their_digits(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  enum { COUNT = 300 };
  const ls_type out[] = {{LS_DTYPE_I64, LS_SHAPE(COUNT)},
                         {LS_DTYPE_I64, LS_SHAPE(COUNT)}};
  loop_case c = {.op = LS_OP_SORT};
  loop_case_attr(&c, LS_ATTR_I("axis", 0));
  int64_t *x = loop_case_add_copy(&c, out[0], NULL);
  for (int i = 0; i < COUNT; ++i)
    x[i] = (int64_t)((uint64_t)loop_random_bits(&random) << 32 |
                     loop_random_bits(&random));
  results got = run_many(&c, out, 2);
  const int64_t *sorted = got.data[0];
  for (int i = 1; i < COUNT; ++i)
    assert_true(sorted[i - 1] <= sorted[i]);
  release(&got, &c);
}

static void top_k_is_the_front_of_a_descending_sort(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  descending = true;
  for (int round = 0; round < 120; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    const int64_t rows = loop_random_between(&random, 0, 9);
    const int64_t size = loop_random_between(&random, 1, 300);
    const int64_t k = loop_random_between(
        &random, 0, round % 2 == 0 ? ls_min_i64(size, 32) : size);
    const ls_type out[] = {{dtype, LS_SHAPE(rows, k)},
                           {LS_DTYPE_I32, LS_SHAPE(rows, k)}};
    loop_case c = {.op = LS_OP_TOP_K};
    loop_case_attr(&c, LS_ATTR_I("k", k));
    void *x = loop_case_add(&c, (ls_type){dtype, LS_SHAPE(rows, size)}, -20, 99,
                            &random);
    add_specials(dtype, x, rows * size, &random);
    results got = run_many(&c, out, 2);
    for (int64_t r = 0; r < rows; ++r) {
      item *want = sorted_line(dtype, x, r * size, 1, size);
      for (int64_t i = 0; i < k; ++i) {
        assert_int_equal(((int32_t *)got.data[1])[r * k + i], want[i].at);
        assert_int_equal(
            compare_values(loop_read(dtype, got.data[0], r * k + i),
                           want[i].value),
            0);
      }
      free(want);
    }
    release(&got, &c);
  }
}

static void argmin_is_the_first_minimum_and_nan_is_one(void **state) {
  (void)state;
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 80; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    const int64_t a = loop_random_between(&random, 1, 20);
    const int64_t n = loop_random_between(&random, 1, 90);
    const int64_t b = loop_random_between(&random, 1, 20);
    loop_case c = {.op = LS_OP_ARGMIN, .out = {LS_DTYPE_I64, LS_SHAPE(a, b)}};
    loop_case_attr(&c, LS_ATTR_I("axis", 1));
    void *x =
        loop_case_add(&c, (ls_type){dtype, LS_SHAPE(a, n, b)}, -5, 6, &random);
    const bool with_nan = ls_dtype_is_float(dtype) && round % 2 == 0;
    if (with_nan) loop_write(dtype, x, (n / 2) * b, NAN);
    int64_t *got = loop_case_run(&c);
    for (int64_t i = 0; i < a * b; ++i) {
      int64_t want = 0;
      const int64_t from = i / b * n * b + i % b;
      for (int64_t k = 1; k < n; ++k)
        if (loop_read(dtype, x, from + k * b) <
            loop_read(dtype, x, from + want * b))
          want = k;
      if (with_nan && i == 0) want = n / 2;
      assert_int_equal(got[i], want);
    }
    free(got);
    loop_case_deinit(&c);
  }
}

// ---- Scans -----------------------------------------------------------------
// f32 and 16 bits are computed in f32.
static double rounded(ls_dtype dtype, double value) {
  if (dtype == LS_DTYPE_F64) return value;
  if (ls_dtype_is_float(dtype)) return (double)(float)value;
  return loop_stored(dtype, value);
}

static double next_of(uint16_t op, ls_dtype dtype, double h, double a,
                      double b) {
  if (op == LS_OP_CUMSUM) return rounded(dtype, h + a);
  if (op == LS_OP_CUMPROD) return rounded(dtype, h * a);
  return rounded(dtype, rounded(dtype, a * h) + b);
}

// The value as the type holds it.
static double as_stored(ls_dtype dtype, double value) {
  uint64_t room = 0;
  loop_write(dtype, &room, 0, loop_stored(dtype, value));
  return loop_read(dtype, &room, 0);
}

static void check_scan(uint16_t op, ls_dtype dtype, ls_shape shape,
                       int32_t axis, loop_random *random) {
  const bool exclusive = loop_random_bits(random) % 2 == 0;
  const bool reverse = loop_random_bits(random) % 2 == 0;
  const bool is_linear = op == LS_OP_LINEAR_SCAN;
  // Products that neither vanish nor leave 64 bits.
  const bool is_float = ls_dtype_is_float(dtype);
  const double low = op == LS_OP_CUMSUM || !is_float ? 0 : 0.75;
  const double high = op == LS_OP_CUMSUM ? 9 : is_float ? 1.25 : 2;
  loop_case c = {.op = op, .out = {dtype, shape}};
  loop_case_attr(&c, LS_ATTR_I("axis", axis));
  loop_case_attr(&c, LS_ATTR_B("reverse", reverse));
  if (!is_linear) loop_case_attr(&c, LS_ATTR_B("exclusive", exclusive));
  const void *a = loop_case_add(&c, c.out, low, high, random);
  const void *b = is_linear ? loop_case_add(&c, c.out, -1, 1, random) : a;
  void *got = loop_case_run(&c);
  const int64_t size = shape.dim[axis];
  int64_t inner = 1;
  for (int32_t i = axis + 1; i < shape.rank; ++i)
    inner *= shape.dim[i];
  const int64_t count = ls_shape_num_elements(shape);
  for (int64_t line = 0; size > 0 && line < count / size; ++line) {
    const int64_t from = line / inner * size * inner + line % inner;
    double h = op == LS_OP_CUMPROD ? 1 : 0;
    for (int64_t k = 0; k < size; ++k) {
      const int64_t at = from + (reverse ? size - 1 - k : k) * inner;
      const double next = next_of(op, dtype, h, loop_read(dtype, a, at),
                                  loop_read(dtype, b, at));
      loop_expect(&c, got, at,
                  as_stored(dtype, exclusive && !is_linear ? h : next), 0);
      h = next;
    }
  }
  free(got);
  loop_case_deinit(&c);
}

static void scans_go_one_after_another(void **state) {
  (void)state;
  static const uint16_t ops[] = {LS_OP_CUMSUM, LS_OP_CUMPROD,
                                 LS_OP_LINEAR_SCAN};
  loop_random random = {loop_random_seed()};
  for (int round = 0; round < 240; ++round) {
    const ls_dtype dtype = any_type(&random, NUMBERS);
    ls_shape shape = {.rank = (int32_t)loop_random_between(&random, 1, 3)};
    for (int32_t i = 0; i < shape.rank; ++i)
      shape.dim[i] = loop_random_between(&random, round % 9 == 0 ? 0 : 1, 12);
    const int32_t axis =
        (int32_t)loop_random_between(&random, 0, shape.rank - 1);
    // Beyond 64-bit integers of that many factors doubles are not exact.
    const int64_t most =
        dtype == LS_DTYPE_I64 || dtype == LS_DTYPE_U64 ? 40 : 200;
    if (round % 4 == 0) shape.dim[axis] = loop_random_between(&random, 1, most);
    check_scan(ops[round % 3], dtype, shape, axis, &random);
  }
  check_scan(LS_OP_CUMSUM, LS_DTYPE_F32, LS_SHAPE(3, 90, 700), 1, &random);
  check_scan(LS_OP_LINEAR_SCAN, LS_DTYPE_F32, LS_SHAPE(90, 300), 0, &random);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sort_is_stable_both_ways_and_carries_operands),
      cmocka_unit_test(large_numbers_sort_by_all_their_digits),
      cmocka_unit_test(top_k_is_the_front_of_a_descending_sort),
      cmocka_unit_test(argmin_is_the_first_minimum_and_nan_is_one),
      cmocka_unit_test(scans_go_one_after_another),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
