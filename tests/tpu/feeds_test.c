// SPDX-License-Identifier: Apache-2.0
//
// Ops of infeed and outfeed, without replicas.
#include <pthread.h>
#include <sched.h>

#include "lockstep/cancel.h"
#include "lockstep/flow.h"
#include "lockstep/runtime_settings.h"
#include "runtime/own.h"
#include "support/function.h"
#include "support/pod_runs.h"
#include "tpu/own.h"

static const ls_runtime_options usual = {.threads = 1, .stall_ms = 20000};

// What a graph says of the last op, and goes on.
static void expect_refused(ls_code code, const char *says) {
  expect_status(ls_graph_take_error(ls_graph_current()), code, says);
}

// ---- Types -----------------------------------------------------------------
TEST(what_is_taken_has_types_and_shapes) {
  LS_SPEC("O137");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, usual);
  LS_GRAPH_SCOPE(f.graph);
  static const ls_dtype possible[] = {
      LS_DTYPE_BOOL, LS_DTYPE_I8,  LS_DTYPE_I16, LS_DTYPE_I32, LS_DTYPE_I64,
      LS_DTYPE_U8,   LS_DTYPE_U16, LS_DTYPE_U32, LS_DTYPE_U64, LS_DTYPE_F16,
      LS_DTYPE_BF16, LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_C64, LS_DTYPE_C128,
  };
  for (size_t i = 0; i < LS_COUNT_OF(possible); ++i) {
    const ls_tensor x = ls_infeed_dequeue(possible[i], LS_SHAPE(2, 3));
    assert_int_equal(ls_tensor_dtype(x), possible[i]);
    assert_true(ls_shape_equal(ls_tensor_shape(x), LS_SHAPE(2, 3)));
    const ls_type two[] = {{possible[i], LS_SCALAR}, {LS_DTYPE_F32, {0}}};
    const ls_op op = ls_infeed_dequeue_tuple(two, 2);
    assert_int_equal(ls_op_num_outputs(op), 2);
    assert_int_equal(ls_op_num_inputs(op), 0);
    assert_int_equal(ls_tensor_dtype(ls_op_output(op, 0)), possible[i]);
  }
  static const ls_dtype others[] = {LS_DTYPE_STRING, LS_DTYPE_RESOURCE,
                                    LS_DTYPE_VARIANT};
  for (size_t i = 0; i < LS_COUNT_OF(others); ++i) {
    const char *says[] = {ls_dtype_name(others[i]), "infeed_dequeue",
                          "bool, i8, i16, i32, i64"};
    for (int k = 0; k < 3; ++k) {
      assert_true(ls_tensor_is_failed(ls_infeed_dequeue(others[i], LS_SCALAR)));
      expect_refused(LS_INVALID_ARGUMENT, says[k]);
    }
  }
  assert_true(ls_op_is_failed(ls_infeed_dequeue_tuple(NULL, 0)));
  expect_refused(LS_INVALID_ARGUMENT, "at least one");
}

// ---- Through the infeed ----------------------------------------------------
TEST(a_tuple_goes_from_the_host_to_its_core) {
  LS_SPEC("O138");
  LS_OWN(pod_runs, f) = pod_runs_begin(2, 2, usual);
  ls_nest puts = ls_none(), takes = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    puts = LS_LIST(
        ls_nest_op(put_number(0, 0, 1)), ls_nest_op(put_number(0, 1, 2)),
        ls_nest_op(put_number(1, 0, 3)), ls_nest_op(put_number(1, 1, 4)));
    takes = LS_LIST(ls_leaf(take_number(1, 1)), ls_leaf(take_number(0, 0)),
                    ls_leaf(take_number(1, 0)), ls_leaf(take_number(0, 1)));
  }
  pod_runs_do(&f, puts);
  pod_runs_do(&f, takes);
  assert_true(pod_runs_number(&f, 0) == 4 && pod_runs_number(&f, 1) == 1);
  assert_true(pod_runs_number(&f, 2) == 3 && pod_runs_number(&f, 3) == 2);
}

