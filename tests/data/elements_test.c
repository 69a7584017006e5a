// SPDX-License-Identifier: Apache-2.0
//
// What comes out of a pipeline: nests of all kinds, strings, shapes that
// differ, padding, results of maps, ids, and texts that tell pipelines apart.
#include "support/pipelines.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "data/own.h"
#include "lockstep/element_spec.h"
#include "lockstep/record.h"
#include "lockstep/streams.h"

// ---- Nests -----------------------------------------------------------------
static ls_nest i64_rows(int64_t rows, int64_t width, int64_t first) {
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(rows, width));
  for (int64_t i = 0; i < rows * width; ++i)
    ((int64_t *)ls_nest_data(made, 0))[i] = first + i;
  return made;
}

static ls_nest string_rows(int64_t rows) {
  ls_array *array = NULL;
  ls_bytes strings[64];
  char room[64][32];
  for (int64_t i = 0; i < rows; ++i) {
    snprintf(room[i], sizeof(room[i]), "%.*s%lld", (int)(i % 5), "stri",
             (long long)i);
    strings[i] = (ls_bytes){room[i], strlen(room[i])};
  }
  expect_ok(
      ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(rows), strings, &array));
  return ls_nest_array(array);
}

// Keys that are not in the order of their names, and all kinds of nodes.
static ls_nest deep_rows(bool with_strings) {
  const char *const keys[] = {"z", "a"};
  const char *const names[] = {"left", "right"};
  const ls_nest pair = ls_nest_named_tuple(
      "pair", names, (ls_nest[]){i64_rows(20, 2, 100), i64_rows(20, 1, 300)},
      2);
  return ls_nest_dict(
      "", keys,
      (ls_nest[]){LS_LIST(i64_rows(20, 1, 0),
                          with_strings ? string_rows(20) : i64_rows(20, 3, 0)),
                  pair},
      2);
}

static const char *text_at(ls_nest strings, int64_t i) {
  return ((const ls_bytes *)ls_array_data(ls_nest_as_array(strings)))[i].data;
}

TEST(nests_of_all_kinds_keep_their_structure) {
  for (int with_strings = 0; with_strings < 2; ++with_strings) {
    ls_dataset *d = ls_dataset_from_arrays(deep_rows(with_strings));
    ls_dataset *other = ls_dataset_retain(d);
    d = ls_dataset_repeat(ls_dataset_concatenate(d, other), 2);
    d = ls_dataset_zip(LS_TUPLE(ls_nest_dataset(d),
                                ls_nest_dataset(ls_dataset_range(0, 80, 1))));
    d = ls_dataset_batch(ls_dataset_skip(d, 3),
                         &(ls_batch_options){.size = 10});
    expect_ok(ls_dataset_status(d));
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(d, LS_SOME(2));
    LS_OWN(ls_nest, element) = ls_none();
    for (int64_t batch = 0; batch < 8; ++batch) {
      expect_ok(ls_iterator_next(iterator, &element));
      const ls_nest dict = ls_nest_item(element, 0);
      const ls_nest pair = ls_nest_find(dict, "a");
      const ls_nest list = ls_nest_find(dict, "z");
      assert_string_equal(ls_nest_key(dict, 0), "z");
      assert_string_equal(ls_nest_key(pair, 1), "right");
      assert_int_equal(list.kind, LS_KIND_LIST);
      const int64_t rows = batch < 7 ? 10 : 7;
      for (int64_t i = 0; i < rows; ++i) {
        const int64_t at = 3 + batch * 10 + i, row = at % 20;
#define NUMBER(nest, i) ls_array_i64(ls_nest_as_array(nest), (i))
        assert_int_equal(NUMBER(ls_nest_item(element, 1), i), at);
        assert_int_equal(NUMBER(ls_nest_item(pair, 0), 2 * i + 1),
                         100 + 2 * row + 1);
        assert_int_equal(NUMBER(ls_nest_item(pair, 1), i), 300 + row);
        assert_int_equal(NUMBER(ls_nest_item(list, 0), i), row);
        char wanted[16];
        snprintf(wanted, sizeof(wanted), "%.*s%lld", (int)(row % 5), "stri",
                 (long long)row);
        if (with_strings)
          assert_string_equal(text_at(ls_nest_item(list, 1), i), wanted);
        else
          assert_int_equal(NUMBER(ls_nest_item(list, 1), 3 * i + 2),
                           3 * row + 2);
      }
    }
    expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
  }
}

