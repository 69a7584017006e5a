// SPDX-License-Identifier: Apache-2.0
// Elementwise instructions that become one: the same bytes as one by one.
#include "support/expect.h"
#include "support/lowered.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "lockstep/half.h"

enum { COUNT = 40000 };  // Blocks and tiles, the last ones not full.

static void fill(float *data, size_t count, float scale) {
  uint32_t state = 7;
  for (size_t i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    data[i] = scale * ((float)(state >> 8) * 0x1p-24F - 0.3F);
  }
}

static float *new_floats(size_t count) {
  float *data = malloc(count * sizeof(*data));
  assert_non_null(data);
  return data;
}

#define F "dtype = f32, shape = "
#define V "f32[40000]"

TEST(an_update_of_adam_is_one_pass) {
  LS_OWN(lowered, p) = {0};
  // The scalar's op between the members is moved before them.
  expect_ok(lowered_create(
      &(lowered_options){
          .num_uses = 3,
          .written = {true, true, true},
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {" F "shape[40000], index = 0} : " V
                  "  %2 = parameter() {" F "shape[], index = 1} : f32[]"
                  "  %3 = parameter() {" F "shape[40000], index = 2} : " V
                  "  %4 = parameter() {" F "shape[40000], index = 3} : " V
                  "  %5 = parameter() {" F "shape[40000], index = 4} : " V
                  "  %6 = constant() {value = f32[] [0.9]} : f32[]"
                  "  %7 = constant() {value = f32[] [0.1]} : f32[]"
                  "  %8 = neg(%1) : " V "  %9 = mul(%4, %6) : " V
                  "  %10 = mul(%8, %7) : " V "  %11 = add(%9, %10) : " V
                  "  %12 = mul(%8, %8) : " V "  %13 = mul(%12, %7) : " V
                  "  %14 = mul(%5, %6) : " V "  %15 = add(%14, %13) : " V
                  "  %16 = mul(%2, %6) : f32[]"
                  "  %17 = sqrt(%15) : " V "  %18 = add(%17, %7) : " V
                  "  %19 = mul(%11, %16) : " V "  %20 = div(%19, %18) : " V
                  "  %21 = sub(%3, %20) : " V "  return %21, %11, %15 }"},
      &p));
  assert_int_equal(lowered_plan_count(&p, "fused"), 1);
  assert_int_equal(lowered_plan_count(&p, "kernel "), 2);
  assert_in_range(p.backend->vtable->facts(p.executable).shared_bytes, 0, 256);
  HEAP(float, g) = new_floats(COUNT);
  HEAP(float, want) = new_floats(3 * COUNT);
  fill(g, COUNT, 1);
  for (int i = 0; i < 3; ++i)
    fill(p.buffers[i]->data, COUNT, (float)i + 1);
  float *v = p.buffers[2]->data;
  for (int i = 0; i < COUNT; ++i)
    v[i] = fabsf(v[i]);
  const float rate = 0.25F, decay = 0.9F, rest = 0.1F;
  for (int i = 0; i < COUNT; ++i) {
    const float d = -g[i];
    const float m = ((float *)p.buffers[1]->data)[i] * decay + d * rest;
    const float s = v[i] * decay + d * d * rest;
    want[i] = ((float *)p.buffers[0]->data)[i] -
              m * (rate * decay) / (sqrtf(s) + rest);
    want[COUNT + i] = m;
    want[2 * COUNT + i] = s;
  }
  expect_ok(lowered_run(&p, (const void *[]){g, &rate}, NULL));
  for (int i = 0; i < 3; ++i)
    assert_memory_equal(p.buffers[i]->data, want + i * COUNT,
                        COUNT * sizeof(float));
}

