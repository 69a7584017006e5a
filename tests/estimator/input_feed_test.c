// SPDX-License-Identifier: Apache-2.0
//
// What feeds the cores: which input goes to which core, in which ways.
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "estimator/input/input.h"
#include "lockstep/monitored_session.h"
#include "lockstep/ops.h"
#include "lockstep/streams.h"
#include "support/fed.h"
#include "support/function.h"
#include "support/spec.h"

#define FOUR "virtual:2x2,cores=1,hosts=2"  // Two hosts with two cores each.
#define TWO "virtual:2x1,cores=1"           // One host with two.

// ---- Inputs ----------------------------------------------------------------
// Rows in batches of what the call says.
static ls_nest rows(void *user, ls_input_call *call) {
  (void)user;
  return ls_nest_dataset(
      fed_rows(1000, ls_params_i64(call->params, "batch_size", 0)));
}

// Values of the graph: what the invocation is, and that plus 0.5 as labels.
static ls_nest values(void *user, ls_input_call *call) {
  (void)user;
  ls_input_deployment at = {0};
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  const int64_t batch = ls_params_i64(call->params, "batch_size", 0);
  const ls_shape shape = LS_SHAPE(batch);
  const ls_tensor x =
      ls_add(ls_iota(LS_DTYPE_F32, shape, 0),
             ls_fill(LS_DTYPE_F32, shape, 100 * (double)at.invocation));
  return LS_TUPLE(ls_leaf(x), ls_leaf(ls_add_scalar(x, 0.5)));
}

static ls_nest a_triple(void *user, ls_input_call *call) {
  LS_OWN(ls_nest, two) = values(user, call);
  return LS_TUPLE(ls_nest_retain(ls_nest_item(two, 0)),
                  ls_nest_retain(ls_nest_item(two, 1)), ls_nest_i64(3));
}

static ls_nest a_list(void *user, ls_input_call *call) {
  LS_OWN(ls_nest, two) = values(user, call);
  return LS_LIST(ls_nest_retain(ls_nest_item(two, 0)),
                 ls_nest_retain(ls_nest_item(two, 1)));
}

// Images [batch, 3] and labels [2, batch], which lie the other way round.
static ls_nest turned(void *user, ls_input_call *call) {
  (void)user;
  const int64_t batch = ls_params_i64(call->params, "batch_size", 0);
  return LS_TUPLE(ls_leaf(ls_iota(LS_DTYPE_F32, LS_SHAPE(batch, 3), 0)),
                  ls_leaf(ls_iota(LS_DTYPE_I32, LS_SHAPE(2, batch), 1)));
}

// ---- One call a host -------------------------------------------------------
TEST(data_sets_of_all_hosts_begin_in_one_hook) {
  LS_SPEC("E120");
  ls_monitored_session *session = NULL;
  LS_OWN_BEGUN(
      fed, f, fed_begin,
      (fed_facts){
          .pod = FOUR, .mode = LS_MODE_TRAIN, .batch = 8, .input = rows});
  expect_ok(ls_monitored_session_create(
      &(ls_monitored_options){
          .graph = f.graph, .hooks = &f.feed.hook, .num_hooks = 1},
      &session));
  expect_contains(f.infos_text, "began 2 data sets of the input in ");
  expect_ok(ls_monitored_session_close(session, ls_ok()));
}