TEST(an_element_that_is_kept_is_not_written_anew) {
  for (int prefetch = 0; prefetch < 4; ++prefetch) {
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(
        ls_dataset_zip(LS_TUPLE(ls_nest_dataset(count_to(40)),
                                ls_nest_dataset(count_to(50)))),
        LS_SOME(prefetch));
    ls_nest kept[40] = {{0}}, element = ls_none();
    for (int64_t i = 0; i < 40; ++i) {
      expect_ok(ls_iterator_next(iterator, &element));
      // The nest, one of its leaves, or nothing.
      if (i % 3 == 0) kept[i] = ls_nest_retain(element);
      if (i % 3 == 1) kept[i] = ls_nest_retain(ls_nest_item(element, 1));
    }
    for (int64_t i = 0; i < 40; ++i) {
      if (i % 3 < 2) assert_int_equal(number_in(kept[i]), i);
      ls_nest_release(kept[i]);
    }
    ls_nest_release(element);
  }
}

// ---- Shapes that differ ----------------------------------------------------
static ls_dataset *padded(ls_dataset *d, ls_shape shape, double padding,
                          ls_batch_remainder remainder) {
  return ls_dataset_batch(d, &(ls_batch_options){.size = 4,
                                                 .remainder = remainder,
                                                 .padded_shapes = &shape,
                                                 .num_padded_shapes = 1,
                                                 .padding = &padding});
}

static void expect_padded(ls_shape shape, double padding,
                          ls_batch_remainder remainder) {
  const bool pads = remainder == LS_REMAINDER_PAD;
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(
      padded(ragged_to(10), shape, padding, remainder), LS_SOME(1));
  LS_OWN(ls_nest, batch) = ls_none();
  for (int64_t b = 0; b < 3; ++b) {
    expect_ok(ls_iterator_next(iterator, &batch));
    const ls_array *array =
        ls_nest_as_array(pads ? ls_nest_item(batch, 0) : batch);
    const ls_shape padded = ls_array_shape(array);
    const int64_t real = b < 2 ? 4 : 2;
    const int64_t longest = b < 2 ? 3 : 1;
    const int64_t width = shape.dim[0] < 0 ? longest : shape.dim[0];
    assert_int_equal(padded.rank, 2);
    assert_int_equal(padded.dim[0], pads ? 4 : real);
    assert_int_equal(padded.dim[1], width);
    for (int64_t i = 0; i < padded.dim[0]; ++i)
      for (int64_t k = 0; k < width; ++k) {
        const int64_t number = 4 * b + i;
        const int64_t wanted = i >= real         ? 0
                               : k >= number % 4 ? (int64_t)padding
                                                 : number;
        assert_int_equal(ls_array_i64(array, i * width + k), wanted);
      }
  }
}

TEST(batches_pad_to_the_longest_or_to_what_is_said) {
  const ls_batch_remainder remainders[] = {LS_REMAINDER_KEEP, LS_REMAINDER_PAD};
  for (size_t r = 0; r < 2; ++r)
    for (int padding = -3; padding < 4; padding += 3) {
      expect_padded(LS_SHAPE(-1), padding, remainders[r]);
      expect_padded(LS_SHAPE(3), padding, remainders[r]);
      expect_padded(LS_SHAPE(7), padding, remainders[r]);
    }
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(
      padded(ragged_to(10), LS_SHAPE(2), 0, LS_REMAINDER_KEEP), LS_SOME(0));
  ls_nest batch = ls_none();
  expect_status(ls_iterator_next(iterator, &batch), LS_INVALID_ARGUMENT,
                "element 3 of a batch has i64[3] in leaf 0, which is padded to "
                "i64[2]");
  ls_nest_release(batch);
  ls_iterator_release(iterator);
  iterator = pipeline_iterator(
      ls_dataset_batch(ragged_to(10), &(ls_batch_options){.size = 2}),
      LS_SOME(0));
  expect_status(ls_iterator_next(iterator, &batch), LS_INVALID_ARGUMENT,
                "pad them (padded_shapes)");
}

