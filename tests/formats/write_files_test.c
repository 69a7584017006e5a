// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lockstep/files.h"
#include "lockstep/runtime.h"
#include "support/fault.h"
#include "support/memory_files.h"
#include "support/npz_files.h"
#include "support/read_all.h"

// Files in memory, under a runtime that has them.
typedef struct world {
  memory_files files;
  ls_file_system system;
  ls_runtime *runtime, *outside;
} world;

static void begin(world *self) {
  *self = (world){0};
  self->system = memory_files_system(&self->files);
  expect_ok(
      ls_runtime_create(&(ls_runtime_options){.file_system = &self->system,
                                              .input_threads = LS_SOME(0)},
                        &self->runtime));
  self->outside = ls_runtime_make_current(self->runtime);
}

static void end(world *self) {
  memory_files_clear(&self->files);
  ls_runtime_make_current(self->outside);
  expect_ok(ls_runtime_destroy(self->runtime));
}
LS_OWNED_STRUCT(world, end)

static ls_nest array_of(ls_dtype dtype, ls_shape shape, const void *data) {
  ls_array *array = NULL;
  expect_ok(ls_array_create_copy(dtype, shape, data, &array));
  return ls_nest_array(array);
}

static ls_nest dict_of(const char *a, ls_nest first, const char *b,
                       ls_nest second) {
  return ls_nest_dict("", (const char *const[]){a, b},
                      (ls_nest[]){first, second}, 2);
}

static const float numbers[] = {1, 2.5f, -3, 4};
static const uint16_t shorts[] = {7, 65535};

TEST(arrays_are_written_as_npy) {
  LS_OWN_BEGUN(world, self, begin);
  ls_nest array = array_of(LS_DTYPE_F32, LS_SHAPE(2, 2), numbers);
  expect_ok(ls_npy_write("a.npy", ls_nest_as_array(array)));
  expect_elements(ls_dataset_npy("a.npy", NULL), "[1,2.5]; [-3,4]; ");
  ls_nest_release(array);
  const uint16_t bits[] = {0, 0};
  array = array_of(LS_DTYPE_BF16, LS_SHAPE(2), bits);
  expect_status(ls_npy_write("b.npy", ls_nest_as_array(array)),
                LS_UNIMPLEMENTED, "NumPy has no type for bf16");
  ls_nest_release(array);
  assert_null(memory_files_find(&self.files, "b.npy"));
  expect_status(ls_npy_write(NULL, NULL), LS_INVALID_ARGUMENT, "path");
  expect_status(ls_npy_write("a", NULL), LS_INVALID_ARGUMENT, "array");
}

TEST(dicts_are_written_as_npz) {
  LS_OWN_BEGUN(world, self, begin);
  ls_nest arrays = dict_of("x", array_of(LS_DTYPE_F32, LS_SHAPE(2, 2), numbers),
                           "a", array_of(LS_DTYPE_U16, LS_SHAPE(2), shorts));
  for (int packed = 0; packed < 2; ++packed) {
    expect_ok(
        ls_npz_write("a.npz", arrays, packed ? LS_FLAG_ON : LS_FLAG_DEFAULT));
    expect_elements(ls_dataset_npz("a.npz", NULL, 0, NULL),
                    "7 [1,2.5]; 65535 [-3,4]; ");
  }
  ls_nest_release(arrays);
  expect_status(ls_npz_write("b.npz", ls_nest_i64(3), LS_FLAG_ON),
                LS_INVALID_ARGUMENT, "npz needs a dict");
  expect_status(ls_npz_write(NULL, ls_none(), LS_FLAG_ON), LS_INVALID_ARGUMENT,
                "path");
  arrays = dict_of("x", ls_nest_i64(3), "y", ls_nest_i64(4));
  expect_status(ls_npz_write("b.npz", arrays, LS_FLAG_ON), LS_INVALID_ARGUMENT,
                "item 'x' of an npz file is no array");
  ls_nest_release(arrays);
  assert_int_equal(self.files.count, 1);
}

