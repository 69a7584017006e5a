// SPDX-License-Identifier: Apache-2.0
//
// Distributed values: what they hold, and what a thread sees of them.
#include "lockstep/distributed.h"

#include "distribute/own.h"
#include "lockstep/function.h"
#include "lockstep/gradients.h"
#include "lockstep/object.h"
#include "lockstep/strategy_extended.h"
#include "support/function.h"
#include "support/replicas.h"

TEST(a_value_holds_components_in_replica_order) {
  LS_SPEC("V70");
  ls_nest items[3];
  static const char *const devices[3] = {"/device:CPU:4", "/device:CPU:2",
                                         "/device:CPU:3"};
  for (int i = 0; i < 3; ++i)
    items[i] = ls_nest_f64(i + 1);
  LS_OWN(ls_nest, value) =
      ls_nest_distributed_on(LS_PER_REPLICA, items, devices, 3);
  // The caller's list is not the value's.
  for (int i = 0; i < 3; ++i)
    items[i] = ls_nest_f64(0);
  assert_int_equal(ls_distributed_count(value), 3);
  expect_numbers(value, (double[]){1, 2, 3}, 3);
  for (size_t i = 0; i < 3; ++i)
    assert_string_equal(ls_distributed_device(value, i), devices[i]);
  assert_true(number_of(ls_distributed_component(value, 0)) == 1);
  assert_int_equal(ls_distributed_component(value, 3).kind, LS_KIND_NONE);
}

// ---- PerReplica as a tensor -------------------------------------------------
typedef struct uses {
  ls_nest value;
  double seen[3];
} uses;

static ls_nest use_in_replica(ls_nest args, void *user) {
  uses *u = user;
  (void)args;
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor_of(u->value, LS_DTYPE_F32, &x));
  u->seen[ls_replica_number()] = number_of(ls_leaf(x));
  const ls_status status =
      ls_distributed_as_tensor_of(u->value, LS_DTYPE_I32, &x);
  expect_contains(ls_status_message(status), "f32");
  expect_status(status, LS_INVALID_ARGUMENT, "i32");
  return ls_none();
}

static ls_nest use_in_default(ls_nest args, void *user) {
  uses *u = user;
  ls_tensor x;
  (void)args;
  const ls_status status = ls_distributed_as_tensor(u->value, &x);
  expect_contains(ls_status_message(status), "PerReplica");
  expect_status(status, LS_FAILED_PRECONDITION, "use run");
  return ls_none();
}

TEST(a_per_replica_is_a_tensor_in_replicas_only) {
  LS_SPEC("V73");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_strategy *usual = NULL;
  uses u = {.value = per_replica_scalars((double[]){3, 4}, 2)};
  ls_nest_release(run_on(strategy, use_in_replica, ls_none(), &u));
  assert_true(u.seen[0] == 3 && u.seen[1] == 4);
  use_in_default(ls_none(), &u);
  {
    LS_STRATEGY_SCOPE(strategy);
    use_in_default(ls_none(), &u);
  }
  // What the default strategy runs is in the default context, too.
  expect_ok(ls_strategy_default(&usual));
  ls_nest_release(run_on(usual, use_in_default, ls_none(), &u));
  ls_nest_release(u.value);
}

// ---- Functions, branches, maps ----------------------------------------------
typedef struct passing {
  int traces;
  bool branches;
} passing;

static ls_nest add_ten(ls_nest leaf, void *user) {
  (void)user;
  return ls_leaf(ls_add_scalar(ls_nest_tensor(leaf, 0), 10));
}

static ls_nest plus_ten(ls_nest nest) {
  ls_nest made = ls_none();
  expect_ok(ls_distributed_map(nest, add_ten, NULL, &made));
  return made;
}

typedef struct branch {
  ls_nest value;
} branch;

static ls_nest changed(ls_nest args, void *user) {
  (void)args;
  return plus_ten(((branch *)user)->value);
}

static ls_nest unchanged(ls_nest args, void *user) {
  (void)args;
  return ls_nest_retain(((branch *)user)->value);
}

