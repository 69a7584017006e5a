// SPDX-License-Identifier: Apache-2.0
//
// Batches of predictions: signals that come with them, and what is padded.
#include <string.h>

#include "data/dataset.h"
#include "distribute/input/feed.h"
#include "estimator/input/input.h"
#include "lockstep/element_spec.h"
#include "lockstep/session.h"
#include "support/fed.h"
#include "support/function.h"
#include "support/spec.h"

// ---- Data sets -------------------------------------------------------------
static const ls_array *array_of(ls_nest element, const char *key,
                                const char *inner) {
  ls_nest leaf = ls_nest_find(element, key);
  if (inner != NULL) leaf = ls_nest_find(leaf, inner);
  return ls_nest_as_array(leaf);
}

static void expect_numbers(const ls_array *array, const double *numbers,
                           int64_t count) {
  assert_non_null(array);
  assert_int_equal(ls_array_num_elements(array), count);
  for (int64_t i = 0; i < count; ++i)
    assert_true(ls_array_f64(array, i) == numbers[i]);
}
#define EXPECT_NUMBERS(array, ...)                                             \
  expect_numbers((array), (const double[]){__VA_ARGS__},                       \
                 sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static ls_iterator *iterate(ls_dataset *dataset) {
  ls_iterator *iterator = NULL;
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  ls_dataset_release(dataset);
  return iterator;
}

static bool stops(ls_nest element, int64_t batch) {
  const ls_array *stopping = array_of(element, "signals", LS_SIGNAL_STOPPING);
  assert_int_equal(ls_array_dtype(stopping), LS_DTYPE_BOOL);
  assert_true(ls_shape_equal(ls_array_shape(stopping), LS_SHAPE(batch, 1)));
  for (int64_t i = 1; i < batch; ++i)
    assert_int_equal(ls_array_i64(stopping, i), ls_array_i64(stopping, 0));
  return ls_array_i64(stopping, 0) != 0;
}

TEST(a_stop_comes_behind_the_last_batch) {
  LS_SPEC("E92 E93");
  static const struct {
    int64_t rows, at_once;
    int real, stop;
  } cases[] = {{10, 1, 3, 1}, {8, 1, 2, 1}, {10, 2, 3, 3},
               {10, 3, 3, 5}, {0, 1, 0, 0}, {0, 2, 0, 0}};
  LS_OWN(counted, c) = counted_begin(1);
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i)
    for (int pads = 0; pads < 2; ++pads) {
      if (!pads && cases[i].rows % 4 != 0) continue;
      LS_OWN(ls_nest, element) = ls_none();
      int count = 0;
      LS_OWN(ls_iterator, iterator) = iterate(
          ls_even_batches(fed_rows(cases[i].rows, 4),
                          &(ls_even_options){.rule = LS_END_SIGNALLED,
                                             .shares = {.parts = 1, .room = 4},
                                             .pads = pads,
                                             .at_once = cases[i].at_once}));
      ls_status status = ls_ok();
      while (ls_status_is_ok(status = ls_iterator_next(iterator, &element))) {
        const ls_array *mask = array_of(element, "signals", LS_SIGNAL_PADDING);
        assert_int_equal(stops(element, 4), count >= cases[i].real);
        assert_true((mask != NULL) == (pads == 1));
        assert_null(array_of(element, "labels", NULL));
        if (mask != NULL) assert_int_equal(ls_array_dtype(mask), LS_DTYPE_I32);
        const ls_array *x = array_of(element, "features", NULL);
        if (count == 2 && cases[i].real == 3) {
          EXPECT_NUMBERS(x, 8, 9, 0, 0);
          EXPECT_NUMBERS(mask, 0, 0, 1, 1);
        } else if (count < cases[i].real) {
          EXPECT_NUMBERS(x, 4 * count, 4 * count + 1, 4 * count + 2,
                         4 * count + 3);
          if (mask != NULL) EXPECT_NUMBERS(mask, 0, 0, 0, 0);
        } else {
          EXPECT_NUMBERS(x, 0, 1, 2, 3);  // The first one.
          if (mask != NULL && cases[i].at_once > 1)
            EXPECT_NUMBERS(mask, 1, 1, 1, 1);
          else if (mask != NULL)
            EXPECT_NUMBERS(mask, 0, 0, 0, 0);
        }
        ++count;
      }
      expect_status(status, LS_OUT_OF_RANGE, "");
      assert_int_equal(count, cases[i].real + cases[i].stop);
    }
  // Two are made ahead.
  LS_OWN(ls_dataset, made) = ls_even_batches(
      fed_rows(8, 4), &(ls_even_options){.rule = LS_END_SIGNALLED,
                                         .shares = {.parts = 1, .room = 4}});
  assert_int_equal(made->prefetch, 2);
}

