// SPDX-License-Identifier: Apache-2.0
//
// Makers of data sets: what they refuse, and sizes at the edges.
#include "support/pipelines.h"

#include <string.h>

#include "base/memory/allocator.h"
#include "data/own.h"
#include "lockstep/array.h"
#include "lockstep/element_spec.h"

static ls_nest i64_rows(int64_t rows) {
  return ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(rows));
}

// ---- Refusals --------------------------------------------------------------
static int released;
static void note_release(void *user) {
  (void)user;
  ++released;
}

static ls_status fill_nothing(void *user, int64_t index, ls_nest out) {
  (void)user, (void)index, (void)out;
  return ls_ok();
}

static ls_nest make_nothing(void *user, int64_t index) {
  (void)user, (void)index;
  return ls_none();
}

TEST(sources_say_what_is_wrong) {
  expect_no_dataset(ls_dataset_from_arrays(ls_none()), LS_INVALID_ARGUMENT,
                    "no array");
  expect_no_dataset(
      ls_dataset_from_arrays(ls_nest_sequence(LS_KIND_LIST, NULL, 0)),
      LS_INVALID_ARGUMENT, "without a leaf");
  expect_no_dataset(
      ls_dataset_from_arrays(LS_LIST(i64_rows(3), ls_nest_i64(3))),
      LS_INVALID_ARGUMENT, "leaf 1 of a data set of arrays is no array");
  expect_no_dataset(
      ls_dataset_from_arrays(ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR)),
      LS_INVALID_ARGUMENT, "leaf 0 of a data set of arrays is a scalar");
  expect_no_dataset(ls_dataset_from_arrays(LS_TUPLE(i64_rows(3), i64_rows(4))),
                    LS_INVALID_ARGUMENT,
                    "leaf 1 of a data set of arrays has 4 rows, leaf 0 has 3");
  expect_no_dataset(
      ls_dataset_from_arrays(ls_fail(ls_not_found("these arrays"))),
      LS_NOT_FOUND, "these arrays");
  expect_no_dataset(ls_dataset_range(0, 10, 0), LS_INVALID_ARGUMENT,
                    "a step of 0");
  expect_no_dataset(ls_dataset_range(INT64_MIN, INT64_MAX, 1),
                    LS_INVALID_ARGUMENT, "18446744073709551615 elements");
}

TEST(functions_say_what_they_lack) {
  released = 0;
  ls_index_options options = {.user = &released, .release = note_release};
#define OF(...)                                                                \
  ls_dataset_from_function(                                                    \
      &(ls_index_options){.release = note_release, __VA_ARGS__})
  expect_no_dataset(ls_dataset_from_function(NULL), LS_INVALID_ARGUMENT,
                    "options is NULL");
  expect_no_dataset(ls_dataset_from_function(&options), LS_INVALID_ARGUMENT,
                    "");
  expect_no_dataset(OF(.element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)),
                    LS_INVALID_ARGUMENT, "one of `get` and `make`");
  expect_no_dataset(OF(.element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                       .get = fill_nothing, .make = make_nothing),
                    LS_INVALID_ARGUMENT, "one of `get` and `make`");
  expect_no_dataset(OF(.element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                       .get = fill_nothing, .size = -7),
                    LS_INVALID_ARGUMENT, "-7 elements");
  expect_no_dataset(OF(.element = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1)),
                       .get = fill_nothing),
                    LS_INVALID_ARGUMENT, "give `make`");
  expect_no_dataset(OF(.element = ls_nest_i64(3), .get = fill_nothing),
                    LS_INVALID_ARGUMENT,
                    "leaf 0 of the element's types is no ls_nest_spec");
  expect_no_dataset(OF(.element = ls_nest_spec(LS_DTYPE_NONE, LS_SCALAR),
                       .get = fill_nothing),
                    LS_INVALID_ARGUMENT, "without a type");
  assert_int_equal(released, 7);
#undef OF
}

static ls_nest call_nothing(ls_nest element, const ls_map_call *call,
                            void *user) {
  (void)element, (void)call, (void)user;
  return ls_none();
}

static ls_status fill_map(ls_nest element, ls_nest out, const ls_map_call *call,
                          void *user) {
  (void)element, (void)out, (void)call, (void)user;
  return ls_ok();
}

