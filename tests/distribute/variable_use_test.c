// SPDX-License-Identifier: Apache-2.0
//
// Distributed variables in functions, on tapes and for the host.
#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/graph.h"
#include "lockstep/handles.h"
#include "lockstep/optimizer_state.h"
#include "lockstep/optimizers.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

// ---- In functions and on tapes ----------------------------------------------
static ls_nest count_up(ls_nest args, void *user) {
  ++*(int *)user;
  return ls_leaf(ls_variable_assign_add(
      ls_nest_as_variable(ls_nest_item(args, 0)), scalar_of(1)));
}

TEST(a_function_uses_the_variable_itself) {
  LS_SPEC("V86");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){.initial = 5});
  LS_OWN(ls_variable, w) =
      variable_in(strategy, (variable_kind){.initial = 50});
  int traces = 0;
  LS_OWN(ls_function, function) = unnamed_function(count_up, &traces);
  LS_OWN(ls_nest, mine) = LS_TUPLE(ls_nest_variable(v));
  LS_OWN(ls_nest, others) = LS_TUPLE(ls_nest_variable(w));
  LS_OWN(ls_nest, result) = ls_none();
  for (int i = 0; i < 3; ++i)
    expect_ok(ls_function_call(function, mine, &result));
  assert_int_equal(traces, 1);
  expect_components(v, (double[]){8, 8}, 2);
  // One of the same type is not taken for it.
  expect_ok(ls_function_call(function, others, &result));
  expect_components(v, (double[]){8, 8}, 2);
  expect_components(w, (double[]){51, 51}, 2);
}

typedef struct taped {
  ls_variable *v;
  double gradient[2];
  ls_variable *watched[2];
} taped;

static ls_nest differentiate(ls_nest args, void *user) {
  taped *t = user;
  (void)args;
  const size_t r = (size_t)ls_replica_number();
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  const ls_tensor y =
      ls_mul(ls_variable_read(t->v), scalar_of(10 * (double)(r + 1)));
  expect_ok(ls_tape_end(tape));
  assert_int_equal(ls_tape_variables(tape, &t->watched[r], 1), 1);
  LS_OWN(ls_nest, x) = ls_nest_variable(t->v);
  ls_nest gradient = ls_none();
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), &x, 1, &gradient));
  assert_int_equal(gradient.kind, LS_KIND_TENSOR);
  t->gradient[r] = number_of(gradient);
  return ls_none();
}

TEST(a_tape_watches_the_whole_in_a_replica) {
  LS_SPEC("V87");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  taped t = {.v = variable_in(strategy, (variable_kind){.aggregation = SUM})};
  ls_nest_release(run_on(strategy, differentiate, ls_none(), &t));
  for (size_t i = 0; i < 2; ++i) {
    assert_ptr_equal(t.watched[i], t.v);
    assert_true(t.gradient[i] == 10 * (double)(i + 1));
  }
  {
    LS_STRATEGY_SCOPE(strategy);
    LS_OWN(ls_tape, tape) = NULL;
    ls_variable *watched[4];
    expect_ok(ls_tape_begin(&tape));
    expect_ok(ls_tensor_status(ls_variable_read(t.v)));
    expect_ok(ls_tape_end(tape));
    assert_int_equal(ls_tape_variables(tape, watched, 4), 2);
    assert_ptr_equal(watched[0], ls_variable_component(t.v, 0));
    assert_ptr_equal(watched[1], ls_variable_component(t.v, 1));
  }
  ls_variable_release(t.v);
}

// ---- Steps outside of replicas ----------------------------------------------
typedef struct training {
  ls_variable *v;
  ls_optimizer *optimizer;
} training;

static ls_tensor squared(ls_nest args, void *user) {
  const training *t = user;
  (void)args;
  return ls_square(ls_variable_read(t->v));
}

static ls_nest train_at_once(ls_nest args, void *user) {
  const training *t = user;
  (void)ls_optimizer_minimize(t->optimizer, squared(args, user));
  return ls_none();
}