static ls_nest pair_of(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return LS_TUPLE(ls_nest_retain(element), ls_nest_retain(element));
}
static ls_nest list_of(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return LS_LIST(ls_nest_retain(element), ls_nest_retain(element));
}
static ls_nest triple_of(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  return LS_TUPLE(ls_nest_retain(element), ls_nest_retain(element),
                  ls_nest_retain(element));
}

TEST(elements_are_features_or_pairs) {
  LS_SPEC("E93 E96");
  LS_OWN(counted, c) = counted_begin(1);
  const ls_even_options options = {.rule = LS_END_SIGNALLED,
                                   .shares = {.parts = 1, .room = 4},
                                   .pads = true,
                                   .at_once = 1};
  ls_nest element = ls_none();
  ls_iterator *iterator = iterate(ls_even_batches(
      ls_dataset_map(fed_rows(4, 2), &(ls_map_options){.call = pair_of}),
      &options));
  expect_ok(ls_iterator_next(iterator, &element));
  EXPECT_NUMBERS(array_of(element, "features", NULL), 0, 1, 0, 0);
  EXPECT_NUMBERS(array_of(element, "labels", NULL), 0, 1, 0, 0);
  ls_nest_release(element);
  ls_iterator_release(iterator);
  element = ls_none();
  iterator = iterate(ls_even_batches(
      ls_dataset_map(fed_rows(4, 2), &(ls_map_options){.call = list_of}),
      &options));
  expect_ok(ls_iterator_next(iterator, &element));
  assert_int_equal(ls_nest_find(element, "features").kind, LS_KIND_LIST);
  assert_int_equal(ls_nest_count(element), 2);
  ls_nest_release(element);
  ls_iterator_release(iterator);
  LS_OWN(ls_dataset, refused) = ls_even_batches(
      ls_dataset_map(fed_rows(4, 2), &(ls_map_options){.call = triple_of}),
      &options);
  expect_status(ls_dataset_status(refused), LS_INVALID_ARGUMENT,
                "(features, labels)");
}

// ---- Signals ---------------------------------------------------------------
TEST(a_signal_is_the_first_of_a_batch) {
  LS_SPEC("E95");
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  ls_nest fetches[2];
  {
    LS_GRAPH_SCOPE(graph);
    for (int i = 0; i < 2; ++i) {
      static const char *const keys[] = {LS_SIGNAL_STOPPING};
      const ls_nest stopping =
          ls_leaf(ls_fill(LS_DTYPE_BOOL, LS_SHAPE(3, 1), i));
      const ls_nest signals = ls_nest_dict("", keys, &stopping, 1);
      const ls_tensor signal = ls_stopping_signal(signals);
      ls_nest_release(signals);
      const ls_nest stop = ls_should_stop(ls_leaf(signal));
      assert_int_equal(ls_tensor_shape(signal).rank, 0);
      assert_int_equal(stop.kind, LS_KIND_TENSOR);
      assert_string_equal(ls_op_type_name(ls_tensor_op(stop.as.tensor)), "and");
      fetches[i] = LS_LIST(ls_leaf(signal), stop);
    }
  }
  LS_OWN(ls_session, session) = session_of(graph);
  for (int i = 0; i < 2; ++i) {
    LS_OWN(ls_nest, results) = session_results(session, fetches[i]);
    for (size_t k = 0; k < 2; ++k) {
      const ls_nest got = ls_should_stop(ls_nest_item(results, k));
      assert_int_equal(got.kind, LS_KIND_SCALAR);
      assert_int_equal(ls_nest_number(got), i);
    }
    ls_nest_release(fetches[i]);
    assert_int_equal(ls_nest_number(ls_should_stop(ls_nest_bool(i))), i);
  }
}

