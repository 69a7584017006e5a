// SPDX-License-Identifier: Apache-2.0
// Data sets on replicas: which rows and elements go to which replica.
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/eager.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/inputs.h"
#include "support/place.h"
#include "support/replicas.h"

// ---- Parts of global batches ------------------------------------------------
TEST(batches_are_split_evenly) {
  LS_SPEC("M181 M61 T151");
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  EXPECT_DEALT_ON(three, number_batches(8, 4), NULL, "[0 1] [2] [3]",
                  "[4 5] [6] [7]");
  // No example is dropped, and each goes to one replica.
  EXPECT_DEALT_ON(three, number_batches(7, 5), NULL, "[0 1] [2 3] [4]",
                  "[5] [6] []");
  EXPECT_DEALT_ON(three, number_batches(1, 5), NULL, "[0] [] []");
}

TEST(parts_are_rounded_up_where_that_is_asked_for) {
  LS_SPEC("M65");
  const ls_input_options up = {.round_up = true};
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  EXPECT_DEALT_ON(three, number_batches(4, 4), &up, "[0 1] [2 3] []");
  EXPECT_DEALT_ON(three, number_batches(8, 8), &up, "[0 1 2] [3 4 5] [6 7]");
  EXPECT_DEALT_ON(four, number_batches(5, 5), &up, "[0 1] [2 3] [4] []");
  EXPECT_DEALT_ON(two, number_batches(1, 1), &up, "[0] []");
  // A last short batch is split by the same rule with its own size.
  EXPECT_DEALT_ON(two, number_batches(7, 4), &up, "[0 1] [2 3]", "[4 5] [6]");
}

TEST(parts_are_views_of_one_array) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(two, number_batches(8, 4), NULL));
  LS_OWN(ls_nest, element) = ls_none();
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_distributed_iterator_next(iterator, &element));
    const int64_t *first =
        ls_array_data(ls_nest_as_array(ls_distributed_component(element, 0)));
    const int64_t *second =
        ls_array_data(ls_nest_as_array(ls_distributed_component(element, 1)));
    assert_ptr_equal(first + 2, second);
  }
  // What was given stays, whatever is read next.
  LS_OWN(ls_nest, next) = ls_none();
  LS_OWN(ls_nest, last) = ls_none();
  expect_ok(ls_distributed_iterator_restart(iterator));
  expect_ok(ls_distributed_iterator_next(iterator, &next));
  expect_ok(ls_distributed_iterator_next(iterator, &last));
  char text[100];
  assert_string_equal(print_dealt(element, text, sizeof(text)), "[4 5] [6 7]");
  assert_string_equal(print_dealt(next, text, sizeof(text)), "[0 1] [2 3]");
}

static ls_nest as_pair(ls_nest element, const ls_map_call *call, void *user) {
  (void)user;
  const char *const keys[] = {"x", "id"};
  const ls_nest id = ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(1));
  ls_array_set_i64(ls_nest_as_array(id), 0, call->id);
  return ls_nest_dict("", keys, (const ls_nest[]){ls_nest_retain(element), id},
                      2);
}

TEST(elements_keep_their_structure) {
  LS_SPEC("M59 M181");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_dataset *pairs =
      ls_dataset_batch(ls_dataset_map(ls_dataset_range(0, 4, 1),
                                      &(ls_map_options){.call = as_pair}),
                       &(ls_batch_options){.size = 4});
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(two, pairs, NULL));
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  assert_int_equal(element.kind, LS_KIND_DICT);
  const ls_nest x = ls_nest_find(element, "x"),
                id = ls_nest_find(element, "id");
  for (size_t r = 0; r < 2; ++r) {
    const ls_array *ids = ls_nest_as_array(ls_distributed_component(id, r));
    assert_true(ls_shape_equal(ls_array_shape(ids), LS_SHAPE(2, 1)));
    for (int64_t i = 0; i < 2; ++i) {
      assert_int_equal(ls_array_i64(ids, i), 2 * (int64_t)r + i);
      assert_int_equal(
          ls_array_i64(ls_nest_as_array(ls_distributed_component(x, r)), i),
          2 * (int64_t)r + i);
    }
    assert_string_equal(ls_distributed_device(x, r),
                        r == 0
                            ? "/job:localhost/replica:0/task:0/device:CPU:0"
                            : "/job:localhost/replica:0/task:0/device:CPU:1");
  }
}

TEST(one_replica_gets_plain_values) {
  LS_SPEC("T150 T146");
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  const ls_nest data = distributed(one, number_batches(3, 2), NULL);
  LS_OWN(ls_nest, spec) = ls_none();
  expect_ok(ls_distributed_dataset_spec(data, &spec));
  assert_int_equal(ls_distributed_count(spec), 0);
  ls_distributed_iterator *iterator = iterator_on(data);
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  assert_int_equal(element.kind, LS_KIND_ARRAY);
  ls_distributed_iterator_release(iterator);
  // Nothing is split, so elements need no batch dimension.
  EXPECT_DEALT_ON(one, ls_dataset_range(0, 2, 1), NULL, "0", "1");
}

