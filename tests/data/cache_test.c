// SPDX-License-Identifier: Apache-2.0
//
// Caches in memory and in files.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/iterator.h"
#include "data/own.h"
#include "lockstep/cancel.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/stream_runs.h"

static const stream_numbers hundred = {.count = 100, .saves = true};
static const stream_numbers refusing = {
    .count = 100, .saves = true, .fails_every = 7};
static const stream_numbers few = {.count = 7, .saves = true};
static const stream_numbers none = {.count = 0};
static const stream_numbers lengths = {
    .count = 50, .saves = true, .longest = 9};
#define OF(numbers) ((void *)(uintptr_t) & (numbers))

static const char path[] = "cache-test.lscache";

// ---- Sources that count ----------------------------------------------------
static int made;

static ls_nest key_of(ls_nest element, const ls_map_call *call, void *user) {
  (void)user;
  __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
  ls_nest out = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  int64_t *data = ls_nest_data(out, 0);
  if (data != NULL)
    *data = stream_number(element) * 1000 + (int64_t)(call->key >> 56);
  return out;
}

static ls_dataset *keys(ls_dataset *dataset) {
  return ls_dataset_map(
      dataset,
      &(ls_map_options){.call = key_of,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}

static const char *file;  // NULL: in memory.
static ls_dataset *cached_stream(void *user) {
  return ls_dataset_cache(keys(stream_of(user)), file);
}
static ls_dataset *cached_range(void *user) {
  return ls_dataset_shuffle(
      ls_dataset_cache(
          keys(ls_dataset_range(0, ((const stream_numbers *)user)->count, 1)),
          file),
      NULL);
}
static ls_dataset *cached_lengths(void *user) {
  return ls_dataset_cache(stream_of(user), file);
}
static ls_dataset *in_between(void *user) {
  return ls_dataset_batch(
      ls_dataset_skip(
          ls_dataset_repeat(ls_dataset_cache(stream_of(user), file), 3), 5),
      &(ls_batch_options){.size = 4, .ids = true});
}

TEST(from_any_place_the_rest_is_the_same) {
  static const stream_numbers *const all[] = {&hundred, &refusing, &few, &none};
  file = NULL;
  for (size_t i = 0; i < 4; ++i) {
    expect_stream_alike(cached_stream, OF(*all[i]));
    expect_stream_alike(cached_range, OF(*all[i]));
    expect_stream_alike(in_between, OF(*all[i]));
  }
  expect_stream_alike(cached_lengths, OF(lengths));
  file = path;
  static const stream_maker makers[] = {cached_stream, cached_range,
                                        in_between};
  for (size_t i = 0; i < 3; ++i) {
    unlink(path);
    expect_stream_alike(makers[i], OF(hundred));
    unlink(path);
    expect_stream_alike(makers[i], OF(none));
  }
  unlink(path);
  expect_stream_alike(cached_lengths, OF(lengths));
  unlink(path);
}

static size_t read_all(ls_dataset *dataset, uint64_t seed, int64_t *numbers) {
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(dataset, &(ls_iterator_options){.seed = seed},
                               &iterator));
  const size_t count = stream_read(iterator, numbers);
  expect_ok(ls_iterator_restart(iterator));
  assert_int_equal(stream_read(iterator, numbers), count);
  return count;
}

TEST(elements_are_made_once_whoever_reads) {
  int64_t a[STREAM_MOST], b[STREAM_MOST];
  for (int i = 0; i < 4; ++i) {
    file = i < 2 ? NULL : path;
    unlink(path);
    made = 0;
    ls_dataset *dataset =
        i % 2 == 0 ? cached_stream(OF(hundred))
                   : ls_dataset_cache(keys(ls_dataset_range(0, 100, 1)), file);
    assert_int_equal(ls_dataset_is_indexed(dataset), i % 2 == 1);
    assert_int_equal(read_all(dataset, 1, a), 100);
    assert_int_equal(read_all(dataset, 2, b), 100);
    assert_memory_equal(a, b, 100 * sizeof(*a));
    assert_int_equal(made, 100);
    ls_dataset_release(dataset);
    if (file == NULL) continue;
    // Another data set of the same pipeline finds the file.
    dataset = i % 2 == 0
                  ? cached_stream(OF(hundred))
                  : ls_dataset_cache(keys(ls_dataset_range(0, 100, 1)), file);
    assert_int_equal(read_all(dataset, 3, b), 100);
    assert_memory_equal(a, b, 100 * sizeof(*a));
    assert_int_equal(made, 100);
    ls_dataset_release(dataset);
  }
  unlink(path);
}

// ---- Files -----------------------------------------------------------------
static void expect_read(ls_dataset *dataset, ls_code code,
                        const char *message) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_status(ls_iterator_next(iterator, &element), code, message);
  ls_dataset_release(dataset);
}