// ---- The order of asking ---------------------------------------------------
TEST(a_source_is_asked_in_order) {
  LS_SPEC("E90 E91 E94");
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    ls_feed_source source;
    ls_feed_element first, second;
    ls_nest signals = ls_none();
    LS_OWN(ls_dataset, data) = fed_rows(8, 4);
    const ls_nest x = ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1));
    // Both is an error of ours.
    expect_status(ls_feed_source_init(&source, data, x, ls_none()),
                  LS_FAILED_PRECONDITION, "internal error");
    // A data set: the initializer comes first, each asking is another op.
    LS_OWN(ls_dataset, full) =
        ls_even_batches(ls_dataset_retain(data),
                        &(ls_even_options){.shares = {.parts = 1, .room = 4}});
    expect_ok(ls_feed_source_init(&source, full, ls_none(), ls_none()));
    expect_status(ls_feed_source_next(&source, &first), LS_FAILED_PRECONDITION,
                  "initializer");
    expect_ok(ls_feed_source_begin(&source, "x", 0));
    expect_ok(ls_feed_source_next(&source, &first));
    expect_ok(ls_feed_source_next(&source, &second));
    assert_false(
        ls_tensor_equal(first.features.as.tensor, second.features.as.tensor));
    expect_ok(ls_feed_source_signals(&source, &signals));
    assert_int_equal(signals.kind, LS_KIND_NONE);
    ls_feed_element_drop(&first);
    ls_feed_element_drop(&second);
    ls_feed_source_deinit(&source);
    // Values: the same each time.
    const ls_nest pair = LS_TUPLE(x, x);
    expect_ok(ls_feed_source_of(&source, pair));
    expect_ok(ls_feed_source_next(&source, &first));
    expect_ok(ls_feed_source_next(&source, &second));
    assert_true(ls_nest_is_same(first.features, second.features));
    assert_true(ls_nest_is_same(first.labels, second.labels));
    ls_feed_element_drop(&first);
    ls_feed_element_drop(&second);
    ls_feed_source_deinit(&source);
    ls_nest_release(pair);
    const ls_nest others[] = {LS_TUPLE(x, x, x), LS_TUPLE(x)};
    for (int i = 0; i < 2; ++i) {
      expect_status(ls_feed_source_of(&source, others[i]), LS_INVALID_ARGUMENT,
                    "len 2 tuple");
      ls_feed_source_deinit(&source);
      ls_nest_release(others[i]);
    }
    const ls_nest list = LS_LIST(x, x);
    expect_ok(ls_feed_source_of(&source, list));
    assert_int_equal(source.features.kind, LS_KIND_LIST);
    assert_int_equal(source.labels.kind, LS_KIND_NONE);
    ls_feed_source_deinit(&source);
    ls_nest_release(list);
    // Signals: between two elements, and once each.
    expect_ok(ls_feed_source_init(&source, data, ls_none(), ls_none()));
    expect_ok(ls_feed_source_make_even(
        &source, &(ls_even_options){.rule = LS_END_SIGNALLED,
                                    .shares = {.parts = 1, .room = 4},
                                    .pads = true}));
    expect_ok(ls_feed_source_begin(&source, "x", 0));
    expect_status(ls_feed_source_signals(&source, &signals),
                  LS_FAILED_PRECONDITION, "before their features");
    for (int k = 0; k < 2; ++k) {
      expect_ok(ls_feed_source_next(&source, &first));
      expect_status(ls_feed_source_next(&source, &second),
                    LS_FAILED_PRECONDITION, "twice");
      expect_ok(ls_feed_source_signals(&source, &signals));
      assert_int_equal(signals.kind, LS_KIND_DICT);
      ls_nest_release(signals);
      expect_status(ls_feed_source_signals(&source, &signals),
                    LS_FAILED_PRECONDITION, "before their features");
      ls_feed_element_drop(&first);
    }
    ls_feed_source_deinit(&source);
  }
}

