// SPDX-License-Identifier: Apache-2.0
//
// What comes out is a function of data set, seed and position alone: whatever
// the threads, how far ahead they are, how long elements take, and where it was
// stopped and continued.
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/record.h"
#include "support/pipelines.h"
#include "support/place.h"
#include "support/sanitizer.h"

enum { SIZE = 150 };

// ---- A pipeline with all that is random ------------------------------------
static ls_status draw(ls_nest element, ls_nest out, const ls_map_call *call,
                      void *user) {
  (void)user;
  if (call->key % 7 == 0) usleep((useconds_t)(rand() % 300));
  uint64_t *to = ls_nest_data(out, 0);
  to[0] = call->key;
  to[1] = (uint64_t)number_in(element);
  to[2] = (uint64_t)call->epoch;
  return ls_ok();
}

// Of lengths that differ.
static ls_nest stretch(ls_nest element, const ls_map_call *call, void *user) {
  (void)user;
  if (call->key % 5 == 0) usleep((useconds_t)(rand() % 200));
  const int64_t length = (int64_t)(call->key % 9);
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(length));
  for (int64_t i = 0; i < length; ++i)
    ((int64_t *)ls_nest_data(made, 0))[i] = number_in(element) * 100 + i;
  return made;
}

static ls_dataset *drawn(ls_dataset *d) {
  return ls_dataset_map(
      d, &(ls_map_options){.fill = draw,
                           .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(3))});
}

// Rows, shapes that differ, and streams.
enum { PIPELINES = 4 };
static ls_dataset *pipeline(int which) {
  const ls_shape longest = LS_SHAPE(-1);
  ls_dataset *d =
      ls_dataset_shuffle(count_to(SIZE), &(ls_shuffle_options){.seed = 3});
  if (which == 1) {
    d = ls_dataset_map(d, &(ls_map_options){.call = stretch,
                                            .result = ls_nest_spec(
                                                LS_DTYPE_I64, LS_SHAPE(-1))});
    return ls_dataset_batch(d, &(ls_batch_options){.size = 4,
                                                   .ids = true,
                                                   .padded_shapes = &longest,
                                                   .num_padded_shapes = 1});
  }
  if (which == 2)
    d = ls_dataset_zip(LS_TUPLE(ls_nest_dataset(drawn(ls_dataset_repeat(d, 2))),
                                ls_nest_dataset(ls_dataset_concatenate(
                                    ragged_to(SIZE), ragged_to(2 * SIZE)))));
  else
    d = drawn(d);
  if (which == 3)
    d = ls_dataset_shuffle(ls_dataset_prefetch(d, 3),
                           &(ls_shuffle_options){.buffer = 20});
  if (which == 2) return d;
  return ls_dataset_batch(d, &(ls_batch_options){.size = 4, .ids = true});
}

static ls_iterator *read_pipeline(int which, int64_t prefetch) {
  ls_iterator *iterator = NULL;
  LS_OWN(ls_dataset, d) = pipeline(which);
  expect_ok(ls_iterator_create(
      d, &(ls_iterator_options){.seed = 11, .prefetch = LS_SOME(prefetch)},
      &iterator));
  return iterator;
}

// Two epochs.
static uint64_t digest_of(int which, int threads, int64_t prefetch) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .input_threads = LS_SOME(threads)});
  LS_OWN(ls_iterator, iterator) = read_pipeline(which, prefetch);
  LS_OWN(ls_nest, element) = ls_none();
  uint64_t hash = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    ls_status status = ls_ok();
    while (ls_status_is_ok(status = ls_iterator_next(iterator, &element)))
      hash_element(element, &hash);
    expect_status(status, LS_OUT_OF_RANGE, "end");
    expect_ok(ls_iterator_restart(iterator));
  }
  return hash;
}

