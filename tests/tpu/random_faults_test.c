// SPDX-License-Identifier: Apache-2.0
//
// Random faults of random pods under random ways to train: one error, which is
// the first cause; no thread and no memory stays behind; and who goes on once
// all is well again comes to the bits of who was never disturbed.
//
// A few in each run of the tests, more with LS_TEST_FAULTS=1000, from number
// LS_TEST_SEED on.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/flow.h"
#include "lockstep/function.h"
#include "lockstep/replica.h"
#include "lockstep/replicate.h"
#include "lockstep/tpu_strategy.h"
#include "lockstep/training_loop.h"
#include "support/callbacks.h"
#include "support/draw.h"
#include "support/function.h"
#include "support/pod_runs.h"
#include "support/thread_count.h"
#include "support/values.h"
#include "tpu/pod/pod.h"

enum { FEW = 40, WIDE = 3, MOST_HOSTS = 4, MOST_CORES = 8 };

// ---- What is drawn ---------------------------------------------------------
typedef enum way { STRATEGY, SESSION, LOOP, BY_HAND, WAYS } way;
static const char *const way_names[] = {"strategy", "session", "loop",
                                        "by hand"};

typedef struct plan {
  uint64_t seed;
  way way;
  int model;  // What a step computes.
  int hosts, cores, threads;
  int steps, chunk;  // In all, and of a run of a loop.
  bool begins_anew;  // Instead of healing alone.
  ls_pod_fault fault;
  ls_pod_fault delay;  // Beside it, which changes nothing. Nanos 0: none.
} plan;

static plan plan_of(uint64_t seed) {
  static const ls_pod_fault_kind kinds[] = {
      LS_POD_HOST_PREEMPTED, LS_POD_CORE_LOST,     LS_POD_CORE_SLOW,
      LS_POD_COMPILE_FAILS,  LS_POD_MEMORY_SHORT,  LS_POD_TUPLE_LATE,
      LS_POD_TUPLE_CHANGED,  LS_POD_INFEED_CLOSED, LS_POD_TUPLE_LOST,
      LS_POD_OUTFEED_FAILS};
  enum { ANYWHERE = 5, WITHOUT_OUTFEED = LS_COUNT_OF(kinds) - 1 };
  uint64_t state = seed;
  plan p = {.seed = seed};
  p.way = (way)draw_below(&state, WAYS);
  p.model = (int)draw_below(&state, 3);
  p.hosts = 1 + (int)draw_below(&state, MOST_HOSTS);
  p.cores = 1 + (int)draw_below(&state, MOST_CORES / (unsigned)p.hosts);
  p.threads = 1 + (int)draw_below(&state, 3);
  p.steps = 2 + (int)draw_below(&state, 6);
  p.chunk = 1 + (int)draw_below(&state, 4);
  p.begins_anew = p.way >= LOOP || draw_below(&state, 2) == 1;
  const uint64_t most = p.way == LOOP      ? LS_COUNT_OF(kinds)
                        : p.way == BY_HAND ? WITHOUT_OUTFEED
                                           : ANYWHERE;
  p.fault =
      (ls_pod_fault){.kind = kinds[draw_below(&state, most)],
                     .host = (int32_t)draw_below(&state, (uint64_t)p.hosts),
                     .core = (int32_t)draw_below(&state, (uint64_t)p.cores),
                     .nanos = 1000000,
                     .bytes = 8,
                     .text = "as planned"};
  const bool compiles = p.fault.kind == LS_POD_COMPILE_FAILS ||
                        p.fault.kind == LS_POD_MEMORY_SHORT;
  p.fault.at_step =
      (int64_t)draw_below(&state, compiles ? 2 : (uint64_t)p.steps + 1);
  if (draw_below(&state, 2) == 1 && p.fault.kind != LS_POD_TUPLE_LOST)
    p.delay = (ls_pod_fault){
        .kind = LS_POD_CORE_SLOW,
        .host = (int32_t)draw_below(&state, (uint64_t)p.hosts),
        .core = (int32_t)draw_below(&state, (uint64_t)p.cores),
        .at_step = (int64_t)draw_below(&state, (uint64_t)p.steps),
        .every = 1 + (int64_t)draw_below(&state, 3),
        .nanos = 1 + (int64_t)draw_below(&state, 1 << 30)};
  return p;
}

