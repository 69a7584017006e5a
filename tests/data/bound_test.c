// SPDX-License-Identifier: Apache-2.0
//
// What iterators may hold, and what becomes of threads that work for them.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "data/own.h"
#include "lockstep/element_spec.h"
#include "support/callbacks.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/pipelines.h"
#include "support/place.h"
#include "support/sanitizer.h"

enum { MIB = 1 << 20 };

static void end_bounded(open_place *self) {
  assert_int_equal(
      __atomic_load_n(&self->runtime->input_buffered, __ATOMIC_RELAXED), 0);
  runtime_end(self);
}
LS_OWNED_(bounded_runtime, open_place, end_bounded(ls_owned))
LS_OWNED_POINTER(ls_counting_allocator, ls_counting_allocator_destroy)

// ---- Bytes -----------------------------------------------------------------
static int64_t resident(void) {
  long pages = 0, all = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%ld %ld", &all, &pages) != 2) pages = 0;
  (void)fclose(file);
  return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

// An element of so many bytes, all written; of `make` too.
typedef struct large {
  int64_t bytes;
  int sleep_us;
} large;

static ls_status fill_large(void *user, int64_t index, ls_nest out) {
  const large *self = user;
  memset(ls_nest_data(out, 0), (int)index, (size_t)self->bytes);
  if (self->sleep_us > 0) usleep((useconds_t)self->sleep_us);
  return ls_ok();
}

static ls_nest make_large(void *user, int64_t index) {
  const large *self = user;
  const ls_nest made = ls_nest_zeros(LS_DTYPE_U8, LS_SHAPE(self->bytes));
  if (!ls_nest_is_failed(made)) ls_status_free(fill_large(user, index, made));
  return made;
}

static ls_dataset *large_elements(large *self, int64_t count, bool makes) {
  return ls_dataset_from_function(&(ls_index_options){
      .name = "large",
      .size = count,
      .element = ls_nest_spec(LS_DTYPE_U8,
                              makes ? LS_SHAPE(-1) : LS_SHAPE(self->bytes)),
      .get = makes ? NULL : fill_large,
      .make = makes ? make_large : NULL,
      .user = self});
}

static int64_t read_epoch(ls_runtime *runtime, ls_iterator *iterator,
                          int64_t *most) {
  LS_OWN(ls_nest, element) = ls_none();
  int64_t count = 0;
  ls_status status = ls_ok();
  while (ls_status_is_ok(status = ls_iterator_next(iterator, &element))) {
    const int64_t held =
        __atomic_load_n(&runtime->input_buffered, __ATOMIC_RELAXED);
    if (held > *most) *most = held;
    ++count;
  }
  expect_status(status, LS_OUT_OF_RANGE, "end");
  return count;
}

// What is live is bound; what is resident also depends on what the system's
// allocator keeps of memory that one thread takes and another one gives back.
TEST(two_gibibytes_go_through_thirty_two_mebibytes) {
  if (LS_SANITIZED) skip();
  for (int makes = 0; makes < 2; ++makes) {
    LS_OWN(counted, memory) = counted_begin_with((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(3), .input_bytes = 32 * MIB});
    large self = {.bytes = MIB};
    LS_OWN(ls_iterator, iterator) =
        pipeline_iterator(large_elements(&self, 1024, makes), LS_SOME(500));
    const int64_t began = resident();
    int64_t most = 0;
    assert_int_equal(read_epoch(ls_runtime_current(), iterator, &most), 1024);
    assert_true(most <= 32 * MIB);
    const uint64_t peak =
        ls_counting_allocator_counts(memory.memory).peak_bytes;
    // The reader's own, and with each thread one that it gives for another.
    assert_true(peak < (32 + 1 + 3 + 2) * MIB);
    const int64_t grown = resident() - began;
    if (grown > (makes ? 96 : 48) * MIB)
      fail_msg("%lld MiB more are resident", (long long)(grown / MIB));
  }
}

TEST(a_hundred_epochs_take_what_one_takes) {
  if (LS_SANITIZED) skip();
  LS_OWN(bounded_runtime, home) = runtime_begin(
      (ls_runtime_options){.threads = 1, .input_threads = LS_SOME(2)});
  ls_dataset *d =
      ls_dataset_shuffle(ls_dataset_from_arrays(LS_TUPLE(
                             ls_nest_zeros(LS_DTYPE_U8, LS_SHAPE(2000, 784)),
                             ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(2000)))),
                         NULL);
  d = ls_dataset_convert(
      d, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32, .scale = 1. / 255});
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(
      ls_dataset_batch(d, &(ls_batch_options){.size = 128}), LS_SOME(4));
  int64_t most = 0, first = 0;
  for (int epoch = 0; epoch < 100; ++epoch) {
    assert_int_equal(read_epoch(home.runtime, iterator, &most), 16);
    expect_ok(ls_iterator_restart(iterator));
    if (epoch == 2) first = resident();
  }
  assert_true(resident() - first < 8 * MIB);
}

