// SPDX-License-Identifier: Apache-2.0
//
// Windows, rows of batches, buckets.
#include <string.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "support/stream_runs.h"

static const stream_numbers hundred = {.count = 100, .saves = true};
static const stream_numbers again = {.count = 100};
static const stream_numbers refusing = {
    .count = 100, .saves = true, .fails_every = 7};
static const stream_numbers few = {.count = 7, .saves = true};
static const stream_numbers none = {.count = 0};
static const stream_numbers lengths = {
    .count = 100, .saves = true, .longest = 9};
static const stream_numbers refused_lengths = {
    .count = 100, .longest = 9, .fails_every = 7};
static const stream_numbers vectors = {.count = 4, .longest = 3};
static const stream_numbers *const all[] = {&hundred, &again, &refusing, &few,
                                            &none};

static void for_all(stream_maker make) {
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
    expect_stream_alike(make, (void *)(uintptr_t)all[i]);
}
#define OF(numbers) ((void *)(uintptr_t) & (numbers))

static ls_iterator *iterate(ls_dataset *dataset) {
  ls_iterator *iterator = NULL;
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  ls_dataset_release(dataset);
  return iterator;
}

static void expect_refused(ls_dataset *dataset, const char *message) {
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT, message);
  ls_dataset_release(dataset);
}

// ---- Windows ---------------------------------------------------------------
static ls_dataset_window_options window;
static ls_dataset *windows(void *user) {
  return ls_dataset_window(stream_of(user), &window);
}

// As the numbers 0 to count - 1 are dealt into windows.
static void expect_windows(ls_dataset *dataset, int64_t count) {
  const int64_t shift = window.shift > 0 ? window.shift : window.size;
  const int64_t stride = window.stride > 0 ? window.stride : 1;
  const int64_t known = ls_dataset_cardinality(dataset);
  ls_element_spec spec;
  expect_ok(ls_dataset_spec(dataset, &spec));
  const int64_t rows = spec.leaves[0].type.shape.dim[0];
  LS_OWN(ls_iterator, iterator) = iterate(dataset);
  LS_OWN(ls_nest, element) = ls_none();
  int64_t given = 0;
  for (int64_t first = 0; first < count; first += shift) {
    int64_t wanted = 0;
    while (wanted < window.size && first + wanted * stride < count)
      ++wanted;
    if (window.drop && wanted < window.size) break;
    expect_ok(ls_iterator_next(iterator, &element));
    const ls_array *array = ls_nest_as_array(element);
    assert_int_equal(ls_array_shape(array).dim[0], wanted);
    assert_true(rows < 0 || rows == wanted);
    for (int64_t i = 0; i < wanted; ++i)
      assert_int_equal(ls_array_i64(array, i), first + i * stride);
    ++given;
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  assert_true(known == LS_UNKNOWN_SIZE || known == given);
}

TEST(windows_go_over_streams_as_over_indexed_data_sets) {
  for (int i = 0; i < 5 * 5 * 3 * 2; ++i) {
    window = (ls_dataset_window_options){.size = 1 + i % 5,
                                         .shift = i / 5 % 5,
                                         .stride = i / 25 % 3,
                                         .drop = i / 75};
    static const stream_numbers *const sources[] = {&hundred, &few, &none};
    for (size_t k = 0; k < 3; ++k) {
      expect_windows(windows((void *)(uintptr_t)sources[k]), sources[k]->count);
      ls_dataset *dataset =
          ls_dataset_window(ls_dataset_range(0, sources[k]->count, 1), &window);
      assert_true(ls_dataset_is_indexed(dataset));
      expect_windows(dataset, sources[k]->count);
    }
  }
}

TEST(windows_are_the_same_from_any_place) {
  static const ls_dataset_window_options ways[] = {
      {.size = 3},
      {.size = 4, .shift = 1, .stride = 3, .drop = true},
      {.size = 2, .shift = 9},
      {.size = 40, .shift = 7}};
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); ++i) {
    window = ways[i];
    for_all(windows);
  }
}

