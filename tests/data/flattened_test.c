// SPDX-License-Identifier: Apache-2.0
//
// Filters, data sets that elements become, choices among data sets.
#include <math.h>
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
static const stream_numbers *const all[] = {&hundred, &again, &refusing, &few,
                                            &none};

static void for_all(stream_maker make) {
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i)
    expect_stream_alike(make, (void *)(uintptr_t)all[i]);
}
#define OF(numbers) ((void *)(uintptr_t) & (numbers))

// ---- Filter ----------------------------------------------------------------
static ls_status is_odd(ls_nest element, const ls_map_call *call, void *user,
                        bool *out_keep) {
  (void)user;
  const int64_t number = stream_number(element);
  if (number % 10 == 8) return ls_invalid_argument("8 is refused");
  if (number % 10 == 6) return ls_out_of_range("6 is refused");
  if (number % 100000 != call->id || number / 100000 != call->epoch)
    return ls_internal("%lld is not %lld", (long long)number,
                       (long long)call->id);
  *out_keep = number % 2 == 1;
  return ls_ok();
}

static ls_dataset *odd(void *user) {
  return ls_dataset_filter(stream_of(user),
                           &(ls_filter_options){.call = is_odd});
}
// By chance: each call has bits of its own.
static ls_status by_key(ls_nest element, const ls_map_call *call, void *user,
                        bool *out_keep) {
  (void)element, (void)user;
  *out_keep = call->key % 2 == 0;
  return ls_ok();
}
static ls_dataset *some(void *user) {
  return ls_dataset_batch(
      ls_dataset_filter(
          ls_dataset_map(ls_dataset_filter(
                             stream_of(user),
                             &(ls_filter_options){.call = by_key, .stream = 1}),
                         &(ls_map_options){
                             .fill = NULL,
                             .call = NULL,
                         }),
          &(ls_filter_options){.call = by_key, .stream = 2}),
      &(ls_batch_options){.size = 3, .ids = true});
}
static ls_dataset *half(void *user) {
  return ls_dataset_batch(
      ls_dataset_filter(
          ls_dataset_filter(stream_of(user),
                            &(ls_filter_options){.call = by_key, .stream = 1}),
          &(ls_filter_options){.call = by_key, .stream = 2}),
      &(ls_batch_options){.size = 3, .ids = true});
}

TEST(a_filter_keeps_what_its_function_says) {
  EXPECT_STREAM(odd, OF(few), 1, 3, 5, STREAM_FAILED);
  for_all(odd);
  for_all(half);
  LS_OWN(ls_dataset, dataset) = odd(OF(hundred));
  assert_int_equal(ls_dataset_cardinality(dataset), LS_UNKNOWN_SIZE);
  ls_dataset_release(dataset);
  // A failure of a maker on the way is the whole pipeline's.
  dataset = some(OF(hundred));
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "needs one of `call` and `fill`");
  ls_dataset_release(dataset);
  dataset = ls_dataset_filter(stream_of(&few), &(ls_filter_options){0});
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "filter needs a function");
}

