// SPDX-License-Identifier: Apache-2.0
//
// Shuffles of streams, and of indexed data sets with a buffer.
#include <string.h>
#include <time.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "support/process.h"
#include "support/stream_runs.h"

static const stream_numbers hundred = {.count = 100, .saves = true};
static const stream_numbers again = {.count = 100};
static const stream_numbers refusing = {
    .count = 100, .saves = true, .fails_every = 7};
static const stream_numbers none = {.count = 0};
static const stream_numbers *const all[] = {&hundred, &again, &refusing, &none};

static int64_t buffer = 1;
static ls_flag each_epoch;

static ls_dataset *shuffled(void *user) {
  return ls_dataset_shuffle(stream_of(user),
                            &(ls_shuffle_options){.seed = 3,
                                                  .buffer = buffer,
                                                  .each_epoch = each_epoch});
}

static ls_dataset *shuffled_range(void *user) {
  return ls_dataset_shuffle(
      ls_dataset_range(0, ((const stream_numbers *)user)->count, 1),
      &(ls_shuffle_options){.seed = 3, .buffer = buffer});
}

static ls_dataset *shuffled_twice(void *user) {
  return ls_dataset_shuffle(shuffled(user),
                            &(ls_shuffle_options){.seed = 4, .buffer = 13});
}

TEST(from_any_place_the_rest_is_the_same) {
  for (buffer = 1; buffer < 300; buffer = buffer * 2 + 3) {
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
      expect_stream_alike(shuffled, (void *)(uintptr_t)all[i]);
      expect_stream_alike(shuffled_twice, (void *)(uintptr_t)all[i]);
    }
  }
}

static size_t read_epoch(stream_maker make, const stream_numbers *numbers,
                         int epoch, int64_t *out) {
  LS_OWN(ls_dataset, dataset) = make((void *)(uintptr_t)numbers);
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(dataset, &(ls_iterator_options){.seed = 9},
                               &iterator));
  expect_ok(ls_iterator_seek_epoch(iterator, epoch));
  return stream_read(iterator, out);
}

// Block after block, each in an order of its own.
TEST(each_block_is_dealt_in_an_order_of_its_own) {
  int64_t numbers[2][STREAM_MOST];
  int moved = 0;
  for (buffer = 1; buffer < 300; buffer = buffer * 2 + 3) {
    for (int epoch = 0; epoch < 2; ++epoch) {
      bool seen[100] = {false};
      assert_int_equal(read_epoch(shuffled, &hundred, epoch, numbers[epoch]),
                       100);
      for (int64_t i = 0; i < 100; ++i) {
        const int64_t number = numbers[epoch][i] - 100000 * epoch;
        assert_in_range(number, 0, 99);
        assert_false(seen[number]);
        seen[number] = true;
        assert_int_equal(number / buffer, i / buffer);
        if (epoch == 1 && buffer > 20) moved += numbers[0][i] != number;
      }
    }
  }
  assert_true(moved > 200);
  // One order for all epochs.
  buffer = 50;
  each_epoch = LS_FLAG_OFF;
  read_epoch(shuffled, &hundred, 0, numbers[0]);
  read_epoch(shuffled, &hundred, 1, numbers[1]);
  for (int i = 0; i < 100; ++i)
    assert_int_equal(numbers[0][i] + 100000, numbers[1][i]);
  each_epoch = LS_FLAG_DEFAULT;
}

TEST(an_indexed_data_set_is_dealt_in_the_same_order) {
  int64_t a[STREAM_MOST], b[STREAM_MOST];
  for (buffer = 1; buffer < 300; buffer = buffer * 2 + 3) {
    ls_dataset *dataset = shuffled_range((void *)(uintptr_t)&hundred);
    assert_true(ls_dataset_is_indexed(dataset));
    ls_dataset_release(dataset);
    assert_int_equal(read_epoch(shuffled, &hundred, 0, a), 100);
    assert_int_equal(read_epoch(shuffled_range, &hundred, 0, b), 100);
    assert_memory_equal(a, b, 100 * sizeof(*a));
  }
  // One without end, too.
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_shuffle(ls_dataset_repeat(ls_dataset_range(0, 10, 1), -1),
                         &(ls_shuffle_options){.buffer = 10});
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_ok(ls_iterator_seek(iterator, 1000000007));
  expect_ok(ls_iterator_next(iterator, &element));
}

