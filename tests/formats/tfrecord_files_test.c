// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "data/dataset.h"
#include "data/own.h"
#include "formats/bytes/example.h"
#include "formats/bytes/offsets.h"
#include "io/inflate.h"
#include "lockstep/files.h"
#include "lockstep/record.h"
#include "support/fault.h"
#include "support/read_all.h"
#include "support/scratch.h"

// ---- Files -----------------------------------------------------------------
// Example `i`: two raw bytes, a label, some numbers, a few words, weights.
static ls_bytes build(ls_example_builder *builder, int i) {
  const char raw[] = {(char)i, (char)(i + 1)};
  const ls_bytes image = {raw, 2};
  const int64_t label = i * 10;
  const int64_t some[] = {i, i + 1, i + 2};
  const float weights[] = {(float)i + 0.5f, -1};
  const ls_bytes words[] = {{"a", 1}, {"bc", 2}};
  ls_example_add_bytes(builder, "image", &image, 1);
  ls_example_add_ints(builder, "label", &label, 1);
  ls_example_add_ints(builder, "some", some, (size_t)i % 4);
  ls_example_add_floats(builder, "weights", weights, 2);
  if (i != 1) ls_example_add_bytes(builder, "words", words, (size_t)i % 3);
  ls_bytes example;
  expect_ok(ls_example_end(builder, &example));
  return example;
}

// Examples `from` to `to` - 1.
static void put_examples(const char *name, int from, int to) {
  ls_tfrecord_writer *writer = NULL;
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init,
               ls_allocator_system());
  expect_ok(ls_tfrecord_writer_open(name, &writer));
  for (int i = from; i < to; ++i) {
    const ls_bytes example = build(&builder, i);
    expect_ok(ls_tfrecord_writer_write(writer, example.data, example.size));
  }
  expect_ok(ls_tfrecord_writer_close(writer, true));
}

static void pack(const char *name, const char *packed_name) {
  const ls_file_system *files = ls_file_system_system();
  char *data = NULL, *packed = NULL;
  size_t size = 0, packed_size = 0;
  ls_allocator *system = ls_allocator_system();
  expect_ok(files->read(NULL, name, SIZE_MAX, system, &data, &size));
  expect_ok(
      ls_deflate(system, LS_PACKING_GZIP, data, size, &packed, &packed_size));
  expect_ok(files->write(NULL, packed_name, packed, packed_size));
  ls_release(system, data);
  ls_release(system, packed);
}

static void put_words(const char *name, const char *const *words,
                      size_t count) {
  ls_tfrecord_writer *writer = NULL;
  expect_ok(ls_tfrecord_writer_open(name, &writer));
  for (size_t i = 0; i < count; ++i)
    expect_ok(ls_tfrecord_writer_write(writer, words[i], strlen(words[i])));
  expect_ok(ls_tfrecord_writer_close(writer, true));
}

// A byte of a file changed.
static void damage(const char *name, long at) {
  FILE *file = fopen(name, "r+b");
  assert_non_null(file);
  fseek(file, at, SEEK_SET);
  const int byte = fgetc(file);
  fseek(file, at, SEEK_SET);
  fputc(byte ^ 1, file);
  fclose(file);
}

static ls_dataset *with_features(const char *path,
                                 const ls_tfrecord_feature *features,
                                 size_t count) {
  return ls_dataset_tfrecords(
      &path, 1,
      &(ls_tfrecord_options){.features = features, .num_features = count});
}

// ---- Records ---------------------------------------------------------------
static const char *const words[] = {"one", "", "three"};

TEST(records_are_strings) {
  put_words("a", words, 3);
  put_words("b", words, 1);
  ls_dataset *d = ls_dataset_tfrecords(LS_PATHS("a", "b"), NULL);
  assert_int_equal(ls_dataset_cardinality(d), 4);
  assert_true(ls_dataset_is_indexed(d));
  expect_elements(d, "'one'; ''; 'three'; 'one'; ");
  const ls_tfrecord_options keep = {.keep_index = LS_FLAG_ON};
  for (int i = 0; i < 2; ++i)
    expect_elements(ls_dataset_tfrecords(LS_PATHS("a"), &keep),
                    "'one'; ''; 'three'; ");
  assert_int_equal(access("a.index", R_OK), 0);
}

