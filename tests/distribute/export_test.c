// SPDX-License-Identifier: Apache-2.0
// In an export a distributed variable is its first component, in every way to
// run.
#include "lockstep/export.h"

#include "distribute/base/strategy.h"
#include "distribute/own.h"
#include "lockstep/device_name.h"
#include "lockstep/function_plan.h"
#include "lockstep/handles.h"
#include "lockstep/session.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"
#include "support/variables.h"

static const ls_export_policy alone[] = {LS_EXPORT_NONE,
                                         LS_EXPORT_SAVE_VARIABLE_DEVICES};
#define EXPAND LS_EXPORT_EXPAND_DISTRIBUTED_VARIABLES

static double read_now(ls_variable *v) {
  return number_of(ls_leaf(ls_variable_read(v)));
}

// ---- The scope -------------------------------------------------------------
static bool leave_by_return(void) {
  LS_EXPORT_SCOPE(LS_EXPORT_NONE);
  return ls_in_export();
}

TEST(an_export_is_a_scope_with_a_policy) {
  LS_SPEC("V129");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      pair_in(strategy,
              (variable_kind){.synchronization = ON_READ, .aggregation = SUM});
  expect_ok(ls_frame_begin());
  assert_int_equal((ls_export_policy){0}, LS_EXPORT_NONE);
  assert_false(ls_in_export());
  assert_true(read_now(v) == 7);
  for (size_t i = 0; i < LS_COUNT_OF(alone); ++i) {
    LS_EXPORT_SCOPE(alone[i]);
    assert_true(ls_in_export());
    assert_true(read_now(v) == 3);
    if (i == 1) break;
  }
  assert_false(ls_in_export());
  {
    LS_EXPORT_SCOPE(EXPAND);
    assert_true(ls_in_export());
    assert_true(read_now(v) == 7);
  }
  assert_true(leave_by_return());
  assert_false(ls_in_export());
  assert_true(read_now(v) == 7);
  {
    LS_EXPORT_SCOPE((ls_export_policy)3);
    expect_status(ls_scope_status(), LS_INVALID_ARGUMENT, "policy 3");
  }
  {
    LS_EXPORT_SCOPE(LS_EXPORT_NONE);
    {
      LS_EXPORT_SCOPE(EXPAND);
      expect_status(ls_scope_status(), LS_FAILED_PRECONDITION, "nested");
    }
    assert_true(read_now(v) == 3);
  }
  expect_ok(ls_frame_end(NULL));
}

// ---- The first component alone ---------------------------------------------
static double written(ls_variable *v, ls_write_op op, double value) {
  LS_OWN(ls_nest, made) = ls_none();
  expect_ok(ls_variable_write(v, op, ls_nest_f64(value), NULL, &made));
  assert_int_equal(made.kind, LS_KIND_TENSOR);
  return number_of(made);
}

// All that can be done to a variable whose first component is 3, in eager.
static void use_all(ls_variable *v) {
  ls_variable *first = ls_variable_component(v, 0), *got = NULL;
  ls_tensor tensor = ls_failed_tensor();
  LS_OWN(ls_nest, leaf) = ls_nest_variable(v);
  assert_true(read_now(v) == 3);
  assert_true(number_of(ls_leaf(ls_variable_as_tensor(v))) == 3);
  expect_ok(ls_distributed_as_tensor(leaf, &tensor));
  assert_true(number_of(ls_leaf(tensor)) == 3);
  expect_ok(ls_variable_handle(v, &got));
  assert_ptr_equal(got, first);
  expect_ok(ls_variable_as_reference(v, &got));
  assert_ptr_equal(got, first);
  const ls_op_description op = ls_variable_op_description(v),
                          of = ls_variable_op_description(first);
  assert_true(ls_op_description_equal(&op, &of));
  assert_string_equal(ls_variable_device(v), ls_variable_device(first));
  assert_true(number_of(ls_leaf(ls_variable_is_initialized(v, NULL))) == 1);
  assert_true(number_of(ls_leaf(ls_variable_assign(v, scalar_of(5)))) == 5);
  assert_true(number_of(ls_leaf(ls_variable_assign_add(v, scalar_of(3)))) == 8);
  assert_true(number_of(ls_leaf(ls_variable_assign_sub(v, scalar_of(1)))) == 7);
  assert_true(written(v, LS_WRITE_ASSIGN, 9) == 9);
  assert_true(written(v, LS_WRITE_ADD, 1) == 10);
}

typedef struct use {
  ls_variable *v;
  int times;
} use;

static ls_nest use_in_update(ls_nest args, void *user) {
  use *u = user;
  (void)args;
  if (u->times++ == 0) use_all(u->v);
  return ls_none();
}

static ls_nest use_in_replica(ls_nest args, void *user) {
  (void)args;
  if (ls_replica_number() == 1) use_all(user);
  return ls_none();
}

