// SPDX-License-Identifier: Apache-2.0
#include "support/expect.h"

#include <math.h>

#include "data/own.h"
#include "lockstep/data.h"
#include "lockstep/iterator.h"

static ls_nest first_of(const ls_synthetic_options *options) {
  LS_OWN(ls_dataset, dataset) = ls_dataset_synthetic(options);
  LS_OWN(ls_iterator, iterator) = NULL;
  ls_nest element = ls_none();
  expect_ok(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  expect_ok(ls_iterator_next(iterator, &element));
  return element;
}

TEST(an_example_has_a_label_or_one_for_each_part) {
  LS_OWN(ls_nest, whole) = first_of(
      &(ls_synthetic_options){.shape = LS_SHAPE(4, 2, 3), .num_classes = 3});
  assert_int_equal(
      ls_array_shape(ls_nest_as_array(ls_nest_item(whole, 1))).rank, 0);
  LS_OWN(ls_nest, parts) =
      first_of(&(ls_synthetic_options){.shape = LS_SHAPE(4, 2, 3),
                                       .num_classes = 3,
                                       .label_shape = LS_SHAPE(4, 2)});
  const ls_array *labels = ls_nest_as_array(ls_nest_item(parts, 1));
  assert_true(ls_shape_equal(ls_array_shape(labels), LS_SHAPE(4, 2)));
  for (int64_t i = 0; i < 8; ++i)
    assert_int_equal(ls_array_i64(labels, i), i / 2 % 3);
  // Noise is half of a number: a color differs from its class by less.
  const ls_array *pixels = ls_nest_as_array(ls_nest_item(parts, 0));
  for (int64_t k = 0; k < 3; ++k)
    assert_true(fabs(ls_array_f64(pixels, k) - ls_array_f64(pixels, 3 + k)) <
                0.5);
}

TEST(labels_that_do_not_fit_are_refused) {
  const ls_synthetic_options rows[] = {
      {.shape = LS_SHAPE(4, 2, 3), .label_shape = LS_SHAPE(5)},
      {.shape = LS_SHAPE(4), .label_shape = LS_SHAPE(0)},
      {.shape = LS_SHAPE(4), .label_shape = LS_SHAPE_UNKNOWN},
      {.shape = LS_SHAPE(4), .dtype = LS_DTYPE_I32, .label_shape = LS_SHAPE(2)},
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); ++i) {
    LS_OWN(ls_dataset, dataset) = ls_dataset_synthetic(&rows[i]);
    expect_status(ls_dataset_status(dataset), LS_INVALID_ARGUMENT,
                  "have a label, or");
  }
}
