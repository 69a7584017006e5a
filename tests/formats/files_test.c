// SPDX-License-Identifier: Apache-2.0
#include "lockstep/files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "data/dataset.h"
#include "data/own.h"
#include "io/bytes.h"
#include "io/crc32c.h"
#include "io/inflate.h"
#include "io/npy.h"
#include "lockstep/streams.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/memory_files.h"
#include "support/npy_files.h"
#include "support/npz_files.h"
#include "support/place.h"
#include "support/read_all.h"
#include "support/scratch.h"

static void put(const char *name, const void *data, size_t size) {
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->write(NULL, name, data, size));
}
static void put_text(const char *name, const char *text) {
  put(name, text, strlen(text));
}
static void put_gzip(const char *name, const void *data, size_t size) {
  char *packed = NULL;
  size_t packed_size = 0;
  expect_ok(ls_deflate(ls_allocator_system(), LS_PACKING_GZIP, data, size,
                       &packed, &packed_size));
  put(name, packed, packed_size);
  ls_release(ls_allocator_system(), packed);
}

#define FILE_OF(array) array, sizeof(array) - 1

// ---- Names and lines -------------------------------------------------------
TEST(names_of_files_are_elements) {
  put_text("b.txt", "");
  put_text("a.txt", "");
  put_text("c", "");
  expect_elements(ls_dataset_files("*.txt"), "'a.txt'; 'b.txt'; ");
  expect_elements(ls_dataset_files("[!a]*"), "'b.txt'; 'c'; ");
  expect_no_elements(ls_dataset_files("x*"), LS_NOT_FOUND, "fits 'x*'");
}

TEST(lines_of_all_files_are_elements) {
  put_text("1.txt", "one\r\n\nthree");
  put_text("2.txt", "");
  put_text("3.txt", "four\n");
  expect_elements(ls_dataset_lines(LS_PATHS("?.txt"), NULL),
                  "'one'; ''; 'three'; 'four'; ");
  expect_elements(ls_dataset_lines(LS_PATHS("3.txt", "1.txt"), NULL),
                  "'four'; 'one'; ''; 'three'; ");
  ls_dataset *lines = ls_dataset_lines(LS_PATHS("*.txt"), NULL);
  assert_int_equal(ls_dataset_cardinality(lines), 4);
  assert_true(ls_dataset_is_indexed(lines));
  char text[128];
  assert_string_equal(ls_dataset_print(lines, text, sizeof(text)),
                      "records(lines, 1.txt:11, 2.txt:0, 3.txt:5)");
  expect_elements(ls_dataset_skip(lines, 3), "'four'; ");
  expect_no_elements(ls_dataset_lines(LS_PATHS("none.txt"), NULL), LS_NOT_FOUND,
                     "'none.txt'");
  expect_no_elements(ls_dataset_lines(NULL, 0, NULL), LS_INVALID_ARGUMENT,
                     "a data set of no files");
}

TEST(packed_lines_are_a_stream) {
  put_text("1.txt", "one\n");
  put_gzip("2.txt.gz", "two\r\n\nthree\r", 12);
  ls_dataset *d =
      ls_dataset_lines(LS_PATHS("1.txt", "2.txt.gz"),
                       &(ls_lines_options){.keep_index = LS_FLAG_ON});
  assert_false(ls_dataset_is_indexed(d));
  expect_elements(ls_dataset_retain(d), "'one'; 'two'; ''; 'three\r'; ");
  expect_elements(ls_dataset_skip(ls_dataset_retain(d), 2), "''; 'three\r'; ");
  expect_elements(ls_dataset_skip(d, 20), "");
  // Lines longer than what is read at once.
  enum { LONG = 1000000 };
  char *text = malloc(LONG + 3);
  memset(text, 'x', LONG);
  memcpy(text + LONG, "\ny", 3);
  put_gzip("2.txt.gz", text, LONG + 2);
  free(text);
  LS_OWN(ls_iterator, it) = NULL;
  LS_OWN(ls_nest, line) = ls_none();
  d = ls_dataset_lines(LS_PATHS("2.txt.gz"), NULL);
  expect_ok(ls_iterator_create(d, NULL, &it));
  ls_dataset_release(d);
  expect_ok(ls_iterator_next(it, &line));
  assert_int_equal(((const ls_bytes *)ls_nest_data(line, 0))->size, LONG);
  expect_ok(ls_iterator_next(it, &line));
  assert_int_equal(((const ls_bytes *)ls_nest_data(line, 0))->size, 1);
  expect_status(ls_iterator_next(it, &line), LS_OUT_OF_RANGE, "");
}