static ls_status expect_index(void *user, int64_t index, ls_nest out) {
  (void)user;
  assert_true(index >= 0);
  *(int64_t *)ls_nest_data(out, 0) = index;
  return ls_ok();
}

TEST(windows_of_an_endless_data_set_end_where_numbers_do) {
  LS_OWN(ls_dataset, d) =
      ls_dataset_window(ls_dataset_from_function(&(ls_index_options){
                            .size = LS_INFINITE,
                            .get = expect_index,
                            .element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
                        &(ls_dataset_window_options){.size = 2, .shift = 1000});
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(d, NULL, &iterator));
  expect_status(ls_iterator_seek(iterator, INT64_MAX / 10), LS_INVALID_ARGUMENT,
                "no position");
  expect_ok(ls_iterator_seek(iterator, (INT64_MAX - 2) / 1000));
  expect_ok(ls_iterator_next(iterator, &element));
  assert_int_equal(*(int64_t *)ls_nest_data(element, 0),
                   (INT64_MAX - 2) / 1000 * 1000);
}

TEST(windows_that_cannot_be_are_refused) {
  window = (ls_dataset_window_options){.size = 0};
  expect_refused(windows(OF(few)), "a window of 0 elements");
  window = (ls_dataset_window_options){.size = 2, .shift = -1};
  expect_refused(windows(OF(few)), "shift -1");
  window = (ls_dataset_window_options){.size = 1 << 20, .stride = 1 << 20};
  expect_refused(windows(OF(few)), "is over more than");
  expect_refused(ls_dataset_window(stream_of(&few), NULL), "options is NULL");
  // Elements that cannot be stacked are that window's failure.
  window = (ls_dataset_window_options){.size = 2};
  LS_OWN(ls_iterator, iterator) = iterate(windows(OF(lengths)));
  LS_OWN(ls_nest, element) = ls_none();
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "element 1 of a batch has i64[2]");
}

// ---- Unbatch ---------------------------------------------------------------
static int64_t size = 1;
static ls_dataset *rows(void *user) {
  return ls_dataset_unbatch(
      ls_dataset_batch(stream_of(user), &(ls_batch_options){.size = size}));
}
static ls_dataset *rows_of_vectors(void *user) {
  return ls_dataset_unbatch(stream_of(user));
}
static ls_dataset *rows_of_range(void *user) {
  return ls_dataset_shuffle(
      ls_dataset_unbatch(ls_dataset_batch(
          ls_dataset_range(0, ((const stream_numbers *)user)->count, 1),
          &(ls_batch_options){.size = 4, .remainder = LS_REMAINDER_DROP})),
      NULL);
}

TEST(rows_of_batches_are_elements) {
  size = 3;
  EXPECT_STREAM(rows, OF(few), 0, 1, 2, 3, 4, 5, 6);
  EXPECT_STREAM(rows_of_vectors, OF(vectors), 0, 1, 1001, 2, 1002, 2002, 3);
  for (size = 1; size < 40; size = size * 3 + 1)
    for_all(rows);
  expect_stream_alike(rows_of_vectors, OF(lengths));
  expect_stream_alike(rows_of_vectors, OF(refused_lengths));
  expect_stream_alike(rows_of_range, OF(hundred));
}

