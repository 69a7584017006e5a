// SPDX-License-Identifier: Apache-2.0
// Data sets that end on devices, and arrays on a strategy's host.
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "graph/graph.h"
#include "graph/variables/variable.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/streams.h"
#include "support/callbacks.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"

// ---- Prefetch to devices ----------------------------------------------------
static const char *const devices[] = {"/device:CPU:0", "/device:CPU:1"};

static ls_dataset *on_two(ls_dataset *dataset) {
  return ls_dataset_prefetch_to_devices(dataset, devices, 2, (ls_opt){0});
}

static ls_nest next_of(ls_iterator *iterator) {
  ls_nest element = ls_none();
  expect_ok(ls_iterator_next(iterator, &element));
  return element;
}

// The same numbers, read one after the other.
static ls_dataset *stream_of(int64_t count) {
  return ls_dataset_filter(ls_dataset_range(0, count, 1),
                           &(ls_filter_options){.call = keep_all});
}

TEST(a_list_of_devices_gives_lists) {
  LS_SPEC("M62 M63");
  for (int streams = 0; streams < 2; ++streams) {
    LS_OWN(ls_dataset, lists) =
        on_two(streams ? stream_of(5) : ls_dataset_range(0, 5, 1));
    ls_element_spec spec;
    expect_ok(ls_dataset_spec(lists, &spec));
    assert_int_equal(spec.structure.kind, LS_KIND_LIST);
    assert_int_equal(spec.count, 2);
    for (size_t i = 0; i < 2; ++i) {
      assert_int_equal(spec.leaves[i].type.dtype, LS_DTYPE_I64);
      assert_int_equal(spec.leaves[i].type.shape.rank, 0);
    }
    LS_OWN(ls_iterator, iterator) = NULL;
    expect_ok(ls_iterator_create(lists, NULL, &iterator));
    for (int epoch = 0; epoch < 2; ++epoch) {
      for (int64_t k = 0; k < 2; ++k) {
        LS_OWN(ls_nest, element) = next_of(iterator);
        for (int64_t i = 0; i < 2; ++i)
          assert_int_equal(
              ls_array_i64(ls_nest_as_array(ls_nest_item(element, (size_t)i)),
                           0),
              2 * k + i);
      }
      // What is left over is not given.
      ls_nest element = ls_none();
      for (int i = 0; i < 2; ++i)
        expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE,
                      "");
      expect_ok(ls_iterator_restart(iterator));
    }
    // Back to where it was.
    ls_nest_release(next_of(iterator));
    ls_record *record = NULL;
    expect_ok(ls_record_create(&record));
    expect_ok(ls_iterator_save(iterator, record));
    expect_ok(ls_iterator_restart(iterator));
    expect_ok(ls_iterator_restore(iterator, record));
    ls_record_destroy(record);
    LS_OWN(ls_nest, element) = next_of(iterator);
    assert_int_equal(
        ls_array_i64(ls_nest_as_array(ls_nest_item(element, 0)), 0), 2);
  }
}

TEST(one_device_gives_elements_as_they_are) {
  LS_SPEC("M63");
  for (int streams = 0; streams < 2; ++streams) {
    LS_OWN(ls_dataset, same) = ls_dataset_prefetch_to_device(
        streams ? stream_of(3) : ls_dataset_range(0, 3, 1), "gpu:0",
        LS_SOME(2));
    LS_OWN(ls_iterator, iterator) = NULL;
    expect_ok(ls_iterator_create(same, NULL, &iterator));
    for (int64_t i = 0; i < 3; ++i) {
      LS_OWN(ls_nest, element) = next_of(iterator);
      assert_int_equal(ls_array_i64(ls_nest_as_array(element), 0), i);
    }
  }
}

static ls_nest as_it_is(ls_nest element, const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  return ls_nest_retain(element);
}

