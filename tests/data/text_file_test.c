// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "lockstep/data.h"

// A file in the scratch folder whose byte i is 37 i: all values, in no order
// that text has.
static const char *write_bytes(size_t size) {
  static char path[32];
  static unsigned char bytes[1000];
  assert_true(size <= sizeof(bytes));
  for (size_t i = 0; i < size; ++i)
    bytes[i] = (unsigned char)(37 * i);
  snprintf(path, sizeof(path), "text-%zu", size);
  const ls_file_system *files = ls_runtime_files(ls_runtime_current());
  expect_ok(files->write(files->user, path, bytes, size));
  return path;
}

// Expects `count` pieces of `length` bytes from number `first`.
static void expect_pieces(const char *path, const ls_text_options *options,
                          int64_t first, int64_t count, int64_t length) {
  ls_examples *dataset = NULL;
  expect_ok(ls_examples_text(path, options, &dataset));
  assert_int_equal(ls_examples_size(dataset), count);
  const ls_array *x = ls_examples_examples(dataset);
  const ls_array *y = ls_examples_labels(dataset);
  assert_int_equal(ls_array_dtype(x), LS_DTYPE_U8);
  assert_true(ls_shape_equal(ls_array_shape(x), LS_SHAPE(count, length)));
  assert_true(ls_shape_equal(ls_array_shape(y), LS_SHAPE(count, length)));
  for (int64_t i = 0; i < count * length; ++i) {
    const int64_t place = first * length + i;
    assert_int_equal(ls_array_i64(x, i), 37 * place % 256);
    assert_int_equal(ls_array_i64(y, i), 37 * (place + 1) % 256);
  }
  ls_examples_release(dataset);
}

static void the_label_of_each_byte_is_the_next_one(void **state) {
  (void)state;
  // Ten pieces and the byte behind them, and four more bytes, not enough.
  const char *path = write_bytes(55);
  expect_pieces(path, &(ls_text_options){.length = 5}, 0, 9, 5);
  expect_pieces(path, &(ls_text_options){.length = 5, .test = true}, 9, 1, 5);
}

static void the_last_tenth_is_to_test_on(void **state) {
  (void)state;
  const char *path = write_bytes(1000);
  ls_text_options options = {.length = 9};  // 111 pieces.
  expect_pieces(path, &options, 0, 100, 9);
  options.test = true;
  expect_pieces(path, &options, 100, 11, 9);
}

static void pieces_have_128_bytes_unless_told(void **state) {
  (void)state;
  expect_pieces(write_bytes(1000), NULL, 0, 6, 128);
  expect_pieces(write_bytes(257), NULL, 0, 1, 128);
  expect_pieces(write_bytes(257), &(ls_text_options){.test = true}, 1, 1, 128);
}

static void what_is_no_text_is_refused(void **state) {
  (void)state;
  ls_examples *dataset = NULL;
  expect_status(ls_examples_text("no-such-file", NULL, &dataset), LS_NOT_FOUND,
                "'no-such-file'");
  expect_status(ls_examples_text(write_bytes(256), NULL, &dataset),
                LS_INVALID_ARGUMENT,
                "'text-256' has 256 bytes: two pieces of 128, one to train and "
                "one to test on, need at least 257");
  expect_status(ls_examples_text(write_bytes(0), NULL, &dataset),
                LS_INVALID_ARGUMENT, "'text-0' has 0 bytes");
  expect_status(ls_examples_text(write_bytes(55),
                                 &(ls_text_options){.length = -1}, &dataset),
                LS_INVALID_ARGUMENT, "got -1");
  expect_status(ls_examples_text(write_bytes(55),
                                 &(ls_text_options){.length = INT64_MAX},
                                 &dataset),
                LS_INVALID_ARGUMENT, "must have from 1 to");
  const ls_status folder = ls_examples_text(".", NULL, &dataset);
  assert_false(ls_status_is_ok(folder));
  ls_status_free(folder);
  assert_null(dataset);
}

static ls_status read_text(void *user) {
  (void)user;
  ls_examples *dataset = NULL;
  LS_RETURN_IF_ERROR(
      ls_examples_text("text-55", &(ls_text_options){.length = 5}, &dataset));
  ls_examples_release(dataset);
  return ls_ok();
}

static void no_memory_is_a_status(void **state) {
  (void)state;
  write_bytes(55);
  expect_memory_failures_survived(read_text, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_label_of_each_byte_is_the_next_one),
      cmocka_unit_test(the_last_tenth_is_to_test_on),
      cmocka_unit_test(pieces_have_128_bytes_unless_told),
      cmocka_unit_test(what_is_no_text_is_refused),
      cmocka_unit_test(no_memory_is_a_status),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
