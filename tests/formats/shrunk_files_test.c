// SPDX-License-Identifier: Apache-2.0
//
// Files that somebody cuts off while a data set reads them, and packed ones
// that would become much larger than they are: a status that names the file and
// the byte, and, where there are records, which.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "data/own.h"
#include "io/inflate.h"
#include "lockstep/files.h"
#include "lockstep/iterator.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/place.h"
#include "support/scratch.h"

static void put(const char *name, const void *data, size_t size) {
  expect_ok(ls_file_system_system()->write(NULL, name, data, size));
}

static void put_gzip(const char *name, const void *data, size_t size) {
  char *packed = NULL;
  size_t packed_size = 0;
  expect_ok(ls_deflate(ls_allocator_system(), LS_PACKING_GZIP, data, size,
                       &packed, &packed_size));
  put(name, packed, packed_size);
  ls_release(ls_allocator_system(), packed);
}

// ---- Files -----------------------------------------------------------------
enum { ROWS = 100 };

static void put_lines(bool csv, bool packed) {
  char text[ROWS * 16];
  size_t size = 0;
  if (csv) size += (size_t)snprintf(text, sizeof(text), "number,name\n");
  for (int i = 0; i < ROWS; ++i)
    size += (size_t)snprintf(text + size, sizeof(text) - size,
                             csv ? "%03d,row\n" : "line %03d\n", i);
  if (packed)
    put_gzip("file", text, size);
  else
    put("file", text, size);
}

static void put_examples(void) {
  ls_tfrecord_writer *writer = NULL;
  expect_ok(ls_tfrecord_writer_open("file", &writer));
  for (int64_t i = 0; i < ROWS; ++i) {
    const ls_nest number = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(1));
    ls_array_set_i64(ls_nest_as_array(number), 0, i);
    LS_OWN(ls_nest, example) =
        ls_nest_dict(NULL, (const char *const[]){"number"}, &number, 1);
    expect_ok(ls_tfrecord_writer_write_example(writer, example));
  }
  expect_ok(ls_tfrecord_writer_close(writer, true));
}

static ls_nest numbers(void) {
  const ls_nest made = ls_nest_zeros(LS_DTYPE_F64, LS_SHAPE(ROWS, 3));
  for (int64_t i = 0; i < ROWS * 3; ++i)
    ls_array_set_f64(ls_nest_as_array(made), i, (double)i);
  return made;
}

typedef enum format {
  LINES,
  CSV,
  RECORDS,
  EXAMPLES,
  BYTES_OF_EXAMPLES,
  IDX,
  NPY,
  NPZ,
  FORMATS
} format;

static void put_file(format which) {
  static const char idx[8 + ROWS * 2] = {0, 0, 8, 2, 0, 0, 0, ROWS};
  char bytes[12 + ROWS * 2] = {0};
  const ls_nest array = numbers();
  switch (which) {
  case LINES:
  case CSV:
    put_lines(which == CSV, false);
    break;
  case RECORDS:
    put("file", bytes, ROWS * 2);
    break;
  case EXAMPLES:
  case BYTES_OF_EXAMPLES:
    put_examples();
    break;
  case IDX:
    memcpy(bytes, idx, sizeof(idx));
    bytes[11] = 2;
    put("file", bytes, sizeof(bytes));
    break;
  case NPY:
    expect_ok(ls_npy_write("file", ls_nest_as_array(array)));
    break;
  default: {
    const ls_nest column = ls_nest_retain(array);
    LS_OWN(ls_nest, arrays) =
        ls_nest_dict(NULL, (const char *const[]){"x"}, &column, 1);
    expect_ok(ls_npz_write("file", arrays, LS_FLAG_OFF));
  }
  }
  ls_nest_release(array);
}