TEST(what_has_no_rows_is_not_split) {
  LS_SPEC("T146");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  expect_refused(two, ls_dataset_range(0, 4, 1), NULL, LS_INVALID_ARGUMENT,
                 "batch it first (ls_dataset_batch)");
  expect_refused(two, number_batches(4, 0), NULL, LS_INVALID_ARGUMENT,
                 "a batch size must be at least 1");
}

// ---- Whole elements ---------------------------------------------------------
static const ls_input_options whole = {.whole_elements = true};

TEST(whole_elements_go_to_replicas_in_turns) {
  LS_SPEC("M59 M61 M181");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  EXPECT_DEALT_ON(two, number_batches(8, 2), &whole, "[0 1] [2 3]",
                  "[4 5] [6 7]");
  // Also of one replica a PerReplica.
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(one, ls_dataset_range(0, 1, 1), &whole));
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  assert_int_equal(ls_distributed_count(element), 1);
}

// Lines of the log that speak of elements that were left out.
static int dropped_lines;
static void count_line(void *user, const ls_log_line *line) {
  (void)user;
  if (strstr(line->text, "are left out") == NULL) return;
  ++dropped_lines;
  expect_contains(line->text, "the last 2 elements are not enough for all 3");
}

TEST(an_incomplete_group_is_left_out_with_a_line) {
  LS_SPEC("M61 M62 M181");
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.log = count_line});
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  dropped_lines = 0;
  // Each iterator writes its line, also where an earlier one was in memory.
  for (int i = 1; i <= 2; ++i) {
    EXPECT_DEALT_ON(three, ls_dataset_range(0, 8, 1), &whole, "0 1 2", "3 4 5");
    assert_int_equal(dropped_lines, i);
  }
  EXPECT_DEALT_ON(three, ls_dataset_range(0, 6, 1), &whole, "0 1 2", "3 4 5");
  EXPECT_DEALT_ON(three, number_batches(8, 3), NULL, "[0] [1] [2]",
                  "[3] [4] [5]", "[6] [7] []");
  assert_int_equal(dropped_lines, 2);
}

TEST(prefetch_is_for_graphs) {
  LS_SPEC("M60 M62");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  ls_input_options options = whole;
  options.prefetch = LS_FLAG_ON;
  expect_refused(two, ls_dataset_range(0, 4, 1), &options,
                 LS_FAILED_PRECONDITION, "prefetch");
  expect_refused(two, ls_dataset_range(0, 4, 1), &options,
                 LS_FAILED_PRECONDITION, "eager mode");
  // The strategy's own flag counts where options say nothing.
  ls_strategy_set_prefetch(two, LS_FLAG_ON);
  expect_refused(two, ls_dataset_range(0, 4, 1), &whole, LS_FAILED_PRECONDITION,
                 "eager mode");
  options.prefetch = LS_FLAG_OFF;
  EXPECT_DEALT_ON(two, ls_dataset_range(0, 4, 1), &options, "0 1", "2 3");
  ls_strategy_set_prefetch(two, LS_FLAG_DEFAULT);
  EXPECT_DEALT_ON(two, ls_dataset_range(0, 4, 1), &whole, "0 1", "2 3");
  options.prefetch = LS_FLAG_ON;
  options.per_replica_buffer_size = LS_SOME(0);
  expect_refused(two, ls_dataset_range(0, 4, 1), &options, LS_INVALID_ARGUMENT,
                 "it needs at least 1");
}

// ---- The end, and again -----------------------------------------------------
TEST(an_iterator_ends_again_and_again) {
  LS_SPEC("M61 T153 T154");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  const ls_nest data = distributed(two, number_batches(4, 2), NULL);
  LS_OWN(ls_distributed_iterator, iterator) = iterator_on(ls_nest_retain(data));
  EXPECT_DEALT(iterator, "[0] [1]", "[2] [3]");
  bool has = true;
  ls_nest element = ls_none();
  expect_ok(ls_distributed_iterator_next_as_optional(iterator, &has, &element));
  assert_false(has);
  assert_int_equal(element.kind, LS_KIND_NONE);
  expect_ok(ls_distributed_iterator_restart(iterator));
  assert_int_equal(ls_distributed_iterator_epoch(iterator), 1);
  expect_ok(ls_distributed_iterator_next_as_optional(iterator, &has, &element));
  assert_true(has);
  assert_int_equal(ls_distributed_iterator_position(iterator), 1);
  ls_nest_release(element);
  // Another iterator begins at the start.
  LS_OWN(ls_distributed_iterator, other) = iterator_on(data);
  EXPECT_DEALT(other, "[0] [1]", "[2] [3]");
}

TEST(nothing_is_empty_at_once) {
  LS_SPEC("T153");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  bool has = true;
  ls_nest element = ls_none();
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(distributed(two, number_batches(0, 2), NULL));
  expect_ok(ls_distributed_iterator_next_as_optional(iterator, &has, &element));
  assert_false(has);
}