// What is read before it is overwritten, and read again; types of other sizes.
TEST(values_of_all_sizes_go_through_registers) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .text =
              "graph lowered \"p\" {"
              "  %1 = parameter() {" F "shape[40000], index = 0} : " V
              "  %2 = parameter() {" F "shape[40000], index = 1} : " V
              "  %3 = less(%1, %2) : bool[40000]"
              "  %4 = convert(%1) {dtype = f64} : f64[40000]"
              "  %5 = mul(%4, %4) : f64[40000]"
              "  %6 = convert(%5) {dtype = f32} : " V
              "  %7 = select(%3, %6, %2) : " V "  %8 = not(%3) : bool[40000]"
              "  return %7, %8 }"},
      &p));
  assert_int_equal(lowered_plan_count(&p, "fused"), 1);
  HEAP(float, a) = new_floats(COUNT);
  HEAP(float, b) = new_floats(COUNT);
  HEAP(float, got) = new_floats(COUNT);
  HEAP(bool, not_less) = malloc(COUNT);
  fill(a, COUNT, 1);
  fill(b, COUNT, -2);
  expect_ok(lowered_run(&p, (const void *[]){a, b}, (void *[]){got, not_less}));
  for (int i = 0; i < COUNT; ++i) {
    const float square = (float)((double)a[i] * (double)a[i]);
    const float want = a[i] < b[i] ? square : b[i];
    assert_memory_equal(&got[i], &want, sizeof(want));
    assert_int_equal(not_less[i], !(a[i] < b[i]));
  }
}

// More steps than a group holds, and more values at once than registers.
TEST(long_chains_are_cut) {
  enum { STEPS = 60 };
  ls_text text;
  ls_text_init(&text, ls_allocator_system());
  ls_text_append(&text, "graph lowered \"p\" {"
                        "  %1 = parameter() {" F "shape[40000], index = 0} : " V
                        "  %2 = neg(%1) : " V);
  for (int i = 0; i < STEPS; ++i)  // Each needs one from far back.
    ls_text_append_format(&text, "  %%%d = add(%%%d, %%%d) : " V, i + 3, i + 2,
                          i / 2 + 1);
  ls_text_append_format(&text, "  return %%%d }", STEPS + 2);
  LS_OWN(lowered, p) = {0};
  expect_ok(
      lowered_create(&(lowered_options){.text = ls_text_data(&text)}, &p));
  assert_in_range(lowered_plan_count(&p, "fused"), 2, 6);
  float *x = new_floats(COUNT), *got = new_floats(COUNT);
  fill(x, COUNT, 0.001F);
  expect_ok(lowered_run(&p, (const void *[]){x}, (void *[]){got}));
  for (int i = 0; i < COUNT; ++i) {
    float values[STEPS + 3] = {0, x[i], -x[i]};
    for (int k = 0; k < STEPS; ++k)
      values[k + 3] = values[k + 2] + values[k / 2 + 1];
    assert_memory_equal(&got[i], &values[STEPS + 2], sizeof(float));
  }
  free(x);
  free(got);
  ls_text_deinit(&text);
}

// A value that the body of a loop carries is read where it was left.
TEST(a_loop_fuses_its_body_alone) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .text =
              "graph lowered \"p\" {"
              "  %1 = parameter() {" F "shape[40000], index = 0} : " V
              "  %2 = constant() {value = i32[] [0]} : i32[]"
              "  %3 = neg(%1) : " V
              "  %4:2 = while(%2, %3) {num_carried = 2, max_trips = 3}"
              "  (graph lowered \"c\" loop {"
              "    %1 = parameter() {dtype = i32, shape = shape[], index = 0} "
              ": i32[]"
              "    %2 = parameter() {" F "shape[40000], index = 1} : " V
              "    %3 = constant() {value = i32[] [9]} : i32[]"
              "    %4 = less(%1, %3) : bool[]"
              "    return %4 }, graph lowered \"b\" loop {"
              "    %1 = parameter() {dtype = i32, shape = shape[], index = 0} "
              ": i32[]"
              "    %2 = parameter() {" F "shape[40000], index = 1} : " V
              "    %3 = constant() {value = i32[] [1]} : i32[]"
              "    %4 = add(%1, %3) : i32[]"
              "    %5 = mul(%2, %2) : " V "    %6 = add(%5, %2) : " V
              "    return %4, %6 }) : i32[], " V "  %5 = abs(%4:1) : " V
              "  %6 = sqrt(%5) : " V "  return %6 }"},
      &p));
  assert_int_equal(lowered_plan_count(&p, "fused"), 2);
  HEAP(float, x) = new_floats(COUNT);
  HEAP(float, got) = new_floats(COUNT);
  fill(x, COUNT, 0.5F);
  for (int run = 0; run < 2; ++run) {
    expect_ok(lowered_run(&p, (const void *[]){x}, (void *[]){got}));
    for (int i = 0; i < COUNT; ++i) {
      float y = -x[i];
      for (int k = 0; k < 3; ++k)
        y = y * y + y;
      const float want = sqrtf(fabsf(y));
      assert_memory_equal(&got[i], &want, sizeof(want));
    }
  }
}

