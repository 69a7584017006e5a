// SPDX-License-Identifier: Apache-2.0
//
// What a gradient gives again instead of its being kept: the same bits as where
// it is kept since somebody else wants it too, and less memory.
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory/allocator.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/ops.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/sanitizer.h"
#include "support/values.h"

enum { ROWS = 337, COLUMNS = 20, INNER = 90, LAYERS = 3 };

// What a layer is, and whether its y is fetched beside the gradients.
typedef struct net {
  ls_dtype dtype;
  bool norm;
  bool fetches_y;
} net;

enum { X, W, V, SCALE, OFFSET, ARGS };

// f(x w) v, with f as the net has it, on top of itself; the first layer's f(x
// w) is `out_y`.
static ls_tensor stack_layers(const net *self, ls_nest args, ls_tensor *out_y) {
  ls_tensor x = ls_nest_tensor(args, X);
  for (int i = 0; i < LAYERS; ++i) {
    const ls_tensor u = ls_matmul(x, ls_nest_tensor(args, W));
    const ls_tensor y = self->norm
                            ? ls_layer_norm(u, ls_nest_tensor(args, SCALE),
                                            ls_nest_tensor(args, OFFSET), 1e-5)
                            : ls_gelu(u);
    if (i == 0) *out_y = y;
    x = ls_matmul(y, ls_nest_tensor(args, V));
  }
  return x;
}

static ls_nest gradients_of(ls_nest args, void *user) {
  const net *self = user;
  ls_tensor y = {0};
  const ls_tensor x = stack_layers(self, args, &y);
  const ls_nest loss = ls_leaf(ls_reduce_sum(ls_square(x), LS_ALL_AXES));
  ls_nest of[ARGS], d[ARGS] = {0};
  const ls_gradient_options zeros = {.unconnected_zero = true};
  for (size_t i = 0; i < ARGS; ++i)
    of[i] = ls_leaf(ls_nest_tensor(args, i));
  expect_ok(ls_gradients(&loss, 1, of, ARGS, &zeros, d));
  return LS_LIST(d[X], d[W], d[V], d[SCALE], d[OFFSET],
                 ls_leaf(self->fetches_y ? y : x));
}

// What came out, the text of what ran, and the bytes of its values.
typedef struct outcome {
  ls_nest values;
  char *text;
  size_t bytes;
} outcome;

static outcome run(const net *self) {
  const ls_dtype wide =
      self->dtype == LS_DTYPE_F64 ? LS_DTYPE_F64 : LS_DTYPE_F32;
  LS_OWN(ls_nest, args) = LS_LIST(
      ls_nest_array(array_of_numbers(self->dtype, LS_SHAPE(ROWS, COLUMNS), 1)),
      ls_nest_array(array_of_numbers(self->dtype, LS_SHAPE(COLUMNS, INNER), 2)),
      ls_nest_array(array_of_numbers(self->dtype, LS_SHAPE(INNER, COLUMNS), 3)),
      ls_nest_array(array_of_numbers(wide, LS_SHAPE(INNER), 4)),
      ls_nest_array(array_of_numbers(wide, LS_SHAPE(INNER), 5)));
  LS_OWN(ls_function, function) =
      unnamed_function(gradients_of, (void *)(uintptr_t)self);
  outcome out = {0};
  LS_OWN(printed, plan) = NULL;
  expect_ok(ls_function_call(function, args, &out.values));
  expect_ok(ls_function_print_lowered(function, &out.text));
  expect_ok(ls_function_print_plan(function, &plan));
  const char *bytes = strstr(plan, "bytes: shared ");
  assert_non_null(bytes);
  out.bytes = (size_t)strtoull(bytes + strlen("bytes: shared "), NULL, 10);
  return out;
}

static void outcome_deinit(outcome *out) {
  ls_nest_release(out->values);
  ls_text_release(out->text);
}
LS_OWNED_STRUCT(outcome, outcome_deinit)

static int count_of(const outcome *out, const char *call) {
  int count = 0;
  for (const char *at = out->text; (at = strstr(at, call)) != NULL; ++at)
    ++count;
  return count;
}