static ls_status write_examples(void *user) {
  (void)user;
  ls_tfrecord_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_tfrecord_writer_open("a", &writer));
  const ls_bytes words[] = {{"one", 3}, {"", 0}};
  const bool flag = true;
  const unsigned char pixels[] = {1, 2, 255};
  const ls_nest items[] = {
      array_of(LS_DTYPE_STRING, LS_SHAPE(2), words),
      array_of(LS_DTYPE_BOOL, LS_SCALAR, &flag),
      array_of(LS_DTYPE_U8, LS_SHAPE(3), pixels),
      array_of(LS_DTYPE_F64, LS_SCALAR, &(double){0.5}),
      array_of(LS_DTYPE_U16, LS_SHAPE(2), shorts),
      array_of(LS_DTYPE_U8, LS_SCALAR, &(unsigned char){9})};
  const char *const keys[] = {"words",  "flag",   "image",
                              "weight", "shorts", "byte"};
  const ls_nest features = ls_nest_dict("", keys, items, 6);
  ls_status status = ls_nest_status(features);
  if (ls_status_is_ok(status))
    status = ls_tfrecord_writer_write_example(writer, features);
  ls_nest_release(features);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_tfrecord_writer_close(writer, keep));
}

TEST(dicts_are_written_as_examples) {
  LS_OWN_BEGUN(world, self, begin);
  expect_ok(write_examples(NULL));
  static const ls_tfrecord_feature features[] = {
      {.name = "byte", .dtype = LS_DTYPE_I32},
      {.name = "flag", .dtype = LS_DTYPE_BOOL},
      {.name = "image", .dtype = LS_DTYPE_U8, .shape = {1, {3}}},
      {.name = "shorts", .dtype = LS_DTYPE_U16, .shape = {1, {2}}},
      {.name = "weight", .dtype = LS_DTYPE_F64},
      {.name = "words", .dtype = LS_DTYPE_STRING, .shape = {1, {-1}}}};
  expect_elements(
      ls_dataset_tfrecords(
          LS_PATHS("a"),
          &(ls_tfrecord_options){.features = features, .num_features = 6}),
      "9 1 [1,2,255] [7,65535] 0.5 ['one','']; ");
}

TEST(an_example_that_is_refused_leaves_nothing) {
  LS_OWN_BEGUN(world, self, begin);
  ls_tfrecord_writer *writer = NULL;
  expect_ok(ls_tfrecord_writer_open("a", &writer));
  expect_ok(ls_tfrecord_writer_write(writer, "one", 3));
  const float pair[] = {1, 2};
  ls_nest wrong = dict_of("a", array_of(LS_DTYPE_F32, LS_SHAPE(2), pair), "b",
                          array_of(LS_DTYPE_C64, LS_SCALAR, pair));
  expect_status(ls_tfrecord_writer_write_example(writer, wrong),
                LS_INVALID_ARGUMENT, "feature 'b' as c64");
  ls_nest_release(wrong);
  const uint64_t most[] = {INT64_MAX, (uint64_t)INT64_MAX + 1};
  wrong = dict_of("a", array_of(LS_DTYPE_U64, LS_SHAPE(1), most), "b",
                  array_of(LS_DTYPE_U64, LS_SHAPE(2), most));
  expect_status(ls_tfrecord_writer_write_example(writer, wrong),
                LS_INVALID_ARGUMENT,
                "feature 'b' has 9223372036854775808, which is no i64");
  ls_nest_release(wrong);
  wrong = dict_of("a", ls_nest_i64(1), "b", ls_nest_i64(1));
  expect_status(ls_tfrecord_writer_write_example(writer, wrong),
                LS_INVALID_ARGUMENT, "item 'a' of a tf.Example is no array");
  ls_nest_release(wrong);
  expect_status(ls_tfrecord_writer_write_example(writer, ls_nest_i64(1)),
                LS_INVALID_ARGUMENT, "a tf.Example is a dict");
  expect_ok(ls_tfrecord_writer_write(writer, NULL, 0));
  expect_ok(ls_tfrecord_writer_close(writer, true));
  expect_elements(ls_dataset_tfrecords(LS_PATHS("a"), NULL), "'one'; ''; ");
  expect_status(ls_tfrecord_writer_write(NULL, NULL, 0), LS_INVALID_ARGUMENT,
                "writer");
  expect_status(ls_tfrecord_writer_write_example(NULL, ls_none()),
                LS_INVALID_ARGUMENT, "writer");
  expect_status(ls_tfrecord_writer_open(NULL, &writer), LS_INVALID_ARGUMENT,
                "path");
  expect_status(ls_tfrecord_writer_open("a", NULL), LS_INVALID_ARGUMENT,
                "out_writer");
  expect_ok(ls_tfrecord_writer_close(NULL, true));
}

