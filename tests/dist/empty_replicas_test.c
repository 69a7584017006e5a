// SPDX-License-Identifier: Apache-2.0
//
// Products that are added up over replicas: those of replicas without rows are
// zeros, which are added and not stored, as a sum or a mean.
#include <string.h>

#include "base/allocator.h"
#include "support/counted.h"
#include "support/values.h"
#include "support/ways.h"

enum { WIDTH = 64, ROWS = 32 };

typedef struct product {
  ls_reduce_op op;
  double scale;  // 1: none.
  bool turns;    // Where there are rows, by -1: what is 0 is -0 then.
} product;

static ls_tensor multiplied(const product *p, ls_tensor x) {
  ls_tensor made = ls_matmul_transposed(x, true, ls_tanh(x), false);
  if (p->scale != 1) made = ls_mul_scalar(made, p->scale);
  if (p->turns) {
    const ls_tensor rows = ls_dim_size(x, 0);
    made = ls_mul(
        made,
        ls_select(ls_equal(rows, ls_scalar_i64(ls_tensor_dtype(rows), 0)),
                  ls_scalar(LS_DTYPE_F32, 1), ls_scalar(LS_DTYPE_F32, -1)));
  }
  return ls_all_reduce(p->op, made);
}

// ---- Memory ----------------------------------------------------------------
static ls_nest multiply(ls_nest args, void *user) {
  return LS_TUPLE(ls_leaf(multiplied(user, ls_nest_tensor(args, 0))));
}

static uint64_t peak_of(int64_t rows, product p) {
  enum { WIDE = 256 };
  const int replicas = 3 * ROWS;
  counted memory = counted_begin(1);
  const ls_nest args = LS_TUPLE(split_of(
      replicas, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(rows, WIDE), 5)));
  ls_nest result = call_on(replicas, multiply, &p, args, 2);
  const uint64_t peak = counted_now(&memory).peak_bytes;
  ls_nest_release(result);
  ls_nest_release(args);
  counted_end(&memory);
  return peak;
}

static const product products[] = {
    {LS_REDUCE_SUM, 1, false},      {LS_REDUCE_MEAN, 1, false},
    {LS_REDUCE_SUM, 0.25, false},   {LS_REDUCE_MEAN, 0.25, false},
    {LS_REDUCE_MEAN, -0.25, false}, {LS_REDUCE_SUM, 1, true},
};

static void products_of_no_rows_are_not_stored(void **state) {
  (void)state;
  for (size_t i = 0; i < LS_COUNT_OF(products); ++i) {
    const uint64_t full = peak_of(3 * ROWS, products[i]);
    const uint64_t empty = peak_of(ROWS, products[i]);
    if (empty > full + full / 4)
      fail_msg("product %zu takes %.2f MB, with empty replicas %.2f", i,
               (double)full * 1e-6, (double)empty * 1e-6);
  }
}

// ---- Bits ------------------------------------------------------------------
typedef struct rows_case {
  product product;
  int rows[WAYS_MOST_REPLICAS];
} rows_case;

static ls_nest rows_of_replica(const ways *self, int step, int r) {
  const rows_case *c = self->user;
  double numbers[2 * WIDTH];
  (void)step;
  for (int i = 0; i < 2 * WIDTH; ++i)
    numbers[i] = i % 3 == 0 ? 0 : (i % 3 == 1 ? -1 : 1) * (r + 1 + i % 5);
  return LS_TUPLE(ls_nest_array(
      array_of(LS_DTYPE_F32, LS_SHAPE(c->rows[r], WIDTH), numbers)));
}

static ls_nest multiply_in_replica(ls_nest args, ways *self) {
  const rows_case *c = self->user;
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  return LS_TUPLE(ls_leaf(multiplied(&c->product, x)));
}

static void zeros_are_added_to_the_bit(void **state) {
  (void)state;
  static const int rows[][WAYS_MOST_REPLICAS] = {
      {1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {1, 1, 0}, {1, 0, 1},
      {0, 1, 1}, {0, 0, 0}, {2, 1, 0}, {0, 2, 1}};
  for (size_t i = 0; i < LS_COUNT_OF(products); ++i)
    for (size_t k = 0; k < LS_COUNT_OF(rows); ++k) {
      rows_case c = {.product = products[i]};
      memcpy(c.rows, rows[k], sizeof(c.rows));
      ways_hold(&(ways_case){.name = "products",
                             .user = &c,
                             .args = rows_of_replica,
                             .step = multiply_in_replica},
                1);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(products_of_no_rows_are_not_stored),
      cmocka_unit_test(zeros_are_added_to_the_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
