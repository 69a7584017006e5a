// SPDX-License-Identifier: Apache-2.0
#include "support/stream_runs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/graph.h"
#include "support/counted.h"
#include "support/sanitizer.h"

// ---- Elements --------------------------------------------------------------
static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size) {
  const unsigned char *bytes = data;
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
  return hash;
}

static uint64_t hash_nest(uint64_t hash, ls_nest nest) {
  const ls_array *array = ls_nest_as_array(nest);
  if (array == NULL) {
    const size_t count = ls_nest_count(nest);
    hash = hash_bytes(hash, &count, sizeof(count));
    for (size_t i = 0; i < count; ++i)
      hash = hash_nest(hash, ls_nest_item(nest, i));
    return hash;
  }
  const ls_dtype dtype = ls_array_dtype(array);
  const ls_shape shape = ls_array_shape(array);
  hash = hash_bytes(hash, &dtype, sizeof(dtype));
  hash = hash_bytes(hash, &shape.rank, sizeof(shape.rank));
  for (int i = 0; i < shape.rank; ++i)
    hash = hash_bytes(hash, &shape.dim[i], sizeof(shape.dim[i]));
  return hash_bytes(hash, ls_array_data(array), ls_array_size(array));
}

int64_t stream_number(ls_nest element) {
  const ls_array *array = ls_nest_as_array(element);
  if (array != NULL && ls_array_dtype(array) == LS_DTYPE_I64 &&
      ls_array_shape(array).rank == 0)
    return ls_array_i64(array, 0);
  return (int64_t)hash_nest(UINT64_C(14695981039346656037), element);
}

// One element; false at the end.
static bool read_one(ls_iterator *iterator, ls_nest *element,
                     int64_t *out_number) {
  ls_status status = ls_iterator_next(iterator, element);
  const ls_code code = ls_status_code(status);
  if (code == LS_OK || code == LS_OUT_OF_RANGE) {
    ls_status_free(status);
    *out_number = code == LS_OK ? stream_number(*element) : 0;
    return code == LS_OK;
  }
  expect_status(status,
                code == LS_RESOURCE_EXHAUSTED ? code : LS_INVALID_ARGUMENT,
                "refused");
  *out_number = STREAM_FAILED;
  return true;
}

static size_t read_some(ls_iterator *iterator, int64_t *numbers, size_t most) {
  LS_OWN(ls_nest, element) = ls_none();
  size_t count = 0;
  while (count < most && read_one(iterator, &element, &numbers[count]))
    assert_true(++count < STREAM_MOST);
  return count;
}

size_t stream_read(ls_iterator *iterator, int64_t *numbers) {
  LS_OWN(ls_nest, element) = ls_none();
  const size_t count = read_some(iterator, numbers, STREAM_MOST);
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
  return count;
}

// ---- Ways ------------------------------------------------------------------
typedef struct stream_way {
  int threads, prefetch;
} stream_way;

typedef struct world {
  counted memory;
  ls_iterator *iterator;
} world;

static world enter(stream_maker make, void *user, stream_way way) {
  world self = {.memory = counted_begin_with((ls_runtime_options){
                    .threads = 1, .input_threads = LS_SOME(way.threads)})};
  LS_OWN(ls_dataset, dataset) = make(user);
  expect_ok(ls_iterator_create(
      dataset,
      &(ls_iterator_options){.seed = 9, .prefetch = LS_SOME(way.prefetch)},
      &self.iterator));
  return self;
}

static void leave(world *self) {
  ls_iterator_release(self->iterator);
  counted_end(&self->memory);
}
LS_OWNED_STRUCT(world, leave)

static void expect_numbers(const char *what, stream_way way,
                           const int64_t *numbers, size_t count,
                           const int64_t *wanted, size_t num_wanted) {
  for (size_t i = 0; i < count && i < num_wanted; ++i)
    if (numbers[i] != wanted[i])
      fail_msg("%s, %d threads, %d ahead: element %zu is %lld, not %lld", what,
               way.threads, way.prefetch, i, (long long)numbers[i],
               (long long)wanted[i]);
  if (count != num_wanted)
    fail_msg("%s, %d threads, %d ahead: %zu elements, not %zu", what,
             way.threads, way.prefetch, count, num_wanted);
}

void expect_stream(stream_maker make, void *user, const int64_t *wanted,
                   size_t count) {
  static int64_t numbers[STREAM_MOST];
  const stream_way ways[] = {{0, 0}, {2, 3}};
  for (size_t i = 0; i < 2; ++i) {
    LS_OWN(world, self) = enter(make, user, ways[i]);
    const size_t found = stream_read(self.iterator, numbers);
    expect_numbers("model", ways[i], numbers, found, wanted, count);
  }
}

// ---- Places ----------------------------------------------------------------
typedef struct epochs {
  int64_t numbers[2][STREAM_MOST];
  size_t counts[2];
} epochs;

// Reads `place` elements of an epoch and saves.
static char *save_at(stream_maker make, void *user, stream_way way, int epoch,
                     size_t place) {
  static int64_t numbers[STREAM_MOST];
  LS_OWN(world, self) = enter(make, user, way);
  LS_OWN(ls_record, record) = NULL;
  LS_OWN(printed, text) = NULL;
  size_t size = 0;
  for (int i = 0; i < epoch; ++i)
    expect_ok(ls_iterator_restart(self.iterator));
  assert_int_equal(read_some(self.iterator, numbers, place), place);
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(self.iterator, record));
  expect_ok(ls_record_to_text(record, &text, &size));
  char *copy = malloc(size + 1);
  assert_non_null(copy);
  memcpy(copy, text, size + 1);
  return copy;
}

