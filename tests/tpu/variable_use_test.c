// SPDX-License-Identifier: Apache-2.0
//
// Using variables of TPU strategies: in a computation each is the replica's
// own, outside of it what a mirrored strategy's is.
#include <string.h>

#include "distribute/own.h"
#include "lockstep/flow.h"
#include "lockstep/function_plan.h"
#include "lockstep/gradients.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/regroup.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/tpu_variable.h"
#include "lockstep/variable_parts.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/logical_strategies.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_steps.h"
#include "support/tpu_strategies.h"

// ---- Handles ---------------------------------------------------------------
static size_t count_ops(const ls_graph *graph, const char *type,
                        const char *handle) {
  size_t count = 0;
  for (size_t i = 0; i < ls_graph_num_ops(graph); ++i) {
    const ls_op op = ls_graph_op(graph, i);
    const char *mark = attr_text(op, "_handle");
    count += strcmp(ls_op_type_name(op), type) == 0 &&
             (handle == NULL ? mark == NULL
                             : mark != NULL && strcmp(mark, handle) == 0);
  }
  return count;
}

static int64_t attr_flag(ls_op op, const char *name) {
  const ls_attr *attr = NULL;
  expect_ok(ls_op_attr(op, name, &attr));
  return attr->as.i;
}

static ls_nest use_thrice(ls_nest args, void *user) {
  tpu_step *w = user;
  ls_op handle, again;
  const ls_tensor a = ls_variable_read(w->v), b = ls_variable_as_tensor(w->v);
  expect_ok(ls_tpu_variable_handle(w->v, &handle));
  const ls_tensor c = ls_variable_assign(
      w->v, ls_all_reduce(LS_REDUCE_MAX, tpu_step_argument(args)));
  expect_ok(ls_tpu_variable_handle(w->v, &again));
  assert_true(handle.id == again.id);
  ls_variable *stands = NULL;
  expect_ok(ls_variable_handle(w->v, &stands));
  assert_ptr_equal(stands, w->v);
  expect_ok(ls_variable_as_reference(w->v, &stands));
  assert_ptr_equal(stands, w->v);
  assert_string_equal(attr_text(ls_tensor_op(a), "_handle"),
                      ls_op_name(handle));
  return ls_leaf(ls_add(ls_add(a, b), c));
}

TEST(a_variable_has_one_handle_in_a_computation) {
  LS_SPEC("O14 T124 V139");
  for (int in_graph = 0; in_graph < 2; ++in_graph)
    for (int replicas = 1; replicas <= 4; replicas *= 2)
      for (int on_read = 0; on_read < 2; ++on_read) {
        LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, replicas,
                     (variable_kind){.initial = 5,
                                     .synchronization =
                                         on_read
                                             ? LS_SYNCHRONIZATION_ON_READ
                                             : LS_SYNCHRONIZATION_ON_WRITE});
        ls_op none;
        expect_status(ls_tpu_variable_handle(w.v, &none),
                      LS_FAILED_PRECONDITION, "'v'");
        expect_ok(tpu_step_run(&w, use_thrice));
        for (int r = 0; r < replicas; ++r)
          assert_true(ls_nest_number(tpu_step_result(&w, r)) == 10 + replicas);
        const ls_graph *graph = in_graph ? w.c.graph : ls_function_graph(w.f);
        const ls_op handle = op_named(graph, "v/handle");
        assert_string_equal(ls_op_type_name(handle), "tpu_replicated_input");
        assert_null(attr_text(handle, "_tpu_replicate"));
        assert_int_equal(ls_op_num_control_inputs(handle), 0);
        assert_int_equal(attr_flag(handle, "is_mirrored"), !on_read);
        assert_int_equal(attr_flag(handle, "is_packed"), !in_graph);
        assert_int_equal(count_ops(graph, "read_variable", "v/handle"), 2);
        assert_int_equal(count_ops(graph, "assign", "v/handle"), 1);
        // Another computation has its own.
        if (in_graph) {
          expect_ok(tpu_step_run(&w, use_thrice));
          op_named(graph, "v/handle_1");
          assert_int_equal(count_ops(graph, "read_variable", "v/handle"), 2);
          assert_int_equal(count_ops(graph, "read_variable", "v/handle_1"), 2);
        }
      }
}

// Outside it is the current component's.
TEST(elsewhere_it_is_a_components) {
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  LS_OWN(ls_variable, v) = variable_in(s, (variable_kind){0});
  ls_variable *handle = NULL;
  ls_op op;
  expect_ok(ls_variable_handle(v, &handle));
  assert_ptr_equal(handle, ls_variable_component(v, 0));
  LS_OWN(ls_strategy, mirrored) = mirrored_of(2);
  LS_OWN(ls_variable, m) = variable_in(mirrored, (variable_kind){.name = "m"});
  expect_status(ls_tpu_variable_handle(m, &op), LS_INVALID_ARGUMENT, "'m'");
}