TEST(a_host_op_says_which_core) {
  LS_SPEC("O138");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, usual);
  ls_nest nowhere = ls_none(), far = ls_none(), on_core = ls_none(),
          take = ls_none(), other_task = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    nowhere = ls_nest_op(put_number(0, -1, 1));
    far = ls_nest_op(put_number(0, 7, 1));
    other_task = ls_nest_op(put_number(5, 0, 1));
    take = ls_leaf(take_number(0, 1));
    LS_DEVICE_SCOPE("/device:TPU:1");
    const ls_tensor three = pod_number(3);
    on_core = ls_nest_op(ls_infeed_enqueue_tuple(&three, 1, NULL, 0, -1));
  }
  expect_status(pod_runs_try(&f, nowhere), LS_INVALID_ARGUMENT,
                "infeed_enqueue ops must specify a device_ordinal when placed "
                "on CPU");
  expect_status(pod_runs_try(&f, ls_nest_retain(far)), LS_INVALID_ARGUMENT,
                "ordinal 7");
  expect_status(pod_runs_try(&f, far), LS_INVALID_ARGUMENT, "has 2");
  expect_status(pod_runs_try(&f, other_task), LS_NOT_FOUND, "task 5");
  pod_runs_do(&f, on_core);
  pod_runs_do(&f, take);
  assert_true(pod_runs_number(&f, 0) == 3);
}

TEST(without_a_system_there_is_no_core) {
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  ls_pod_shut_down(f.pod);
  ls_nest put = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    put = ls_nest_op(put_number(0, 0, 1));
  }
  expect_status(pod_runs_try(&f, ls_nest_retain(put)), LS_NOT_FOUND,
                "no TPU system");
  const ls_pod_shape shape = {.mesh = {1, 1, 1, 1}, .hosts = 1};
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_pod_open(f.c.runtime, "virtual", "", &shape, &pod));
  expect_status(pod_runs_try(&f, ls_nest_retain(put)), LS_FAILED_PRECONDITION,
                "not initialized");
  ls_pod_initialize(pod);
  pod_runs_do(&f, put);
}

TEST(what_is_put_is_what_was_declared) {
  LS_SPEC("O139");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  ls_nest shape = ls_none(), type = ls_none(), count = ls_none(),
          fits = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor values[] = {pod_number(1),
                                ls_fill(LS_DTYPE_I32, LS_SHAPE(2, 3), 7)};
    const ls_type good[] = {{LS_DTYPE_F32, LS_SCALAR},
                            {LS_DTYPE_I32, LS_SHAPE(-1, 3)}};
    const ls_type wide[] = {{LS_DTYPE_F32, LS_SCALAR},
                            {LS_DTYPE_I32, LS_SHAPE(2, 4)}};
    const ls_type longer[] = {{LS_DTYPE_F32, LS_SCALAR},
                              {LS_DTYPE_I64, LS_SHAPE(2, 3)}};
    fits = ls_nest_op(ls_infeed_enqueue_tuple(values, 2, good, 2, 0));
    shape = ls_nest_op(ls_infeed_enqueue_tuple(values, 2, wide, 2, 0));
    type = ls_nest_op(ls_infeed_enqueue_tuple(values, 2, longer, 2, 0));
    count = ls_nest_op(ls_infeed_enqueue_tuple(values, 2, good, 1, 0));
    const ls_op one = ls_infeed_enqueue(values[0], LS_SHAPE(1), 0);
    assert_false(ls_op_is_failed(one));
  }
  static const char *const says[] = {"element 1", "[2,3]", "[2,4]"};
  for (int i = 0; i < 3; ++i)
    expect_status(pod_runs_try(&f, ls_nest_retain(shape)), LS_INVALID_ARGUMENT,
                  says[i]);
  ls_nest_release(shape);
  expect_status(pod_runs_try(&f, ls_nest_retain(type)), LS_INVALID_ARGUMENT,
                "element 1");
  expect_status(pod_runs_try(&f, type), LS_INVALID_ARGUMENT, "i64[2,3]");
  expect_status(pod_runs_try(&f, ls_nest_retain(count)), LS_INVALID_ARGUMENT,
                "2 elements");
  expect_status(pod_runs_try(&f, count), LS_INVALID_ARGUMENT, "1 were");
  pod_runs_do(&f, fits);
}

