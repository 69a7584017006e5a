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

// Expects `count` pieces of `length` bytes from number `first`. Takes over the
// data set.
static void expect_pieces_of(ls_dataset *text, int64_t first, int64_t count,
                             int64_t length) {
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_batch(text, &(ls_batch_options){.size = count});
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

static void expect_pieces(const char *path, const ls_text_options *options,
                          int64_t first, int64_t count, int64_t length) {
  expect_pieces_of(ls_dataset_text(path, options), first, count, length);
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

// A place in one part is none in the other, which may have as many pieces.
TEST(the_parts_of_a_text_are_different_data) {
  const char *path = write_bytes(257);
  LS_OWN(ls_dataset, train) = ls_dataset_text(path, NULL);
  LS_OWN(ls_dataset, test) =
      ls_dataset_text(path, &(ls_text_options){.test = true});
  char texts[2][200];
  ls_dataset_print(train, texts[0], sizeof(texts[0]));
  ls_dataset_print(test, texts[1], sizeof(texts[1]));
  assert_string_not_equal(texts[0], texts[1]);
  assert_null(strstr(texts[0], "from"));  // As earlier versions have saved it.
}

TEST(pieces_have_128_bytes_unless_told) {
  expect_pieces(write_bytes(1000), NULL, 0, 6, 128);
  expect_pieces(write_bytes(257), NULL, 0, 1, 128);
  expect_pieces(write_bytes(257), &(ls_text_options){.test = true}, 1, 1, 128);
}

// Expects the pieces of several files to be those of one file with their bytes.
TEST(several_files_are_one_text) {
  const ls_file_system *files = ls_runtime_files(ls_runtime_current());
  const char *const paths[] = {"first", "empty", "second"};
  unsigned char bytes[30];
  for (size_t i = 0; i < sizeof(bytes); ++i)
    bytes[i] = (unsigned char)(37 * i);
  expect_ok(files->write(files->user, "first", bytes, 17));
  expect_ok(files->write(files->user, "empty", bytes, 0));
  expect_ok(files->write(files->user, "second", bytes + 17, 13));
  const ls_text_options options = {.length = 5, .whole = true};
  expect_pieces_of(ls_dataset_texts(paths, 3, &options), 0, 5, 5);
}

TEST(bytes_that_are_no_classes_are_refused) {
  ls_text_options options = {.length = 5, .whole = true, .num_classes = 112};
  const char *const paths[] = {write_bytes(55)};
  LS_OWN(ls_dataset, refused) = ls_dataset_texts(paths, 1, &options);
  expect_status(ls_dataset_status(refused), LS_INVALID_ARGUMENT,
                "byte 4 of 'text-55', counted from 0, is 148: the model has "
                "112 classes");
  options.num_classes = 256;
  LS_OWN(ls_dataset, taken) = ls_dataset_texts(paths, 1, &options);
  expect_ok(ls_dataset_status(taken));
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
  LS_OWN(ls_dataset, short_text) = ls_dataset_text(
      write_bytes(5), &(ls_text_options){.length = 5, .whole = true});
  expect_status(ls_dataset_status(short_text), LS_INVALID_ARGUMENT,
                "'text-5' has 5 bytes: a piece of 5 and the byte after it "
                "need 6");
  LS_OWN(ls_dataset, both) = ls_dataset_text(
      "text-55", &(ls_text_options){.test = true, .whole = true});
  expect_status(ls_dataset_status(both), LS_INVALID_ARGUMENT, "a whole text");
  LS_OWN(ls_dataset, none) = ls_dataset_texts(NULL, 0, NULL);
  expect_status(ls_dataset_status(none), LS_INVALID_ARGUMENT,
                "a text needs the path of a file");
  LS_OWN(ls_dataset, null) = ls_dataset_texts(NULL, 1, NULL);
  expect_status(ls_dataset_status(null), LS_INVALID_ARGUMENT,
                "ls_dataset_texts: paths is NULL");
  LS_OWN(ls_dataset, folder) = ls_dataset_text(".", NULL);
  LS_OWN(ls_status, status) = ls_dataset_status(folder);
  assert_false(ls_status_is_ok(status));
}

static ls_status read_text(void *user) {
  (void)user;
  const char *const paths[] = {"text-55", "text-55"};
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_texts(paths, 2, &(ls_text_options){.length = 5});
  return ls_dataset_status(dataset);
}

TEST(no_memory_is_a_status) {
  write_bytes(55);
  REFUSE_EACH(read_text, NULL);
}