// ---- Its trial --------------------------------------------------------------
// A clock that nobody waits for; a tuple that never comes is found missing by
// the time that really passes, which is made a hundred times as long then.
static int64_t now;
static bool is_fast;
static pthread_mutex_t fast_lock = PTHREAD_MUTEX_INITIALIZER;
static int64_t fast_began, fast_passed;

static int64_t real_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void set_fast(bool fast) {
  pthread_mutex_lock(&fast_lock);
  if (is_fast) fast_passed += 100 * (real_now() - fast_began);
  is_fast = fast;
  fast_began = real_now();
  pthread_mutex_unlock(&fast_lock);
}

static int64_t look(void *user) {
  (void)user;
  pthread_mutex_lock(&fast_lock);
  int64_t passed = fast_passed;
  if (is_fast) passed += 100 * (real_now() - fast_began);
  pthread_mutex_unlock(&fast_lock);
  return passed + __atomic_load_n(&now, __ATOMIC_RELAXED);
}
static void pass(void *user, int64_t nanos) {
  (void)user;
  __atomic_fetch_add(&now, nanos, __ATOMIC_RELAXED);
}

typedef struct trial {
  const plan *plan;
  counted c;
  ls_pod *pod;
  ls_graph *graph;
  ls_session *session;
  ls_strategy *strategy;
  ls_tpu_resolver *resolver;
  ls_function *function;
  ls_variable *weights, *speed, *count;
  ls_tensor step;   // A placeholder.
  ls_nest outputs;  // Of a step in a session.
  ls_infeed_queue *queue;
  int64_t first, trips;  // Of the loop that is being built, or fed by hand.
} trial;

static int replicas_of(const trial *t) {
  return t->plan->hosts * t->plan->cores;
}

// x and the variables, all of WIDE: one step.
static ls_tensor train(trial *t, ls_tensor x) {
  const ls_tensor w = ls_variable_read(t->weights);
  ls_tensor error = ls_sub(w, x);
  if (t->plan->model == 1) error = ls_tanh(error);
  if (t->plan->model == 2)
    error = ls_reshape(ls_matmul(ls_reshape(error, LS_SHAPE(1, WIDE)),
                                 ls_add(ls_reshape(x, LS_SHAPE(WIDE, 1)),
                                        ls_reshape(w, LS_SHAPE(1, WIDE)))),
                       LS_SHAPE(WIDE));
  const ls_tensor gradient = ls_all_reduce(LS_REDUCE_MEAN, error);
  const ls_tensor speed =
      ls_add(ls_mul_scalar(ls_variable_read(t->speed), 0.9), gradient);
  (void)ls_variable_assign(t->speed, speed);
  (void)ls_variable_assign_sub(t->weights, ls_mul_scalar(speed, 0.1));
  (void)ls_variable_assign_add(t->count, pod_number(1));
  return ls_reduce_sum(error, LS_ALL_AXES);
}

static ls_tensor wide_of(ls_tensor number) {
  static const double factors[WIDE] = {0.5, -1.25, 2};
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SHAPE(WIDE), factors);
  return ls_mul(ls_constant(array), number);
}

// What replica r is given at a step.
static ls_tensor data_of(ls_tensor step, ls_tensor replica) {
  return ls_add(ls_mul_scalar(step, 0.125), ls_mul_scalar(replica, 0.375));
}

static ls_nest number_of_shape(ls_shape shape, double value) {
  return ls_nest_array(array_of(LS_DTYPE_F32, shape, &value));
}

