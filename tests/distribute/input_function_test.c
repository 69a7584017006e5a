// SPDX-License-Identifier: Apache-2.0
// Data sets from a function: one for each host, or one for each replica.
#include <stdio.h>
#include <string.h>

#include "data/dataset.h"
#include "distribute/own.h"
#include "graph/context.h"
#include "lockstep/eager.h"
#include "lockstep/element_spec.h"
#include "lockstep/record.h"
#include "support/inputs.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/tpu_strategies.h"

// What a function was told, call by call.
typedef struct asked {
  int calls;
  char text[1000];
  // What it gives: numbers from 100 p on, `counts[p]` of them, in batches of
  // `batch`, if that is not 0.
  int64_t counts[4], batch;
} asked;

static ls_nest make_numbers(ls_input_context context, void *user) {
  asked *a = user;
  char line[200], name[100];
  const char *device = ls_context_current()->scoped.device;
  snprintf(line, sizeof(line), "%s of %d on %s\n",
           ls_input_context_print(context, name, sizeof(name)),
           context.num_replicas, device == NULL ? "" : device);
  strncat(a->text, line, sizeof(a->text) - strlen(a->text) - 1);
  ++a->calls;
  const int64_t first = 100 * context.pipeline;
  ls_dataset *numbers =
      ls_dataset_range(first, first + a->counts[context.pipeline], 1);
  if (a->batch > 0)
    numbers = ls_dataset_batch(numbers, &(ls_batch_options){.size = a->batch});
  return ls_nest_dataset(numbers);
}

static ls_nest from_function(ls_strategy *strategy,
                             ls_dataset_function function, void *user,
                             const ls_input_options *options) {
  ls_nest data = ls_none();
  expect_ok(ls_strategy_distribute_datasets_from_function_with(
      strategy, function, user, options, &data));
  return data;
}

static void expect_function_refused(ls_strategy *strategy,
                                    ls_dataset_function function, void *user,
                                    const ls_input_options *options,
                                    ls_code code, const char *says) {
  ls_nest data = ls_none();
  expect_status(ls_strategy_distribute_datasets_from_function_with(
                    strategy, function, user, options, &data),
                code, says);
  assert_int_equal(data.kind, LS_KIND_NONE);
}

static const ls_input_options per_replica = {.replication =
                                                 LS_PIPELINE_PER_REPLICA};

// ---- A pipeline for each host -----------------------------------------------
TEST(a_function_is_called_once_a_host) {
  LS_SPEC("T136 T143 T139 M66");
  ls_strategy *pod = pod_of_tasks(4, 2);
  asked a = {.counts = {4, 4}};
  ls_distributed_iterator *iterator =
      iterator_on(from_function(pod, make_numbers, &a, NULL));
  assert_string_equal(a.text, "input pipeline 0 of 2 of 4 on "
                              "/job:worker/replica:0/task:0/device:CPU:0\n"
                              "input pipeline 1 of 2 of 4 on "
                              "/job:worker/replica:0/task:1/device:CPU:0\n");
  // Elements are handed out as they are.
  EXPECT_DEALT(iterator, "0 1 100 101", "2 3 102 103");
  ls_distributed_iterator_release(iterator);
  // Over the other map it is the same hosts.
  a = (asked){.counts = {4, 4}};
  ls_nest_release(
      from_function(pod, make_numbers, &a,
                    &(ls_input_options){.fetch_to_device = LS_FLAG_OFF}));
  assert_int_equal(a.calls, 2);
  ls_strategy_release(pod);
  // One worker.
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  a = (asked){.counts = {5}};
  iterator = iterator_on(from_function(two, make_numbers, &a, NULL));
  assert_string_equal(a.text, "input pipeline 0 of 1 of 2 on "
                              "/job:localhost/replica:0/task:0/device:CPU:0\n");
  // Scalars have no empty values: a short group is left out.
  EXPECT_DEALT(iterator, "0 1", "2 3");
  ls_distributed_iterator_release(iterator);
}