TEST(maps_say_what_they_lack) {
  released = 0;
#define MAP(dataset, ...)                                                      \
  ls_dataset_map(                                                              \
      (dataset),                                                               \
      &(ls_map_options){.release = note_release, .name = "m", __VA_ARGS__})
  expect_no_dataset(ls_dataset_map(count_to(3), NULL), LS_INVALID_ARGUMENT,
                    "options is NULL");
  expect_no_dataset(MAP(count_to(3), .user = NULL), LS_INVALID_ARGUMENT,
                    "map 'm' needs one of `call` and `fill`");
  expect_no_dataset(MAP(count_to(3), .call = call_nothing, .fill = fill_map),
                    LS_INVALID_ARGUMENT, "one of `call` and `fill`");
  expect_no_dataset(MAP(count_to(3), .fill = fill_map), LS_INVALID_ARGUMENT,
                    "needs the types of results");
  expect_no_dataset(MAP(count_to(0), .call = call_nothing), LS_INVALID_ARGUMENT,
                    "map 'm' of no element");
  expect_no_dataset(MAP(count_to(3), .call = call_nothing), LS_INVALID_ARGUMENT,
                    "no array");
  expect_no_dataset(MAP(count_to(3), .fill = fill_map,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1))),
                    LS_INVALID_ARGUMENT, "give `call`");
  assert_int_equal(released, 6);
#undef MAP
}

TEST(conversions_say_what_is_wrong) {
  const ls_shape two = LS_SHAPE(2), unknown = LS_SHAPE(-1);
#define CONVERT(leaf, ...)                                                     \
  ls_dataset_convert(count_to(3), (leaf), &(ls_convert_options){__VA_ARGS__})
  expect_no_dataset(CONVERT(1, .dtype = LS_DTYPE_F32), LS_INVALID_ARGUMENT,
                    "leaf 1: elements have 1 dense ones");
  expect_no_dataset(CONVERT(-1, .dtype = LS_DTYPE_F32), LS_INVALID_ARGUMENT,
                    "leaf -1");
  expect_no_dataset(CONVERT(0, .dtype = LS_DTYPE_STRING), LS_INVALID_ARGUMENT,
                    "i64[], cannot be converted to string");
  expect_no_dataset(CONVERT(0, .dtype = LS_DTYPE_C64), LS_INVALID_ARGUMENT,
                    "cannot be converted to c64");
  expect_no_dataset(CONVERT(0, .shape = &two), LS_INVALID_ARGUMENT,
                    "i64[], cannot be made i64[2]");
  expect_no_dataset(CONVERT(0, .shape = &unknown), LS_INVALID_ARGUMENT,
                    "cannot be made");
  expect_no_dataset(
      ls_dataset_convert(
          ls_dataset_from_arrays(ls_nest_zeros(LS_DTYPE_STRING, LS_SHAPE(3))),
          0, &(ls_convert_options){.dtype = LS_DTYPE_I32}),
      LS_INVALID_ARGUMENT, "string[], cannot be converted to i32");
#undef CONVERT
}

TEST(selections_say_what_is_wrong) {
  expect_no_dataset(ls_dataset_shard(count_to(9), 0, 0), LS_INVALID_ARGUMENT,
                    "shard 0 of 0");
  expect_no_dataset(ls_dataset_shard(count_to(9), 3, 3), LS_INVALID_ARGUMENT,
                    "shard 3 of 3");
  expect_no_dataset(ls_dataset_shard(count_to(9), 3, -1), LS_INVALID_ARGUMENT,
                    "shard -1 of 3");
  expect_no_dataset(
      ls_dataset_shuffle(count_to(9), &(ls_shuffle_options){.buffer = -2}),
      LS_INVALID_ARGUMENT, "a buffer of -2 elements");
  expect_no_dataset(
      ls_dataset_shuffle(ls_dataset_repeat(count_to(9), -1), NULL),
      LS_INVALID_ARGUMENT, "without end, it needs a buffer");
  expect_no_dataset(ls_dataset_prefetch(count_to(9), -1), LS_INVALID_ARGUMENT,
                    "-1 elements ahead");
  ls_iterator *iterator = NULL;
  LS_OWN(ls_dataset, nine) = count_to(9);
  expect_status(
      ls_iterator_create(nine, &(ls_iterator_options){.prefetch = LS_SOME(-1)},
                         &iterator),
      LS_INVALID_ARGUMENT, "-1 elements ahead");
}

