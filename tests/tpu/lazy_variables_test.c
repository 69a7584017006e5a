// SPDX-License-Identifier: Apache-2.0
//
// Variables that get their first values together.
#include <pthread.h>
#include <stdio.h>

#include "distribute/own.h"
#include "graph/variables/variable.h"
#include "lockstep/handles.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/saver.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_recipe.h"
#include "support/function.h"
#include "support/scratch.h"
#include "support/tpu_steps.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

static const double firsts[] = {3, 4};
static int calls;

static ls_nest first_value(ls_nest args, void *user) {
  (void)args;
  __atomic_fetch_add(&calls, 1, __ATOMIC_RELAXED);
  return ls_leaf(f32_of(*(const double *)user));
}

static ls_status make_lazy(int which, ls_variable **out_variable) {
  return ls_variable_create(
      &(ls_variable_options){.name = which == 0 ? "a" : "b",
                             .dtype = LS_DTYPE_F32,
                             .initializer = first_value,
                             .initializer_user =
                                 (void *)(uintptr_t)&firsts[which],
                             .batch_initialization = true},
      out_variable);
}

// Two variables that wait, and a scope of their strategy that is open.
typedef struct waiting {
  ls_strategy *s;
  ls_scope scope;
  ls_variable *a, *b;
} waiting;

static void waiting_open(waiting *w, int replicas) {
  *w = (waiting){.s = tpu_strategy_of(replicas)};
  expect_ok(ls_frame_begin());
  calls = 0;
  ls_strategy_scope_begin(&w->scope, w->s);
  expect_ok(make_lazy(0, &w->a));
  expect_ok(make_lazy(1, &w->b));
  assert_string_equal(ls_variable_class_name(w->a),
                      "TPULazyDistributedVariable");
}

static void waiting_close(waiting *w) {
  ls_scope_end(&w->scope);
  ls_variable_release(w->a);
  ls_variable_release(w->b);
  expect_ok(ls_frame_end(NULL));
  ls_strategy_release(w->s);
}
LS_OWNED_STRUCT(waiting, waiting_close)

static bool is_there(ls_variable *v) {
  return item_of(ls_variable_is_initialized(v, NULL)) == 1;
}

static void expect_waits(const waiting *w) {
  for (size_t i = 0; i < ls_variable_num_components(w->a); ++i) {
    assert_false(is_there(ls_variable_component(w->a, i)));
    assert_false(is_there(ls_variable_component(w->b, i)));
  }
  assert_false(is_there(w->a));
}

static void expect_there(const waiting *w, double a, double b) {
  assert_true(is_there(w->a) && is_there(w->b));
  for (size_t i = 0; i < ls_variable_num_components(w->a); ++i) {
    assert_true(
        item_of(ls_variable_as_tensor(ls_variable_component(w->a, i))) == a);
    assert_true(
        item_of(ls_variable_as_tensor(ls_variable_component(w->b, i))) == b);
  }
}

TEST(they_wait_with_their_first_values) {
  LS_SPEC("V147 V148");
  for (int replicas = 1; replicas <= 3; ++replicas) {
    LS_OWN_BEGUN(waiting, w, waiting_open, replicas);
    assert_int_equal(calls, 2);
    expect_waits(&w);
    // Its value alone is not there, and does not come by being looked at.
    expect_status(ls_tensor_status(ls_variable_as_tensor(w.b)),
                  LS_FAILED_PRECONDITION, "'b'");
    expect_waits(&w);
    assert_true(item_of(ls_variable_read(w.b)) == 4);
    expect_there(&w, 3, 4);
    assert_int_equal(calls, 2);
    // Those made later wait again.
    LS_OWN(ls_variable, late) = NULL;
    expect_ok(make_lazy(0, &late));
    assert_false(is_there(late));
    assert_true(item_of(ls_variable_read(w.a)) == 3);
    assert_false(is_there(late));
  }
}

// What is done to a variable for the first time.
static void read_it(ls_variable *v) { (void)ls_variable_read(v); }
static void assign_it(ls_variable *v) { ls_variable_assign(v, f32_of(10)); }
static void add_to_it(ls_variable *v) { ls_variable_assign_add(v, f32_of(10)); }
static void take_from_it(ls_variable *v) {
  ls_variable_assign_sub(v, f32_of(10));
}
static void write_it(ls_variable *v) {
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(
      ls_variable_write(v, LS_WRITE_ASSIGN, ls_nest_f64(10), NULL, &made));
}
static void set_it(ls_variable *v) { set_variable(v, (double[]){10}); }
static void take_its_value(ls_variable *v) {
  double value = 0;
  read_variable(v, &value, 1);
  assert_true(value == 4);
}

