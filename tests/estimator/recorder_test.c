// SPDX-License-Identifier: Apache-2.0
//
// The structure of what is fed, and how it is cut over a replica's cores.
#include <stdio.h>
#include <string.h>

#include "base/values/nest_internal.h"
#include "estimator/input/input.h"
#include "lockstep/ops.h"
#include "support/fed.h"
#include "support/function.h"
#include "support/spec.h"

// ---- Helpers of nests ------------------------------------------------------
TEST(keys_of_a_dict_are_sorted) {
  LS_SPEC("E4 E5");
  static const char *const names[] = {"c", "a", "b"};
  const ls_nest items[] = {ls_nest_i64(1), ls_nest_i64(2), ls_nest_i64(3)};
  const struct {
    ls_nest nest;
    size_t keys;
    bool is_node;
  } cases[] = {
      {ls_nest_dict("", names, items, 3), 3, true},
      {LS_TUPLE(ls_nest_i64(1), ls_nest_i64(2)), 0, true},
      {LS_LIST(ls_nest_i64(1)), 0, true},
      {ls_nest_named_tuple("T", names, items, 3), 0, true},
      {ls_nest_i64(1), 0, false},
      {ls_none(), 0, false},
      {ls_nest_zeros(LS_DTYPE_F32, LS_SHAPE(3)), 0, false},
  };
  for (size_t i = 0; i < LS_COUNT_OF(cases); ++i) {
    static const char *const sorted[] = {"a", "b", "c"};
    assert_true(ls_nest_is_node(cases[i].nest) == cases[i].is_node);
    for (size_t k = 0; k < cases[i].keys; ++k)
      assert_string_equal(
          ls_nest_key(cases[i].nest, ls_nest_sorted_position(cases[i].nest, k)),
          sorted[k]);
    ls_nest_release(cases[i].nest);
  }
}

// ---- Structures ------------------------------------------------------------
static ls_nest value(double number, int rank) {
  const ls_shape shape = {.rank = rank, .dim = {4, 6}};
  return ls_leaf(ls_fill(LS_DTYPE_F32, shape, number));
}

static ls_nest named(double first) {
  static const char *const keys[] = {"z", "a"};
  const ls_nest items[] = {value(first + 1, 2), value(first, 1)};
  return ls_nest_dict("", keys, items, 2);
}

TEST(what_is_fed_has_one_structure) {
  LS_SPEC("E115");
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    for (int has = 0; has < 4; ++has) {
      LS_OWN(ls_recorder, recorder) = ls_recorder_begin(ls_none());
      LS_OWN(ls_feed_element, all) = {.features = named(1)};
      ls_feed_element back;
      LS_OWN(ls_nest, list) = ls_none();
      if (has & 1) all.labels = value(3, 1);
      if (has & 2) all.signals = named(4);
      const size_t count = (size_t)(2 + (has & 1) + (has & 2));
      expect_ok(ls_recorder_note(&recorder, &all));
      expect_ok(ls_recorder_flatten(&recorder, &all, &list));
      assert_int_equal(ls_nest_count(list), count);
      // Features, labels, signals; in them by key.
      assert_true(ls_nest_is_same(ls_nest_item(list, 0),
                                  ls_nest_find(all.features, "a")));
      assert_true(ls_nest_is_same(ls_nest_item(list, 1),
                                  ls_nest_find(all.features, "z")));
      if (has & 1)
        assert_true(ls_nest_is_same(ls_nest_item(list, 2), all.labels));
      if (has & 2)
        assert_true(ls_nest_is_same(ls_nest_item(list, count - 1),
                                    ls_nest_find(all.signals, "z")));
      expect_ok(ls_recorder_unflatten(recorder.structure, list, &back));
      expect_ok(ls_nest_same_structure(back.features, all.features));
      assert_true(ls_nest_is_same(ls_nest_find(back.features, "z"),
                                  ls_nest_find(all.features, "z")));
      assert_int_equal(back.labels.kind,
                       has & 1 ? LS_KIND_TENSOR : LS_KIND_NONE);
      assert_int_equal(back.signals.kind,
                       has & 2 ? LS_KIND_DICT : LS_KIND_NONE);
      ls_feed_element_drop(&back);
      const ls_nest one = LS_LIST(value(1, 1));
      expect_status(ls_recorder_unflatten(recorder.structure, one, &back),
                    LS_INVALID_ARGUMENT, "1 elements");
      ls_nest_release(one);
      const ls_nest six = LS_LIST(value(1, 1), value(2, 1), value(3, 1),
                                  value(4, 1), value(5, 1), value(6, 1));
      expect_status(ls_recorder_unflatten(recorder.structure, six, &back),
                    LS_INVALID_ARGUMENT, "6 elements");
      ls_nest_release(six);
      // The first counts.
      LS_OWN(ls_feed_element, other) = {.features = value(1, 1)};
      ls_nest more = ls_none();
      expect_ok(ls_recorder_note(&recorder, &other));
      expect_status(ls_recorder_flatten(&recorder, &other, &more),
                    LS_INVALID_ARGUMENT, "differ");
    }
  }
}

