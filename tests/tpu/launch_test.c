// SPDX-License-Identifier: Apache-2.0
//
// Doors of computations for cores: where a program is compiled, and where a run
// begins; and what hosts say of their health.
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory/own.h"
#include "lockstep/eager.h"
#include "lockstep/function.h"
#include "lockstep/host.h"
#include "lockstep/replicate.h"
#include "lockstep/tpu_strategy.h"
#include "support/assignments.h"
#include "support/computation.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/pod_runs.h"
#include "tpu/own.h"
#include "tpu/pod/pod.h"

// ---- Ways to run a computation ---------------------------------------------
static ls_nest count_up(ls_nest args, void *user) {
  const ls_tensor one = ls_scalar(LS_DTYPE_F32, 1);
  (void)args;
  return LS_LIST(ls_leaf(ls_variable_assign_add(user, one)));
}

typedef struct counting {
  ls_variable *variable;
  size_t replicas;
  ls_function *function;  // NULL: in a session.
  ls_nest fetch;
  const ls_device_assignment *assignment;  // NULL: none.
} counting;

static ls_status count_in(const counting *c, ls_nest *outputs) {
  LS_OWN(ls_nest, inputs) = computation_inputs(c->replicas);
  return ls_replicate(count_up, c->variable, inputs,
                      &(ls_replicate_options){.assignment = c->assignment},
                      outputs);
}

static ls_nest traced(ls_nest args, void *user) {
  ls_nest outputs = ls_none();
  (void)args;
  const ls_status status = count_in(user, &outputs);
  return ls_status_is_ok(status) ? outputs : ls_fail(status);
}

static void make_variable(counting *c) {
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                      .shape = LS_SCALAR,
                                                      .name = "count"},
                               &c->variable));
}

static counting counting_begin_on(pod_runs *f, size_t replicas,
                                  const ls_device_assignment *assignment,
                                  bool in_session) {
  counting c = {.replicas = replicas, .assignment = assignment};
  if (in_session) {
    LS_GRAPH_SCOPE(f->graph);
    make_variable(&c);
    expect_ok(count_in(&c, &c.fetch));
    pod_runs_do(f, ls_nest_op(ls_variable_initializer(c.variable)));
  } else {
    make_variable(&c);
    c.function = function_of(traced, NULL);
  }
  return c;
}

static counting counting_begin(pod_runs *f, size_t replicas, bool in_session) {
  return counting_begin_on(f, replicas, NULL, in_session);
}

static void counting_end(counting *c) {
  ls_nest_release(c->fetch);
  ls_function_release(c->function);
  ls_variable_release(c->variable);
}
LS_OWNED_STRUCT(counting, counting_end)

static ls_status count_once(pod_runs *f, counting *c) {
  if (c->function == NULL) return pod_runs_try(f, ls_nest_retain(c->fetch));
  LS_OWN(ls_nest, results) = ls_none();
  return ls_function_call(c->function, ls_none(), &results);
}

static double counted_so_far(const pod_runs *f, const counting *c) {
  LS_OWN(ls_array, value) = NULL;
  expect_ok(c->function == NULL
                ? ls_session_variable_value(f->session, c->variable, &value)
                : ls_variable_value(c->variable, &value));
  return ls_array_f64(value, 0);
}

// In a session and in a traced function, of one replica and of all four.
static void in_all_ways(void (*check)(pod_runs *f, counting *c)) {
  for (int way = 0; way < 4; ++way) {
    LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
    LS_OWN(counting, c) = counting_begin(&f, way < 2 ? 1 : 4, way % 2 == 0);
    if (c.function != NULL) {
      ls_function_release(c.function);
      c.function = function_of(traced, &c);
    }
    check(&f, &c);
  }
}

// ---- Beginning -------------------------------------------------------------
static void lose_a_host(pod_runs *f, counting *c) {
  pod_inject(f->pod,
             (ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED, .at_step = 2});
  expect_ok(count_once(f, c));
  expect_ok(count_once(f, c));
  for (int i = 0; i < 2; ++i)
    expect_status(count_once(f, c), LS_UNAVAILABLE,
                  "host /job:localhost/task:0 of TPU system 'virtual' was "
                  "preempted");
  assert_true(counted_so_far(f, c) == 2);
  ls_pod_heal(f->pod);
  expect_ok(count_once(f, c));
  assert_true(counted_so_far(f, c) == 3);
}

TEST(a_run_of_a_computation_can_lose_a_host) { in_all_ways(lose_a_host); }

