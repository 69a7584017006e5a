// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include "lockstep/bag.h"
#include "lockstep/bag_full.h"
#include "lockstep/eager.h"

static int order[4], released;

static void note(void *thing) { order[released++] = *(int *)thing; }

TEST(a_bag_releases_what_came_last_first) {
  int numbers[] = {1, 2, 3};
  ls_bag bag = {0};
  released = 0;
  for (int i = 0; i < 3; ++i)
    assert_ptr_equal(ls_bag_keep(&bag, ls_ok(), &numbers[i], note),
                     &numbers[i]);
  ls_bag_empty(&bag);
  assert_int_equal(released, 3);
  for (int i = 0; i < 3; ++i)
    assert_int_equal(order[i], 3 - i);
  ls_bag_empty(&bag);  // As new.
  assert_int_equal(released, 3);
}

TEST(the_first_failure_waits_in_the_bag) {
  int number = 7;
  ls_bag bag = {0};
  released = 0;
  assert_null(ls_dense_layer_in(&bag, .name = "first", .inputs = 3));
  assert_null(ls_conv_layer_in(&bag, .name = "second"));
  assert_null(ls_adam_in(&bag));
  // What is made already is released with the failure it came with.
  assert_null(ls_bag_keep(&bag, ls_invalid_argument("third"), &number, note));
  assert_int_equal(order[0], 7);
  assert_null(ls_nest_in(&bag, ls_fail(ls_invalid_argument("fourth"))));
  expect_status(ls_bag_take_error(&bag), LS_INVALID_ARGUMENT, "first");
  expect_ok(ls_bag_take_error(&bag));
  assert_non_null(ls_adam_in(&bag));
  assert_null(ls_dense_layer_in(&bag, .inputs = -1));
  ls_bag_empty(&bag);  // Also of an error that nobody took.
}

static ls_nest twice(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_mul_scalar(ls_nest_tensor(args, 0), 2));
}

static ls_status fill(ls_bag *bag) {
  ls_dense_layer_in(bag, .inputs = 2, .units = 3);
  ls_norm_layer_in(bag, .channels = 3);
  ls_embedding_layer_in(bag, .rows = 4, .width = 2);
  ls_sgd_in(bag, .learning_rate = 0.1);
  ls_lamb_in(bag, .learning_rate = 0.1);
  ls_adagrad_in(bag);
  ls_rmsprop_in(bag, .momentum = 0.9);
  ls_lion_in(bag);
  ls_weight_in(bag, .name = "w", .shape = LS_SHAPE(2));
  ls_running_mean_in(bag, "mean");
  ls_mirrored_strategy_in(bag, .num_replicas = LS_SOME(2));
  ls_tpu_strategy_in(bag, .resolver = ls_tpu_resolver_in(bag));
  ls_infeed_queue_in(bag, .num_elements = LS_SOME(1));
  ls_function *function = ls_function_in(bag, .call = twice);
  ls_nest *args =
      ls_nest_in(bag, LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2))));
  ls_nest *results = ls_nest_in(bag, ls_none());
  LS_RETURN_IF_ERROR(ls_bag_take_error(bag));
  ((float *)ls_nest_data(*args, 0))[1] = 4;
  LS_RETURN_IF_ERROR(ls_function_call(function, *args, results));
  assert_true(ls_array_f64(ls_nest_as_array(*results), 1) == 8);
  return ls_ok();
}

MEMORY_TEST(fill_and_empty) {
  ls_bag bag = {0};
  LS_RETURN_IF_ERROR(ls_frame_begin());
  const ls_status status = fill(&bag);
  ls_bag_empty(&bag);
  return ls_status_join(status, ls_frame_end(NULL));
}