static void use_in(int where, ls_strategy *strategy, ls_strategy *other,
                   ls_variable *v) {
  const char *second = ls_variable_device(ls_variable_component(v, 1));
  ls_nest made = ls_none();
  use u = {.v = v};
  switch (where) {
  case 0:
    use_all(v);
    return;
  case 1: {
    LS_DEVICE_SCOPE(second);
    LS_STRATEGY_SCOPE(strategy);
    use_all(v);
    return;
  }
  case 2: {
    LS_STRATEGY_SCOPE(other);
    use_all(v);
    return;
  }
  case 3:
    ls_nest_release(run_on(strategy, use_in_replica, ls_none(), v));
    return;
  case 4:
    ls_nest_release(run_on(other, use_in_replica, ls_none(), v));
    return;
  default: {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_strategy_update_non_slot(strategy, &second, 1, use_in_update,
                                          ls_none(), &u, true, &made));
    ls_nest_release(made);
    assert_int_equal(u.times, 1);
  }
  }
}

TEST(in_an_export_a_variable_is_its_first_component) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_strategy, other) = mirrored_of(3);
  for (int packs = 0; packs < 2; ++packs)
    for (size_t k = 0; k < NUM_KINDS; ++k)
      for (int where = 0; where < 6; ++where) {
        strategy->packs_variables = packs == 1;
        LS_OWN(ls_variable, v) = pair_in(strategy, all_kinds[k]);
        expect_ok(ls_frame_begin());
        {
          LS_EXPORT_SCOPE(alone[where % 2]);
          use_in(where, strategy, other, v);
        }
        expect_ok(ls_frame_end(NULL));
        expect_components(v, (double[]){10, 4}, 2);
      }
  strategy->packs_variables = false;
}

TEST(rows_are_scattered_into_the_first_component) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t k = 0; k < NUM_KINDS; ++k) {
    LS_OWN(ls_array, initial) =
        array_of(LS_DTYPE_F32, LS_SHAPE(2), (double[]){1, 2});
    LS_OWN(ls_variable, v) = NULL;
    {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(
          &(ls_variable_options){.name = "rows",
                                 .initial_array = initial,
                                 .synchronization =
                                     all_kinds[k].synchronization,
                                 .aggregation = all_kinds[k].aggregation},
          &v));
    }
    expect_ok(ls_frame_begin());
    const ls_tensor at =
        ls_reshape(ls_scalar_i64(LS_DTYPE_I32, 1), LS_SHAPE(1));
    const ls_tensor by = ls_reshape(scalar_of(5), LS_SHAPE(1));
    {
      LS_EXPORT_SCOPE(LS_EXPORT_NONE);
      expect_tensor(ls_variable_scatter_add(v, at, by), (double[]){1, 7}, 2, 0);
      expect_tensor(ls_variable_scatter_update(v, at, by), (double[]){1, 5}, 2,
                    0);
      expect_tensor(ls_variable_sparse_read(v, at), (double[]){5}, 1, 0);
    }
    expect_variable(ls_variable_component(v, 0), (double[]){1, 5}, 2, 0);
    expect_variable(ls_variable_component(v, 1), (double[]){1, 2}, 2, 0);
    expect_ok(ls_frame_end(NULL));
  }
}

TEST(a_packed_handle_is_not_used) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  strategy->packs_variables = true;
  LS_OWN(ls_variable, v) = pair_in(strategy, (variable_kind){0});
  expect_ok(ls_frame_begin());
  {
    LS_DEVICE_SCOPE(ls_variable_device(ls_variable_component(v, 1)));
    assert_true(read_now(ls_variable_packed(v)) == 4);
    {
      LS_EXPORT_SCOPE(LS_EXPORT_NONE);
      assert_true(read_now(ls_variable_packed(v)) == 3);
      ls_variable_assign(ls_variable_packed(v), scalar_of(8));
    }
  }
  expect_ok(ls_frame_end(NULL));
  expect_components(v, (double[]){8, 4}, 2);
}

static ls_nest write_and_read(ls_nest args, void *user) {
  (void)args;
  const ls_tensor before = ls_variable_read(user);
  const ls_op nine =
      ls_tensor_op(ls_variable_assign(user, ls_scalar(LS_DTYPE_F32, 9)));
  ls_tensor after = ls_failed_tensor();
  {
    LS_CONTROL_SCOPE(&nine, 1);
    after = ls_variable_assign_add(user, ls_scalar(LS_DTYPE_F32, 1));
  }
  assert_string_equal(ls_op_device(ls_tensor_op(after)), "");
  return LS_TUPLE(ls_leaf(before), ls_leaf(after));
}

