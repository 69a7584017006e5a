// SPDX-License-Identifier: Apache-2.0
//
// Indexed data sets and iterators on them.
#include "support/expect.h"
#include "support/process.h"

#include <string.h>
#include <time.h>

#include "data/own.h"
#include "lockstep/dataset.h"
#include "lockstep/element_spec.h"
#include "lockstep/iterator.h"
#include "lockstep/record.h"

static ls_iterator *iterate(ls_dataset *dataset, ls_opt prefetch) {
  ls_iterator *iterator = NULL;
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = prefetch}, &iterator));
  ls_dataset_release(dataset);
  return iterator;
}

static int64_t number_of(ls_nest element) {
  return ls_array_i64(ls_nest_as_array(element), 0);
}

// All of an epoch; -1 behind it.
enum { MOST = 1000 };
static void read_all(ls_iterator *iterator, int64_t *numbers) {
  LS_OWN(ls_nest, element) = ls_none();
  int count = 0;
  for (;;) {
    ls_status status = ls_iterator_next(iterator, &element);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) {
      ls_status_free(status);
      break;
    }
    expect_ok(status);
    assert_true(count < MOST - 1);
    numbers[count++] = number_of(element);
  }
  numbers[count] = -1;
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
}

static void expect_numbers(ls_dataset *dataset, const int64_t *wanted,
                           size_t count) {
  for (int prefetch = 0; prefetch < 10; prefetch += 3) {
    LS_OWN(ls_iterator, iterator) =
        iterate(ls_dataset_retain(dataset), LS_SOME(prefetch));
    int64_t numbers[MOST];
    read_all(iterator, numbers);
    for (size_t i = 0; i < count; ++i)
      if (numbers[i] != wanted[i])
        fail_msg("element %zu is %lld, not %lld", i, (long long)numbers[i],
                 (long long)wanted[i]);
    assert_int_equal(numbers[count], -1);
  }
  assert_int_equal(ls_dataset_cardinality(dataset), count);
  ls_dataset_release(dataset);
}
#define EXPECT(dataset, ...)                                                   \
  expect_numbers((dataset), (const int64_t[]){__VA_ARGS__},                    \
                 sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

TEST(ranges_are_cut_and_joined) {
  EXPECT(ls_dataset_range(3, 10, 3), 3, 6, 9);
  EXPECT(ls_dataset_range(3, -4, -3), 3, 0, -3);
  EXPECT(ls_dataset_take(ls_dataset_range(0, 10, 1), 3), 0, 1, 2);
  EXPECT(ls_dataset_skip(ls_dataset_range(0, 10, 1), 8), 8, 9);
  EXPECT(ls_dataset_shard(ls_dataset_range(0, 10, 1), 4, 1), 1, 5, 9);
  EXPECT(ls_dataset_repeat(ls_dataset_range(0, 2, 1), 3), 0, 1, 0, 1, 0, 1);
  EXPECT(ls_dataset_concatenate(ls_dataset_range(0, 2, 1),
                                ls_dataset_range(7, 9, 1)),
         0, 1, 7, 8);
  EXPECT(ls_dataset_prefetch(ls_dataset_range(0, 4, 1), 3), 0, 1, 2, 3);
  EXPECT(ls_dataset_take(ls_dataset_repeat(ls_dataset_range(0, 2, 1), -1), 5),
         0, 1, 0, 1, 0);
}

TEST(a_shuffle_deals_each_element_once_and_another_order_each_epoch) {
  for (int64_t size = 1; size < 200; size = size * 3 / 2 + 1) {
    LS_OWN(ls_iterator, iterator) = iterate(
        ls_dataset_shuffle(ls_dataset_range(0, size, 1), NULL), LS_SOME(2));
    int64_t numbers[2][MOST];
    int same = 0;
    for (int epoch = 0; epoch < 2; ++epoch) {
      bool seen[MOST] = {false};
      read_all(iterator, numbers[epoch]);
      for (int64_t i = 0; i < size; ++i) {
        assert_in_range(numbers[epoch][i], 0, size - 1);
        assert_false(seen[numbers[epoch][i]]);
        seen[numbers[epoch][i]] = true;
        same += epoch == 1 && numbers[0][i] == numbers[1][i];
      }
      assert_int_equal(numbers[epoch][size], -1);
      expect_ok(ls_iterator_restart(iterator));
    }
    if (size > 20) assert_true(same < size / 2);
  }
}

static ls_status square(ls_nest element, ls_nest out, const ls_map_call *call,
                        void *user) {
  (void)user;
  if (number_of(element) == 66) return ls_invalid_argument("66 is refused");
  *(int64_t *)ls_nest_data(out, 0) =
      number_of(element) * number_of(element) + call->epoch;
  return ls_ok();
}

static ls_nest twice(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  ls_nest out = ls_nest_zeros(LS_DTYPE_I64, LS_SCALAR);
  *(int64_t *)ls_nest_data(out, 0) = number_of(element) * 2;
  return out;
}

static ls_dataset *squares(ls_dataset *dataset) {
  return ls_dataset_map(
      dataset,
      &(ls_map_options){.fill = square,
                        .name = "square",
                        .result = ls_nest_spec(LS_DTYPE_I64, LS_SCALAR)});
}

TEST(maps_are_functions_of_elements) {
  EXPECT(squares(ls_dataset_range(0, 4, 1)), 0, 1, 4, 9);
  EXPECT(ls_dataset_map(ls_dataset_range(1, 3, 1),
                        &(ls_map_options){.call = twice}),
         2, 4);
  EXPECT(ls_dataset_repeat(squares(ls_dataset_range(0, 2, 1)), 2), 0, 1, 1, 2);
  LS_OWN(ls_iterator, iterator) =
      iterate(squares(ls_dataset_range(65, 68, 1)), LS_SOME(2));
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_iterator_next(iterator, &element));
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "square");
  expect_ok(ls_iterator_next(iterator, &element));
}