TEST(elements_beyond_the_bound_go_one_by_one) {
  for (int makes = 0; makes < 2; ++makes) {
    LS_OWN(bounded_runtime, home) = runtime_begin((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(2), .input_bytes = 1000});
    large self = {.bytes = 5000};
    LS_OWN(ls_iterator, a) =
        pipeline_iterator(large_elements(&self, 20, makes), LS_SOME(8));
    LS_OWN(ls_iterator, b) =
        pipeline_iterator(large_elements(&self, 20, makes), LS_SOME(8));
    int64_t most = 0;
    ls_nest element = ls_none();
    for (int i = 0; i < 10; ++i) {  // In turn: none keeps the other waiting.
      expect_ok(ls_iterator_next(a, &element));
      expect_ok(ls_iterator_next(b, &element));
      expect_ok(ls_iterator_next(b, &element));
    }
    ls_nest_release(element);
    assert_int_equal(read_epoch(home.runtime, a, &most), 10);
    assert_true(most <= 2 * 5000);
  }
}

// ---- Threads ---------------------------------------------------------------
typedef struct reader {
  ls_dataset *dataset;
  ls_runtime *runtime;
  pthread_t thread;
  int64_t sum;
} reader;

static void *read_all(void *user) {
  reader *self = user;
  ls_runtime *before = ls_runtime_make_current(self->runtime);
  for (int round = 0; round < 3; ++round) {
    LS_OWN(ls_iterator, iterator) =
        pipeline_iterator(ls_dataset_retain(self->dataset), LS_SOME(1 + round));
    int64_t numbers[300];
    const size_t count = read_numbers(iterator, numbers, 300);
    for (size_t i = 0; i < count; ++i)
      self->sum += numbers[i];
  }
  ls_runtime_make_current(before);
  return NULL;
}

TEST(many_readers_share_a_data_set) {
  LS_OWN(bounded_runtime, home) = runtime_begin((ls_runtime_options){
      .threads = 1, .input_threads = LS_SOME(3), .input_bytes = 100});
  enum { READERS = 6 };
  reader readers[READERS];
  LS_OWN(ls_dataset, d) = ls_dataset_shuffle(count_to(300), NULL);
  for (int i = 0; i < READERS; ++i) {
    readers[i] = (reader){.dataset = d, .runtime = home.runtime};
    assert_int_equal(
        pthread_create(&readers[i].thread, NULL, read_all, &readers[i]), 0);
  }
  for (int i = 0; i < READERS; ++i) {
    assert_int_equal(pthread_join(readers[i].thread, NULL), 0);
    assert_int_equal(readers[i].sum, 3 * 299 * 300 / 2);
  }
}

TEST(an_iterator_may_go_while_threads_work) {
  for (int i = 0; i < 60; ++i) {
    LS_OWN(bounded_runtime, home) = runtime_begin((ls_runtime_options){
        .threads = 1, .input_threads = LS_SOME(1 + i % 4)});
    large self = {.bytes = 100, .sleep_us = i % 3 * 300};
    ls_dataset *d = large_elements(&self, 200, i % 2);
    if (i % 5 == 0) d = ls_dataset_prefetch(ls_dataset_repeat(d, -1), 7);
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(d, LS_SOME(i % 7));
    LS_OWN(ls_nest, element) = ls_none();
    for (int k = 0; k < i % 4; ++k)
      expect_ok(ls_iterator_next(iterator, &element));
    if (i % 6 == 1) expect_ok(ls_iterator_seek(iterator, 5));
    if (i % 6 == 2) expect_ok(ls_iterator_restart(iterator));
  }
}

TEST(what_stages_have_done_is_counted) {
  for (int prefetch = 0; prefetch < 5; prefetch += 4) {
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(
        ls_dataset_batch(ls_dataset_shuffle(count_to(100), NULL),
                         &(ls_batch_options){.size = 10}),
        LS_SOME(prefetch));
    int64_t numbers[10];
    assert_int_equal(read_numbers(iterator, numbers, 10), 10);
    ls_iterator_stats stats;
    expect_ok(ls_iterator_get_stats(iterator, &stats));
    assert_int_equal(stats.elements, 10);
    assert_int_equal(stats.num_stages, 3);
    const char *const names[] = {"range", "shuffle", "batch"};
    for (int i = 0; i < 3; ++i) {
      assert_string_equal(stats.stages[i].name, names[i]);
      assert_int_equal(stats.stages[i].elements, i < 2 ? 100 : 10);
      assert_int_equal(stats.stages[i].buffered, 0);
      assert_int_equal(stats.stages[i].buffered_bytes, 0);
      assert_true(stats.stages[i].nanos >= 0);
    }
  }
}