TEST(a_session_of_what_was_built_in_an_export_agrees) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t k = 0; k < NUM_KINDS; ++k) {
    LS_OWN(ls_graph, graph) = graph_named("g");
    LS_OWN(ls_session, session) = NULL;
    LS_OWN(ls_variable, v) = NULL;
    LS_OWN(ls_nest, made) = ls_none();
    {
      LS_GRAPH_SCOPE(graph);
      v = variable_in(strategy, all_kinds[k]);
      {
        LS_EXPORT_SCOPE(LS_EXPORT_NONE);
        made = write_and_read(ls_none(), v);
        ls_variable *first = ls_variable_component(v, 0);
        assert_int_equal(ls_variable_initializer(v).id,
                         ls_variable_initializer(first).id);
        const ls_tensor there = ls_variable_is_initialized(v, "there");
        assert_string_equal(ls_op_type_name(ls_tensor_op(there)),
                            "is_variable_initialized");
        assert_string_equal(ls_op_name(ls_tensor_op(there)), "there");
      }
      assert_int_not_equal(
          ls_variable_initializer(v).id,
          ls_variable_initializer(ls_variable_component(v, 0)).id);
    }
    expect_ok(ls_session_create(graph, &session));
    LS_OWN(ls_nest, out) =
        session_results(session, ls_nest_op(ls_variable_initializer(v)));
    ls_array *values[2] = {array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){3}),
                           array_of(LS_DTYPE_F32, LS_SCALAR, (double[]){4})};
    for (size_t i = 0; i < 2; ++i) {
      expect_ok(ls_session_set_variable_value(
          session, ls_variable_component(v, i), values[i]));
      ls_array_release(values[i]);
    }
    expect_ok(ls_session_run(session, ls_nest_item(made, 1), NULL, 0, &out));
    assert_true(number_of(out) == 10);
    for (size_t i = 0; i < 2; ++i) {
      LS_OWN(ls_array, value) =
          session_array(session, ls_variable_component(v, i));
      assert_true(ls_array_f64(value, 0) == (i == 0 ? 10 : 4));
    }
  }
}

TEST(a_function_has_traces_of_its_own_in_an_export) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t k = 0; k < NUM_KINDS; ++k) {
    LS_OWN(ls_variable, v) = pair_in(strategy, all_kinds[k]);
    LS_OWN(ls_function, f) = function_of(write_and_read, v);
    LS_OWN(ls_nest, out) = ls_none();
    {
      LS_EXPORT_SCOPE(LS_EXPORT_NONE);
      expect_ok(ls_function_call(f, ls_none(), &out));
      assert_true(number_of(ls_nest_item(out, 0)) == 3);
      assert_true(number_of(ls_nest_item(out, 1)) == 10);
      expect_components(v, (double[]){10, 4}, 2);
      expect_ok(ls_function_call(f, ls_none(), &out));
      assert_true(number_of(ls_nest_item(out, 0)) == 10);
    }
    assert_int_equal(ls_function_num_traces(f), 1);
    {
      LS_EXPORT_SCOPE(LS_EXPORT_SAVE_VARIABLE_DEVICES);
      expect_ok(ls_function_call(f, ls_none(), &out));
    }
    assert_int_equal(ls_function_num_traces(f), 2);
    expect_components(v, (double[]){10, 4}, 2);
  }
}

static ls_nest read_doubled(ls_nest args, void *user) {
  (void)args;
  return ls_leaf(ls_mul_scalar(ls_variable_read(user), 2));
}

TEST(replicas_of_a_traced_step_read_the_first_component) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t k = 0; k < NUM_KINDS; ++k) {
    LS_OWN(ls_variable, v) = pair_in(strategy, all_kinds[k]);
    LS_OWN(ls_function, f) = function_of(read_doubled, v);
    LS_OWN(ls_nest, out) = strategy_results(strategy, ls_traced(f), ls_none());
    expect_numbers(out, (double[]){6, 8}, 2);
    {
      LS_EXPORT_SCOPE(LS_EXPORT_NONE);
      expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &out));
      for (size_t r = 0; r < 2; ++r)
        assert_true(number_of(ls_distributed_component(out, r)) == 6);
    }
    expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &out));
    expect_numbers(out, (double[]){6, 8}, 2);
  }
}

static ls_nest write_nine(ls_nest args, void *user) {
  (void)args;
  ls_nest out = ls_none();
  expect_ok(
      ls_variable_write(user, LS_WRITE_ASSIGN, ls_nest_f64(9), NULL, &out));
  return out;
}

TEST(replicas_of_a_traced_step_write_the_first_component) {
  LS_SPEC("V130");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  for (size_t k = 0; k < NUM_KINDS; ++k) {
    LS_OWN(ls_variable, v) = pair_in(strategy, all_kinds[k]);
    LS_OWN(ls_function, f) = function_of(write_nine, v);
    LS_OWN(ls_nest, out) = ls_none();
    {
      LS_EXPORT_SCOPE(LS_EXPORT_NONE);
      expect_ok(ls_strategy_run(strategy, ls_traced(f), ls_none(), &out));
    }
    expect_components(v, (double[]){9, 4}, 2);
  }
}
