// SPDX-License-Identifier: Apache-2.0
// Where updates of variables stand, and that they are right there.
#include "support/expect.h"
#include "support/lowered.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 8, COUNT = SIDE * SIDE };

#define M "f32[8, 8]"
#define PARAMETER "parameter() {dtype = f32, shape = shape[8, 8], index = "

// One letter an instruction: a product, an update, a loop's beginning or end.
static void expect_order(lowered *p, const char *want) {
  static const struct {
    const char *part;
    char letter;
  } kinds[] = {{" matmul ", 'p'},
               {" fused ", 'u'},
               {"loop_begin", 'b'},
               {"loop_end", 'e'}};
  char got[32] = "";
  size_t length = 0;
  HEAP(char, plan) = lowered_plan(p);
  for (char *line = strtok(plan, "\n"); line != NULL; line = strtok(NULL, "\n"))
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); ++i)
      if (strstr(line, kinds[i].part) != NULL && length + 1 < sizeof(got))
        got[length++] = kinds[i].letter;
  assert_string_equal(got, want);
}

// Small integers: every sum is exact.
static void fill(float *data, unsigned seed) {
  for (unsigned i = 0; i < COUNT; ++i)
    data[i] = (float)((i * i + seed * i) % 5) - 2;
}

static void multiply(float *c, const float *a, bool a_turned, const float *b,
                     bool b_turned) {
  for (int i = 0; i < SIDE; ++i)
    for (int j = 0; j < SIDE; ++j) {
      float sum = 0;
      for (int k = 0; k < SIDE; ++k)
        sum += a[a_turned ? k * SIDE + i : i * SIDE + k] *
               b[b_turned ? j * SIDE + k : k * SIDE + j];
      c[i * SIDE + j] = sum;
    }
}

// m = m / 2 + g, v -= m / 4.
static void update(float *v, float *m, const float *g) {
  for (int i = 0; i < COUNT; ++i) {
    m[i] = m[i] * 0.5F + g[i];
    v[i] -= m[i] * 0.25F;
  }
}

// z = x A B; its square's gradient. B is read once more after the gradient of B
// is there, so its update comes after that.
TEST(each_stands_behind_its_gradient_and_the_last_read) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .num_uses = 4,
          .written = {true, true, true, true},
          .text = "graph lowered \"p\" {"
                  "  %1 = " PARAMETER "0} : " M "  %2 = " PARAMETER "1} : " M
                  "  %3 = " PARAMETER "2} : " M "  %4 = " PARAMETER "3} : " M
                  "  %5 = " PARAMETER "4} : " M
                  "  %6 = constant() {value = f32[] [0.5]} : f32[]"
                  "  %7 = constant() {value = f32[] [0.25]} : f32[]"
                  "  %8 = matmul(%1, %2) : " M "  %9 = matmul(%8, %3) : " M
                  "  %10 = matmul(%8, %9) {transpose_a = true} : " M
                  "  %11 = matmul(%9, %3) {transpose_b = true} : " M
                  "  %12 = matmul(%1, %11) {transpose_a = true} : " M
                  "  %13 = mul(%4, %6) : " M "  %14 = add(%13, %12) : " M
                  "  %15 = mul(%14, %7) : " M "  %16 = sub(%2, %15) : " M
                  "  %17 = mul(%5, %6) : " M "  %18 = add(%17, %10) : " M
                  "  %19 = mul(%18, %7) : " M "  %20 = sub(%3, %19) : " M
                  "  return %16, %20, %14, %18 }"},
      &p));
  expect_order(&p, "ppppupu");
  float x[COUNT], want[4][COUNT], y[COUNT], z[COUNT], g[COUNT], h[COUNT];
  fill(x, 1);
  for (unsigned i = 0; i < 4; ++i) {
    fill(want[i], i + 2);
    memcpy(p.buffers[i]->data, want[i], sizeof(want[i]));
  }
  for (int run = 0; run < 2; ++run) {
    multiply(y, x, false, want[0], false);
    multiply(z, y, false, want[1], false);
    multiply(h, y, true, z, false);
    multiply(y, z, false, want[1], true);
    multiply(g, x, true, y, false);
    update(want[0], want[2], g);
    update(want[1], want[3], h);
    expect_ok(lowered_run(&p, (const void *[]){x}, NULL));
    for (int i = 0; i < 4; ++i)
      assert_memory_equal(p.buffers[i]->data, want[i], sizeof(want[i]));
    if (run == 1) break;
    // Larger numbers would be rounded.
    for (unsigned i = 0; i < 4; ++i) {
      fill(want[i], i + 7);
      memcpy(p.buffers[i]->data, want[i], sizeof(want[i]));
    }
  }
}