static void be_slow(pod_runs *f, counting *c) {
  pod_inject(
      f->pod,
      (ls_pod_fault){.kind = LS_POD_CORE_SLOW, .at_step = 1, .nanos = 7000000});
  expect_ok(count_once(f, c));
  const int64_t before = pod_runs_now;
  assert_string_equal(pod_runs_warning, "");
  expect_ok(count_once(f, c));
  assert_true(pod_runs_now - before == 7000000);
  expect_contains(pod_runs_warning,
                  "a step of /job:localhost/replica:0/task:0/device:"
                  "TPU:0 takes 7.000 ms longer");
  expect_ok(count_once(f, c));
  assert_true(pod_runs_now - before == 7000000);
}

TEST(a_run_of_a_computation_can_be_slow) { in_all_ways(be_slow); }

// A fault of a core that the computation does not use is none.
TEST(other_cores_do_not_matter) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
  LS_OWN(counting, c) = counting_begin(&f, 1, true);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_CORE_LOST, .core = 1});
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED, .host = 1});
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_COMPILE_FAILS, .host = 1});
  expect_ok(count_once(&f, &c));
  assert_true(counted_so_far(&f, &c) == 1);
}

// The cores that it uses are those of its assignment, all of each replica.
TEST(the_cores_of_an_assignment_are_those_that_can_be_lost) {
  static const struct {
    int replicas, cores;
    int at[4][2];  // Host and core.
  } rows[] = {{1, 1, {{1, 0}}},
              {1, 2, {{1, 0}, {0, 1}}},
              {2, 1, {{1, 0}, {1, 1}}},
              {2, 1, {{1, 1}, {0, 1}}},
              {2, 2, {{0, 0}, {1, 0}, {0, 1}, {1, 1}}}};
  for (size_t i = 0; i < LS_COUNT_OF(rows) * 2; ++i) {
    const int replicas = rows[i / 2].replicas, cores = rows[i / 2].cores;
    LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
    LS_OWN(ls_device_assignment, assignment) =
        make_assignment(f.pod->topology, replicas, cores, rows[i / 2].at);
    LS_OWN(counting, c) =
        counting_begin_on(&f, (size_t)replicas, assignment, i % 2 == 0);
    if (c.function != NULL) {
      ls_function_release(c.function);
      c.function = function_of(traced, &c);
    }
    for (int core = 0; core < 4; ++core) {
      bool is_used = false;
      for (int k = 0; k < replicas * cores; ++k)
        is_used |= rows[i / 2].at[k][0] == core / 2 &&
                   rows[i / 2].at[k][1] == core % 2;
      pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_CORE_LOST,
                                       .host = core / 2,
                                       .core = core % 2});
      expect_status(count_once(&f, &c), is_used ? LS_UNAVAILABLE : LS_OK, "");
      ls_pod_heal(f.pod);
    }
  }
}

// ---- Compiling -------------------------------------------------------------
static void fail_to_compile(pod_runs *f, counting *c) {
  pod_inject(f->pod, (ls_pod_fault){.kind = LS_POD_COMPILE_FAILS,
                                    .text = "no registers"});
  ls_status status = count_once(f, c);
  assert_non_null(status);
  expect_contains(ls_status_message(status), "host 0 of TPU system 'virtual'");
  expect_status(status, LS_INVALID_ARGUMENT, "no registers");
  assert_true(c->function != NULL || counted_so_far(f, c) == 0);
  expect_ok(count_once(f, c));  // The next compilation is fine.
  expect_ok(count_once(f, c));
  assert_true(counted_so_far(f, c) == 2);
}

TEST(a_computation_can_fail_to_compile) { in_all_ways(fail_to_compile); }

TEST(a_system_that_begins_anew_has_programs_compiled_anew) {
  LS_SPEC("T28");
  for (int way = 0; way < 2; ++way) {
    LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
    LS_OWN(counting, c) = counting_begin(&f, 4, way == 0);
    if (c.function != NULL) {
      ls_function_release(c.function);
      c.function = function_of(traced, &c);
    }
    expect_ok(count_once(&f, &c));
    pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_COMPILE_FAILS});
    expect_ok(count_once(&f, &c));  // It is compiled.
    ls_pod_initialize(f.pod);
    expect_status(count_once(&f, &c), LS_INVALID_ARGUMENT, "planned");
    expect_ok(count_once(&f, &c));
    assert_true(counted_so_far(&f, &c) == 3);
  }
}

