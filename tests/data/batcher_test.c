// SPDX-License-Identifier: Apache-2.0
#include "support/counted.h"
#include "support/expect.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/data.h"

// Ten u8 examples of shape [2]: example i is (i, 51), its label i.
static ls_examples *ten(void) {
  ls_array *examples = NULL, *labels = NULL;
  ls_examples *dataset = NULL;
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(10, 2), &examples));
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(10), &labels));
  for (int64_t i = 0; i < 10; ++i) {
    ls_array_set_i64(examples, 2 * i, i);
    ls_array_set_i64(examples, 2 * i + 1, 51);
    ls_array_set_i64(labels, i, i);
  }
  expect_ok(ls_examples_create(examples, labels, &dataset));
  ls_array_release(examples);
  ls_array_release(labels);
  return dataset;
}

static ls_batcher *deal(const ls_batcher_options *options) {
  ls_examples *dataset = ten();
  ls_batcher *batcher = NULL;
  expect_ok(ls_batcher_create(dataset, options, &batcher));
  ls_examples_release(dataset);
  return batcher;
}

static int64_t label(ls_nest batch, int64_t index) {
  return ls_array_i64(ls_nest_as_array(ls_nest_item(batch, 1)), index);
}

// Deals the rest of the epoch; writes its labels, returns their number.
static int64_t deal_epoch(ls_batcher *batcher, ls_nest *batch, int64_t *out) {
  int64_t count = 0;
  ls_status status;
  while (ls_status_is_ok(status = ls_batcher_next(batcher, batch))) {
    const ls_array *x = ls_nest_as_array(ls_nest_item(*batch, 0));
    const int64_t size = ls_array_shape(x).dim[0];
    for (int64_t i = 0; i < size; ++i) {
      out[count++] = label(*batch, i);
      assert_float_equal(ls_array_f64(x, 2 * i), (double)label(*batch, i) / 255,
                         1e-8);
      assert_float_equal(ls_array_f64(x, 2 * i + 1), 0.2, 1e-7);
    }
  }
  expect_status(status, LS_OUT_OF_RANGE, "the end of epoch");
  return count;
}