// Reads lines `at` and after of three files, of which the second is cut off.
static void expect_rest(ls_iterator *iterator, int64_t at) {
  static const char lines[] = "abc-def";
  LS_OWN(ls_nest, line) = ls_none();
  for (; lines[at] != '\0'; ++at) {
    const ls_status status = ls_iterator_next(iterator, &line);
    if (lines[at] == '-') {
      expect_status(status, LS_DATA_LOSS, "'2.gz' is cut off");
      continue;
    }
    expect_ok(status);
    assert_memory_equal(((const ls_bytes *)ls_nest_data(line, 0))->data,
                        &lines[at], 1);
  }
  expect_status(ls_iterator_next(iterator, &line), LS_OUT_OF_RANGE, "");
}

TEST(a_packed_file_that_is_cut_off_is_one_element) {
  put_gzip("1.gz", "a\nb\nc\n", 6);
  put_gzip("2.gz", "", 0);
  put_gzip("3.gz", "d\ne\nf\n", 6);
  assert_int_equal(truncate("2.gz", 12), 0);
  LS_OWN(ls_dataset, d) =
      ls_dataset_lines(LS_PATHS("1.gz", "2.gz", "3.gz"), NULL);
  expect_elements(ls_dataset_skip(ls_dataset_retain(d), 4), "'d'; 'e'; 'f'; ");
  expect_elements(ls_dataset_skip(ls_dataset_retain(d), 5), "'e'; 'f'; ");
  expect_elements(ls_dataset_shard(ls_dataset_retain(d), 2, 0),
                  "'a'; 'c'; 'd'; 'f'; ");
  // From any position, with 0 to 2 elements ahead.
  for (int64_t i = 0; i < 3 * 8; ++i) {
    const int64_t at = i % 8;
    const ls_iterator_options options = {.prefetch = LS_SOME(i / 8)};
    LS_OWN(ls_iterator, from) = NULL;
    LS_OWN(ls_iterator, to) = NULL;
    LS_OWN(ls_record, record) = NULL;
    LS_OWN(ls_nest, line) = ls_none();
    expect_ok(ls_iterator_create(d, &options, &from));
    expect_ok(ls_iterator_create(d, &options, &to));
    for (int64_t k = 0; k < at; ++k)
      ls_status_free(ls_iterator_next(from, &line));
    expect_ok(ls_record_create(&record));
    expect_ok(ls_iterator_save(from, record));
    expect_ok(ls_iterator_restore(to, record));
    expect_rest(to, at);
    expect_ok(ls_iterator_seek(from, at));
    expect_rest(from, at);
  }
}

TEST(an_index_is_kept_beside_its_file) {
  const ls_lines_options keep = {.keep_index = LS_FLAG_ON};
  put_text("1.txt", "one\ntwo\n");
  expect_elements(ls_dataset_lines(LS_PATHS("1.txt"), &keep), "'one'; 'two'; ");
  assert_int_equal(access("1.txt.index", R_OK), 0);
  expect_elements(ls_dataset_lines(LS_PATHS("1.txt"), &keep), "'one'; 'two'; ");
  // The file has another time now, and its index is made anew.
  usleep(20000);
  put_text("1.txt", "other\nx\n");
  expect_elements(ls_dataset_lines(LS_PATHS("1.txt"), &keep), "'other'; 'x'; ");
  expect_elements(ls_dataset_lines(LS_PATHS("1.txt"), &keep), "'other'; 'x'; ");
}

TEST(a_file_that_is_cut_off_is_data_loss) {
  put_text("1.txt", "one\ntwo\n");
  ls_dataset *whole = ls_dataset_lines(LS_PATHS("1.txt"), NULL);
  ls_dataset *lines = ls_dataset_lines(
      LS_PATHS("1.txt"), &(ls_lines_options){.load = LS_FLAG_OFF});
  assert_int_equal(truncate("1.txt", 5), 0);
  expect_elements(whole, "'one'; 'two'; ");
  expect_no_elements(lines, LS_DATA_LOSS,
                     "'1.txt' ends at byte 5, where 4 bytes from byte 4 on");
}