// The old value is read thrice, and so is the new one, which lies on it.
TEST(a_variable_is_read_before_and_after_it_is_written) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .num_uses = 2,
          .written = {true, true},
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {" F "shape[40000], index = 0} : " V
                  "  %2 = parameter() {" F "shape[40000], index = 1} : " V
                  "  %3 = parameter() {" F "shape[40000], index = 2} : " V
                  "  %4 = mul(%2, %2) : " V "  %5 = add(%4, %2) : " V
                  "  %6 = add(%5, %1) : " V "  %7 = mul(%6, %6) : " V
                  "  %8 = mul(%7, %6) : " V "  %9 = sub(%6, %8) : " V
                  "  %10 = add(%3, %9) : " V "  return %6, %10 }"},
      &p));
  assert_int_equal(lowered_plan_count(&p, "fused"), 1);
  HEAP(float, x) = new_floats(COUNT);
  HEAP(float, want) = new_floats(2 * COUNT);
  fill(x, COUNT, 0.5F);
  fill(p.buffers[0]->data, COUNT, 1);
  fill(p.buffers[1]->data, COUNT, 2);
  for (int i = 0; i < COUNT; ++i) {
    const float v = ((float *)p.buffers[0]->data)[i];
    const float u = v * v + v + x[i];
    want[i] = u;
    want[COUNT + i] = ((float *)p.buffers[1]->data)[i] + (u - u * u * u);
  }
  expect_ok(lowered_run(&p, (const void *[]){x}, NULL));
  for (int i = 0; i < 2; ++i)
    assert_memory_equal(p.buffers[i]->data, want + i * COUNT,
                        COUNT * sizeof(float));
}

// A step that needs a whole value before its first element stays outside.
TEST(a_scalar_of_the_group_is_not_read_early) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {" F "shape[1], index = 0} : f32[1]"
                  "  %2 = neg(%1) : f32[1]"
                  "  %3 = reshape(%2) {sizes = sizes[]} : f32[]"
                  "  %4 = parameter() {" F "shape[1], index = 1} : f32[1]"
                  "  %5 = mul(%4, %3) : f32[1]"
                  "  return %5 }"},
      &p));
  float got = 0;
  expect_ok(lowered_run(&p, (const void *[]){(float[]){3}, (float[]){5}},
                        (void *[]){&got}));
  assert_true(got == -15);
}

// ---- Broadcasts ------------------------------------------------------------
enum { MOST_ELEMENTS = 40000 };

// A shape of the result and that of what is repeated, in the same dimensions.
typedef struct repeat_case {
  int rank;
  int64_t full[5], small[5];
} repeat_case;

static const repeat_case repeat_cases[] = {
    {2, {3, 1111}, {1, 1111}},               // A row.
    {2, {1111, 3}, {1111, 1}},               // A column.
    {2, {2000, 3}, {1, 3}},                  // A thin row.
    {2, {300, 129}, {1, 129}},               // Across tiles and blocks.
    {2, {3, 2000}, {3, 1}},                  // A thin column.
    {2, {1, 4097}, {1, 1}},                  // One number.
    {3, {17, 65, 7}, {17, 1, 7}},            // Between others.
    {3, {5, 129, 11}, {1, 129, 1}},          // Only there.
    {5, {2, 7, 7, 8, 5}, {2, 1, 1, 8, 1}},   // Groups of channels.
    {5, {3, 2, 33, 2, 9}, {1, 2, 1, 2, 9}},  // Every other one.
    {4, {2, 600, 1, 5}, {2, 600, 1, 1}},     // A dimension of size 1.
    {3, {4, 0, 3}, {4, 1, 3}},               // Nothing: no kernel.
};