TEST(a_host_shares_its_batch_out) {
  LS_SPEC("E99 E106 E117 E118");
  LS_OWN_BEGUN(
      fed, f, fed_begin,
      (fed_facts){
          .pod = FOUR, .mode = LS_MODE_TRAIN, .batch = 8, .input = rows});
  assert_int_equal(f.num_calls, 2);
  for (int h = 0; h < 2; ++h) {
    char place[80], scope[80];
    assert_int_equal(f.seen[h].batch_size, 4);
    assert_int_equal(f.seen[h].mode, LS_MODE_TRAIN);
    assert_int_equal(f.seen[h].at.invocation, h);
    assert_int_equal(f.seen[h].at.num_invocations, 2);
    snprintf(place, sizeof(place), "/job:worker/task:%d/device:CPU:0", h);
    expect_contains(f.seen[h].at.host.text, "/job:worker/task:");
    assert_string_equal(f.seen[h].at.host.text, place);
    snprintf(scope, sizeof(scope), "input_pipeline_task%d/", h);
    assert_string_equal(f.seen[h].scope, scope);
  }
  // One loop for both, on the first one's host: a step feeds both or none.
  const ls_op op = ls_nest_item(f.feed.ops, 0).as.op;
  assert_int_equal(ls_nest_count(f.feed.ops), 1);
  assert_string_equal(ls_op_type_name(op), "while");
  assert_string_equal(ls_op_device(op), f.seen[0].at.host.text);
  assert_false(f.feed.each_step);
  assert_int_equal(f.feed.num_iterators, 2);
  expect_ok(fed_run(&f, 3));
  for (int k = 0; k < 3; ++k)
    for (int h = 0; h < 2; ++h)
      for (int o = 0; o < 2; ++o)
        FED_EXPECT(&f, h, o, 4 * k + 2 * o, 4 * k + 2 * o + 1);
  // The next run goes on.
  expect_ok(fed_run(&f, 1));
  FED_EXPECT(&f, 1, 1, 14, 15);
}

// Predicting and evaluating, too, where cores are fed each by itself to train.
TEST(other_modes_are_fed_by_hosts) {
  LS_SPEC("E99");
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = TWO,
                           .mode = LS_MODE_EVAL,
                           .batch = 4,
                           .tpu.per_host_input = LS_INPUT_PER_SHARD_V1,
                           .input = rows});
  assert_int_equal(f.num_calls, 1);
  assert_int_equal(f.seen[0].batch_size, 4);
  expect_ok(fed_run(&f, 1));
  FED_EXPECT(&f, 0, 0, 0, 1);
  FED_EXPECT(&f, 0, 1, 2, 3);
}

TEST(values_are_fed_a_step_a_run) {
  LS_SPEC("E90 E91 E106 E118 E110 E111");
  fed f;
  fed_begin(
      &f, (fed_facts){
              .pod = FOUR, .mode = LS_MODE_TRAIN, .batch = 8, .input = values});
  assert_true(f.feed.each_step);
  assert_null(f.feed.hook);
  assert_int_equal(f.feed.num_iterators, 0);
  assert_int_equal(ls_nest_count(f.feed.ops), 4);
  // What is cut is cut where it is, and fed from there.
  for (int h = 0; h < 2; ++h) {
    static const char *const names[] = {"split/0", "split/1", "enqueue/0",
                                        "enqueue/1"};
    for (int i = 0; i < 4; ++i) {
      char name[80], place[80];
      ls_op op;
      snprintf(name, sizeof(name), "input_pipeline_task%d/InfeedQueue/%s", h,
               names[i]);
      snprintf(place, sizeof(place), "/job:worker/task:%d/device:CPU:0", h);
      expect_ok(ls_graph_lookup_op(f.graph, name, &op));
      expect_contains(ls_op_device(op), place);
    }
  }
  for (int k = 0; k < 2; ++k) {
    expect_ok(fed_run(&f, 7));
    for (int h = 0; h < 2; ++h)
      for (int o = 0; o < 2; ++o) {
        LS_OWN(ls_nest, tuple) = fed_take(&f, h, o);
        LS_OWN(ls_feed_element, v) = fed_values(&f, tuple);
        assert_true(ls_array_f64(ls_nest_as_array(v.features), 1) ==
                    100 * h + 2 * o + 1);
        assert_true(ls_array_f64(ls_nest_as_array(v.labels), 0) ==
                    100 * h + 2 * o + 0.5);
        assert_int_equal(v.mask.kind, LS_KIND_NONE);
      }
  }
  fed_close(&f);
  // A list is features; a tuple is a pair.
  fed_begin(
      &f, (fed_facts){
              .pod = TWO, .mode = LS_MODE_TRAIN, .batch = 4, .input = a_list});
  assert_int_equal(ls_nest_find(f.feed.structure, "features").kind,
                   LS_KIND_LIST);
  assert_int_equal(ls_nest_count(f.feed.structure), 1);
  fed_close(&f);
  fed_refused(
      (fed_facts){
          .pod = TWO, .mode = LS_MODE_TRAIN, .batch = 4, .input = a_triple},
      LS_INVALID_ARGUMENT, "(features, labels)");
}