static ls_nest train_in_parts(ls_nest args, void *user) {
  const training *t = user;
  return ls_leaf(
      ls_optimizer_minimize_parts(t->optimizer, 2, squared, args, user));
}

static void call_once(ls_callback call, training *t) {
  LS_OWN(ls_function, function) = unnamed_function(call, t);
  ls_nest_release(call_results(function, ls_none()));
}

static ls_nest train_on_tape(ls_nest args, void *user) {
  const training *t = user;
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  expect_ok(
      ls_optimizer_minimize_tape(t->optimizer, tape, squared(args, user)));
  return ls_none();
}

// Makes a step on a tape whose variables and gradients are taken one by one.
static ls_op apply_on_tape(const training *t, ls_tensor (*loss)(ls_nest args,
                                                                void *user)) {
  enum { MOST = 2 };
  ls_variable *found[MOST];
  ls_nest xs[MOST], gradients[MOST];
  LS_OWN(ls_tape, tape) = NULL;
  expect_ok(ls_tape_begin(&tape));
  const ls_tensor y = loss(ls_none(), (void *)(uintptr_t)t);
  expect_ok(ls_tape_end(tape));
  assert_int_equal(ls_tape_variables(tape, found, MOST), MOST);
  for (size_t i = 0; i < MOST; ++i)
    xs[i] = ls_nest_variable(found[i]);
  expect_ok(ls_tape_gradients(tape, ls_leaf(y), xs, MOST, gradients));
  for (size_t i = 0; i < MOST; ++i)
    ls_nest_release(xs[i]);
  return ls_optimizer_apply(t->optimizer, found, gradients, MOST);
}

static ls_tensor product_of_both(ls_nest args, void *user) {
  const training *t = user;
  (void)args;
  return ls_mul(ls_variable_read(ls_variable_component(t->v, 0)),
                ls_variable_read(ls_variable_component(t->v, 1)));
}

static ls_nest train_component(ls_nest args, void *user) {
  const training *t = user;
  ls_variable *first = ls_variable_component(t->v, 0);
  (void)ls_optimizer_minimize_only(t->optimizer, squared(args, user), &first,
                                   1);
  return ls_none();
}

TEST(a_step_outside_of_replicas_moves_all_copies) {
  LS_SPEC("V87");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  training t = {
      .v = variable_in(strategy, (variable_kind){.name = "w", .initial = 1})};
  expect_ok(ls_sgd_create(
      &(ls_sgd_options){.learning_rate = 0.25, .momentum = 0.5}, &t.optimizer));
  call_once(train_at_once, &t);
  expect_components(t.v, (double[]){0.5, 0.5}, 2);
  call_once(train_in_parts, &t);
  expect_components(t.v, (double[]){0, 0}, 2);
  ls_nest_release(train_on_tape(ls_none(), &t));
  expect_components(t.v, (double[]){-0.25, -0.25}, 2);
  ls_nest_release(run_on(strategy, train_on_tape, ls_none(), &t));
  expect_components(t.v, (double[]){-0.25, -0.25}, 2);
  set_components(t.v, (double[]){1, 1}, 2);
  assert_false(ls_op_is_failed(apply_on_tape(&t, squared)));
  expect_components(t.v, (double[]){0.5, 0.5}, 2);
  call_once(train_component, &t);
  expect_components(t.v, (double[]){0, 0}, 2);
  expect_status(ls_tensor_status(
                    ls_op_output(apply_on_tape(&t, product_of_both), 0)),
                LS_INVALID_ARGUMENT, "for components of variable 'w'");
  expect_components(t.v, (double[]){0, 0}, 2);
  // All of these used one slot, which is the variable's own.
  ls_variable *slot = NULL, *found[4];
  expect_ok(ls_optimizer_slot(t.optimizer, t.v, "momentum", &slot));
  assert_int_equal(ls_optimizer_variables(t.optimizer, found, 4), 1);
  assert_ptr_equal(found[0], slot);
  ls_optimizer_release(t.optimizer);
  ls_variable_release(t.v);
}