static ls_status get_but_3(void *user, int64_t index, ls_nest out) {
  (void)user;
  if (index == 3) return ls_out_of_range("3 is refused");
  *(int64_t *)ls_nest_data(out, 0) = index;
  return ls_ok();
}
static ls_status keep_all(ls_nest element, const ls_map_call *call, void *user,
                          bool *out_keep) {
  (void)element, (void)call, (void)user;
  *out_keep = true;
  return ls_ok();
}
static ls_dataset *kept_of_function(void *user) {
  (void)user;
  return ls_dataset_filter(
      ls_dataset_from_function(&(ls_index_options){
          .size = 6,
          .get = get_but_3,
          .element = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      &(ls_filter_options){.call = keep_all});
}

TEST(the_end_is_not_for_the_function_of_an_indexed_source_to_say) {
  EXPECT_STREAM(kept_of_function, NULL, 0, 1, 2, STREAM_FAILED, 4, 5);
}

// ---- Flat map --------------------------------------------------------------
// Of number n a range of n % 4 numbers, or a stream, or a failure.
static ls_dataset *some_of(ls_nest element, const ls_map_call *call,
                           void *user) {
  (void)call, (void)user;
  const int64_t number = stream_number(element);
  if (number % 20 == 11)
    return ls_dataset_take(
        ls_dataset_shuffle(stream_of(&few), &(ls_shuffle_options){.buffer = 3}),
        5);
  if (number % 20 == 13) return ls_dataset_range(0, 1, 0);  // No such step.
  return ls_dataset_range(1000 * number, 1000 * number + number % 4, 1);
}

static ls_dataset *flat(void *user) {
  return ls_dataset_flat_map(
      stream_of(user),
      &(ls_flat_options){.call = some_of,
                         .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}

static int64_t cycle = 3, block = 2;
static ls_dataset *interleaved(void *user) {
  return ls_dataset_interleave(
      stream_of(user),
      &(ls_flat_options){.call = some_of,
                         .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                         .cycle = cycle,
                         .block = block});
}

TEST(elements_become_data_sets_one_after_another) {
  EXPECT_STREAM(flat, OF(few), 1000, 2000, 2001, 3000, 3001, 3002, 5000, 6000,
                6001);
  expect_stream(flat, OF(none), NULL, 0);
}

TEST(data_sets_of_elements_are_read_in_turn) {
  cycle = 3, block = 1;
  // Slots: 0 (empty), 1, 2; then 3 in the place of 0.
  EXPECT_STREAM(interleaved, OF(few), 1000, 2000, 3000, 2001, 3001, 3002, 5000,
                6000, 6001);
  cycle = 1, block = 1;
  EXPECT_STREAM(interleaved, OF(few), 1000, 2000, 2001, 3000, 3001, 3002, 5000,
                6000, 6001);
  cycle = 2, block = 5;
  EXPECT_STREAM(interleaved, OF(few), 1000, 2000, 2001, 3000, 3001, 3002, 5000,
                6000, 6001);
}

static ls_dataset *failing(ls_nest element, const ls_map_call *call,
                           void *user) {
  return some_of(element, call, user);
}

// The failure of an inner data set's maker is told as that of a generator's
// element is.
static ls_dataset *without_failures(ls_nest element, const ls_map_call *call,
                                    void *user) {
  if (stream_number(element) % 20 == 13)
    return ls_dataset_take(stream_of(&refusing), 5);
  return failing(element, call, user);
}
static ls_dataset *whole(void *user) {
  return ls_dataset_interleave(
      stream_of(user),
      &(ls_flat_options){.call = without_failures,
                         .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                         .cycle = cycle,
                         .block = block});
}
static ls_dataset *whole_flat(void *user) {
  return ls_dataset_batch(
      ls_dataset_flat_map(
          stream_of(user),
          &(ls_flat_options){.call = without_failures,
                             .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      &(ls_batch_options){.size = 4, .ids = true});
}

TEST(from_any_place_the_rest_is_the_same) {
  static const int64_t ways[][2] = {{1, 1}, {3, 1}, {8, 3}, {40, 2}};
  for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); ++i) {
    cycle = ways[i][0];
    block = ways[i][1];
    for_all(whole);
  }
  for_all(whole_flat);
}

TEST(data_sets_that_cannot_be_are_that_elements_failure) {
  ls_iterator *iterator = NULL;
  ls_nest element = ls_none();
  LS_OWN(ls_dataset, dataset) = flat(OF(hundred));
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  ls_status status = ls_ok();
  while (ls_status_is_ok(status))
    status = ls_iterator_next(iterator, &element);
  expect_contains(ls_status_message(status), "step");
  expect_status(status, LS_INVALID_ARGUMENT,
                "flat_map 'flat_map' of element 13");
  expect_ok(ls_iterator_next(iterator, &element));
  assert_int_equal(stream_number(element), 14000);
  ls_nest_release(element);
  ls_iterator_release(iterator);
  ls_dataset_release(dataset);
  // What gives elements of another kind than said.
  dataset = ls_dataset_flat_map(
      stream_of(&few),
      &(ls_flat_options){.call = some_of,
                         .result = ls_nest_spec(LS_DTYPE_F32, LS_SCALAR)});
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  element = ls_none();
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "f32");
  ls_nest_release(element);
  ls_iterator_release(iterator);
  ls_dataset_release(dataset);
  dataset = ls_dataset_flat_map(
      stream_of(&few),
      &(ls_flat_options){.call = some_of,
                         .cycle = 2,
                         .result = ls_nest_spec(LS_DTYPE_F32, LS_SCALAR)});
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT, "`cycle`");
  ls_dataset_release(dataset);
  dataset = ls_dataset_interleave(stream_of(&few),
                                  &(ls_flat_options){.call = some_of});
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT, "`result`");
}

// ---- Sample ----------------------------------------------------------------
static const double *weights;
static ls_flag stop_at_first;
static ls_dataset *sampled(void *user) {
  ls_dataset *const sets[] = {stream_of(user), ls_dataset_range(500, 560, 1),
                              ls_dataset_take(stream_of(user), 20)};
  return ls_dataset_sample(
      sets, 3,
      &(ls_sample_options){
          .weights = weights, .seed = 5, .stop_at_first = stop_at_first});
}

static size_t read_all(ls_dataset *dataset, int64_t *numbers) {
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  const size_t count = stream_read(iterator, numbers);
  ls_dataset_release(dataset);
  return count;
}

TEST(data_sets_are_drawn_by_their_weights) {
  static const double skewed[] = {8, 1, 0.5}, one[] = {0, 1, 0};
  int64_t numbers[STREAM_MOST];
  for (int i = 0; i < 4; ++i) {
    weights = i % 2 == 0 ? NULL : skewed;
    stop_at_first = i < 2 ? LS_FLAG_DEFAULT : LS_FLAG_ON;
    for_all(sampled);
  }
  // All of each, in its order, if none stops the rest.
  weights = skewed, stop_at_first = LS_FLAG_DEFAULT;
  assert_int_equal(read_all(sampled(OF(hundred)), numbers), 180);
  int64_t next = 0, ranged = 500;
  size_t early = 0;
  for (size_t i = 0; i < 180; ++i) {
    if (numbers[i] >= 500)
      assert_int_equal(numbers[i], ranged++);
    else if (numbers[i] == next)
      ++next;
    else
      assert_in_range(numbers[i], 0, 19);
    early += i < 50 && numbers[i] < 100;
  }
  assert_true(early > 35);
  stop_at_first = LS_FLAG_ON;
  assert_true(read_all(sampled(OF(hundred)), numbers) < 180);
  weights = one, stop_at_first = LS_FLAG_DEFAULT;
  assert_int_equal(read_all(sampled(OF(hundred)), numbers), 60);
  // Sizes as far as they are known.
  weights = NULL;
  ls_dataset *const ranges[] = {ls_dataset_range(0, 5, 1),
                                ls_dataset_range(0, 6, 1)};
  LS_OWN(ls_dataset, dataset) = ls_dataset_sample(ranges, 2, NULL);
  assert_int_equal(ls_dataset_cardinality(dataset), 11);
}

TEST(samples_that_cannot_be_are_refused) {
  static const struct {
    double weights[3];
    const char *message;
  } cases[] = {{{1, -1, 1}, "weight 1 of a sample is -1"},
               {{1, 1, (double)NAN}, "weight 2 of a sample is"},
               {{0, 0, 0}, "all weights of a sample are 0"}};
  stop_at_first = LS_FLAG_DEFAULT;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
    weights = cases[i].weights;
    LS_OWN(ls_dataset, dataset) = sampled(OF(hundred));
    expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                  cases[i].message);
  }
  ls_dataset *dataset = ls_dataset_sample(NULL, 0, NULL);
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT, "no data set");
  ls_dataset_release(dataset);
  static const stream_numbers vectors = {.count = 4, .longest = 3};
  ls_dataset *const sets[] = {stream_of(&few), stream_of(&vectors)};
  dataset = ls_dataset_sample(sets, 2, NULL);
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "leaf 0 is i64[] in the first and i64[?] in another");
  ls_dataset_release(dataset);
}