TEST(rows_of_whole_batches_are_indexed) {
  ls_dataset *dataset = ls_dataset_unbatch(ls_dataset_batch(
      ls_dataset_range(0, 12, 1), &(ls_batch_options){.size = 4}));
  assert_true(ls_dataset_is_indexed(dataset));
  assert_int_equal(ls_dataset_cardinality(dataset), 12);
  LS_OWN(ls_iterator, iterator) = iterate(dataset);
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_seek(iterator, 9));
  expect_ok(ls_iterator_next(iterator, &element));
  assert_int_equal(stream_number(element), 9);
  ls_iterator_release(iterator);
  // A last batch that is smaller makes it a stream.
  dataset = ls_dataset_unbatch(ls_dataset_batch(
      ls_dataset_range(0, 13, 1), &(ls_batch_options){.size = 4}));
  assert_false(ls_dataset_is_indexed(dataset));
  iterator = iterate(dataset);
  int64_t numbers[STREAM_MOST];
  assert_int_equal(stream_read(iterator, numbers), 13);
  assert_int_equal(numbers[12], 12);
}

static ls_nest count_call(ls_nest element, const ls_map_call *call,
                          void *calls) {
  (void)call;
  ++*(int *)calls;
  return ls_nest_retain(element);
}

TEST(neighbouring_rows_read_their_batch_once) {
  int calls = 0;
  LS_OWN(ls_iterator, iterator) = iterate(ls_dataset_unbatch(ls_dataset_batch(
      ls_dataset_map(ls_dataset_range(0, 12, 1),
                     &(ls_map_options){.call = count_call, .user = &calls}),
      &(ls_batch_options){.size = 4})));
  LS_OWN(ls_nest, element) = ls_none();
  calls = 0;
  for (int i = 0; i < 12; ++i) {
    expect_ok(ls_iterator_next(iterator, &element));
    assert_int_equal(stream_number(element), i);
    assert_int_equal(calls, i / 4 * 4 + 4);
  }
}

TEST(leaves_without_rows_are_refused) {
  expect_refused(ls_dataset_unbatch(stream_of(&few)),
                 "unbatch: leaf 0, i64[], has no rows");
  const ls_nest arrays = LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(5, 2)),
                                  ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(5, 3)));
  expect_refused(ls_dataset_unbatch(ls_dataset_from_arrays(arrays)),
                 "unbatch: leaf 1 has 3 rows, those before have 2");
}

// ---- Buckets ---------------------------------------------------------------
static ls_bucket_options bucket;
static ls_dataset *buckets(void *user) {
  return ls_dataset_bucket(stream_of(user), &bucket);
}

static const int64_t bounds[] = {3, 6}, sizes[] = {8, 4, 2}, same[] = {5, 5, 5};