TEST(replicas_without_data_get_empty_batches) {
  LS_SPEC("T152 M66");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  asked a = {.counts = {5}, .batch = 2};
  ls_distributed_iterator *iterator =
      iterator_on(from_function(two, make_numbers, &a, NULL));
  EXPECT_DEALT(iterator, "[0 1] [2 3]", "[4] []");
  ls_distributed_iterator_release(iterator);
  // Hosts of other lengths.
  a = (asked){.counts = {5, 3}, .batch = 2};
  iterator = iterator_on(from_function(pod, make_numbers, &a, NULL));
  EXPECT_DEALT(iterator, "[0 1] [100 101]", "[2 3] [102]", "[4] []");
  ls_distributed_iterator_release(iterator);
  // Where all shapes are known any replica without data is the end.
  a = (asked){.counts = {4, 2}, .batch = 2};
  iterator = iterator_on(from_function(pod, make_numbers, &a, NULL));
  EXPECT_DEALT(iterator, "[0 1] [100 101]");
  ls_distributed_iterator_release(iterator);
}

static int dropped_lines;
static void count_line(void *user, const ls_log_line *line) {
  (void)user;
  dropped_lines +=
      strstr(line->text, "the last 3 elements are not enough for all 4") !=
      NULL;
}

TEST(elements_of_known_shapes_are_not_dropped_in_silence) {
  LS_SPEC("M66");
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.log = count_line});
  LS_OWN(ls_strategy, four) = mirrored_of(4);
  asked a = {.counts = {6}, .batch = 2};
  dropped_lines = 0;
  ls_distributed_iterator *iterator =
      iterator_on(from_function(four, make_numbers, &a, NULL));
  LS_OWN(ls_nest, element) = ls_none();
  expect_status(ls_distributed_iterator_next(iterator, &element),
                LS_OUT_OF_RANGE, "");
  assert_int_equal(dropped_lines, 1);
  ls_distributed_iterator_release(iterator);
}

// A batch of 2 of shape [-1, 3], with a leaf of a known shape beside it.
static ls_nest with_more(ls_nest element, const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  return LS_TUPLE(ls_nest_retain(element),
                  ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(4, 3)),
                  ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR));
}

static ls_nest make_mixed(ls_input_context context, void *user) {
  (void)context;
  (void)user;
  return ls_nest_dataset(ls_dataset_map(
      number_batches(3, 2),
      &(ls_map_options){.call = with_more,
                        .result =
                            LS_TUPLE(ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1)),
                                     ls_nest_spec(LS_DTYPE_F32, LS_SHAPE(4, 3)),
                                     ls_nest_spec(LS_DTYPE_F32, LS_SCALAR))}));
}

TEST(an_empty_value_has_no_rows) {
  LS_SPEC("T152");
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(from_function(three, make_mixed, NULL, NULL));
  LS_OWN(ls_nest, element) = ls_none();
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  const ls_shape want[] = {LS_SHAPE(0), LS_SHAPE(0, 3), LS_SCALAR};
  for (size_t l = 0; l < 3; ++l) {
    const ls_nest leaf = ls_nest_item(element, l);
    assert_true(ls_shape_equal(
        ls_array_shape(ls_nest_as_array(ls_distributed_component(leaf, 2))),
        want[l]));
  }
}

static ls_nest make_endless(ls_input_context context, void *user) {
  (void)user;
  ls_dataset *numbers = ls_dataset_range(0, 3, 1);
  if (context.pipeline == 0) numbers = ls_dataset_repeat(numbers, -1);
  return ls_nest_dataset(
      ls_dataset_batch(numbers, &(ls_batch_options){.size = 2}));
}

TEST(data_without_an_end_is_never_partial) {
  LS_SPEC("T152 T153");
  // One host's ends: the others' empty values are those of data that ends.
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  LS_OWN(ls_strategy, one) = pod_of_tasks(2, 2);
  const ls_nest data = from_function(pod, make_endless, NULL, NULL);
  ls_distributed_iterator *iterator = iterator_on(data);
  LS_OWN(ls_nest, element) = ls_none();
  char text[100];
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_distributed_iterator_next(iterator, &element));
  assert_string_equal(print_dealt(element, text, sizeof(text)), "[1 2] []");
  ls_distributed_iterator_release(iterator);
  const ls_nest uneven = from_function(pod, make_endless, NULL, NULL);
  assert_int_equal(ls_distributed_dataset_cardinality(uneven), LS_INFINITE);
  ls_nest_release(uneven);
  const ls_nest endless = from_function(one, make_endless, NULL, NULL);
  assert_int_equal(ls_distributed_dataset_cardinality(endless), LS_INFINITE);
  iterator = iterator_on(endless);
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_distributed_iterator_next(iterator, &element));
  assert_string_equal(print_dealt(element, text, sizeof(text)), "[2 0] [1 2]");
  ls_distributed_iterator_release(iterator);
}

