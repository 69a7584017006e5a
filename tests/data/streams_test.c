// SPDX-License-Identifier: Apache-2.0
//
// Streams: what is read from the start to the end gives the same with any
// threads and from any saved place.
#include <string.h>
#include <time.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "state/own.h"
#include "support/counted.h"
#include "support/stream_runs.h"

static const stream_numbers hundred = {.count = 100, .saves = true};
static const stream_numbers again = {.count = 100};
static const stream_numbers refusing = {
    .count = 100, .saves = true, .fails_every = 7};
static const stream_numbers few = {.count = 7, .saves = true};
static const stream_numbers none = {.count = 0};
static const stream_numbers lengths = {
    .count = 50, .saves = true, .longest = 5};
static const stream_numbers *const all[] = {&hundred, &again, &refusing, &few,
                                            &none};
enum { ALL = sizeof(all) / sizeof(all[0]) };

static ls_dataset *source(void *user) { return stream_of(user); }

// Calls `check(make, source)` for each source.
static void for_all(stream_maker make) {
  for (size_t i = 0; i < ALL; ++i)
    expect_stream_alike(make, (void *)(uintptr_t)all[i]);
}
#define OF(numbers) ((void *)(uintptr_t) & (numbers))

// ---- Generators ------------------------------------------------------------
TEST(a_generator_is_read_to_its_end) {
  EXPECT_STREAM(source, OF(few), 0, 1, 2, 3, 4, 5, 6);
  expect_stream(source, OF(none), NULL, 0);
  for_all(source);
  LS_OWN(ls_dataset, dataset) = stream_of(&few);
  assert_false(ls_dataset_is_indexed(dataset));
  assert_int_equal(ls_dataset_cardinality(dataset), LS_UNKNOWN_SIZE);
  char text[200];
  assert_string_equal(ls_dataset_print(dataset, text, sizeof(text)),
                      "generator(numbers)");
}

static int released;
static void count_release(void *user) {
  (void)user;
  ++released;
}

static ls_status never(void *user, int64_t epoch, void **out_state) {
  (void)user, (void)epoch;
  *out_state = NULL;
  return LS_STATUS(LS_UNAVAILABLE, "the tap is closed");
}

static ls_status wrong(void *state, ls_nest *out_element) {
  (void)state;
  *out_element = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2));
  return ls_ok();
}

static ls_status open_nothing(void *user, int64_t epoch, void **out_state) {
  (void)epoch;
  *out_state = user;
  return ls_ok();
}

static void expect_failed(ls_dataset *dataset, const char *message) {
  ls_iterator *iterator = NULL;
  assert_non_null(dataset);
  expect_status(ls_iterator_create(dataset, NULL, &iterator),
                LS_INVALID_ARGUMENT, message);
  assert_null(iterator);
  ls_dataset_release(dataset);
}

TEST(generators_that_cannot_be_are_refused) {
  ls_generator_options options = {.next = wrong, .release = count_release};
  released = 0;
  expect_failed(ls_dataset_from_generator(&options), "needs `open` and `next`");
  options.open = open_nothing;
  expect_failed(ls_dataset_from_generator(&options), "no ls_nest_spec");
  options.element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3));
  options.size = LS_SOME(-5);
  expect_failed(ls_dataset_from_generator(&options), "cannot have -5 elements");
  options.element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3));
  options.size = (ls_opt){0};
  options.save = (ls_status(*)(void *, ls_record *))(void *)wrong;
  expect_failed(ls_dataset_from_generator(&options),
                "has one of `save` and `restore`");
  expect_failed(ls_dataset_from_generator(NULL), "options is NULL");
  assert_int_equal(released, 4);
  // One that gives something else, and one that never opens.
  options = (ls_generator_options){.name = "odd",
                                   .open = open_nothing,
                                   .next = wrong,
                                   .element =
                                       ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3))};
  LS_OWN(ls_iterator, iterator) = NULL;
  ls_nest element = ls_none();
  LS_OWN(ls_dataset, dataset) = ls_dataset_from_generator(&options);
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  ls_status status = ls_iterator_next(iterator, &element);
  expect_contains(ls_status_message(status), "element 0 of generator 'odd'");
  expect_status(status, LS_INVALID_ARGUMENT, "f32[2]");
  ls_iterator_release(iterator);
  ls_dataset_release(dataset);
  options.open = never;
  options.element = ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(3));
  dataset = ls_dataset_from_generator(&options);
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_status(ls_iterator_next(iterator, &element), LS_UNAVAILABLE, "tap");
  expect_status(ls_iterator_next(iterator, &element), LS_UNAVAILABLE, "tap");
}

