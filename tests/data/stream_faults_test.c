// SPDX-License-Identifier: Apache-2.0
//
// Streams without memory: a status, nothing lost, nothing that hangs; and where
// no status tells of it, the same elements.
#include <stdio.h>
#include <string.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "support/fault.h"
#include "support/stream_runs.h"

static const stream_numbers numbers = {.count = 20, .saves = true};
static const stream_numbers lengths = {
    .count = 20, .saves = true, .longest = 4};

static ls_nest negative(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  ls_nest out = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  int64_t *data = ls_nest_data(out, 0);
  if (data != NULL) *data = -stream_number(element);
  return out;
}

static ls_status is_odd(ls_nest element, const ls_map_call *call, void *user,
                        bool *out_keep) {
  (void)call, (void)user;
  *out_keep = stream_number(element) % 2 != 0;
  return ls_ok();
}

static ls_dataset *range_of(ls_nest element, const ls_map_call *call,
                            void *user) {
  (void)call, (void)user;
  return ls_dataset_range(0, stream_number(element) % 4, 1);
}

static ls_dataset *mapped(void) {
  return ls_dataset_batch(
      ls_dataset_prefetch(
          ls_dataset_map(stream_of(&numbers),
                         &(ls_map_options){
                             .call = negative,
                             .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
          3),
      &(ls_batch_options){.size = 3, .ids = true});
}

static ls_dataset *cut(void) {
  return ls_dataset_shard(
      ls_dataset_skip(ls_dataset_take(stream_of(&numbers), 18), 1), 2, 1);
}

static ls_dataset *shuffled(void) {
  return ls_dataset_repeat(
      ls_dataset_shuffle(stream_of(&numbers),
                         &(ls_shuffle_options){.buffer = 6}),
      2);
}

static ls_dataset *joined(void) {
  return ls_dataset_zip(
      LS_TUPLE(ls_nest_dataset(ls_dataset_concatenate(
                   stream_of(&numbers), ls_dataset_range(0, 5, 1))),
               ls_nest_dataset(ls_dataset_convert(
                   stream_of(&numbers), 0,
                   &(ls_convert_options){.dtype = LS_DTYPE_F32, .scale = 2}))));
}

static ls_dataset *kept(void) {
  return ls_dataset_filter(stream_of(&numbers),
                           &(ls_filter_options){.call = is_odd});
}

static ls_dataset *in_turn(void) {
  return ls_dataset_interleave(
      stream_of(&numbers),
      &(ls_flat_options){.call = range_of,
                         .cycle = 3,
                         .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}

static ls_dataset *drawn(void) {
  ls_dataset *const sets[] = {stream_of(&numbers), ls_dataset_range(0, 9, 1)};
  return ls_dataset_sample(sets, 2, NULL);
}

static ls_dataset *windows(void) {
  return ls_dataset_unbatch(
      ls_dataset_window(stream_of(&numbers),
                        &(ls_dataset_window_options){.size = 3, .shift = 2}));
}

static ls_dataset *buckets(void) {
  static const int64_t bounds[] = {2}, sizes[] = {3, 4};
  return ls_dataset_bucket(stream_of(&lengths),
                           &(ls_bucket_options){.boundaries = bounds,
                                                .num_boundaries = 1,
                                                .sizes = sizes,
                                                .ids = true});
}

// ---- One life --------------------------------------------------------------
typedef struct life {
  ls_dataset *(*make)(void);
  bool told;
  uint64_t sum;  // Of all elements, in order.
} life;

static ls_status read_some(ls_iterator *iterator, int most, uint64_t *sum) {
  LS_OWN(ls_nest, element) = ls_none();
  ls_status status = ls_ok();
  for (int i = 0; i < most && ls_status_is_ok(status); ++i) {
    status = ls_iterator_next(iterator, &element);
    if (ls_status_is_ok(status))
      *sum = *sum * 31 + (uint64_t)stream_number(element);
  }
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);
  return ls_ok();
}

// Some elements, a place, the rest from there by another iterator.
static ls_status read_in_two(ls_dataset *dataset, uint64_t *sum) {
  LS_OWN(ls_iterator, first) = NULL;
  LS_OWN(ls_iterator, second) = NULL;
  LS_OWN(ls_record, record) = NULL;
  LS_RETURN_IF_ERROR(ls_iterator_create(dataset, NULL, &first));
  LS_RETURN_IF_ERROR(read_some(first, 3, sum));
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  LS_RETURN_IF_ERROR(ls_iterator_save(first, record));
  LS_RETURN_IF_ERROR(ls_iterator_create(dataset, NULL, &second));
  LS_RETURN_IF_ERROR(ls_iterator_restore(second, record));
  return read_some(second, 1000, sum);
}

static ls_status live(void *user) {
  life *self = user;
  uint64_t sum = 0;
  ls_dataset *dataset = self->make();
  const ls_status status = read_in_two(dataset, &sum);
  ls_dataset_release(dataset);
  if (!ls_status_is_ok(status)) return status;
  if (self->told && sum != self->sum) fail_msg("other elements, and no status");
  self->sum = sum;
  self->told = true;
  return ls_ok();
}

static void expect_survived(ls_dataset *(*make)(void)) {
  life self = {.make = make};
  expect_ok(live(&self));  // What is right.
  REFUSE_EACH(live, &self);
}

TEST(maps_batches_and_prefetch_survive) { expect_survived(mapped); }
TEST(parts_survive) { expect_survived(cut); }
TEST(shuffles_survive) { expect_survived(shuffled); }
TEST(several_survive) { expect_survived(joined); }
TEST(filters_survive) { expect_survived(kept); }
TEST(data_sets_in_turn_survive) { expect_survived(in_turn); }
TEST(samples_survive) { expect_survived(drawn); }
TEST(windows_and_their_rows_survive) { expect_survived(windows); }
TEST(buckets_survive) { expect_survived(buckets); }

// ---- Reading on after a failure --------------------------------------------
enum { ALL = 48, BATCH = 16 };
static int num_made;  // Elements that keep_all has seen.

static ls_nest same(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return ls_nest_retain(element);
}

static ls_status keep_all(ls_nest element, const ls_map_call *call, void *user,
                          bool *out_keep) {
  (void)element, (void)call, (void)user;
  ++num_made;
  *out_keep = true;
  return ls_ok();
}

static int64_t length_one(ls_nest element, void *user) {
  (void)element, (void)user;
  return 1;
}

static ls_dataset *in_order(void) {
  return ls_dataset_filter(ls_dataset_range(0, ALL, 1),
                           &(ls_filter_options){.call = keep_all});
}

static ls_dataset *batches(void) {
  return ls_dataset_batch(in_order(), &(ls_batch_options){.size = BATCH});
}

static ls_dataset *batches_of_mapped(void) {
  return ls_dataset_batch(
      ls_dataset_map(
          in_order(),
          &(ls_map_options){.call = same,
                            .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      &(ls_batch_options){.size = BATCH});
}

static ls_dataset *rows_of_windows(void) {
  return ls_dataset_window(
      in_order(), &(ls_dataset_window_options){.size = BATCH, .shift = BATCH});
}

static ls_dataset *one_bucket(void) {
  static const int64_t sizes[] = {BATCH};
  return ls_dataset_bucket(
      in_order(), &(ls_bucket_options){.length = length_one, .sizes = sizes});
}

// Reads to the end, also after a failure, which costs an element or a batch of
// them. The other batches stay as they are; a bucket loses no element made.
static ls_status read_all(void *user) {
  ls_dataset *(*make)(void) = *(ls_dataset * (**)(void)) user;
  LS_OWN(ls_dataset, dataset) = make();
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_status, first) = ls_ok();
  int64_t count = 0;
  num_made = 0;
  LS_RETURN_IF_ERROR(ls_iterator_create(dataset, NULL, &iterator));
  for (;;) {
    const ls_status status = ls_iterator_next(iterator, &element);
    const ls_code code = ls_status_code(status);
    if (code == LS_OUT_OF_RANGE) ls_status_free(status);
    if (code == LS_OUT_OF_RANGE) break;
    first = ls_status_join(ls_give(&first), status);
    if (code != LS_OK) continue;
    const ls_array *array = ls_nest_as_array(element);
    const int64_t begin = ls_array_i64(array, 0);
    if (make != one_bucket && begin % BATCH != 0)
      fail_msg("a batch begins with %d", (int)begin);
    for (int64_t i = 1; i < ls_array_num_elements(array); ++i)
      assert_int_equal(ls_array_i64(array, i) > begin, 1);
    count += ls_array_num_elements(array);
  }
  const int64_t all = make == one_bucket ? num_made : ALL;
  assert_true(count == all ||
              (!ls_status_is_ok(first) && count == all - BATCH));
  return ls_give(&first);
}

static void expect_in_place(ls_dataset *(*make)(void)) {
  REFUSE_EACH(read_all, &make);
  refuse_each(&(fault_scenario){.name = "read_all",
                                .act = read_all,
                                .user = &make,
                                .options = {.input_threads = LS_SOME(1)}});
}

TEST(batches_after_a_failure_are_as_without_it) { expect_in_place(batches); }
TEST(batches_of_maps_after_a_failure_are_as_without_it) {
  expect_in_place(batches_of_mapped);
}
TEST(windows_after_a_failure_are_as_without_it) {
  expect_in_place(rows_of_windows);
}
TEST(a_bucket_after_a_failure_has_all_elements_made) {
  expect_in_place(one_bucket);
}

// ---- Records that nobody saved ---------------------------------------------
// Puts another number in place of the one that stands at `at`.
static void put_number(const char *text, size_t at, const char *number,
                       char *out, size_t room) {
  size_t end = at + 1;
  while (text[end] >= '0' && text[end] <= '9')
    ++end;
  const int size =
      snprintf(out, room, "%.*s%s%s", (int)at, text, number, text + end);
  assert_true(size > 0 && (size_t)size < room);
}

static bool is_number(const char *text, size_t at) {
  return at > 0 && text[at - 1] == ':' &&
         ((text[at] >= '0' && text[at] <= '9') || text[at] == '-');
}

// Goes there, if that is possible, and reads on: whatever comes.
static void go_there(ls_iterator *iterator, const char *text) {
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_record_from_text("t", text, strlen(text), &record));
  LS_OWN(ls_status, status) = ls_iterator_restore(iterator, record);
  for (int i = 0; i < 60 && ls_status_code(status) != LS_OUT_OF_RANGE; ++i) {
    ls_status_free(status);
    status = ls_iterator_next(iterator, &element);
  }
}

static void expect_records_survived(ls_dataset *(*make)(void), int ahead) {
  static const char *const others[] = {
      "-1",     "0", "1", "7", "-9223372036854775808", "9223372036854775807",
      "1000000"};
  static char other[16 << 10];
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_record, record) = NULL;
  uint64_t sum = 0;
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  LS_OWN(ls_dataset, dataset) = make();
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(ahead)}, &iterator));
  expect_ok(read_some(iterator, 4, &sum));
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(iterator, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  // Behind what says of which pipeline it is.
  const char *from = strstr(text, "\"seed\"");
  assert_non_null(from);
  for (size_t at = (size_t)(from - text); at < size; ++at) {
    if (!is_number(text, at)) continue;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
      put_number(text, at, others[i], other, sizeof(other));
      go_there(iterator, other);
    }
  }
}

static void expect_any_record_survived(ls_dataset *(*make)(void)) {
  expect_records_survived(make, 0);
  expect_records_survived(make, 3);
}

TEST(any_numbers_in_a_record_are_survived) {
  expect_any_record_survived(mapped);
  expect_any_record_survived(cut);
  expect_any_record_survived(shuffled);
  expect_any_record_survived(joined);
  expect_any_record_survived(kept);
  expect_any_record_survived(in_turn);
  expect_any_record_survived(drawn);
  expect_any_record_survived(windows);
  expect_any_record_survived(buckets);
}