TEST(batches_are_cut_along_the_axes_that_are_said) {
  LS_SPEC("E99");
  static const int64_t axes[] = {0, 1};
  fed f;
  fed_begin(&f,
            (fed_facts){.pod = TWO,
                        .mode = LS_MODE_TRAIN,
                        .batch = 4,
                        .options = {.batch_axis = axes, .num_batch_axes = 2},
                        .input = turned});
  expect_ok(fed_run(&f, 1));
  for (int o = 0; o < 2; ++o) {
    LS_OWN(ls_nest, tuple) = fed_take(&f, 0, o);
    const ls_array *x = ls_nest_as_array(ls_nest_item(tuple, 0));
    const ls_array *y = ls_nest_as_array(ls_nest_item(tuple, 1));
    assert_true(ls_shape_equal(ls_array_shape(x), LS_SHAPE(2, 3)));
    assert_true(ls_shape_equal(ls_array_shape(y), LS_SHAPE(2, 2)));
    assert_true(ls_array_f64(x, 0) == 2 * o);
    assert_true(ls_array_f64(y, 1) == 2 * o + 1);
  }
  fed_close(&f);
  // Without them labels have too few rows.
  fed_refused((fed_facts){.pod = FOUR,
                          .mode = LS_MODE_TRAIN,
                          .batch = 12,
                          .options = {.batch_axis = axes, .num_batch_axes = 1},
                          .input = turned},
              LS_INVALID_ARGUMENT, "batch_axis");
}

// ---- One call a core -------------------------------------------------------
TEST(each_core_has_an_input_of_its_own) {
  LS_SPEC("E98");
  fed f;
  fed_begin(&f, (fed_facts){.pod = FOUR,
                            .mode = LS_MODE_TRAIN,
                            .batch = 8,
                            .tpu.per_host_input = LS_INPUT_PER_SHARD_V1,
                            .input = values});
  assert_int_equal(f.num_calls, 4);
  assert_null(f.feed.hook);  // Nothing is to be initialized.
  assert_true(f.feed.each_step);
  for (int i = 0; i < 4; ++i) {
    char scope[80];
    assert_int_equal(f.seen[i].batch_size, 2);
    assert_int_equal(f.seen[i].at.invocation, i);
    assert_int_equal(f.seen[i].at.num_invocations, 4);
    snprintf(scope, sizeof(scope), "input_pipeline_task%d/ordinal_%d/", i / 2,
             i % 2);
    assert_string_equal(f.seen[i].scope, scope);
  }
  expect_ok(fed_run(&f, 1));
  for (int i = 0; i < 4; ++i)
    FED_EXPECT(&f, i / 2, i % 2, 100 * i, 100 * i + 1);
  fed_close(&f);
  fed_refused((fed_facts){.pod = FOUR,
                          .mode = LS_MODE_TRAIN,
                          .batch = 8,
                          .tpu.per_host_input = LS_INPUT_PER_SHARD_V1,
                          .input = rows},
              LS_INVALID_ARGUMENT, "TPUConfig.per_host_input_for_training");
}

// ---- One element a replica -------------------------------------------------
TEST(elements_go_to_replicas_in_order) {
  LS_SPEC("E101");
  for (int parallel = 0; parallel < 2; ++parallel) {
    LS_OWN_BEGUN(
        fed, f, fed_begin,
        (fed_facts){.pod = FOUR,
                    .mode = LS_MODE_TRAIN,
                    .batch = 8,
                    .tpu = {.per_host_input = LS_INPUT_PER_HOST_V2,
                            .parallel_get_next =
                                parallel ? LS_FLAG_ON : LS_FLAG_DEFAULT},
                    .input = rows});
    assert_int_equal(f.num_calls, 2);
    assert_int_equal(f.seen[1].batch_size, 2);
    // The second read waits for the first.
    LS_OWN(printed, text) = graph_text(f.graph);
    const bool waits =
        strstr(text, "() ^%2 {kernel = kernel \"iterator_get_next\"") != NULL;
    assert_int_equal(waits, !parallel);
    expect_ok(fed_run(&f, 3));
    for (int k = 0; k < 3 && !parallel; ++k)
      for (int i = 0; i < 4; ++i)
        FED_EXPECT(&f, i / 2, i % 2, 4 * k + 2 * (i % 2),
                   4 * k + 2 * (i % 2) + 1);
  }
  for (ls_estimator_mode mode = LS_MODE_TRAIN; mode < LS_NUM_MODES; ++mode)
    fed_refused((fed_facts){.pod = TWO,
                            .mode = mode,
                            .batch = 4,
                            .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
                            .input = values},
                LS_INVALID_ARGUMENT,
                mode == LS_MODE_PREDICT ? "Dataset" : "PER_HOST_V2");
}