// ---- Through the outfeed ---------------------------------------------------
TEST(a_core_gives_tuples_to_its_host) {
  LS_SPEC("O140");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 3, usual);
  ls_nest give = ls_none(), get = ls_none(), nowhere = ls_none(),
          pair = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor values[] = {pod_number(5),
                                ls_fill(LS_DTYPE_I32, LS_SHAPE(2), 7)};
    ls_op tuple = {0};
    {
      LS_DEVICE_SCOPE("/device:TPU:2");
      tuple = ls_outfeed_enqueue_tuple(values, 2);
    }
    assert_int_equal(ls_op_num_outputs(tuple), 0);
    give = LS_LIST(ls_nest_op(give_tensor(0, 1, pod_number(4))),
                   ls_nest_op(tuple));
    const ls_tensor two = ls_scalar(LS_DTYPE_I32, 2);
    const ls_type types[] = {{LS_DTYPE_F32, LS_SCALAR},
                             {LS_DTYPE_I32, LS_SHAPE(2)}};
    const ls_op at = ls_outfeed_dequeue_tuple_at(two, types, 2);
    get = LS_LIST(ls_leaf(get_number(0, 1)), ls_leaf(ls_op_output(at, 0)),
                  ls_leaf(ls_op_output(at, 1)));
    nowhere = ls_leaf(get_number(0, -1));
    pair = ls_nest_op(
        ls_outfeed_dequeue_tuple_at(ls_scalar(LS_DTYPE_I32, 9), types, 2));
    // Not a scalar, or not of i32.
    (void)ls_outfeed_dequeue_tuple_at(ls_fill(LS_DTYPE_I32, LS_SHAPE(1), 0),
                                      types, 2);
    expect_refused(LS_INVALID_ARGUMENT, "scalar");
    (void)ls_outfeed_dequeue_tuple_at(pod_number(0), types, 2);
    expect_refused(LS_INVALID_ARGUMENT, "f32");
    (void)ls_outfeed_dequeue_tuple(NULL, 0, 0);
    expect_refused(LS_INVALID_ARGUMENT, "at least one");
  }
  pod_runs_do(&f, give);
  pod_runs_do(&f, get);
  assert_true(pod_runs_number(&f, 0) == 4 && pod_runs_number(&f, 1) == 5 &&
              pod_runs_number(&f, 2) == 7);
  expect_status(pod_runs_try(&f, nowhere), LS_INVALID_ARGUMENT,
                "outfeed_dequeue ops must specify a device_ordinal when "
                "placed on CPU");
  expect_status(pod_runs_try(&f, pair), LS_INVALID_ARGUMENT, "ordinal 9");
}

// ---- Order and depth -------------------------------------------------------
// Two ops that put, and a third one of another graph; two that take.
TEST(tuples_come_in_the_order_sent) {
  LS_SPEC("O141");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  LS_OWN(ls_graph, other) = NULL;
  ls_nest puts[3], takes[2];
  expect_ok(ls_graph_create("other", &other));
  {
    LS_GRAPH_SCOPE(f.graph);
    puts[0] = ls_nest_op(put_number(0, 0, 0));
    puts[1] = ls_nest_op(put_number(0, 0, 1));
    takes[0] = ls_leaf(take_number(0, 0));
    takes[1] = ls_leaf(take_number(0, 0));
  }
  {
    LS_GRAPH_SCOPE(other);
    puts[2] = ls_nest_op(put_number(0, 0, 2));
  }
  LS_OWN(ls_session, session) = session_of(other);
  static const int order[] = {1, 2, 0, 0, 2, 1, 2};
  LS_OWN(ls_nest, none) = ls_none();
  for (size_t i = 0; i < LS_COUNT_OF(order); ++i)
    if (order[i] == 2)
      expect_ok(ls_session_run(session, puts[2], NULL, 0, &none));
    else
      pod_runs_do(&f, ls_nest_retain(puts[order[i]]));
  for (size_t i = 0; i < LS_COUNT_OF(order); ++i) {
    pod_runs_do(&f, ls_nest_retain(takes[i % 2]));
    assert_true(pod_runs_number(&f, 0) == order[i]);
  }
}

