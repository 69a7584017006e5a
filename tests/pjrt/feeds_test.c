// SPDX-License-Identifier: Apache-2.0
//
// Infeeds and outfeeds of programs on devices: the tuples of a loop's trips are
// arguments and results of one launch.
#include <math.h>
#include <string.h>

#include "distribute/own.h"
#include "estimator/own.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/callbacks.h"
#include "support/estimators.h"
#include "support/pod_runs.h"
#include "support/shim.h"

// ---- Estimators ------------------------------------------------------------
enum { CORES = 2, BATCH = 24 };

// Bytes of a batch of an estimator_case.
enum { BATCH_BYTES = BATCH * (ESTIMATOR_WIDTH + 1) * 4 };

static void begin_case(estimator_case *c, const char *folder,
                       int64_t examples) {
  *c = (estimator_case){.way = ON_TPU,
                        .replicas = CORES,
                        .batch = BATCH,
                        .examples = examples,
                        .repeats = examples == 0,
                        .folder = folder,
                        .iterations = "4"};
  estimator_case_begin(c);
}

TEST(a_loop_of_steps_is_one_launch) {
  enum { STEPS = 12 };
  const shim_state *shim = shim_begin();
  LS_OWN(estimator_case, want) = {.way = ON_TPU};
  begin_case(&want, "fed-on-cpu", 0);
  const ls_training_end expected = estimator_case_train(&want, STEPS);
  LS_OWN(open_place, here) = shim_runtime(CORES);
  LS_OWN(estimator_case, c) = {.way = ON_TPU};
  begin_case(&c, "fed-on-devices", 0);
  const ls_training_end end = estimator_case_train(&c, STEPS);
  assert_int_equal(end.step, STEPS);
  assert_true(fabs(end.loss - expected.loss) < 1e-5);
  assert_int_equal(shim->executes, STEPS / 4);
  // Batches, and less than one more for variables and numbers.
  assert_true(shim->upload_bytes >= STEPS * BATCH_BYTES);
  assert_true(shim->upload_bytes < (STEPS + 3) * BATCH_BYTES);
  assert_int_equal(shim->num_devices, CORES);
}

// Losses that a host was sent.
enum { HEARD = 12 };
typedef struct heard {
  float losses[HEARD][BATCH];
  int count;
} heard;

static ls_status hear(ls_nest values, void *user) {
  heard *h = user;
  const ls_array *losses = ls_nest_as_array(ls_nest_item(values, 0));
  assert_true(h->count < HEARD);
  memcpy(h->losses[h->count++], ls_array_data(losses), sizeof(h->losses[0]));
  return ls_ok();
}

static ls_nest send_losses(ls_nest values, void *user) {
  LS_OWN(ls_nest, losses) = LS_LIST(ls_nest_item(values, 2));
  return ls_nest_op(ls_host_function_op(hear, user, losses));
}

static void train_heard(heard *h, const char *folder) {
  enum { STEPS = 8 };
  LS_OWN(estimator_case, c) = {.way = ON_TPU,
                               .replicas = CORES,
                               .batch = BATCH,
                               .repeats = true,
                               .folder = folder,
                               .iterations = "4",
                               .host_call = send_losses,
                               .host_user = h,
                               .host_call_every = LS_SOME(3)};
  estimator_case_begin(&c);
  assert_int_equal(estimator_case_train(&c, STEPS).step, STEPS);
}

TEST(a_host_is_sent_every_nth_step_of_a_launch) {
  heard want = {.count = 0}, got = {.count = 0};
  const shim_state *shim = shim_begin();
  train_heard(&want, "heard-on-cpu");
  LS_OWN(open_place, here) = shim_runtime(CORES);
  train_heard(&got, "heard-on-devices");
  assert_int_equal(shim->executes, 2);
  assert_int_equal(got.count, 4);  // Steps 0 and 3 of each launch.
  assert_int_equal(want.count, 4);
  for (int i = 0; i < got.count; ++i)
    for (int k = 0; k < BATCH; ++k)
      assert_true(fabsf(got.losses[i][k] - want.losses[i][k]) < 1e-5F);
}