// ---- Padding ---------------------------------------------------------------
static ls_nest numbers(ls_dtype dtype, ls_shape shape) {
  const ls_nest made = ls_nest_zeros(dtype, shape);
  ls_array *array = ls_nest_as_array(made);
  for (int64_t i = 0; i < ls_array_num_elements(array); ++i)
    ls_array_set_f64(array, i, (double)(i + 1));
  return made;
}

static void expect_failed(ls_nest nest, const char *says) {
  expect_status(ls_nest_status(nest), LS_INVALID_ARGUMENT, says);
  ls_nest_release(nest);
}

TEST(short_batches_get_zeros_behind) {
  LS_SPEC("E96");
  LS_OWN(counted, c) = counted_begin(1);
  const ls_row_shares four = {.parts = 1, .room = 4};
  static const char *const keys[] = {"b", "a"};
  int64_t count = 0;
  // The first in the order of flattening says how many.
  const ls_nest items[] = {numbers(LS_DTYPE_F32, LS_SHAPE(2, 2)),
                           numbers(LS_DTYPE_I32, LS_SHAPE(2))};
  LS_OWN(ls_nest, features) = ls_nest_dict("", keys, items, 2);
  expect_ok(ls_shares_count(&four, features, &count));
  assert_int_equal(count, 2);
  const ls_nest wide = numbers(LS_DTYPE_F32, LS_SHAPE(4, 3));
  expect_ok(ls_shares_count(&four, wide, &count));
  assert_int_equal(count, 4);  // The first dimension's, and no more than fit.
  ls_nest_release(wide);
  count = 2;
  LS_OWN(ls_nest, padded) = ls_shares_pad(&four, 0, features, count);
  EXPECT_NUMBERS(array_of(padded, "a", NULL), 1, 2, 0, 0);
  EXPECT_NUMBERS(array_of(padded, "b", NULL), 1, 2, 3, 4, 0, 0, 0, 0);
  assert_true(ls_shape_equal(ls_array_shape(array_of(padded, "b", NULL)),
                             LS_SHAPE(4, 2)));
  LS_OWN(ls_nest, mask) = ls_shares_mask(&four, count, LS_DTYPE_I32, false);
  EXPECT_NUMBERS(ls_nest_as_array(mask), 0, 0, 1, 1);
  assert_int_equal(ls_array_dtype(ls_nest_as_array(mask)), LS_DTYPE_I32);
  // What is full stays.
  LS_OWN(ls_nest, same) =
      ls_shares_pad(&(ls_row_shares){.parts = 1, .room = 2}, 0, features, 2);
  assert_ptr_equal(array_of(same, "a", NULL), array_of(features, "a", NULL));
  expect_status(ls_shares_count(&(ls_row_shares){.parts = 1, .room = 1},
                                features, &count),
                LS_INVALID_ARGUMENT,
                "The real batch size should not be greater than batch_size");
  const ls_nest nothing = LS_LIST(ls_none());
  expect_status(ls_shares_count(&four, nothing, &count), LS_INVALID_ARGUMENT,
                "Cannot find any Tensor");
  ls_nest_release(nothing);
  LS_OWN(ls_nest, scalar) = numbers(LS_DTYPE_F32, LS_SCALAR);
  expect_failed(ls_shares_pad(&four, 0, scalar, 2), "scalar");
  LS_OWN(ls_nest, three) = numbers(LS_DTYPE_F32, LS_SHAPE(3));
  expect_failed(ls_shares_pad(&four, 0, three, 2),
                "a batch of 2 examples has a leaf f32[3]");
  // What elements are then.
  ls_element_spec spec;
  ls_dataset *made = ls_even_batches(
      fed_rows(10, 3), &(ls_even_options){.rule = LS_END_SIGNALLED,
                                          .shares = four,
                                          .pads = true});
  expect_ok(ls_dataset_spec(made, &spec));
  assert_int_equal(spec.count, 3);
  assert_true(ls_shape_equal(spec.leaves[0].type.shape, LS_SHAPE(4)));
  assert_true(ls_shape_equal(spec.leaves[1].type.shape, LS_SHAPE(4)));
  assert_true(ls_shape_equal(spec.leaves[2].type.shape, LS_SHAPE(4, 1)));
  ls_dataset_release(made);
  made = ls_even_batches(ls_dataset_range(0, 4, 1),
                         &(ls_even_options){.rule = LS_END_SIGNALLED,
                                            .shares = four,
                                            .pads = true});
  expect_status(ls_dataset_status(made), LS_INVALID_ARGUMENT, "i64[]");
  ls_dataset_release(made);
  // Too many come to light when they are read.
  LS_OWN(ls_nest, element) = ls_none();
  LS_OWN(ls_iterator, iterator) = iterate(ls_even_batches(
      fed_rows(10, 5), &(ls_even_options){.rule = LS_END_SIGNALLED,
                                          .shares = four,
                                          .pads = true}));
  expect_status(ls_iterator_next(iterator, &element), LS_INVALID_ARGUMENT,
                "The real batch size should not be greater than batch_size");
}