TEST(a_component_keeps_the_gradient_of_its_variable) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  training t = {
      .v = variable_in(strategy, (variable_kind){.name = "w", .initial = 1})};
  ls_variable *second = ls_variable_component(t.v, 1), *whole = NULL,
              *kept = NULL;
  expect_ok(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.25}, &t.optimizer));
  expect_ok(ls_optimizer_keep_gradients(t.optimizer, &second, 1));
  call_once(train_at_once, &t);
  expect_ok(ls_optimizer_kept_gradient(t.optimizer, t.v, &whole));
  expect_components(whole, (double[]){2, 2}, 2);
  expect_ok(ls_optimizer_kept_gradient(t.optimizer, second, &kept));
  assert_ptr_equal(kept, ls_variable_component(whole, 1));
  ls_optimizer_release(t.optimizer);
  ls_variable_release(t.v);
}

TEST(a_step_in_a_graph_moves_all_copies) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_graph, graph) = graph_named("g");
  training t = {0};
  ls_op init = {0}, step = {0};
  {
    LS_GRAPH_SCOPE(graph);
    t.v = variable_in(strategy, (variable_kind){.name = "w", .initial = 1});
    expect_ok(
        ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.25}, &t.optimizer));
    step = ls_optimizer_minimize(t.optimizer, squared(ls_none(), &t));
    init = ls_global_initializer();
  }
  expect_ok(ls_graph_error(graph));
  LS_OWN(ls_session, session) = session_of(graph);
  ls_nest_release(session_results(session, ls_nest_op(init)));
  ls_nest_release(session_results(session, ls_nest_op(step)));
  for (size_t r = 0; r < 2; ++r) {
    LS_OWN(ls_array, value) =
        session_array(session, ls_variable_component(t.v, r));
    assert_true(ls_array_f64(value, 0) == 0.5);
  }
  ls_optimizer_release(t.optimizer);
  ls_variable_release(t.v);
}

// ---- For the host -----------------------------------------------------------
TEST(the_host_gets_what_a_read_gives) {
  LS_SPEC("V88");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.synchronization = ON_READ,
                                            .aggregation = SUM});
  set_components(v, (double[]){3, 4}, 2);
  ls_array *value = variable_array(v);
  assert_true(ls_array_f64(value, 0) == 7);
  ls_array_release(value);
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_variable_value(v, &value), LS_UNIMPLEMENTED, "graph 'g'");
    LS_OWN(ls_variable, built) =
        variable_in(strategy, (variable_kind){.name = "b"});
    expect_status(ls_variable_value(built, &value), LS_UNIMPLEMENTED, "'b'");
  }
  assert_null(value);
  ls_variable_release(v);
  v = variable_in(strategy, (variable_kind){0});
  set_components(v, (double[]){3, 4}, 2);
  {
    LS_STRATEGY_SCOPE(strategy);
    LS_DEVICE_SCOPE("/cpu:1");
    expect_ok(ls_variable_value(v, &value));
    assert_true(ls_array_f64(value, 0) == 4);
    ls_array_release(value);
  }
}

TEST(a_distributed_variable_is_no_reference) {
  LS_SPEC("V92");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  ls_variable *ref = NULL;
  expect_status(ls_variable_as_reference(v, &ref), LS_INVALID_ARGUMENT,
                "read_value");
  assert_null(ref);
  expect_ok(ls_variable_as_reference(ls_variable_component(v, 0), &ref));
  assert_ptr_equal(ref, ls_variable_component(v, 0));
}

// ---- Updated ----------------------------------------------------------------
static ls_nest count_calls(ls_nest args, void *user) {
  (void)args;
  ++*(int *)user;
  return ls_none();
}

static void expect_no_update(ls_strategy *strategy, ls_variable *v,
                             const char *names) {
  ls_nest made = ls_none();
  int calls = 0;
  expect_status(ls_strategy_update(strategy, v, count_calls, ls_none(), &calls,
                                   true, &made),
                LS_INVALID_ARGUMENT, names);
  assert_int_equal(calls, 0);
}