TEST(nothing_is_made_of_what_is_on_devices) {
  LS_SPEC("M63");
  ls_dataset *last = on_two(ls_dataset_range(0, 4, 1));
#define LAST ls_dataset_retain(last)
  ls_dataset *const made[] = {
      ls_dataset_map(LAST, &(ls_map_options){.call = as_it_is}),
      ls_dataset_batch(LAST, &(ls_batch_options){.size = 2}),
      ls_dataset_take(LAST, 1),
      ls_dataset_repeat(LAST, 2),
      ls_dataset_prefetch(LAST, 1),
      ls_dataset_concatenate(ls_dataset_range(0, 1, 1), LAST),
      ls_dataset_shuffle(LAST, &(ls_shuffle_options){0}),
      ls_dataset_filter(LAST, &(ls_filter_options){.call = keep_all}),
      ls_dataset_shard_hint(LAST),
      on_two(LAST),
  };
#undef LAST
  for (size_t i = 0; i < LS_COUNT_OF(made); ++i) {
    expect_status(ls_dataset_status(made[i]), LS_UNIMPLEMENTED,
                  "after prefetch_to_devices");
    ls_dataset_release(made[i]);
  }
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  expect_refused(two, last, NULL, LS_UNIMPLEMENTED, "prefetch_to_devices");
}

TEST(devices_and_buffers_are_checked) {
  LS_SPEC("M62 M63");
  const char *const odd[] = {"/device:CPU:0", "/what:3"};
  const char *const null[] = {NULL};
  const struct {
    const char *const *devices;
    size_t count;
    ls_opt buffer;
    const char *says;
  } cases[] = {{NULL, 0, {0}, "to no devices"},
               {null, 1, {0}, "device 0 is NULL"},
               {odd, 2, {0}, "/what:3"},
               {devices, 2, LS_SOME(0), "buffers of 0 elements"}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    LS_OWN(ls_dataset, made) = ls_dataset_prefetch_to_devices(
        ls_dataset_range(0, 4, 1), cases[i].devices, cases[i].count,
        cases[i].buffer);
    expect_status(ls_dataset_status(made), LS_INVALID_ARGUMENT, cases[i].says);
  }
}

static int warnings;
static void count_warning(void *user, const ls_log_line *line) {
  (void)user;
  if (line->level == LS_LOG_WARNING && strstr(line->text, "get_next") != NULL)
    ++warnings;
}

TEST(many_reading_ops_are_warned_of) {
  LS_SPEC("M63");
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.log = count_warning});
  LS_OWN(ls_dataset, dataset) = on_two(ls_dataset_range(0, 100, 1));
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  LS_OWN(ls_graph, graph) = graph_named("input");
  {
    LS_GRAPH_SCOPE(graph);
    warnings = 0;
    for (int i = 1; i <= 34; ++i) {
      ls_nest_release(ls_iterator_get_next(iterator));
      assert_int_equal(warnings, i > 32 ? i - 32 : 0);
    }
  }
}

// ---- Arrays on the host -----------------------------------------------------
enum { ROWS = 7 };

// Rows of 12 bytes, and labels.
static ls_nest some_arrays(void) {
  const ls_nest x = ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(ROWS, 3));
  const ls_nest y = ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(ROWS));
  for (int64_t i = 0; i < (int64_t)ROWS * 3; ++i)
    ls_array_set_f64(ls_nest_as_array(x), i, 0.5 * (double)i);
  for (int64_t i = 0; i < ROWS; ++i)
    ls_array_set_i64(ls_nest_as_array(y), i, 100 + i);
  const char *const keys[] = {"x", "y"};
  return ls_nest_dict("", keys, (const ls_nest[]){x, y}, 2);
}

static void expect_rows(ls_dataset *dataset, ls_nest arrays) {
  LS_OWN(ls_iterator, iterator) = NULL;
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  const ls_array *x = ls_nest_as_array(ls_nest_find(arrays, "x"));
  for (int64_t i = 0; i < ROWS; ++i) {
    LS_OWN(ls_nest, element) = next_of(iterator);
    const ls_array *row = ls_nest_as_array(ls_nest_find(element, "x"));
    for (int64_t k = 0; k < 3; ++k)
      assert_true(ls_array_f64(row, k) == ls_array_f64(x, 3 * i + k));
    assert_int_equal(
        ls_array_i64(ls_nest_as_array(ls_nest_find(element, "y")), 0), 100 + i);
  }
  ls_nest element = ls_none();
  expect_status(ls_iterator_next(iterator, &element), LS_OUT_OF_RANGE, "");
}