TEST(makers_refuse_null) {
  ls_dataset *const sets[] = {
      ls_dataset_filter(stream_of(&few), NULL),
      ls_dataset_flat_map(stream_of(&few), NULL),
      ls_dataset_interleave(stream_of(&few), NULL),
  };
  static const char *const messages[] = {
      "ls_dataset_filter: options is NULL",
      "ls_dataset_flat_map: options is NULL",
      "ls_dataset_interleave: options is NULL"};
  for (size_t i = 0; i < 3; ++i) {
    expect_status(ls_dataset_status(sets[i]), LS_INVALID_ARGUMENT, messages[i]);
    ls_dataset_release(sets[i]);
  }
}

// ---- Without an end --------------------------------------------------------
static ls_dataset *give_itself(ls_nest element, const ls_map_call *call,
                               void *user) {
  (void)element, (void)call;
  return ls_dataset_retain(*(ls_dataset **)user);
}

TEST(a_data_set_that_is_made_of_itself_is_refused) {
  for (int kind = 0; kind < 2; ++kind) {
    LS_OWN(ls_dataset, data) = NULL;
    ls_nest element = ls_none();
    LS_OWN(ls_iterator, iterator) = NULL;
    const ls_flat_options options = {.call = give_itself,
                                     .user = &data,
                                     .result =
                                         ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)};
    data = (kind == 0 ? ls_dataset_flat_map : ls_dataset_interleave)(
        ls_dataset_range(0, 3, 1), &options);
    expect_ok(ls_iterator_create(data, NULL, &iterator));
    expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                  "does it return its own data set?");
  }
}

