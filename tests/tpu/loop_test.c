// SPDX-License-Identifier: Apache-2.0
//
// Training loops, in replicated computations and outside.
#include <stdio.h>
#include <string.h>

#include "lockstep/flow.h"
#include "lockstep/replicate.h"
#include "lockstep/training_loop.h"
#include "support/assignments.h"
#include "support/callbacks.h"
#include "support/pod_runs.h"
#include "support/values.h"
#include "tpu/own.h"

static const ls_runtime_options one_thread = {.threads = 1, .stall_ms = 20000};

// What a test's loop does.
typedef struct job {
  ls_training_loop loop;
  int64_t times;  // Below -1: ls_training_while.
  size_t num_inputs;
  ls_variable *variable;
  int calls;
} job;

static ls_nest zeros(size_t count) {
  ls_nest items[4];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_leaf(pod_number(0));
  return count == 0 ? ls_none() : ls_nest_sequence(LS_KIND_LIST, items, count);
}

// The computation: the loop alone.
static ls_nest compute(ls_nest args, void *user) {
  const job *j = user;
  (void)args;
  ls_nest outputs = ls_none();
  LS_OWN(ls_nest, inputs) = zeros(j->num_inputs);
  const ls_status status =
      j->loop.condition != NULL
          ? ls_training_while(&j->loop, inputs, &outputs)
          : ls_training_repeat(j->times, &j->loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

// One replicated input, so that there are so many replicas.
static ls_status replicate(job *j, int replicas, ls_nest *outputs) {
  ls_nest items[64];
  j->loop.user = j;
  for (int r = 0; r < replicas; ++r)
    items[r] = LS_LIST(ls_leaf(pod_number(r)));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)replicas);
  return ls_replicate(compute, j, inputs, NULL, outputs);
}

// Of one element, of which each replica gets one number.
static ls_infeed_queue *make_queue(int replicas) {
  static const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(replicas);
  ls_infeed_queue *queue = NULL;
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &queue));
  return queue;
}

static ls_tensor item(ls_nest args, size_t i) {
  return ls_nest_tensor(args, i);
}

// What came by the infeed.
static ls_tensor next_of(ls_nest args) {
  return ls_reshape(item(args, 1), LS_SCALAR);
}

static double result_of(const pod_runs *f, size_t replica, size_t i) {
  const ls_nest of = ls_nest_item(f->results, replica);
  return ls_array_f64(ls_nest_as_array(ls_nest_item(of, i)), 0);
}

static ls_variable *make_counter(void) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, zero) = NULL;
  expect_ok(ls_array_create(LS_DTYPE_F32, LS_SCALAR, &zero));
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "v", .initial_array = zero}, &variable));
  return variable;
}

// ---- Without an infeed -----------------------------------------------------
static ls_nest below_seven(ls_nest args, void *user) {
  (void)user;
  assert_int_equal(ls_nest_count(args), 2);
  return ls_leaf(ls_less(item(args, 0), pod_number(7)));
}

static ls_nest add_up(ls_nest args, void *user) {
  (void)user;
  assert_int_equal(ls_nest_count(args), 2);
  return LS_LIST(ls_leaf(ls_add_scalar(item(args, 0), 2)),
                 ls_leaf(ls_add(item(args, 1), item(args, 0))));
}

TEST(a_loop_goes_round_while_the_condition_holds) {
  LS_SPEC("O168");
  for (int replicas = 0; replicas <= 4; replicas += 4) {
    LS_OWN(pod_runs, f) = pod_runs_begin(1, 4, one_thread);
    job j = {.loop = {.condition = below_seven, .body = add_up},
             .num_inputs = 2};
    ls_nest outputs = ls_none();
    {
      LS_GRAPH_SCOPE(f.graph);
      if (replicas == 0)
        outputs = LS_LIST(compute(ls_none(), &j));
      else
        expect_ok(replicate(&j, replicas, &outputs));
    }
    pod_runs_do(&f, outputs);
    for (size_t r = 0; r < ls_nest_count(f.results); ++r) {
      assert_true(result_of(&f, r, 0) == 8);
      assert_true(result_of(&f, r, 1) == 0 + 2 + 4 + 6);
    }
  }
}