TEST(damage_is_told_unless_nobody_looks) {
  put_words("a", words, 3);
  damage("a", 35 + 12 + 1);
  expect_no_elements(ls_dataset_tfrecords(LS_PATHS("a"), NULL), LS_DATA_LOSS,
                     "'a' record 2 at byte 35 is damaged");
  expect_elements(
      ls_dataset_tfrecords(LS_PATHS("a"),
                           &(ls_tfrecord_options){.check = LS_FLAG_OFF}),
      "'one'; ''; 'tiree'; ");
  damage("a", 19);
  expect_no_elements(ls_dataset_tfrecords(LS_PATHS("a"), NULL), LS_DATA_LOSS,
                     "'a' record 1 at byte 19: the checksum of its length");
}

TEST(packed_records_are_a_stream) {
  put_words("a", words, 3);
  put_words("b", words, 1);
  pack("a", "a.gz");
  ls_dataset *d = ls_dataset_tfrecords(LS_PATHS("b", "a.gz", "b"), NULL);
  assert_int_equal(ls_dataset_cardinality(d), LS_UNKNOWN_SIZE);
  assert_false(ls_dataset_is_indexed(d));
  assert_int_equal(d->kind->num_files(d), 3);
  expect_elements(d->kind->shard_files(d, 2, 1), "'one'; ''; 'three'; ");
  expect_elements(ls_dataset_retain(d), "'one'; 'one'; ''; 'three'; 'one'; ");
  // Saved and gone on with, from each place.
  for (int64_t at = 0; at <= 5; ++at) {
    LS_OWN(ls_iterator, it) = NULL;
    LS_OWN(ls_iterator, other) = NULL;
    LS_OWN(ls_record, record) = NULL;
    LS_OWN(ls_nest, a) = ls_none();
    LS_OWN(ls_nest, b) = ls_none();
    expect_ok(ls_record_create(&record));
    expect_ok(ls_iterator_create(d, NULL, &it));
    expect_ok(ls_iterator_create(d, NULL, &other));
    for (int64_t i = 0; i < at; ++i)
      expect_ok(ls_iterator_next(it, &a));
    expect_ok(ls_iterator_save(it, record));
    expect_ok(ls_iterator_restore(other, record));
    for (int64_t i = at; i < 5; ++i) {
      expect_ok(ls_iterator_next(it, &a));
      expect_ok(ls_iterator_next(other, &b));
      const ls_bytes *x = ls_nest_data(a, 0), *y = ls_nest_data(b, 0);
      assert_int_equal(x->size, y->size);
      assert_memory_equal(x->data, y->data, x->size);
    }
    expect_status(ls_iterator_next(other, &b), LS_OUT_OF_RANGE, "");
    expect_ok(ls_iterator_restart(other));
    expect_ok(ls_iterator_next(other, &b));
  }
  ls_dataset_release(d);
  assert_int_equal(truncate("a.gz", 25), 0);
  expect_no_elements(ls_dataset_tfrecords(LS_PATHS("a.gz"), NULL), LS_DATA_LOSS,
                     "'a.gz' is cut off");
}

// ---- Features --------------------------------------------------------------
TEST(features_of_known_shapes_are_rows) {
  put_examples("a", 0, 4);
  pack("a", "a.gz");
  const ls_tfrecord_feature features[] = {
      {.name = "weights", .dtype = LS_DTYPE_F32, .shape = LS_SHAPE(2, 1)},
      {.name = "image", .dtype = LS_DTYPE_U8, .shape = LS_SHAPE(2)},
      {.name = "label", .dtype = LS_DTYPE_I32}};
  const char *const want =
      "[0,1] 0 [0.5,-1]; [1,2] 10 [1.5,-1]; [2,3] 20 [2.5,-1]; "
      "[3,4] 30 [3.5,-1]; ";
  ls_dataset *d = with_features("a", features, 3);
  assert_true(d->rows);
  char text[200];
  assert_string_equal(ls_dataset_print(d, text, sizeof(text)),
                      "records(tfrecords, a:410, weights=f32[2,1], "
                      "image=u8[2], label=i32[])");
  expect_elements(d, want);
  expect_elements(with_features("a.gz", features, 3), want);
  d = with_features("a", features, 3);
  expect_elements(ls_dataset_batch(d, &(ls_batch_options){.size = 3}),
                  "[0,1,1,2,2,3] [0,10,20] [0.5,-1,1.5,-1,2.5,-1]; "
                  "[3,4] [30] [3.5,-1]; ");
  d = with_features("a.gz", features, 3);
  expect_elements(ls_dataset_batch(d, &(ls_batch_options){.size = 4}),
                  "[0,1,1,2,2,3,3,4] [0,10,20,30] "
                  "[0.5,-1,1.5,-1,2.5,-1,3.5,-1]; ");
}

