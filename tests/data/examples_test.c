// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/data.h"

static ls_array *make(ls_dtype dtype, ls_shape shape) {
  ls_array *array = NULL;
  expect_ok(ls_array_create(dtype, shape, &array));
  return array;
}

static void a_dataset_knows_its_sizes(void **state) {
  (void)state;
  ls_array *examples = make(LS_DTYPE_U8, LS_SHAPE(3, 2, 2));
  ls_array *labels = make(LS_DTYPE_I64, LS_SHAPE(3));
  ls_array_set_i64(labels, 1, 6);
  ls_examples *dataset = NULL;
  expect_ok(ls_examples_create(examples, labels, &dataset));
  ls_array_release(examples);
  ls_array_release(labels);
  assert_int_equal(ls_examples_size(dataset), 3);
  assert_int_equal(ls_examples_num_classes(dataset), 7);
  assert_true(
      ls_shape_equal(ls_examples_example_shape(dataset), LS_SHAPE(2, 2)));
  assert_int_equal(ls_array_dtype(ls_examples_labels(dataset)), LS_DTYPE_I32);
  assert_int_equal(ls_array_i64(ls_examples_labels(dataset), 1), 6);
  ls_examples_release(dataset);
}

static void an_example_can_have_labels_of_any_shape(void **state) {
  (void)state;
  ls_array *examples = make(LS_DTYPE_I32, LS_SHAPE(2, 3));
  ls_array *labels = make(LS_DTYPE_U8, LS_SHAPE(2, 3, 4));
  ls_array_set_i64(labels, 23, 9);
  ls_examples *dataset = NULL;
  expect_ok(ls_examples_create(examples, labels, &dataset));
  ls_array_release(examples);
  ls_array_release(labels);
  assert_int_equal(ls_examples_size(dataset), 2);
  assert_int_equal(ls_examples_num_classes(dataset), 10);
  assert_true(ls_shape_equal(ls_examples_label_shape(dataset), LS_SHAPE(3, 4)));
  assert_int_equal(ls_array_i64(ls_examples_labels(dataset), 23), 9);
  ls_examples_release(dataset);
}

static void expect_refused(ls_array *examples, ls_array *labels,
                           const char *part) {
  ls_examples *dataset = NULL;
  expect_status(ls_examples_create(examples, labels, &dataset),
                LS_INVALID_ARGUMENT, part);
  assert_null(dataset);
  ls_array_release(examples);
  ls_array_release(labels);
}

static void what_is_no_dataset_is_refused(void **state) {
  (void)state;
  expect_refused(make(LS_DTYPE_I64, LS_SHAPE(2, 2)),
                 make(LS_DTYPE_U8, LS_SHAPE(2)), "got i64[2,2]");
  expect_refused(make(LS_DTYPE_I32, LS_SHAPE(2, 2)),
                 make(LS_DTYPE_U8, LS_SHAPE(2, 0)), "got u8[2,0]");
  expect_refused(make(LS_DTYPE_I32, LS_SHAPE(2, 2)),
                 make(LS_DTYPE_U8, LS_SCALAR), "got u8[]");
  expect_refused(make(LS_DTYPE_F32, LS_SCALAR), make(LS_DTYPE_U8, LS_SHAPE(2)),
                 "got f32[]");
  expect_refused(make(LS_DTYPE_F32, LS_SHAPE(2, 2)),
                 make(LS_DTYPE_F32, LS_SHAPE(2)), "got f32[2]");
  expect_refused(make(LS_DTYPE_F32, LS_SHAPE(2, 2)),
                 make(LS_DTYPE_U8, LS_SHAPE(3)), "2 examples and 3 labels");
  expect_refused(make(LS_DTYPE_F32, LS_SHAPE(0, 2)),
                 make(LS_DTYPE_U8, LS_SHAPE(0)), "0 examples");
  ls_array *labels = make(LS_DTYPE_I32, LS_SHAPE(2));
  ls_array_set_i64(labels, 1, -1);
  expect_refused(make(LS_DTYPE_F32, LS_SHAPE(2, 2)), labels, "is -1");
}