static void append_shape(ls_text *text, const char *dtype, int rank,
                         const int64_t *dims) {
  ls_text_append_format(text, "%s[", dtype);
  for (int i = 0; i < rank; ++i)
    ls_text_append_format(text, "%s%lld", i > 0 ? "," : "", (long long)dims[i]);
  ls_text_append(text, "]");
}

// Returns the element of the small array under element `at` of the full one.
static int64_t element_under(const repeat_case *c, int64_t at) {
  int64_t under = 0, step = 1;
  for (int i = c->rank; i-- > 0; at /= c->full[i]) {
    if (c->small[i] != 1) under += at % c->full[i] * step;
    step *= c->small[i];
  }
  return under;
}

// x * y + y - x, where y is repeated twice and the last step works in place.
static void make_repeat(const repeat_case *c, const char *dtype, lowered *p) {
  ls_text text, full, small;
  ls_text_init(&text, ls_allocator_system());
  ls_text_init(&full, ls_allocator_system());
  ls_text_init(&small, ls_allocator_system());
  append_shape(&full, dtype, c->rank, c->full);
  append_shape(&small, dtype, c->rank, c->small);
  const char *f = ls_text_data(&full), *s = ls_text_data(&small);
  const char *full_dims = strchr(f, '['), *small_dims = strchr(s, '[');
  ls_text_append_format(
      &text,
      "graph lowered \"p\" {"
      "  %%1 = parameter() {dtype = %s, shape = shape%s, index = 0} : %s"
      "  %%2 = parameter() {dtype = %s, shape = shape%s, index = 1} : %s"
      "  %%3 = broadcast(%%2) {sizes = sizes%s} : %s  %%4 = mul(%%1, %%3) : %s"
      "  %%5 = broadcast(%%2) {sizes = sizes%s} : %s  %%6 = add(%%4, %%5) : %s"
      "  %%7 = sub(%%6, %%1) : %s  return %%7 }",
      dtype, full_dims, f, dtype, small_dims, s, full_dims, f, f, full_dims, f,
      f, f);
  lowered_make(p, &(lowered_options){.text = ls_text_data(&text)});
  ls_text_deinit(&text);
  ls_text_deinit(&full);
  ls_text_deinit(&small);
}

#define CHECK_REPEAT(T, name, FROM, TO)                                        \
  static void check_repeat_##name(const repeat_case *c) {                      \
    LS_OWN(lowered, p) = {0};                                                  \
    make_repeat(c, #name, &p);                                                 \
    static T x[MOST_ELEMENTS], y[MOST_ELEMENTS], got[MOST_ELEMENTS];           \
    int64_t count = 1;                                                         \
    for (int i = 0; i < c->rank; ++i)                                          \
      count *= c->full[i];                                                     \
    assert_int_equal(lowered_plan_count(&p, "fused"), count > 0);              \
    if (count > 0) assert_int_equal(lowered_plan_count(&p, "broadcast"), 0);   \
    assert_in_range(count, 0, MOST_ELEMENTS);                                  \
    for (int i = 0; i < MOST_ELEMENTS; ++i) {                                  \
      x[i] = FROM(i * 7 % 11 - 5);                                             \
      y[i] = FROM(i * 3 % 10 - 4);                                             \
    }                                                                          \
    expect_ok(lowered_run(&p, (const void *[]){x, y}, (void *[]){got}));       \
    for (int64_t i = 0; i < count; ++i) {                                      \
      const float under = TO(y[element_under(c, i)]), over = TO(x[i]);         \
      assert_true(TO(got[i]) == over * under + under - over);                  \
    }                                                                          \
  }
CHECK_REPEAT(float, f32, (float), (float))
CHECK_REPEAT(double, f64, (double), (float))
CHECK_REPEAT(int8_t, i8, (int8_t), (float))
CHECK_REPEAT(int16_t, i16, (int16_t), (float))
#define FROM_BF16(value) ls_bf16_from_f32((float)(value))
#define FROM_F16(value) ls_f16_from_f32((float)(value))
CHECK_REPEAT(uint16_t, bf16, FROM_BF16, ls_bf16_to_f32)
CHECK_REPEAT(uint16_t, f16, FROM_F16, ls_f16_to_f32)