TEST(records_of_one_size_are_rows) {
  put_text("a", "H12345678F");
  put_text("b", "HabcdF");
  const ls_records_options options = {.size = 4, .header = 1, .footer = 1};
  static const ls_flag loads[] = {LS_FLAG_DEFAULT, LS_FLAG_ON, LS_FLAG_OFF};
  for (size_t i = 0; i < LS_COUNT_OF(loads); ++i) {
    ls_records_options with = options;
    with.load = loads[i];
    expect_elements(ls_dataset_records(LS_PATHS("a", "b"), &with),
                    "[49,50,51,52]; [53,54,55,56]; [97,98,99,100]; ");
  }
  ls_dataset *d = ls_dataset_records(LS_PATHS("a", "b"), &options);
  char text[128];
  assert_string_equal(
      ls_dataset_print(d, text, sizeof(text)),
      "records(records, a:10, b:6, size=4, header=1, footer=1)");
  expect_elements(ls_dataset_batch(d, &(ls_batch_options){.size = 2}),
                  "[49,50,51,52,53,54,55,56]; [97,98,99,100]; ");
  expect_no_elements(
      ls_dataset_records(LS_PATHS("a"), &(ls_records_options){.size = 4}),
      LS_DATA_LOSS, "'a' has 10 bytes: without 0 at its start");
  expect_no_elements(
      ls_dataset_records(LS_PATHS("a"), &(ls_records_options){.size = 0}),
      LS_INVALID_ARGUMENT, "records of 0 bytes");
  expect_no_elements(
      ls_dataset_records(LS_PATHS("a"),
                         &(ls_records_options){.size = 4, .header = -1}),
      LS_INVALID_ARGUMENT, "a header of -1");
  expect_no_elements(ls_dataset_records(LS_PATHS("a"), NULL),
                     LS_INVALID_ARGUMENT, "options");
}

// ---- CSV -------------------------------------------------------------------
TEST(places_of_records_of_one_size_need_no_memory) {
  enum { RECORDS = 1 << 24 };
  put_text("large", "");
  if (truncate("large", RECORDS) != 0) skip();
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_dataset, d) = ls_dataset_records(
      LS_PATHS("large"), &(ls_records_options){.size = 1, .load = LS_FLAG_OFF});
  assert_int_equal(ls_dataset_cardinality(d), RECORDS);
  assert_true(counted_now(&c).peak_bytes < RECORDS);
}

TEST(columns_of_csv_are_typed_by_their_first_rows) {
  put_text("1.csv", "name,size,weight\nfly,1,0.5\n\"bee, big\",2,7\n");
  put_text("2.csv", "name,size,weight\nant,3,\"1e1\"\n");
  // Leaves in the order of names.
  expect_elements(ls_dataset_csv(LS_PATHS("?.csv"), NULL),
                  "'fly' 1 0.5; 'bee, big' 2 7; 'ant' 3 10; ");
  const ls_csv_column wanted[] = {{.name = "weight", .dtype = LS_DTYPE_F64},
                                  {.name = "size", .dtype = LS_DTYPE_U8}};
  ls_dataset *d =
      ls_dataset_csv(LS_PATHS("?.csv"),
                     &(ls_csv_options){.columns = wanted, .num_columns = 2});
  char text[256];
  assert_string_equal(ls_dataset_print(d, text, sizeof(text)),
                      "records(csv, 1.csv:42, 2.csv:29, weight=f64, size=u8)");
  d = ls_dataset_batch(d, &(ls_batch_options){.size = 3});
  expect_elements(d, "[1,2,3] [0.5,7,10]; ");
}

TEST(csv_without_names_is_read_by_place) {
  put_text("1.csv", "1;x\n;y\n \t;z\n");
  const ls_csv_column columns[] = {
      {.name = "b", .dtype = LS_DTYPE_I32, .missing = "-1"}, {.name = "a"}};
  const ls_csv_options options = {.columns = columns,
                                  .num_columns = 2,
                                  .header = LS_FLAG_OFF,
                                  .delimiter = ';',
                                  .keep_index = LS_FLAG_ON};
  expect_elements(ls_dataset_csv(LS_PATHS("1.csv"), &options),
                  "'x' 1; 'y' -1; 'z' -1; ");
  expect_elements(ls_dataset_csv(LS_PATHS("1.csv"), &options),
                  "'x' 1; 'y' -1; 'z' -1; ");
}

TEST(missing_fields_are_words_for_none_too) {
  put_text("1.csv", "a,b,c\n1,NA,None\nnull,n/a ,x\n nan,2,\"NA\"\n");
  const ls_csv_column columns[] = {{.name = "a", .missing = "-1.5"},
                                   {.name = "b", .missing = "7"},
                                   {.name = "c", .missing = "none"}};
  expect_elements(
      ls_dataset_csv(LS_PATHS("1.csv"),
                     &(ls_csv_options){.columns = columns, .num_columns = 3}),
      "1 7 'none'; -1.5 7 'x'; -1.5 2 'NA'; ");
  // Without a value they are texts.
  expect_elements(
      ls_dataset_csv(LS_PATHS("1.csv"),
                     &(ls_csv_options){.columns = &(ls_csv_column){.name = "b"},
                                       .num_columns = 1}),
      "'NA'; 'n/a '; '2'; ");
}

