// SPDX-License-Identifier: Apache-2.0
//
// Random programs with two systems: pods of equal or of different sizes, in one
// runtime or in two, on one thread or on two; each is initialized, shut down,
// loses a host, and runs between. Whatever the other one does, each gives what
// it gives alone, byte by byte, and its failures name it. A few in each test
// run; LS_TEST_SYSTEMS=300 draws as many, from LS_TEST_SEED on.
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory/allocator.h"
#include "lockstep/infeed.h"
#include "lockstep/tpu_strategy.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/loop_case.h"

enum { FEW = 6, MOST_ACTS = 14, MOST_REPLICAS = 8 };

typedef enum run_way { FUNCTION, SESSION, REPLICATE, INFEED, NUM_WAYS } run_way;
typedef enum act_kind { RUN, INITIALIZE, SHUT_DOWN, LOSE, NUM_ACTS } act_kind;

// What is drawn of one system.
typedef struct system_plan {
  const char *pod, *job;
  run_way way;
  act_kind acts[MOST_ACTS];
  int num_acts;
} system_plan;

typedef struct pair_plan {
  uint64_t seed;
  bool two_runtimes, two_threads;
  system_plan systems[2];
} pair_plan;

// What came of an act.
typedef struct outcome {
  ls_code code;
  float value;
} outcome;

static const char *const pods[] = {"virtual:1x1",
                                   "virtual:2x1",
                                   "virtual:2x1,hosts=2",
                                   "virtual:2x2",
                                   "virtual:4x1,cores=1,hosts=4",
                                   "local"};

static pair_plan plan_of(uint64_t seed) {
  loop_random random = {seed * 7919 + 1};
  pair_plan p = {.seed = seed};
  p.two_runtimes = loop_random_between(&random, 0, 2) == 0;
  p.two_threads = loop_random_between(&random, 0, 1) == 0;
  for (int k = 0; k < 2; ++k) {
    system_plan *s = &p.systems[k];
    const int64_t last = (int64_t)LS_COUNT_OF(pods) - 1;
    do
      s->pod = pods[loop_random_between(&random, 0, last)];
    while (k == 1 && strcmp(s->pod, "local") == 0 &&
           strcmp(p.systems[0].pod, "local") == 0);
    s->job = k == 0 ? "red" : "blue";
    s->way = (run_way)loop_random_between(&random, 0, NUM_WAYS - 1);
    s->num_acts = (int)loop_random_between(&random, 6, MOST_ACTS);
    for (int i = 0; i < s->num_acts; ++i) {
      // Half of them run, and most of what goes wrong is mended soon.
      const int64_t drawn = loop_random_between(&random, 0, 2 * NUM_ACTS + 1);
      s->acts[i] = drawn < NUM_ACTS       ? (act_kind)drawn
                   : drawn < 2 * NUM_ACTS ? RUN
                                          : INITIALIZE;
    }
  }
  return p;
}

// ---- One system ------------------------------------------------------------
typedef struct player {
  const system_plan *plan;
  const char *other_job;  // NULL: it is alone.
  ls_runtime *runtime;
  ls_tpu_resolver *resolver;
  ls_strategy *strategy;
  ls_variable *variable;
  ls_function *function;
  ls_graph *graph;
  ls_session *session;
  ls_tensor built;
  int next, runs;
  outcome outcomes[MOST_ACTS];
  char wrong[400];  // A failure that names the wrong system; "": none.
} player;

// Adds something of each replica to the variable.
static ls_nest add_up(ls_nest args, void *user) {
  const player *p = user;
  (void)args;
  ls_tensor x = ls_mul_scalar(
      ls_add_scalar(ls_convert(ls_replica_id(), LS_DTYPE_F32), 1), 0.1);
  if (p->plan->way == INFEED)
    x = ls_mul(x, ls_infeed_dequeue(LS_DTYPE_F32, LS_SCALAR));
  return ls_leaf(
      ls_variable_assign_add(p->variable, ls_all_reduce(LS_REDUCE_SUM, x)));
}

static ls_nest first_of(ls_nest results) {
  return ls_distributed_count(results) > 0
             ? ls_distributed_component(results, 0)
             : results;
}

static ls_nest add_up_here(ls_nest args, void *user) {
  const ls_nest made = add_up(args, user);
  const ls_nest list = LS_LIST(made);
  return list;
}

static void build_replicated(player *p) {
  ls_topology *topology = NULL;
  ls_device_assignment *assignment = NULL;
  ls_nest outputs = ls_none();
  const int32_t replicas = ls_strategy_num_replicas(p->strategy);
  expect_ok(ls_tpu_initialize(p->resolver, &topology));
  expect_ok(ls_device_assignment_build(
      topology,
      &(ls_device_assignment_options){.num_replicas = LS_SOME(replicas)},
      &assignment));
  const ls_nest inputs = computation_inputs((size_t)replicas);
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                      .shape = LS_SCALAR,
                                                      .name = p->plan->job},
                               &p->variable));
  expect_ok(ls_replicate(add_up_here, p, inputs,
                         &(ls_replicate_options){.assignment = assignment},
                         &outputs));
  p->built = ls_nest_tensor(ls_nest_item(outputs, 0), 0);
  ls_nest_release(inputs);
  ls_nest_release(outputs);
  ls_device_assignment_release(assignment);
  ls_topology_release(topology);
}