TEST(batches_keep_drop_or_pad_what_is_left) {
  const struct {
    ls_batch_remainder remainder;
    int64_t rows[4];
  } cases[] = {{LS_REMAINDER_KEEP, {3, 3, 1, 0}},
               {LS_REMAINDER_DROP, {3, 3, 0, 0}},
               {LS_REMAINDER_PAD, {3, 3, 3, 0}}};
  for (size_t c = 0; c < 3; ++c) {
    LS_OWN(ls_iterator, iterator) = iterate(
        ls_dataset_batch(ls_dataset_range(10, 17, 1),
                         &(ls_batch_options){.size = 3,
                                             .remainder = cases[c].remainder,
                                             .ids = true}),
        LS_SOME(1));
    LS_OWN(ls_nest, element) = ls_none();
    for (int b = 0; cases[c].rows[b] > 0; ++b) {
      expect_ok(ls_iterator_next(iterator, &element));
      const bool pads = cases[c].remainder == LS_REMAINDER_PAD;
      const ls_array *numbers = ls_nest_as_array(ls_nest_item(element, 0));
      const ls_array *ids =
          ls_nest_as_array(ls_nest_item(element, pads ? 2 : 1));
      assert_int_equal(ls_array_shape(numbers).dim[0], cases[c].rows[b]);
      for (int64_t i = 0; i < cases[c].rows[b]; ++i) {
        const bool real = 3 * b + i < 7;
        assert_int_equal(ls_array_i64(numbers, i), real ? 10 + 3 * b + i : 0);
        assert_int_equal(ls_array_i64(ids, i), real ? 3 * b + i : -1);
        if (pads)
          assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(element, 1)),
                                   i) == (real ? 1 : 0));
      }
    }
    expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "end");
  }
}

static ls_dataset *long_pipeline(void) {
  return ls_dataset_batch(
      squares(ls_dataset_shuffle(ls_dataset_range(0, 1000000000, 1),
                                 &(ls_shuffle_options){.seed = 5})),
      &(ls_batch_options){.size = 10});
}

TEST(a_position_is_saved_and_restored_at_once) {
  const int64_t places[] = {0, 1000, 100000000};
  for (size_t p = 0; p < 3; ++p) {
    LS_OWN(ls_iterator, a) = iterate(long_pipeline(), (ls_opt){0});
    LS_OWN(ls_iterator, b) = iterate(long_pipeline(), LS_SOME(0));
    expect_ok(ls_iterator_seek(a, places[p] / 10));
    LS_OWN(ls_record, record) = NULL;
    expect_ok(ls_record_create(&record));
    const double began = seconds_now();
    expect_ok(ls_iterator_save(a, record));
    expect_ok(ls_iterator_restore(b, record));
    assert_true(seconds_now() - began < 0.1);
    LS_OWN(printed, text) = NULL;
    size_t size = 0;
    expect_ok(ls_record_to_text(record, &text, &size));
    assert_true(size <= 1024);
    LS_OWN(ls_nest, x) = ls_none();
    LS_OWN(ls_nest, y) = ls_none();
    for (int i = 0; i < 100; ++i) {
      expect_ok(ls_iterator_next(a, &x));
      expect_ok(ls_iterator_next(b, &y));
      assert_memory_equal(ls_nest_data(x, 0), ls_nest_data(y, 0), 80);
    }
  }
}