// Its checksum is right, but it has not even the end of the first line.
TEST(an_index_without_places_is_made_anew) {
  enum { HEAD = 40 };
  const ls_csv_options keep = {.keep_index = LS_FLAG_ON};
  char head[HEAD];
  put_text("1.csv", "a\n7\n");
  put_text("2.csv", "a\n8\n");
  expect_elements(ls_dataset_csv(LS_PATHS("?.csv"), &keep), "7; 8; ");
  FILE *file = fopen("2.csv.index", "rb");
  assert_non_null(file);
  assert_int_equal(fread(head, 1, HEAD, file), HEAD);
  fclose(file);
  ls_store_le64(head + 32, 0);
  ls_store_le32(head + 12, ls_crc32c(0, head + 16, HEAD - 16));
  put("2.csv.index", head, HEAD);
  expect_elements(ls_dataset_csv(LS_PATHS("?.csv"), &keep), "7; 8; ");
}

TEST(columns_of_csv_are_of_any_type) {
  put_text("1.csv", "a,b,c,d\n0.5,-2,true,\n1e9,3,0,x\n");
  const ls_csv_column columns[] = {
      {.name = "a", .dtype = LS_DTYPE_BF16},
      {.name = "b", .dtype = LS_DTYPE_F16},
      {.name = "c", .dtype = LS_DTYPE_BOOL},
      {.name = "d", .dtype = LS_DTYPE_STRING, .missing = "none"}};
  expect_elements(
      ls_dataset_csv(LS_PATHS("1.csv"),
                     &(ls_csv_options){.columns = columns, .num_columns = 4}),
      "0.5 -2 1 'none'; 9.98244e+08 3 0 'x'; ");
}

TEST(columns_of_csv_that_are_stacked_are_one_array) {
  // Of the order that was given, whatever that of the names.
  put_text("1.csv", "b,label,a,name\n1,7,2,x\n3,8,4,y\n");
  const ls_csv_column columns[] = {
      {.name = "b", .dtype = LS_DTYPE_U8, .stacked = true},
      {.name = "label"},
      {.name = "a", .dtype = LS_DTYPE_U8, .stacked = true},
      {.name = "name"}};
  ls_csv_options options = {.columns = columns, .num_columns = 3};
  expect_elements(ls_dataset_csv(LS_PATHS("1.csv"), &options),
                  "7 [1,2]; 8 [3,4]; ");
  options.stack = "all";
  options.num_columns = 4;
  expect_elements(ls_dataset_csv(LS_PATHS("1.csv"), &options),
                  "[1,2] 7 'x'; [3,4] 8 'y'; ");
  const ls_csv_column mixed[] = {{.name = "a", .stacked = true},
                                 {.name = "name", .stacked = true}};
  options = (ls_csv_options){.columns = mixed, .num_columns = 2};
  expect_no_elements(
      ls_dataset_csv(LS_PATHS("1.csv"), &options), LS_INVALID_ARGUMENT,
      "columns 'a' of i64 and 'name' of string cannot be stacked");
}