static ls_nest pass(ls_nest args, void *user) {
  passing *p = user;
  ++p->traces;
  branch b = {ls_nest_item(args, 0)};
  assert_int_equal(b.value.kind, LS_KIND_DISTRIBUTED);
  if (!p->branches) return plus_ten(b.value);
  const ls_tensor small =
      ls_less(ls_nest_tensor(ls_distributed_component(b.value, 0), 0),
              ls_scalar(LS_DTYPE_F32, 5));
  return ls_cond(small, changed, unchanged, &b);
}

static void expect_passed(ls_function *function, const double *values,
                          const double *wanted) {
  const ls_nest value = per_replica_scalars(values, 2);
  LS_OWN(ls_nest, args) = LS_TUPLE(value);
  LS_OWN(ls_nest, result) = call_results(function, args);
  assert_int_equal(ls_distributed_kind_of(result), LS_PER_REPLICA);
  assert_int_equal(ls_distributed_count(result), 2);
  for (size_t i = 0; i < 2; ++i) {
    const ls_array *array =
        ls_nest_as_array(ls_distributed_component(result, i));
    assert_true(ls_array_f64(array, 0) == wanted[i]);
  }
}

TEST(a_per_replica_survives_functions_and_branches) {
  LS_SPEC("V74");
  // In eager.
  const ls_nest value = per_replica_scalars((double[]){1, 2}, 2);
  LS_OWN(ls_nest, mapped) = plus_ten(value);
  assert_int_equal(ls_distributed_kind_of(mapped), LS_PER_REPLICA);
  expect_numbers(mapped, (double[]){11, 12}, 2);
  ls_nest_release(value);
  for (int branches = 0; branches < 2; ++branches) {
    passing p = {.branches = branches == 1};
    LS_OWN(ls_function, function) = unnamed_function(pass, &p);
    expect_passed(function, (double[]){1, 2}, (double[]){11, 12});
    expect_passed(function, (double[]){3, 4}, (double[]){13, 14});
    if (branches == 1)
      expect_passed(function, (double[]){6, 7}, (double[]){6, 7});
    assert_int_equal(p.traces, 1);
    // Its type is that of each component.
    ls_nest items[2] = {ls_leaf(scalar_of(1)),
                        ls_leaf(ls_broadcast(scalar_of(2), LS_SHAPE(3)))};
    const ls_nest other = ls_nest_distributed(LS_PER_REPLICA, items, 2);
    LS_OWN(ls_nest, args) = LS_TUPLE(other);
    LS_OWN(ls_nest, result) = ls_none();
    if (branches == 0) {
      expect_ok(ls_function_call(function, args, &result));
      assert_int_equal(ls_array_num_elements(ls_nest_as_array(
                           ls_distributed_component(result, 1))),
                       3);
      assert_int_equal(p.traces, 2);
    }
  }
}

static ls_nest expand(ls_nest args, void *user) {
  uses *u = user;
  LS_OWN(ls_nest, made) = ls_none();
  (void)args;
  const ls_status status = ls_distributed_map(u->value, add_ten, NULL, &made);
  if (ls_num_replicas() > 1)
    expect_status(status, LS_FAILED_PRECONDITION, "PerReplica");
  else
    expect_ok(status);
  u->seen[ls_replica_number()] = made.kind == LS_KIND_DISTRIBUTED;
  return ls_none();
}

TEST(one_of_several_replicas_cannot_expand_it) {
  LS_SPEC("V75");
  LS_OWN(ls_strategy, two) = mirrored_of(2);
  LS_OWN(ls_strategy, one) = mirrored_of(1);
  uses u = {.value = per_replica_scalars((double[]){1, 2}, 2)};
  u.seen[0] = u.seen[1] = 1;
  ls_nest_release(run_on(two, expand, ls_none(), &u));
  assert_true(u.seen[0] == 0 && u.seen[1] == 0);
  ls_nest_release(run_on(one, expand, ls_none(), &u));
  assert_true(u.seen[0] == 1);
  {
    LS_STRATEGY_SCOPE(two);
    LS_OWN(ls_nest, made) = plus_ten(u.value);
    expect_numbers(made, (double[]){11, 12}, 2);
  }
  ls_nest_release(u.value);
}