static void make_variables(trial *t) {
  ls_variable **const variables[] = {&t->weights, &t->speed, &t->count};
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_variable_create(
        &(ls_variable_options){.dtype = LS_DTYPE_F32,
                               .shape = i < 2 ? LS_SHAPE(WIDE) : LS_SCALAR,
                               .aggregation = LS_AGGREGATION_MEAN},
        variables[i]));
}

// ---- Steps of a strategy ---------------------------------------------------
static ls_nest strategy_step(ls_nest args, void *user) {
  const ls_tensor id = ls_convert(ls_replica_id(), LS_DTYPE_F32);
  return ls_leaf(train(user, wide_of(data_of(ls_nest_tensor(args, 0), id))));
}

static ls_status step_of_strategy(trial *t, int64_t step) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, args) = LS_LIST(number_of_shape(LS_SCALAR, (double)step));
  return ls_strategy_run(t->strategy, ls_traced(t->function), args, &results);
}

// ---- Steps in a session ----------------------------------------------------
static ls_nest session_step(ls_nest args, void *user) {
  return LS_LIST(ls_leaf(train(user, wide_of(ls_nest_tensor(args, 0)))));
}

static void build_step(trial *t) {
  ls_nest items[MOST_CORES];
  t->step = ls_placeholder(LS_DTYPE_F32, LS_SCALAR, "step");
  for (int r = 0; r < replicas_of(t); ++r)
    items[r] = LS_LIST(ls_leaf(data_of(t->step, pod_number(r))));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)replicas_of(t));
  expect_ok(ls_replicate(session_step, t, inputs, NULL, &t->outputs));
}

static ls_status step_in_session(trial *t, int64_t step) {
  LS_OWN(ls_nest, results) = ls_none();
  LS_OWN(ls_nest, value) = number_of_shape(LS_SCALAR, (double)step);
  const ls_feed feed = {t->step, ls_nest_as_array(value)};
  return ls_session_run(t->session, t->outputs, &feed, 1, &results);
}

// ---- Loops -----------------------------------------------------------------
static ls_nest trip(ls_nest args, void *user) {
  trial *t = user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 1), LS_SCALAR);
  const ls_tensor error = train(t, wide_of(x));
  const ls_tensor sum = ls_add(ls_nest_tensor(args, 0), error);
  if (t->plan->way == BY_HAND) return ls_leaf(sum);
  LS_DEVICE_SCOPE("/device:TPU_REPLICATED_CORE:0");
  return LS_LIST(ls_leaf(sum), ls_nest_op(ls_outfeed_enqueue(error)));
}