static ls_nest ask_itself(ls_nest element, const ls_map_call *call,
                          void *user) {
  ls_iterator *iterator = *(ls_iterator **)user;
  ls_record *record = NULL;
  LS_OWN(ls_nest, other) = ls_none();
  (void)element, (void)call;
  expect_ok(ls_record_create(&record));
  expect_status(ls_iterator_seek(iterator, 0), LS_FAILED_PRECONDITION,
                "own data set");
  expect_status(ls_iterator_restart(iterator), LS_FAILED_PRECONDITION,
                "own data set");
  expect_status(ls_iterator_save(iterator, record), LS_FAILED_PRECONDITION,
                "own data set");
  expect_status(ls_iterator_restore(iterator, record), LS_FAILED_PRECONDITION,
                "own data set");
  ls_record_destroy(record);
  const ls_status status = ls_iterator_next(iterator, &other);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

TEST(a_data_set_cannot_ask_its_own_iterator) {
  for (int ahead = 0; ahead <= 4; ahead += 2) {
    LS_OWN(ls_iterator, iterator) = NULL;
    ls_nest element = ls_none();
    LS_OWN(ls_dataset, data) = ls_dataset_map(
        ls_dataset_range(0, 3, 1),
        &(ls_map_options){.call = ask_itself,
                          .user = &iterator,
                          .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
    expect_ok(ls_iterator_create(
        data, &(ls_iterator_options){.prefetch = LS_SOME(ahead)}, &iterator));
    expect_status(ls_iterator_next(iterator, &element), LS_FAILED_PRECONDITION,
                  "own data set");
  }
}

// Each call makes an iterator of its own, without an end.
static ls_nest go_through_itself(ls_nest element, const ls_map_call *call,
                                 void *user) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, other) = ls_none();
  (void)element, (void)call;
  ls_status status = ls_iterator_create(
      *(ls_dataset **)user, &(ls_iterator_options){.prefetch = LS_SOME(0)},
      &iterator);
  if (ls_status_is_ok(status)) status = ls_iterator_next(iterator, &other);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

TEST(a_data_set_cannot_go_through_itself_for_ever) {
  LS_OWN(ls_dataset, data) = NULL;
  LS_OWN(ls_iterator, iterator) = NULL;
  ls_nest element = ls_none();
  data = ls_dataset_map(
      ls_dataset_range(0, 3, 1),
      &(ls_map_options){.call = go_through_itself,
                        .user = &data,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
  expect_ok(ls_iterator_create(
      data, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  expect_status(ls_iterator_next(iterator, &element), LS_FAILED_PRECONDITION,
                "64 deep");
}