TEST(the_first_use_of_one_gives_all_theirs) {
  LS_SPEC("V148");
  static const struct {
    void (*use)(ls_variable *v);
    double after;
  } uses[] = {{read_it, 4},       {assign_it, 10}, {add_to_it, 14},
              {take_from_it, -6}, {write_it, 10},  {set_it, 10},
              {take_its_value, 4}};
  for (size_t u = 0; u < sizeof(uses) / sizeof(*uses); ++u)
    for (int of_part = 0; of_part < 2; ++of_part) {
      LS_OWN_BEGUN(waiting, w, waiting_open, 2);
      uses[u].use(of_part ? ls_variable_component(w.b, 1) : w.b);
      if (!of_part) {
        expect_there(&w, 3, uses[u].after);
      } else {
        expect_components(w.a, (double[]){3, 3}, 2);
        expect_components(w.b, (double[]){4, uses[u].after}, 2);
      }
    }
}

TEST(a_save_and_a_copy_are_uses) {
  LS_SPEC("V148");
  for (int saves = 0; saves < 2; ++saves) {
    LS_OWN_BEGUN(waiting, w, waiting_open, 2);
    LS_OWN(ls_variable, copy) = NULL;
    const ls_saver saver = {.variables = &w.b, .num_variables = 1};
    if (saves) {
      expect_ok(ls_saver_save(&saver, "v.safetensors"));
      expect_there(&w, 3, 4);
      set_variable(w.b, (double[]){10});
      expect_ok(ls_saver_restore(&saver, "v.safetensors"));
      remove("v.safetensors");
    } else {
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "c", .initial_of = w.b}, &copy));
      expect_components(copy, (double[]){4, 4}, 2);
    }
    expect_there(&w, 3, 4);
  }
}

TEST(so_does_the_end_of_a_scope) {
  LS_SPEC("V148");
  for (int again = 0; again < 2; ++again) {
    LS_OWN_BEGUN(waiting, w, waiting_open, 2);
    if (again) {
      LS_STRATEGY_SCOPE(w.s);
      expect_waits(&w);
    } else {
      ls_scope_end(&w.scope);
    }
    expect_there(&w, 3, 4);
  }
  // Also of what was put in force without one.
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_variable, v) = NULL;
  expect_ok(ls_strategy_set_current(s));
  expect_ok(make_lazy(1, &v));
  expect_ok(ls_strategy_set_current(NULL));
  expect_components(v, (double[]){4, 4}, 2);
}

static ls_nest read_both(ls_nest args, void *user) {
  (void)args;
  const waiting *w = user;
  return ls_leaf(ls_add(ls_variable_read(w->a), ls_variable_read(w->b)));
}

TEST(a_step_finds_their_values) {
  LS_SPEC("V148");
  LS_OWN_BEGUN(waiting, w, waiting_open, 2);
  ls_function *f = function_of(read_both, &w);
  LS_OWN(ls_nest, result) = strategy_results(w.s, ls_traced(f), ls_none());
  assert_true(ls_nest_number(ls_distributed_component(result, 1)) == 7);
  ls_function_release(f);
  expect_there(&w, 3, 4);
}

// ---- Threads ---------------------------------------------------------------
enum { ROUNDS = 40000 };

typedef struct maker {
  ls_strategy *s;
  pthread_t thread;
  int waiting;  // That have their values, and wait for them.
} maker;

// Each end of a scope gives values to what the others have made meanwhile.
static void *make_many(void *user) {
  maker *self = user;
  for (int i = 0; i < ROUNDS; ++i) {
    ls_variable *v = NULL;
    expect_ok(ls_frame_begin());
    {
      LS_STRATEGY_SCOPE(self->s);
      expect_ok(make_lazy(0, &v));
    }
    assert_true(is_there(v));
    self->waiting += v->late != NULL;
    ls_variable_release(v);
    expect_ok(ls_frame_end(NULL));
  }
  return NULL;
}

TEST(none_waits_for_a_value_that_it_has) {
  maker makers[2];
  LS_OWN(ls_strategy, s) = tpu_strategy_of(1);
  for (int i = 0; i < 2; ++i) {
    makers[i] = (maker){.s = s};
    assert_int_equal(
        pthread_create(&makers[i].thread, NULL, make_many, &makers[i]), 0);
  }
  for (int i = 0; i < 2; ++i) {
    assert_int_equal(pthread_join(makers[i].thread, NULL), 0);
    assert_int_equal(makers[i].waiting, 0);
  }
}

TEST(in_a_graph_they_have_initializers) {
  LS_SPEC("V147");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(computation, c) = {0};
  LS_OWN(ls_variable, v) = NULL;
  computation_open(&c);
  calls = 0;
  {
    LS_STRATEGY_SCOPE(s);
    expect_ok(make_lazy(1, &v));
  }
  assert_int_equal(calls, 1);
  expect_status(computation_run(&c, ls_leaf(ls_variable_read(v))),
                LS_FAILED_PRECONDITION, "'b'");
  computation_initialize(&c, v);
  for (size_t i = 0; i < 2; ++i)
    assert_true(computation_fetch(
                    &c, ls_variable_read(ls_variable_component(v, i))) == 4);
}

TEST_FILE(.set_up = scratch_enter, .tear_down = scratch_leave)