// The data ends after the second of four trips; a run of fewer steps, and one
// of more, follow.
TEST(a_loop_ends_with_the_data) {
  enum { BATCHES = 6, MOST = 20 };
  const shim_state *shim = shim_begin();
  LS_OWN(estimator_case, want) = {.way = ON_TPU};
  begin_case(&want, "ended-on-cpu", BATCHES * BATCH);
  const ls_training_end expected = estimator_case_train(&want, MOST);
  LS_OWN(open_place, here) = shim_runtime(CORES);
  LS_OWN(estimator_case, c) = {.way = ON_TPU};
  begin_case(&c, "ended-on-devices", BATCHES * BATCH);
  const ls_training_end end = estimator_case_train(&c, MOST);
  assert_int_equal(expected.step, BATCHES);
  assert_int_equal(end.step, BATCHES);
  assert_true(fabs(end.loss - expected.loss) < 1e-5);
  assert_true(shim->executes > 1);
}

// Room is made for the batches that come, not for all that are asked for.
TEST(an_evaluation_of_all_batches_ends_with_the_data) {
  enum { BATCHES = 70, MOST = 1 << 30 };
  LS_OWN(open_place, here) = plugin_runtime(CORES);
  LS_OWN(estimator_case, c) = {.way = ON_TPU};
  begin_case(&c, "evaluated", BATCHES * BATCH);
  assert_int_equal(estimator_case_train(&c, 4).step, 4);
  LS_OWN(ls_nest, metrics) = estimator_evaluate(&c, (ls_opt)LS_SOME(MOST));
  assert_true(estimator_metric(metrics, "count") == BATCHES * BATCH);
}

// ---- Loops of a host and of a core -----------------------------------------
typedef struct loops {
  ls_infeed_queue *queue;
  ls_variable *sum;
  int64_t trips;
  bool echoes;  // The host puts what the outfeed gives, once more than comes.
  int64_t num_classes;  // Tuples are labels; 0: they are numbers.
} loops;

// Adds what comes to the variable, and gives the sum.
static ls_nest core_trip(ls_nest args, void *user) {
  const loops *l = user;
  ls_tensor x = ls_nest_tensor(args, 1);
  if (l->num_classes > 0) {
    const ls_tensor logits =
        ls_fill(LS_DTYPE_F32, LS_SHAPE(1, l->num_classes), 0);
    const ls_tensor loss = ls_softmax_cross_entropy(logits, x);
    x = ls_add(ls_convert(x, LS_DTYPE_F32), ls_mul_scalar(loss, 0));
  }
  const ls_tensor sum =
      ls_variable_assign_add(l->sum, ls_reshape(x, LS_SCALAR));
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  return LS_LIST(ls_leaf(ls_add_scalar(ls_nest_tensor(args, 0), 1)),
                 ls_nest_op(ls_outfeed_enqueue(sum)));
}

static ls_nest core_loop(ls_nest args, void *user) {
  const loops *l = user;
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {
      .body = core_trip, .user = user, .infeed = l->queue};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(pod_number(0)));
  const ls_status status =
      ls_training_repeat(l->trips, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest loop_on_core(loops *l) {
  ls_nest outputs = ls_none();
  const ls_dtype dtype = l->num_classes > 0 ? LS_DTYPE_I32 : LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(1);
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &l->queue));
  LS_OWN(ls_nest, inputs) = LS_LIST(LS_LIST(ls_leaf(pod_number(0))));
  expect_ok(ls_replicate(core_loop, l, inputs, NULL, &outputs));
  return outputs;
}

// Puts 0, 1, 2, ..., or what comes.
static ls_nest host_puts(ls_nest values, void *user) {
  const loops *l = user;
  const ls_tensor i = ls_nest_tensor(values, 0);
  (void)put_tensor(
      0, 0,
      ls_convert(ls_reshape(l->echoes ? get_number(0, 0) : i, LS_SHAPE(1)),
                 l->num_classes > 0 ? LS_DTYPE_I32 : LS_DTYPE_F32));
  return LS_LIST(ls_leaf(ls_add_scalar(i, 1)));
}
static ls_nest host_gets(ls_nest values, void *user) {
  (void)user;
  return LS_LIST(ls_leaf(ls_add(ls_nest_tensor(values, 0), get_number(0, 0))));
}

