// SPDX-License-Identifier: Apache-2.0
//
// Places that are none: records that are damaged, and sources that have less
// than they had. fuzz/place_fuzz has more of them.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/iterator.h"
#include "data/own.h"
#include "lockstep/graph.h"
#include "support/stream_runs.h"

static const stream_numbers numbers = {.count = 30, .saves = true};
static const stream_numbers lengths = {
    .count = 30, .saves = true, .longest = 9};

static ls_dataset *bucketed(void) {
  static const int64_t boundaries[] = {4}, sizes[] = {3, 5};
  return ls_dataset_bucket(stream_of(&lengths),
                           &(ls_bucket_options){.boundaries = boundaries,
                                                .num_boundaries = 1,
                                                .sizes = sizes});
}

static ls_dataset *shuffled(const stream_numbers *of) {
  return ls_dataset_shuffle(stream_of(of), &(ls_shuffle_options){.buffer = 8});
}

static ls_iterator *iterator_on(ls_dataset *dataset, int64_t prefetch) {
  ls_iterator *iterator = NULL;
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(prefetch)},
      &iterator));
  ls_dataset_release(dataset);
  return iterator;
}

static ls_record *place_of(ls_iterator *iterator) {
  ls_record *record = NULL;
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(iterator, record));
  return record;
}

// Its inner record "stream", to be damaged.
static ls_record *stream_in(ls_record *record) {
  const ls_record *stream = NULL;
  expect_ok(ls_record_find(record, "stream", &stream));
  return (ls_record *)(uintptr_t)stream;
}

// Expects that an iterator, in the middle of epoch 5, refuses to go to such a
// place of its epoch 0, and has all of epoch 5 then. Takes over both.
static void expect_none(ls_dataset *dataset, ls_record *record, ls_code code,
                        const char *says) {
  static int64_t wanted[STREAM_MOST], read[STREAM_MOST];
  for (int64_t prefetch = 0; prefetch < 5; prefetch += 4) {
    LS_OWN(ls_iterator, iterator) =
        iterator_on(ls_dataset_retain(dataset), prefetch);
    expect_ok(ls_iterator_seek_epoch(iterator, 5));
    const size_t count = stream_read(iterator, wanted);
    expect_ok(ls_iterator_seek_epoch(iterator, 5));
    expect_ok(ls_iterator_seek(iterator, 3));
    expect_status(ls_iterator_restore(iterator, record), code, says);
    assert_int_equal(ls_iterator_epoch(iterator), 5);
    assert_int_equal(ls_iterator_position(iterator), 0);
    assert_int_equal(stream_read(iterator, read), count);
    assert_memory_equal(read, wanted, count * sizeof(*read));
  }
  ls_record_destroy(record);
  ls_dataset_release(dataset);
}

static ls_record *place_in(ls_dataset *dataset, int64_t position) {
  LS_OWN(ls_iterator, iterator) = iterator_on(dataset, 0);
  expect_ok(ls_iterator_seek(iterator, position));
  return place_of(iterator);
}

TEST(damaged_counts_are_refused) {
  ls_record *record = place_in(shuffled(&numbers), 11);
  expect_ok(ls_record_set_i64(stream_in(record), "dealt", -1));
  expect_none(shuffled(&numbers), record, LS_INVALID_ARGUMENT,
              "'dealt' of a position is -1");
  record = place_in(shuffled(&numbers), 11);
  expect_ok(ls_record_set_i64(stream_in(record), "block", INT64_MAX));
  expect_none(shuffled(&numbers), record, LS_INVALID_ARGUMENT,
              "which is no count");
  record = place_in(shuffled(&numbers), 11);
  expect_ok(ls_record_set_text(stream_in(record), "input0", "lost"));
  expect_none(shuffled(&numbers), record, LS_INVALID_ARGUMENT, "input0");
  record = place_in(shuffled(&numbers), 11);
  ls_record_clear(stream_in(record));
  expect_none(shuffled(&numbers), record, LS_NOT_FOUND, "epoch");
}

// What waits in a bucket is less than a batch.
TEST(a_bucket_does_not_hold_more_than_a_batch) {
  int64_t waiting[20];
  for (int64_t i = 0; i < 20; ++i)
    waiting[i] = i;
  ls_record *record = place_in(bucketed(), 4);
  expect_ok(ls_record_set_bytes(stream_in(record), "waiting", waiting,
                                sizeof(waiting)));
  expect_none(bucketed(), record, LS_INVALID_ARGUMENT,
              "more elements wait in bucket 0 than a batch has");
  // Not in order.
  waiting[0] = 2;
  record = place_in(bucketed(), 4);
  expect_ok(ls_record_set_bytes(stream_in(record), "waiting", waiting,
                                2 * sizeof(*waiting)));
  expect_none(bucketed(), record, LS_INVALID_ARGUMENT, "is after 3");
}

// As a generator whose file was cut off.
TEST(a_source_with_less_than_it_had_ends) {
  static int64_t read[STREAM_MOST];
  for (int64_t left = 0; left < 30; left += 5) {
    stream_numbers shrunk = numbers;
    ls_dataset *dataset = shuffled(&shrunk);
    LS_OWN(ls_record, record) = place_in(ls_dataset_retain(dataset), 21);
    shrunk.count = left;
    LS_OWN(ls_iterator, iterator) = iterator_on(dataset, 0);
    expect_ok(ls_iterator_restore(iterator, record));
    assert_true(stream_read(iterator, read) <= 9);
  }
}

static bool never(void *user) {
  (void)user;
  return false;
}

// Though threads are further than what was read when the place is saved.
TEST(a_place_after_a_seek_is_where_it_was_saved) {
  static int64_t all[STREAM_MOST], read[STREAM_MOST];
  LS_OWN(ls_iterator, whole) = iterator_on(shuffled(&numbers), 0);
  assert_int_equal(stream_read(whole, all), 30);
  for (int64_t position = 0; position < 30; ++position) {
    LS_OWN(ls_iterator, sought) = iterator_on(shuffled(&numbers), 4);
    LS_OWN(ls_nest, element) = ls_none();
    expect_ok(ls_iterator_seek(sought, position));
    expect_ok(ls_iterator_next(sought, &element));
    assert_true(ls_iterator_wait(sought, never, NULL));
    LS_OWN(ls_record, record) = place_of(sought);
    LS_OWN(ls_iterator, again) = iterator_on(shuffled(&numbers), 0);
    expect_ok(ls_iterator_restore(again, record));
    const size_t left = (size_t)(30 - 1 - position);
    assert_int_equal(stream_read(again, read), left);
    assert_memory_equal(read, all + position + 1, left * sizeof(*read));
  }
}