typedef struct other_thread {
  pod_runs *f;
  ls_nest fetches;
  ls_status status;
  ls_nest results;
  ls_cancel *cancel;
  int ended;  // Atomic.
} other_thread;

static void *run_there(void *user) {
  other_thread *self = user;
  ls_runtime *before = ls_runtime_make_current(self->f->c.runtime);
  (void)ls_cancel_make_current(self->cancel);
  self->status =
      ls_session_run(self->f->session, self->fetches, NULL, 0, &self->results);
  (void)ls_cancel_make_current(NULL);
  (void)ls_runtime_make_current(before);
  __atomic_store_n(&self->ended, 1, __ATOMIC_RELEASE);
  return NULL;
}

TEST(a_full_queue_has_puts_wait) {
  LS_SPEC("O141");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  ls_nest put = ls_none();
  LS_OWN(ls_nest, take) = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    put = ls_nest_op(put_number(0, 0, 1));
    take = ls_leaf(take_number(0, 0));
  }
  for (int i = 0; i < 64; ++i)
    pod_runs_do(&f, ls_nest_retain(put));
  other_thread t = {.f = &f, .fetches = put, .results = ls_none()};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_there, &t), 0);
  for (int i = 0; i < 200; ++i)
    sched_yield();
  while (__atomic_load_n(&f.c.runtime->waiting_runs, __ATOMIC_RELAXED) == 0)
    sched_yield();
  assert_int_equal(__atomic_load_n(&t.ended, __ATOMIC_ACQUIRE), 0);
  pod_runs_do(&f, ls_nest_retain(take));
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_ok(t.status);
  for (int i = 0; i < 64; ++i)
    pod_runs_do(&f, ls_nest_retain(take));
  // Now it is empty: who takes waits for who puts.
  t = (other_thread){.f = &f, .fetches = take, .results = ls_none()};
  assert_int_equal(pthread_create(&thread, NULL, run_there, &t), 0);
  while (__atomic_load_n(&f.c.runtime->waiting_runs, __ATOMIC_RELAXED) == 0)
    sched_yield();
  assert_int_equal(__atomic_load_n(&t.ended, __ATOMIC_ACQUIRE), 0);
  pod_runs_do(&f, put);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_ok(t.status);
  ls_nest_release(t.results);
}

TEST(a_tuple_that_does_not_fit_fails_the_run) {
  LS_SPEC("O142");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  LS_OWN(ls_nest, one) = ls_none();
  LS_OWN(ls_nest, two) = ls_none();
  ls_nest take = ls_none(), takes_whole = ls_none(), takes_pair = ls_none(),
          pair = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor values[] = {pod_number(1),
                                ls_fill(LS_DTYPE_I32, LS_SHAPE(2, 3), 7)};
    one = ls_nest_op(put_number(0, 0, 9));
    two = ls_nest_op(put_tensor(0, 0, values[1]));
    pair = ls_nest_op(ls_infeed_enqueue_tuple(values, 2, NULL, 0, 0));
    take = ls_leaf(take_number(0, 0));
    const ls_type whole = {LS_DTYPE_F32, LS_SCALAR};
    takes_whole = ls_leaf(ls_op_output(ls_infeed_dequeue_tuple(&whole, 1), 0));
    const ls_type both[] = {{LS_DTYPE_F32, LS_SCALAR},
                            {LS_DTYPE_I32, LS_SHAPE(2, 4)}};
    takes_pair = ls_leaf(ls_op_output(ls_infeed_dequeue_tuple(both, 2), 0));
  }
  static const char *const types[] = {"element 0", "i32[2,3]", "f32[]"};
  for (int i = 0; i < 3; ++i) {
    pod_runs_do(&f, ls_nest_retain(two));
    expect_status(pod_runs_try(&f, ls_nest_retain(take)), LS_INVALID_ARGUMENT,
                  types[i]);
  }
  pod_runs_do(&f, ls_nest_retain(pair));
  expect_status(pod_runs_try(&f, ls_nest_retain(take)), LS_INVALID_ARGUMENT,
                "2 elements, 1");
  static const char *const shapes[] = {"element 1", "[2,3]", "[2,4]"};
  for (int i = 0; i < 3; ++i) {
    pod_runs_do(&f, ls_nest_retain(pair));
    expect_status(pod_runs_try(&f, ls_nest_retain(takes_pair)),
                  LS_INVALID_ARGUMENT, shapes[i]);
  }
  // One value is a tuple of one, and later runs are as if nothing had been.
  for (int i = 0; i < 2; ++i) {
    pod_runs_do(&f, ls_nest_retain(one));
    pod_runs_do(&f, ls_nest_retain(i == 0 ? take : takes_whole));
    assert_true(pod_runs_number(&f, 0) == 9);
  }
}