TEST(threads_and_prefetch_change_nothing) {
  const int threads[] = {0, 1, 2, 7};
  const int64_t prefetches[] = {0, 1, 8};
  for (int which = 0; which < PIPELINES; ++which) {
    const uint64_t wanted = digest_of(which, 0, 0);
    for (size_t t = 0; t < 4; ++t)
      for (size_t p = 0; p < 3; ++p) {
        const uint64_t digest = digest_of(which, threads[t], prefetches[p]);
        if (digest != wanted)
          fail_msg("pipeline %d with %d threads, %lld ahead, is another", which,
                   threads[t], (long long)prefetches[p]);
      }
  }
}

// ---- Kills -----------------------------------------------------------------
// What stands in two epochs, by its place.
typedef struct story {
  uint64_t hashes[3 * SIZE * 2];
  size_t count, epoch_end[2];
} story;

static void tell(int which, story *out) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .input_threads = LS_SOME(0)});
  LS_OWN(ls_iterator, iterator) = read_pipeline(which, 0);
  LS_OWN(ls_nest, element) = ls_none();
  out->count = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    ls_status status = ls_ok();
    while (ls_status_is_ok(status = ls_iterator_next(iterator, &element))) {
      out->hashes[out->count] = 0;
      hash_element(element, &out->hashes[out->count++]);
    }
    expect_status(status, LS_OUT_OF_RANGE, "end");
    out->epoch_end[epoch] = out->count;
    expect_ok(ls_iterator_restart(iterator));
  }
}

// Reads on from a position for a while, in a world of its own.
static void live(int which, const story *all, char **text, size_t *size,
                 size_t *at) {
  LS_OWN(open_place, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .input_threads = LS_SOME(rand() % 4)});
  LS_OWN(ls_iterator, iterator) = read_pipeline(which, rand() % 9);
  ls_record *record = NULL;
  if (*text != NULL) {
    expect_ok(ls_record_from_text("saved", *text, *size, &record));
    expect_ok(ls_iterator_restore(iterator, record));
    ls_record_destroy(record);
    ls_text_release(*text);
  }
  LS_OWN(ls_nest, element) = ls_none();
  for (int left = rand() % 40; left >= 0 && *at < all->count; --left) {
    ls_status status = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      assert_int_equal(*at, all->epoch_end[0]);
      expect_ok(ls_iterator_restart(iterator));
      continue;
    }
    expect_ok(status);
    uint64_t hash = 0;
    hash_element(element, &hash);
    if (hash != all->hashes[*at])
      fail_msg("pipeline %d: element %zu is another one", which, *at);
    ++*at;
  }
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(iterator, record));
  expect_ok(ls_record_to_text(record, text, size));
  ls_record_destroy(record);
  // Some are given up in the middle of more, which nobody sees.
  for (int left = rand() % 5; left > 0; --left)
    ls_status_free(ls_iterator_next(iterator, &element));
}

TEST(a_killed_reader_goes_on_where_it_was_saved) {
  static story all;
  for (int which = 0; which < PIPELINES; ++which) {
    tell(which, &all);
    for (int life = 0; life < (LS_SANITIZED ? 3 : 10); ++life) {
      LS_OWN(printed, text) = NULL;
      size_t size = 0, at = 0;
      while (at < all.count)
        live(which, &all, &text, &size, &at);
    }
  }
}

TEST(each_epoch_has_each_example_once) {
  LS_OWN(ls_iterator, iterator) = read_pipeline(3, 3);
  LS_OWN(ls_nest, element) = ls_none();
  for (int epoch = 0; epoch < 3; ++epoch) {
    int seen[SIZE] = {0};
    ls_status status = ls_ok();
    while (ls_status_is_ok(status = ls_iterator_next(iterator, &element))) {
      const ls_array *ids = ls_nest_as_array(ls_nest_item(element, 1));
      for (int64_t i = 0; i < ls_array_num_elements(ids); ++i)
        ++seen[ls_array_i64(ids, i)];
    }
    expect_status(status, LS_OUT_OF_RANGE, "end");
    for (int i = 0; i < SIZE; ++i)
      assert_int_equal(seen[i], 1);
    expect_ok(ls_iterator_restart(iterator));
  }
}