// Refuses number 3 as often as `user` says.
static ls_nest refuse_for_now(ls_nest element, const ls_map_call *call,
                              void *user) {
  int *times = user;
  (void)call;
  __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED);
  if (stream_number(element) != 3 || *times == 0)
    return ls_nest_retain(element);
  --*times;
  return LS_FAIL(LS_UNAVAILABLE, "not now");
}

// Reads an epoch of 6 numbers, of which number 3 fails as `fails` says.
static void read_six(ls_iterator *iterator, bool fails) {
  LS_OWN(ls_nest, element) = ls_none();
  for (int64_t i = 0; i < 6; ++i) {
    const ls_status status = ls_iterator_next(iterator, &element);
    if (fails && i == 3) {
      expect_status(status, LS_UNAVAILABLE, "not now");
      continue;
    }
    expect_ok(status);
    assert_int_equal(stream_number(element), i);
  }
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  expect_ok(ls_iterator_restart(iterator));
}

TEST(an_element_that_failed_is_made_again) {
  static const stream_numbers six = {.count = 6, .saves = true};
  for (int stream = 0; stream < 2; ++stream) {
    int times = 2;
    made = 0;
    ls_dataset *numbers =
        stream == 1 ? stream_of(OF(six)) : ls_dataset_range(0, 6, 1);
    LS_OWN(ls_dataset, d) = ls_dataset_cache(
        ls_dataset_map(
            numbers,
            &(ls_map_options){.call = refuse_for_now,
                              .user = &times,
                              .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
        NULL);
    LS_OWN(ls_iterator, iterator) = NULL;
    expect_ok(ls_iterator_create(
        d, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
    read_six(iterator, true);
    read_six(iterator, true);
    read_six(iterator, false);
    for (int i = 0; i < 3; ++i)
      read_six(iterator, false);
    // At most what the first three reads have made, which read ahead.
    assert_true(__atomic_load_n(&made, __ATOMIC_RELAXED) <= 3 * 6);
  }
}

// ---- Failed calls ----------------------------------------------------------
// Reads an iterator from functions of data sets that are called in each other.
typedef struct dive {
  ls_iterator *iterator;
  int depth, num_failed;
} dive;

static void read_at_depth(dive *self) {
  LS_OWN(ls_nest, element) = ls_none();
  const ls_status status = ls_iterator_next(self->iterator, &element);
  self->num_failed += ls_status_code(status) == LS_FAILED_PRECONDITION;
  ls_status_free(status);
}

static ls_nest go_deeper(ls_nest element, const ls_map_call *call, void *user);
static void read_below(dive *self) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_dataset, dataset) = ls_dataset_map(
      ls_dataset_range(0, 1, 1),
      &(ls_map_options){.call = go_deeper,
                        .user = self,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  expect_ok(ls_iterator_next(iterator, &element));
}

static ls_nest go_deeper(ls_nest element, const ls_map_call *call, void *user) {
  dive *self = user;
  (void)call;
  if (--self->depth > 0)
    read_below(self);
  else
    read_at_depth(self);
  return ls_nest_retain(element);
}

// Reads an element where only the cache's own reading is nested too deep.
static void expect_too_deep(ls_iterator *iterator) {
  dive self = {iterator, 63, 0};
  read_below(&self);
  assert_int_equal(self.num_failed, 1);
}

TEST(a_call_that_fails_is_no_element) {
  static const stream_numbers six = {.count = 6, .saves = true};
  int times = 1;
  LS_OWN(ls_dataset, d) = ls_dataset_cache(
      ls_dataset_map(
          stream_of(OF(six)),
          &(ls_map_options){.call = refuse_for_now,
                            .user = &times,
                            .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      NULL);
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(
      d, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  expect_too_deep(iterator);
  expect_ok(ls_iterator_restart(iterator));
  read_six(iterator, true);
  expect_ok(ls_iterator_seek(iterator, 3));
  expect_too_deep(iterator);  // Number 3, once more.
  expect_ok(ls_iterator_restart(iterator));
  read_six(iterator, false);
}

TEST(another_pipeline_and_another_file_are_refused) {
  int64_t numbers[STREAM_MOST];
  file = path;
  unlink(path);
  ls_dataset *dataset = cached_stream(OF(few));
  read_all(dataset, 0, numbers);
  ls_dataset_release(dataset);
  expect_read(ls_dataset_cache(ls_dataset_range(0, 7, 1), path),
              LS_INVALID_ARGUMENT, "the cache file of another pipeline");
  FILE *other = fopen(path, "w");
  assert_non_null(other);
  for (int i = 0; i < 10; ++i)
    fputs("some notes ", other);
  fclose(other);
  expect_read(cached_stream(OF(few)), LS_INVALID_ARGUMENT,
              "'cache-test.lscache' is no cache file");
  other = fopen(path, "w");
  fclose(other);
  expect_read(cached_stream(OF(few)), LS_DATA_LOSS, "shorter than its header");
  unlink(path);
  dataset =
      ls_dataset_cache(ls_dataset_repeat(ls_dataset_range(0, 7, 1), -1), NULL);
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "without an end");
  ls_dataset_release(dataset);
  dataset = ls_dataset_cache(stream_of(&few), "no/such/folder/x");
  expect_read(dataset, LS_NOT_FOUND, "no/such/folder/x");
}

// Described in more than 16 KiB; only the end of the text differs.
static ls_dataset *many_ranges(int64_t last) {
  ls_dataset *all = ls_dataset_range(0, 1, 1);
  for (int64_t i = 1000000000; i < 1000000450; ++i)
    all = ls_dataset_concatenate(all, ls_dataset_range(i, i + 1, 1));
  return ls_dataset_cache(
      ls_dataset_concatenate(all, ls_dataset_range(last, last + 1, 1)), path);
}

TEST(a_long_pipeline_is_told_apart_to_its_end) {
  int64_t numbers[STREAM_MOST];
  unlink(path);
  ls_dataset *dataset = many_ranges(7);
  assert_int_equal(read_all(dataset, 0, numbers), 452);
  assert_int_equal(numbers[451], 7);
  ls_dataset_release(dataset);
  expect_read(many_ranges(8), LS_INVALID_ARGUMENT,
              "the cache file of another pipeline");
  unlink(path);
}

// A failure on the way leaves no file, and the next one who asks makes it.
TEST(what_cannot_be_made_leaves_no_file) {
  file = path;
  unlink(path);
  expect_read(cached_stream(OF(refusing)), LS_INVALID_ARGUMENT, "refused");
  assert_int_not_equal(access(path, F_OK), 0);
}

// ---- Numbers in the source -------------------------------------------------
TEST(numbers_in_the_source_are_those_of_the_elements_kept) {
  for (int64_t in_file = 0; in_file < 2; ++in_file) {
    unlink(path);
    LS_OWN(ls_dataset, d) = ls_dataset_batch(
        ls_dataset_cache(ls_dataset_shuffle(ls_dataset_range(100, 108, 1),
                                            &(ls_shuffle_options){.seed = 1}),
                         in_file ? path : NULL),
        &(ls_batch_options){.size = 8, .ids = true});
    LS_OWN(ls_iterator, iterator) = NULL;
    LS_OWN(ls_nest, batch) = ls_none();
    expect_ok(
        ls_iterator_create(d, &(ls_iterator_options){.seed = 5}, &iterator));
    for (int epoch = 0; epoch < 2; ++epoch) {
      expect_ok(ls_iterator_next(iterator, &batch));
      const int64_t *numbers = ls_nest_data(batch, 0);
      const int64_t *ids = ls_nest_data(batch, 1);
      for (int i = 0; i < 8; ++i)
        assert_int_equal(ids[i], numbers[i] - 100);
      expect_ok(ls_iterator_restart(iterator));
    }
  }
  unlink(path);
}

// ---- Several readers -------------------------------------------------------
// Gives the file up, as a writer that fails does.
static void *give_up(void *handle) {
  usleep(60000);
  const ls_file_system *files = ls_file_system_system();
  expect_ok(files->finish(files->user, handle, false));
  return NULL;
}

TEST(a_reader_waits_while_another_writes_the_file) {
  int64_t numbers[STREAM_MOST];
  const ls_file_system *files = ls_file_system_system();
  void *handle = NULL;
  pthread_t other;
  unlink(path);
  expect_ok(files->create(files->user, path, false, &handle));
  assert_int_equal(pthread_create(&other, NULL, give_up, handle), 0);
  LS_OWN(ls_dataset, dataset) =
      ls_dataset_cache(ls_dataset_range(0, 7, 1), path);
  assert_int_equal(read_all(dataset, 0, numbers), 7);
  for (int64_t i = 0; i < 7; ++i)
    assert_int_equal(numbers[i], i);
  assert_int_equal(pthread_join(other, NULL), 0);
  unlink(path);
  // Without an end it would wait for itself.
  dataset = ls_dataset_cache(ls_dataset_skip(dataset, 1), path);
  expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                "a cache in the same file");
}

TEST(one_file_of_two_spellings_is_the_same) {
  char here[2048];
  unlink(path);
  assert_non_null(getcwd(here, sizeof(here) - sizeof(path) - 1));
  strcat(strcat(here, "/"), path);
  const char *const spellings[] = {"./cache-test.lscache", here};
  for (size_t i = 0; i < LS_COUNT_OF(spellings); ++i) {
    LS_OWN(ls_dataset, dataset) = ls_dataset_cache(
        ls_dataset_cache(ls_dataset_range(0, 7, 1), spellings[i]), path);
    expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                  "a cache in the same file");
  }
  int64_t numbers[STREAM_MOST];
  LS_OWN(ls_dataset, two) = ls_dataset_cache(
      ls_dataset_cache(ls_dataset_range(0, 7, 1), "cache-test.other"), path);
  assert_int_equal(read_all(two, 0, numbers), 7);
  unlink(path);
  unlink("cache-test.other");
}

// ---- Waits that end --------------------------------------------------------
static void *request_later(void *cancel) {
  usleep(60000);
  ls_cancel_request(cancel);
  return NULL;
}

TEST(a_cancel_ends_the_wait_for_another_writer) {
  const ls_file_system *files = ls_file_system_system();
  void *handle = NULL;
  pthread_t other;
  ls_cancel *cancel = NULL;
  unlink(path);
  expect_ok(files->create(files->user, path, false, &handle));
  expect_ok(ls_cancel_create(ls_runtime_current(), &cancel));
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_dataset, dataset) = ls_dataset_shuffle(
      ls_dataset_cache(ls_dataset_range(0, 7, 1), path), NULL);
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  ls_cancel *const before = ls_cancel_make_current(cancel);
  assert_int_equal(pthread_create(&other, NULL, request_later, cancel), 0);
  expect_status(ls_iterator_next(iterator, &element), LS_CANCELLED,
                "is written was cancelled");
  assert_int_equal(pthread_join(other, NULL), 0);
  ls_cancel_make_current(before);
  ls_cancel_destroy(cancel);
  expect_ok(files->finish(files->user, handle, false));
  expect_ok(ls_iterator_next(iterator, &element));
  unlink(path);
}

static bool has_looked(void *looks) {
  usleep(10000);
  return ++*(int *)looks > 5;
}

// What reads ahead waits for another writer when its iterator is released.
TEST(a_release_ends_the_wait_for_another_writer) {
  const ls_file_system *files = ls_file_system_system();
  void *handle = NULL;
  LS_OWN(counted, memory) =
      counted_begin_with((ls_runtime_options){.input_threads = LS_SOME(2)});
  unlink(path);
  for (int streams = 0; streams < 2; ++streams) {
    expect_ok(files->create(files->user, path, false, &handle));
    LS_OWN(ls_dataset, dataset) = ls_dataset_cache(
        streams ? stream_of(OF(few)) : ls_dataset_range(0, 7, 1), path);
    ls_iterator *iterator = NULL;
    expect_ok(ls_iterator_create(
        dataset, &(ls_iterator_options){.prefetch = LS_SOME(4)}, &iterator));
    int looks = 0;
    assert_false(ls_iterator_wait(iterator, has_looked, &looks));
    ls_iterator_release(iterator);
    expect_ok(files->finish(files->user, handle, false));
  }
}

// ---- Damage ----------------------------------------------------------------
static size_t load(char *data, size_t most) {
  FILE *stream = fopen(path, "rb");
  assert_non_null(stream);
  const size_t size = fread(data, 1, most, stream);
  fclose(stream);
  return size;
}

static void store(const char *data, size_t size) {
  FILE *stream = fopen(path, "wb");
  assert_non_null(stream);
  assert_int_equal(fwrite(data, 1, size, stream), size);
  fclose(stream);
}

static const char *const words[] = {"", "one", "two\xff", "three is long"};

static ls_nest make_words(void *user, int64_t index) {
  (void)user;
  ls_array *array = NULL;
  const ls_bytes bytes[] = {{words[index], strlen(words[index])}, {"x\0y", 3}};
  const ls_status status =
      ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(2), bytes, &array);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  return LS_TUPLE(ls_nest_array(array),
                  ls_nest_zeros(LS_DTYPE_U8, LS_SHAPE(index, 2)));
}

static ls_dataset *text(void) {
  return ls_dataset_cache(
      ls_dataset_from_function(&(ls_index_options){
          .size = 4,
          .element = LS_TUPLE(ls_nest_spec(LS_DTYPE_STRING, LS_SHAPE(2)),
                              ls_nest_spec(LS_DTYPE_U8, LS_SHAPE(-1, 2))),
          .make = make_words}),
      path);
}

// Reads all; false: something failed, with the right code.
static bool read_text(void) {
  LS_OWN(ls_dataset, dataset) = text();
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  bool whole = true;
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  for (int64_t i = 0; i < 4; ++i) {
    ls_status status = ls_iterator_next(iterator, &element);
    const ls_code code = ls_status_code(status);
    whole = whole && code == LS_OK;
    if (code != LS_DATA_LOSS && code != LS_INVALID_ARGUMENT)
      expect_ok(status);
    else
      ls_status_free(status);
    if (code != LS_OK) continue;
    const ls_array *array = ls_nest_as_array(ls_nest_item(element, 0));
    const ls_bytes *found = ls_array_data(array);
    assert_int_equal(found[0].size, strlen(words[i]));
    assert_memory_equal(found[0].data, words[i], found[0].size);
    assert_int_equal(found[1].size, 3);
    assert_memory_equal(found[1].data, "x\0y", 3);
    array = ls_nest_as_array(ls_nest_item(element, 1));
    assert_int_equal(ls_array_shape(array).dim[0], i);
  }
  return whole;
}

TEST(damage_is_found_wherever_it_is) {
  static char data[4096], copy[4096];
  unlink(path);
  assert_true(read_text());
  const size_t size = load(data, sizeof(data));
  assert_in_range(size, 200, 1000);
  assert_true(read_text());
  for (size_t i = 0; i < size; ++i) {
    if (i >= 44 && i < 64) continue;  // Zeros that nobody reads.
    memcpy(copy, data, size);
    copy[i] ^= (char)(1 << i % 8);
    store(copy, size);
    if (read_text()) fail_msg("byte %zu may be anything", i);
  }
  for (size_t cut = 1; cut < size; cut += 7) {
    store(data, size - cut);
    assert_false(read_text());
  }
  memcpy(copy, data, size);
  store(copy, size + 8);
  assert_false(read_text());
  store(data, size);
  assert_true(read_text());
  unlink(path);
}

static ls_status read_cache(void *user) {
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  unlink(path);
  LS_OWN(ls_dataset, dataset) = cached_stream(user);
  LS_RETURN_IF_ERROR(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  for (int i = 0; i < 7; ++i)
    LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
  return ls_ok();
}

TEST(failing_memory_is_survived) {
  file = NULL;
  REFUSE_EACH(read_cache, OF(few));
  file = path;
  REFUSE_EACH(read_cache, OF(few));
  unlink(path);
}