// ---- Parts -----------------------------------------------------------------
static ls_dataset *taken(void *user) {
  return ls_dataset_take(stream_of(user), 10);
}
static ls_dataset *skipped(void *user) {
  return ls_dataset_skip(stream_of(user), 4);
}
static ls_dataset *sharded(void *user) {
  return ls_dataset_shard(stream_of(user), 3, 1);
}
static ls_dataset *all_taken(void *user) {
  return ls_dataset_take(stream_of(user), -1);
}
static ls_dataset *all_skipped(void *user) {
  return ls_dataset_skip(stream_of(user), -1);
}
static ls_dataset *parts(void *user) {
  return ls_dataset_take(
      ls_dataset_shard(ls_dataset_skip(ls_dataset_take(stream_of(user), 90), 5),
                       4, 2),
      11);
}

TEST(parts_of_streams_are_those_of_indexed_ones) {
  EXPECT_STREAM(taken, OF(hundred), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  EXPECT_STREAM(taken, OF(few), 0, 1, 2, 3, 4, 5, 6);
  EXPECT_STREAM(taken, OF(refusing), 0, 1, 2, STREAM_FAILED, 4, 5, 6, 7, 8, 9);
  EXPECT_STREAM(skipped, OF(few), 4, 5, 6);
  EXPECT_STREAM(sharded, OF(few), 1, 4);
  EXPECT_STREAM(all_taken, OF(few), 0, 1, 2, 3, 4, 5, 6);
  expect_stream(all_skipped, OF(few), NULL, 0);
  EXPECT_STREAM(parts, OF(hundred), 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47);
  static const stream_maker makers[] = {taken,     skipped,     sharded,
                                        all_taken, all_skipped, parts};
  for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); ++i)
    for_all(makers[i]);
}

static ls_dataset *repeated(void *user) {
  return ls_dataset_repeat(stream_of(user), 3);
}
static ls_dataset *for_ever(void *user) {
  return ls_dataset_take(ls_dataset_repeat(stream_of(user), -1), 20);
}

TEST(a_time_of_a_repeat_is_an_epoch_of_its_input) {
  enum { E = 100000 };
  EXPECT_STREAM(repeated, OF(few), 0, 1, 2, 3, 4, 5, 6, E, E + 1, E + 2, E + 3,
                E + 4, E + 5, E + 6, 2 * E, 2 * E + 1, 2 * E + 2, 2 * E + 3,
                2 * E + 4, 2 * E + 5, 2 * E + 6);
  expect_stream(for_ever, OF(none), NULL, 0);
  for_all(repeated);
  for_all(for_ever);
}

enum { EPOCH = 100000 };
static ls_status is_later(ls_nest element, const ls_map_call *call, void *user,
                          bool *out_keep) {
  (void)call, (void)user;
  *out_keep = ls_array_i64(ls_nest_as_array(element), 0) >= EPOCH;
  return ls_ok();
}

static ls_dataset *later(void *user) {
  return ls_dataset_repeat(
      ls_dataset_filter(stream_of(user),
                        &(ls_filter_options){.call = is_later}),
      2);
}

TEST(a_repetition_without_elements_is_not_the_end_of_a_repeat) {
  EXPECT_STREAM(later, OF(few), EPOCH, EPOCH + 1, EPOCH + 2, EPOCH + 3,
                EPOCH + 4, EPOCH + 5, EPOCH + 6);
  expect_stream(later, OF(none), NULL, 0);
  expect_stream_alike(later, OF(few));
}

static ls_status is_of_epoch(ls_nest element, const ls_map_call *call,
                             void *user, bool *out_keep) {
  (void)call;
  const int64_t epoch = *(const int *)user;
  *out_keep = ls_array_i64(ls_nest_as_array(element), 0) >= epoch * EPOCH;
  return ls_ok();
}

// Repeats numbers, but drops those of epochs before this one.
static ls_dataset *late(void *epoch) {
  static const stream_numbers two = {.count = 2, .saves = true};
  return ls_dataset_repeat(
      ls_dataset_filter(
          stream_of(OF(two)),
          &(ls_filter_options){.call = is_of_epoch, .user = epoch}),
      INT64_MAX);
}
static ls_dataset *late_pair(void *epoch) {
  return ls_dataset_take(late(epoch), 2);
}
static ls_dataset *most_often(void *user) {
  return ls_dataset_repeat(stream_of(user), INT64_MAX);
}