TEST(calls_that_fail_leave_the_old_file) {
  LS_OWN_BEGUN(world, self, begin);
  bool failed = true;
  for (int nth = 1; failed; ++nth) {
    self.files.fail_at = nth;
    ls_status status = write_examples(NULL);
    failed = self.files.fail_at <= 0;
    self.files.fail_at = 0;
    assert_int_equal(ls_status_is_ok(status), !failed);
    if (failed) expect_status(status, LS_UNAVAILABLE, "cannot");
    assert_int_equal(self.files.count, !failed);
  }
}

static ls_status write_all(void *user) {
  const ls_nest features = *(const ls_nest *)user;
  LS_RETURN_IF_ERROR(
      ls_npy_write("a", ls_nest_as_array(ls_nest_item(features, 0))));
  LS_RETURN_IF_ERROR(ls_npz_write("a", features, LS_FLAG_ON));
  ls_tfrecord_writer *writer = NULL;
  LS_RETURN_IF_ERROR(ls_tfrecord_writer_open("a", &writer));
  const ls_status status = ls_tfrecord_writer_write_example(writer, features);
  const bool keep = ls_status_is_ok(status);
  return ls_status_join(status, ls_tfrecord_writer_close(writer, keep));
}

TEST(arrays_become_bytes_of_npy_and_back) {
  ls_array *array = NULL, *bytes = NULL, *again = NULL;
  expect_ok(
      ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(2, 2), numbers, &array));
  expect_ok(ls_npy_print(array, &bytes));
  const char *data = ls_array_data(bytes);
  const size_t size = ls_array_size(bytes);
  expect_ok(ls_npy_parse(data, size, &again));
  assert_true(ls_shape_equal(ls_array_shape(again), LS_SHAPE(2, 2)));
  assert_memory_equal(ls_array_data(again), numbers, sizeof(numbers));
  ls_array_release(again);
  expect_status(ls_npy_parse(data, size - 1, &again), LS_DATA_LOSS, "npy");
  ls_array_release(array);
  ls_array_release(bytes);
}

static void expect_npz(const char *data, size_t size) {
  ls_nest arrays = ls_none();
  expect_ok(ls_npz_parse(data, size, 1000, &arrays));
  assert_int_equal(ls_nest_count(arrays), 2);
  const ls_array *x = ls_nest_as_array(ls_nest_find(arrays, "x"));
  assert_true(ls_shape_equal(ls_array_shape(x), LS_SHAPE(3, 2)));
  assert_int_equal(ls_array_i64(x, 5), 5);
  ls_nest_release(arrays);
  // The first member has 152 bytes, the second one 131.
  expect_status(ls_npz_parse(data, size, 200, &arrays), LS_INVALID_ARGUMENT,
                "'y.npy' have more bytes");
  expect_status(ls_npz_parse(data, size - 9, 1000, &arrays),
                LS_INVALID_ARGUMENT, "zip");
}

TEST(bytes_of_npz_are_read) {
  expect_npz(npz_stored, sizeof(npz_stored) - 1);
  expect_npz(npz_deflated, sizeof(npz_deflated) - 1);
}

static ls_status read_all_bytes(void *user) {
  (void)user;
  LS_OWN(ls_nest, arrays) = ls_none();
  LS_OWN(ls_array, bytes) = NULL;
  LS_RETURN_IF_ERROR(
      ls_npz_parse(npz_deflated, sizeof(npz_deflated) - 1, 1000, &arrays));
  return ls_npy_print(ls_nest_as_array(ls_nest_item(arrays, 0)), &bytes);
}

TEST(failures_of_memory_while_reading_bytes_are_survived) {
  REFUSE_EACH(read_all_bytes, NULL);
}

TEST(failures_of_memory_are_survived) {
  ls_nest features =
      dict_of("a", array_of(LS_DTYPE_F64, LS_SCALAR, &(double){0.5}), "b",
              array_of(LS_DTYPE_U16, LS_SHAPE(2), shorts));
  REFUSE_EACH(write_all, &features);
  ls_nest_release(features);
  assert_int_equal(unlink("a"), 0);
}