static void make_variable(player *p) {
  LS_STRATEGY_SCOPE(p->strategy);
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_F32,
                                                      .shape = LS_SCALAR,
                                                      .name = p->plan->job},
                               &p->variable));
}

static void build(player *p) {
  ls_nest results = ls_none();
  if (p->plan->way != SESSION && p->plan->way != REPLICATE) {
    make_variable(p);
    p->function = function_of(add_up, p);
    return;
  }
  expect_ok(ls_graph_create("g", &p->graph));
  {
    LS_GRAPH_SCOPE(p->graph);
    if (p->plan->way == REPLICATE) {
      build_replicated(p);
    } else {
      make_variable(p);
      expect_ok(ls_strategy_run(p->strategy, ls_plain(add_up, p), ls_none(),
                                &results));
      p->built = ls_nest_tensor(first_of(results), 0);
    }
  }
  ls_nest_release(results);
  expect_ok(ls_session_create(p->graph, &p->session));
  results = ls_none();
  expect_ok(ls_session_run(p->session,
                           ls_nest_op(ls_variable_initializer(p->variable)),
                           NULL, 0, &results));
  ls_nest_release(results);
}

static player player_begin(const system_plan *plan, ls_runtime *runtime) {
  player p = {.plan = plan, .runtime = runtime};
  ls_runtime *before = ls_runtime_make_current(runtime);
  expect_ok(ls_tpu_resolver_connect(
      &(ls_tpu_resolver_options){.name = plan->pod, .job = plan->job},
      &p.resolver));
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = p.resolver},
                                   &p.strategy));
  ls_runtime_make_current(before);
  return p;
}

static void player_end(player *p) {
  ls_runtime *before = ls_runtime_make_current(p->runtime);
  ls_session_destroy(p->session);
  ls_function_release(p->function);
  ls_graph_destroy(p->graph);
  ls_variable_release(p->variable);
  ls_strategy_release(p->strategy);
  ls_tpu_resolver_release(p->resolver);
  ls_runtime_make_current(before);
}

// ---- Acts ------------------------------------------------------------------
static ls_status feed(const player *p) {
  const int32_t count = ls_strategy_num_replicas(p->strategy);
  const ls_nest number = ls_nest_zeros(LS_DTYPE_F32, LS_SCALAR);
  ls_array_set_f64(ls_nest_as_array(number), 0, p->runs + 0.3);
  const ls_nest tuple = LS_LIST(number);
  ls_status status = ls_ok();
  for (int32_t r = 0; r < count && ls_status_is_ok(status); ++r) {
    ls_device_name device;
    status = ls_tpu_strategy_device(p->strategy, r, 0, &device);
    if (ls_status_is_ok(status)) status = ls_infeed_put(device.text, tuple);
  }
  ls_nest_release(tuple);
  return status;
}

static ls_status run(player *p, float *out_value) {
  ls_nest results = ls_none();
  ls_status status = ls_ok();
  ++p->runs;
  if (p->plan->way == INFEED) status = feed(p);
  if (ls_status_is_ok(status))
    status =
        p->session != NULL
            ? ls_session_run(p->session, ls_leaf(p->built), NULL, 0, &results)
            : ls_strategy_run(p->strategy, ls_traced(p->function), ls_none(),
                              &results);
  if (ls_status_is_ok(status))
    *out_value = (float)ls_nest_number(first_of(results));
  ls_nest_release(results);
  return status;
}

static ls_status lose(const player *p) {
  ls_pod *pod = NULL;
  ls_status status = ls_tpu_pod(p->resolver, &pod);
  if (ls_status_is_ok(status))
    status = ls_pod_inject(
        pod, &(ls_pod_fault){.kind = p->runs % 2 == 0 ? LS_POD_HOST_PREEMPTED
                                                      : LS_POD_CORE_LOST});
  ls_pod_release(pod);
  return status;
}

static bool is_local(const player *p) {
  return strcmp(p->plan->pod, "local") == 0;
}

// A failure is its own system's.
static void check_names(player *p, ls_status status) {
  const char *text = ls_status_message(status);
  const char *own = is_local(p) ? "local" : p->plan->job;
  if (strstr(text, own) != NULL &&
      (p->other_job == NULL || strstr(text, p->other_job) == NULL))
    return;
  snprintf(p->wrong, sizeof(p->wrong), "%s: %s", p->plan->job, text);
}