// The loop may not be come to, or come to again: nothing passes it.
TEST(none_passes_a_loop) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){
          .num_uses = 1,
          .written = {true},
          .text = "graph lowered \"p\" {"
                  "  %1 = " PARAMETER "0} : " M "  %2 = " PARAMETER "1} : " M
                  "  %3 = constant() {value = i32[] [0]} : i32[]"
                  "  %4 = matmul(%1, %1) : " M
                  "  %5:2 = while(%3, %1) {num_carried = 2, max_trips = 3}"
                  "  (graph lowered \"c\" loop {"
                  "  %1 = parameter() {dtype = i32, shape = shape[], index = "
                  "0} : i32[]"
                  "  %2 = " PARAMETER "1} : " M
                  "  %3 = constant() {value = i32[] [9]} : i32[]"
                  "  %4 = less(%1, %3) : bool[]"
                  "  return %4 }, graph lowered \"b\" loop {"
                  "  %1 = parameter() {dtype = i32, shape = shape[], index = "
                  "0} : i32[]"
                  "  %2 = " PARAMETER "1} : " M
                  "  %3 = constant() {value = i32[] [1]} : i32[]"
                  "  %4 = add(%1, %3) : i32[]"
                  "  %5 = neg(%2) : " M "  return %4, %5 }) : i32[], " M
                  "  %6 = matmul(%5:1, %1) : " M "  %7 = neg(%4) : " M
                  "  %8 = add(%2, %7) : " M "  return %6, %8 }"},
      &p));
  expect_order(&p, "pbeup");
  float x[COUNT], got[COUNT], square[COUNT];
  fill(x, 3);
  multiply(square, x, false, x, false);
  expect_ok(lowered_run(&p, (const void *[]){x}, (void *[]){got}));
  for (int i = 0; i < COUNT; ++i) {
    assert_true(got[i] == -square[i]);  // Three turns of the sign.
    assert_true(((float *)p.buffers[0]->data)[i] == -square[i]);
  }
}

// What a run hands out stays where it is.
TEST(a_result_of_the_run_is_no_update) {
  LS_OWN(lowered, p) = {0};
  expect_ok(lowered_create(
      &(lowered_options){.num_uses = 1,
                         .written = {true},
                         .text =
                             "graph lowered \"p\" {"
                             "  %1 = " PARAMETER "0} : " M "  %2 = " PARAMETER
                             "1} : " M "  %3 = matmul(%1, %1) : " M
                             "  %4 = matmul(%1, %1) {transpose_b = true} : " M
                             "  %5 = matmul(%1, %1) {transpose_a = true} : " M
                             "  %6 = abs(%3) : " M "  %7 = neg(%6) : " M
                             "  %8 = add(%2, %4) : " M "  %9 = mul(%8, %8) : " M
                             "  return %7, %5, %9 }"},
      &p));
  expect_order(&p, "ppupu");
  float x[COUNT], got[2][COUNT], want[3][COUNT];
  fill(x, 4);
  multiply(want[0], x, false, x, false);
  multiply(want[1], x, true, x, false);
  multiply(want[2], x, false, x, true);
  expect_ok(lowered_run(&p, (const void *[]){x}, (void *[]){got[0], got[1]}));
  for (int i = 0; i < COUNT; ++i) {
    assert_true(got[0][i] == (want[0][i] < 0 ? want[0][i] : -want[0][i]));
    assert_true(got[1][i] == want[1][i]);
    assert_true(((float *)p.buffers[0]->data)[i] == want[2][i] * want[2][i]);
  }
}