static void restore_at(ls_iterator *iterator, const char *text) {
  LS_OWN(ls_record, record) = NULL;
  expect_ok(ls_record_from_text("place", text, strlen(text), &record));
  expect_ok(ls_iterator_restore(iterator, record));
}

// The rest from a place, and the epoch behind it, in another way; and again on
// the same iterator, from wherever it is then.
static void expect_rest(stream_maker make, void *user, const epochs *all,
                        stream_way from, stream_way to, int epoch,
                        size_t place) {
  static int64_t numbers[STREAM_MOST];
  char what[96];
  HEAP(char, text) = save_at(make, user, from, epoch, place);
  LS_OWN(world, self) = enter(make, user, to);
  for (int time = 0; time < 2; ++time) {
    snprintf(what, sizeof(what), "from place %zu of epoch %d", place, epoch);
    restore_at(self.iterator, text);
    assert_int_equal(ls_iterator_position(self.iterator), place);
    const size_t count = stream_read(self.iterator, numbers);
    expect_numbers(what, to, numbers, count, all->numbers[epoch] + place,
                   all->counts[epoch] - place);
    if (epoch > 0) continue;
    expect_ok(ls_iterator_restart(self.iterator));
    const size_t some = read_some(self.iterator, numbers, 5);
    expect_numbers("the epoch behind it", to, numbers, some, all->numbers[1],
                   all->counts[1] < 5 ? all->counts[1] : 5);
  }
}

void expect_stream_alike(stream_maker make, void *user) {
  static epochs all, other;
  static const int threads[] = {0, 1, 2, 7}, ahead[] = {0, 1, 8};
  for (size_t t = 0; t < 4; ++t) {
    for (size_t a = 0; a < 3; ++a) {
      if (LS_SANITIZED && t + a > 0 && (t + a) % 2 == 0) continue;
      epochs *one = t + a == 0 ? &all : &other;
      const stream_way way = {threads[t], ahead[a]};
      LS_OWN(world, self) = enter(make, user, way);
      for (int e = 0; e < 2; ++e) {
        one->counts[e] = stream_read(self.iterator, one->numbers[e]);
        expect_numbers("all", way, one->numbers[e], one->counts[e],
                       all.numbers[e], all.counts[e]);
        expect_ok(ls_iterator_restart(self.iterator));
      }
    }
  }
  static const stream_way ways[] = {{0, 0}, {2, 8}, {7, 1}, {1, 0}};
  const size_t places = LS_SANITIZED ? 8 : 23;
  const size_t step = all.counts[0] / places + 1;
  int number = 0;
  for (size_t place = 0; place <= all.counts[0]; place += step, ++number)
    expect_rest(make, user, &all, ways[number % 4], ways[number / 2 % 4], 0,
                place);
  expect_rest(make, user, &all, ways[0], ways[1], 0, all.counts[0]);
  expect_rest(make, user, &all, ways[1], ways[1], 1, all.counts[1] / 2);
  expect_rest(make, user, &all, ways[0], ways[0], 1, all.counts[1] / 3);
}

// ---- Sources ---------------------------------------------------------------
typedef struct reader {
  const stream_numbers *numbers;
  int64_t epoch, next;
} reader;

static ls_status open_numbers(void *user, int64_t epoch, void **out_state) {
  reader *self = calloc(1, sizeof(*self));
  assert_non_null(self);
  self->numbers = user;
  self->epoch = epoch;
  *out_state = self;
  return ls_ok();
}

static ls_status next_number(void *state, ls_nest *out_element) {
  reader *self = state;
  const stream_numbers *numbers = self->numbers;
  if (self->next >= numbers->count) return ls_out_of_range("no more numbers");
  const int64_t i = self->next++;
  if (numbers->fails_every > 0 && i % numbers->fails_every == 3)
    return LS_STATUS(numbers->lacks_quota ? LS_RESOURCE_EXHAUSTED
                                          : LS_INVALID_ARGUMENT,
                     "number %lld is refused", (long long)i);
  const int64_t length = numbers->longest > 0 ? i % numbers->longest + 1 : 1;
  *out_element = ls_nest_zeros(
      LS_DTYPE_I64, numbers->longest > 0 ? LS_SHAPE(length) : LS_SCALAR);
  int64_t *data = ls_nest_data(*out_element, 0);
  for (int64_t k = 0; k < length && data != NULL; ++k)
    data[k] = i + 100000 * (self->epoch % 1000) + 1000 * k;
  return ls_nest_status(*out_element);
}

static ls_status save_number(void *state, ls_record *record) {
  return ls_record_set_i64(record, "next", ((reader *)state)->next);
}

static ls_status restore_number(void *state, const ls_record *record) {
  reader *self = state;
  int64_t number = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "next", &number));
  if (number < 0) return ls_invalid_argument("refused: negative");
  self->next = number;
  return ls_ok();
}

ls_dataset *stream_of(const stream_numbers *numbers) {
  return ls_dataset_from_generator(&(ls_generator_options){
      .name = "numbers",
      .size = numbers->is_sized ? LS_SOME(numbers->count) : (ls_opt){0},
      .element = ls_nest_spec(LS_DTYPE_I64, numbers->longest > 0
                                                ? LS_SHAPE(LS_UNKNOWN_DIM)
                                                : LS_SCALAR),
      .open = open_numbers,
      .next = next_number,
      .save = numbers->saves ? save_number : NULL,
      .restore = numbers->saves ? restore_number : NULL,
      .close = free,
      .user = (void *)(uintptr_t)numbers});
}