// A warning of many reads is not for these.
TEST(a_host_may_have_many_replicas) {
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:8x8,cores=1",
                           .mode = LS_MODE_TRAIN,
                           .batch = 128,
                           .tpu.per_host_input = LS_INPUT_PER_HOST_V2,
                           .input = rows});
  assert_int_equal(f.warnings, 0);
  expect_ok(fed_run(&f, 2));
  for (int i = 0; i < 64; i += 21)
    for (int k = 0; k < 2; ++k)
      FED_EXPECT(&f, 0, i, 128 * k + 2 * i, 128 * k + 2 * i + 1);
}

// ---- The same for all ------------------------------------------------------
TEST(one_element_goes_to_all_replicas) {
  LS_SPEC("E104 E117");
  for (int way = 0; way < 2; ++way) {
    LS_OWN_BEGUN(fed, f, fed_begin,
                 (fed_facts){.pod = FOUR,
                             .mode = way == 0 ? LS_MODE_TRAIN : LS_MODE_EVAL,
                             .batch = 3,
                             .tpu.per_host_input = LS_INPUT_BROADCAST,
                             .input = way == 0 ? rows : values});
    assert_int_equal(f.num_calls, 1);
    assert_int_equal(f.seen[0].batch_size, 3);
    assert_int_equal(f.seen[0].at.invocation, 0);
    assert_string_equal(f.seen[0].scope, "");
    assert_true(f.feed.each_step == (way == 1));
    expect_ok(fed_run(&f, 2));
    for (int k = 0; k < 2 && way == 0; ++k)
      for (int i = 0; i < 4; ++i)
        FED_EXPECT(&f, i / 2, i % 2, 3 * k, 3 * k + 1, 3 * k + 2);
    for (int i = 0; i < 4 && way == 1; ++i)
      FED_EXPECT(&f, i / 2, i % 2, 0, 1, 2);
  }
}

TEST(slices_of_one_element_go_to_replicas) {
  LS_SPEC("E105");
  fed f;
  fed_begin(&f, (fed_facts){.pod = FOUR,
                            .mode = LS_MODE_EVAL,
                            .batch = 8,
                            .tpu.eval_training_input = LS_INPUT_SLICED,
                            .input = rows});
  assert_int_equal(f.num_calls, 1);
  assert_int_equal(f.seen[0].batch_size, 8);
  expect_ok(fed_run(&f, 2));
  for (int k = 0; k < 2; ++k)
    for (int i = 0; i < 4; ++i)
      FED_EXPECT(&f, i / 2, i % 2, 8 * k + 2 * i, 8 * k + 2 * i + 1);
  fed_close(&f);
  // A batch that is no multiple of the replicas: validation lets it pass.
  fed_refused((fed_facts){.pod = FOUR,
                          .mode = LS_MODE_EVAL,
                          .batch = 6,
                          .tpu.eval_training_input = LS_INPUT_SLICED,
                          .input = rows},
              LS_INVALID_ARGUMENT, "4");
}

TEST(slices_go_to_all_replicas_that_are_on_several_hosts) {
  LS_SPEC("E39 E105");
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:4x2,hosts=4",
                           .mode = LS_MODE_EVAL,
                           .batch = 4,
                           .tpu = {.per_host_input = LS_INPUT_PER_HOST_V2,
                                   .eval_training_input = LS_INPUT_SLICED,
                                   .num_cores_per_replica = LS_SOME(8)},
                           .input = rows});
  assert_int_equal(f.num_calls, 1);
  assert_int_equal(f.seen[0].at.num_replicas, 2);
  expect_ok(fed_run(&f, 2));
  for (int k = 0; k < 2; ++k)
    for (int i = 0; i < 2; ++i) {
      const ls_replica_core core = f.calls.plan->system->replicas[i];
      FED_EXPECT(&f, core.host, core.ordinal, 4 * k + 2 * i, 4 * k + 2 * i + 1);
    }
}