TEST(what_is_given_again_has_the_same_bits) {
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_BF16,
                                    LS_DTYPE_F16};
  for (size_t i = 0; i < 2 * LS_COUNT_OF(dtypes); ++i) {
    const net all = {.dtype = dtypes[i / 2], .norm = i % 2 != 0};
    net but_first = all;
    but_first.fetches_y = true;
    LS_OWN(outcome, a) = run(&all);
    LS_OWN(outcome, b) = run(&but_first);
    const char *again = all.norm ? " layer_norm_again(" : " gelu_again(";
    assert_int_equal(count_of(&a, again), LAYERS);
    assert_int_equal(count_of(&b, again), LAYERS - 1);
    for (size_t k = 0; k < ARGS; ++k) {
      const ls_array *x = ls_nest_as_array(ls_nest_item(a.values, k));
      const ls_array *y = ls_nest_as_array(ls_nest_item(b.values, k));
      assert_memory_equal(ls_array_data(x), ls_array_data(y),
                          (size_t)ls_array_num_elements(x) *
                              ls_dtype_size(ls_array_dtype(x)));
    }
  }
}

// Of what is as large as y, each layer keeps x w, and a gradient takes one
// more.
TEST(it_takes_no_memory_meanwhile) {
  const size_t large = ROWS * INNER * sizeof(float);
  for (int norm = 0; norm < 2; ++norm) {
    LS_OWN(outcome, got) =
        run(&(net){.dtype = LS_DTYPE_F32, .norm = norm != 0});
    assert_in_range(got.bytes, (LAYERS + 1) * large, (LAYERS + 2) * large);
  }
}

static ls_nest forward_of(ls_nest args, void *user) {
  ls_tensor y = {0};
  return ls_leaf(stack_layers(user, args, &y));
}

TEST(without_a_gradient_nothing_changes) {
  net plain = {.dtype = LS_DTYPE_F32};
  LS_OWN(ls_nest, args) =
      LS_LIST(ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2, 3), 1)),
              ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(3, 4), 2)),
              ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(4, 3), 3)));
  LS_OWN(printed, text) = NULL;
  LS_OWN(ls_function, function) = unnamed_function(forward_of, &plain);
  LS_OWN(ls_nest, result) = call_results(function, args);
  expect_ok(ls_function_print_lowered(function, &text));
  assert_null(strstr(text, "again("));
}

// A gelu of weights, which all replicas have in common, as is what else uses
// it; its gradient each has of its own.
static ls_nest of_weights(ls_nest args, void *user) {
  (void)user;
  const ls_tensor w = ls_nest_tensor(args, 1);
  const ls_tensor y = ls_gelu(w), also = ls_tanh(y);
  const ls_tensor z = ls_mul(y, ls_nest_tensor(args, 0));
  const ls_nest loss = ls_leaf(ls_reduce_sum(z, LS_ALL_AXES)), x = ls_leaf(w);
  ls_nest dw;
  expect_ok(ls_gradients(&loss, 1, &x, 1, NULL, &dw));
  return LS_LIST(dw, ls_leaf(also));
}

// One by one: no value that is computed once is made of one that is not.
static const char *one_by_one(void *user, const char *name) {
  (void)user;
  return strcmp(name, "LS_LANES") == 0 ? "blocks" : NULL;
}

TEST(what_replicas_have_in_common_is_not_given_by_each) {
  enum { REPLICAS = 2 };
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.environment = one_by_one});
  const ls_nest split = split_of(
      REPLICAS, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2 * REPLICAS, 3), 1));
  const ls_nest weights =
      ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2, 3), 2));
  LS_OWN(ls_nest, args) = LS_LIST(split, weights);
  LS_OWN(ls_nest, results) = call_on(REPLICAS, of_weights, NULL, args, 1);
  assert_int_equal(ls_distributed_count(ls_nest_item(results, 0)), REPLICAS);
}

// ---- Replicas ---------------------------------------------------------------

static ls_nest kept(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(*(const ls_tensor *)user);
}