// Plain C: what stands in each batch, in order.
static void expect_buckets(void) {
  LS_OWN(ls_iterator, iterator) = iterate(buckets(OF(lengths)));
  LS_OWN(ls_nest, element) = ls_none();
  int64_t held[3][8], counts[3] = {0};
  for (int64_t i = 0; i < 100 + 3; ++i) {
    const int64_t length = i % 9 + 1;
    int b = length < 3 ? 0 : length < 6 ? 1 : 2;
    if (i < 100) {
      held[b][counts[b]++] = i;
      if (counts[b] < sizes[b]) continue;
    } else {
      b = (int)(i - 100);
      if (counts[b] == 0) continue;
    }
    expect_ok(ls_iterator_next(iterator, &element));
    const ls_array *array = ls_nest_as_array(ls_nest_item(element, 0));
    const ls_array *ids = ls_nest_as_array(ls_nest_item(element, 1));
    int64_t longest = 0;
    for (int64_t k = 0; k < counts[b]; ++k)
      if (held[b][k] % 9 + 1 > longest) longest = held[b][k] % 9 + 1;
    assert_int_equal(ls_array_shape(array).dim[0], counts[b]);
    assert_int_equal(ls_array_shape(array).dim[1], longest);
    for (int64_t k = 0; k < counts[b]; ++k) {
      assert_int_equal(ls_array_i64(ids, k), held[b][k]);
      for (int64_t j = 0; j < longest; ++j)
        assert_int_equal(ls_array_i64(array, k * longest + j),
                         j > held[b][k] % 9 ? -3 : held[b][k] + 1000 * j);
    }
    counts[b] = 0;
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
}

static int64_t wave(ls_nest element, void *user) {
  (void)user;
  return ls_array_shape(ls_nest_as_array(element)).dim[0] % 7;
}

TEST(elements_wait_for_others_that_are_as_long) {
  bucket = (ls_bucket_options){.boundaries = bounds,
                               .num_boundaries = 2,
                               .sizes = sizes,
                               .ids = true,
                               .padded_shapes = (ls_shape[]){LS_SHAPE(-1)},
                               .num_padded_shapes = 1,
                               .padding = (double[]){-3}};
  expect_buckets();
  for (int i = 0; i < 3; ++i) {
    bucket.remainder = (ls_batch_remainder)i;
    expect_stream_alike(buckets, OF(lengths));
    expect_stream_alike(buckets, OF(refused_lengths));
  }
  bucket = (ls_bucket_options){.length = wave,
                               .boundaries = bounds,
                               .num_boundaries = 2,
                               .sizes = same,
                               .remainder = LS_REMAINDER_PAD};
  expect_stream_alike(buckets, OF(lengths));
  LS_OWN(ls_dataset, dataset) = buckets(OF(lengths));
  ls_element_spec spec;
  char text[100];
  expect_ok(ls_dataset_spec(dataset, &spec));
  assert_string_equal(ls_element_spec_print(&spec, text, sizeof(text)),
                      "(i64[5,?], f32[5])");
}

TEST(buckets_that_cannot_be_are_refused) {
  bucket = (ls_bucket_options){.num_boundaries = 0};
  expect_refused(buckets(OF(lengths)), "bucket needs boundaries");
  bucket.sizes = (const int64_t[]){0, 0, 0};
  expect_refused(buckets(OF(lengths)), "size 0 is 0");
  bucket.sizes = sizes;
  bucket.boundaries = (const int64_t[]){4, 4};
  bucket.num_boundaries = 2;
  expect_refused(buckets(OF(lengths)), "boundary 1 is 4; boundaries rise");
  expect_refused(buckets(OF(few)), "leaf 0 of 1 has no length");
  bucket.leaf = 1;
  expect_refused(buckets(OF(lengths)), "leaf 1 of 1 has no length");
  expect_refused(ls_dataset_bucket(stream_of(&few), NULL), "options is NULL");
}

// Elements that wait long cost a place each, at most.
TEST(a_place_in_buckets_is_small) {
  static const stream_numbers many = {
      .count = 3500, .saves = true, .longest = 100};
  static int64_t bounds_of_many[99], sizes_of_many[100];
  for (int i = 0; i < 100; ++i) {
    if (i < 99) bounds_of_many[i] = i + 2;
    sizes_of_many[i] = 100;
  }
  bucket = (ls_bucket_options){.boundaries = bounds_of_many,
                               .num_boundaries = 99,
                               .sizes = sizes_of_many};
  LS_OWN(ls_iterator, a) = iterate(buckets(OF(many)));
  LS_OWN(ls_iterator, b) = iterate(buckets(OF(many)));
  LS_OWN(ls_nest, x) = ls_none();
  LS_OWN(ls_nest, y) = ls_none();
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(printed, text) = NULL;
  size_t bytes = 0;
  // The first one comes when all others wait: at the end.
  expect_ok(ls_iterator_next(a, &x));
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(a, record));
  expect_ok(ls_record_to_text(record, &text, &bytes));
  print_message("3,465 elements wait: %zu bytes\n", bytes);
  assert_true(bytes < 256 << 10);
  expect_ok(ls_iterator_restore(b, record));
  for (int i = 1; i < 100; ++i) {
    expect_ok(ls_iterator_next(a, &x));
    expect_ok(ls_iterator_next(b, &y));
    assert_int_equal(stream_number(x), stream_number(y));
  }
  expect_status(ls_iterator_next(b, &y), LS_OUT_OF_RANGE, "");
}
