// SPDX-License-Identifier: Apache-2.0
// Eager draws are made when their value is asked for, and nobody can tell.
#include "lockstep/runtime.h"
#include "support/callbacks.h"
#include "support/values.h"

#include "base/memory/allocator.h"
#include "base/threads/worker.h"
#include "graph/own.h"
#include "support/place.h"

#include <string.h>

enum { COUNT = 100000 };

static ls_tensor draw(void) {
  return ls_random_normal(LS_DTYPE_F32, LS_SHAPE(COUNT), 0, 1, NULL);
}

static void expect_equal(ls_array *a, ls_array *b, bool equal) {
  assert_int_equal(ls_array_size(a), ls_array_size(b));
  assert_int_equal(
      memcmp(ls_array_data(a), ls_array_data(b), ls_array_size(a)) == 0, equal);
  ls_array_release(a);
  ls_array_release(b);
}

// Has `call` run under a runtime of its own.
static ls_array *in_runtime(int threads, ls_array *(*call)(void)) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = threads});
  expect_ok(ls_frame_begin());
  ls_array *made = call();
  expect_ok(ls_frame_end(NULL));
  return made;
}

// ---- Order -----------------------------------------------------------------
static ls_array *second_first(void) {
  const ls_tensor first = draw(), second = draw();
  ls_array *array = tensor_array(second);
  ls_array_release(tensor_array(first));
  return array;
}

static ls_array *second_last(void) {
  const ls_tensor first = draw(), second = draw();
  ls_array_release(tensor_array(first));
  return tensor_array(second);
}

static ls_array *only_first(void) { return tensor_array(draw()); }

TEST(what_is_drawn_depends_on_the_order_of_draws_alone) {
  expect_equal(in_runtime(2, second_first), in_runtime(2, second_last), true);
  expect_equal(in_runtime(2, second_first), in_runtime(2, only_first), false);
}

// ---- Uses ------------------------------------------------------------------
static ls_array *through_frames(void) {
  expect_ok(ls_frame_begin());
  const ls_tensor drawn = draw();
  const ls_nest keep = ls_leaf(drawn);
  expect_ok(ls_frame_begin());
  ls_array_release(tensor_array(ls_neg(drawn)));
  expect_ok(ls_frame_end(NULL));
  expect_ok(ls_frame_end(&keep));
  return tensor_array(drawn);
}

static ls_array *kept_unseen(void) {
  expect_ok(ls_frame_begin());
  const ls_tensor drawn = draw();
  const ls_nest keep = ls_leaf(drawn);
  expect_ok(ls_frame_end(&keep));
  return tensor_array(drawn);
}

static ls_array *captured(void) {
  ls_tensor drawn = draw();
  LS_OWN(ls_nest, got) = call_on(1, negate_user, &drawn, ls_none(), 1);
  return tensor_array(ls_neg(ls_constant(ls_nest_as_array(got))));
}

static ls_array *argument(void) {
  LS_OWN(ls_nest, args) = LS_TUPLE(ls_leaf(draw()));
  LS_OWN(ls_nest, got) = call_on(1, negate_first, NULL, args, 1);
  return tensor_array(ls_neg(ls_constant(ls_nest_as_array(got))));
}

static ls_array *in_variable(void) {
  const ls_tensor drawn = draw();
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_value = drawn}, &variable));
  ls_array *array = variable_array(variable);
  // The draw is no part of the variable.
  ls_tensor_is_failed(
      ls_variable_assign(variable, ls_fill(LS_DTYPE_F32, LS_SHAPE(COUNT), 0)));
  expect_equal(tensor_array(drawn), ls_array_retain(array), true);
  return array;
}

static ls_nest give_variable(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_neg(ls_variable_read(user)));
}

static ls_array *bound(void) {
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_value = draw()}, &variable));
  LS_OWN(ls_nest, got) = call_on(1, give_variable, variable, ls_none(), 1);
  return tensor_array(ls_neg(ls_constant(ls_nest_as_array(got))));
}

TEST(a_draw_has_its_value_wherever_it_goes) {
  ls_array *(*const uses[])(void) = {through_frames, kept_unseen, captured,
                                     argument,       in_variable, bound};
  for (int threads = 1; threads <= 3; ++threads)
    for (size_t i = 0; i < LS_COUNT_OF(uses); ++i)
      expect_equal(in_runtime(threads, uses[i]), in_runtime(1, only_first),
                   true);
}

static void look_at(void *user) {
  ls_array_release(tensor_array(*(const ls_tensor *)user));
}

// Another thread looks at the draw while it becomes a variable's first value.
static ls_array *seen_meanwhile(void) {
  ls_tensor drawn = draw();
  ls_worker other = {0};
  expect_ok(ls_worker_start(&other, "other", NULL, look_at, &drawn));
  LS_OWN(ls_variable, variable) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_value = drawn}, &variable));
  ls_worker_join(&other);
  return variable_array(variable);
}

TEST(a_draw_may_be_seen_by_another_thread) {
  for (int i = 0; i < 20; ++i)
    expect_equal(in_runtime(2, seen_meanwhile), in_runtime(1, only_first),
                 true);
}

TEST(a_draw_is_no_condition) {
  const ls_tensor drawn =
      ls_random_uniform(LS_DTYPE_F32, LS_SCALAR, 0, 1, NULL);
  LS_OWN(ls_nest, got) = ls_cond(drawn, NULL, NULL, NULL);
  expect_status(ls_nest_status(got), LS_INVALID_ARGUMENT, "bool scalar, is");
}