TEST(a_thousand_repetitions_without_elements_end_a_repeat) {
  int epoch = 999;
  EXPECT_STREAM(late_pair, &epoch, 999 * EPOCH, 999 * EPOCH + 1);
  epoch = 1000;
  expect_stream(late, &epoch, NULL, 0);
  expect_stream(most_often, OF(none), NULL, 0);
}

TEST(a_shard_may_be_sought_beyond_the_end_by_any_number) {
  static const int64_t places[] = {3, INT64_MAX / 3, INT64_MAX / 2, INT64_MAX};
  for (size_t i = 0; i < LS_COUNT_OF(places); ++i) {
    LS_OWN(ls_dataset, dataset) = sharded(OF(few));
    LS_OWN(ls_iterator, iterator) = NULL;
    LS_OWN(ls_nest, element) = ls_none();
    expect_ok(ls_iterator_create(dataset, NULL, &iterator));
    expect_ok(ls_iterator_seek(iterator, places[i]));
    expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  }
}

TEST(a_place_beyond_all_that_can_be_counted_is_saved) {
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_skip(ls_dataset_take(stream_of(OF(few)), -1), INT64_MAX);
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_ok(ls_iterator_seek(iterator, 3));
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(iterator, record));
  expect_ok(ls_iterator_restore(iterator, record));
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
}

// A place in a pipeline of as many data sets as there may be is saved, restored
// and written to a file.
static ls_dataset *long_chain(void *user) {
  ls_dataset *chain = stream_of(user);
  for (int i = 0; i < 990; ++i)
    chain = ls_dataset_take(chain, 90);
  return chain;
}

TEST(a_place_in_a_long_pipeline_is_saved) {
  LS_OWN(ls_dataset, dataset) = long_chain(OF(hundred));
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_iterator, other) = NULL;
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(ls_record, read) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  char *text = NULL;
  size_t size = 0;
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  for (int i = 0; i < 40; ++i)
    expect_ok(ls_iterator_next(iterator, &element));
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(iterator, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  expect_ok(ls_record_from_text("place", text, size, &read));
  ls_text_release(text);
  expect_ok(ls_iterator_create(dataset, NULL, &other));
  expect_ok(ls_iterator_restore(other, read));
  expect_ok(ls_iterator_next(other, &element));
  assert_int_equal(stream_number(element), 40);
}

// ---- Several ---------------------------------------------------------------
static ls_dataset *behind(void *user) {
  return ls_dataset_concatenate(
      ls_dataset_take(stream_of(user), 5),
      ls_dataset_concatenate(ls_dataset_range(1000, 1003, 1),
                             ls_dataset_take(stream_of(user), 2)));
}
static ls_dataset *beside(void *user) {
  return ls_dataset_zip(
      LS_TUPLE(ls_nest_dataset(stream_of(user)),
               ls_nest_dataset(ls_dataset_take(ls_dataset_range(0, 60, 1), 50)),
               ls_nest_dataset(ls_dataset_skip(stream_of(user), 2))));
}