static void made_up_data_are_the_same_each_time(void **state) {
  (void)state;
  const ls_synthetic_options options = {
      .size = 20, .shape = LS_SHAPE(5), .num_classes = 4};
  ls_synthetic_options other = options;
  other.sample = 1;
  ls_examples *a = NULL, *b = NULL, *c = NULL;
  expect_ok(ls_examples_synthetic(&options, &a));
  expect_ok(ls_examples_synthetic(&options, &b));
  expect_ok(ls_examples_synthetic(&other, &c));
  const ls_array *x = ls_examples_examples(a);
  assert_true(ls_shape_equal(ls_array_shape(x), LS_SHAPE(20, 5)));
  assert_memory_equal(ls_array_data(x), ls_array_data(ls_examples_examples(b)),
                      ls_array_size(x));
  assert_memory_not_equal(ls_array_data(x),
                          ls_array_data(ls_examples_examples(c)),
                          ls_array_size(x));
  for (int64_t i = 0; i < 100; ++i)
    assert_true(ls_array_f64(x, i) >= 0 && ls_array_f64(x, i) < 1);
  assert_int_equal(ls_examples_num_classes(a), 4);
  ls_examples_release(a);
  ls_examples_release(b);
  ls_examples_release(c);
}

static ls_examples *made_up_text(int64_t sample) {
  ls_examples *dataset = NULL;
  expect_ok(ls_examples_synthetic(&(ls_synthetic_options){.size = 50,
                                                          .dtype = LS_DTYPE_I32,
                                                          .shape = LS_SHAPE(40),
                                                          .num_classes = 16,
                                                          .sample = sample},
                                  &dataset));
  return dataset;
}

// Adds how often each token of 16 follows each.
static void count_pairs(const ls_examples *dataset, int64_t counts[16][16]) {
  const int32_t *x = ls_array_data(ls_examples_examples(dataset));
  const int32_t *y = ls_array_data(ls_examples_labels(dataset));
  for (int64_t i = 0; i < 50 * 40; ++i) {
    assert_in_range(x[i], 0, 15);
    assert_in_range(y[i], 0, 15);
    // The next token stands at the next place.
    if (i % 40 != 39) assert_int_equal(y[i], x[i + 1]);
    ++counts[x[i]][y[i]];
  }
}

static void made_up_texts_have_a_language_to_be_learnt(void **state) {
  (void)state;
  ls_examples *a = made_up_text(0), *b = made_up_text(0), *c = made_up_text(1);
  const ls_array *x = ls_examples_examples(a);
  assert_int_equal(ls_array_dtype(x), LS_DTYPE_I32);
  assert_true(ls_shape_equal(ls_examples_label_shape(a), LS_SHAPE(40)));
  assert_memory_equal(ls_array_data(x), ls_array_data(ls_examples_examples(b)),
                      ls_array_size(x));
  assert_memory_not_equal(ls_array_data(x),
                          ls_array_data(ls_examples_examples(c)),
                          ls_array_size(x));
  // Both samples speak it: of each token's 64 parts, 48 and one of chance are
  // the same next token.
  int64_t counts[16][16] = {{0}}, all = 0, most = 0;
  count_pairs(a, counts);
  count_pairs(c, counts);
  for (int i = 0; i < 16; ++i) {
    int64_t largest = 0;
    for (int k = 0; k < 16; ++k) {
      all += counts[i][k];
      if (counts[i][k] > largest) largest = counts[i][k];
    }
    most += largest;
  }
  assert_int_equal(all, 4000);
  // 49 of 64, within five standard deviations.
  assert_in_range(most, 3062 - 135, 3062 + 135);
  ls_examples_release(a);
  ls_examples_release(b);
  ls_examples_release(c);
}