// ---- A pipeline for each replica --------------------------------------------
TEST(each_replica_may_have_a_pipeline) {
  LS_SPEC("M180");
  LS_OWN(ls_strategy, three) = mirrored_of(3);
  asked a = {.counts = {2, 2, 2}};
  ls_distributed_iterator *iterator =
      iterator_on(from_function(three, make_numbers, &a, &per_replica));
  EXPECT_DEALT(iterator, "0 100 200", "1 101 201");
  ls_distributed_iterator_release(iterator);
  const char *const host = "/job:localhost/replica:0/task:0/device:CPU:0\n";
  char want[600];
  snprintf(want, sizeof(want),
           "input pipeline 0 of 3 of 3 on %sinput pipeline 1 of 3 of 3 on "
           "%sinput pipeline 2 of 3 of 3 on %s",
           host, host, host);
  assert_string_equal(a.text, want);
  // Under the replica's own device.
  a = (asked){.counts = {2, 2, 2}};
  ls_input_options on_device = per_replica;
  on_device.place_dataset_on_device = true;
  expect_function_refused(three, make_numbers, &a, &on_device,
                          LS_INVALID_ARGUMENT,
                          "place_dataset_on_device and fetch_to_device");
  assert_int_equal(a.calls, 0);
  on_device.fetch_to_device = LS_FLAG_OFF;
  ls_nest_release(from_function(three, make_numbers, &a, &on_device));
  expect_contains(a.text, "pipeline 2 of 3 of 3 on "
                          "/job:localhost/replica:0/task:0/device:CPU:2");
}

TEST(pipelines_are_refused_where_they_cannot_be) {
  LS_SPEC("T143 T144 M180");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  asked a = {.counts = {4, 4}};
  expect_function_refused(pod, make_numbers, &a, &per_replica, LS_UNIMPLEMENTED,
                          "only the mirrored strategy has it");
  ls_strategy *const both[] = {pod, two};
  for (size_t i = 0; i < 2; ++i)
    expect_function_refused(
        both[i], make_numbers, &a,
        &(ls_input_options){.place_dataset_on_device = true},
        LS_INVALID_ARGUMENT, "it needs PER_REPLICA");
  const ls_input_options others[] = {
      {.whole_elements = true}, {.round_up = true}, {.sharding = LS_SHARD_OFF}};
  for (size_t i = 0; i < LS_COUNT_OF(others); ++i)
    expect_function_refused(two, make_numbers, &a, &others[i],
                            LS_INVALID_ARGUMENT, "is for a data set");
  assert_int_equal(a.calls, 0);
}

// Whatever is asked for beside it, and by each call.
TEST(a_tpu_strategy_has_no_pipeline_a_replica) {
  LS_SPEC("T142 T143 T144");
  ls_strategy *const pods[] = {tpu_strategy_of(1), tpu_strategy_on(2, 2)};
  for (size_t k = 0; k < LS_COUNT_OF(pods); ++k) {
    asked a = {.counts = {4, 4}};
    ls_input_options options = per_replica;
    expect_function_refused(pods[k], make_numbers, &a, &options,
                            LS_UNIMPLEMENTED,
                            "only the mirrored strategy has it");
    options.fetch_to_device = LS_FLAG_OFF;
    options.place_dataset_on_device = true;
    expect_function_refused(pods[k], make_numbers, &a, &options,
                            LS_UNIMPLEMENTED, "TPU strategy");
    options.replication = LS_PIPELINE_PER_WORKER;
    expect_function_refused(pods[k], make_numbers, &a, &options,
                            LS_INVALID_ARGUMENT, "it needs PER_REPLICA");
    assert_int_equal(a.calls, 0);
    ls_strategy_release(pods[k]);
  }
}

static ls_nest make_sparse(ls_input_context context, void *user) {
  (void)context;
  ++*(int *)user;
  const ls_leaf_spec sparse = {.kind = LS_LEAF_SPARSE,
                               .type = {LS_DTYPE_F32, LS_SHAPE(4)}};
  return ls_nest_dataset(ls_dataset_map(
      ls_dataset_range(0, 2, 1),
      &(ls_map_options){.call = with_more,
                        .result = LS_TUPLE(ls_nest_spec_of(&sparse))}));
}