TEST(joins_say_what_does_not_fit) {
  expect_no_dataset(
      ls_dataset_concatenate(count_to(2), ls_dataset_from_arrays(ls_nest_zeros(
                                              LS_DTYPE_F32, LS_SHAPE(2)))),
      LS_INVALID_ARGUMENT,
      "concatenate needs data sets of one kind: leaf 0 is i64[] in "
      "the first and f32[] in another");
  expect_no_dataset(
      ls_dataset_concatenate(count_to(2),
                             ls_dataset_from_arrays(LS_TUPLE(i64_rows(2)))),
      LS_INVALID_ARGUMENT, "concatenate of data sets");
  expect_no_dataset(
      ls_dataset_concatenate(count_to(2), ls_dataset_range(0, 1, 0)),
      LS_INVALID_ARGUMENT, "a step of 0");
  expect_no_dataset(ls_dataset_concatenate(NULL, count_to(2)),
                    LS_RESOURCE_EXHAUSTED, "memory");
  expect_no_dataset(ls_dataset_zip(ls_nest_sequence(LS_KIND_TUPLE, NULL, 0)),
                    LS_INVALID_ARGUMENT, "zip of no data set");
  expect_no_dataset(ls_dataset_zip(ls_nest_i64(1)), LS_INVALID_ARGUMENT,
                    "leaf 0 to zip is no data set");
  expect_no_dataset(
      ls_dataset_zip(LS_LIST(ls_nest_dataset(count_to(2)), i64_rows(1))),
      LS_INVALID_ARGUMENT, "leaf 1 to zip is no data set");
  expect_no_dataset(
      ls_dataset_zip(LS_LIST(ls_nest_dataset(ls_dataset_range(0, 1, 0)))),
      LS_INVALID_ARGUMENT, "a step of 0");
  expect_no_dataset(ls_dataset_zip(LS_LIST(ls_nest_dataset(NULL))),
                    LS_RESOURCE_EXHAUSTED, "memory");
}

TEST(batches_say_what_is_wrong) {
  const double five[] = {5};
  const ls_shape square = LS_SHAPE(2, 2), two = LS_SHAPE(2);
#define BATCH(dataset, ...)                                                    \
  ls_dataset_batch((dataset), &(ls_batch_options){__VA_ARGS__})
  expect_no_dataset(ls_dataset_batch(count_to(3), NULL), LS_INVALID_ARGUMENT,
                    "options is NULL");
  expect_no_dataset(BATCH(count_to(3), .size = 0), LS_INVALID_ARGUMENT,
                    "at least 1, got 0");
  expect_no_dataset(BATCH(count_to(3), .size = INT64_MAX), LS_INVALID_ARGUMENT,
                    "the size of a batch");
  expect_no_dataset(
      BATCH(count_to(3), .size = 2, .remainder = (ls_batch_remainder)7),
      LS_INVALID_ARGUMENT, "no remainder 7");
  expect_no_dataset(BATCH(count_to(3), .size = 2, .padding = five),
                    LS_INVALID_ARGUMENT, "without padded shapes");
  expect_no_dataset(BATCH(count_to(3), .size = 2, .num_padded_shapes = 1),
                    LS_INVALID_ARGUMENT, "without padded shapes");
  expect_no_dataset(BATCH(ragged_to(3), .size = 2, .padded_shapes = &two),
                    LS_INVALID_ARGUMENT, "0 padded shapes for 1 leaves");
  expect_no_dataset(BATCH(ragged_to(3), .size = 2, .padded_shapes = &square,
                          .num_padded_shapes = 1),
                    LS_INVALID_ARGUMENT,
                    "leaf 0, i64[?], cannot be padded to i64[2,2]");
  const ls_shape three = LS_SHAPE(3);
  expect_no_dataset(
      BATCH(ls_dataset_from_arrays(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2, 4))),
            .size = 2, .padded_shapes = &three, .num_padded_shapes = 1),
      LS_INVALID_ARGUMENT, "leaf 0, f32[4], cannot be padded to f32[3]");
  expect_no_dataset(BATCH(ls_dataset_from_arrays(
                              ls_nest_zeros(LS_DTYPE_STRING, LS_SHAPE(2, 1))),
                          .size = 2, .padded_shapes = &three,
                          .num_padded_shapes = 1, .padding = five),
                    LS_INVALID_ARGUMENT, "only numbers");
  ls_dataset *deep = ls_dataset_from_arrays(
      ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(1, 1, 1, 1, 1, 1, 1, 1)));
  while (ls_dataset_cardinality(deep) == 1)
    deep = BATCH(deep, .size = 1);
  expect_no_dataset(deep, LS_INVALID_ARGUMENT, "dimensions");
#undef BATCH
}