static void act(player *p) {
  outcome *out = &p->outcomes[p->next];
  ls_status status = ls_ok();
  switch (p->plan->acts[p->next++]) {
  case RUN:
    status = run(p, &out->value);
    break;
  case INITIALIZE:
    status = ls_tpu_initialize(p->resolver, NULL);
    break;
  case SHUT_DOWN:
    status = ls_tpu_shutdown(p->resolver);
    break;
  default:
    status = lose(p);
    break;
  }
  out->code = ls_status_code(status);
  if (!ls_status_is_ok(status)) check_names(p, status);
  ls_status_free(status);
}

static void *act_all(void *user) {
  player *p = user;
  ls_runtime *before = ls_runtime_make_current(p->runtime);
  while (p->next < p->plan->num_acts)
    act(p);
  ls_runtime_make_current(before);
  return NULL;
}

// ---- Alone and together ----------------------------------------------------
static void play_alone(const system_plan *plan, player *out) {
  counted c = counted_begin(1);
  *out = player_begin(plan, c.runtime);
  build(out);
  act_all(out);
  player_end(out);
  counted_end(&c);
}

static void interleave(const pair_plan *p, player *players) {
  loop_random random = {p->seed * 31 + 7};
  for (;;) {
    int k = (int)loop_random_between(&random, 0, 1);
    if (players[k].next == players[k].plan->num_acts) k = 1 - k;
    if (players[k].next == players[k].plan->num_acts) return;
    ls_runtime *before = ls_runtime_make_current(players[k].runtime);
    act(&players[k]);
    ls_runtime_make_current(before);
  }
}

static void play_together(const pair_plan *p, player *players) {
  counted worlds[2];
  worlds[0] = counted_begin(p->two_threads ? 0 : 1);
  if (p->two_runtimes) worlds[1] = counted_begin(1);
  for (int k = 0; k < 2; ++k)
    players[k] =
        player_begin(&p->systems[k], worlds[p->two_runtimes ? k : 0].runtime);
  for (int k = 0; k < 2; ++k) {
    players[k].other_job = p->systems[1 - k].job;
    ls_runtime *before = ls_runtime_make_current(players[k].runtime);
    build(&players[k]);
    ls_runtime_make_current(before);
  }
  if (p->two_threads) {
    pthread_t threads[2];
    for (int k = 0; k < 2; ++k)
      assert_int_equal(pthread_create(&threads[k], NULL, act_all, &players[k]),
                       0);
    for (int k = 0; k < 2; ++k)
      assert_int_equal(pthread_join(threads[k], NULL), 0);
  } else {
    interleave(p, players);
  }
  for (int k = 0; k < 2; ++k)
    player_end(&players[k]);
  if (p->two_runtimes) counted_end(&worlds[1]);
  counted_end(&worlds[0]);
}

static void expect_equal(const pair_plan *p, const player *alone,
                         const player *together) {
  static const char *const ways[] = {"function", "session", "replicate",
                                     "infeed"};
  static const char *const acts[] = {"run", "initialize", "shut down", "lose"};
  if (together->wrong[0] != '\0')
    fail_msg("seed %" PRIu64 ": a failure names another system: %s", p->seed,
             together->wrong);
  for (int i = 0; i < alone->plan->num_acts; ++i) {
    const outcome *a = &alone->outcomes[i], *b = &together->outcomes[i];
    if (a->code == b->code && memcmp(&a->value, &b->value, sizeof(float)) == 0)
      continue;
    fail_msg("seed %" PRIu64 ": '%s' of job %s by %s, %d runtimes, %d threads, "
             "act %d (%s): alone code %d and %.9g, beside '%s' %d and %.9g",
             p->seed, alone->plan->pod, alone->plan->job,
             ways[alone->plan->way], 1 + p->two_runtimes, 1 + p->two_threads, i,
             acts[alone->plan->acts[i]], (int)a->code, (double)a->value,
             p->systems[alone->plan == &p->systems[0]].pod, (int)b->code,
             (double)b->value);
  }
}

static int number_of(const char *name, int otherwise) {
  const char *text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

TEST(each_system_does_what_it_does_alone) {
  const uint64_t first = loop_random_seed();
  const int count = number_of("LS_TEST_SYSTEMS", FEW);
  int runs = 0, failed = 0;
  for (int i = 0; i < count; ++i) {
    const pair_plan p = plan_of(first + (uint64_t)i);
    player alone[2], together[2];
    for (int k = 0; k < 2; ++k)
      play_alone(&p.systems[k], &alone[k]);
    play_together(&p, together);
    for (int k = 0; k < 2; ++k) {
      expect_equal(&p, &alone[k], &together[k]);
      runs += alone[k].runs;
      for (int a = 0; a < alone[k].next; ++a)
        failed += alone[k].outcomes[a].code != LS_OK;
    }
  }
  if (getenv("LS_TEST_SYSTEMS") != NULL)
    printf("%d programs, %d runs, %d refused\n", count, runs, failed);
}