// ---- Rows of predictions ---------------------------------------------------
static ls_nest mask_of(const int *bits, int64_t count) {
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(count));
  for (int64_t i = 0; i < count; ++i)
    ls_array_set_i64(ls_nest_as_array(made), i, bits[i]);
  return made;
}

TEST(kept_rows_own_their_strings) {
  static const int bits[] = {0, 1};
  static const char text[] = "a row of text";
  const ls_bytes rows[] = {{text, sizeof(text) - 1}, {text, sizeof(text) - 1}};
  ls_array *strings = NULL;
  ls_nest got = ls_none();
  expect_ok(ls_array_create_copy(LS_DTYPE_STRING, LS_SHAPE(2), rows, &strings));
  ls_nest all = ls_nest_array(strings);
  LS_OWN(ls_nest, padding) = mask_of(bits, 2);
  expect_ok(ls_predictions_rows(all, padding, false, &got));
  const ls_bytes *kept = ls_array_data(ls_nest_as_array(got));
  assert_ptr_not_equal(kept[0].data,
                       ((const ls_bytes *)ls_array_data(strings))[0].data);
  ls_nest_release(all);
  assert_string_equal(kept[0].data, text);
  ls_nest_release(got);
}

TEST(only_real_rows_are_kept) {
  LS_SPEC("E97");
  LS_OWN(counted, c) = counted_begin(1);
  static const char *const keys[] = {"x", "y"};
  static const int short_bits[] = {0, 0, 1, 1}, full_bits[] = {0, 0, 0, 0},
                   no_bits[] = {1, 1, 1, 1}, odd_bits[] = {0, 1, 0, 1};
  const ls_nest items[] = {numbers(LS_DTYPE_F32, LS_SHAPE(4, 2)),
                           numbers(LS_DTYPE_I64, LS_SHAPE(4))};
  LS_OWN(ls_nest, all) = ls_nest_dict("", keys, items, 2);
  LS_OWN(ls_nest, some) = mask_of(short_bits, 4);
  LS_OWN(ls_nest, full) = mask_of(full_bits, 4);
  LS_OWN(ls_nest, none) = mask_of(no_bits, 4);
  LS_OWN(ls_nest, odd) = mask_of(odd_bits, 4);
  ls_nest got = ls_none();
  int64_t rows = 0;
  expect_ok(ls_predictions_rows(all, some, false, &got));
  EXPECT_NUMBERS(array_of(got, "x", NULL), 1, 2, 3, 4);
  EXPECT_NUMBERS(array_of(got, "y", NULL), 1, 2);
  ls_nest_release(got);
  expect_ok(ls_predictions_rows(all, none, false, &got));
  assert_int_equal(ls_array_num_elements(array_of(got, "y", NULL)), 0);
  ls_nest_release(got);
  // Whole: nothing is padded, or it is the stop.
  expect_ok(ls_predictions_rows(all, full, false, &got));
  assert_ptr_equal(array_of(got, "x", NULL), array_of(all, "x", NULL));
  ls_nest_release(got);
  expect_ok(ls_predictions_rows(all, some, true, &got));
  assert_ptr_equal(array_of(got, "x", NULL), array_of(all, "x", NULL));
  ls_nest_release(got);
  expect_ok(ls_predictions_rows(all, odd, true, &got));
  assert_ptr_equal(array_of(got, "x", NULL), array_of(all, "x", NULL));
  ls_nest_release(got);
  expect_ok(ls_predictions_rows(all, ls_none(), false, &got));
  assert_ptr_equal(array_of(got, "x", NULL), array_of(all, "x", NULL));
  ls_nest_release(got);
  expect_ok(ls_predictions_keep(all, some, &rows));
  assert_int_equal(rows, 2);
  expect_ok(ls_predictions_keep(all, ls_none(), &rows));
  assert_int_equal(rows, 4);
  // Two replicas, each with a row of padding after a real one.
  expect_ok(ls_predictions_rows(all, odd, false, &got));
  EXPECT_NUMBERS(array_of(got, "x", NULL), 1, 2, 5, 6);
  EXPECT_NUMBERS(array_of(got, "y", NULL), 1, 3);
  ls_nest_release(got);
  // A leaf with other rows than the mask.
  static const int three_bits[] = {0, 0, 1};
  LS_OWN(ls_nest, three) = mask_of(three_bits, 3);
  expect_status(ls_predictions_keep(all, three, &rows), LS_INVALID_ARGUMENT,
                "'x'");
  expect_ok(ls_predictions_check(all, 4));
  expect_status(ls_predictions_check(all, 3), LS_INVALID_ARGUMENT, "'x'");
}