TEST(strings_are_padded_with_empty_ones) {
  ls_nest rows = string_rows(20);
  ls_array *pairs = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(10, 2),
                                 ls_array_data(ls_nest_as_array(rows)),
                                 &pairs));
  ls_nest_release(rows);
  LS_OWN(ls_iterator, iterator) =
      pipeline_iterator(padded(ls_dataset_from_arrays(ls_nest_array(pairs)),
                               LS_SHAPE(3), 0, LS_REMAINDER_KEEP),
                        LS_SOME(2));
  LS_OWN(ls_nest, batch) = ls_none();
  expect_ok(ls_iterator_next(iterator, &batch));
  expect_ok(ls_iterator_next(iterator, &batch));
  assert_string_equal(text_at(batch, 0), "str8");
  assert_string_equal(text_at(batch, 1), "stri9");
  assert_int_equal(
      ((const ls_bytes *)ls_array_data(ls_nest_as_array(batch)))[2].size, 0);
}

static ls_nest make_other(void *user, int64_t index) {
  if (index == 3) return LS_FAIL(LS_NOT_FOUND, "nothing at %d", 3);
  if (index == 4) return LS_FAIL(LS_OUT_OF_RANGE, "behind the file");
  if (index == 5) return ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(1));
  if (index == 6) return ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(1, 1));
  if (index == 7) return LS_LIST(ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(1)));
  if (index == 8) return ls_nest_i64(3);
  if (index == 9) return ls_none();
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(1));
  *(int64_t *)ls_nest_data(made, 0) = index;
  (void)user;
  return made;
}

TEST(what_a_function_gives_is_checked) {
  static const struct {
    ls_code code;
    const char *part;
  } wanted[] = {{LS_NOT_FOUND, "element 3 of 'makes'"},
                {LS_INVALID_ARGUMENT, "behind the file"},
                {LS_INVALID_ARGUMENT, "leaf 0 of an element is f32[1]"},
                {LS_INVALID_ARGUMENT, "where all are i64[?]"},
                {LS_INVALID_ARGUMENT, "element 7 of 'makes'"},
                {LS_INVALID_ARGUMENT, "element 8 of 'makes'"},
                {LS_INVALID_ARGUMENT, "element 9 of 'makes'"}};
  for (int prefetch = 0; prefetch < 4; ++prefetch) {
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(
        ls_dataset_from_function(&(ls_index_options){
            .name = "makes",
            .size = 12,
            .element = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1)),
            .make = make_other}),
        LS_SOME(prefetch));
    LS_OWN(ls_nest, element) = ls_none();
    for (int64_t i = 0; i < 12; ++i) {
      const bool fails = i >= 3 && i < 10;
      if (fails) {
        expect_status(ls_iterator_next(iterator, &element), wanted[i - 3].code,
                      wanted[i - 3].part);
      } else {
        expect_ok(ls_iterator_next(iterator, &element));
        assert_int_equal(number_in(element), i);
      }
      assert_int_equal(ls_iterator_position(iterator), i + 1);
    }
    expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE,
                  "the end");
    assert_int_equal(number_in(element), 11);
  }
}

// ---- Maps ------------------------------------------------------------------
// Keeps what it is lent, and gives it back as it is.
typedef struct keeper {
  ls_nest kept[64];
  int64_t ids[64];
  int count;
  pthread_mutex_t lock;
} keeper;

static ls_nest keep(ls_nest element, const ls_map_call *call, void *user) {
  keeper *self = user;
  pthread_mutex_lock(&self->lock);
  self->ids[self->count] = call->id;
  self->kept[self->count++] = ls_nest_retain(element);
  pthread_mutex_unlock(&self->lock);
  return ls_nest_retain(element);
}