static ls_nest one_more(ls_nest args, void *user) {
  const job *j = user;
  assert_int_equal(ls_nest_count(args), j->num_inputs);
  if (j->variable != NULL)
    (void)ls_variable_assign_add(j->variable, pod_number(1));
  return j->num_inputs == 0 ? ls_none()
                            : ls_leaf(ls_add_scalar(item(args, 0), 1));
}

TEST(a_body_is_repeated) {
  LS_SPEC("O173");
  static const int64_t times[] = {5, 1, 0, -3};
  for (size_t i = 0; i < LS_COUNT_OF(times); ++i)
    for (size_t num_inputs = 0; num_inputs < 2; ++num_inputs) {
      const double wanted = times[i] > 0 ? (double)times[i] : 0;
      LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, one_thread);
      job j = {.loop = {.body = one_more, .user = &j},
               .times = times[i],
               .num_inputs = num_inputs};
      ls_nest outputs = ls_none(), init = ls_none();
      {
        LS_GRAPH_SCOPE(f.graph);
        j.variable = make_counter();
        outputs = compute(ls_none(), &j);
        init = ls_nest_op(ls_global_initializer());
      }
      if (num_inputs == 0)
        assert_int_equal(outputs.kind, LS_KIND_OP);
      else
        assert_int_equal(ls_nest_count(outputs), 1);
      pod_runs_do(&f, init);
      pod_runs_do(&f, outputs);
      if (num_inputs > 0) assert_true(pod_runs_number(&f, 0) == wanted);
      LS_OWN(ls_array, value) = session_array(f.session, j.variable);
      assert_true(ls_array_f64(value, 0) == wanted);
      ls_variable_release(j.variable);
    }
}

// ---- What is refused -------------------------------------------------------
static ls_nest yes(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BOOL, 1));
}

TEST(declared_numbers_of_arguments_are_checked) {
  LS_SPEC("O169");
  static const char *const names[] = {"a", "b", "c", "d"};
  const struct {
    ls_parameters parameters;
    bool infeed, of_body;
    const char *says[3];
  } rows[] = {
      {{names, 3, 0, 0, false, false},
       false,
       true,
       {"exactly 3 arguments", "2 inputs (", "constant"}},
      {{names, 1, 0, 0, false, false},
       false,
       true,
       {"exactly 1 argument;", "2 inputs", ")"}},
      {{names, 4, 0, 1, false, false},
       false,
       true,
       {"at least 3 arguments", "2 inputs", ")"}},
      {{names, 3, 0, 0, true, false},
       false,
       true,
       {"at least 3 arguments", "2 inputs", ")"}},
      {{names, 1, 0, 1, false, false},
       false,
       true,
       {"at most 1 argument;", "2 inputs", ")"}},
      {{names, 2, 0, 0, false, false},
       true,
       true,
       {"exactly 2 arguments", "2 inputs", "1 element of infeed queue"}},
      {{names, 3, 0, 0, false, false},
       true,
       false,
       {"exactly 3 arguments", "2 inputs",
        "the infeed is not passed to the condition"}},
      {{names, 3, 0, 0, false, false},
       false,
       false,
       {"exactly 3 arguments", "2 inputs", "condition"}},
  };
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, one_thread);
  LS_GRAPH_SCOPE(f.graph);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (int k = 0; k < 3; ++k) {
      LS_OWN(ls_infeed_queue, queue) = rows[i].infeed ? make_queue(1) : NULL;
      ls_training_loop loop = {
          .condition = yes, .body = give_args, .infeed = queue};
      if (rows[i].of_body)
        loop.body_parameters = &rows[i].parameters;
      else
        loop.condition_parameters = &rows[i].parameters;
      LS_OWN(ls_nest, inputs) = zeros(2);
      ls_nest outputs = ls_none();
      expect_status(ls_training_while(&loop, inputs, &outputs),
                    LS_INVALID_ARGUMENT, rows[i].says[k]);
    }
  // What fits is bound.
  static const ls_parameters two = {names, 2, 0, 0, false, false};
  const ls_training_loop loop = {.condition = below_seven,
                                 .body = add_up,
                                 .condition_parameters = &two,
                                 .body_parameters = &two};
  LS_OWN(ls_nest, inputs) = zeros(2);
  LS_OWN(ls_nest, outputs) = ls_none();
  expect_ok(ls_training_while(&loop, inputs, &outputs));
}

