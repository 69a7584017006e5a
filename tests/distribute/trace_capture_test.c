// SPDX-License-Identifier: Apache-2.0
//
// What traces of replicas use from around them, and how it is said that two
// traces differ.
#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/function.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/values.h"

static ls_status run_traced(int replicas, ls_callback callback, void *user,
                            ls_nest *out_result) {
  LS_OWN(ls_strategy, strategy) = mirrored_of(replicas);
  LS_OWN(ls_function, function) = unnamed_function(callback, user);
  LS_OWN(ls_nest, args) =
      LS_TUPLE(per_replica_scalars((double[]){1, 2, 3}, (size_t)replicas),
               per_replica_scalars((double[]){4, 5, 6}, (size_t)replicas));
  *out_result = ls_none();
  return ls_strategy_run(strategy, ls_traced(function), args, out_result);
}

// ---- Captures --------------------------------------------------------------
typedef struct around {
  ls_tensor value, other;
} around;

typedef struct branch {
  const around *around;
  ls_tensor x;
} branch;

static ls_nest add_other(ls_nest args, void *user) {
  const branch *b = user;
  (void)args;
  return ls_leaf(ls_add(b->x, b->around->other));
}

static ls_nest keep(ls_nest args, void *user) {
  const branch *b = user;
  (void)args;
  return ls_leaf(b->x);
}

static ls_nest merge_with(ls_strategy *strategy, ls_nest args, void *user) {
  const around *a = user;
  ls_nest sum = ls_none();
  const ls_status status =
      ls_strategy_reduce(strategy, LS_REDUCE_SUM, args, &sum);
  if (!ls_status_is_ok(status)) return ls_fail(status);
  const ls_tensor x = sum.kind == LS_KIND_DISTRIBUTED
                          ? ls_distributed_component(sum, 0).as.tensor
                          : sum.as.tensor;
  const ls_nest made = ls_leaf(ls_mul(a->value, x));
  ls_nest_release(sum);
  return made;
}

// In the replica itself twice, in a branch, and in a merge function.
static ls_nest use_around(ls_nest args, void *user) {
  const around *a = user;
  const ls_tensor x =
      ls_add(ls_mul(ls_nest_tensor(args, 0), a->value), a->value);
  branch b = {a, x};
  const ls_nest y =
      ls_cond(ls_greater(x, ls_scalar(LS_DTYPE_F32, 0)), add_other, keep, &b);
  return ls_replica_merge_call(ls_replica_context(), merge_with, y, user);
}

TEST(replicas_use_one_eager_value_around_them) {
  for (int replicas = 1; replicas <= 3; ++replicas) {
    around a = {scalar_of(10), scalar_of(100)};
    LS_OWN(ls_nest, made) = ls_none();
    expect_ok(run_traced(replicas, use_around, &a, &made));
    double sum = 0;
    for (int r = 0; r < replicas; ++r)
      sum += (r + 1) * 10 + 10 + 100;
    for (size_t r = 0; r < (size_t)replicas; ++r)
      assert_true(
          ls_array_f64(ls_nest_as_array(made.kind == LS_KIND_DISTRIBUTED
                                            ? ls_distributed_component(made, r)
                                            : made),
                       0) == 10 * sum);
  }
}

// ---- Differences -----------------------------------------------------------
typedef struct outside {
  ls_tensor values[3];
  ls_variable *variables[3];
} outside;

static ls_nest other_constants(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(
      ls_add_scalar(ls_nest_tensor(args, 0), 0.5 + ls_replica_number()));
}

static ls_nest other_elements(ls_nest args, void *user) {
  (void)user;
  double values[40] = {0};
  values[33] = ls_replica_number();
  LS_OWN(ls_array, array) = array_of(LS_DTYPE_F32, LS_SHAPE(40), values);
  const ls_tensor made = ls_mul(ls_constant(array), ls_nest_tensor(args, 0));
  return ls_leaf(made);
}

static ls_nest other_captures(ls_nest args, void *user) {
  const outside *o = user;
  return ls_leaf(
      ls_add(ls_nest_tensor(args, 0), o->values[ls_replica_number()]));
}

static ls_nest other_operands(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_square(ls_nest_tensor(args, (size_t)ls_replica_number())));
}

static ls_nest other_results(ls_nest args, void *user) {
  (void)user;
  return ls_leaf(ls_nest_tensor(args, (size_t)ls_replica_number()));
}

static ls_nest other_types(ls_nest args, void *user) {
  (void)args;
  (void)user;
  return ls_leaf(ls_fill(LS_DTYPE_F32, LS_SHAPE(2 + ls_replica_number()), 1));
}

static ls_nest other_ops(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_nest_tensor(args, 0);
  return ls_leaf(ls_replica_number() == 0 ? ls_exp(x) : ls_log(x));
}

static ls_nest more_ops(ls_nest args, void *user) {
  (void)user;
  const ls_tensor x = ls_exp(ls_nest_tensor(args, 0));
  if (ls_replica_number() == 1) ls_square(x);
  return ls_leaf(x);
}

static ls_nest other_variables(ls_nest args, void *user) {
  (void)args;
  const outside *o = user;
  return ls_leaf(ls_variable_read(o->variables[ls_replica_number()]));
}

static const struct {
  const char *name;
  ls_callback callback;
  const char *says;
} rows[] = {
    {"constants", other_constants, "element 0 of its value is 0.5 against 1.5"},
    {"elements", other_elements, "element 33 of its value is 0 against 1"},
    {"captures", other_captures,
     "captures 'captured:0' against 'captured_1:0': element 0 of its value is "
     "1 "
     "against 2"},
    {"operands", other_operands,
     "operand 0 is 'parameter:0' against 'parameter_1:0'"},
    {"results", other_results,
     "result 0 is 'parameter:0' against 'parameter_1:0'"},
    {"types", other_types, "f32[2] against f32[3]"},
    {"ops", other_ops, "op 'exp' (exp) "},
    {"more ops", more_ops, "only one has op 'mul'"},
    {"variables", other_variables,
     "is variable 'twin' against another variable 'twin'"},
};

TEST(two_traces_that_differ_say_in_what) {
  outside o = {.values = {scalar_of(1), scalar_of(2), scalar_of(3)}};
  for (size_t i = 0; i < 3; ++i)
    expect_ok(ls_variable_create(&(ls_variable_options){.name = "twin",
                                                        .dtype = LS_DTYPE_F32,
                                                        .shape = LS_SCALAR},
                                 &o.variables[i]));
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i) {
    ls_nest made = ls_none();
    const ls_status status = run_traced(2, rows[i].callback, &o, &made);
    if (ls_status_is_ok(status)) fail_msg("%s: not refused", rows[i].name);
    expect_status(status, LS_UNIMPLEMENTED, rows[i].says);
  }
  for (size_t i = 0; i < 3; ++i)
    ls_variable_release(o.variables[i]);
}