// ---- Cancelling ------------------------------------------------------------
static void cancel_waiting(pod_runs *f, ls_nest fetches, const char *says) {
  other_thread t = {.f = f, .fetches = fetches, .results = ls_none()};
  expect_ok(ls_cancel_create(f->c.runtime, &t.cancel));
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run_there, &t), 0);
  while (__atomic_load_n(&f->c.runtime->waiting_runs, __ATOMIC_RELAXED) == 0)
    sched_yield();
  ls_cancel_request(t.cancel);
  assert_int_equal(pthread_join(thread, NULL), 0);
  expect_status(t.status, LS_CANCELLED, says);
  ls_nest_release(t.results);
  ls_cancel_destroy(t.cancel);
}

TEST(cancelling_wakes_who_waits) {
  LS_SPEC("O143");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, usual);
  LS_OWN(ls_nest, put) = ls_none();
  ls_nest take = ls_none(), get = ls_none();
  LS_OWN(ls_nest, both) = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    put = ls_nest_op(put_number(0, 0, 1));
    take = ls_leaf(take_number(0, 0));
    get = ls_leaf(get_number(0, 0));
    both = LS_LIST(ls_leaf(take_number(0, 1)), ls_leaf(get_number(0, 1)));
  }
  cancel_waiting(&f, take, "Infeed was cancelled");
  cancel_waiting(&f, get, "Outfeed was cancelled");
  cancel_waiting(&f, both, "was cancelled");
  for (int i = 0; i < 64; ++i)
    pod_runs_do(&f, ls_nest_retain(put));
  cancel_waiting(&f, put, "Infeed was cancelled");
  // What was in the queue stays, and nothing else.
  for (int i = 0; i < 64; ++i)
    pod_runs_do(&f, ls_nest_retain(take));
  cancel_waiting(&f, take, "Infeed was cancelled");
  ls_pod_initialize(f.pod);
  pod_runs_do(&f, ls_nest_retain(put));
  ls_pod_initialize(f.pod);
  cancel_waiting(&f, take, "Infeed was cancelled");
  assert_int_equal(ls_runtime_abandoned_calls(f.c.runtime), 0);
}

// ---- Effects ---------------------------------------------------------------
TEST(ops_are_neither_merged_nor_dropped_nor_moved) {
  LS_SPEC("O144");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  ls_nest puts = ls_none(), takes = ls_none(), gives = ls_none(),
          gets = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    const ls_tensor one = pod_number(1);
    const ls_op same[] = {put_tensor(0, 0, one), put_tensor(0, 0, one),
                          put_number(0, 0, 2)};
    // Asked for in another order than made.
    puts =
        LS_LIST(ls_nest_op(same[2]), ls_nest_op(same[0]), ls_nest_op(same[1]));
    const ls_tensor a = take_number(0, 0), b = take_number(0, 0),
                    c = take_number(0, 0);
    takes = LS_LIST(ls_leaf(c), ls_leaf(b), ls_leaf(a));
    const ls_op given[] = {give_tensor(0, 0, one), give_tensor(0, 0, one),
                           give_tensor(0, 0, pod_number(3))};
    gives = LS_LIST(ls_nest_op(given[2]), ls_nest_op(given[1]),
                    ls_nest_op(given[0]));
    // The first result is not wanted.
    const ls_tensor got[] = {get_number(0, 0), get_number(0, 0),
                             get_number(0, 0)};
    gets = LS_LIST(ls_leaf(got[2]), ls_nest_op(ls_tensor_op(got[0])),
                   ls_leaf(got[1]));
  }
  pod_runs_do(&f, puts);
  pod_runs_do(&f, takes);
  assert_true(pod_runs_number(&f, 0) == 2 && pod_runs_number(&f, 1) == 1 &&
              pod_runs_number(&f, 2) == 1);
  pod_runs_do(&f, gives);
  pod_runs_do(&f, gets);
  assert_true(pod_runs_number(&f, 0) == 3 && pod_runs_number(&f, 2) == 1);
}

