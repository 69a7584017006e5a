// SPDX-License-Identifier: Apache-2.0
//
// Several systems in one runtime, and systems that go and come back: what was
// made for one runs on it and on no other, whenever it was compiled.
#include <stdio.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/eager.h"
#include "lockstep/infeed.h"
#include "lockstep/tpu_strategy.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/fault.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "tpu/own.h"

// ---- Systems ---------------------------------------------------------------
typedef struct system_facts {
  const char *name, *job, *local;
} system_facts;

static ls_tpu_resolver *resolver_of(system_facts facts) {
  ls_tpu_resolver *resolver = NULL;
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){
          .name = facts.name, .job = facts.job, .local = facts.local},
      &resolver));
  return resolver;
}

static ls_strategy *strategy_on(ls_tpu_resolver *resolver) {
  ls_strategy *strategy = NULL;
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolver},
                                   &strategy));
  return strategy;
}

static void inject(const ls_tpu_resolver *resolver, ls_pod_fault_kind kind) {
  LS_OWN(ls_pod, pod) = NULL;
  expect_ok(ls_tpu_pod(resolver, &pod));
  expect_ok(ls_pod_inject(pod, &(ls_pod_fault){.kind = kind}));
}

// ---- Ways to run -----------------------------------------------------------
static ls_nest sum_of_ids(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(
      ls_all_reduce(LS_REDUCE_SUM, ls_convert(ls_replica_id(), LS_DTYPE_F32)));
}

typedef enum run_way {
  KNOWN_FUNCTION,  // It was compiled before.
  NEW_FUNCTION,
  KNOWN_SESSION,
  NEW_SESSION,
  ON_A_TAPE,
  NUM_WAYS,
} run_way;
static const char *const way_names[] = {"known function", "new function",
                                        "known session", "new session", "tape"};

// A strategy, and what was built for it.
typedef struct runner {
  ls_strategy *strategy;
  ls_function *function;
  ls_graph *graph;
  ls_session *session;
  ls_tensor built;
} runner;

static ls_nest first_of(ls_nest results) {
  return ls_distributed_count(results) > 0
             ? ls_distributed_component(results, 0)
             : results;
}

static runner runner_begin(ls_tpu_resolver *resolver) {
  runner r = {.strategy = strategy_on(resolver),
              .function = function_of(sum_of_ids, NULL)};
  LS_OWN(ls_nest, results) = ls_none();
  expect_ok(ls_graph_create("g", &r.graph));
  {
    LS_GRAPH_SCOPE(r.graph);
    expect_ok(ls_strategy_run(r.strategy, ls_plain(sum_of_ids, NULL), ls_none(),
                              &results));
    r.built = ls_nest_tensor(first_of(results), 0);
  }
  expect_ok(ls_session_create(r.graph, &r.session));
  return r;
}

static void runner_end(runner *r) {
  ls_session_destroy(r->session);
  ls_graph_destroy(r->graph);
  ls_function_release(r->function);
  ls_strategy_release(r->strategy);
}
LS_OWNED_STRUCT(runner, runner_end)

static ls_status call_function(const runner *r, ls_function *function,
                               double *out_sum) {
  LS_OWN(ls_nest, results) = ls_none();
  const ls_status status =
      ls_strategy_run(r->strategy, ls_traced(function), ls_none(), &results);
  if (ls_status_is_ok(status)) *out_sum = ls_nest_number(first_of(results));
  return status;
}

static ls_status run_session(const runner *r, ls_session *session,
                             double *out_sum) {
  LS_OWN(ls_nest, result) = ls_none();
  const ls_status status =
      ls_session_run(session, ls_leaf(r->built), NULL, 0, &result);
  if (ls_status_is_ok(status)) *out_sum = ls_nest_number(result);
  return status;
}

static ls_status run(const runner *r, run_way way, double *out_sum) {
  ls_status status = ls_ok();
  *out_sum = -1;
  if (way == KNOWN_FUNCTION) return call_function(r, r->function, out_sum);
  if (way == KNOWN_SESSION) return run_session(r, r->session, out_sum);
  if (way == NEW_SESSION) {
    LS_OWN(ls_session, session) = session_of(r->graph);
    status = run_session(r, session, out_sum);
    return status;
  }
  ls_tape *tape = NULL;
  if (way == ON_A_TAPE) expect_ok(ls_tape_begin(&tape));
  ls_function *function = function_of(sum_of_ids, NULL);
  status = call_function(r, function, out_sum);
  ls_function_release(function);
  if (tape != NULL) {
    expect_ok(ls_tape_end(tape));
    ls_tape_release(tape);
  }
  return status;
}