TEST(broadcasts_are_steps_of_the_group_that_reads_them) {
  for (size_t i = 0; i < LS_COUNT_OF(repeat_cases); ++i) {
    check_repeat_f32(&repeat_cases[i]);
    check_repeat_f64(&repeat_cases[i]);
    check_repeat_i8(&repeat_cases[i]);
    check_repeat_i16(&repeat_cases[i]);
    check_repeat_bf16(&repeat_cases[i]);
    check_repeat_f16(&repeat_cases[i]);
  }
}

enum { ROWS = 40, COLUMNS = 1100 };
#define W "f32[40,1100]"
#define WIDE " {sizes = sizes[40,1100]} : f32[40,1100]"

// Long rows and columns are read where they are: a tile needs no register.
TEST(broadcasts_of_long_rows_are_not_copied) {
  LS_OWN(lowered, p) = {0};
  lowered_make(
      &p,
      &(lowered_options){
          .text = "graph lowered \"p\" {"
                  "  %1 = parameter() {" F "shape[40,1], index = 0} : f32[40,1]"
                  "  %2 = parameter() {" F "shape[1100], index = 1} : f32[1100]"
                  "  %3 = broadcast(%1)" WIDE "  %4 = broadcast(%2)" WIDE
                  "  %5 = sub(%3, %4) : " W "  return %5 }"});
  assert_int_equal(lowered_plan_count(&p, "fused"), 1);
  assert_in_range(p.backend->vtable->facts(p.executable).scratch_bytes, 0,
                  8192);
  float column[ROWS], row[COLUMNS];
  static float got[ROWS * COLUMNS];
  fill(column, ROWS, 1);
  fill(row, COLUMNS, 2);
  expect_ok(lowered_run(&p, (const void *[]){column, row}, (void *[]){got}));
  for (int i = 0; i < ROWS * COLUMNS; ++i)
    assert_true(got[i] == column[i / COLUMNS] - row[i % COLUMNS]);
}

// A column is one number per row: ops of one or three operands need all its
// elements, and so does one of two columns that meet.
TEST(columns_are_copied_for_ops_that_take_no_number) {
  LS_OWN(lowered, p) = {0};
  lowered_make(
      &p,
      &(lowered_options){
          .text =
              "graph lowered \"p\" {"
              "  %1 = parameter() {" F "shape[40,1], index = 0} : f32[40,1]"
              "  %2 = parameter() {" F "shape[40,1], index = 1} : f32[40,1]"
              "  %3 = parameter() {" F "shape[40,1100], index = 2} : " W
              "  %4 = broadcast(%1)" WIDE "  %5 = neg(%4) : " W
              "  %6 = broadcast(%1)" WIDE "  %7 = broadcast(%2)" WIDE
              "  %8 = sub(%6, %7) : " W "  %9 = mul(%8, %3) : " W
              "  %10 = broadcast(%2)" WIDE
              "  %11 = less(%5, %3) : bool[40,1100]"
              "  %12 = select(%11, %9, %10) : " W "  %13 = broadcast(%1)" WIDE
              "  %14 = add(%12, %13) : " W "  return %14 }"});
  assert_int_equal(lowered_plan_count(&p, "fused"), 1);
  float a[ROWS], b[ROWS];
  static float x[ROWS * COLUMNS], got[ROWS * COLUMNS];
  fill(a, ROWS, 1);
  fill(b, ROWS, 3);
  fill(x, ROWS * COLUMNS, 2);
  expect_ok(lowered_run(&p, (const void *[]){a, b, x}, (void *[]){got}));
  for (int i = 0; i < ROWS * COLUMNS; ++i) {
    const float c = a[i / COLUMNS], d = b[i / COLUMNS];
    const float product = (c - d) * x[i];
    assert_true(got[i] == (-c < x[i] ? product : d) + c);
  }
}
