// SPDX-License-Identifier: Apache-2.0
//
// What gradients of products keep in memory.
#include <stdlib.h>
#include <string.h>

#include "lockstep/function_plan.h"
#include "runtime/own.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/recurrence.h"

enum { ROWS = 64, INPUTS = 8, INNER = 256, OUTPUTS = 8 };

typedef ls_tensor product(ls_tensor a, ls_tensor b);

static ls_tensor dense_product(ls_tensor a, ls_tensor b) {
  return ls_dense(a, b, (ls_tensor){0}, LS_ACTIVATION_NONE);
}

static ls_tensor plain_product(ls_tensor a, ls_tensor b) {
  return ls_matmul(a, b);
}

// Of gelu(x w) v by w and v. `user`: the product to use.
static ls_nest gradients_of_two(ls_nest args, void *user) {
  product *const multiply = *(product **)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  const ls_tensor w = ls_nest_tensor(args, 1), v = ls_nest_tensor(args, 2);
  const ls_tensor y = multiply(ls_gelu(multiply(x, w)), v);
  const ls_nest ys[] = {ls_leaf(ls_mul(y, y))};
  const ls_nest xs[] = {ls_leaf(w), ls_leaf(v)};
  ls_nest grads[2];
  const ls_status status = ls_gradients(ys, 1, xs, 2, NULL, grads);
  return ls_status_is_ok(status) ? LS_LIST(grads[0], grads[1])
                                 : ls_fail(status);
}

static ls_nest ones(int64_t rows, int64_t columns) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SHAPE(rows, columns), &array));
  for (int64_t i = 0; i < rows * columns; ++i)
    ls_array_set_f64(array, i, 1);
  return ls_nest_array(array);
}

static size_t shared_bytes(product *multiply) {
  LS_OWN(ls_function, f) = function_of(gradients_of_two, &multiply);
  LS_OWN(ls_nest, args) =
      LS_LIST(ones(ROWS, INPUTS), ones(INPUTS, INNER), ones(INNER, OUTPUTS));
  LS_OWN(printed, text) = NULL;
  LS_OWN(ls_nest, result) = call_results(f, args);
  expect_ok(ls_function_print_plan(f, &text));
  const char *at = strstr(text, "bytes: shared ");
  assert_non_null(at);
  return (size_t)strtoull(at + strlen("bytes: shared "), NULL, 10);
}

// Of what is as large as h there are never more than two: x w, which gelu's
// gradient reads, and h, in whose place the gradient of it is computed.
TEST(an_operand_gives_its_memory_to_its_gradient) {
  const size_t large = ROWS * INNER * sizeof(float);
  assert_in_range(shared_bytes(plain_product), 2 * large, 5 * large / 2);
  assert_in_range(shared_bytes(dense_product), 2 * large, 5 * large / 2);
}