static void expect_runs(const runner *r) {
  const int replicas = ls_strategy_num_replicas(r->strategy);
  for (int w = 0; w < NUM_WAYS; ++w) {
    double sum = 0;
    const ls_status status = run(r, (run_way)w, &sum);
    if (!ls_status_is_ok(status)) print_message("%s:\n", way_names[w]);
    expect_ok(status);
    assert_true(sum == replicas * (replicas - 1) / 2);
  }
}

static void expect_refused(const runner *r, const char *says) {
  for (int w = 0; w < NUM_WAYS; ++w) {
    double sum = 0;
    const ls_status status = run(r, (run_way)w, &sum);
    if (ls_status_code(status) != LS_FAILED_PRECONDITION)
      print_message("%s:\n", way_names[w]);
    expect_status(status, LS_FAILED_PRECONDITION, says);
  }
}

// ---- One that goes and comes back ------------------------------------------
TEST(what_was_made_for_a_system_waits_until_it_is_back) {
  LS_SPEC("T28");
  static const system_facts rows[] = {
      {.name = "virtual:2x2"},
      {.name = "virtual:2x1,hosts=2", .job = "pod"},
      {.name = "local"}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    LS_OWN(counted, c) = counted_begin(1);
    char says[120];
    snprintf(says, sizeof(says), "the TPU system '%s' is not initialized",
             rows[i].name);
    LS_OWN(ls_tpu_resolver, resolver) = resolver_of(rows[i]);
    expect_ok(ls_tpu_initialize(resolver, NULL));
    LS_OWN(runner, r) = runner_begin(resolver);
    expect_runs(&r);
    expect_ok(ls_tpu_shutdown(resolver));
    expect_refused(&r, says);
    // Connected alone it is not there.
    expect_ok(ls_tpu_connect(resolver));
    expect_refused(&r, says);
    expect_ok(ls_tpu_initialize(resolver, NULL));
    expect_runs(&r);
    expect_ok(ls_tpu_initialize(resolver, NULL));
    expect_runs(&r);
    // Its doors are those of now.
    inject(resolver, LS_POD_CORE_LOST);
    double sum = 0;
    for (int w = 0; w < NUM_WAYS; ++w)
      expect_status(run(&r, (run_way)w, &sum), LS_UNAVAILABLE, rows[i].name);
  }
}

// This machine's own computes without being initialized, until it is shut down.
TEST(the_local_system_computes_before_it_is_initialized) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, resolver) =
      resolver_of((system_facts){.name = "local"});
  LS_OWN(runner, r) = runner_begin(resolver);
  expect_runs(&r);
  expect_ok(ls_tpu_initialize(resolver, NULL));
  expect_runs(&r);
  expect_ok(ls_tpu_shutdown(resolver));
  expect_refused(&r, "the TPU system 'local' is not initialized");
}

TEST(another_size_under_the_name_is_another_system) {
  LS_OWN(counted, c) = counted_begin(1);
  static const char *const others[] = {"2x1", "2x2,hosts=2", "4x2"};
  LS_OWN(ls_tpu_resolver, first) =
      resolver_of((system_facts){.name = "local", .local = "2x2"});
  expect_ok(ls_tpu_initialize(first, NULL));
  LS_OWN(runner, r) = runner_begin(first);
  expect_runs(&r);
  for (size_t i = 0; i < LS_COUNT_OF(others); ++i) {
    expect_ok(ls_tpu_shutdown(first));
    ls_tpu_resolver *other =
        resolver_of((system_facts){.name = "local", .local = others[i]});
    expect_ok(ls_tpu_initialize(other, NULL));
    expect_refused(&r, "was built for TPU system 'local' when it was a mesh of "
                       "[2, 2, 1, 2] on 1 hosts; now");
    runner own = runner_begin(other);
    expect_runs(&own);
    runner_end(&own);
    expect_ok(ls_tpu_shutdown(other));
    ls_tpu_resolver_release(other);
    expect_ok(ls_tpu_initialize(first, NULL));
    expect_runs(&r);
  }
}