// ---- How it is cut ---------------------------------------------------------
static ls_nest two(int64_t a, int64_t b) {
  return LS_LIST(ls_nest_i64(a), ls_nest_i64(b));
}
static ls_nest one(int64_t a) { return LS_LIST(ls_nest_i64(a)); }
static ls_nest dict_of(const char *first, ls_nest a, const char *second,
                       ls_nest b) {
  const char *const keys[] = {first, second};
  const ls_nest items[] = {a, b};
  return ls_nest_dict("", keys, items, 2);
}

// Features {a: [4], z: [4,6]}, labels [4].
static ls_status note(ls_nest dims, bool labels, char *out, size_t size) {
  ls_recorder recorder = ls_recorder_begin(dims);
  ls_feed_element all = {.features = named(1),
                         .labels = labels ? named(3) : ls_none(),
                         .mask = value(9, 1)};
  const ls_shape *parts = NULL;
  size_t count = 0;
  expect_status(ls_recorder_parts(&recorder, &parts, &count),
                LS_FAILED_PRECONDITION, "before");
  ls_status status = ls_recorder_note(&recorder, &all);
  out[0] = '\0';
  if (ls_status_is_ok(status)) {
    expect_ok(ls_recorder_parts(&recorder, &parts, &count));
    for (size_t i = 0; i < count; ++i) {
      strncat(out, LS_SHAPE_TEXT(LS_DTYPE_F32, parts[i]) + 3,
              size - strlen(out) - 1);
      strncat(out, " ", size - strlen(out) - 1);
    }
  }
  ls_feed_element_drop(&all);
  ls_recorder_deinit(&recorder);
  ls_nest_release(dims);
  return status;
}