TEST(nothing_is_taken_for_no_memory) {
  ls_iterator *iterator = NULL;
  expect_status(ls_dataset_status(NULL), LS_RESOURCE_EXHAUSTED, "");
  expect_status(ls_iterator_create(NULL, NULL, &iterator),
                LS_RESOURCE_EXHAUSTED, "");
  expect_no_dataset(ls_dataset_take(NULL, 1), LS_RESOURCE_EXHAUSTED, "");
  ls_dataset_release(NULL);
  ls_iterator_release(NULL);
  assert_null(ls_nest_as_dataset(ls_none()));
  assert_int_equal(ls_dataset_cardinality(NULL), 0);
  assert_false(ls_dataset_is_indexed(NULL));
  char text[8] = "x";
  assert_string_equal(ls_dataset_print(NULL, text, sizeof(text)), "");
  expect_status(ls_iterator_next(NULL, NULL), LS_INVALID_ARGUMENT, "iterator");
  expect_status(ls_iterator_save(NULL, NULL), LS_INVALID_ARGUMENT, "iterator");
  expect_status(ls_iterator_restore(NULL, NULL), LS_INVALID_ARGUMENT,
                "iterator");
  expect_status(ls_iterator_seek(NULL, 0), LS_INVALID_ARGUMENT, "iterator");
  expect_status(ls_iterator_restart(NULL), LS_INVALID_ARGUMENT, "iterator");
  expect_status(ls_iterator_get_stats(NULL, NULL), LS_INVALID_ARGUMENT,
                "iterator");
  LS_OWN(ls_nest, none) = ls_iterator_get_next(NULL);
  expect_status(ls_nest_status(none), LS_INVALID_ARGUMENT, "iterator");
}

TEST(a_pipeline_is_no_longer_than_a_stack) {
  ls_dataset *dataset = count_to(1);
  for (int i = 0; i < 100; ++i)
    dataset = ls_dataset_concatenate(dataset, ls_dataset_retain(dataset));
  expect_no_dataset(dataset, LS_INVALID_ARGUMENT, "1000 are possible");
  dataset = ls_dataset_range(0, 1, 0);
  for (int i = 0; i < 100000; ++i)
    dataset = ls_dataset_take(dataset, 1);
  expect_no_dataset(dataset, LS_INVALID_ARGUMENT, "a step of 0");
  dataset = count_to(7);
  for (int i = 0; i < 990; ++i)
    dataset = ls_dataset_take(dataset, 5);
  EXPECT_ELEMENTS(dataset, 0, 1, 2, 3, 4);
}

// ---- Edges -----------------------------------------------------------------
static ls_dataset *for_ever(int64_t count) {
  return ls_dataset_repeat(count_to(count), -1);
}

TEST(empty_data_sets_stay_empty) {
  ls_dataset *const all[] = {
      count_to(0),
      ls_dataset_range(5, 5, -1),
      ls_dataset_range(5, 4, 1),
      ls_dataset_from_arrays(i64_rows(0)),
      ls_dataset_take(count_to(9), 0),
      ls_dataset_take(for_ever(9), 0),
      ls_dataset_skip(count_to(9), 9),
      ls_dataset_skip(count_to(9), INT64_MAX),
      ls_dataset_skip(count_to(9), -1),
      ls_dataset_shard(count_to(3), 9, 3),
      ls_dataset_repeat(count_to(0), -1),
      ls_dataset_repeat(count_to(9), 0),
      ls_dataset_shuffle(count_to(0), NULL),
      ls_dataset_batch(count_to(0), &(ls_batch_options){.size = 3}),
      ls_dataset_batch(
          count_to(2),
          &(ls_batch_options){.size = 3, .remainder = LS_REMAINDER_DROP}),
      ls_dataset_concatenate(count_to(0), count_to(0)),
      ls_dataset_zip(
          LS_TUPLE(ls_nest_dataset(count_to(0)), ls_nest_dataset(for_ever(3)))),
      ls_dataset_prefetch(count_to(0), 4),
      ls_dataset_convert(count_to(0), 0,
                         &(ls_convert_options){.dtype = LS_DTYPE_F32}),
      ragged_to(0),
  };
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i)
    expect_elements(all[i], NULL, 0);
}