static ls_status keep_and_fill(ls_nest element, ls_nest out,
                               const ls_map_call *call, void *user) {
  keeper *self = user;
  *(int64_t *)ls_nest_data(out, 0) = number_in(element) + 1000;
  pthread_mutex_lock(&self->lock);
  self->ids[self->count] = call->id;
  self->kept[self->count++] = ls_nest_retain(call->id % 2 ? out : element);
  pthread_mutex_unlock(&self->lock);
  return ls_ok();
}

TEST(a_map_may_keep_what_it_is_lent) {
  for (int way = 0; way < 8; ++way) {
    keeper self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    const bool fills = way & 1, batches = way & 2;
    ls_dataset *d = ls_dataset_map(
        count_to(20),
        &(ls_map_options){.call = fills ? NULL : keep,
                          .fill = fills ? keep_and_fill : NULL,
                          .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                          .user = &self});
    if (batches) d = ls_dataset_batch(d, &(ls_batch_options){.size = 7});
    LS_OWN(ls_iterator, iterator) =
        pipeline_iterator(d, LS_SOME(way < 4 ? 0 : 3));
    LS_OWN(ls_nest, element) = ls_none();
    ls_status status = ls_ok();
    int64_t next = 0;
    while (ls_status_is_ok(status = ls_iterator_next(iterator, &element))) {
      const ls_array *array = ls_nest_as_array(element);
      for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
        assert_int_equal(ls_array_i64(array, i), (fills ? 1000 : 0) + next++);
    }
    expect_status(status, LS_OUT_OF_RANGE, "end");
    assert_int_equal(next, 20);
    for (int i = 0; i < self.count; ++i) {
      assert_int_equal(number_in(self.kept[i]),
                       self.ids[i] + (fills && self.ids[i] % 2 ? 1000 : 0));
      ls_nest_release(self.kept[i]);
    }
  }
}

static ls_nest refuse_some(ls_nest element, const ls_map_call *call,
                           void *user) {
  (void)user;
  if (call->id % 3 == 1)
    return LS_FAIL(LS_UNAVAILABLE, "not today: %d", (int)call->id);
  if (call->id == 5) return ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
  return ls_nest_retain(element);
}

TEST(a_map_that_refuses_names_the_element) {
  LS_OWN(ls_iterator, iterator) = pipeline_iterator(
      ls_dataset_map(ls_dataset_skip(count_to(9), 2),
                     &(ls_map_options){.name = "refuse", .call = refuse_some}),
      LS_SOME(2));
  LS_OWN(ls_nest, element) = ls_none();
  for (int64_t id = 2; id < 9; ++id) {
    if (id % 3 == 1) {
      expect_status(ls_iterator_next(iterator, &element), LS_UNAVAILABLE,
                    "map 'refuse' of element");
    } else if (id == 5) {
      expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                    "f32[]");
    } else {
      expect_ok(ls_iterator_next(iterator, &element));
      assert_int_equal(number_in(element), id);
    }
  }
}

// ---- Ids and keys ----------------------------------------------------------
typedef struct seen_call {
  int64_t number;
  ls_map_call call;
} seen_call;

static ls_status note_call(ls_nest element, ls_nest out,
                           const ls_map_call *call, void *user) {
  (void)user;
  int64_t *to = ls_nest_data(out, 0);
  to[0] = number_in(element);
  to[1] = call->id;
  to[2] = call->epoch;
  memcpy(&to[3], &call->key, 8);
  return ls_ok();
}

static ls_nest note_new(ls_nest element, const ls_map_call *call, void *user) {
  ls_nest out = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(4));
  ls_status_free(note_call(element, out, call, user));
  return out;
}

static ls_dataset *noted(ls_dataset *d, bool makes, uint64_t stream) {
  return ls_dataset_map(
      d, &(ls_map_options){.fill = makes ? NULL : note_call,
                           .call = makes ? note_new : NULL,
                           .stream = stream,
                           .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(4))});
}