// ---- Several ---------------------------------------------------------------
TEST(a_job_has_one_system_at_a_time) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, first) =
      resolver_of((system_facts){.name = "virtual:2x2"});
  LS_OWN(ls_tpu_resolver, second) =
      resolver_of((system_facts){.name = "virtual:1x1"});
  expect_ok(ls_tpu_initialize(first, NULL));
  LS_OWN(runner, r) = runner_begin(first);
  // It can be asked what it has.
  LS_OWN(runner, other) = runner_begin(second);
  expect_status(ls_tpu_initialize(second, NULL), LS_FAILED_PRECONDITION,
                "TPU system 'virtual:1x1' cannot be initialized: its job "
                "worker belongs to TPU system 'virtual:2x2'");
  expect_runs(&r);
  expect_refused(&other, "the TPU system 'virtual:1x1' is not initialized");
  // By an op, which knows the job alone, it is the one that is initialized.
  computation a;
  computation_open(&a);
  expect_ok(computation_run(&a, ls_leaf(ls_tpu_initialize_op("worker"))));
  computation_close(&a);
  expect_runs(&r);
  expect_ok(ls_tpu_shutdown(first));
  expect_ok(ls_tpu_initialize(second, NULL));
  expect_runs(&other);
  expect_refused(&r, "the TPU system 'virtual:2x2' is not initialized, in job "
                     "worker");
  expect_ok(ls_tpu_shutdown(second));
  expect_ok(ls_tpu_initialize(first, NULL));
  expect_runs(&r);
  expect_refused(&other, "the TPU system 'virtual:1x1' is not initialized");
}

// Of other sizes and of one, whichever was initialized last.
TEST(each_strategy_runs_on_its_own_system) {
  static const char *const pairs[][2] = {{"virtual:2x2", "virtual:1x1"},
                                         {"virtual:1x1", "virtual:2x2"},
                                         {"virtual:2x1", "virtual:2x1"},
                                         {"virtual:2x1", "local"},
                                         {"local", "virtual:2x2"}};
  for (size_t i = 0; i < LS_COUNT_OF(pairs); ++i) {
    LS_OWN(counted, c) = counted_begin(1);
    ls_tpu_resolver *resolvers[2];
    runner runners[2];
    static const char *const jobs[] = {"red", "blue"};
    for (int k = 0; k < 2; ++k) {
      resolvers[k] =
          resolver_of((system_facts){.name = pairs[i][k], .job = jobs[k]});
      expect_ok(ls_tpu_initialize(resolvers[k], NULL));
      runners[k] = runner_begin(resolvers[k]);
    }
    for (int k = 0; k < 2; ++k)
      expect_runs(&runners[k]);
    for (int lost = 0; lost < 2; ++lost) {
      double sum = 0;
      inject(resolvers[lost], LS_POD_HOST_PREEMPTED);
      for (int w = 0; w < NUM_WAYS; ++w)
        expect_status(run(&runners[lost], (run_way)w, &sum), LS_UNAVAILABLE,
                      pairs[i][lost]);
      expect_runs(&runners[1 - lost]);
      expect_ok(ls_tpu_initialize(resolvers[lost], NULL));
      expect_runs(&runners[lost]);
      expect_ok(ls_tpu_shutdown(resolvers[lost]));
      expect_refused(&runners[lost], "is not initialized");
      expect_runs(&runners[1 - lost]);
      expect_ok(ls_tpu_initialize(resolvers[lost], NULL));
    }
    for (int k = 0; k < 2; ++k) {
      runner_end(&runners[k]);
      ls_tpu_resolver_release(resolvers[k]);
    }
  }
}

TEST(an_assignment_is_of_the_strategys_system) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, red) =
      resolver_of((system_facts){.name = "virtual:2x1", .job = "red"});
  LS_OWN(ls_tpu_resolver, blue) =
      resolver_of((system_facts){.name = "virtual:2x1", .job = "blue"});
  LS_OWN(ls_topology, topology) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  ls_strategy *strategy = NULL;
  expect_ok(ls_tpu_initialize(red, &topology));
  expect_ok(ls_tpu_initialize(blue, NULL));
  expect_ok(ls_device_assignment_build(
      topology, &(ls_device_assignment_options){.num_replicas = LS_SOME(4)},
      &assignment));
  expect_status(
      ls_tpu_strategy_create(
          &(ls_tpu_options){.resolver = blue, .assignment = assignment},
          &strategy),
      LS_INVALID_ARGUMENT,
      "a device assignment of TPU system 'virtual:2x1' of job red, "
      "and a resolver of 'virtual:2x1' of job blue");
  expect_ok(ls_tpu_strategy_create(
      &(ls_tpu_options){.resolver = red, .assignment = assignment}, &strategy));
  ls_strategy_release(strategy);
  // A computation without a strategy, too; the other system is gone meanwhile.
  LS_OWN_BEGUN(computation, a, computation_open);
  const ls_nest inputs = computation_inputs(4);
  expect_ok(ls_replicate(sum_of_ids, NULL, inputs,
                         &(ls_replicate_options){.assignment = assignment},
                         &a.outputs));
  ls_nest_release(inputs);
  assert_string_equal(
      attr_text(op_named(a.graph, "tpu_replicate_metadata"), "_tpu_job"),
      "red");
}