// ---- Feeds -----------------------------------------------------------------
static ls_nest ten_rows(void *user, ls_input_call *call) {
  (void)user;
  return ls_nest_dataset(
      fed_rows(10, ls_params_i64(call->params, "batch_size", 0)));
}
static ls_nest no_rows(void *user, ls_input_call *call) {
  (void)user;
  return ls_nest_dataset(
      fed_rows(0, ls_params_i64(call->params, "batch_size", 0)));
}
static ls_nest a_value(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(4), 1));
}

typedef struct taken {
  double features[4];
  int padded[4];
  bool stops;
} taken;

static taken take(fed *f, int ordinal, int rows) {
  taken t = {.stops = false};
  LS_OWN(ls_nest, tuple) = fed_take(f, 0, ordinal);
  ls_nest features = ls_none();
  assert_int_equal(ls_nest_count(tuple), 3);
  features = ls_nest_item(tuple, 0);
  const ls_array *mask = ls_nest_as_array(ls_nest_item(tuple, 1));
  const ls_array *stopping = ls_nest_as_array(ls_nest_item(tuple, 2));
  for (int i = 0; i < rows; ++i) {
    t.features[i] = ls_array_f64(ls_nest_as_array(features), i);
    t.padded[i] = (int)ls_array_i64(mask, i);
  }
  t.stops = ls_array_i64(stopping, 0) != 0;
  return t;
}