static ls_nest loop_on_host(ls_nest (*trip)(ls_nest values, void *user),
                            loops *l) {
  LS_OWN(ls_nest, made) =
      ls_while(always_true, trip, l, LS_LIST(ls_leaf(pod_number(0))), l->trips);
  return ls_leaf(ls_nest_tensor(made, 0));
}

static pod_runs begin_loops(loops *l, const char *device) {
  pod_runs f = pod_runs_begin(
      1, 1, (ls_runtime_options){.device = device, .stall_ms = 300});
  LS_GRAPH_SCOPE(f.graph);
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                      .shape = LS_SCALAR,
                                                      .name = "sum"},
                               &l->sum));
  pod_runs_do(&f, ls_nest_op(ls_variable_initializer(l->sum)));
  return f;
}

static void end_loops(loops *l, pod_runs *f) {
  ls_infeed_queue_release(l->queue);
  ls_object_release(l->sum);
  pod_runs_end(f);
}

static void expect_sum(pod_runs *f, const loops *l, double value) {
  {
    LS_GRAPH_SCOPE(f->graph);
    pod_runs_do(f, ls_leaf(ls_variable_read(l->sum)));
  }
  assert_true(pod_runs_number(f, 0) == value);
}

TEST(a_loop_may_make_more_trips_than_a_queue_is_deep) {
  enum { TRIPS = 100 };
  loops l = {.trips = TRIPS};
  pod_runs f = begin_loops(&l, plugin_device());
  ls_nest fetches = ls_none();
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_TUPLE_LATE,
                                   .at_step = 3,
                                   .nanos = 20 * 1000 * 1000});
  {
    LS_GRAPH_SCOPE(f.graph);
    fetches = LS_LIST(loop_on_host(host_puts, &l), loop_on_host(host_gets, &l),
                      loop_on_core(&l));
  }
  pod_runs_do(&f, fetches);
  double sum = 0, sums = 0;
  for (int i = 0; i < TRIPS; ++i)
    sums += sum += i;
  assert_true(pod_runs_number(&f, 1) == sums);
  expect_sum(&f, &l, sum);
  end_loops(&l, &f);
}

// The fourth tuple is of another type, or no class; the outfeed has what three
// have given.
static void fail_a_trip(const char *device, int64_t num_classes,
                        const char *says) {
  loops l = {.trips = 6, .num_classes = num_classes};
  pod_runs f = begin_loops(&l, device);
  ls_nest fetches = ls_none();
  if (num_classes == 0)
    pod_inject(f.pod,
               (ls_pod_fault){.kind = LS_POD_TUPLE_CHANGED, .at_step = 3});
  {
    LS_GRAPH_SCOPE(f.graph);
    fetches = LS_LIST(loop_on_host(host_puts, &l), loop_on_core(&l));
  }
  expect_status(pod_runs_try(&f, fetches), LS_INVALID_ARGUMENT, says);
  expect_sum(&f, &l, 0 + 1 + 2);
  end_loops(&l, &f);
}

TEST(whole_trips_before_a_bad_tuple_stay) {
  fail_a_trip(NULL, 0, "is u8[]");
  fail_a_trip(plugin_device(), 0, "is u8[]");
}

TEST(whole_trips_before_a_wrong_label_stay) {
  static const char says[] = "label 3 is none of the 3 classes";
  fail_a_trip(NULL, 3, says);
  fail_a_trip(plugin_device(), 3, says);
}

// The CPU engine's loop takes a tuple when it needs it, that of a device all of
// them first.
TEST(a_host_that_waits_for_a_trip_of_the_same_launch_is_named) {
  loops l = {.trips = 3, .echoes = true};
  pod_runs f = begin_loops(&l, plugin_device());
  ls_nest fetches = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    pod_runs_do(&f, ls_nest_op(put_tensor(
                        0, 0, ls_fill(LS_DTYPE_F32, LS_SHAPE(1), 1))));
    l.trips = 3;
    fetches = LS_LIST(loop_on_host(host_puts, &l), loop_on_core(&l));
  }
  expect_status(pod_runs_try(&f, fetches), LS_DEADLINE_EXCEEDED,
                "before trip 2 of 3");
  end_loops(&l, &f);
}