// All calls of an epoch, in order; one element or a batch at a time.
static size_t calls_of(ls_dataset *d, uint64_t seed, int64_t epoch,
                       ls_opt prefetch, seen_call *calls) {
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(
      d, &(ls_iterator_options){.seed = seed, .prefetch = prefetch},
      &iterator));
  ls_dataset_release(d);
  expect_ok(ls_iterator_seek_epoch(iterator, epoch));
  LS_OWN(ls_nest, element) = ls_none();
  size_t count = 0;
  ls_status status = ls_ok();
  while (ls_status_is_ok(status = ls_iterator_next(iterator, &element))) {
    ls_nest leaf = element;
    while (ls_nest_is_node(leaf))
      leaf = ls_nest_item(leaf, 0);
    const ls_array *array = ls_nest_as_array(leaf);
    for (int64_t i = 0; i < ls_array_num_elements(array); i += 4) {
      calls[count].number = ls_array_i64(array, i);
      calls[count].call.id = ls_array_i64(array, i + 1);
      calls[count].call.epoch = ls_array_i64(array, i + 2);
      calls[count++].call.key = (uint64_t)ls_array_i64(array, i + 3);
    }
  }
  expect_status(status, LS_OUT_OF_RANGE, "end");
  return count;
}

TEST(ids_and_keys_are_the_examples) {
  seen_call plain[64], other[512];
  assert_int_equal(
      calls_of(noted(count_to(30), false, 0), 7, 2, LS_SOME(0), plain), 30);
  for (int64_t i = 0; i < 30; ++i) {
    assert_int_equal(plain[i].call.id, i);
    assert_int_equal(plain[i].call.epoch, 2);
    for (int64_t k = 0; k < i; ++k)
      assert_true(plain[k].call.key != plain[i].call.key);
  }
  // The same keys in whatever order, by whatever way.
  for (int way = 0; way < 8; ++way) {
    ls_dataset *d = ls_dataset_shuffle(count_to(30), NULL);
    d = ls_dataset_take(ls_dataset_prefetch(d, 2), 25);
    d = noted(d, way & 1, 0);
    if (way & 2) d = ls_dataset_batch(d, &(ls_batch_options){.size = 4});
    const size_t count = calls_of(d, 7, 2, LS_SOME(way & 4), other);
    assert_int_equal(count, 25);
    for (size_t i = 0; i < count; ++i) {
      assert_int_equal(other[i].number, other[i].call.id);
      assert_true(other[i].call.key == plain[other[i].call.id].call.key);
    }
  }
  // Other ones of another stream, seed, epoch, or time of a repeat.
  calls_of(noted(count_to(1), false, 1), 7, 2, LS_SOME(0), other);
  assert_true(other[0].call.key != plain[0].call.key);
  calls_of(noted(count_to(1), false, 0), 8, 2, LS_SOME(0), other);
  assert_true(other[0].call.key != plain[0].call.key);
  calls_of(noted(count_to(1), false, 0), 7, 3, LS_SOME(0), other);
  assert_true(other[0].call.key != plain[0].call.key);
  for (int batches = 0; batches < 2; ++batches) {
    ls_dataset *d = ls_dataset_repeat(noted(count_to(3), false, 0), 4);
    if (batches) d = ls_dataset_batch(d, &(ls_batch_options){.size = 5});
    assert_int_equal(calls_of(d, 7, 1, LS_SOME(2), other), 12);
    for (int64_t i = 0; i < 12; ++i) {
      assert_int_equal(other[i].call.id, i % 3);
      assert_int_equal(other[i].call.epoch, 4 + i / 3);
      for (int64_t k = 0; k < i; ++k)
        assert_true(other[k].call.key != other[i].call.key);
    }
  }
}