static ls_nest device_body(ls_nest args, void *user) {
  trial *t = user;
  ls_nest outputs = ls_none();
  (void)args;
  const ls_training_loop loop = {.body = trip, .user = t, .infeed = t->queue};
  LS_OWN(ls_nest, inputs) = LS_LIST(ls_leaf(pod_number(0)));
  const ls_status status =
      ls_training_repeat(t->trips, &loop, inputs, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static ls_nest device_loop(trial *t) {
  ls_nest items[MOST_CORES], outputs = ls_none();
  const ls_dtype dtype = LS_DTYPE_F32;
  const ls_shape shape = LS_SHAPE(replicas_of(t));
  expect_ok(ls_infeed_queue_create(
      &(ls_infeed_options){
          .dtypes = &dtype, .num_dtypes = 1, .shapes = &shape, .num_shapes = 1},
      &t->queue));
  for (int r = 0; r < replicas_of(t); ++r)
    items[r] = LS_LIST(ls_leaf(pod_number(r)));
  LS_OWN(ls_nest, inputs) =
      ls_nest_sequence(LS_KIND_LIST, items, (size_t)replicas_of(t));
  expect_ok(ls_replicate(device_body, t, inputs, NULL, &outputs));
  return outputs;
}

typedef struct host {
  const trial *trial;
  int replica;
  bool gets;
} host;

static ls_nest host_trip(ls_nest values, void *user) {
  const host *h = user;
  const int cores = h->trial->plan->cores;
  const int task = h->replica / cores, core = h->replica % cores;
  const ls_tensor step = ls_nest_tensor(values, 0);
  ls_tensor sum = ls_nest_tensor(values, 1);
  if (h->gets)
    sum = ls_add(sum, get_number(task, core));
  else
    (void)put_tensor(
        task, core,
        ls_reshape(data_of(step, pod_number(h->replica)), LS_SHAPE(1)));
  return LS_LIST(ls_leaf(ls_add_scalar(step, 1)), ls_leaf(sum));
}

static ls_nest host_loop(host *h) {
  const trial *t = h->trial;
  LS_OWN(ls_nest, made) = ls_while(
      always_true, host_trip, h,
      LS_LIST(ls_leaf(pod_number((double)t->first)), ls_leaf(pod_number(0))),
      t->trips);
  return ls_leaf(ls_nest_tensor(made, 1));
}

static void *put_by_hand(void *user) {
  trial *t = user;
  ls_runtime_make_current(t->c.runtime);
  ls_status status = ls_ok();
  for (int64_t k = t->first; k < t->first + t->trips; ++k)
    for (int r = 0; ls_status_is_ok(status) && r < replicas_of(t); ++r) {
      char device[80];
      snprintf(device, sizeof(device), "/task:%d/device:TPU:%d",
               r / t->plan->cores, r % t->plan->cores);
      LS_OWN(ls_nest, tuple) =
          LS_LIST(number_of_shape(LS_SHAPE(1), 0.125 * (double)k + 0.375 * r));
      status = ls_infeed_put(device, tuple);
    }
  return status;
}

// Trips from step `first` on, in a run.
static ls_status run_loop(trial *t, int64_t first, int64_t trips) {
  static host hosts[2 * MOST_CORES];
  ls_nest fetches[2 * MOST_CORES + 1], results = ls_none();
  const int num_hosts = t->plan->way == LOOP ? 2 * replicas_of(t) : 0;
  t->first = first;
  t->trips = trips;
  {
    LS_GRAPH_SCOPE(t->graph);
    for (int i = 0; i < num_hosts; ++i) {
      hosts[i] = (host){t, i / 2, i % 2 == 1};
      fetches[i] = host_loop(&hosts[i]);
    }
    fetches[num_hosts] = device_loop(t);
  }
  LS_OWN(ls_nest, all) =
      ls_nest_sequence(LS_KIND_LIST, fetches, (size_t)num_hosts + 1);
  pthread_t thread;
  void *put = NULL;
  if (num_hosts == 0)
    assert_int_equal(pthread_create(&thread, NULL, put_by_hand, t), 0);
  ls_status status = ls_session_run(t->session, all, NULL, 0, &results);
  if (num_hosts == 0) assert_int_equal(pthread_join(thread, &put), 0);
  if (ls_status_is_ok(status))
    status = put;
  else
    ls_status_free(put);
  ls_nest_release(results);
  ls_infeed_queue_release(t->queue);
  t->queue = NULL;
  return status;
}

// ---- All of it -------------------------------------------------------------
static void read_floats(const trial *t, ls_variable *variable, float *out) {
  LS_OWN(ls_array, value) = NULL;
  expect_ok(t->plan->way == STRATEGY
                ? ls_variable_value(variable, &value)
                : ls_session_variable_value(t->session, variable, &value));
  memcpy(out, ls_array_data(value), ls_array_size(value));
}

typedef struct values {
  float weights[WIDE], speed[WIDE], count;
} values;

static values read_values(const trial *t) {
  values all;
  read_floats(t, t->weights, all.weights);
  read_floats(t, t->speed, all.speed);
  read_floats(t, t->count, &all.count);
  return all;
}

static void write_zeros(const trial *t) {
  ls_variable *const variables[] = {t->weights, t->speed, t->count};
  for (int i = 0; i < 3; ++i) {
    LS_OWN(ls_nest, zeros) =
        ls_nest_zeros(LS_DTYPE_F32, i < 2 ? LS_SHAPE(WIDE) : LS_SCALAR);
    expect_ok(ls_session_set_variable_value(t->session, variables[i],
                                            ls_nest_as_array(zeros)));
  }
}

// The pod is of the local system: first in x are the hosts.
static void open_pod(trial *t) {
  const plan *p = t->plan;
  char shape[60];
  ls_topology *topology = NULL;
  snprintf(shape, sizeof(shape), "%dx%d,cores=1,hosts=%d", p->hosts, p->cores,
           p->hosts);
  expect_ok(ls_tpu_resolver_create(&(ls_tpu_resolver_options){.local = shape},
                                   &t->resolver));
  expect_ok(ls_tpu_connect(t->resolver));
  expect_ok(ls_tpu_initialize(t->resolver, &topology));
  ls_topology_release(topology);
  expect_ok(ls_tpu_pod(t->resolver, &t->pod));
}

static void trial_begin(trial *t, const plan *p) {
  static const ls_clock clock = {look, look, pass, NULL};
  *t = (trial){.plan = p};
  t->c = counted_begin_with(
      (ls_runtime_options){.threads = p->threads, .clock = &clock});
  open_pod(t);
  if (p->way == STRATEGY) {
    expect_ok(ls_tpu_strategy_create(NULL, &t->strategy));
    LS_STRATEGY_SCOPE(t->strategy);
    make_variables(t);
    t->function = function_of(strategy_step, t);
    return;
  }
  expect_ok(ls_graph_create("g", &t->graph));
  expect_ok(ls_session_create(t->graph, &t->session));
  ls_nest init = ls_none();
  {
    LS_GRAPH_SCOPE(t->graph);
    make_variables(t);
    init = ls_nest_op(ls_global_initializer());
    if (p->way == SESSION) build_step(t);
  }
  LS_OWN(ls_nest, results) = session_results(t->session, init);
}

static void trial_end(trial *t) {
  ls_nest_release(t->outputs);
  ls_function_release(t->function);
  ls_variable_release(t->weights);
  ls_variable_release(t->speed);
  ls_variable_release(t->count);
  ls_strategy_release(t->strategy);
  ls_session_destroy(t->session);
  ls_graph_destroy(t->graph);
  ls_pod_release(t->pod);
  ls_tpu_resolver_release(t->resolver);
  counted_end(&t->c);
}
LS_OWNED_STRUCT(trial, trial_end)

// From step `*done` on, until all are done or something fails.
static ls_status go_on(trial *t, int64_t *done) {
  const plan *p = t->plan;
  ls_status status = ls_ok();
  while (ls_status_is_ok(status) && *done < p->steps) {
    int64_t trips = p->steps - *done;
    if (trips > p->chunk) trips = p->chunk;
    if (p->way == STRATEGY) status = step_of_strategy(t, *done);
    if (p->way == SESSION) status = step_in_session(t, *done);
    if (p->way >= LOOP) status = run_loop(t, *done, trips);
    *done = (int64_t)read_values(t).count;
  }
  return status;
}

// ---- What must come of it --------------------------------------------------
static ls_code code_of(ls_pod_fault_kind kind) {
  switch (kind) {
  case LS_POD_HOST_PREEMPTED:
  case LS_POD_CORE_LOST:
    return LS_UNAVAILABLE;
  case LS_POD_COMPILE_FAILS:
  case LS_POD_TUPLE_CHANGED:
    return LS_INVALID_ARGUMENT;
  case LS_POD_MEMORY_SHORT:
    return LS_RESOURCE_EXHAUSTED;
  case LS_POD_INFEED_CLOSED:
    return LS_FAILED_PRECONDITION;
  case LS_POD_TUPLE_LOST:
    return LS_DEADLINE_EXCEEDED;
  case LS_POD_OUTFEED_FAILS:
    return LS_ABORTED;
  default:
    return LS_OK;
  }
}

// Whether it must happen: programs are compiled once, or for each run of a
// loop.
static bool must_fail(const plan *p) {
  const int64_t at = p->fault.at_step;
  switch (p->fault.kind) {
  case LS_POD_CORE_SLOW:
  case LS_POD_TUPLE_LATE:
    return false;
  case LS_POD_COMPILE_FAILS:
  case LS_POD_MEMORY_SHORT:
    return at < (p->way < LOOP ? 1 : (p->steps + p->chunk - 1) / p->chunk);
  case LS_POD_INFEED_CLOSED:
    return at + 1 < p->steps;  // Behind the last one nobody asks.
  default:
    return at < p->steps;
  }
}

static void expect_cause(const plan *p, ls_status status) {
  const ls_pod_fault *fault = &p->fault;
  char place[80];
  const bool of_host = fault->kind == LS_POD_HOST_PREEMPTED;
  snprintf(place, sizeof(place), of_host ? "task:%d" : "task:%d/device:TPU:%d",
           fault->host, fault->core);
  if (fault->kind == LS_POD_COMPILE_FAILS)
    snprintf(place, sizeof(place), "host %d of TPU system", fault->host);
  expect_contains(ls_status_message(status), place);
  expect_status(status, code_of(fault->kind), "");
}

static values undisturbed(const plan *p) {
  int64_t done = 0;
  LS_OWN_BEGUN(trial, t, trial_begin, p);
  expect_ok(go_on(&t, &done));
  const values all = read_values(&t);
  assert_true(all.count == (float)p->steps);
  return all;
}

// True: it has failed on the way.
static bool disturb(const plan *p, const values *wanted) {
  int64_t done = 0;
  LS_OWN_BEGUN(trial, t, trial_begin, p);
  expect_ok(ls_pod_inject(t.pod, &p->fault));
  if (p->delay.nanos > 0) expect_ok(ls_pod_inject(t.pod, &p->delay));
  set_fast(p->fault.kind == LS_POD_TUPLE_LOST);
  const ls_status status = go_on(&t, &done);
  set_fast(false);
  const bool has_failed = !ls_status_is_ok(status);
  assert_int_equal(has_failed, must_fail(p));
  if (has_failed) {
    expect_cause(p, status);
    if (p->begins_anew) ls_pod_initialize(t.pod);
    ls_pod_heal(t.pod);
    // Whose tuple was lost has computed with the next one.
    if (p->fault.kind == LS_POD_TUPLE_LOST) {
      write_zeros(&t);
      done = 0;
    }
    expect_ok(go_on(&t, &done));
  }
  const values all = read_values(&t);
  assert_memory_equal(&all, wanted, sizeof(all));
  return has_failed;
}

TEST(whatever_goes_wrong_can_be_gone_on_from) {
  const int first = int_from_environment("LS_TEST_SEED", 1);
  const int count = int_from_environment("LS_TEST_FAULTS", FEW);
  const bool tells = getenv("LS_TEST_FAULTS") != NULL;
  int failed = 0, by_way[WAYS] = {0};
  for (int i = 0; i < count; ++i) {
    const plan p = plan_of((uint64_t)(first + i));
    char what[200];
    snprintf(what, sizeof(what),
             "seed %" PRIu64 ": %s, model %d, %d hosts of %d, %d threads, %d "
             "steps by %d, fault %d at host %d core %d step %" PRId64,
             p.seed, way_names[p.way], p.model, p.hosts, p.cores, p.threads,
             p.steps, p.chunk, (int)p.fault.kind, p.fault.host, p.fault.core,
             p.fault.at_step);
    if (getenv("LS_TEST_TELLS") != NULL) fprintf(stderr, "%s\n", what);
    const int threads = thread_count();
    const values wanted = undisturbed(&p);
    const bool has_failed = disturb(&p, &wanted);
    failed += has_failed;
    by_way[p.way] += has_failed;
    if (thread_count() != threads)
      fail_msg("%s: %d threads are left of %d", what, thread_count(), threads);
  }
  if (tells)
    printf("%d faults, of which %d failed a run: strategy %d, session %d, loop "
           "%d, by hand %d\n",
           count, failed, by_way[STRATEGY], by_way[SESSION], by_way[LOOP],
           by_way[BY_HAND]);
}