TEST(a_system_that_was_shut_down_runs_nothing) {
  for (int way = 0; way < 2; ++way) {
    LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
    LS_OWN(counting, c) = counting_begin(&f, 4, way == 0);
    if (c.function != NULL) {
      ls_function_release(c.function);
      c.function = function_of(traced, &c);
    }
    expect_ok(count_once(&f, &c));
    ls_pod_shut_down(f.pod);
    for (int i = 0; i < 2; ++i)
      expect_status(count_once(&f, &c), LS_FAILED_PRECONDITION,
                    "the TPU system 'virtual' is not initialized");
    assert_true(counted_so_far(&f, &c) == 1);
  }
}

// What is told of how it compiles is what would fail a run: its code and text,
// as a serialized {1: code, 2: message}.
TEST(a_compilation_that_fails_is_told) {
  LS_SPEC("O114");
  static const struct {
    ls_pod_fault fault;
    int code;
    const char *part;
  } rows[] = {
      {{.kind = LS_POD_COMPILE_FAILS, .text = "no registers"},
       LS_INVALID_ARGUMENT,
       "no registers"},
      {{.kind = LS_POD_MEMORY_SHORT, .bytes = 3},
       LS_RESOURCE_EXHAUSTED,
       "which has 3; its largest values: 4 of variable 'count'"},
  };
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
    LS_OWN(counting, c) = {.replicas = 4};
    ls_tensor told = {0};
    {
      LS_GRAPH_SCOPE(f.graph);
      make_variable(&c);
      const ls_nest inputs = computation_inputs(c.replicas);
      expect_ok(ls_split_compile_and_replicate(count_up, c.variable, inputs,
                                               NULL, &told, &c.fetch));
      ls_nest_release(inputs);
      pod_runs_do(&f, ls_nest_op(ls_variable_initializer(c.variable)));
    }
    pod_inject(f.pod, rows[i].fault);
    pod_runs_do(&f, ls_leaf(told));
    const ls_bytes *bytes = ls_array_data(ls_nest_as_array(f.results));
    char text[1024] = {0};
    assert_in_range(bytes->size, 5, sizeof(text) - 1);
    memcpy(text, bytes->data, bytes->size);
    assert_int_equal(text[0], 8);
    assert_int_equal(text[1], rows[i].code);
    expect_contains(text + 3, rows[i].part);
    assert_true(counted_so_far(&f, &c) == 0);
    ls_pod_heal(f.pod);
    pod_runs_do(&f, ls_leaf(told));
    bytes = ls_array_data(ls_nest_as_array(f.results));
    assert_int_equal(bytes->size, 0);
    expect_ok(count_once(&f, &c));
    assert_true(counted_so_far(&f, &c) == 1);
  }
}

// ---- Memory ----------------------------------------------------------------
enum { ROWS = 1000 };  // Of 4 bytes.

static ls_nest scale(ls_nest args, void *user) {
  const ls_tensor x = ls_variable_read(user);
  (void)args;
  return LS_LIST(ls_leaf(ls_reduce_sum(ls_mul(x, x), LS_ALL_AXES)));
}

TEST(what_does_not_fit_a_core_does_not_compile) {
  for (size_t replicas = 1; replicas <= 4; replicas += 3) {
    LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
    LS_OWN(ls_variable, variable) = NULL;
    LS_OWN(ls_nest, outputs) = ls_none();
    {
      LS_GRAPH_SCOPE(f.graph);
      const ls_nest inputs = computation_inputs(replicas);
      expect_ok(
          ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                    .shape = LS_SHAPE(ROWS),
                                                    .name = "weights"},
                             &variable));
      expect_ok(ls_replicate(scale, variable, inputs, NULL, &outputs));
      ls_nest_release(inputs);
      pod_runs_do(&f, ls_nest_op(ls_variable_initializer(variable)));
    }
    const int last = replicas == 1 ? 0 : 1;
    pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_MEMORY_SHORT,
                                     .host = last,
                                     .core = last,
                                     .bytes = 4 * ROWS - 1});
    for (int i = 0; i < 2; ++i) {
      ls_status status = pod_runs_try(&f, ls_nest_retain(outputs));
      assert_non_null(status);
      char core[80];
      snprintf(core, sizeof(core),
               "of core /job:localhost/replica:0/task:%d/device:TPU:%d, which "
               "has 3999",
               last, last);
      expect_contains(ls_status_message(status), core);
      expect_contains(ls_status_message(status), "the program needs ");
      expect_status(status, LS_RESOURCE_EXHAUSTED,
                    "4000 of variable 'weights'");
    }
    ls_pod_heal(f.pod);
    pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_MEMORY_SHORT,
                                     .bytes = 3 * 4 * ROWS});
    pod_runs_do(&f, ls_nest_retain(outputs));
  }
}