// ---- The end ---------------------------------------------------------------

// The same, of which nobody knows how many they are.
static ls_status keep_all(ls_nest element, const ls_map_call *call, void *user,
                          bool *out_keep) {
  (void)element, (void)call, (void)user;
  *out_keep = true;
  return ls_ok();
}
static ls_nest ten_in_a_stream(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *made = ls_dataset_filter(ls_dataset_range(0, 10, 1),
                                       &(ls_filter_options){.call = keep_all});
  made =
      ls_dataset_convert(made, 0, &(ls_convert_options){.dtype = LS_DTYPE_F32});
  return ls_nest_dataset(ls_dataset_batch(
      made, &(ls_batch_options){
                .size = ls_params_i64(call->params, "batch_size", 0)}));
}

TEST(a_last_short_batch_is_left_out) {
  for (int way = 0; way < 2; ++way) {
    LS_OWN_BEGUN(
        fed, f, fed_begin,
        (fed_facts){.pod = TWO,
                    .mode = LS_MODE_TRAIN,
                    .batch = 4,
                    .input = way == 0 ? ten_fed_rows : ten_in_a_stream});
    expect_ok(fed_run(&f, 2));
    expect_status(fed_run(&f, 2), LS_OUT_OF_RANGE, "");
    for (int k = 0; k < 2; ++k)
      FED_EXPECT(&f, 0, 1, 4 * k + 2, 4 * k + 3);
    const char *line = strstr(f.infos_text, "a last batch of 2 examples");
    assert_non_null(line);
    assert_null(strstr(line + 1, "a last batch of"));
  }
}

TEST(cores_are_told_that_there_is_no_more) {
  LS_OWN_BEGUN(
      fed, f, fed_begin,
      (fed_facts){
          .pod = FOUR, .mode = LS_MODE_TRAIN, .batch = 4, .input = rows});
  assert_int_equal(ls_nest_count(f.feed.close_ops), 4);
  expect_ok(fed_run(&f, 1));
  LS_OWN(ls_nest, results) = session_results(f.session, f.feed.close_ops);
  FED_EXPECT(&f, 1, 1, 1);
  expect_status(fed_run(&f, 1), LS_FAILED_PRECONDITION, "closed");
}

// ---- Rules of all ----------------------------------------------------------
static ls_nest other_types(void *user, ls_input_call *call) {
  (void)user;
  ls_input_deployment at = {0};
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  return ls_leaf(ls_fill(at.invocation == 0 ? LS_DTYPE_F32 : LS_DTYPE_I32,
                         LS_SHAPE(4), 1));
}

static ls_nest other_shapes(void *user, ls_input_call *call) {
  (void)user;
  ls_input_deployment at = {0};
  expect_ok(ls_user_context_deployment(ls_params_context(call->params), &at));
  return ls_leaf(
      ls_fill(LS_DTYPE_F32, LS_SHAPE(at.invocation == 0 ? 4 : 6), 1));
}

TEST(all_hosts_feed_the_same_types) {
  LS_SPEC("E119");
  fed_refused(
      (fed_facts){
          .pod = FOUR, .mode = LS_MODE_TRAIN, .batch = 8, .input = other_types},
      LS_INVALID_ARGUMENT, "i32[2] on host 1");
  fed_refused((fed_facts){.pod = FOUR,
                          .mode = LS_MODE_TRAIN,
                          .batch = 8,
                          .input = other_shapes},
              LS_INVALID_ARGUMENT, "f32[3] on host 1");
  // The queue of the program is as the first host's, of all replicas.
  LS_OWN_BEGUN(
      fed, f, fed_begin,
      (fed_facts){
          .pod = FOUR, .mode = LS_MODE_TRAIN, .batch = 8, .input = rows});
  assert_int_equal(ls_infeed_queue_num_shards(f.feed.queue).value, 4);
  assert_true(
      ls_shape_equal(ls_infeed_queue_type(f.feed.queue, 0).shape, LS_SHAPE(8)));
  LS_OWN(ls_nest, tuple) = ls_none();
  expect_ok(ls_infeed_queue_dequeue(f.feed.queue, 0, &tuple));
  assert_true(
      ls_shape_equal(ls_tensor_shape(ls_nest_tensor(tuple, 0)), LS_SHAPE(2)));
}

