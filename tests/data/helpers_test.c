// SPDX-License-Identifier: Apache-2.0
//
// Compute threads that help who reads change nothing but the time.
#include "support/callbacks.h"
#include "support/expect.h"

#include <string.h>

#include "base/runtime_internal.h"
#include "data/iterator.h"
#include "data/own.h"
#include "lockstep/dataset.h"
#include "support/place.h"

enum { EXAMPLES = 500, WIDTH = 300, BATCH = 96 };

static ls_dataset *make(void) {
  ls_array *x = NULL, *y = NULL;
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(EXAMPLES, WIDTH), &x));
  expect_ok(ls_array_create(LS_DTYPE_U8, LS_SHAPE(EXAMPLES), &y));
  uint8_t *bytes = ls_array_mutable_data(x), *labels = ls_array_mutable_data(y);
  for (int i = 0; i < EXAMPLES * WIDTH; ++i)
    bytes[i] = (uint8_t)(i * 7 + i / 251);
  for (int i = 0; i < EXAMPLES; ++i)
    labels[i] = (uint8_t)i;
  ls_dataset *data =
      ls_dataset_from_arrays(LS_TUPLE(ls_nest_array(x), ls_nest_array(y)));
  data = ls_dataset_convert(
      ls_dataset_shuffle(data, NULL), 0,
      &(ls_convert_options){.dtype = LS_DTYPE_F32, .scale = 1.0 / 255});
  return ls_dataset_batch(
      data, &(ls_batch_options){
                .size = BATCH, .remainder = LS_REMAINDER_PAD, .ids = true});
}

// All bytes of two epochs, mixed.
static uint64_t digest(int threads, bool help) {
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = threads});
  LS_OWN(ls_dataset, data) = make();
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(
      data, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  if (help) expect_ok(ls_iterator_let_help(iterator));
  assert_int_equal(iterator->work.helpers != NULL, help && threads > 1);
  LS_OWN(ls_nest, batch) = ls_none();
  uint64_t sum = 1469598103934665603U;
  for (int epoch = 0; epoch < 2; ++epoch) {
    for (int i = 0; i < (EXAMPLES - 1) / BATCH + 1; ++i) {
      ls_nest leaves[4];
      expect_ok(ls_iterator_next(iterator, &batch));
      const size_t count = ls_nest_flatten(batch, leaves, 4);
      assert_int_equal(count, 4);
      for (size_t k = 0; k < count; ++k) {
        const ls_array *array = ls_nest_as_array(leaves[k]);
        const unsigned char *at = ls_array_data(array);
        for (size_t b = 0; b < ls_array_size(array); ++b)
          sum = (sum ^ at[b]) * 1099511628211U;
      }
    }
    expect_ok(ls_iterator_restart(iterator));
  }
  ls_iterator_stats stats;
  expect_ok(ls_iterator_get_stats(iterator, &stats));
  for (size_t i = 0; i < stats.num_stages; ++i)
    assert_true(stats.stages[i].nanos >= 0);
  return sum;
}

TEST(help_changes_no_byte) {
  const uint64_t wanted = digest(1, false);
  for (int threads = 1; threads <= 4; ++threads)
    assert_true(digest(threads, true) == wanted);
}

TEST(functions_of_users_are_not_called_by_helpers) {
  LS_OWN(ls_dataset, data) = make();
  assert_true(ls_dataset_is_quick(data));
  data = ls_dataset_map(data, &(ls_map_options){.call = keep_element});
  assert_false(ls_dataset_is_quick(data));
}