TEST(partitions_follow_the_structure) {
  LS_SPEC("E116");
  LS_OWN(counted, c) = counted_begin(1);
  char text[300];
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    // A mask is not cut, nor are labels of which nothing is said.
    expect_ok(note(LS_LIST(dict_of("z", two(1, 2), "a", one(2))), false, text,
                   sizeof(text)));
    assert_string_equal(text, "[2] [1,2] [...] ");
    expect_ok(note(LS_LIST(dict_of("z", two(1, 2), "a", ls_none())), true, text,
                   sizeof(text)));
    assert_string_equal(text, "[...] [1,2] [...] [...] [...] ");
    expect_ok(note(LS_LIST(dict_of("z", two(1, 2), "a", one(2)), ls_none()),
                   true, text, sizeof(text)));
    assert_string_equal(text, "[2] [1,2] [...] [...] [...] ");
    expect_ok(note(LS_LIST(dict_of("z", two(1, 2), "a", one(2)),
                           dict_of("a", one(1), "z", two(2, 1))),
                   true, text, sizeof(text)));
    assert_string_equal(text, "[2] [1,2] [1] [2,1] [...] ");
    expect_status(note(LS_LIST(ls_none()), false, text, sizeof(text)),
                  LS_INVALID_ARGUMENT, "input_partition_dims[0]");
    static const char *const says[] = {
        "input_partition_dims[0] mismatched feature keys", "Expected [a, z]",
        "got [a, y]"};
    for (int i = 0; i < 3; ++i)
      expect_status(note(LS_LIST(dict_of("y", two(1, 2), "a", one(2))), false,
                         text, sizeof(text)),
                    LS_INVALID_ARGUMENT, says[i]);
    expect_status(note(LS_LIST(one(2)), false, text, sizeof(text)),
                  LS_INVALID_ARGUMENT,
                  "input_partition_dims[0] mismatched feature keys");
    expect_status(note(LS_LIST(dict_of("z", two(1, 2), "a", one(2)),
                               dict_of("a", one(1), "b", two(2, 1))),
                       true, text, sizeof(text)),
                  LS_INVALID_ARGUMENT,
                  "input_partition_dims[1] mismatched label keys");
    // Deeper down.
    expect_status(note(LS_LIST(dict_of("z", dict_of("u", one(1), "v", one(2)),
                                       "a", one(2))),
                       false, text, sizeof(text)),
                  LS_INVALID_ARGUMENT, "mismatched the structure of features");
    expect_status(
        note(LS_LIST(dict_of("z", two(1, 2), "a", one(2)),
                     dict_of("z", LS_LIST(one(1), one(2)), "a", one(2))),
             true, text, sizeof(text)),
        LS_INVALID_ARGUMENT, "mismatched the structure of labels");
    // Parts are whole.
    expect_status(
        note(LS_LIST(dict_of("z", two(1, 2), "a", LS_LIST(ls_nest_f64(2)))),
             false, text, sizeof(text)),
        LS_INVALID_ARGUMENT, "mismatched the structure of features");
  }
}

// ---- Feeds -----------------------------------------------------------------
// Images [2, 4] of a replica, whose number i is i, and labels [2].
static ls_nest pair_of(ls_nest element, const ls_map_call *call, void *user) {
  (void)call, (void)user;
  const ls_nest labels = ls_nest_zeros(LS_DTYPE_I32, LS_SHAPE(2));
  ls_array_set_i64(ls_nest_as_array(labels), 1,
                   ls_array_i64(ls_nest_as_array(element), 0));
  return LS_TUPLE(ls_nest_retain(element), labels);
}

static ls_nest images(void *user, ls_input_call *call) {
  (void)user;
  const int64_t batch = ls_params_i64(call->params, "batch_size", 0);
  assert_int_equal(batch, 2);
  ls_dataset *made = fed_rows(400, 4);
  made = ls_dataset_batch(
      made, &(ls_batch_options){.size = batch, .remainder = LS_REMAINDER_DROP});
  return ls_nest_dataset(
      ls_dataset_map(made, &(ls_map_options){.call = pair_of}));
}