TEST(an_infeed_needs_a_replicated_computation) {
  LS_SPEC("O170");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, one_thread);
  LS_OWN(ls_infeed_queue, queue) = make_queue(1);
  LS_GRAPH_SCOPE(f.graph);
  const ls_training_loop loop = {.body = give_args, .infeed = queue};
  LS_OWN(ls_nest, inputs) = zeros(1);
  const size_t before = ls_graph_num_ops(f.graph);
  static const char *const says[] = {"no tpu_shard_context", "rewrite",
                                     "batch_parallel", "shard", "replicate"};
  for (int i = 0; i < 5; ++i) {
    ls_nest outputs = ls_none();
    expect_status(ls_training_repeat(3, &loop, inputs, &outputs),
                  LS_FAILED_PRECONDITION, says[i]);
  }
  assert_int_equal(ls_graph_num_ops(f.graph), before);
  assert_false(ls_infeed_queue_is_frozen(queue));
}

static ls_nest returns_what(ls_nest args, void *user) {
  const int what = *(const int *)user;
  const ls_tensor x = item(args, 0), y = item(args, 1);
  const ls_op op = ls_tensor_op(ls_add(x, y));
  switch (what) {
  case 0:
    return LS_LIST(ls_leaf(x), ls_nest_op(op), ls_leaf(y));
  case 1:
    return LS_LIST(ls_leaf(x));
  case 2:
    return LS_LIST(ls_leaf(x), ls_leaf(ls_convert(y, LS_DTYPE_I32)));
  case 3:
    return ls_none();
  case 4:
    return LS_LIST(ls_leaf(x), ls_leaf(y), ls_leaf(y));
  default:
    return LS_LIST(ls_leaf(x), ls_leaf(y), ls_nest_op(op));
  }
}

TEST(a_body_returns_the_inputs_types_and_then_ops) {
  LS_SPEC("O171");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, one_thread);
  LS_GRAPH_SCOPE(f.graph);
  static const struct {
    int what;
    const char *says[3];
  } rows[] = {
      {0, {"zero or more Tensor values", "zero or more Operations", "body"}},
      {1,
       {"Mismatch between input types and output types", "(f32, f32)",
        "(f32)"}},
      {2, {"Mismatch", "(f32, f32)", "(f32, i32)"}},
      {3, {"Mismatch", "(f32, f32)", "()"}},
      {4, {"Mismatch", "(f32, f32)", "(f32, f32, f32)"}},
  };
  LS_OWN(ls_nest, inputs) = zeros(2);
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    for (int k = 0; k < 3; ++k) {
      int what = rows[i].what;
      const ls_training_loop loop = {.body = returns_what, .user = &what};
      ls_nest outputs = ls_none();
      expect_status(ls_training_repeat(3, &loop, inputs, &outputs),
                    LS_INVALID_ARGUMENT, rows[i].says[k]);
    }
  int what = 5;
  const ls_training_loop loop = {.body = returns_what, .user = &what};
  ls_nest outputs = ls_none();
  expect_ok(ls_training_repeat(3, &loop, inputs, &outputs));
  ls_nest_release(outputs);
  // No results are none.
  const ls_training_loop empty = {.body = give_none};
  expect_ok(ls_training_repeat(3, &empty, ls_none(), &outputs));
  assert_int_equal(outputs.kind, LS_KIND_OP);
}

// ---- With an infeed --------------------------------------------------------
// Adds up what comes; replicas that differ in it see who got what.
static ls_nest add_next(ls_nest args, void *user) {
  job *j = user;
  ++j->calls;
  assert_int_equal(ls_nest_count(args), 2);
  return ls_leaf(ls_add(item(args, 0), next_of(args)));
}

static ls_nest ignore_next(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_add_scalar(item(args, 0), 1));
}