TEST(cores_have_the_memory_that_a_resolver_says) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, resolver) = NULL;
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_variable, variable) = NULL;
  expect_status(ls_tpu_resolver_create(
                    &(ls_tpu_resolver_options){.core_bytes = -1}, &resolver),
                LS_INVALID_ARGUMENT, "-1 bytes");
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2",
                                 .core_bytes = 2000},
      &resolver));
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                   &strategy));
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                        .shape = LS_SHAPE(ROWS),
                                                        .name = "weights"},
                                 &variable));
  }
  LS_OWN(ls_function, f) = function_of(scale, variable);
  LS_OWN(ls_nest, results) = ls_none();
  expect_status(ls_strategy_run(strategy, ls_traced(f), ls_none(), &results),
                LS_RESOURCE_EXHAUSTED,
                "of core /job:worker/replica:0/task:0/device:TPU:0, which has "
                "2000");
  LS_OWN(ls_pod, pod) = NULL;
  char *text = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_pod_print(pod, &text));
  expect_contains(text, "memory  2000 bytes of each core");
  ls_release(ls_runtime_allocator(c.runtime), text);
}

// ---- Whose system ----------------------------------------------------------
static ls_nest one(ls_nest args, void *user) {
  (void)args, (void)user;
  return LS_LIST(ls_leaf(ls_scalar(LS_DTYPE_F32, 1)));
}

// Two systems of one shape: each strategy meets the faults of its own.
TEST(a_strategy_passes_the_doors_of_its_own_system) {
  LS_OWN(counted, c) = counted_begin(1);
  static const char *const jobs[] = {"red", "blue"};
  ls_tpu_resolver *resolvers[2];
  ls_strategy *strategies[2];
  ls_pod *pods[2];
  LS_OWN(ls_function, f) = function_of(one, NULL);
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_tpu_resolver_connect(
        &(ls_tpu_resolver_options){.name = "virtual:2x1,hosts=2",
                                   .job = jobs[i]},
        &resolvers[i]));
    expect_ok(ls_tpu_strategy_create(
        &(ls_tpu_options){.resolver = resolvers[i]}, &strategies[i]));
    expect_ok(ls_tpu_pod(resolvers[i], &pods[i]));
  }
  for (int lost = 0; lost < 2; ++lost) {
    pod_inject(pods[lost], (ls_pod_fault){.kind = LS_POD_HOST_PREEMPTED});
    for (int i = 0; i < 2; ++i) {
      LS_OWN(ls_nest, results) = ls_none();
      const ls_status status =
          ls_strategy_run(strategies[i], ls_traced(f), ls_none(), &results);
      if (i == lost)
        expect_status(status, LS_UNAVAILABLE, jobs[i]);
      else
        expect_ok(status);
    }
    ls_pod_heal(pods[lost]);
  }
  for (int i = 0; i < 2; ++i) {
    ls_pod_release(pods[i]);
    ls_strategy_release(strategies[i]);
    ls_tpu_resolver_release(resolvers[i]);
  }
}

// ---- Time ------------------------------------------------------------------
static int64_t stamped;
static ls_status stamp(ls_host_call *call) {
  stamped = pod_runs_now;
  ls_host_done(call, ls_ok());
  return ls_ok();
}
static const ls_host_kernel stamp_kernel = {
    .name = "stamp", .start = stamp, .flags = LS_HOST_INLINE};

// While one core is slow to take its tuple, another part of the run goes on.
TEST(who_is_late_keeps_nobody_waiting) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 2);
  pod_inject(f.pod,
             (ls_pod_fault){.kind = LS_POD_CORE_SLOW,
                            .nanos = (int64_t)3600 * 1000 * 1000 * 1000});
  ls_nest late = ls_none(), soon = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    late = LS_LIST(ls_nest_op(put_number(0, 0, 1)), ls_leaf(take_number(0, 0)));
    // Of the other part: it takes what it gives itself.
    const ls_tensor taken = take_number(0, 1);
    soon =
        LS_LIST(ls_nest_op(put_number(0, 1, 2)),
                ls_nest_op(ls_host_call_add(&stamp_kernel, NULL, &taken, 1)));
  }
  stamped = -1;
  pod_runs_do(&f, LS_LIST(late, soon));  // An hour, and nobody waits for it.
  assert_true(pod_runs_now >= (int64_t)3600 * 1000 * 1000 * 1000);
  assert_true(stamped == 0);
}