// The same where the run waits elsewhere, so that it is of several parts: more
// is put than the queue holds.
TEST(puts_of_one_core_keep_their_order_beside_others) {
  LS_SPEC("O144");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 2, usual);
  enum { PUTS = 150 };
  ls_nest fetches[PUTS + 1], takes[PUTS];
  {
    LS_GRAPH_SCOPE(f.graph);
    for (int i = 0; i < PUTS; ++i)
      fetches[PUTS - 1 - i] = ls_nest_op(put_number(0, 0, i));
    for (int i = 0; i < PUTS; ++i)
      takes[i] = ls_leaf(take_number(0, 0));
    fetches[PUTS] = ls_nest_sequence(LS_KIND_LIST, takes, PUTS);
  }
  pod_runs_do(&f, ls_nest_sequence(LS_KIND_LIST, fetches, PUTS + 1));
  const ls_nest got = ls_nest_item(f.results, PUTS);
  for (size_t i = 0; i < PUTS; ++i)
    assert_true(ls_array_f64(ls_nest_as_array(ls_nest_item(got, i)), 0) ==
                (double)i);
}

// ---- Closing ---------------------------------------------------------------
TEST(a_closed_queue_gives_what_it_has_and_then_ends) {
  LS_SPEC("O206");
  LS_OWN(pod_runs, f) = pod_runs_begin(1, 1, usual);
  ls_nest put = ls_none(), take = ls_none(), give = ls_none(), get = ls_none(),
          closes[2];
  {
    LS_GRAPH_SCOPE(f.graph);
    put = ls_nest_op(put_number(0, 0, 1));
    take = ls_leaf(take_number(0, 0));
    give = ls_nest_op(give_tensor(0, 0, pod_number(2)));
    get = ls_leaf(get_number(0, 0));
    closes[0] = ls_nest_op(ls_infeed_close(0));
    closes[1] = ls_nest_op(ls_outfeed_close(0));
  }
  for (int i = 0; i < 2; ++i) {
    const ls_nest in = i == 0 ? put : give, out = i == 0 ? take : get;
    const char *says = i == 0 ? "infeed closed" : "outfeed closed";
    pod_runs_do(&f, ls_nest_retain(in));
    pod_runs_do(&f, ls_nest_retain(closes[i]));
    pod_runs_do(&f, ls_nest_retain(closes[i]));
    pod_runs_do(&f, ls_nest_retain(out));
    assert_true(pod_runs_number(&f, 0) == 1 + i);
    expect_status(pod_runs_try(&f, ls_nest_retain(out)), LS_OUT_OF_RANGE, says);
    expect_status(pod_runs_try(&f, ls_nest_retain(in)), LS_FAILED_PRECONDITION,
                  "was closed");
    ls_pod_initialize(f.pod);
    // Who waits is told.
    other_thread t = {.f = &f, .fetches = out, .results = ls_none()};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run_there, &t), 0);
    while (__atomic_load_n(&f.c.runtime->waiting_runs, __ATOMIC_RELAXED) == 0)
      sched_yield();
    pod_runs_do(&f, ls_nest_retain(closes[i]));
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_status(t.status, LS_OUT_OF_RANGE, says);
    // Open again, and empty.
    ls_pod_initialize(f.pod);
    pod_runs_do(&f, ls_nest_retain(in));
    ls_pod_initialize(f.pod);
    pod_runs_do(&f, ls_nest_retain(in));
    pod_runs_do(&f, ls_nest_retain(out));
    pod_runs_do(&f, ls_nest_retain(closes[i]));
    expect_status(pod_runs_try(&f, ls_nest_retain(out)), LS_OUT_OF_RANGE, says);
    ls_pod_initialize(f.pod);
  }
}