static ls_op put_one(int task, int core, double value) {
  return put_tensor(task, core, ls_fill(LS_DTYPE_F32, LS_SHAPE(1), value));
}

static ls_tensor take_one(int core) {
  char device[40];
  snprintf(device, sizeof(device), "/device:TPU:%d", core);
  LS_DEVICE_SCOPE(device);
  return ls_infeed_dequeue(LS_DTYPE_F32, LS_SHAPE(1));
}

// Puts `count` tuples for each core: 1000 core + 0, 1, ...
static void feed(pod_runs *f, int hosts, int cores, int count) {
  enum { MOST = 256 };
  ls_nest puts[MOST];
  for (int k = 0; k < count; ++k) {
    size_t n = 0;
    {
      LS_GRAPH_SCOPE(f->graph);
      for (int core = 0; core < hosts * cores; ++core)
        puts[n++] =
            ls_nest_op(put_one(core / cores, core % cores, 1000.0 * core + k));
    }
    pod_runs_do(f, ls_nest_sequence(LS_KIND_LIST, puts, n));
  }
}

static double sum_of(int core, int count) {
  double sum = 0;
  for (int k = 0; k < count; ++k)
    sum += 1000.0 * core + k;
  return sum;
}

TEST(each_trip_takes_a_tuple) {
  LS_SPEC("O163 O170");
  for (int hosts = 1; hosts <= 2; ++hosts)
    for (int used = 0; used < 2; ++used) {
      const int replicas = 2 * hosts;
      LS_OWN(pod_runs, f) = pod_runs_begin(hosts, 2, one_thread);
      LS_OWN(ls_infeed_queue, queue) = make_queue(replicas);
      job j = {.loop = {.body = used ? add_next : ignore_next, .infeed = queue},
               .times = 5,
               .num_inputs = 1};
      LS_OWN(ls_nest, outputs) = ls_none();
      {
        LS_GRAPH_SCOPE(f.graph);
        expect_ok(replicate(&j, replicas, &outputs));
      }
      assert_int_equal(ls_infeed_queue_num_shards(queue).value, replicas);
      feed(&f, hosts, 2, 10);
      for (int run = 0; run < 2; ++run) {
        pod_runs_do(&f, ls_nest_retain(outputs));
        for (int r = 0; r < replicas; ++r)
          assert_true(result_of(&f, (size_t)r, 0) ==
                      (!used      ? 5
                       : run == 0 ? sum_of(r, 5)
                                  : sum_of(r, 10) - sum_of(r, 5)));
      }
    }
}

// ---- The end of data -------------------------------------------------------
static ls_nest count_up(ls_nest args, void *user) {
  const job *j = user;
  (void)ls_variable_assign_add(j->variable, pod_number(1));
  return ls_leaf(ls_add(item(args, 0), next_of(args)));
}

static double value_of(const pod_runs *f, ls_variable *variable) {
  LS_OWN(ls_array, value) = session_array(f->session, variable);
  return ls_array_f64(value, 0);
}

static void close_infeeds(pod_runs *f, int first, int cores) {
  ls_nest closes[8];
  size_t n = 0;
  {
    LS_GRAPH_SCOPE(f->graph);
    for (int core = first; core < cores; ++core)
      closes[n++] = ls_nest_op(ls_infeed_close(core));
  }
  pod_runs_do(f, ls_nest_sequence(LS_KIND_LIST, closes, n));
}