// f(x), the same on all replicas, goes into a product that is, too, and into
// one that differs, beside a branch that each replica takes for itself.
static ls_nest shared_gradients_of(ls_nest args, void *user) {
  const net *self = user;
  ls_tensor own = ls_nest_tensor(args, 0);
  const ls_tensor x = ls_nest_tensor(args, 1), w = ls_nest_tensor(args, 2);
  const ls_tensor y = self->norm ? ls_layer_norm(x, ls_nest_tensor(args, 3),
                                                 ls_nest_tensor(args, 4), 1e-5)
                                 : ls_gelu(x);
  const ls_tensor sum = ls_reduce_sum(own, LS_ALL_AXES);
  LS_OWN(ls_nest, branch) =
      ls_cond(ls_greater(sum, ls_mul_scalar(sum, 0)), negate_user, kept, &own);
  own = branch.as.tensor;
  const ls_nest loss =
      ls_leaf(ls_add(ls_reduce_sum(ls_square(ls_matmul(y, w)), LS_ALL_AXES),
                     ls_reduce_sum(ls_mul(y, own), LS_ALL_AXES)));
  const ls_nest of[] = {ls_leaf(x), ls_leaf(w)};
  ls_nest d[2] = {0};
  expect_ok(ls_gradients(&loss, 1, of, 2, NULL, d));
  return LS_LIST(d[0], d[1], ls_leaf(self->fetches_y ? y : x));
}

static ls_nest shared_gradients(const net *self, int replicas) {
  const ls_shape shape = LS_SHAPE(2 * replicas, 6);
  LS_OWN(ls_nest, args) =
      LS_LIST(split_of(replicas, array_of_numbers(LS_DTYPE_F32, shape, 1)),
              ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(2, 6), 2)),
              ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(6, 5), 3)),
              ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(6), 4)),
              ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(6), 5)));
  return call_on(replicas, shared_gradients_of, (void *)(uintptr_t)self, args,
                 1);
}

static const void *numbers_on(ls_nest results, size_t k, int replica) {
  const ls_nest item = ls_nest_item(results, k);
  return ls_array_data(
      ls_nest_as_array(item.kind == LS_KIND_DISTRIBUTED
                           ? ls_distributed_component(item, (size_t)replica)
                           : item));
}

TEST(what_all_replicas_share_waits_for_none_of_them) {
  for (int i = 0; i < 6; ++i) {
    const int replicas = 1 + i / 2;
    const net shared = {.dtype = LS_DTYPE_F32, .norm = i % 2 != 0};
    net fetched = shared;
    fetched.fetches_y = true;
    LS_OWN(ls_nest, a) = shared_gradients(&shared, replicas);
    LS_OWN(ls_nest, b) = shared_gradients(&fetched, replicas);
    for (size_t k = 0; k < 2; ++k)
      for (int r = 0; r < replicas; ++r)
        assert_memory_equal(numbers_on(a, k, r), numbers_on(b, k, r),
                            (k == 0 ? 12 : 30) * sizeof(float));
  }
}

// ---- Time ------------------------------------------------------------------
enum { LONG = LS_SANITIZED ? 1000 : 4000 };

typedef struct chain {
  bool gelu;
  bool beside;  // One beside the other, and all multiplied; else in a row.
} chain;

static ls_nest long_gradients_of(ls_nest args, void *user) {
  const chain *c = user;
  const ls_tensor w = ls_nest_tensor(args, 0);
  ls_tensor x = w;
  for (int i = 0; i < LONG; ++i) {
    const ls_tensor u =
        c->beside ? ls_add_scalar(w, i * 0x1p-12) : ls_mul(x, w);
    const ls_tensor y = c->gelu ? ls_gelu(u) : ls_tanh(u);
    x = c->beside ? ls_mul(x, y) : y;
  }
  const ls_nest loss = ls_leaf(ls_reduce_sum(x, LS_ALL_AXES)), of = ls_leaf(w);
  ls_nest d = {0};
  expect_ok(ls_gradients(&loss, 1, &of, 1, NULL, &d));
  return d;
}

static double seconds_to_first_step(chain c) {
  LS_OWN(ls_nest, args) =
      LS_LIST(ls_nest_array(array_of_numbers(LS_DTYPE_F32, LS_SHAPE(8), 1)));
  LS_OWN(ls_function, function) = unnamed_function(long_gradients_of, &c);
  const clock_t before = clock();
  LS_OWN(ls_nest, result) = call_results(function, args);
  const clock_t after = clock();
  return (double)(after - before) / CLOCKS_PER_SEC;
}

// What is made beside the other comes of all that went into a product before
// it: a search for each would go through all of them.
TEST(long_chains_take_as_long_as_others) {
  for (int beside = 0; beside < 2; ++beside) {
    const double other = seconds_to_first_step((chain){false, beside});
    const double gelu = seconds_to_first_step((chain){true, beside});
    if (gelu > 2 * other)
      fail_msg("%g s with gelu, %g s with tanh", gelu, other);
  }
}