TEST(what_is_wrong_in_csv_is_named) {
  put_text("1.csv", "a,b\n1,2\n\"3\n\",4\n");
  expect_no_elements(
      ls_dataset_csv(
          LS_PATHS("1.csv"),
          &(ls_csv_options){
              .columns = &(ls_csv_column){.name = "a", .dtype = LS_DTYPE_I64},
              .num_columns = 1}),
      LS_INVALID_ARGUMENT,
      "'1.csv' line 3, byte 8, column 'a': '3\n' is no i64");
  put_text("1.csv", "a,b\n1,2\n3\n");
  expect_no_elements(ls_dataset_csv(LS_PATHS("1.csv"), NULL),
                     LS_INVALID_ARGUMENT,
                     "'1.csv' line 3, byte 8 has 1 fields, the file has 2");
  put_text("1.csv", "a,b\n1,2\n3,\n");
  expect_no_elements(ls_dataset_csv(LS_PATHS("1.csv"), NULL),
                     LS_INVALID_ARGUMENT,
                     "'1.csv' line 3, byte 10, column 'b': '' is no i64; fill "
                     "it in, give the column a value of missing fields (from "
                     "the command: --missing b=0), or leave it out "
                     "(--features)");
  put_text("2.csv", "a,c\n1,2\n");
  put_text("1.csv", "a,b\n1,2\n");
  expect_no_elements(
      ls_dataset_csv(LS_PATHS("1.csv", "2.csv"), NULL), LS_INVALID_ARGUMENT,
      "'2.csv' has 'c' as column 2, the files before it have 'b'");
  expect_no_elements(
      ls_dataset_csv(LS_PATHS("1.csv"),
                     &(ls_csv_options){.columns = &(ls_csv_column){.name = "z"},
                                       .num_columns = 1}),
      LS_NOT_FOUND, "'1.csv' has no column 'z'; it has 'a', 'b'");
  expect_no_elements(
      ls_dataset_csv(
          LS_PATHS("1.csv"),
          &(ls_csv_options){
              .columns = &(ls_csv_column){.name = "a", .dtype = LS_DTYPE_C64},
              .num_columns = 1}),
      LS_INVALID_ARGUMENT, "column 'a' as c64");
  expect_no_elements(ls_dataset_csv(LS_PATHS("1.csv"),
                                    &(ls_csv_options){.header = LS_FLAG_OFF}),
                     LS_INVALID_ARGUMENT, "CSV without a line of names");
  put_text("1.csv", " a,b\ta ,\" b\"\n1,2,3\n");
  expect_no_elements(
      ls_dataset_csv(LS_PATHS("1.csv"),
                     &(ls_csv_options){.columns = &(ls_csv_column){.name = "z"},
                                       .num_columns = 1}),
      LS_NOT_FOUND, "it has 'a', 'b\ta', ' b'");
  put_text("1.csv", "a,b\r1,2\r");
  expect_no_elements(ls_dataset_csv(LS_PATHS("1.csv"), NULL),
                     LS_INVALID_ARGUMENT, "'1.csv' line 1 has a CR without LF");
  put_text("1.csv", "a,a\n1,2\n");
  expect_no_elements(ls_dataset_csv(LS_PATHS("1.csv"), NULL),
                     LS_INVALID_ARGUMENT,
                     "columns 1 and 2 of '1.csv' have the same name, 'a'");
  put_text("1.csv", "");
  expect_no_elements(ls_dataset_csv(LS_PATHS("1.csv"), NULL),
                     LS_INVALID_ARGUMENT, "'1.csv' is empty");
}

// ---- Arrays ----------------------------------------------------------------
static const ls_columns_options loaded = {.load = LS_FLAG_ON};
static const ls_columns_options unloaded = {.load = LS_FLAG_OFF};