TEST(endless_ones_are_cut_and_joined) {
  assert_int_equal(INT64_MAX, ls_dataset_cardinality(NULL) + INT64_MAX);
  EXPECT_ELEMENTS(ls_dataset_take(for_ever(2), 5), 0, 1, 0, 1, 0);
  EXPECT_ELEMENTS(ls_dataset_take(ls_dataset_skip(for_ever(3), 4), 3), 1, 2, 0);
  EXPECT_ELEMENTS(ls_dataset_take(ls_dataset_shard(for_ever(3), 2, 1), 3), 1, 0,
                  2);
  EXPECT_ELEMENTS(ls_dataset_take(ls_dataset_repeat(for_ever(2), 3), 3), 0, 1,
                  0);
  EXPECT_ELEMENTS(
      ls_dataset_take(ls_dataset_concatenate(count_to(2), for_ever(3)), 4), 0,
      1, 0, 1);
  EXPECT_ELEMENTS(
      ls_dataset_take(ls_dataset_concatenate(for_ever(3), count_to(2)), 4), 0,
      1, 2, 0);
  EXPECT_ELEMENTS(ls_dataset_zip(LS_TUPLE(ls_nest_dataset(for_ever(2)),
                                          ls_nest_dataset(count_to(3)))),
                  0, 1, 0);
  EXPECT_ELEMENTS(
      ls_dataset_take(
          ls_dataset_batch(for_ever(3), &(ls_batch_options){.size = 2}), 3),
      0, 2, 1);
  EXPECT_ELEMENTS(ls_dataset_zip(ls_nest_dataset(count_to(2))), 0, 1);
}

// What the last element is, read by its place.
static void expect_last(ls_dataset *dataset, int64_t wanted) {
  const int64_t size = ls_dataset_cardinality(dataset);
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(dataset, LS_SOME(3));
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_seek(iterator, size - 1));
  expect_ok(ls_iterator_next(iterator, &element));
  assert_int_equal(number_in(element), wanted);
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
  expect_status(ls_iterator_seek(iterator, -1), LS_INVALID_ARGUMENT, "-1");
  expect_ok(ls_iterator_seek(iterator, size));
  if (size < INT64_MAX)
    expect_status(ls_iterator_seek(iterator, size + 1), LS_INVALID_ARGUMENT,
                  "has no position");
}

TEST(the_largest_sizes_are_read_to_their_end) {
  const int64_t most = INT64_MAX;
  expect_last(ls_dataset_range(0, most, 1), most - 1);
  expect_last(ls_dataset_range(INT64_MIN, INT64_MAX, 3), INT64_MAX - 3);
  expect_last(ls_dataset_range(INT64_MAX, INT64_MIN, INT64_MIN), -1);
  expect_last(ls_dataset_skip(count_to(most), most - 1), most - 1);
  expect_last(ls_dataset_shard(count_to(most), 2, 1), most - 2);
  expect_last(ls_dataset_shard(count_to(most), most, most - 1), most - 1);
  expect_last(ls_dataset_repeat(count_to(most), 5), most - 1);
  expect_last(ls_dataset_repeat(count_to(1), most), 0);
  expect_last(ls_dataset_concatenate(count_to(most), count_to(most)), most - 1);
  expect_last(ls_dataset_batch(count_to(most), &(ls_batch_options){.size = 2}),
              most - 1);
  expect_last(
      ls_dataset_batch(
          ls_dataset_batch(
              count_to(most),
              &(ls_batch_options){.size = 2, .remainder = LS_REMAINDER_DROP}),
          &(ls_batch_options){.size = 1 << 10}),
      most - 2047);
  expect_last(ls_dataset_take(ls_dataset_skip(for_ever(5), 7), most),
              (7 + (most - 7 - 1)) % 5);
}

TEST(endless_positions_end_where_numbers_do) {
  ls_dataset *const all[] = {
      ls_dataset_skip(for_ever(5), 1000),
      ls_dataset_shard(for_ever(5), 7, 3),
      ls_dataset_batch(
          ls_dataset_batch(for_ever(5), &(ls_batch_options){.size = 4}),
          &(ls_batch_options){.size = 4}),
      ls_dataset_concatenate(count_to(1000), for_ever(5)),
      ls_dataset_zip(
          LS_TUPLE(ls_nest_dataset(for_ever(5)),
                   ls_nest_dataset(ls_dataset_skip(for_ever(5), 9)))),
      ls_dataset_batch(ls_dataset_skip(for_ever(5), 9),
                       &(ls_batch_options){.size = 4})};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i) {
    assert_int_equal(ls_dataset_cardinality(all[i]), LS_INFINITE);
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(all[i], LS_SOME(2));
    LS_OWN(ls_nest, element) = ls_none();
    // As far as it goes, by halves.
    int64_t can = 0;
    for (int64_t step = INT64_MAX / 2 + 1; step > 0; step /= 2) {
      LS_OWN(ls_status, status) =
          ls_iterator_seek(iterator, can + (step - 1) + 1 - 1);
      if (ls_status_is_ok(status)) can += step - 1;
    }
    expect_ok(ls_iterator_seek(iterator, can - 2));
    expect_ok(ls_iterator_next(iterator, &element));
    assert_in_range(number_in(element), 0, 4);
  }
}