TEST(ops_of_a_host_are_built_once) {
  LS_SPEC("E106");
  static const ls_input_pipeline ways[] = {
      LS_INPUT_PER_HOST_V1, LS_INPUT_PER_HOST_V2, LS_INPUT_BROADCAST};
  for (int i = 0; i < 6; ++i) {
    const bool predicts = i % 2 == 1;
    LS_OWN(fed, f) = {0};
    ls_enqueue enqueue;
    LS_OWN(ls_recorder, recorder) = {0};
    ls_nest ops = ls_none(), signals = ls_none(), more = ls_none();
    fed_open(&f, (fed_facts){.pod = TWO,
                             .mode = predicts ? LS_MODE_PREDICT : LS_MODE_TRAIN,
                             .batch = 4,
                             .tpu.per_host_input = ways[i / 2],
                             .input = rows});
    recorder = ls_recorder_begin(ls_none());
    const ls_enqueue_options options = {
        .calls = &f.calls, .feed = &f.facts.options, .recorder = &recorder};
    expect_ok(ls_enqueue_init(&enqueue, &options));
    assert_null(enqueue.queue);
    assert_non_null(enqueue.source.iterator);  // The initializer.
    expect_ok(ls_enqueue_build(&enqueue, &ops, &signals));
    assert_non_null(enqueue.queue);
    assert_int_equal(ops.kind, LS_KIND_LIST);
    assert_int_equal(ls_nest_count(ops), 2);
    assert_int_equal(signals.kind, predicts ? LS_KIND_DICT : LS_KIND_NONE);
    expect_status(ls_enqueue_build(&enqueue, &more, &more),
                  LS_FAILED_PRECONDITION, "InternalError");
    ls_nest_release(ops);
    ls_nest_release(signals);
    ls_enqueue_deinit(&enqueue);
  }
}

static ls_nest with_runners(void *user, ls_input_call *call) {
  const ls_nest made = values(user, call);
  expect_ok(ls_graph_add_to_collection(ls_graph_current(), "queue_runners",
                                       ls_nest_item(made, 0)));
  return made;
}

TEST(queue_runners_are_told) {
  LS_SPEC("E121 E6");
  const fed_facts facts = {
      .pod = TWO, .mode = LS_MODE_TRAIN, .batch = 4, .input = with_runners};
  LS_OWN_BEGUN(fed, f, fed_begin, facts);
  assert_int_equal(f.warnings, 1);
  expect_contains(f.last_warning, "QueueRunners");
  fed_close(&f);
  fed_open(&f, facts);
  expect_ok(ls_input_feed_set_loops(true));
  expect_status(fed_make(&f), LS_FAILED_PRECONDITION, "QueueRunners");
  fed_close(&f);
  // Taken back, it is as before.
  fed_open(&f, facts);
  expect_ok(ls_input_feed_set_loops(true));
  expect_ok(ls_input_feed_set_loops(false));
  expect_ok(fed_make(&f));
  assert_true(f.feed.each_step);
}

// The switch: inputs of cores, too, are in loops on their hosts.
TEST(a_switch_puts_values_into_loops) {
  LS_SPEC("E6 E118");
  LS_OWN_BEGUN(fed, f, fed_open,
               (fed_facts){.pod = FOUR,
                           .mode = LS_MODE_TRAIN,
                           .batch = 8,
                           .tpu.per_host_input = LS_INPUT_PER_SHARD_V1,
                           .input = values});
  expect_ok(ls_input_feed_set_loops(true));
  expect_ok(fed_make(&f));
  assert_false(f.feed.each_step);
  assert_int_equal(f.num_calls, 4);
  assert_int_equal(ls_nest_count(f.feed.ops), 2);
  expect_ok(fed_run(&f, 3));
  for (int k = 0; k < 3; ++k)
    for (int i = 0; i < 4; ++i)
      FED_EXPECT(&f, i / 2, i % 2, 100 * i, 100 * i + 1);
}
