// SPDX-License-Identifier: Apache-2.0
//
// Random programs in buckets: chains of ops on rows, and what becomes of all
// rows, have the bits that they have without padding. A few in each test run,
// thousands by hand with LS_TEST_PROGRAMS, from program LS_TEST_SEED on.
#include <stdio.h>
#include <stdlib.h>

#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/gradients.h"
#include "support/buckets.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

// Numbers of a program, drawn while it is built.
typedef struct program {
  uint32_t state;
} program;

static uint32_t draw(program *p, uint32_t count) {
  p->state = p->state * 1664525U + 1013904223U;
  return (p->state >> 8) % count;
}

static ls_tensor sum_of_rows(ls_tensor x) {
  return ls_reduce_sum(x, LS_AXES(0));
}

static ls_tensor mean_of_all(ls_tensor x) {
  return ls_reduce_mean(x, LS_ALL_AXES);
}

// Ops that see rows apart.
static ls_tensor apart(uint32_t which, ls_tensor x, ls_tensor first,
                       ls_tensor y) {
  const ls_tensor table = buckets_table(), row = sum_of_rows(table);
  switch (which) {
  case 0:
    return ls_exp(ls_neg(ls_square(x)));
  case 1:
    return ls_tanh(ls_relu(x));
  case 2:
    return ls_mul(x, row);
  case 3:
    return ls_softmax(ls_add(row, x));
  case 4:
    return ls_sub(x, ls_reduce_max_keep(x, LS_AXES(1)));
  case 5:
    return ls_div(x, ls_add(f32_of(1), ls_abs(x)));
  case 6:
    return ls_matmul(ls_matmul_transposed(x, false, table, true), table);
  case 7:
    return ls_log(ls_abs(x));  // Of padding it is not finite.
  case 8:
    return ls_add(x, ls_gather(table, y, 0));
  case 9:
    return ls_select(ls_less(x, first), x, f32_of(-0.0));
  case 10:
    return ls_layer_norm(x, row, row, 1e-3);
  default:
    return ls_reshape(ls_neg(ls_reshape(x, LS_SHAPE(-1, 2, 2))),
                      LS_SHAPE(-1, 4));
  }
}

// Ops that put rows, or replicas, together.
static ls_tensor together(uint32_t which, ls_tensor x, ls_tensor first) {
  switch (which) {
  case 0:
    return ls_mul(x, sum_of_rows(x));
  case 1:
    return ls_sub(x, ls_reduce_mean(x, LS_AXES(0)));
  case 2:
    return ls_div(x, ls_convert(ls_dim_size(first, 0), LS_DTYPE_F32));
  default:
    return ls_mul(x, ls_all_reduce(LS_REDUCE_SUM, mean_of_all(x)));
  }
}

static ls_tensor gradient(ls_tensor x, ls_tensor first) {
  const ls_nest loss = ls_leaf(mean_of_all(x)), by = ls_leaf(first);
  ls_nest made = ls_none();
  expect_ok(ls_gradients(&loss, 1, &by, 1, NULL, &made));
  return made.kind == LS_KIND_TENSOR ? sum_of_rows(made.as.tensor)
                                     : loss.as.tensor;
}

static ls_tensor end_of(uint32_t which, ls_tensor x, ls_tensor first) {
  switch (which) {
  case 0:
    return ls_reduce_sum(x, LS_ALL_AXES);
  case 1:
    return mean_of_all(x);
  case 2:
    return ls_matmul_transposed(x, true, first, false);
  case 3:
    return ls_reduce_max(x, LS_AXES(0));
  default:
    return gradient(x, first);
  }
}

static ls_nest run_program(ls_nest args, void *user) {
  program p = *(const program *)user;
  const ls_tensor first = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  ls_tensor x = first;
  for (uint32_t left = 1 + draw(&p, 7); left > 0; --left)
    x = draw(&p, 3) == 0 ? together(draw(&p, 4), x, first)
                         : apart(draw(&p, 12), x, first, y);
  return ls_leaf(end_of(draw(&p, 5), x, first));
}

enum { TIMES = 5 };

// In buckets or not; how many programs it takes.
static size_t run_all(program *p, bool in_buckets, ls_nest *results) {
  static const int64_t sizes[TIMES][2] = {
      {5, 6}, {8, 7}, {0, 8}, {17, 30}, {128, 65}};
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_function, f) = function_of(run_program, p);
  const size_t before = buckets_num_programs();
  const ls_run_options options = {.bucketize =
                                      in_buckets ? LS_FLAG_ON : LS_FLAG_OFF};
  for (size_t i = 0; i < TIMES; ++i) {
    LS_OWN(ls_nest, args) = buckets_values(sizes[i]);
    expect_ok(
        ls_strategy_run_with(s, ls_traced(f), args, &options, &results[i]));
  }
  return buckets_num_programs() - before;
}

static uint32_t number_in(const char *name, uint32_t otherwise) {
  const char *text = getenv(name);
  return text == NULL ? otherwise : (uint32_t)strtoul(text, NULL, 10);
}

TEST(random_programs_have_the_same_bits) {
  LS_SPEC("T96");
  const uint32_t first = number_in("LS_TEST_SEED", 1);
  const uint32_t count = number_in("LS_TEST_PROGRAMS", 30);
  size_t shared = 0;
  for (uint32_t seed = first; seed < first + count; ++seed) {
    program p = {seed * 2654435761U};
    char name[40];
    ls_nest plain[TIMES] = {0}, buckets[TIMES] = {0};
    snprintf(name, sizeof(name), "program %u", (unsigned)seed);
    const size_t programs = run_all(&p, true, buckets);
    run_all(&p, false, plain);
    shared += programs == 3;  // Up to 8, 32 and 128 rows.
    for (size_t i = 0; i < TIMES; ++i) {
      for (int r = 0; r < 2; ++r)
        buckets_expect_same(
            name, ls_nest_as_array(buckets_component(buckets[i], r)),
            ls_nest_as_array(buckets_component(plain[i], r)), "result", i);
      ls_nest_release(plain[i]);
      ls_nest_release(buckets[i]);
    }
  }
  // Most have a rule for each of their ops.
  assert_true(shared >= count * 3 / 4);
}