static ls_dataset *open_file(format which) {
  const ls_columns_options columns = {.load = LS_FLAG_OFF};
  switch (which) {
  case LINES:
    return ls_dataset_lines(LS_PATHS("file"),
                            &(ls_lines_options){.load = LS_FLAG_OFF});
  case CSV:
    return ls_dataset_csv(LS_PATHS("file"),
                          &(ls_csv_options){.load = LS_FLAG_OFF});
  case RECORDS:
    return ls_dataset_records(
        LS_PATHS("file"),
        &(ls_records_options){.size = 2, .load = LS_FLAG_OFF});
  case EXAMPLES:
    return ls_dataset_tfrecords(
        LS_PATHS("file"),
        &(ls_tfrecord_options){
            .features = (ls_tfrecord_feature[]){{.name = "number",
                                                 .dtype = LS_DTYPE_I64}},
            .num_features = 1,
            .load = LS_FLAG_OFF});
  case BYTES_OF_EXAMPLES:
    return ls_dataset_tfrecords(LS_PATHS("file"),
                                &(ls_tfrecord_options){.load = LS_FLAG_OFF});
  case IDX:
    return ls_dataset_idx(LS_PATHS("file"), &columns);
  case NPY:
    return ls_dataset_npy("file", &columns);
  default:
    return ls_dataset_npz("file", NULL, 0, &columns);
  }
}

// ---- Cut off ---------------------------------------------------------------
static long size_of_file(void) {
  FILE *file = fopen("file", "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  const long size = ftell(file);
  fclose(file);
  return size;
}

// What is there is read; then each element fails, until the end.
static void expect_cut(format which, ls_dataset *dataset, long size,
                       int threads) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .input_threads = LS_SOME(threads)});
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  int good = 0, bad = 0;
  char part[80];
  snprintf(part, sizeof(part), "'file' ends at byte %ld, where", size);
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  for (int i = 0; i < ROWS; ++i) {
    const ls_status status = ls_iterator_next(iterator, &element);
    if (ls_status_is_ok(status)) {
      assert_int_equal(bad, 0);
      ++good;
      continue;
    }
    if (strstr(ls_status_message(status), part) == NULL &&
        strstr(ls_status_message(status), " or before, where") == NULL)
      fail_msg("format %d: %s", (int)which, ls_status_message(status));
    expect_status(status, LS_DATA_LOSS, "bytes from byte");
    ++bad;
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  assert_in_range(good, 1, ROWS - 1);
}

TEST(a_file_that_is_cut_off_loses_what_is_behind) {
  for (format which = 0; which < FORMATS; ++which) {
    put_file(which);
    ls_dataset *dataset = open_file(which);
    expect_ok(ls_dataset_status(dataset));
    const long all = size_of_file();
    // All columns of one kind: their first parts stay.
    for (int threads = 0; threads < 3; threads += 2) {
      const long size = all / 2 + 1;
      assert_int_equal(truncate("file", size), 0);
      expect_cut(which, dataset, size, threads);
    }
    ls_dataset_release(dataset);
    unlink("file");
  }
}

// What is packed is read from the start to the end.
TEST(packed_files_end_where_they_are_cut_off) {
  put_lines(false, true);
  ls_dataset *dataset = ls_dataset_lines(
      LS_PATHS("file"), &(ls_lines_options){.load = LS_FLAG_OFF});
  expect_ok(ls_dataset_status(dataset));
  assert_int_equal(truncate("file", size_of_file() / 2), 0);
  ls_iterator *iterator = NULL;
  ls_nest element = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  ls_status status = ls_ok();
  while (ls_status_is_ok(status))
    status = ls_iterator_next(iterator, &element);
  expect_status(status, LS_DATA_LOSS, "'file'");
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  ls_nest_release(element);
  ls_iterator_release(iterator);
  ls_dataset_release(dataset);
  unlink("file");
}

// ---- Far larger than they are ----------------------------------------------
// A line of 200 MB in a file of 200 kB.
TEST(a_small_file_gives_no_endless_line) {
  enum { SIZE = 200000000 };
  char *text = malloc(SIZE);
  assert_non_null(text);
  memset(text, 'x', SIZE);
  memcpy(text, "first\n", 6);
  put_gzip("file", text, SIZE);
  free(text);
  assert_true(size_of_file() < 300000);
  counted memory = counted_begin(1);
  ls_dataset *dataset = ls_dataset_lines(LS_PATHS("file"), NULL);
  ls_iterator *iterator = NULL;
  ls_nest element = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  ls_dataset_release(dataset);
  expect_ok(ls_iterator_next(iterator, &element));
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "'file' has a line of more than 67108864 bytes from byte 6 of "
                "what is unpacked on");
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  assert_true(counted_now(&memory).peak_bytes < 160 << 20);
  ls_nest_release(element);
  ls_iterator_release(iterator);
  counted_end(&memory);
  unlink("file");
}

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave)