static void batches_cover_the_dataset_in_order(void **state) {
  (void)state;
  ls_batcher *batcher = deal(&(ls_batcher_options){.batch_size = 4});
  assert_int_equal(ls_batcher_num_batches(batcher), 3);
  ls_nest batch = {0};
  int64_t labels[10];
  for (int epoch = 0; epoch < 2; ++epoch) {
    assert_int_equal(ls_batcher_epoch(batcher), epoch);
    assert_int_equal(deal_epoch(batcher, &batch, labels), 10);
    for (int64_t i = 0; i < 10; ++i)
      assert_int_equal(labels[i], i);
  }
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void the_remainder_can_be_dropped(void **state) {
  (void)state;
  ls_batcher *batcher =
      deal(&(ls_batcher_options){.batch_size = 4, .drop_remainder = true});
  assert_int_equal(ls_batcher_num_batches(batcher), 2);
  ls_nest batch = {0};
  int64_t labels[10];
  assert_int_equal(deal_epoch(batcher, &batch, labels), 8);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void shuffled_epochs_differ_and_repeat(void **state) {
  (void)state;
  const ls_batcher_options options = {
      .batch_size = 3, .shuffle = true, .seed = 5};
  int64_t labels[2][2][10];
  for (int run = 0; run < 2; ++run) {
    ls_batcher *batcher = deal(&options);
    ls_nest batch = {0};
    for (int epoch = 0; epoch < 2; ++epoch) {
      bool seen[10] = {false};
      assert_int_equal(deal_epoch(batcher, &batch, labels[run][epoch]), 10);
      for (int i = 0; i < 10; ++i)
        seen[labels[run][epoch][i]] = true;
      for (int i = 0; i < 10; ++i)
        assert_true(seen[i]);
    }
    ls_nest_release(batch);
    ls_batcher_destroy(batcher);
  }
  assert_memory_equal(labels[0], labels[1], sizeof(labels[0]));
  assert_memory_not_equal(labels[0][0], labels[0][1], sizeof(labels[0][0]));
}

static void a_run_can_go_on_anywhere(void **state) {
  (void)state;
  ls_batcher *batcher =
      deal(&(ls_batcher_options){.batch_size = 4, .shuffle = true});
  ls_nest batch = {0};
  int64_t all[10], rest[10];
  expect_ok(ls_batcher_seek(batcher, 7, 0));
  assert_int_equal(deal_epoch(batcher, &batch, all), 10);
  expect_ok(ls_batcher_seek(batcher, 7, 1));
  assert_int_equal(ls_batcher_batch(batcher), 1);
  assert_int_equal(deal_epoch(batcher, &batch, rest), 6);
  assert_memory_equal(rest, all + 4, 6 * sizeof(all[0]));
  expect_status(ls_batcher_seek(batcher, 0, 4), LS_INVALID_ARGUMENT,
                "no batch 4 of epoch 0: an epoch has 3");
  expect_status(ls_batcher_seek(batcher, -1, 0), LS_INVALID_ARGUMENT,
                "epoch -1");
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void examples_take_the_shape_that_is_asked_for(void **state) {
  (void)state;
  ls_batcher *batcher = deal(&(ls_batcher_options){
      .batch_size = 5, .example_shape = LS_SHAPE(1, 2, 1)});
  ls_nest batch = {0};
  expect_ok(ls_batcher_next(batcher, &batch));
  assert_true(
      ls_shape_equal(ls_array_shape(ls_nest_as_array(ls_nest_item(batch, 0))),
                     LS_SHAPE(5, 1, 2, 1)));
  assert_true(ls_shape_equal(
      ls_array_shape(ls_nest_as_array(ls_nest_item(batch, 1))), LS_SHAPE(5)));
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void options_that_cannot_be_are_refused(void **state) {
  (void)state;
  ls_examples *dataset = ten();
  ls_batcher *batcher = NULL;
  expect_status(ls_batcher_create(
                    dataset, &(ls_batcher_options){.batch_size = -1}, &batcher),
                LS_INVALID_ARGUMENT, "got -1");
  expect_status(ls_batcher_create(dataset,
                                  &(ls_batcher_options){.batch_size = 11,
                                                        .drop_remainder = true},
                                  &batcher),
                LS_INVALID_ARGUMENT, "batches of 11 from 10 examples");
  expect_status(
      ls_batcher_create(dataset,
                        &(ls_batcher_options){.example_shape = LS_SHAPE(3)},
                        &batcher),
      LS_INVALID_ARGUMENT, "f32[2], which cannot be made f32[3]");
  expect_status(ls_batcher_create(
                    dataset, &(ls_batcher_options){.replicas = -1}, &batcher),
                LS_INVALID_ARGUMENT, "batches for -1 replicas");
  assert_null(batcher);
  ls_examples_release(dataset);
}

static void arrays_that_somebody_holds_are_left_alone(void **state) {
  (void)state;
  ls_batcher *batcher = deal(&(ls_batcher_options){.batch_size = 5});
  ls_nest batch = {0};
  expect_ok(ls_batcher_next(batcher, &batch));
  const ls_nest held = ls_nest_retain(batch);
  expect_ok(ls_batcher_next(batcher, &batch));
  assert_int_equal(label(held, 0), 0);
  assert_int_equal(label(batch, 0), 5);
  ls_nest_release(held);
  ls_array *labels = ls_array_retain(ls_nest_as_array(ls_nest_item(batch, 1)));
  expect_status(ls_batcher_next(batcher, &batch), LS_OUT_OF_RANGE, "epoch 0");
  expect_ok(ls_batcher_next(batcher, &batch));
  assert_int_equal(ls_array_i64(labels, 0), 5);
  ls_array_release(labels);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

// ---- Tokens ----------------------------------------------------------------
// Three examples of two tokens of this type, 10 to 15, each with the next one
// as its label.
static ls_examples *tokens(ls_dtype dtype) {
  ls_array *examples = NULL, *labels = NULL;
  ls_examples *dataset = NULL;
  expect_ok(ls_array_create(dtype, LS_SHAPE(3, 2), &examples));
  expect_ok(ls_array_create(LS_DTYPE_I64, LS_SHAPE(3, 2), &labels));
  for (int64_t i = 0; i < 6; ++i) {
    ls_array_set_i64(examples, i, 10 + i);
    ls_array_set_i64(labels, i, 11 + i);
  }
  expect_ok(ls_examples_create(examples, labels, &dataset));
  ls_array_release(examples);
  ls_array_release(labels);
  return dataset;
}

// Deals `dataset`, which is released, in batches of two.
static void expect_tokens(ls_examples *dataset, ls_dtype asked) {
  ls_batcher *batcher = NULL;
  expect_ok(ls_batcher_create(
      dataset, &(ls_batcher_options){.batch_size = 2, .dtype = asked},
      &batcher));
  ls_examples_release(dataset);
  ls_nest batch = {0};
  for (int64_t first = 0; first < 3; first += 2) {
    const ls_shape shape = LS_SHAPE(first == 0 ? 2 : 1, 2);
    expect_ok(ls_batcher_next(batcher, &batch));
    for (size_t item = 0; item < 2; ++item) {
      const ls_array *array = ls_nest_as_array(ls_nest_item(batch, item));
      assert_int_equal(ls_array_dtype(array), LS_DTYPE_I32);
      assert_true(ls_shape_equal(ls_array_shape(array), shape));
      for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
        assert_int_equal(ls_array_i64(array, i),
                         10 + (int64_t)item + 2 * first + i);
    }
  }
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void tokens_are_dealt_as_they_are_with_a_label_each(void **state) {
  (void)state;
  expect_tokens(tokens(LS_DTYPE_I32), LS_DTYPE_NONE);
  expect_tokens(tokens(LS_DTYPE_I32), LS_DTYPE_I32);
  expect_tokens(tokens(LS_DTYPE_U8), LS_DTYPE_I32);
}

static void shuffled_labels_stay_with_their_examples(void **state) {
  (void)state;
  ls_examples *dataset = tokens(LS_DTYPE_I32);
  ls_batcher *batcher = NULL;
  expect_ok(ls_batcher_create(
      dataset, &(ls_batcher_options){.batch_size = 3, .shuffle = true},
      &batcher));
  ls_examples_release(dataset);
  ls_nest batch = {0};
  bool moved = false;
  for (int epoch = 0; epoch < 8; ++epoch) {
    expect_ok(ls_batcher_seek(batcher, epoch, 0));
    expect_ok(ls_batcher_next(batcher, &batch));
    const ls_array *x = ls_nest_as_array(ls_nest_item(batch, 0));
    for (int64_t i = 0; i < 6; ++i)
      assert_int_equal(label(batch, i), ls_array_i64(x, i) + 1);
    moved |= ls_array_i64(x, 0) != 10;
  }
  assert_true(moved);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void expect_type_refused(ls_dtype has, ls_dtype asked,
                                const char *part) {
  ls_examples *dataset = tokens(has);
  ls_batcher *batcher = NULL;
  expect_status(ls_batcher_create(
                    dataset, &(ls_batcher_options){.dtype = asked}, &batcher),
                LS_INVALID_ARGUMENT, part);
  assert_null(batcher);
  ls_examples_release(dataset);
}

static void types_that_would_lose_something_are_refused(void **state) {
  (void)state;
  expect_type_refused(LS_DTYPE_I32, LS_DTYPE_F32,
                      "i32, which cannot be dealt in f32");
  expect_type_refused(LS_DTYPE_F32, LS_DTYPE_I32,
                      "f32, which cannot be dealt in i32");
  expect_type_refused(LS_DTYPE_U8, LS_DTYPE_F64, "u8 can be in f32 or i32");
  expect_type_refused(LS_DTYPE_U8, LS_DTYPE_U8, "cannot be dealt in u8");
}

static void steady_dealing_allocates_nothing(void **state) {
  (void)state;
  counted memory = counted_begin(0);
  ls_batcher *batcher =
      deal(&(ls_batcher_options){.batch_size = 2, .shuffle = true});
  ls_nest batch = {0};
  expect_ok(ls_batcher_next(batcher, &batch));
  const uint64_t count = counted_now(&memory).allocations;
  const void *data = ls_array_data(ls_nest_as_array(ls_nest_item(batch, 0)));
  for (int i = 1; i < 5; ++i)
    expect_ok(ls_batcher_next(batcher, &batch));
  assert_int_equal(counted_now(&memory).allocations, count);
  assert_ptr_equal(ls_array_data(ls_nest_as_array(ls_nest_item(batch, 0))),
                   data);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
  counted_end(&memory);
}

static void in_place_held_arrays_are_filled_too(void **state) {
  (void)state;
  ls_batcher *batcher = deal(&(ls_batcher_options){
      .batch_size = 5, .drop_remainder = true, .in_place = true});
  ls_nest batch = {0};
  expect_ok(ls_batcher_next(batcher, &batch));
  const ls_nest held = ls_nest_retain(batch);
  ls_array *labels = ls_array_retain(ls_nest_as_array(ls_nest_item(batch, 1)));
  assert_int_equal(ls_array_i64(labels, 0), 0);
  expect_ok(ls_batcher_next(batcher, &batch));
  assert_ptr_equal(ls_nest_as_array(ls_nest_item(batch, 1)), labels);
  assert_int_equal(ls_array_i64(labels, 0), 5);
  ls_array_release(labels);
  ls_nest_release(held);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

// ---- Parts -----------------------------------------------------------------
// Writes the labels of a replica's part, returns their number.
static int64_t part_labels(ls_nest batch, size_t replica, int64_t *out) {
  const ls_array *part = ls_nest_as_array(
      ls_distributed_component(ls_nest_item(batch, 1), replica));
  const ls_array *examples = ls_nest_as_array(
      ls_distributed_component(ls_nest_item(batch, 0), replica));
  const int64_t count = ls_array_num_elements(part);
  assert_int_equal(ls_array_shape(examples).dim[0], count);
  for (int64_t i = 0; i < count; ++i) {
    out[i] = ls_array_i64(part, i);
    assert_float_equal(ls_array_f64(examples, 2 * i), (double)out[i] / 255,
                       1e-8);
  }
  return count;
}

static void each_replica_is_dealt_its_part_of_a_batch(void **state) {
  (void)state;
  ls_batcher *batcher =
      deal(&(ls_batcher_options){.batch_size = 8, .replicas = 3});
  ls_nest batch = {0};
  // 8 examples, then the 2 that are left.
  static const int64_t counts[2][3] = {{3, 3, 2}, {1, 1, 0}};
  int64_t next = 0;
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_batcher_next(batcher, &batch));
    assert_int_equal(ls_distributed_count(ls_nest_item(batch, 0)), 3);
    assert_int_equal(ls_distributed_kind_of(ls_nest_item(batch, 0)),
                     LS_PER_REPLICA);
    for (size_t r = 0; r < 3; ++r) {
      int64_t labels[8];
      assert_int_equal(part_labels(batch, r, labels), counts[i][r]);
      for (int64_t k = 0; k < counts[i][r]; ++k)
        assert_int_equal(labels[k], next++);
    }
  }
  assert_int_equal(next, 10);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void one_replica_is_dealt_one_part(void **state) {
  (void)state;
  ls_batcher *batcher =
      deal(&(ls_batcher_options){.batch_size = 4, .replicas = 1});
  ls_nest batch = {0};
  int64_t labels[8];
  expect_ok(ls_batcher_next(batcher, &batch));
  assert_int_equal(ls_distributed_count(ls_nest_item(batch, 0)), 1);
  assert_int_equal(part_labels(batch, 0, labels), 4);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void parts_that_somebody_holds_are_left_alone(void **state) {
  (void)state;
  ls_batcher *batcher =
      deal(&(ls_batcher_options){.batch_size = 5, .replicas = 2});
  ls_nest batch = {0};
  expect_ok(ls_batcher_next(batcher, &batch));
  const ls_nest held =
      ls_nest_retain(ls_distributed_component(ls_nest_item(batch, 1), 1));
  expect_ok(ls_batcher_next(batcher, &batch));
  assert_int_equal(ls_array_i64(ls_nest_as_array(held), 0), 3);
  int64_t labels[5];
  assert_int_equal(part_labels(batch, 1, labels), 2);
  assert_int_equal(labels[0], 8);
  ls_nest_release(held);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
}

static void steady_dealing_of_parts_allocates_nothing(void **state) {
  (void)state;
  counted memory = counted_begin(0);
  ls_batcher *batcher = deal(
      &(ls_batcher_options){.batch_size = 2, .shuffle = true, .replicas = 2});
  ls_nest batch = {0};
  expect_ok(ls_batcher_next(batcher, &batch));
  const uint64_t count = counted_now(&memory).allocations;
  const void *before = ls_nest_item(batch, 0).as.ref;
  for (int i = 1; i < 5; ++i)
    expect_ok(ls_batcher_next(batcher, &batch));
  assert_int_equal(counted_now(&memory).allocations, count);
  assert_ptr_equal(ls_nest_item(batch, 0).as.ref, before);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
  counted_end(&memory);
}

static ls_status deal_parts(void *user) {
  ls_batcher *batcher = NULL;
  ls_nest batch = {0};
  ls_status status = ls_batcher_create(
      user, &(ls_batcher_options){.batch_size = 4, .replicas = 3}, &batcher);
  if (ls_status_is_ok(status)) status = ls_batcher_next(batcher, &batch);
  ls_nest_release(batch);
  ls_batcher_destroy(batcher);
  return status;
}

static void no_memory_for_parts_is_survived(void **state) {
  (void)state;
  ls_examples *dataset = ten();
  expect_memory_failures_survived(deal_parts, dataset);
  ls_examples_release(dataset);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_cover_the_dataset_in_order),
      cmocka_unit_test(the_remainder_can_be_dropped),
      cmocka_unit_test(shuffled_epochs_differ_and_repeat),
      cmocka_unit_test(a_run_can_go_on_anywhere),
      cmocka_unit_test(examples_take_the_shape_that_is_asked_for),
      cmocka_unit_test(options_that_cannot_be_are_refused),
      cmocka_unit_test(arrays_that_somebody_holds_are_left_alone),
      cmocka_unit_test(tokens_are_dealt_as_they_are_with_a_label_each),
      cmocka_unit_test(shuffled_labels_stay_with_their_examples),
      cmocka_unit_test(types_that_would_lose_something_are_refused),
      cmocka_unit_test(steady_dealing_allocates_nothing),
      cmocka_unit_test(in_place_held_arrays_are_filled_too),
      cmocka_unit_test(each_replica_is_dealt_its_part_of_a_batch),
      cmocka_unit_test(one_replica_is_dealt_one_part),
      cmocka_unit_test(parts_that_somebody_holds_are_left_alone),
      cmocka_unit_test(steady_dealing_of_parts_allocates_nothing),
      cmocka_unit_test(no_memory_for_parts_is_survived),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
