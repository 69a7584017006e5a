// SPDX-License-Identifier: Apache-2.0
//
// Programs for a system that was initialized again do not stay, and neither do
// those that tell how a compilation failed.
#include "lockstep/tpu_strategy.h"
#include "support/computation.h"
#include "support/counted.h"
#include "support/function.h"
#include "support/values.h"
#include "tpu/own.h"

typedef struct one_core {
  counted memory;
  ls_tpu_resolver *resolver;
} one_core;

static void open_system(one_core *s) {
  s->memory = counted_begin(1);
  expect_ok(ls_tpu_resolver_create(
      &(ls_tpu_resolver_options){.name = "virtual:1x1,cores=1",
                                 .core_bytes = 100000},
      &s->resolver));
  expect_ok(ls_tpu_initialize(s->resolver, NULL));
}

static void close_system(one_core *s) {
  expect_ok(ls_tpu_shutdown(s->resolver));
  ls_tpu_resolver_release(s->resolver);
  counted_end(&s->memory);
}
LS_OWNED_STRUCT(one_core, close_system)

// Does the work some times, and then as often again without more memory.
static void expect_no_growth(const one_core *s, void (*work)(void *user),
                             void *user) {
  enum { TIMES = 5 };
  uint64_t before = 0;
  for (int i = 0; i < 2 * TIMES; ++i) {
    if (i == TIMES) before = counted_now(&s->memory).live_bytes;
    work(user);
  }
  assert_in_range(counted_now(&s->memory).live_bytes, 0, before + 4096);
}

// ---- Functions -------------------------------------------------------------
static ls_nest doubled(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_TUPLE(ls_leaf(ls_add(x, x)));
}

typedef struct call {
  one_core *system;
  ls_strategy *strategy;
  ls_function *function;
  ls_nest args, results;
} call;

static void initialize_and_call(void *user) {
  call *c = user;
  expect_ok(ls_tpu_initialize(c->system->resolver, NULL));
  expect_ok(ls_strategy_run(c->strategy, ls_traced(c->function), c->args,
                            &c->results));
}

TEST(a_trace_goes_when_its_system_is_initialized_again) {
  LS_OWN_BEGUN(one_core, s, open_system);
  call c = {.system = &s, .function = function_of(doubled, NULL)};
  expect_ok(ls_tpu_strategy_create(&(ls_tpu_options){.resolver = s.resolver},
                                   &c.strategy));
  c.args = LS_TUPLE(vector_nest(2, (const float[]){1, 2}));
  expect_no_growth(&s, initialize_and_call, &c);
  ls_nest_release(c.results);
  ls_nest_release(c.args);
  ls_function_release(c.function);
  ls_strategy_release(c.strategy);
}

// ---- Sessions --------------------------------------------------------------
static ls_nest too_large(ls_nest args, void *user) {
  (void)args, (void)user;
  const ls_tensor x = ls_fill(LS_DTYPE_F32, LS_SHAPE(2000, 2000), 1);
  return ls_leaf(ls_reduce_sum(ls_matmul(x, x), LS_ALL_AXES));
}

static ls_nest small(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_F32, 1));
}

typedef struct run {
  one_core *system;
  ls_session *session;
  ls_nest fetches, results;
  bool initializes;
} run;

static void fetch(void *user) {
  run *r = user;
  if (r->initializes) expect_ok(ls_tpu_initialize(r->system->resolver, NULL));
  expect_ok(ls_session_run(r->session, r->fetches, NULL, 0, &r->results));
}

TEST(plans_go_that_no_run_can_use_again) {
  LS_OWN_BEGUN(one_core, s, open_system);
  LS_OWN(ls_graph, graph) = graph_named("computations");
  LS_OWN(ls_nest, large) = ls_none();
  LS_OWN(ls_nest, outputs) = ls_none();
  ls_tensor failed = ls_failed_tensor(), told = ls_failed_tensor();
  {
    LS_GRAPH_SCOPE(graph);
    expect_ok(ls_split_compile_and_replicate(too_large, NULL, ls_none(), NULL,
                                             &failed, &large));
    expect_ok(ls_split_compile_and_replicate(small, NULL, ls_none(), NULL,
                                             &told, &outputs));
  }
  LS_OWN(ls_session, session) = session_of(graph);
  const run runs[] = {{.fetches = ls_leaf(failed)},
                      {.fetches = ls_leaf(told), .initializes = true},
                      {.fetches = outputs, .initializes = true}};
  for (size_t i = 0; i < LS_COUNT_OF(runs); ++i) {
    run r = runs[i];
    r.system = &s;
    r.session = session;
    expect_no_growth(&s, fetch, &r);
    ls_nest_release(r.results);
  }
}