TEST(ids_of_a_batch_are_those_of_its_source) {
  for (int way = 0; way < 4; ++way) {
    ls_dataset *a = ls_dataset_shuffle(count_to(10), NULL);
    ls_dataset *b = ls_dataset_range(100, 105, 1);
    if (way & 1) b = ls_dataset_shuffle(b, NULL);
    ls_dataset *d = ls_dataset_repeat(ls_dataset_concatenate(a, b), 3);
    d = ls_dataset_batch(d, &(ls_batch_options){.size = 8,
                                                .ids = true,
                                                .remainder = LS_REMAINDER_PAD});
    LS_OWN(ls_iterator, iterator) = pipeline_iterator(d, LS_SOME(way & 2));
    LS_OWN(ls_nest, batch) = ls_none();
    for (int64_t k = 0; k < 6; ++k) {
      expect_ok(ls_iterator_next(iterator, &batch));
      for (int64_t i = 0; i < 8; ++i) {
        const int64_t number =
            ls_array_i64(ls_nest_as_array(ls_nest_item(batch, 0)), i);
        const int64_t id =
            ls_array_i64(ls_nest_as_array(ls_nest_item(batch, 2)), i);
        const double mask =
            ls_array_f64(ls_nest_as_array(ls_nest_item(batch, 1)), i);
        const bool real = 8 * k + i < 45;
        assert_true(mask == (real ? 1 : 0));
        assert_int_equal(id, !real          ? -1
                             : number < 100 ? number
                                            : number - 100 + 10);
      }
    }
  }
}

// ---- Texts -----------------------------------------------------------------
static ls_dataset *doubles(int64_t rows, double last) {
  const ls_nest made = ls_nest_zeros(LS_DTYPE_F64, LS_SHAPE(rows));
  ((double *)ls_nest_data(made, 0))[rows - 1] = last;
  return ls_dataset_from_arrays(made);
}

static ls_dataset *strings_but(int64_t changed) {
  const ls_nest made = string_rows(20);
  ls_bytes *strings = ls_nest_data(made, 0);
  if (changed >= 0) ((char *)(uintptr_t)strings[changed].data)[0] = '!';
  return ls_dataset_from_arrays(made);
}

static ls_dataset *pair_of(ls_kind kind, int64_t a, int64_t b) {
  return ls_dataset_zip(ls_nest_sequence(
      kind,
      (ls_nest[]){ls_nest_dataset(count_to(a)), ls_nest_dataset(count_to(b))},
      2));
}

static ls_dataset *dict_of(const char *first) {
  const char *const keys[] = {first, "b"};
  return ls_dataset_zip(ls_nest_dict(
      "", keys,
      (ls_nest[]){ls_nest_dataset(count_to(2)), ls_nest_dataset(count_to(2))},
      2));
}