TEST(an_update_is_of_components_on_the_strategys_devices) {
  LS_SPEC("M135");
  static const char *const devices[] = {"/cpu:0", "/cpu:7"};
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, plain) = NULL;
  LS_OWN(ls_variable, away) = NULL;
  expect_ok(ls_variable_create(
      &(ls_variable_options){.name = "plain", .dtype = LS_DTYPE_F32}, &plain));
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "away",
                                                        .dtype = LS_DTYPE_F32,
                                                        .devices = devices,
                                                        .num_devices = 2},
                                 &away));
  }
  expect_no_update(strategy, plain, "plain");
  expect_no_update(strategy, ls_variable_component(away, 0), "away");
  expect_no_update(strategy, away, "CPU:7");
  for (int on_read = 0; on_read < 2; ++on_read) {
    ls_nest made = ls_none();
    int calls = 0;
    LS_OWN(ls_variable, v) = variable_in(
        strategy,
        (variable_kind){.synchronization =
                            on_read ? ON_READ : LS_SYNCHRONIZATION_ON_WRITE,
                        .aggregation = SUM});
    expect_ok(ls_strategy_update(strategy, v, count_calls, ls_none(), &calls,
                                 true, &made));
    assert_int_equal(calls, 2);
  }
}

// ---- Packed -----------------------------------------------------------------
static ls_nest read_and_add(ls_nest args, void *user) {
  ls_variable *v = user, *handle = NULL;
  (void)args;
  expect_ok(ls_variable_handle(v, &handle));
  const double before = number_of(ls_leaf(ls_variable_read(handle)));
  const ls_tensor after = ls_variable_assign_add(
      v, scalar_of(10 * (double)(ls_replica_number() + 1)));
  return LS_TUPLE(ls_nest_f64(before), ls_leaf(after));
}

// What replicas see and leave.
static void expect_steps(ls_strategy *strategy, ls_variable *v) {
  LS_OWN(ls_nest, seen) = run_on(strategy, read_and_add, ls_none(), v);
  expect_numbers(ls_nest_item(seen, 0), (double[]){3, 4}, 2);
  expect_numbers(ls_nest_item(seen, 1), (double[]){13, 24}, 2);
  expect_components(v, (double[]){13, 24}, 2);
}

TEST(packing_changes_no_number) {
  LS_SPEC("V137 V138");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (int packs = 0; packs < 2; ++packs) {
    strategy->packs_variables = packs == 1;
    LS_OWN(ls_variable, v) =
        variable_in(strategy, (variable_kind){.name = "w"});
    ls_variable *packed = ls_variable_packed(v);
    assert_int_equal(packed != NULL, packs);
    set_components(v, (double[]){3, 4}, 2);
    expect_steps(strategy, v);
    for (size_t i = 0; packed != NULL && i < 2; ++i) {
      // The handle on a device is that component.
      ls_variable *component = ls_variable_component(v, i), *pair = NULL;
      const char *device = ls_variable_device(component);
      assert_string_equal(ls_variable_name(packed), "w/packed/");
      expect_ok(ls_packed_variable_on(packed, device, &pair));
      {
        LS_DEVICE_SCOPE(device);
        assert_string_equal(ls_variable_device(packed), device);
        assert_true(number_of(ls_leaf(ls_variable_read(packed))) ==
                    (i == 0 ? 13 : 24));
        ls_variable_assign(packed, scalar_of(7));
      }
      assert_true(number_of(ls_leaf(ls_variable_read(component))) == 7);
      ls_variable_assign(component, scalar_of(i == 0 ? 13 : 24));
      assert_true(number_of(ls_leaf(ls_variable_read(pair))) ==
                  (i == 0 ? 13 : 24));
    }
    // In a graph there is none.
    LS_OWN(ls_graph, graph) = graph_named("g");
    {
      LS_GRAPH_SCOPE(graph);
      LS_OWN(ls_variable, built) = variable_in(strategy, (variable_kind){0});
      assert_null(ls_variable_packed(built));
    }
  }
  strategy->packs_variables = false;
}