// Where a topology was read from bytes they do not say the system.
TEST(an_assignment_is_of_the_only_system_with_its_topology) {
  LS_OWN(counted, c) = counted_begin(1);
  static const system_facts facts[] = {{.name = "virtual:1x1", .job = "red"},
                                       {.name = "virtual:2x1", .job = "blue"},
                                       {.name = "virtual:2x1", .job = "green"}};
  ls_tpu_resolver *resolvers[3];
  for (int i = 0; i < 3; ++i)
    resolvers[i] = resolver_of(facts[i]);
  LS_OWN(ls_topology, known) = NULL;
  LS_OWN(ls_topology, parsed) = NULL;
  LS_OWN(ls_device_assignment, assignment) = NULL;
  expect_ok(ls_tpu_initialize(resolvers[0], NULL));
  expect_ok(ls_tpu_initialize(resolvers[1], &known));
  size_t size = 0;
  const void *bytes = ls_topology_serialized(known, &size);
  expect_ok(ls_topology_parse(bytes, size, &parsed));
  expect_ok(ls_device_assignment_build(
      parsed, &(ls_device_assignment_options){.num_replicas = LS_SOME(4)},
      &assignment));
  computation a;
  computation_open(&a);
  const ls_nest inputs = computation_inputs(4);
  const ls_replicate_options options = {.assignment = assignment};
  expect_ok(ls_replicate(sum_of_ids, NULL, inputs, &options, &a.outputs));
  assert_string_equal(
      attr_text(op_named(a.graph, "tpu_replicate_metadata"), "_tpu_job"),
      "blue");
  expect_ok(ls_tpu_initialize(resolvers[2], NULL));
  ls_nest outputs = ls_none();
  expect_status(ls_replicate(sum_of_ids, NULL, inputs, &options, &outputs),
                LS_FAILED_PRECONDITION,
                "may be of TPU system 'virtual:2x1' of job blue or of "
                "'virtual:2x1' of job green, which have one topology");
  ls_nest_release(inputs);
  computation_close(&a);
  for (int i = 0; i < 3; ++i)
    ls_tpu_resolver_release(resolvers[i]);
}

// ---- What says nothing -----------------------------------------------------
TEST(what_may_be_for_either_is_refused) {
  LS_OWN(counted, c) = counted_begin(1);
  LS_OWN(ls_tpu_resolver, red) =
      resolver_of((system_facts){.name = "virtual:1x1", .job = "red"});
  LS_OWN(ls_tpu_resolver, blue) =
      resolver_of((system_facts){.name = "virtual:2x1", .job = "blue"});
  expect_ok(ls_tpu_initialize(red, NULL));
  LS_OWN_BEGUN(computation, a, computation_open);
  LS_OWN(ls_nest, inputs) = computation_inputs(2);
  // While there is one system it is that one's, and stays so.
  expect_ok(ls_replicate(sum_of_ids, NULL, inputs, NULL, &a.outputs));
  const ls_op early = ls_infeed_enqueue(f32_of(3), LS_SCALAR, 0);
  expect_ok(ls_tpu_initialize(blue, NULL));
  assert_true(computation_output(&a, 0, 0) == 1);
  expect_ok(computation_run(&a, ls_nest_op(early)));
  // Then it has to be said.
  ls_nest outputs = ls_none();
  expect_status(ls_replicate(sum_of_ids, NULL, inputs, NULL, &outputs),
                LS_FAILED_PRECONDITION,
                "a replicated computation may be for TPU system 'virtual:1x1' "
                "of job red or for 'virtual:2x1' of job blue");
  (void)ls_infeed_enqueue(f32_of(3), LS_SCALAR, 0);
  expect_status(
      ls_graph_take_error(a.graph), LS_FAILED_PRECONDITION,
      "infeed_enqueue may be for TPU system 'virtual:1x1' of job red");
  {
    LS_DEVICE_SCOPE("/job:red");
    expect_ok(ls_replicate(sum_of_ids, NULL, inputs, NULL, &outputs));
    ls_nest_release(outputs);
  }
  ls_tensor taken;
  {
    LS_DEVICE_SCOPE("/job:red/device:TPU:0");
    taken = ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR);
  }
  assert_true(computation_fetch(&a, taken) == 3);
  // It does not go over to the other system.
  expect_ok(ls_tpu_shutdown(red));
  expect_status(
      computation_run(&a, ls_nest_op(early)), LS_FAILED_PRECONDITION,
      "infeed_enqueue: the TPU system 'virtual:1x1' of job red is not "
      "initialized");
  expect_status(computation_run(&a, a.outputs), LS_FAILED_PRECONDITION,
                "the TPU system 'virtual:1x1' is not initialized, in job red");
  expect_ok(ls_tpu_initialize(red, NULL));
  expect_ok(computation_run(&a, ls_nest_op(early)));
  assert_true(computation_fetch(&a, taken) == 3);
}