// One that is late can be cancelled: another part of the run fails.
TEST(who_is_late_can_be_cancelled) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(1, 2);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_CORE_SLOW, .nanos = 1000000});
  pod_inject(f.pod, (ls_pod_fault){
                        .kind = LS_POD_TUPLE_LATE, .core = 1, .nanos = 1000});
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_TUPLE_CHANGED, .core = 1});
  ls_nest both = ls_none();
  {
    LS_GRAPH_SCOPE(f.graph);
    both = LS_LIST(ls_leaf(take_number(0, 0)), ls_nest_op(put_number(0, 1, 2)),
                   ls_leaf(take_number(0, 1)));
  }
  expect_status(pod_runs_try(&f, both), LS_INVALID_ARGUMENT,
                "is u8[], expected is f32[]");
  assert_true(pod_runs_now < 1000000);
}

// ---- Beginning anew --------------------------------------------------------
typedef struct waiting {
  pod_runs *runs;
  ls_nest fetch;
  ls_status status;
} waiting;

static void *wait_there(void *user) {
  waiting *w = user;
  ls_runtime_make_current(w->runs->c.runtime);
  w->status = pod_runs_try(w->runs, w->fetch);
  return NULL;
}

// A run waits for a tuple, or to put one into a full queue, while the system
// begins anew or goes: what it has is for nobody any more.
TEST(a_run_does_not_go_on_in_another_system) {
  for (int way = 0; way < 4; ++way) {
    const bool puts = way % 2 == 1, ends = way >= 2;
    LS_OWN(pod_runs, f) =
        pod_runs_begin(1, 1, (ls_runtime_options){.threads = 1});
    waiting w = {.runs = &f};
    {
      LS_GRAPH_SCOPE(f.graph);
      w.fetch =
          puts ? ls_nest_op(put_number(0, 0, 1)) : ls_leaf(take_number(0, 0));
    }
    for (int i = 0; puts && i < LS_INFEED_DEPTH; ++i)
      pod_runs_do(&f, ls_nest_retain(w.fetch));
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_there, &w), 0);
    while (__atomic_load_n(&f.c.runtime->waiting_runs, __ATOMIC_RELAXED) == 0)
      usleep(100);
    if (ends)
      ls_pod_shut_down(f.pod);
    else
      ls_pod_initialize(f.pod);
    assert_int_equal(pthread_join(thread, NULL), 0);
    expect_status(w.status, LS_FAILED_PRECONDITION,
                  ends
                      ? "the TPU system 'virtual' was shut down while a run "
                        "waited for its infeed"
                      : "the TPU system 'virtual' was initialized again while");
    if (!ends) {
      LS_GRAPH_SCOPE(f.graph);
      const ls_nest both =
          LS_LIST(ls_nest_op(put_number(0, 0, 5)), ls_leaf(take_number(0, 0)));
      pod_runs_do(&f, both);
      assert_true(pod_runs_number(&f, 1) == 5);
    }
  }
}

// ---- Health ----------------------------------------------------------------
enum { SECOND = 1000 * 1000 * 1000 };