// How often the source is read.
static int64_t reads;
static ls_status open_count(void *user, int64_t epoch, void **out_state) {
  (void)epoch;
  *out_state = user;
  *(int64_t *)user = 0;
  return ls_ok();
}
static ls_status next_count(void *state, ls_nest *out_element) {
  ++reads;
  *out_element = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(64));
  int64_t *data = ls_nest_data(*out_element, 0);
  if (data != NULL) data[0] = (*(int64_t *)state)++;
  return ls_nest_status(*out_element);
}
static ls_status save_count(void *state, ls_record *record) {
  return ls_record_set_i64(record, "at", *(int64_t *)state);
}
static ls_status restore_count(void *state, const ls_record *record) {
  return ls_record_get_i64(record, "at", (int64_t *)state);
}

static ls_iterator *long_one(int64_t *at) {
  ls_iterator *iterator = NULL;
  LS_OWN(ls_dataset, dataset) = ls_dataset_shuffle(
      ls_dataset_from_generator(&(ls_generator_options){
          .element = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(64)),
          .open = open_count,
          .next = next_count,
          .save = save_count,
          .restore = restore_count,
          .user = at}),
      &(ls_shuffle_options){.seed = 1, .buffer = 10000});
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  return iterator;
}

// Parts of a fixed order, read with other seeds and in another epoch.
TEST(a_fixed_order_is_the_same_for_all) {
  int times[100] = {0}, first = 0;
  for (int part = 0; part < 2; ++part) {
    LS_OWN(ls_dataset, dataset) =
        ls_dataset_shuffle(ls_dataset_range(0, 100, 1),
                           &(ls_shuffle_options){.seed = 3, .fixed = true});
    dataset =
        part == 0 ? ls_dataset_take(dataset, 30) : ls_dataset_skip(dataset, 30);
    LS_OWN(ls_iterator, iterator) = NULL;
    LS_OWN(ls_nest, element) = ls_none();
    expect_ok(ls_iterator_create(
        dataset, &(ls_iterator_options){.seed = (uint64_t)part}, &iterator));
    expect_ok(ls_iterator_seek_epoch(iterator, part));
    for (int i = part == 0 ? 30 : 70; i > 0; --i) {
      expect_ok(ls_iterator_next(iterator, &element));
      const int64_t number = ls_array_i64(ls_nest_as_array(element), 0);
      ++times[number];
      first += part == 0 && number < 30;
    }
  }
  for (int i = 0; i < 100; ++i)
    assert_int_equal(times[i], 1);
  assert_true(first < 30);
}

static ls_dataset *shuffled_whole(void *user) {
  return ls_dataset_shuffle(
      stream_of(user),
      &(ls_shuffle_options){.seed = 3, .buffer = INT64_C(1) << 50});
}

TEST(a_buffer_takes_the_room_of_its_elements) {
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
    expect_stream_alike(shuffled_whole, (void *)(uintptr_t)all[i]);
}

TEST(a_place_in_a_long_buffer_is_small_and_soon_restored) {
  int64_t at[2];
  LS_OWN(ls_iterator, a) = long_one(&at[0]);
  LS_OWN(ls_iterator, b) = long_one(&at[1]);
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(ls_nest, x) = ls_none();
  LS_OWN(ls_nest, y) = ls_none();
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  for (int i = 0; i < 137777; ++i)
    expect_ok(ls_iterator_next(a, &x));
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(a, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  // 256 KiB are allowed.
  print_message("a place in a buffer of 10,000: %zu bytes\n", size);
  assert_true(size < 1024);
  reads = 0;
  double began = seconds_now();
  for (int i = 0; i < 10000; ++i)
    expect_ok(ls_iterator_next(a, &x));
  const double reading = seconds_now() - began;
  assert_int_equal(reads, 10000);
  reads = 0;
  began = seconds_now();
  expect_ok(ls_iterator_restore(b, record));
  expect_ok(ls_iterator_next(b, &y));
  print_message("restored in %.1f ms, 10,000 elements are read in %.1f ms\n",
                (seconds_now() - began) * 1e3, reading * 1e3);
  assert_true(reads <= 10002);
  ls_iterator_release(a);
  a = long_one(&at[0]);
  expect_ok(ls_iterator_restore(a, record));
  expect_ok(ls_iterator_next(a, &x));
  for (int i = 0; i < 25000; ++i) {
    assert_int_equal(*(int64_t *)ls_nest_data(x, 0),
                     *(int64_t *)ls_nest_data(y, 0));
    expect_ok(ls_iterator_next(a, &x));
    expect_ok(ls_iterator_next(b, &y));
  }
}