// ---- Refused memory --------------------------------------------------------
static ls_status add_one(ls_nest element, ls_nest out, const ls_map_call *call,
                         void *user) {
  (void)call, (void)user;
  *(int64_t *)ls_nest_data(out, 0) = number_in(element) + 1;
  return ls_ok();
}

static ls_dataset *everything(void) {
  const ls_shape longest = LS_SHAPE(-1), flat = LS_SHAPE(1);
  ls_dataset *d =
      ls_dataset_from_arrays(ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(10)));
  d = ls_dataset_convert(
      d, 0, &(ls_convert_options){.dtype = LS_DTYPE_I64, .shape = &flat});
  d = ls_dataset_concatenate(ls_dataset_batch(ls_dataset_repeat(count_to(5), 2),
                                              &(ls_batch_options){.size = 1}),
                             d);
  d = ls_dataset_map(
      ls_dataset_shuffle(d, NULL),
      &(ls_map_options){.fill = add_one,
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(1))});
  d = ls_dataset_zip(LS_TUPLE(
      ls_nest_dataset(
          ls_dataset_map(d, &(ls_map_options){.call = keep_element})),
      ls_nest_dataset(ls_dataset_take(
          ls_dataset_skip(ls_dataset_shard(ragged_to(99), 2, 1), 3), 18))));
  return ls_dataset_batch(
      ls_dataset_prefetch(d, 2),
      &(ls_batch_options){.size = 4,
                          .ids = true,
                          .remainder = LS_REMAINDER_PAD,
                          .padded_shapes = (ls_shape[]){flat, longest},
                          .num_padded_shapes = 2,
                          .padding = (double[]){0, 7}});
}

static int fault_prefetch;
static ls_status go_through(void *user) {
  (void)user;
  LS_OWN(ls_dataset, dataset) = everything();
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(fault_prefetch)},
      &iterator));
  for (int i = 0; i < 3; ++i)
    LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
  LS_RETURN_IF_ERROR(ls_record_create(&record));
  LS_RETURN_IF_ERROR(ls_iterator_save(iterator, record));
  LS_RETURN_IF_ERROR(ls_iterator_restore(iterator, record));
  return ls_iterator_next(iterator, &element);
}

// ---- Memory that is used again ---------------------------------------------
static uint64_t allocations_of(ls_counting_allocator *counting) {
  return ls_counting_allocator_counts(counting).allocations;
}

// Batches of 16 bytes' rows, all full.
static ls_dataset *full_batches(int64_t rows) {
  const ls_nest data = ls_nest_zeros(LS_DTYPE_U8, LS_SHAPE(rows, 16));
  return ls_dataset_batch(ls_dataset_from_arrays(data),
                          &(ls_batch_options){.size = 8});
}

TEST(repeated_batches_are_written_where_they_shall_be) {
  LS_OWN(ls_counting_allocator, counting) = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  LS_OWN(bounded_runtime, home) = runtime_begin((ls_runtime_options){
      .input_threads = LS_SOME(0),
      .allocator = ls_counting_allocator_allocator(counting)});
  LS_OWN(ls_dataset, data) = ls_dataset_repeat(full_batches(32), -1);
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(data, NULL, &iterator));
  for (int i = 0; i < 4; ++i)
    expect_ok(ls_iterator_next(iterator, &element));
  const uint64_t then = allocations_of(counting);
  for (int i = 0; i < 40; ++i)
    expect_ok(ls_iterator_next(iterator, &element));
  assert_int_equal(allocations_of(counting), then);
}

// What was made ahead in one epoch is written anew in the next one, up to as
// many elements as may be ahead; how many there were when is up to threads.
TEST(memory_of_an_epoch_serves_the_next_one) {
  enum { EPOCHS = 200, SLACK = 100 };
  LS_OWN(ls_counting_allocator, counting) = NULL;
  expect_ok(ls_counting_allocator_create(NULL, &counting));
  LS_OWN(bounded_runtime, home) = runtime_begin((ls_runtime_options){
      .input_threads = LS_SOME(2),
      .allocator = ls_counting_allocator_allocator(counting)});
  LS_OWN(ls_dataset, data) = full_batches(64);
  LS_OWN(ls_iterator, iterator) = NULL;
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_create(data, NULL, &iterator));
  uint64_t then = 0;
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    for (int i = 0; i < 8; ++i)
      expect_ok(ls_iterator_next(iterator, &element));
    expect_ok(ls_iterator_restart(iterator));
    if (epoch == 0) then = allocations_of(counting);
  }
  assert_true(allocations_of(counting) - then < SLACK);
}

TEST(refused_memory_is_told) {
  for (fault_prefetch = 0; fault_prefetch < 3; fault_prefetch += 2)
    REFUSE_EACH(go_through, NULL);
}