TEST(features_of_any_number_are_as_they_are) {
  put_examples("a", 0, 4);
  const ls_tfrecord_feature features[] = {
      {.name = "some", .dtype = LS_DTYPE_I64, .shape = LS_SHAPE(-1)},
      {.name = "words",
       .dtype = LS_DTYPE_STRING,
       .shape = LS_SHAPE(-1),
       .optional = true},
      {.name = "image", .dtype = LS_DTYPE_STRING}};
  expect_elements(with_features("a", features, 1), "[]; [1]; [2,3]; [3,4,5]; ");
  expect_elements(with_features("a", features + 1, 1),
                  "[]; []; ['a','bc']; []; ");
  ls_dataset *d = with_features("a", features, 1);
  const ls_shape any = LS_SHAPE(-1);
  d = ls_dataset_batch(d, &(ls_batch_options){.size = 4,
                                              .padded_shapes = &any,
                                              .num_padded_shapes = 1});
  expect_elements(d, "[0,0,0,1,0,0,2,3,0,3,4,5]; ");
  const ls_tfrecord_feature raw = {
      .name = "image", .dtype = LS_DTYPE_U8, .shape = LS_SHAPE(-1)};
  expect_elements(with_features("a", &raw, 1), "[0,1]; [1,2]; [2,3]; [3,4]; ");
}

TEST(features_are_of_any_type) {
  put_examples("a", 1, 2);
  const ls_tfrecord_feature features[] = {
      {.name = "label", .dtype = LS_DTYPE_U64},
      {.name = "weights", .dtype = LS_DTYPE_BF16, .shape = LS_SHAPE(2)},
      {.name = "image", .dtype = LS_DTYPE_BOOL, .shape = LS_SHAPE(2)}};
  expect_elements(with_features("a", features, 3), "[1,1] 10 [1.5,-1]; ");
  const ls_tfrecord_feature others[] = {
      {.name = "label", .dtype = LS_DTYPE_I16},
      {.name = "weights", .dtype = LS_DTYPE_F64, .shape = LS_SHAPE(-1)},
      {.name = "image", .dtype = LS_DTYPE_I8, .shape = LS_SHAPE(1, 2)}};
  expect_elements(with_features("a", others, 3), "[1,2] 10 [1.5,-1]; ");
  // What does not fit beside features of any number.
  const ls_tfrecord_feature wrong[] = {
      {.name = "some", .dtype = LS_DTYPE_I64, .shape = LS_SHAPE(-1)},
      {.name = "weights", .dtype = LS_DTYPE_F32, .shape = LS_SHAPE(3)}};
  expect_no_elements(with_features("a", wrong, 2), LS_INVALID_ARGUMENT,
                     "has 2 values, expected 3");
}