static void expect_on_host(ls_nest variables) {
  for (size_t i = 0; i < 2; ++i) {
    ls_variable *v = ls_nest_as_variable(ls_nest_item(variables, i));
    assert_non_null(v);
    assert_false(ls_variable_is_trainable(v));
    assert_int_equal(ls_variable_num_components(v), 0);
    assert_null(ls_variable_strategy(v));
    assert_string_equal(ls_variable_device(v),
                        "/job:localhost/replica:0/task:0/device:CPU:0");
  }
}

TEST(arrays_become_variables_of_the_host) {
  LS_SPEC("T155");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_nest, arrays) = some_arrays();
  // Slices of a row, of some, of all.
  const int64_t bytes[] = {1, 12, 13, 30, 0, INT64_MAX};
  for (size_t i = 0; i < LS_COUNT_OF(bytes); ++i) {
    LS_OWN(ls_nest, variables) = ls_none();
    LS_OWN(ls_dataset, dataset) = NULL;
    expect_ok(ls_strategy_array_dataset(
        two, arrays, &(ls_array_dataset_options){.slice_bytes = bytes[i]},
        &variables, &dataset));
    expect_on_host(variables);
    expect_rows(dataset, arrays);
  }
  // Nobody needs the variables, and it is a data set as any other.
  ls_dataset *dataset = NULL;
  expect_ok(ls_strategy_array_dataset(two, arrays, NULL, NULL, &dataset));
  expect_rows(dataset, arrays);
  ls_nest_release(distributed(
      two, ls_dataset_batch(dataset, &(ls_batch_options){.size = 2}), NULL));
}

TEST(a_graph_needs_a_session_for_them) {
  LS_SPEC("T155");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_nest, arrays) = some_arrays();
  ls_nest variables = ls_none();
  ls_dataset *dataset = NULL;
  LS_OWN(ls_graph, graph) = graph_named("input");
  LS_OWN(ls_session, session) = session_of(graph);
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(
        ls_strategy_array_dataset(two, arrays, NULL, &variables, &dataset),
        LS_INVALID_ARGUMENT, "needs a session");
    assert_null(dataset);
    expect_ok(ls_strategy_array_dataset(
        two, arrays,
        &(ls_array_dataset_options){.session = session, .slice_bytes = 24},
        &variables, &dataset));
  }
  expect_on_host(variables);
  expect_rows(dataset, arrays);
  LS_OWN(ls_array, value) =
      session_array(session, ls_nest_as_variable(ls_nest_find(variables, "y")));
  assert_int_equal(ls_array_i64(value, ROWS - 1), 100 + ROWS - 1);
  ls_nest_release(variables);
  ls_dataset_release(dataset);
  expect_status(
      ls_strategy_array_dataset(two, arrays,
                                &(ls_array_dataset_options){.session = session},
                                NULL, &dataset),
      LS_INVALID_ARGUMENT, "eager mode");
}

TEST(what_has_no_rows_is_refused) {
  LS_SPEC("T155");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_dataset *dataset = NULL;
  const struct {
    ls_nest arrays;
    const char *says;
  } cases[] = {
      {LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)), ls_nest_i64(1)),
       "leaf [1] of an array data set is no array"},
      {LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR)), "is a scalar"},
      {LS_TUPLE(ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(2)),
                ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3))),
       "rows"},
      {ls_nest_sequence(LS_KIND_TUPLE, NULL, 0), "no arrays"}};
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    expect_status(
        ls_strategy_array_dataset(two, cases[i].arrays, NULL, NULL, &dataset),
        LS_INVALID_ARGUMENT, cases[i].says);
    assert_null(dataset);
    ls_nest_release(cases[i].arrays);
  }
}