TEST(rows_of_idx_files_are_elements) {
  static const char images[] = {0, 0, 8, 2, 0, 0, 0, 3, 0,
                                0, 0, 2, 1, 2, 3, 4, 5, 6};
  static const char labels[] = {0, 0, 11, 1, 0, 0, 0, 3, 0, 7, 1, 0, -1, -2};
  put("images", images, sizeof(images));
  put("labels", labels, sizeof(labels));
  put_gzip("images.gz", images, sizeof(images));
  const char *const wants = "[1,2] 7; [3,4] 256; [5,6] -2; ";
  const ls_columns_options *const options[] = {NULL, &loaded, &unloaded};
  for (size_t i = 0; i < LS_COUNT_OF(options); ++i) {
    expect_elements(ls_dataset_idx(LS_PATHS("images", "labels"), options[i]),
                    wants);
    expect_elements(ls_dataset_idx(LS_PATHS("images.gz", "labels"), options[i]),
                    wants);
  }
  expect_elements(ls_dataset_idx(LS_PATHS("labels"), NULL), "7; 256; -2; ");
  ls_dataset *d = ls_dataset_idx(LS_PATHS("images", "labels"), &unloaded);
  char text[128];
  assert_string_equal(ls_dataset_print(d, text, sizeof(text)),
                      "columns(idx, images:18=u8[3,2], labels:14=i16[3])");
  d = ls_dataset_batch(d, &(ls_batch_options){.size = 2});
  expect_elements(d, "[1,2,3,4] [7,256]; [5,6] [-2]; ");
  static const char two[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
  put("two", two, sizeof(two));
  expect_no_elements(ls_dataset_idx(LS_PATHS("images", "two"), NULL),
                     LS_INVALID_ARGUMENT,
                     "column 1, in 'two', has 2 rows, column 0, in 'images', "
                     "has 3");
  put("two", two, sizeof(two) - 1);
  expect_no_elements(ls_dataset_idx(LS_PATHS("two"), NULL), LS_DATA_LOSS,
                     "'two' is cut off");
}

TEST(rows_of_npy_files_are_elements) {
  put("a.npy", FILE_OF(npy_floats));
  put("f.npy", FILE_OF(npy_columns));
  put("b.npy", FILE_OF(npy_big_endian));
  put("s.npy", FILE_OF(npy_bytes));
  put("0.npy", FILE_OF(npy_scalar));
  expect_elements(ls_dataset_npy("a.npy", NULL), "[1,2.5,-3]; [4,5,6]; ");
  expect_elements(ls_dataset_npy("a.npy", &unloaded), "[1,2.5,-3]; [4,5,6]; ");
  expect_elements(ls_dataset_npy("f.npy", NULL), "[1,2.5,-3]; [4,5,6]; ");
  expect_no_elements(ls_dataset_npy("f.npy", &unloaded), LS_UNIMPLEMENTED,
                     "'f.npy' is in Fortran order");
  expect_elements(ls_dataset_npy("b.npy", NULL), "1; -2; ");
  expect_elements(ls_dataset_npy("b.npy", &unloaded), "1; -2; ");
  expect_elements(ls_dataset_npy("s.npy", NULL), "'one'; ''; 'three'; ");
  expect_no_elements(ls_dataset_npy("0.npy", NULL), LS_INVALID_ARGUMENT,
                     "'0.npy' has a scalar");
  expect_no_elements(ls_dataset_npy("none.npy", NULL), LS_NOT_FOUND,
                     "none.npy");
  expect_no_elements(ls_dataset_npy(NULL, NULL), LS_INVALID_ARGUMENT, "path");
  ls_dataset *d = ls_dataset_npy("a.npy", &unloaded);
  assert_int_equal(truncate("a.npy", 140), 0);
  expect_no_elements(d, LS_DATA_LOSS, "'a.npy' ends at byte 140");
}

// A row beyond 4 GiB, of a file that takes no room on the disk.
TEST(files_may_be_larger_than_memory) {
  enum { ROW = 1 << 20, ROWS = 5000 };
  ls_text head;
  ls_text_init(&head, ls_allocator_system());
  expect_ok(ls_npy_print_header(LS_DTYPE_U8, LS_SHAPE(ROWS, ROW), &head));
  put("large.npy", head.data, head.size);
  const off_t size = (off_t)head.size + (off_t)ROW * ROWS;
  ls_text_deinit(&head);
  if (truncate("large.npy", size) != 0) skip();
  FILE *file = fopen("large.npy", "r+b");
  assert_non_null(file);
  fseeko(file, -1, SEEK_END);
  fputc(7, file);
  fclose(file);
  LS_OWN(ls_dataset, d) = ls_dataset_npy("large.npy", NULL);
  assert_int_equal(ls_dataset_cardinality(d), ROWS);
  d = ls_dataset_skip(d, ROWS - 1);
  LS_OWN(ls_iterator, it) = NULL;
  expect_ok(ls_iterator_create(d, NULL, &it));
  LS_OWN(ls_nest, row) = ls_none();
  expect_ok(ls_iterator_next(it, &row));
  assert_int_equal(ls_array_i64(ls_nest_as_array(row), ROW - 1), 7);
  assert_int_equal(ls_array_i64(ls_nest_as_array(row), 0), 0);
}

TEST(arrays_of_npz_files_are_named) {
  put("a.npz", FILE_OF(npz_stored));
  put("b.npz", FILE_OF(npz_deflated));
  static const char *const paths[] = {"a.npz", "b.npz"};
  for (size_t i = 0; i < 2; ++i) {
    const char *const names[] = {"y", "x"};
    expect_elements(ls_dataset_npz(paths[i], names, 2, NULL),
                    "[0,1] 7; [2,3] 8; [4,5] 9; ");
    expect_elements(ls_dataset_npz(paths[i], NULL, 0, &unloaded),
                    "[0,1] 7; [2,3] 8; [4,5] 9; ");
    expect_elements(ls_dataset_npz(paths[i], names, 1, NULL), "7; 8; 9; ");
    const char *const member = "x.npy";
    expect_elements(ls_dataset_npz(paths[i], &member, 1, NULL),
                    "[0,1]; [2,3]; [4,5]; ");
    const char *const none = "z";
    expect_no_elements(ls_dataset_npz(paths[i], &none, 1, NULL), LS_NOT_FOUND,
                       "has no array 'z'; it has 'x.npy', 'y.npy'");
  }
  put("c.npz", FILE_OF(npy_floats));
  expect_no_elements(ls_dataset_npz("c.npz", NULL, 0, NULL),
                     LS_INVALID_ARGUMENT, "'c.npz' is no zip file");
}

// ---- For who deals files ---------------------------------------------------
TEST(files_are_dealt) {
  put_text("1", "one\n");
  put_text("2", "two\n");
  put_text("3", "three\n");
  ls_dataset *d = ls_dataset_lines(LS_PATHS("1", "2", "3"), NULL);
  assert_int_equal(d->kind->num_files(d), 3);
  assert_string_equal(d->kind->file(d, 1), "2");
  expect_elements(d->kind->shard_files(d, 2, 0), "'one'; 'three'; ");
  expect_elements(d->kind->shard_files(d, 2, 1), "'two'; ");
  expect_elements(d->kind->shard_files(d, 4, 3), "");
  ls_dataset_release(d);
  put("a.npy", FILE_OF(npy_floats));
  d = ls_dataset_npy("a.npy", NULL);
  assert_int_equal(d->kind->num_files(d), 1);
  assert_string_equal(d->kind->file(d, 0), "a.npy");
  expect_elements(d->kind->shard_files(d, 2, 0), "[1,2.5,-3]; [4,5,6]; ");
  expect_elements(d->kind->shard_files(d, 2, 1), "");
  ls_dataset_release(d);
}

// ---- Without memory --------------------------------------------------------
static ls_status read_some(void *user) {
  (void)user;
  LS_OWN_BEGUN(ls_text, out, ls_text_init, ls_allocator_system());
  const char *const all[] = {"x", "y"};
  ls_status status =
      read_all(ls_dataset_lines(LS_PATHS("?.txt"),
                                &(ls_lines_options){.keep_index = LS_FLAG_ON}),
               &out);
  if (ls_status_is_ok(status))
    status = read_all(ls_dataset_csv(LS_PATHS("1.csv"), NULL), &out);
  const ls_csv_column columns[] = {{.name = "b"},
                                   {.name = "a", .stacked = true},
                                   {.name = "c", .stacked = true}};
  const ls_csv_options stacked = {.columns = columns, .num_columns = 3};
  if (ls_status_is_ok(status))
    status = read_all(ls_dataset_csv(LS_PATHS("1.csv"), &stacked), &out);
  if (ls_status_is_ok(status))
    status = read_all(ls_dataset_npz("a.npz", all, 2, NULL), &out);
  if (ls_status_is_ok(status))
    status = read_all(ls_dataset_npy("s.npy", NULL), &out);
  if (ls_status_is_ok(status)) {
    ls_dataset *d = ls_dataset_idx(LS_PATHS("two"), &unloaded);
    status =
        read_all(ls_dataset_batch(d, &(ls_batch_options){.size = 2}), &out);
  }
  if (ls_status_is_ok(status))
    status = read_all(ls_dataset_files("*.txt"), &out);
  return status;
}

TEST(failures_of_memory_are_survived) {
  static const char two[] = {0, 0, 8, 1, 0, 0, 0, 2, 1, 2};
  put("two", two, sizeof(two));
  put_text("1.txt", "one\ntwo\n");
  put_text("1.csv", "a,b,c\n1,x,2\n");
  put("a.npz", FILE_OF(npz_deflated));
  put("s.npy", FILE_OF(npy_bytes));
  REFUSE_EACH(read_some, NULL);
}

static ls_status keep_short(ls_nest line, const ls_map_call *call, void *user,
                            bool *out_keep) {
  (void)call, (void)user;
  const ls_bytes *text = ls_array_data(ls_nest_as_array(line));
  *out_keep = text->size < 1000;
  return ls_ok();
}

// Skips lines without the memory for one of them: an error, or the right place.
TEST(a_seek_without_memory_never_ends_elsewhere) {
  enum { LINES = 12, LONG = 100000, MOST = 40 };
  LS_OWN_BEGUN(ls_text, text, ls_text_init, ls_allocator_system());
  for (int i = 0; i < LINES; ++i) {
    ls_text_append_format(&text, "%c", 'a' + i);
    for (int k = 0; i % 4 == 3 && k < LONG * (i + 1); ++k)
      ls_text_append(&text, "x");
    ls_text_append(&text, "\n");
  }
  put("long.txt", text.data, text.size);
  LS_OWN(counted, memory) = counted_begin(1);
  for (uint64_t n = 1; n < MOST; ++n) {
    LS_OWN(ls_nest, line) = ls_none();
    LS_OWN(ls_iterator, it) = NULL;
    LS_OWN(ls_dataset, d) = ls_dataset_filter(
        ls_dataset_lines(LS_PATHS("long.txt"),
                         &(ls_lines_options){.load = LS_FLAG_OFF}),
        &(ls_filter_options){.call = keep_short});
    expect_ok(ls_iterator_create(
        d, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &it));
    ls_counting_allocator_fail_at(memory.memory, n);
    const ls_status status = ls_iterator_seek(it, 4);
    ls_counting_allocator_fail_at(memory.memory, 0);
    const bool failed = !ls_status_is_ok(status);
    ls_status_free(status);
    if (failed) continue;
    expect_ok(ls_iterator_next(it, &line));
    const ls_bytes *found = ls_array_data(ls_nest_as_array(line));
    assert_int_equal(found->data[0], 'f');
  }
}

TEST(arguments_that_are_missing_are_named) {
  put("a.npz", FILE_OF(npz_stored));
  put_text("a", "12345678");
  const char *const none = NULL;
  expect_no_elements(ls_dataset_files(NULL), LS_INVALID_ARGUMENT, "NULL");
  expect_no_elements(ls_dataset_lines(&none, 1, NULL), LS_INVALID_ARGUMENT,
                     "a path that is NULL");
  expect_no_elements(ls_dataset_idx(NULL, 1, NULL), LS_INVALID_ARGUMENT,
                     "no files");
  expect_no_elements(ls_dataset_tfrecords(NULL, 0, NULL), LS_INVALID_ARGUMENT,
                     "no files");
  expect_no_elements(
      ls_dataset_tfrecords(LS_PATHS("a"),
                           &(ls_tfrecord_options){.num_features = 1}),
      LS_INVALID_ARGUMENT, "1 features, and no list");
  expect_no_elements(ls_dataset_csv(NULL, 0, NULL), LS_INVALID_ARGUMENT,
                     "no files");
  expect_no_elements(
      ls_dataset_csv(LS_PATHS("a"), &(ls_csv_options){.num_columns = 1}),
      LS_INVALID_ARGUMENT, "columns");
  expect_no_elements(
      ls_dataset_csv(LS_PATHS("a"), &(ls_csv_options){.delimiter = '"'}),
      LS_INVALID_ARGUMENT, "a delimiter of CSV that is a quote");
  expect_no_elements(ls_dataset_npz(NULL, NULL, 0, NULL), LS_INVALID_ARGUMENT,
                     "path");
  expect_no_elements(ls_dataset_npz("a.npz", NULL, 1, NULL),
                     LS_INVALID_ARGUMENT, "names");
  expect_no_elements(ls_dataset_npz("a.npz", &none, 1, NULL),
                     LS_INVALID_ARGUMENT, "an array of 'a.npz' is NULL");
  const ls_tfrecord_feature far = {
      .name = "x", .dtype = LS_DTYPE_I64, .shape = {.rank = 99}};
  expect_no_elements(
      ls_dataset_tfrecords(
          LS_PATHS("a"),
          &(ls_tfrecord_options){.features = &far, .num_features = 1}),
      LS_INVALID_ARGUMENT, "of feature 'x'");
  const ls_records_options long_ends = {
      .size = 1, .header = INT64_MAX, .footer = INT64_MAX};
  expect_no_elements(ls_dataset_records(LS_PATHS("a"), &long_ends),
                     LS_DATA_LOSS, "'a' has 8 bytes");
}

// Each call to the file system fails once, and is told; tried again it works.
TEST(calls_that_fail_are_told) {
  memory_files files = {0};
  const ls_file_system system = memory_files_system(&files);
  LS_OWN(open_place, home) = runtime_begin((ls_runtime_options){
      .file_system = &system, .input_threads = LS_SOME(0)});
  const ls_lines_options options = {.keep_index = LS_FLAG_ON,
                                    .load = LS_FLAG_OFF};
  expect_ok(system.write(&files, "in/1", "one\ntwo", 7));
  expect_ok(system.write(&files, "in/2", "three", 5));
  int nth = 1;
  for (bool failed = true; failed; ++nth) {
    ls_text out;
    ls_text_init(&out, ls_allocator_system());
    files.fail_at = nth;
    ls_status status =
        read_all(ls_dataset_lines(LS_PATHS("in/[12]"), &options), &out);
    failed = files.fail_at <= 0;
    files.fail_at = 0;
    assert_int_equal(ls_status_is_ok(status), !failed);
    if (failed) expect_status(status, LS_UNAVAILABLE, "cannot");
    ls_text_deinit(&out);
    expect_elements(ls_dataset_lines(LS_PATHS("in/[12]"), &options),
                    "'one'; 'two'; 'three'; ");
    ls_status_free(system.remove(&files, "in/1.index"));
  }
  assert_true(nth > 10);
  memory_files_clear(&files);
}

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave,
          .after_each = scratch_clear)