TEST(pipelines_that_differ_have_other_texts) {
  const ls_shape by_two = LS_SHAPE(2), by_three = LS_SHAPE(3),
                 longest = LS_SHAPE(-1), flat = LS_SHAPE(1);
  const int64_t size = 2;
  const double zero = 0, tenth = 0.1, near_tenth = 0.1 + 1e-16;
#define SHUFFLE(...)                                                           \
  ls_dataset_shuffle(count_to(9), &(ls_shuffle_options){__VA_ARGS__})
#define BATCH(...)                                                             \
  ls_dataset_batch(count_to(9), &(ls_batch_options){__VA_ARGS__})
#define PADDED(...)                                                            \
  ls_dataset_batch(                                                            \
      ragged_to(9),                                                            \
      &(ls_batch_options){.size = 2, .num_padded_shapes = 1, __VA_ARGS__})
#define BUCKET(...)                                                            \
  ls_dataset_bucket(ragged_to(9), &(ls_bucket_options){                        \
                                      .sizes = &size,                          \
                                      .padded_shapes = &longest,               \
                                      .num_padded_shapes = 1,                  \
                                      __VA_ARGS__})
#define CONVERT(...)                                                           \
  ls_dataset_convert(count_to(9), 0, &(ls_convert_options){__VA_ARGS__})
  ls_dataset *const all[] = {
      count_to(9),
      ls_dataset_range(0, 9, 2),
      ls_dataset_range(1, 9, 1),
      doubles(1000, 1),
      doubles(1000, 2),
      doubles(1001, 1),
      strings_but(-1),
      strings_but(0),
      strings_but(19),
      ragged_to(8),
      ragged_to(9),
      SHUFFLE(.seed = 0),
      SHUFFLE(.seed = 1),
      SHUFFLE(.each_epoch = LS_FLAG_OFF),
      SHUFFLE(.buffer = 3),
      SHUFFLE(.buffer = 4),
      ls_dataset_take(count_to(9), 3),
      ls_dataset_take(count_to(9), 4),
      ls_dataset_skip(count_to(9), 3),
      ls_dataset_skip(count_to(9), 4),
      ls_dataset_shard(count_to(9), 3, 0),
      ls_dataset_shard(count_to(9), 3, 1),
      ls_dataset_shard(count_to(9), 4, 0),
      ls_dataset_repeat(count_to(9), 3),
      ls_dataset_repeat(count_to(9), -1),
      ls_dataset_concatenate(count_to(9), count_to(8)),
      ls_dataset_concatenate(count_to(8), count_to(9)),
      pair_of(LS_KIND_LIST, 2, 3),
      pair_of(LS_KIND_TUPLE, 2, 3),
      pair_of(LS_KIND_TUPLE, 3, 2),
      dict_of("a"),
      dict_of("c"),
      BATCH(.size = 2),
      BATCH(.size = 3),
      BATCH(.size = 2, .ids = true),
      BATCH(.size = 2, .remainder = LS_REMAINDER_DROP),
      BATCH(.size = 2, .remainder = LS_REMAINDER_PAD),
      PADDED(.padded_shapes = &longest),
      PADDED(.padded_shapes = &by_two),
      PADDED(.padded_shapes = &by_three),
      PADDED(.padded_shapes = &longest, .padding = &tenth),
      PADDED(.padded_shapes = &longest, .padding = &near_tenth),
      BUCKET(.padding = &tenth),
      BUCKET(.padding = &near_tenth),
      CONVERT(.dtype = LS_DTYPE_F32),
      CONVERT(.dtype = LS_DTYPE_F64),
      CONVERT(.dtype = LS_DTYPE_F64, .scale = 0.1),
      CONVERT(.dtype = LS_DTYPE_F64, .scale = near_tenth),
      CONVERT(.dtype = LS_DTYPE_F64, .offset = 0.1),
      CONVERT(.dtype = LS_DTYPE_F64, .shape = &flat),
      noted(count_to(9), false, 0),
      noted(count_to(9), false, 1),
      ls_dataset_map(
          count_to(9),
          &(ls_map_options){.name = "a",
                            .call = keep,
                            .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)}),
      ls_dataset_map(count_to(9),
                     &(ls_map_options){
                         .name = "a",
                         .call = keep,
                         .result = ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1))}),
  };
  (void)zero;
  enum { ROOM = 512 };
  static char texts[LS_COUNT_OF(all)][ROOM];
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i) {
    expect_ok(ls_dataset_status(all[i]));
    ls_dataset_print(all[i], texts[i], ROOM);
    for (size_t k = 0; k < i; ++k)
      if (strcmp(texts[i], texts[k]) == 0)
        fail_msg("data sets %zu and %zu are both %s", k, i, texts[i]);
  }
  // And the same ones the same.
  LS_OWN(ls_dataset, again) = strings_but(19);
  char text[ROOM];
  assert_string_equal(ls_dataset_print(again, text, ROOM), texts[8]);
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i)
    ls_dataset_release(all[i]);
}

TEST(a_position_is_only_its_own_pipelines) {
  // Texts that differ far behind what is kept of them.
  ls_iterator *iterators[2] = {NULL};
  LS_OWN(ls_record, record) = NULL;
  for (int which = 0; which < 2; ++which) {
    ls_dataset *d = count_to(9);
    for (int i = 0; i < 900; ++i)
      d = ls_dataset_repeat(d, 1);
    iterators[which] =
        pipeline_iterator(ls_dataset_take(d, 5 + which), LS_SOME(0));
  }
  expect_ok(ls_record_create(&record));
  expect_ok(ls_iterator_save(iterators[0], record));
  expect_ok(ls_iterator_restore(iterators[0], record));
  expect_status(ls_iterator_restore(iterators[1], record), LS_INVALID_ARGUMENT,
                "the checkpoint's input of 'iterator' was range(0, 9, 1)");
  for (int which = 0; which < 2; ++which)
    ls_iterator_release(iterators[which]);
}
