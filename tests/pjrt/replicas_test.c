// SPDX-License-Identifier: Apache-2.0
// Replicas on several devices of a plug-in, beside the CPU engine.
#include "distribute/own.h"
#include "lockstep/full.h"
#include "runtime/own.h"
#include "support/replicas.h"
#include "support/shim.h"
#include "support/values.h"

enum { REPLICAS = 4, STEPS = 3 };

// Adds the mean of what replicas see to a mirrored variable; returns what each
// sees, and the sum of it.
static ls_nest take_step(ls_nest args, void *user) {
  ls_variable *variable = user;
  const ls_tensor x = ls_reshape(ls_nest_tensor(args, 0), LS_SCALAR);
  const ls_tensor seen = ls_mul(x, ls_variable_read(variable));
  ls_variable_assign_add(variable, seen);
  return LS_TUPLE(ls_leaf(seen), ls_leaf(ls_all_reduce(LS_REDUCE_SUM, seen)));
}

typedef struct outcome {
  double seen[REPLICAS], sum, variable;
} outcome;

// A step of a variable on replicas.
typedef struct stepping {
  ls_strategy *strategy;
  ls_variable *variable;
  ls_function *function;
  ls_nest args, results;
} stepping;

static void stepping_begin(stepping *s) {
  *s = (stepping){.strategy = mirrored_of(REPLICAS)};
  s->variable = variable_in(
      s->strategy,
      (variable_kind){.initial = 2, .aggregation = LS_AGGREGATION_MEAN});
  expect_ok(ls_function_create(
      &(ls_function_options){.call = take_step, .user = s->variable},
      &s->function));
  s->args = LS_TUPLE(split_of(
      REPLICAS, array_of_numbers(LS_DTYPE_F32, LS_SHAPE(REPLICAS), 7)));
}

static ls_status stepping_run(stepping *s) {
  return ls_strategy_run(s->strategy, ls_traced(s->function), s->args,
                         &s->results);
}

static void stepping_end(stepping *s) {
  ls_nest_release(s->args);
  ls_nest_release(s->results);
  ls_function_release(s->function);
  ls_variable_release(s->variable);
  ls_strategy_release(s->strategy);
}
LS_OWNED_STRUCT(stepping, stepping_end)

static outcome run_steps(void) {
  outcome out = {0};
  LS_OWN_BEGUN(stepping, s, stepping_begin);
  for (int i = 0; i < STEPS; ++i)
    expect_ok(stepping_run(&s));
  for (size_t r = 0; r < REPLICAS; ++r)
    out.seen[r] = nest_element(
        ls_distributed_component(ls_nest_item(s.results, 0), r), 0);
  read_variable(s.variable, &out.variable, 1);
  return out;
}

static void expect_near(double got, double want) {
  assert_true(got - want <= 1e-6 && want - got <= 1e-6);
}

// The other device would wait for this one, and XLA end the process.
TEST(an_input_that_does_not_reach_its_device_fails_the_run_of_all) {
  shim_state *shim = shim_begin();
  LS_OWN(open_place, here) = shim_runtime(2);
  LS_OWN_BEGUN(stepping, s, stepping_begin);
  for (int i = 0; i < 4; ++i) {
    shim->fault = SHIM_UPLOAD_EVENT;
    shim->skip = i;
    expect_status(stepping_run(&s), LS_RESOURCE_EXHAUSTED, "the shim");
    assert_int_equal(shim->fault, SHIM_NONE);
  }
  assert_int_equal(shim->executes, 0);
  expect_ok(stepping_run(&s));
}

TEST(exact_bits_are_those_of_the_cpu_engine_on_any_number_of_devices) {
  const outcome want = run_steps();
  for (int devices = 1; devices <= 4; ++devices) {
    LS_OWN(open_place, here) =
        runtime_begin((ls_runtime_options){.device = plugin_device(),
                                           .num_devices = devices,
                                           .exact_bits = true,
                                           .threads = 1});
    const outcome got = run_steps();
    assert_memory_equal(&got, &want, sizeof(got));
  }
}

TEST(replicas_are_divided_among_devices) {
  shim_state *shim = shim_begin();
  const outcome want = run_steps();
  for (int devices = 1; devices <= 5; ++devices) {
    LS_OWN(open_place, here) = shim_runtime(devices);
    *shim = (shim_state){0};
    const outcome got = run_steps();
    assert_int_equal(shim->num_devices, devices == 3   ? 2
                                        : devices == 5 ? 4
                                                       : devices);
    assert_int_equal(shim->executes, STEPS);
    assert_int_equal(shim->misuses, 0);
    for (size_t r = 0; r < REPLICAS; ++r)
      expect_near(got.seen[r], want.seen[r]);
    expect_near(got.variable, want.variable);
  }
}