// All are closed after 3 tuples; or core 1 alone is, and others have 2 more.
TEST(a_closed_infeed_ends_the_loop) {
  LS_SPEC("O206");
  enum { REPLICAS = 3, TUPLES = 3 };
  for (int uneven = 0; uneven < 2; ++uneven) {
    LS_OWN(pod_runs, f) = pod_runs_begin(1, REPLICAS, one_thread);
    LS_OWN(ls_infeed_queue, queue) = make_queue(REPLICAS);
    job j = {.loop = {.body = count_up, .infeed = queue},
             .times = 10,
             .num_inputs = 1};
    ls_nest outputs = ls_none(), init = ls_none();
    {
      LS_GRAPH_SCOPE(f.graph);
      j.variable = make_counter();
      init = ls_nest_op(ls_global_initializer());
      expect_ok(replicate(&j, REPLICAS, &outputs));
    }
    pod_runs_do(&f, init);
    feed(&f, 1, REPLICAS, TUPLES);
    if (uneven) {
      // Two more for cores 0 and 2.
      ls_nest more = ls_none();
      {
        LS_GRAPH_SCOPE(f.graph);
        more =
            LS_LIST(ls_nest_op(put_one(0, 0, 5)), ls_nest_op(put_one(0, 2, 5)));
      }
      pod_runs_do(&f, ls_nest_retain(more));
      pod_runs_do(&f, more);
      close_infeeds(&f, 1, 2);
    } else {
      close_infeeds(&f, 0, REPLICAS);
    }
    pod_runs_do(&f, ls_nest_retain(outputs));
    for (int r = 0; r < REPLICAS; ++r)
      assert_true(result_of(&f, (size_t)r, 0) == sum_of(r, TUPLES));
    assert_true(value_of(&f, j.variable) == TUPLES);
    // A later one has no trip at all.
    pod_runs_do(&f, ls_nest_retain(outputs));
    assert_true(value_of(&f, j.variable) == TUPLES);
    assert_true(result_of(&f, 0, 0) == 0);
    if (uneven) {
      // What was left for the other cores is still theirs: one of the two.
      ls_nest left = ls_none();
      {
        LS_GRAPH_SCOPE(f.graph);
        left = LS_LIST(ls_leaf(take_one(0)), ls_leaf(take_one(2)));
      }
      pod_runs_do(&f, left);
      assert_true(pod_runs_number(&f, 0) == 5 && pod_runs_number(&f, 1) == 5);
    }
    // After opening again nothing of it is there.
    ls_pod_initialize(f.pod);
    feed(&f, 1, REPLICAS, 10);
    pod_runs_do(&f, outputs);
    assert_true(result_of(&f, 2, 0) == sum_of(2, 10));
    assert_true(value_of(&f, j.variable) == TUPLES + 10);
    ls_variable_release(j.variable);
  }
}

// A dequeue of the body's own, behind the head.
static ls_nest take_another(ls_nest args, void *user) {
  const job *j = user;
  (void)ls_variable_assign_add(j->variable, pod_number(1));
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  const ls_tensor x = ls_infeed_dequeue(LS_DTYPE_F32, LS_SHAPE(1));
  return ls_leaf(ls_add(item(args, 0), ls_reshape(x, LS_SCALAR)));
}

TEST(a_dequeue_elsewhere_fails_the_run) {
  LS_SPEC("O206");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, one_thread);
  job j = {.loop = {.body = take_another}, .times = 10, .num_inputs = 1};
  ls_nest outputs = ls_none(), init = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    j.variable = make_counter();
    init = ls_nest_op(ls_global_initializer());
    expect_ok(replicate(&j, 2, &outputs));
  }
  pod_runs_do(&f, init);
  feed(&f, 1, 2, 4);
  close_infeeds(&f, 0, 2);
  expect_status(pod_runs_try(&f, outputs), LS_OUT_OF_RANGE, "infeed closed");
  // Of the last whole trip.
  assert_true(value_of(&f, j.variable) == 4);
  ls_variable_release(j.variable);
}

// ---- Ops that a trip waits for ---------------------------------------------
// Gives the sum so far away, by an op that it returns.
static ls_nest give_sum(ls_nest args, void *user) {
  (void)user;
  const ls_tensor sum = ls_add(item(args, 0), next_of(args));
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  return LS_LIST(ls_leaf(sum), ls_nest_op(ls_outfeed_enqueue(sum)));
}

