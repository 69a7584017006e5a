// SPDX-License-Identifier: Apache-2.0
//
// Replicated computations on a pod: as many replicas as cores, and tuples of an
// infeed as arguments.
#include <stdio.h>
#include <string.h>

#include "lockstep/replicate.h"
#include "support/computation.h"
#include "support/pod_runs.h"
#include "tpu/own.h"

static const ls_runtime_options one_thread = {.threads = 1};

static ls_nest give_back(ls_nest args, void *user) {
  (void)user;
  return LS_LIST(ls_nest_retain(ls_nest_item(args, 0)));
}

TEST(there_are_as_many_replicas_as_cores_or_one) {
  LS_SPEC("O104");
  for (size_t replicas = 1; replicas <= 5; ++replicas) {
    LS_OWN(pod_runs, f) = pod_runs_begin(2, 2, one_thread);
    {
      LS_GRAPH_SCOPE(f.graph);
      LS_OWN(ls_nest, outputs) = ls_none();
      LS_OWN(ls_nest, inputs) = computation_inputs(replicas);
      const ls_status status =
          ls_replicate(give_back, NULL, inputs, NULL, &outputs);
      if (replicas == 1 || replicas == 4) {
        expect_ok(status);
      } else {
        char counts[40];
        snprintf(counts, sizeof(counts), "%zu replicas", replicas);
        assert_non_null(strstr(ls_status_message(status), counts));
        expect_status(status, LS_INVALID_ARGUMENT,
                      "TPU system 'virtual' of 4 cores (2 hosts with 2 each)");
      }
    }
  }
}

static ls_nest add_both(ls_nest args, void *user) {
  *(size_t *)user = ls_nest_count(args);
  const ls_tensor x = ls_nest_tensor(args, 0), y = ls_nest_tensor(args, 1);
  return LS_LIST(ls_leaf(ls_add(x, ls_reshape(y, LS_SCALAR))));
}

static ls_infeed_queue *queue_of(int64_t shards, int64_t rows) {
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(rows);
  ls_infeed_queue *queue = NULL;
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &queue));
  if (shards > 0) {
    expect_ok(ls_infeed_queue_set_num_shards(queue, shards));
    expect_ok(ls_infeed_queue_freeze(queue));
  }
  return queue;
}

TEST(elements_of_an_infeed_are_trailing_arguments) {
  LS_SPEC("O103");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, one_thread);
  LS_OWN(ls_infeed_queue, queue) = queue_of(0, 2);
  size_t supplied = 0;
  {
    LS_GRAPH_SCOPE(f.graph);
    ls_nest outputs = ls_none(), enqueued = ls_none();
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    expect_ok(ls_replicate(add_both, &supplied, inputs,
                           &(ls_replicate_options){.infeed = queue}, &outputs));
    assert_int_equal(supplied, 2);
    assert_int_equal(ls_infeed_queue_num_shards(queue).value, 2);
    LS_OWN(ls_array, rows) =
        array_of(LS_DTYPE_F32, LS_SHAPE(2), (const double[]){10, 20});
    LS_OWN(ls_nest, values) = LS_LIST(ls_leaf(ls_constant(rows)));
    expect_ok(
        ls_infeed_queue_split_and_enqueue(queue, values, NULL, &enqueued));
    pod_runs_do(&f, LS_LIST(outputs, enqueued));
    const ls_nest results = ls_nest_item(f.results, 0);
    assert_true(ls_nest_number(ls_nest_item(ls_nest_item(results, 0), 0)) ==
                11);
    assert_true(ls_nest_number(ls_nest_item(ls_nest_item(results, 1), 0)) ==
                22);
  }
}

TEST(an_infeed_of_other_shards_is_refused) {
  LS_SPEC("O103 O147");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, one_thread);
  LS_OWN(ls_infeed_queue, queue) = queue_of(4, 4);
  size_t supplied = 0;
  {
    LS_GRAPH_SCOPE(f.graph);
    ls_nest outputs = ls_none();
    LS_OWN(ls_nest, inputs) = computation_inputs(2);
    const ls_status status =
        ls_replicate(add_both, &supplied, inputs,
                     &(ls_replicate_options){.infeed = queue}, &outputs);
    assert_non_null(strstr(ls_status_message(status), "4"));
    expect_status(status, LS_INVALID_ARGUMENT, "2");
  }
}

TEST(elements_of_an_infeed_count_as_arguments) {
  LS_SPEC("O98");
  static const char *const names[] = {"a", "b", "c"};
  for (size_t count = 1; count <= 3; ++count) {
    LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, one_thread);
    LS_OWN(ls_infeed_queue, queue) = queue_of(0, 2);
    size_t supplied = 0;
    {
      LS_GRAPH_SCOPE(f.graph);
      LS_OWN(ls_nest, outputs) = ls_none();
      LS_OWN(ls_nest, inputs) = computation_inputs(2);
      const ls_parameters parameters = {.names = names, .count = count};
      const ls_status status = ls_replicate(
          add_both, &supplied, inputs,
          &(ls_replicate_options){.infeed = queue, .parameters = &parameters},
          &outputs);
      if (count == 2) {
        expect_ok(status);
      } else {
        assert_non_null(strstr(ls_status_message(status), "given 1 input ("));
        assert_non_null(
            strstr(ls_status_message(status), "1 element of infeed queue '"));
        expect_status(status, LS_INVALID_ARGUMENT,
                      count == 1 ? "exactly 1 argument"
                                 : "exactly 3 arguments");
      }
    }
  }
}

TEST(a_training_loop_marks_steps_at_its_trips) {
  LS_SPEC("O101");
  LS_OWN_BEGUN(computation, c, computation_open);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  expect_ok(ls_replicate(give_back, NULL, inputs,
                         &(ls_replicate_options){.on_device_loop = LS_FLAG_ON},
                         &c.outputs));
  assert_string_equal(attr_text(op_named(c.graph, "tpu_replicate_metadata"),
                                "step_marker_location"),
                      "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP");
}