typedef struct pair {
  ls_variable *a, *b;
} pair;

static ls_nest read_two(ls_nest args, void *user) {
  (void)args;
  const pair *p = user;
  return ls_leaf(ls_sub(ls_variable_read(p->a), ls_variable_read(p->b)));
}

TEST(equal_names_do_not_clash) {
  LS_SPEC("T124 V139");
  LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
  const pair p = {variable_in(s, (variable_kind){.initial = 7}),
                  variable_in(s, (variable_kind){.initial = 4})};
  LS_OWN(ls_function, f) = function_of(read_two, (void *)(uintptr_t)&p);
  assert_string_equal(ls_variable_name(p.a), ls_variable_name(p.b));
  LS_OWN(ls_nest, result) = strategy_results(s, ls_traced(f), ls_none());
  assert_true(ls_nest_number(ls_distributed_component(result, 1)) == 3);
  op_named(ls_function_graph(f), "v/handle");
  op_named(ls_function_graph(f), "v/handle_1");
  ls_variable_release(p.a);
  ls_variable_release(p.b);
}

// In loops and branches, too.
static ls_nest less_than_three(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_less(ls_nest_tensor(args, 0), f32_of(3)));
}

static ls_nest add_in_loop(ls_nest args, void *user) {
  tpu_step *w = user;
  ls_variable_assign_add(w->v, f32_of(1));
  return LS_LIST(ls_leaf(ls_add(ls_nest_tensor(args, 0), f32_of(1))));
}

static ls_nest loop(ls_nest args, void *user) {
  tpu_step *w = user;
  (void)args;
  const ls_nest out =
      ls_while(less_than_three, add_in_loop, w, LS_LIST(ls_leaf(f32_of(0))), 0);
  if (ls_nest_is_failed(out)) return out;
  ls_nest_release(out);
  return ls_leaf(ls_variable_read(w->v));
}

TEST(loops_share_it) {
  LS_SPEC("O14");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, 2,
                 (variable_kind){.initial = 10});
    expect_ok(tpu_step_run(&w, loop));
    tpu_step_expect_results(&w, (double[]){13, 13});
    const ls_graph *graph = in_graph ? w.c.graph : ls_function_graph(w.f);
    op_named(graph, "v/handle");
    assert_int_equal(count_ops(graph, "read_variable", "v/handle"), 1);
    ls_op op = {0};
    expect_status(ls_graph_lookup_op(graph, "v/handle_1", &op), LS_NOT_FOUND,
                  "v/handle_1");
  }
}

// ---- In computations that no strategy has begun ----------------------------
static ls_nest add_own(ls_nest args, void *user) {
  const pair *p = user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return LS_LIST(ls_leaf(ls_variable_assign_add(p->a, x)),
                 ls_leaf(ls_variable_assign_add(p->b, x)));
}

TEST(any_computation_uses_the_replicas_own) {
  LS_SPEC("T123 T124 T126 V143");
  for (int in_scope = 0; in_scope < 2; ++in_scope) {
    LS_OWN(ls_strategy, s) = tpu_strategy_of(2);
    LS_OWN_BEGUN(computation, c, computation_open);
    const pair p = {
        variable_in(s, (variable_kind){.name = "a", .initial = 10}),
        variable_in(s, (variable_kind){.name = "b",
                                       .initial = 10,
                                       .aggregation = LS_AGGREGATION_SUM})};
    computation_initialize(&c, p.a);
    computation_initialize(&c, p.b);
    ls_device_assignment *cores = logical_assignment(2, 1);
    const ls_nest inputs = computation_inputs(2);
    {
      LS_STRATEGY_SCOPE(in_scope ? s : ls_strategy_current());
      expect_ok(ls_replicate(add_own, (void *)(uintptr_t)&p, inputs,
                             &(ls_replicate_options){.assignment = cores},
                             &c.outputs));
    }
    ls_nest_release(inputs);
    ls_device_assignment_release(cores);
    op_named(c.graph, "a/handle");
    op_named(c.graph, "b/handle");
    assert_true(computation_output(&c, 1, 0) == 12);
    assert_true(computation_fetch(
                    &c, ls_variable_read(ls_variable_component(p.a, 0))) == 11);
    for (size_t r = 0; r < 2; ++r)
      assert_true(computation_fetch(&c, ls_variable_read(ls_variable_component(
                                            p.b, r))) == 13);
    // The flat graph is read back from its text.
    ls_graph *read = NULL;
    LS_OWN(printed, text) = graph_text(c.graph);
    assert_non_null(strstr(text, "a/handle"));
    expect_ok(ls_graph_parse(text, NULL, 0, &read));
    LS_OWN(printed, again) = graph_text(read);
    assert_non_null(strstr(again, "a/handle"));
    ls_graph_destroy(read);
    ls_variable_release(p.a);
    ls_variable_release(p.b);
  }
}