TEST(ops_of_a_trip_run_before_the_next_one) {
  LS_SPEC("O172");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, one_thread);
  LS_OWN(ls_infeed_queue, queue) = make_queue(2);
  job j = {
      .loop = {.body = give_sum, .infeed = queue}, .times = 5, .num_inputs = 1};
  ls_nest outputs = ls_none();
  ls_nest gets[2];
  {
    LS_GRAPH_SCOPE(f.graph);
    expect_ok(replicate(&j, 2, &outputs));
    for (int core = 0; core < 2; ++core)
      gets[core] = ls_leaf(get_number(0, core));
  }
  feed(&f, 1, 2, 5);
  pod_runs_do(&f, outputs);
  for (int k = 1; k <= 5; ++k)
    for (int core = 0; core < 2; ++core) {
      pod_runs_do(&f, ls_nest_retain(gets[core]));
      assert_true(pod_runs_number(&f, 0) == sum_of(core, k));
    }
}

// ---- Marks and places ------------------------------------------------------
static const char *marker_of(const ls_graph *graph, size_t from) {
  for (size_t i = from; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    const ls_attr *attr = NULL;
    if (strcmp(ls_op_type_name(op), "tpu_replicate_metadata") != 0) continue;
    expect_ok(ls_op_attr(op, "step_marker_location", &attr));
    return attr->as.string;
  }
  return "no such op";
}

TEST(a_computation_can_be_marked_as_a_loop) {
  LS_SPEC("O174");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, one_thread);
  LS_GRAPH_SCOPE(f.graph);
  for (int marked = 0; marked < 2; ++marked) {
    job j = {
        .loop = {.body = one_more, .user = &j}, .times = 3, .num_inputs = 1};
    const size_t from = ls_graph_num_ops(f.graph);
    LS_OWN(ls_nest, outputs) = ls_none();
    expect_ok(ls_replicate(
        compute, &j, ls_none(),
        &(ls_replicate_options){.on_device_loop =
                                    marked ? LS_FLAG_ON : LS_FLAG_DEFAULT},
        &outputs));
    assert_string_equal(marker_of(f.graph, from),
                        marked ? "STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP"
                               : "STEP_MARK_AT_ENTRY");
  }
}

// Replicas take from and give to the cores that they are assigned.
TEST(feeds_follow_the_assignment_of_a_computation) {
  LS_SPEC("O141 O162");
  static const int at[][2] = {{1, 1}, {0, 1}, {1, 0}, {0, 0}};
  LS_OWN(pod_runs, f) = pod_runs_begin(2, 2, one_thread);
  LS_OWN(ls_topology, topology) = make_topology(2, 2);
  LS_OWN(ls_device_assignment, assignment) =
      make_assignment(topology, 4, 1, at);
  LS_OWN(ls_infeed_queue, queue) = make_queue(4);
  job j = {.loop = {.body = give_sum, .infeed = queue, .user = &j},
           .times = 2,
           .num_inputs = 1};
  ls_nest outputs = ls_none(), ops = ls_none(), gets[4];
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor whole =
        ls_add_scalar(ls_iota(LS_DTYPE_F32, LS_SHAPE(4), 0), 1);
    ls_infeed_queue *feeding = make_queue(4);
    const ls_nest whole_list = LS_LIST(ls_leaf(whole));
    expect_ok(ls_infeed_queue_set_num_shards(feeding, 4));
    expect_ok(ls_infeed_queue_split_and_enqueue(
        feeding, whole_list, &(ls_infeed_places){.assignment = assignment},
        &ops));
    ls_nest_release(whole_list);
    ls_infeed_queue_release(feeding);
    ls_nest items[4];
    for (int r = 0; r < 4; ++r) {
      items[r] = LS_LIST(ls_leaf(pod_number(r)));
      gets[r] = ls_leaf(get_number(at[r][0], at[r][1]));
    }
    LS_OWN(ls_nest, inputs) = ls_nest_sequence(LS_KIND_LIST, items, 4);
    expect_ok(ls_replicate(compute, &j, inputs,
                           &(ls_replicate_options){.assignment = assignment},
                           &outputs));
  }
  pod_runs_do(&f, ls_nest_retain(ops));
  pod_runs_do(&f, ops);
  pod_runs_do(&f, outputs);
  for (int r = 0; r < 4; ++r)
    assert_true(result_of(&f, (size_t)r, 0) == 2 * (r + 1));
  for (int r = 0; r < 4; ++r) {
    pod_runs_do(&f, gets[r]);
    assert_true(pod_runs_number(&f, 0) == r + 1);
  }
}