// Two hosts with four cores each, of which each replica has two.
TEST(a_replicas_cores_get_their_pieces) {
  LS_SPEC("E103 E112 E113 E114");
  static const struct { int64_t a, b; } cuts[] = {{2, 1}, {1, 2}};
  for (size_t k = 0; k < LS_COUNT_OF(cuts); ++k) {
    const ls_nest dims = LS_LIST(two(cuts[k].a, cuts[k].b));
    LS_OWN_BEGUN(fed, f, fed_begin,
                 (fed_facts){.pod = "virtual:2x2,hosts=2",
                             .mode = LS_MODE_TRAIN,
                             .batch = 8,
                             .tpu = {.per_host_input = LS_INPUT_PER_HOST_V2,
                                     .num_cores_per_replica = LS_SOME(2),
                                     .input_partition_dims = dims},
                             .input = images});
    ls_nest_release(dims);
    assert_int_equal(f.num_calls, 2);
    assert_int_equal(f.feed.num_iterators, 2);
    expect_ok(fed_run(&f, 1));
    // What cores get is half of it, and all labels.
    const ls_type types[] = {
        {LS_DTYPE_F32, LS_SHAPE(2 / cuts[k].a, 4 / cuts[k].b)},
        {LS_DTYPE_I32, LS_SHAPE(2)}};
    for (int host = 0; host < 2; ++host) {
      ls_nest fetches[4], results = ls_none();
      for (int core = 0; core < 4; ++core) {
        char device[80];
        snprintf(device, sizeof(device), "/job:worker/task:%d/device:TPU:%d",
                 host, core);
        LS_DEVICE_SCOPE(device);
        const ls_op op = ls_infeed_dequeue_tuple(types, 2);
        fetches[core] =
            LS_LIST(ls_leaf(ls_op_output(op, 0)), ls_leaf(ls_op_output(op, 1)));
      }
      LS_OWN(ls_nest, all) = ls_nest_sequence(LS_KIND_LIST, fetches, 4);
      expect_ok(ls_session_run(f.session, all, NULL, 0, &results));
      for (int core = 0; core < 4; ++core) {
        const ls_nest got = ls_nest_item(results, (size_t)core);
        const ls_array *x = ls_nest_as_array(ls_nest_item(got, 0));
        const ls_array *y = ls_nest_as_array(ls_nest_item(got, 1));
        // Replica r of the host has images 8 r to 8 r + 7.
        const int r = core / 2, piece = core % 2;
        const double first = 8 * r + piece * (cuts[k].a == 2 ? 4 : 2);
        assert_true(ls_array_f64(x, 0) == first);
        assert_true(ls_array_f64(x, 1) == first + 1);
        assert_int_equal(ls_array_i64(y, 1), 8 * r);
      }
      ls_nest_release(results);
    }
    // The dequeue gives whole values, and says how they lie.
    LS_OWN(ls_nest, tuple) = ls_none();
    expect_ok(ls_infeed_queue_dequeue(f.feed.queue, 0, &tuple));
    assert_true(ls_shape_equal(ls_tensor_shape(ls_nest_tensor(tuple, 0)),
                               LS_SHAPE(2, 4)));
    const ls_attr *attr = NULL;
    expect_ok(
        ls_op_attr(ls_tensor_op(ls_nest_tensor(tuple, 0)), "_sharding", &attr));
    expect_contains(attr->as.string, "tiled");
    expect_ok(
        ls_op_attr(ls_tensor_op(ls_nest_tensor(tuple, 1)), "_sharding", &attr));
    assert_string_equal(attr->as.string, "replicated");
  }
}

// A prediction's signals are not cut; one host.
static ls_nest few_images(void *user, ls_input_call *call) {
  (void)user, (void)call;
  return ls_nest_dataset(ls_dataset_batch(
      fed_rows(12, 4),
      &(ls_batch_options){.size = 2, .remainder = LS_REMAINDER_KEEP}));
}