TEST(places_that_are_not_there_are_refused) {
  put_words("a", words, 3);
  pack("a", "a.gz");
  pack("a", "b.gz");
  ls_dataset *d = ls_dataset_tfrecords(LS_PATHS("?.gz"), NULL);
  LS_OWN(ls_iterator, it) = NULL;
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_create(d, NULL, &it));
  ls_dataset_release(d);
  expect_ok(ls_iterator_save(it, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  static const struct {
    const char *file, *record, *part;
  } rows[] = {{"9", "0", "a place in file 9, record 0, of 2 files"},
              {"0", "4", "'a.gz' has no record 4"}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    // The numbers of the stage, wherever they stand.
    LS_OWN_BEGUN(ls_text, changed, ls_text_init, ls_allocator_system());
    for (const char *at = text; *at != '\0'; ++at) {
      ls_text_append_char(&changed, *at);
      if (strncmp(at, "\"file\":", 7) == 0) {
        ls_text_append_format(&changed, "file\": %s", rows[i].file);
        at += strcspn(at + 7, ",}\n") + 6;
      } else if (strncmp(at, "\"record\":", 9) == 0) {
        ls_text_append_format(&changed, "record\": %s", rows[i].record);
        at += strcspn(at + 9, ",}\n") + 8;
      }
    }
    LS_OWN(ls_record, other) = NULL;
    expect_ok(ls_record_from_text("r", changed.data, changed.size, &other));
    expect_status(ls_iterator_restore(it, other), LS_INVALID_ARGUMENT,
                  rows[i].part);
  }
}

TEST(what_examples_lack_is_filled_where_they_may) {
  put_examples("a", 0, 1);
  const ls_tfrecord_feature features[] = {
      {.name = "a", .dtype = LS_DTYPE_F64, .optional = true, .missing = 1e300},
      {.name = "b",
       .dtype = LS_DTYPE_I8,
       .shape = LS_SHAPE(2),
       .optional = true,
       .missing = -1},
      {.name = "c", .dtype = LS_DTYPE_STRING, .optional = true},
      {.name = "d",
       .dtype = LS_DTYPE_F32,
       .shape = LS_SHAPE(-1),
       .optional = true,
       .missing = 3}};
  expect_elements(with_features("a", features, 2), "1e+300 [-1,-1]; ");
  expect_elements(with_features("a", features, 4), "1e+300 [-1,-1] '' []; ");
  char text[200];
  LS_OWN(ls_dataset, d) = with_features("a", features, 1);
  ls_dataset_print(d, text, sizeof(text));
  expect_contains(text, "a=f64[]|1.0000000000000001e+300");
}

TEST(what_does_not_fit_is_named) {
  put_examples("a", 30, 31);
  static const struct {
    ls_tfrecord_feature feature;
    const char *part;
  } rows[] = {
      {{.name = "none", .dtype = LS_DTYPE_I64},
       "'a' record 0 at byte 12: feature 'none' has no values, expected "
       "integers"},
      {{.name = "label", .dtype = LS_DTYPE_F32},
       "feature 'label' has integers, expected floats"},
      {{.name = "label", .dtype = LS_DTYPE_I64, .shape = LS_SHAPE(3)},
       "feature 'label', read as i64[3], has 1 values, expected 3"},
      {{.name = "label", .dtype = LS_DTYPE_U8},
       "feature 'label' has 300, which is no u8"},
      {{.name = "label", .dtype = LS_DTYPE_BOOL},
       "feature 'label' has 300, which is no bool"},
      {{.name = "image", .dtype = LS_DTYPE_F32},
       "feature 'image', read as f32[], has 2 bytes, expected 4"},
      {{.name = "words", .dtype = LS_DTYPE_U8, .shape = LS_SHAPE(2)},
       "has 0 bytes values, expected 1"},
      {{.name = "words", .dtype = LS_DTYPE_STRING},
       "read as string[], has 0 values, expected 1"},
      {{.dtype = LS_DTYPE_I64}, "a feature without a name"},
      {{.name = "x", .dtype = LS_DTYPE_C64}, "feature 'x' as c64"},
      {{.name = "x", .dtype = LS_DTYPE_I64, .shape = LS_SHAPE(2, -1)},
       "feature 'x' as i64[2,?]: give a known shape"},
      {{.name = "x", .dtype = LS_DTYPE_U8, .optional = true, .missing = 256},
       "feature 'x' is 256 where it is missing, which is no u8"},
      {{.name = "x", .dtype = LS_DTYPE_U8, .optional = true, .missing = -1},
       "which is no u8"},
      {{.name = "x", .dtype = LS_DTYPE_BOOL, .optional = true, .missing = 2},
       "which is no bool"},
      {{.name = "x", .dtype = LS_DTYPE_I32, .optional = true, .missing = 0.5},
       "which is no i32"},
      {{.name = "x", .dtype = LS_DTYPE_I64, .optional = true, .missing = NAN},
       "which is no i64"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    expect_no_elements(with_features("a", &rows[i].feature, 1),
                       LS_INVALID_ARGUMENT, rows[i].part);
  const ls_tfrecord_feature twice[] = {{.name = "x", .dtype = LS_DTYPE_I64},
                                       {.name = "x", .dtype = LS_DTYPE_I64}};
  expect_no_elements(with_features("a", twice, 2), LS_INVALID_ARGUMENT, "x");
  put_words("b", words, 1);
  expect_no_elements(with_features("b", twice, 1), LS_DATA_LOSS,
                     "'b' record 0 is no tf.Example: ");
}

// ---- What is there ---------------------------------------------------------
TEST(the_first_example_tells_what_there_is) {
  put_examples("a", 2, 4);
  pack("a", "a.gz");
  const char *const files[] = {"a", "a.gz"};
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, found) = ls_tfrecord_first_example(&files[i], 1);
    char text[512];
    assert_string_equal(ls_nest_print(found, text, sizeof(text)),
                        "{'image': string[1], 'label': i64[1] [20], 'some': "
                        "i64[2] [2, 3], 'weights': f32[2] [2.5, -1], 'words': "
                        "string[2]}");
  }
  // Records behind the first one are not read, nor are other files.
  assert_int_equal(truncate("a", 200), 0);
  LS_OWN(ls_nest, found) = ls_tfrecord_first_example(LS_PATHS("a", "nothing"));
  assert_int_equal(ls_nest_count(found), 5);
  put_examples("empty", 0, 0);
  LS_OWN(ls_nest, next) = ls_tfrecord_first_example(LS_PATHS("empty", "a"));
  assert_int_equal(ls_nest_count(next), 5);
}

// With so many features, comparing each name with all others would take long.
TEST(the_first_example_may_have_many_features) {
  enum { MANY = 100000 };
  ls_tfrecord_writer *writer = NULL;
  ls_bytes example;
  LS_OWN_BEGUN(ls_example_builder, builder, ls_example_init,
               ls_allocator_system());
  for (int64_t i = 0; i <= MANY; ++i) {
    char name[24];
    snprintf(name, sizeof(name), "%lld", (long long)(i % MANY));
    ls_example_add_ints(&builder, name, &i, 1);
  }
  expect_ok(ls_example_end(&builder, &example));
  expect_ok(ls_tfrecord_writer_open("many", &writer));
  expect_ok(ls_tfrecord_writer_write(writer, example.data, example.size));
  expect_ok(ls_tfrecord_writer_close(writer, true));
  LS_OWN(ls_nest, found) = ls_tfrecord_first_example(LS_PATHS("many"));
  expect_ok(ls_nest_status(found));
  assert_int_equal(ls_nest_count(found), MANY);
  const ls_array *last = ls_nest_as_array(ls_nest_find(found, "0"));
  assert_int_equal(ls_array_i64(last, 0), MANY);
}

TEST(what_has_no_first_example_is_named) {
  static const struct {
    const char *file;
    ls_code code;
    const char *part;
  } rows[] = {
      {"empty", LS_OUT_OF_RANGE, "'empty' has no record"},
      {"words", LS_DATA_LOSS, "'words' record 0 is no tf.Example"},
      {"nothing", LS_NOT_FOUND, "'nothing'"},
  };
  put_examples("empty", 0, 0);
  put_words("words", words, 1);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(ls_nest, found) = ls_tfrecord_first_example(&rows[i].file, 1);
    expect_status(ls_nest_status(found), rows[i].code, rows[i].part);
  }
}