TEST(leaves_are_checked_behind_the_function) {
  LS_SPEC("T143 T145");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  int calls = 0;
  expect_function_refused(pod, make_sparse, &calls, NULL, LS_INVALID_ARGUMENT,
                          "leaf [0] of a data set");
  assert_int_equal(calls, 2);
  ls_nest_release(
      from_function(pod, make_sparse, &calls,
                    &(ls_input_options){.fetch_to_device = LS_FLAG_OFF}));
}

static ls_nest make_different(ls_input_context context, void *user) {
  (void)user;
  return ls_nest_dataset(context.pipeline == 0 ? number_batches(4, 2)
                                               : ls_dataset_range(0, 2, 1));
}

static ls_nest make_failing(ls_input_context context, void *user) {
  (void)user;
  return context.pipeline == 0 ? ls_nest_dataset(number_batches(4, 2))
                               : LS_FAIL(LS_DATA_LOSS, "the disk is gone");
}

TEST(what_a_function_gives_is_checked) {
  LS_SPEC("T140");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(2, 1);
  expect_function_refused(pod, make_different, NULL, NULL, LS_INVALID_ARGUMENT,
                          "of the data set of pipeline 1 is i64[]");
  expect_function_refused(pod, make_failing, NULL, NULL, LS_DATA_LOSS,
                          "the disk is gone");
}

// ---- Callables --------------------------------------------------------------
typedef struct counter {
  int64_t next, end;
  int released;
} counter;

static ls_nest next_number(void *user) {
  counter *c = user;
  if (c->next == c->end) return LS_FAIL(LS_OUT_OF_RANGE, "no more numbers");
  const ls_nest made = ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(1));
  ls_array_set_i64(ls_nest_as_array(made), 0, c->next++);
  return made;
}

static void note_release(void *user) { ++((counter *)user)->released; }

static ls_nest make_callable(ls_input_context context, void *user) {
  counter *counters = user;
  return ls_nest_input_callable(ls_nest_spec(LS_DTYPE_I64, LS_SHAPE(-1)),
                                next_number, &counters[context.pipeline],
                                note_release);
}

TEST(a_callable_is_called_once_a_replica_and_step) {
  LS_SPEC("T140");
  LS_OWN(ls_strategy, pod) = pod_of_tasks(4, 2);
  counter counters[] = {{.end = 4}, {.next = 100, .end = 105}};
  ls_distributed_iterator *iterator =
      iterator_on(from_function(pod, make_callable, counters, NULL));
  assert_int_equal(counters[0].next, 0);
  ls_nest element = ls_none();
  char text[100];
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  assert_string_equal(print_dealt(element, text, sizeof(text)),
                      "[0] [1] [100] [101]");
  assert_int_equal(counters[0].next, 2);
  expect_ok(ls_distributed_iterator_next(iterator, &element));
  // There are no partial batches.
  counters[0].end = 5;
  expect_status(ls_distributed_iterator_next(iterator, &element),
                LS_OUT_OF_RANGE, "is at the end");
  ls_nest_release(element);
  ls_record *record = NULL;
  expect_ok(ls_record_create(&record));
  expect_status(ls_distributed_iterator_save(iterator, record),
                LS_FAILED_PRECONDITION, "a callable");
  ls_record_destroy(record);
  ls_distributed_iterator_release(iterator);
  assert_int_equal(counters[0].released, 1);
  assert_int_equal(counters[1].released, 1);
}

static ls_nest make_odd(ls_input_context context, void *user) {
  (void)context;
  (void)user;
  return ls_nest_i64(3);
}

static ls_nest next_pair(void *user) {
  (void)user;
  return LS_TUPLE(ls_nest_i64(1), ls_nest_i64(2));
}

static ls_nest make_liar(ls_input_context context, void *user) {
  (void)context;
  (void)user;
  return ls_nest_input_callable(ls_nest_spec(LS_DTYPE_I64, LS_SCALAR),
                                next_pair, NULL, NULL);
}

static ls_nest next_wide(void *user) {
  (void)user;
  return ls_nest_zeros(LS_DTYPE_I64, LS_SHAPE(3));
}