TEST(signals_are_not_cut) {
  LS_SPEC("E103");
  const ls_nest dims = LS_LIST(two(1, 2));
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:1x1",
                           .mode = LS_MODE_PREDICT,
                           .batch = 2,
                           .tpu = {.per_host_input = LS_INPUT_PER_HOST_V2,
                                   .num_cores_per_replica = LS_SOME(2),
                                   .input_partition_dims = dims},
                           .input = few_images});
  ls_nest_release(dims);
  expect_ok(fed_run(&f, 0));
  const ls_type types[] = {{LS_DTYPE_F32, LS_SHAPE(2, 2)},
                           {LS_DTYPE_I32, LS_SHAPE(2)},
                           {LS_DTYPE_BOOL, LS_SHAPE(2, 1)}};
  for (int core = 0; core < 2; ++core) {
    ls_nest items[3], results = ls_none();
    char device[80];
    snprintf(device, sizeof(device), "/job:worker/task:0/device:TPU:%d", core);
    LS_DEVICE_SCOPE(device);
    const ls_op op = ls_infeed_dequeue_tuple(types, 3);
    for (unsigned i = 0; i < 3; ++i)
      items[i] = ls_leaf(ls_op_output(op, i));
    LS_OWN(ls_nest, all) = ls_nest_sequence(LS_KIND_LIST, items, 3);
    for (int k = 0; k < 3; ++k) {
      expect_ok(ls_session_run(f.session, all, NULL, 0, &results));
      const ls_array *x = ls_nest_as_array(ls_nest_item(results, 0));
      if (k < 2) assert_true(ls_array_f64(x, 0) == 8 * k + 2 * core);
      const ls_array *mask = ls_nest_as_array(ls_nest_item(results, 1));
      const ls_array *stop = ls_nest_as_array(ls_nest_item(results, 2));
      assert_int_equal(ls_array_i64(mask, 1), k == 1);
      assert_int_equal(ls_array_i64(stop, 0), k == 2);
    }
    ls_nest_release(results);
  }
}

// Replicas of eight cores on hosts with four: each has an input of its own, on
// the host of its first core.
TEST(replicas_on_several_hosts_have_an_input_each) {
  LS_SPEC("E117");
  LS_OWN_BEGUN(fed, f, fed_begin,
               (fed_facts){.pod = "virtual:4x2,hosts=4",
                           .mode = LS_MODE_TRAIN,
                           .batch = 4,
                           .tpu = {.per_host_input = LS_INPUT_PER_HOST_V2,
                                   .num_cores_per_replica = LS_SOME(8)},
                           .input = images});
  assert_int_equal(f.num_calls, 2);
  for (int i = 0; i < 2; ++i) {
    char scope[80];
    assert_int_equal(f.seen[i].at.invocation, i);
    assert_int_equal(f.seen[i].at.num_invocations, 2);
    assert_int_equal(f.seen[i].at.num_replicas, 1);
    snprintf(scope, sizeof(scope), "input_pipeline_task%d/", 2 * i);
    assert_string_equal(f.seen[i].scope, scope);
  }
  expect_ok(fed_run(&f, 2));
  for (int k = 0; k < 2; ++k)
    for (int i = 0; i < 2; ++i)
      FED_EXPECT(&f, 2 * i, 0, 8 * k, 8 * k + 1, 8 * k + 2, 8 * k + 3,
                 8 * k + 4, 8 * k + 5, 8 * k + 6, 8 * k + 7);
}

// Of features that are one tensor, and of others that are dicts of dicts.
TEST(partitions_of_other_structures_are_refused) {
  LS_SPEC("E116");
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    for (int deep = 0; deep < 2; ++deep)
      for (int bad = 0; bad < 2; ++bad) {
        const ls_nest inner =
            deep == 0
                ? (bad ? ls_none() : one(2))
                : dict_of("x", dict_of("u", one(1), bad ? "w" : "v", one(2)),
                          "y", one(2));
        LS_OWN(ls_nest, dims) = LS_LIST(inner);
        LS_OWN(ls_recorder, recorder) = ls_recorder_begin(dims);
        LS_OWN(ls_feed_element, all) = {.features = value(1, 1)};
        if (deep == 1) {
          ls_nest_release(all.features);
          all.features =
              dict_of("x", dict_of("u", value(1, 1), "v", value(2, 1)), "y",
                      value(3, 1));
        }
        const ls_status status = ls_recorder_note(&recorder, &all);
        if (bad == 0)
          expect_ok(status);
        else
          expect_status(status, LS_INVALID_ARGUMENT,
                        deep == 0 ? "input_partition_dims[0] must not be none"
                                  : "mismatched the structure of features");
      }
  }
}