// ---- Copies in another order -----------------------------------------------
static ls_nest write_own(ls_nest args, void *user) {
  const tpu_step *w = user;
  ls_variable_assign_add(w->v, tpu_step_argument(args));
  return ls_leaf(ls_variable_read(w->v));
}

static void put_on(tpu_step *w, const char *const *devices, size_t count) {
  ls_variable_release(w->v);
  w->v = NULL;
  {
    LS_STRATEGY_SCOPE(w->s);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "v",
                               .initial_value = f32_of(10),
                               .synchronization = LS_SYNCHRONIZATION_ON_READ,
                               .devices = devices,
                               .num_devices = count},
        &w->v));
  }
  if (w->in_graph) computation_initialize(&w->c, w->v);
}

// Each replica has the copy on its core, in each run.
TEST(a_replicas_copy_is_that_on_its_core) {
  LS_SPEC("T125");
  static const char *const turned[] = {"/device:TPU:2", "/device:TPU:0",
                                       "/device:TPU:1"};
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, 3,
                 (variable_kind){.name = "other"});
    put_on(&w, turned, 3);
    for (int run = 1; run <= 3; ++run) {
      expect_ok(tpu_step_run(&w, write_own));
      tpu_step_expect_results(&w,
                              (double[]){10 + run, 10 + 2 * run, 10 + 3 * run});
      tpu_step_expect_parts(&w,
                            (double[]){10 + 3 * run, 10 + run, 10 + 2 * run});
    }
    const ls_attr *copies = NULL;
    const ls_op handle =
        op_named(in_graph ? w.c.graph : ls_function_graph(w.f), "v/handle");
    if (in_graph) {
      expect_ok(ls_op_attr(handle, "copies", &copies));
      assert_int_equal(copies->as.ints.count, 3);
      for (int r = 0; r < 3; ++r)
        assert_int_equal(copies->as.ints.items[r], (r + 1) % 3);
    } else {
      expect_status(ls_op_attr(handle, "copies", &copies), LS_NOT_FOUND,
                    "copies");
    }
  }
}

TEST(a_replica_without_a_copy_is_named) {
  LS_SPEC("T125 O14");
  static const char *const one[] = {"/device:TPU:0"};
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, 2,
                 (variable_kind){.name = "other"});
    put_on(&w, one, 1);
    expect_status(tpu_step_run(&w, write_own), LS_INVALID_ARGUMENT,
                  "the device of replica 1");
  }
}

// ---- Gradients -------------------------------------------------------------
static ls_nest square_gradient(ls_nest args, void *user) {
  const tpu_step *w = user;
  const ls_tensor x = ls_variable_read(w->v);
  const ls_nest y = ls_leaf(ls_mul(ls_square(x), tpu_step_argument(args)));
  const ls_nest of = {.kind = LS_KIND_VARIABLE, .as.ref = w->v};
  ls_nest made = ls_none();
  const ls_status status = ls_gradients(&y, 1, &of, 1, NULL, &made);
  return ls_status_is_ok(status) ? made : ls_fail(status);
}

static ls_nest times_argument(ls_nest args, void *user) {
  const tpu_step *w = user;
  return ls_leaf(ls_mul(ls_variable_read(w->v), tpu_step_argument(args)));
}

TEST(reads_have_gradients) {
  LS_SPEC("V140");
  for (int in_graph = 0; in_graph < 2; ++in_graph) {
    LS_OWN_BEGUN(tpu_step, w, tpu_step_open, in_graph, 2,
                 (variable_kind){.initial = 3});
    expect_ok(tpu_step_run(&w, square_gradient));
    tpu_step_expect_results(&w, (double[]){6, 12});
  }
  // On a tape, of each replica's read.
  LS_OWN(tpu_step, w) = {0};
  LS_OWN(ls_tape, tape) = NULL;
  ls_variable *found[4] = {0};
  tpu_step_open(&w, false, 2, (variable_kind){.initial = 3});
  expect_ok(ls_tape_begin(&tape));
  expect_ok(tpu_step_run(&w, times_argument));
  assert_int_equal(ls_tape_variables(tape, found, 4), 2);
  for (size_t r = 0; r < 2; ++r)
    assert_ptr_equal(found[r], ls_variable_component(w.v, r));
}