static void made_up_data_that_cannot_be_are_refused(void **state) {
  (void)state;
  const struct {
    ls_synthetic_options options;
    const char *part;
  } rows[] = {
      {{.size = -1}, "asked for -1 examples"},
      {{.num_classes = -2}, "-2 classes"},
      {{.shape = {.rank = 1, .dim = {-1}}}, "a known shape"},
      {{.dtype = LS_DTYPE_F64}, "asked for f64"},
      {{.dtype = LS_DTYPE_I32, .shape = {.rank = 1, .dim = {0}}},
       "at least one token"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_examples *dataset = NULL;
    expect_status(ls_examples_synthetic(&rows[i].options, &dataset),
                  LS_INVALID_ARGUMENT, rows[i].part);
    assert_null(dataset);
  }
}

// ---- Fashion-MNIST ---------------------------------------------------------
static void write_file(const char *path, const void *data, size_t size) {
  const ls_file_system *files = ls_runtime_files(ls_runtime_current());
  expect_ok(files->make_directories(files->user, "mnist"));
  expect_ok(files->write(files->user, path, data, size));
}

// A folder with two test images of 1 by 2, plain IDX.
static void write_small_set(void) {
  const unsigned char images[] = {0, 0, 8, 3, 0, 0, 0, 2,  0,   0,
                                  0, 1, 0, 0, 0, 2, 0, 51, 102, 255};
  const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 3, 9};
  write_file("mnist/t10k-images-idx3-ubyte", images, sizeof(images));
  write_file("mnist/t10k-labels-idx1-ubyte", labels, sizeof(labels));
}

static void plain_files_do_as_well(void **state) {
  (void)state;
  write_small_set();
  ls_examples *dataset = NULL;
  expect_ok(ls_examples_fashion_mnist("mnist", false, &dataset));
  assert_int_equal(ls_examples_size(dataset), 2);
  assert_int_equal(ls_examples_num_classes(dataset), 10);
  assert_int_equal(ls_array_i64(ls_examples_examples(dataset), 3), 255);
  ls_examples_release(dataset);
}

static void a_missing_file_is_named(void **state) {
  (void)state;
  ls_examples *dataset = NULL;
  expect_status(ls_examples_fashion_mnist("no-such-folder", true, &dataset),
                LS_NOT_FOUND, "there is no folder 'no-such-folder'");
  write_small_set();
  expect_status(ls_examples_fashion_mnist("mnist", true, &dataset),
                LS_NOT_FOUND,
                "there is no 'mnist/train-labels-idx1-ubyte', nor the same "
                "with .gz");
  assert_null(dataset);
}

static void files_that_do_not_belong_together_are_refused(void **state) {
  (void)state;
  write_small_set();
  const unsigned char labels[] = {0, 0, 8, 1, 0, 0, 0, 1, 3};
  write_file("mnist/t10k-labels-idx1-ubyte", labels, sizeof(labels));
  ls_examples *dataset = NULL;
  expect_status(ls_examples_fashion_mnist("mnist", false, &dataset),
                LS_INVALID_ARGUMENT, "2 examples and 1 labels");
  const unsigned char flat[] = {0, 0, 8, 1, 0, 0, 0, 1, 3};
  write_file("mnist/t10k-images-idx3-ubyte", flat, sizeof(flat));
  expect_status(ls_examples_fashion_mnist("mnist", false, &dataset),
                LS_INVALID_ARGUMENT,
                "holds u8[1], expected images u8[n,height,width]");
  assert_null(dataset);
}

static ls_status read_small_set(void *user) {
  (void)user;
  ls_examples *dataset = NULL;
  LS_RETURN_IF_ERROR(ls_examples_fashion_mnist("mnist", false, &dataset));
  ls_examples_release(dataset);
  return ls_ok();
}

static void no_memory_is_a_status(void **state) {
  (void)state;
  write_small_set();
  expect_memory_failures_survived(read_small_set, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_dataset_knows_its_sizes),
      cmocka_unit_test(an_example_can_have_labels_of_any_shape),
      cmocka_unit_test(what_is_no_dataset_is_refused),
      cmocka_unit_test(made_up_data_are_the_same_each_time),
      cmocka_unit_test(made_up_texts_have_a_language_to_be_learnt),
      cmocka_unit_test(made_up_data_that_cannot_be_are_refused),
      cmocka_unit_test(plain_files_do_as_well),
      cmocka_unit_test(a_missing_file_is_named),
      cmocka_unit_test(files_that_do_not_belong_together_are_refused),
      cmocka_unit_test(no_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