// ---- Mirrored as an operand -------------------------------------------------
// A number from ops of each sort on the leaf: its value if that is `x`.
static void expect_operand(ls_nest leaf, double x) {
  ls_tensor t = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(leaf, &t));
  const ls_tensor number = ls_scalar(LS_DTYPE_I32, x);
  assert_true(number_of(ls_leaf(ls_add(t, t))) == 2 * x);
  assert_true(number_of(ls_leaf(ls_neg(t))) == -x);
  assert_true(number_of(ls_leaf(ls_less(t, number))) == 0);
  assert_true(number_of(ls_leaf(ls_equal(t, number))) == 1);
  assert_true(number_of(ls_leaf(ls_xor(t, number))) == 0);
  const ls_tensor row = ls_reshape(t, LS_SHAPE(1));
  assert_true(
      number_of(ls_leaf(ls_reshape(
          ls_gather(row, ls_scalar_i64(LS_DTYPE_I32, 0), 0), LS_SCALAR))) == x);
}

typedef struct operands {
  ls_nest value, variable;
} operands;

static ls_nest operate_in_replica(ls_nest args, void *user) {
  const operands *o = user;
  (void)args;
  const double x = 5 + ls_replica_number();
  expect_operand(o->value, x);
  expect_operand(o->variable, x);
  return ls_none();
}

static ls_nest operate_in_update(ls_nest args, void *user) {
  const operands *o = user;
  (void)args;
  const double x = 5 + (double)ls_update_replica_id().value;
  expect_operand(o->value, x);
  expect_operand(o->variable, x);
  return ls_none();
}

TEST(a_mirrored_operand_is_its_current_value) {
  LS_SPEC("V77 V71");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) =
      variable_in(strategy, (variable_kind){.dtype = LS_DTYPE_I32});
  static const char *const devices[2] = {
      "/job:localhost/replica:0/task:0/device:CPU:0",
      "/job:localhost/replica:0/task:0/device:CPU:1"};
  ls_nest items[2] = {ls_leaf(ls_scalar(LS_DTYPE_I32, 5)),
                      ls_leaf(ls_scalar(LS_DTYPE_I32, 6))};
  operands o = {ls_nest_distributed_on(LS_MIRRORED, items, devices, 2),
                ls_nest_variable(v)};
  set_components(v, (double[]){5, 6}, 2);
  expect_operand(o.value, 5);
  expect_operand(o.variable, 5);
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_operand(o.value, 5);
    expect_operand(o.variable, 5);
    {
      LS_DEVICE_SCOPE("/cpu:1");
      expect_operand(o.value, 6);
      expect_operand(o.variable, 6);
    }
  }
  LS_OWN(ls_nest, made) = ls_none();
  ls_nest_release(run_on(strategy, operate_in_replica, ls_none(), &o));
  expect_ok(ls_strategy_update(strategy, v, operate_in_update, ls_none(), &o,
                               false, &made));
  ls_nest_release(o.value);
  ls_nest_release(o.variable);
}

// ---- Tables -----------------------------------------------------------------
TEST(only_a_distributed_table_is_one) {
  LS_SPEC("V27");
  static const ls_object_type whole = {.name = "distributed table",
                                       .is_distributed_table = true},
                              plain = {.name = "table"};
  ls_object table, other;
  ls_object_init(&table, &whole);
  ls_object_init(&other, &plain);
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  LS_OWN(ls_variable, v) = variable_in(strategy, (variable_kind){0});
  LS_OWN(ls_nest, variable) = ls_nest_variable(v);
  LS_OWN(ls_nest, value) = per_replica_scalars((double[]){1, 2}, 2);
  assert_true(ls_is_distributed_table(ls_nest_object(LS_KIND_OBJECT, &table)));
  assert_false(ls_is_distributed_table(ls_nest_object(LS_KIND_OBJECT, &other)));
  assert_false(ls_is_distributed_table(variable));
  assert_false(ls_is_distributed_table(value));
  assert_false(ls_is_distributed_table(ls_none()));
  assert_false(ls_is_distributed_table(ls_nest_f64(1)));
}