TEST(hosts_say_how_they_are) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(3, 1);
  ls_pod_health health = LS_POD_LAME;
  assert_int_equal(ls_pod_num_hosts(f.pod), 3);
  expect_ok(ls_pod_ask_health(f.pod, 2, SECOND, &health));
  assert_int_equal(health, LS_POD_HEALTHY);
  pod_inject(f.pod,
             (ls_pod_fault){.kind = LS_POD_HOST_LAME, .host = 1, .at_step = 1});
  expect_ok(ls_pod_ask_health(f.pod, 1, SECOND, &health));
  assert_int_equal(health, LS_POD_HEALTHY);
  for (int i = 0; i < 2; ++i) {
    expect_ok(ls_pod_ask_health(f.pod, 1, SECOND, &health));
    assert_int_equal(health, LS_POD_LAME);
  }
  expect_ok(ls_pod_ask_health(f.pod, 0, SECOND, &health));
  assert_int_equal(health, LS_POD_HEALTHY);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_HOST_SILENT, .host = 0});
  const int64_t before = pod_runs_now;
  expect_status(ls_pod_ask_health(f.pod, 0, 5 * (int64_t)SECOND, &health),
                LS_DEADLINE_EXCEEDED,
                "host 0 of TPU system 'virtual' has not reported its health "
                "within 5.000 s");
  assert_true(pod_runs_now - before == 5 * (int64_t)SECOND);
  pod_inject(f.pod, (ls_pod_fault){.kind = LS_POD_NO_HEARTBEAT, .host = 2});
  expect_status(ls_pod_ask_health(f.pod, 2, SECOND, &health), LS_UNIMPLEMENTED,
                "host 2 of TPU system 'virtual' cannot report");
  ls_pod_heal(f.pod);
  expect_ok(ls_pod_ask_health(f.pod, 2, SECOND, &health));
  expect_status(ls_pod_ask_health(f.pod, 3, SECOND, &health),
                LS_INVALID_ARGUMENT, "hosts 0 to 2");
  expect_status(ls_pod_ask_health(f.pod, 0, 0, &health), LS_INVALID_ARGUMENT,
                "at least 1");
  expect_status(ls_pod_ask_health(NULL, 0, 1, &health), LS_INVALID_ARGUMENT,
                "pod is NULL");
  expect_status(ls_pod_ask_health(f.pod, 0, 1, NULL), LS_INVALID_ARGUMENT,
                "out_health is NULL");
}

TEST(a_host_that_is_shut_down_is_gone_until_the_next_beginning) {
  LS_OWN(pod_runs, f) = pod_runs_begin_watched(2, 2);
  LS_OWN(counting, c) = counting_begin(&f, 4, true);
  ls_pod_health health = LS_POD_HEALTHY;
  expect_ok(count_once(&f, &c));
  expect_ok(ls_pod_shut_down_host(f.pod, 1));
  expect_status(ls_pod_ask_health(f.pod, 1, SECOND, &health), LS_UNAVAILABLE,
                "task:1 of TPU system 'virtual' was preempted");
  expect_status(count_once(&f, &c), LS_UNAVAILABLE, "task:1");
  expect_status(pod_runs_try(&f, LS_LIST(ls_nest_retain(c.fetch))),
                LS_UNAVAILABLE, "task:1");
  expect_ok(ls_pod_ask_health(f.pod, 0, SECOND, &health));
  ls_pod_initialize(f.pod);
  expect_ok(ls_pod_ask_health(f.pod, 1, SECOND, &health));
  expect_ok(count_once(&f, &c));
  assert_true(counted_so_far(&f, &c) == 2);
  expect_status(ls_pod_shut_down_host(f.pod, 2), LS_INVALID_ARGUMENT,
                "hosts 0 to 1");
  expect_status(ls_pod_shut_down_host(NULL, 0), LS_INVALID_ARGUMENT,
                "pod is NULL");
}

// ---- Memory that there is not ----------------------------------------------
MEMORY_TEST(launch_a_computation) {
  const ls_pod_shape shape = {.mesh = {1, 2, 1, 1}, .hosts = 1};
  LS_OWN(ls_pod, pod) = NULL;
  ls_graph *graph = NULL;
  ls_session *session = NULL;
  ls_nest outputs = ls_none(), results = ls_none(), inputs = ls_none();
  ls_status status =
      ls_pod_open(ls_runtime_current(), "virtual", "w", &shape, &pod);
  if (ls_status_is_ok(status)) {
    ls_pod_initialize(pod);
    status = ls_pod_inject(
        pod, &(ls_pod_fault){.kind = LS_POD_MEMORY_SHORT, .bytes = 1000000});
  }
  if (ls_status_is_ok(status)) status = ls_graph_create("g", &graph);
  if (ls_status_is_ok(status)) {
    LS_GRAPH_SCOPE(graph);
    inputs = LS_LIST(LS_LIST(ls_leaf(pod_number(0))),
                     LS_LIST(ls_leaf(pod_number(1))));
    status = ls_nest_status(inputs);
    if (ls_status_is_ok(status))
      status = ls_replicate(one, NULL, inputs, NULL, &outputs);
  }
  if (ls_status_is_ok(status)) status = ls_session_create(graph, &session);
  if (ls_status_is_ok(status))
    status = ls_session_run(session, outputs, NULL, 0, &results);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_nest_release(results);
  ls_session_destroy(session);
  ls_graph_destroy(graph);
  if (pod != NULL) ls_pod_shut_down(pod);
  return status;
}