// ---- Feeds -----------------------------------------------------------------
static ls_nest dequeue_all(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x = ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR);
  return ls_leaf(ls_all_reduce(LS_REDUCE_SUM, x));
}

static ls_nest zero(void) {
  return ls_nest_array(array_of(LS_DTYPE_F32, LS_SCALAR, (const double[]){0}));
}

// What a strategy's computation takes comes from its own cores' infeeds.
TEST(each_strategy_is_fed_by_its_own_infeeds) {
  LS_OWN(counted, c) = counted_begin(1);
  static const char *const jobs[] = {"red", "blue"};
  ls_tpu_resolver *resolvers[2];
  ls_strategy *strategies[2];
  LS_OWN(ls_function, f) = function_of(dequeue_all, NULL);
  for (int k = 0; k < 2; ++k) {
    resolvers[k] = resolver_of(
        (system_facts){.name = "virtual:1x1,cores=2", .job = jobs[k]});
    expect_ok(ls_tpu_initialize(resolvers[k], NULL));
    strategies[k] = strategy_on(resolvers[k]);
  }
  for (int round = 0; round < 3; ++round) {
    for (int k = 0; k < 2; ++k)
      for (int r = 0; r < 2; ++r) {
        char device[60];
        snprintf(device, sizeof(device), "/job:%s/task:0/device:TPU:%d",
                 jobs[k], r);
        const ls_nest number = zero();
        ls_array_set_f64(ls_nest_as_array(number), 0, 10 * (k + 1) + round);
        LS_OWN(ls_nest, tuple) = LS_LIST(number);
        expect_ok(ls_infeed_put(device, tuple));
      }
    for (int k = 0; k < 2; ++k) {
      LS_OWN(ls_nest, results) =
          strategy_results(strategies[k], ls_traced(f), ls_none());
      assert_true(ls_nest_number(first_of(results)) ==
                  2 * (10 * (k + 1) + round));
    }
  }
  for (int k = 0; k < 2; ++k) {
    ls_strategy_release(strategies[k]);
    ls_tpu_resolver_release(resolvers[k]);
  }
}

// ---- Memory that there is not ----------------------------------------------
// Again where the request that fails is one of its own.
static void shut_down(ls_tpu_resolver *resolver) {
  if (resolver == NULL) return;
  LS_OWN(ls_status, status) = ls_tpu_shutdown(resolver);
  if (!ls_status_is_ok(status)) ls_status_free(ls_tpu_shutdown(resolver));
  ls_tpu_resolver_release(resolver);
}

MEMORY_TEST(use_two_systems) {
  static const char *const jobs[] = {"red", "blue"};
  ls_tpu_resolver *resolvers[2] = {NULL, NULL};
  ls_strategy *strategy = NULL;
  ls_function *f = NULL;
  LS_OWN(ls_nest, results) = ls_none();
  ls_status status = ls_ok();
  for (int k = 0; k < 2 && ls_status_is_ok(status); ++k) {
    status = ls_tpu_resolver_create(
        &(ls_tpu_resolver_options){.name = "virtual:1x1", .job = jobs[k]},
        &resolvers[k]);
    if (ls_status_is_ok(status)) status = ls_tpu_initialize(resolvers[k], NULL);
  }
  if (ls_status_is_ok(status))
    status = ls_tpu_strategy_create(&(ls_tpu_options){.resolver = resolvers[0]},
                                    &strategy);
  if (ls_status_is_ok(status))
    status = ls_function_create(&(ls_function_options){.call = sum_of_ids}, &f);
  for (int i = 0; i < 2 && ls_status_is_ok(status); ++i) {
    status = ls_strategy_run(strategy, ls_traced(f), ls_none(), &results);
    if (ls_status_is_ok(status)) status = ls_tpu_shutdown(resolvers[0]);
    if (ls_status_is_ok(status)) status = ls_tpu_initialize(resolvers[0], NULL);
  }
  ls_function_release(f);
  ls_strategy_release(strategy);
  for (int k = 0; k < 2; ++k)
    shut_down(resolvers[k]);
  return status;
}