TEST(streams_stand_behind_and_beside_each_other) {
  EXPECT_STREAM(behind, OF(hundred), 0, 1, 2, 3, 4, 1000, 1001, 1002, 0, 1);
  for_all(behind);
  for_all(beside);
  LS_OWN(ls_dataset, dataset) = beside(OF(few));
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  for (int64_t i = 0; i < 5; ++i) {
    expect_ok(ls_iterator_next(iterator, &element));
    assert_int_equal(stream_number(ls_nest_item(element, 0)), i);
    assert_int_equal(stream_number(ls_nest_item(element, 1)), i);
    assert_int_equal(stream_number(ls_nest_item(element, 2)), i + 2);
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
}

// ---- Map -------------------------------------------------------------------
static void doze(uint64_t key) {
  const struct timespec some = {.tv_nsec = (long)(key % 300) * 1000};
  if (key % 16 == 0) nanosleep(&some, NULL);
}

// Takes its time; what comes out depends on the call's key, too.
static ls_nest slow_sum(ls_nest element, const ls_map_call *call, void *user) {
  (void)user;
  doze(call->key);
  const int64_t number = stream_number(element);
  if (number % 13 == 5) return LS_FAIL(LS_INVALID_ARGUMENT, "refused by map");
  if (number % 13 == 6) return LS_FAIL(LS_OUT_OF_RANGE, "refused, no end");
  ls_nest sum = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  int64_t *data = ls_nest_data(sum, 0);
  if (data != NULL)
    *data = number + (int64_t)(call->key >> 40) + call->id * 7 + call->epoch;
  return sum;
}

static ls_status twice(ls_nest element, ls_nest out, const ls_map_call *call,
                       void *user) {
  (void)user;
  doze(call->key);
  *(int64_t *)ls_nest_data(out, 0) = 2 * stream_number(element);
  return ls_ok();
}

static ls_dataset *mapped(void *user) {
  return ls_dataset_map(
      stream_of(user),
      &(ls_map_options){.call = slow_sum,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}
static ls_dataset *doubled(void *user) {
  return ls_dataset_map(
      stream_of(user),
      &(ls_map_options){.fill = twice,
                        .name = "twice",
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}
static ls_dataset *mapped_parts(void *user) {
  return ls_dataset_shard(ls_dataset_skip(doubled(user), 3), 2, 1);
}
static ls_dataset *converted(void *user) {
  return ls_dataset_convert(
      ls_dataset_convert(
          stream_of(user), 0,
          &(ls_convert_options){.dtype = LS_DTYPE_F64, .scale = 0.5}),
      0, &(ls_convert_options){.dtype = LS_DTYPE_I64});
}

TEST(maps_give_in_order_what_threads_make_in_any) {
  EXPECT_STREAM(doubled, OF(few), 0, 2, 4, 6, 8, 10, 12);
  EXPECT_STREAM(mapped_parts, OF(few), 8, 12);
  EXPECT_STREAM(converted, OF(few), 0, 0, 1, 1, 2, 2, 3);
  for_all(mapped);
  for_all(doubled);
  for_all(mapped_parts);
  for_all(converted);
}

TEST(a_stream_of_a_known_size_is_sought_within_it) {
  static const stream_numbers seven = {.count = 7, .is_sized = true};
  LS_OWN(ls_dataset, dataset) = doubled(OF(seven));
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_status(ls_iterator_seek(iterator, 8), LS_INVALID_ARGUMENT,
                "no position 8: there are 7");
  assert_int_equal(ls_iterator_position(iterator), 0);
  expect_ok(ls_iterator_seek(iterator, 7));
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
}

// A code that a lack of memory has, too.
TEST(elements_that_a_quota_refuses_are_passed_over) {
  static const stream_numbers quotas[] = {
      {.count = 30, .fails_every = 7, .lacks_quota = true, .saves = true},
      {.count = 30, .fails_every = 7, .lacks_quota = true}};
  for (size_t i = 0; i < LS_COUNT_OF(quotas); ++i) {
    expect_stream_alike(source, OF(quotas[i]));
    expect_stream_alike(skipped, OF(quotas[i]));
    expect_stream_alike(mapped_parts, OF(quotas[i]));
  }
}

TEST(a_map_that_fails_is_named_and_goes_on) {
  LS_OWN(counted, memory) =
      counted_begin_with((ls_runtime_options){.input_threads = LS_SOME(3)});
  LS_OWN(ls_dataset, dataset) = mapped(OF(hundred));
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  for (int i = 0; i < 5; ++i)
    expect_ok(ls_iterator_next(iterator, &element));
  ls_status status = ls_iterator_next(iterator, &element);
  expect_contains(ls_status_message(status), "refused by map");
  expect_status(status, LS_INVALID_ARGUMENT, "map 'map' of element 5");
  // The end is not for a function to say.
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "refused, no end");
  expect_ok(ls_iterator_next(iterator, &element));
}

// ---- Batches ---------------------------------------------------------------
static ls_dataset *batched(void *user) {
  return ls_dataset_batch(stream_of(user),
                          &(ls_batch_options){.size = 8, .ids = true});
}
static ls_dataset *dropped(void *user) {
  return ls_dataset_batch(
      stream_of(user),
      &(ls_batch_options){.size = 8, .remainder = LS_REMAINDER_DROP});
}
static ls_dataset *filled(void *user) {
  return ls_dataset_batch(doubled(user),
                          &(ls_batch_options){.size = 8,
                                              .remainder = LS_REMAINDER_PAD,
                                              .ids = true});
}
static ls_dataset *padded(void *user) {
  return ls_dataset_batch(
      stream_of(user),
      &(ls_batch_options){.size = 4,
                          .padded_shapes = (ls_shape[]){LS_SHAPE(-1)},
                          .num_padded_shapes = 1,
                          .padding = (double[]){-1}});
}

static ls_dataset *failing_range(void *user) {
  const stream_numbers *numbers = user;
  return ls_dataset_batch(
      ls_dataset_map(
          ls_dataset_range(0, numbers->count, 1),
          &(ls_map_options){.call = slow_sum,
                            .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      &(ls_batch_options){.size = 4, .remainder = LS_REMAINDER_DROP});
}
static ls_dataset *failing_stream(void *user) {
  return ls_dataset_batch(
      mapped(user),
      &(ls_batch_options){.size = 4, .remainder = LS_REMAINDER_DROP});
}

// Numbers 5 and 6 fail.
TEST(a_batch_that_is_dropped_does_not_fail) {
  static const stream_numbers seven = {.count = 7, .saves = true};
  static int64_t numbers[2][STREAM_MOST];
  static const stream_maker makers[] = {failing_range, failing_stream};
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_dataset, dataset) = makers[i](OF(seven));
    LS_OWN(ls_iterator, iterator) = NULL;
    expect_ok(ls_iterator_create(dataset, NULL, &iterator));
    assert_int_equal(stream_read(iterator, numbers[i]), 1);
  }
  assert_int_equal(numbers[0][0], numbers[1][0]);
}

static void expect_batches(stream_maker make, const stream_numbers *numbers,
                           const int64_t *rows, int leaf) {
  LS_OWN(ls_dataset, dataset) = make((void *)(uintptr_t)numbers);
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  for (; *rows > 0; ++rows) {
    expect_ok(ls_iterator_next(iterator, &element));
    const ls_nest item =
        leaf < 0 ? element : ls_nest_item(element, (size_t)leaf);
    assert_int_equal(ls_array_shape(ls_nest_as_array(item)).dim[0], *rows);
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
}

TEST(streams_are_batched_as_indexed_ones) {
  static const stream_numbers twenty = {.count = 20, .saves = true};
  expect_batches(batched, &twenty, (int64_t[]){8, 8, 4, 0}, 0);
  expect_batches(dropped, &twenty, (int64_t[]){8, 8, 0}, -1);
  expect_batches(filled, &twenty, (int64_t[]){8, 8, 8, 0}, 2);
  for_all(batched);
  for_all(dropped);
  for_all(filled);
  expect_stream_alike(padded, OF(lengths));
  // The same batches as of an indexed data set.
  for (int64_t size = 1; size < 30; size += 7) {
    LS_OWN(ls_iterator, a) = NULL;
    LS_OWN(ls_iterator, b) = NULL;
    LS_OWN(ls_nest, x) = ls_none();
    LS_OWN(ls_nest, y) = ls_none();
    const ls_batch_options options = {.size = size, .ids = true};
    LS_OWN(ls_dataset, stream) =
        ls_dataset_batch(stream_of(&hundred), &options);
    LS_OWN(ls_dataset, range) =
        ls_dataset_batch(ls_dataset_range(0, 100, 1), &options);
    expect_ok(ls_iterator_create(stream, NULL, &a));
    expect_ok(ls_iterator_create(range, NULL, &b));
    for (int64_t i = 0; i * size < 100; ++i) {
      expect_ok(ls_iterator_next(a, &x));
      expect_ok(ls_iterator_next(b, &y));
      assert_int_equal(stream_number(x), stream_number(y));
    }
    expect_status(ls_iterator_next(a, &x), LS_OUT_OF_RANGE, "");
  }
}

// ---- Chains ----------------------------------------------------------------
static ls_dataset *ahead(void *user) {
  return ls_dataset_prefetch(
      ls_dataset_take(ls_dataset_prefetch(doubled(user), 5), 70), 2);
}
static ls_dataset *chain(void *user) {
  return ls_dataset_batch(
      ls_dataset_prefetch(
          ls_dataset_map(
              ls_dataset_shuffle(
                  ls_dataset_repeat(ls_dataset_prefetch(doubled(user), 3), 2),
                  &(ls_shuffle_options){.seed = 3, .buffer = 11}),
              &(ls_map_options){.call = slow_sum,
                                .result =
                                    ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
          4),
      &(ls_batch_options){.size = 3, .ids = true});
}

TEST(chains_of_stages_give_the_same_in_every_way) {
  for_all(ahead);
  for_all(chain);
}