TEST(a_one_shot_iterator_is_not_started_again) {
  LS_SPEC("M59 M64");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_nest, data) = distributed(two, ls_dataset_range(0, 2, 1), &whole);
  ls_distributed_iterator *iterator = NULL;
  expect_ok(ls_distributed_iterator_create(
      data, &(ls_distributed_iterator_options){.kind = LS_ITERATOR_ONE_SHOT},
      &iterator));
  EXPECT_DEALT(iterator, "0 1");
  expect_status(ls_distributed_iterator_restart(iterator),
                LS_FAILED_PRECONDITION, "is one-shot");
  expect_status(ls_distributed_iterator_seek_epoch(iterator, 0),
                LS_FAILED_PRECONDITION, "is one-shot");
  ls_op op;
  expect_status(ls_distributed_iterator_initializer(iterator, &op),
                LS_FAILED_PRECONDITION, "has no initializer");
  ls_distributed_iterator_release(iterator);
  expect_status(
      ls_distributed_iterator_create(
          data,
          &(ls_distributed_iterator_options){.kind = LS_ITERATOR_INITIALIZABLE},
          &iterator),
      LS_FAILED_PRECONDITION, "eager mode");
  assert_null(iterator);
}

// ---- Inside of replicas -----------------------------------------------------
static ls_nest read_inside(ls_nest args, void *user) {
  (void)args;
  ls_nest element = ls_none();
  bool has = false;
  LS_OWN(ls_nest, op) = ls_distributed_iterator_get_next(user);
  expect_status(ls_nest_status(op), LS_FAILED_PRECONDITION, "call it outside");
  expect_status(ls_distributed_iterator_next_as_optional(user, &has, &element),
                LS_FAILED_PRECONDITION, "inside a replica");
  const ls_status status = ls_distributed_iterator_next(user, &element);
  return ls_status_is_ok(status) ? element : ls_fail(status);
}

TEST(replicas_do_not_read) {
  LS_SPEC("T154 M66");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  ls_distributed_iterator *iterator =
      iterator_on(distributed(two, number_batches(4, 2), NULL));
  ls_nest results = ls_none();
  ls_function *function = unnamed_function(read_inside, iterator);
  const ls_callable ways[] = {ls_plain(read_inside, iterator),
                              ls_traced(function)};
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i) {
    expect_status(ls_strategy_run(two, ways[i], ls_none(), &results),
                  LS_FAILED_PRECONDITION, "get_next");
    assert_int_equal(ls_distributed_iterator_position(iterator), 0);
  }
  ls_nest_release(results);
  ls_function_release(function);
  // Outside of replicas it is read in the strategy's scope too.
  {
    LS_STRATEGY_SCOPE(two);
    EXPECT_DEALT(iterator, "[0] [1]", "[2] [3]");
  }
  ls_distributed_iterator_release(iterator);
  // Nor do they read what is another strategy's, or no strategy's.
  const ls_nest others[] = {distributed(one, number_batches(4, 2), NULL),
                            ls_nest_dataset(number_batches(4, 2))};
  for (size_t k = 0; k < LS_COUNT_OF(others); ++k) {
    iterator = iterator_on(others[k]);
    expect_ok(ls_function_create(
        &(ls_function_options){.call = read_inside, .user = iterator},
        &function));
    for (int traced = 0; traced < 2; ++traced) {
      results = ls_none();
      expect_status(ls_strategy_run(two,
                                    traced ? ls_traced(function)
                                           : ls_plain(read_inside, iterator),
                                    ls_none(), &results),
                    LS_FAILED_PRECONDITION, "get_next");
      assert_int_equal(ls_distributed_iterator_position(iterator), 0);
    }
    ls_function_release(function);
    ls_distributed_iterator_release(iterator);
  }
}

// ---- A step -----------------------------------------------------------------
static ls_nest sum_part(ls_nest args, void *user) {
  (void)user;
  ls_tensor x;
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  x = ls_convert(x, LS_DTYPE_F32);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, ls_reduce_sum(x, LS_ALL_AXES)));
}

TEST(parts_are_arguments_of_a_step) {
  LS_SPEC("M181");
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  LS_OWN(ls_function, function) = unnamed_function(sum_part, NULL);
  const ls_callable ways[] = {ls_plain(sum_part, NULL), ls_traced(function)};
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i) {
    LS_OWN(ls_distributed_iterator, iterator) =
        iterator_on(distributed(three, number_batches(10, 4), NULL));
    LS_OWN(ls_nest, element) = ls_none();
    LS_OWN(ls_nest, results) = ls_none();
    const double sums[] = {6, 22, 17};
    for (int step = 0; step < 3; ++step) {
      expect_ok(ls_distributed_iterator_next(iterator, &element));
      const ls_nest args = LS_TUPLE(ls_nest_retain(element));
      expect_ok(ls_strategy_run(three, ways[i], args, &results));
      ls_nest_release(args);
      LS_OWN(ls_nest, first) = ls_none();
      expect_ok(ls_strategy_replica_result(three, results, 2, &first));
      assert_true(number_of(first) == sums[step]);
    }
  }
}