static ls_nest make_wide(ls_input_context context, void *user) {
  (void)context;
  return ls_nest_input_callable(ls_nest_retain(*(const ls_nest *)user),
                                next_wide, NULL, NULL);
}

TEST(elements_of_a_callable_have_its_types) {
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  const ls_type types[] = {{LS_DTYPE_F32, LS_SHAPE(3)},
                           {LS_DTYPE_I64, LS_SHAPE(2)},
                           {LS_DTYPE_I64, LS_SHAPE(-1, 3)}};
  for (size_t i = 0; i < LS_COUNT_OF(types); ++i) {
    LS_OWN(ls_nest, spec) = ls_nest_spec(types[i].dtype, types[i].shape);
    LS_OWN(ls_nest, element) = ls_none();
    ls_distributed_iterator *iterator =
        iterator_on(from_function(two, make_wide, &spec, NULL));
    expect_status(ls_distributed_iterator_next(iterator, &element),
                  LS_INVALID_ARGUMENT, "leaf 0 of an element is i64[3]");
    ls_distributed_iterator_release(iterator);
  }
}

TEST(what_is_no_data_set_is_refused) {
  LS_SPEC("T140");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  expect_function_refused(two, make_odd, NULL, NULL, LS_INVALID_ARGUMENT,
                          "it is to give a data set");
  ls_distributed_iterator *iterator =
      iterator_on(from_function(two, make_liar, NULL, NULL));
  ls_nest element = ls_none();
  expect_status(ls_distributed_iterator_next(iterator, &element),
                LS_INVALID_ARGUMENT, "a callable's declared types");
  ls_distributed_iterator_release(iterator);
  counter c = {0};
  ls_nest failed =
      ls_nest_input_callable(ls_nest_i64(1), next_number, &c, note_release);
  expect_status(ls_nest_status(failed), LS_INVALID_ARGUMENT,
                "leaves of ls_nest_spec");
  ls_nest_release(failed);
  failed = ls_nest_input_callable(ls_nest_spec(LS_DTYPE_I64, LS_SCALAR), NULL,
                                  &c, note_release);
  expect_status(ls_nest_status(failed), LS_INVALID_ARGUMENT, "is NULL");
  ls_nest_release(failed);
  assert_int_equal(c.released, 2);
}

// ---- The default strategy ---------------------------------------------------
TEST(the_default_strategy_gives_the_data_set_itself) {
  ls_strategy *usual = NULL;
  expect_ok(ls_strategy_default(&usual));
  asked a = {.counts = {3}, .batch = 2};
  LS_OWN(ls_distributed_iterator, iterator) =
      iterator_on(from_function(usual, make_numbers, &a, NULL));
  EXPECT_DEALT(iterator, "[0 1]", "[2]");
}

// ---- Values from a function -------------------------------------------------
typedef struct made_values {
  int calls;
  bool in_caller;
} made_values;

static ls_nest make_value(int32_t replica, int32_t replicas, void *user) {
  made_values *v = user;
  assert_int_equal(replica, v->calls++);
  v->in_caller = v->in_caller && ls_in_cross_replica_context();
  return LS_TUPLE(ls_nest_i64(replica), ls_nest_i64(replicas));
}

TEST(values_from_a_function_are_always_wrapped) {
  LS_SPEC("T156");
  ls_strategy *all[] = {mirrored_of(1), mirrored_of(3), pod_of_tasks(2, 1)};
  for (size_t i = 0; i < LS_COUNT_OF(all); ++i) {
    LS_OWN(ls_nest, value) = ls_none();
    made_values v = {.in_caller = true};
    expect_ok(ls_strategy_values_from_function(all[i], make_value, &v, &value));
    const size_t count = (size_t)ls_strategy_num_replicas(all[i]);
    assert_int_equal(v.calls, count);
    assert_true(v.in_caller);
    for (size_t l = 0; l < 2; ++l) {
      const ls_nest leaf = ls_nest_item(value, l);
      assert_int_equal(ls_distributed_count(leaf), count);
      assert_int_equal(ls_distributed_kind_of(leaf), LS_PER_REPLICA);
      for (size_t r = 0; r < count; ++r)
        assert_true(ls_nest_number(ls_distributed_component(leaf, r)) ==
                    (double)(l == 0 ? r : count));
    }
    ls_strategy_release(all[i]);
  }
}