// ---- Without memory --------------------------------------------------------
static ls_status read_some(void *user) {
  (void)user;
  static const ls_tfrecord_feature features[] = {
      {.name = "image", .dtype = LS_DTYPE_U8, .shape = {1, {2}}},
      {.name = "label", .dtype = LS_DTYPE_I32},
      {.name = "words",
       .dtype = LS_DTYPE_STRING,
       .shape = {1, {-1}},
       .optional = true}};
  ls_text out;
  ls_text_init(&out, ls_allocator_system());
  ls_status status = read_all(with_features("a", features, 2), &out);
  if (ls_status_is_ok(status))
    status = read_all(with_features("a.gz", features, 2), &out);
  if (ls_status_is_ok(status))
    status = read_all(with_features("a", features, 3), &out);
  if (ls_status_is_ok(status))
    status = read_all(ls_dataset_tfrecords(LS_PATHS("a"), NULL), &out);
  ls_text_deinit(&out);
  LS_OWN(ls_nest, first) = ls_tfrecord_first_example(LS_PATHS("a"));
  if (ls_status_is_ok(status)) status = ls_nest_status(first);
  return status;
}

TEST(failures_of_memory_are_survived) {
  put_examples("a", 0, 2);
  pack("a", "a.gz");
  REFUSE_EACH(read_some, NULL);
}

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave,
          .after_each = scratch_clear)
