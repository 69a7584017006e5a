// SPDX-License-Identifier: Apache-2.0
#include "support/fault.h"

#include <stdio.h>
#include <string.h>

#include "base/runtime_internal.h"
#include "data/own.h"
#include "lockstep/data.h"
#include "lockstep/iterator.h"

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
  LS_OWN(ls_dataset, dataset) = ls_dataset_batch(
      ls_dataset_text(path, options), &(ls_batch_options){.size = count});
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, all) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_ok(ls_iterator_next(iterator, &all));
  assert_int_equal(ls_dataset_cardinality(dataset), 1);
  const ls_array *x = ls_nest_as_array(ls_nest_item(all, 0));
  const ls_array *y = ls_nest_as_array(ls_nest_item(all, 1));
  assert_int_equal(ls_array_dtype(x), LS_DTYPE_U8);
  assert_true(ls_shape_equal(ls_array_shape(x), LS_SHAPE(count, length)));
  assert_true(ls_shape_equal(ls_array_shape(y), LS_SHAPE(count, length)));
  for (int64_t i = 0; i < count * length; ++i) {
    const int64_t place = first * length + i;
    assert_int_equal(ls_array_i64(x, i), 37 * place % 256);
    assert_int_equal(ls_array_i64(y, i), 37 * (place + 1) % 256);
  }
}

TEST(the_label_of_each_byte_is_the_next_one) {
  // Ten pieces and the byte behind them, and four more bytes, not enough.
  const char *path = write_bytes(55);
  expect_pieces(path, &(ls_text_options){.length = 5}, 0, 9, 5);
  expect_pieces(path, &(ls_text_options){.length = 5, .test = true}, 9, 1, 5);
}

TEST(the_last_tenth_is_to_test_on) {
  const char *path = write_bytes(1000);
  ls_text_options options = {.length = 9};  // 111 pieces.
  expect_pieces(path, &options, 0, 100, 9);
  options.test = true;
  expect_pieces(path, &options, 100, 11, 9);
}

TEST(pieces_have_128_bytes_unless_told) {
  expect_pieces(write_bytes(1000), NULL, 0, 6, 128);
  expect_pieces(write_bytes(257), NULL, 0, 1, 128);
  expect_pieces(write_bytes(257), &(ls_text_options){.test = true}, 1, 1, 128);
}

static void expect_no_text(const char *path, int64_t length, ls_code code,
                           const char *part) {
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_text(path, &(ls_text_options){.length = length});
  expect_status(ls_dataset_status(dataset), code, part);
}

TEST(what_is_no_text_is_refused) {
  expect_no_text("no-such-file", 0, LS_NOT_FOUND, "'no-such-file'");
  expect_no_text(write_bytes(256), 0, LS_INVALID_ARGUMENT,
                 "'text-256' has 256 bytes: two pieces of 128, one to train "
                 "and one to test on, need at least 257");
  expect_no_text(write_bytes(0), 0, LS_INVALID_ARGUMENT,
                 "'text-0' has 0 bytes");
  expect_no_text(write_bytes(55), -1, LS_INVALID_ARGUMENT, "got -1");
  expect_no_text(write_bytes(55), INT64_MAX, LS_INVALID_ARGUMENT,
                 "must have from 1 to");
  expect_no_text(NULL, 0, LS_INVALID_ARGUMENT, "ls_dataset_text: path is NULL");
  LS_OWN(ls_dataset, folder) = ls_dataset_text(".", NULL);
  LS_OWN(ls_status, status) = ls_dataset_status(folder);
  assert_false(ls_status_is_ok(status));
}

static ls_status read_text(void *user) {
  (void)user;
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_text("text-55", &(ls_text_options){.length = 5});
  return ls_dataset_status(dataset);
}

TEST(no_memory_is_a_status) {
  write_bytes(55);
  REFUSE_EACH(read_text, NULL);
}