TEST(a_prediction_is_fed_until_it_stops) {
  LS_SPEC("E100 E118");
  fed f;
  fed_begin(&f, (fed_facts){.pod = "virtual:2x1,cores=1",
                            .mode = LS_MODE_PREDICT,
                            .batch = 4,
                            .input = ten_rows});
  assert_int_equal(f.seen[0].batch_size, 4);
  assert_false(f.feed.each_step);
  expect_ok(fed_run(&f, 0));
  for (int k = 0; k < 4; ++k)
    for (int o = 0; o < 2; ++o) {
      const taken t = take(&f, o, 2);
      const double first = k == 3 ? 2 * o : 4 * k + 2 * o;
      assert_int_equal(t.stops, k == 3);
      assert_true(t.features[0] == (k == 2 && o == 1 ? 0 : first));
      assert_int_equal(t.padded[1], k == 2 && o == 1);
    }
  // That was all.
  fed_close(&f);
  static const int64_t axes[] = {0};
  fed_refused((fed_facts){.pod = "virtual:2x1,cores=1",
                          .mode = LS_MODE_PREDICT,
                          .batch = 4,
                          .options = {.batch_axis = axes, .num_batch_axes = 1},
                          .input = ten_rows},
              LS_INVALID_ARGUMENT, "batch_axis is ignored in");
  fed_refused((fed_facts){.pod = "virtual:2x1,cores=1",
                          .mode = LS_MODE_PREDICT,
                          .batch = 4,
                          .input = a_value},
              LS_INVALID_ARGUMENT, "Dataset");
  // Of nothing there is no stop either.
  fed_begin(&f, (fed_facts){.pod = "virtual:2x1,cores=1",
                            .mode = LS_MODE_PREDICT,
                            .batch = 4,
                            .input = no_rows});
  expect_status(fed_run(&f, 0), LS_OUT_OF_RANGE, "");
  fed_close(&f);
}

// Three batches of two for two replicas: the last step has one and a stop.
TEST(replicas_of_a_host_stop_together) {
  LS_SPEC("E102");
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:2x1,cores=1",
                           .mode = LS_MODE_PREDICT,
                           .batch = 8,
                           .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
                           .input = ten_rows});
  assert_int_equal(f.seen[0].batch_size, 4);
  expect_ok(fed_run(&f, 0));
  for (int k = 0; k < 3; ++k) {
    const taken a = take(&f, 0, 4), b = take(&f, 1, 4);
    assert_int_equal(a.stops, k == 2);
    assert_int_equal(b.stops, k == 2);
    if (k == 1) {
      // Rows 8 and 9; the other replica has none.
      assert_true(a.features[1] == 9 && a.padded[1] == 0 && a.padded[2] == 1);
      for (int i = 0; i < 4; ++i)
        assert_int_equal(b.padded[i], 1);
    }
    if (k == 0) assert_true(b.features[3] == 7 && b.padded[3] == 0);
  }
}

TEST(a_prediction_is_fed_to_all_or_in_slices) {
  LS_SPEC("E104 E105");
  static const int64_t axes[] = {0};
  for (int sliced = 0; sliced < 2; ++sliced) {
    fed f;
    fed_begin(&f,
              (fed_facts){
                  .pod = "virtual:2x1,cores=1",
                  .mode = LS_MODE_PREDICT,
                  .batch = 4,
                  .tpu = {.per_host_input = sliced ? LS_INPUT_PER_HOST_V1
                                                   : LS_INPUT_BROADCAST,
                          .eval_training_input =
                              sliced ? LS_INPUT_SLICED : LS_INPUT_PER_HOST_V1},
                  // Not looked at.
                  .options = {.batch_axis = axes, .num_batch_axes = 1},
                  .input = ten_rows});
    expect_ok(fed_run(&f, 0));
    const int rows = sliced ? 2 : 4;
    for (int k = 0; k < 4; ++k)
      for (int o = 0; o < 2; ++o) {
        const taken t = take(&f, o, rows);
        assert_int_equal(t.stops, k == 3);
        if (k < 2)
          assert_true(t.features[1] == 4 * k + 1 + (sliced ? 2 * o : 0));
        if (k == 2) assert_int_equal(t.padded[rows - 1], sliced ? o : 1);
      }
    fed_close(&f);
    fed_refused((fed_facts){.pod = "virtual:2x1,cores=1",
                            .mode = LS_MODE_PREDICT,
                            .batch = 4,
                            .tpu.per_host_input = LS_INPUT_BROADCAST,
                            .input = a_value},
                LS_INVALID_ARGUMENT, "Dataset");
  }
}
