// SPDX-License-Identifier: Apache-2.0
#include "support/replicas.h"

#include "base/memory/own.h"
#include "lockstep/strategy_extended.h"
#include "lockstep/variable_parts.h"

#include <math.h>

ls_strategy *mirrored_of(int replicas) {
  ls_strategy *strategy = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  return strategy;
}

ls_tensor scalar_of(double value) { return ls_scalar(LS_DTYPE_F32, value); }

double number_of(ls_nest leaf) {
  double value = 0;
  if (leaf.kind != LS_KIND_TENSOR) return ls_nest_number(leaf);
  expect_ok(ls_tensor_item(leaf.as.tensor, &value));
  return value;
}

enum { MOST = 64 };

ls_nest distributed_numbers(ls_distributed_kind kind, const double *values,
                            size_t count) {
  ls_nest items[MOST];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_nest_f64(values[i]);
  return ls_nest_distributed(kind, items, count);
}

ls_nest per_replica_scalars(const double *values, size_t count) {
  ls_nest items[MOST];
  for (size_t i = 0; i < count; ++i)
    items[i] = ls_leaf(scalar_of(values[i]));
  return ls_nest_distributed(LS_PER_REPLICA, items, count);
}

void expect_numbers(ls_nest leaf, const double *values, size_t count) {
  assert_int_equal(leaf.kind, LS_KIND_DISTRIBUTED);
  assert_int_equal(ls_distributed_count(leaf), count);
  for (size_t i = 0; i < count; ++i) {
    const double got = number_of(ls_distributed_component(leaf, i));
    if (got != values[i])
      fail_msg("component %zu is %g, wanted %g", i, got, values[i]);
  }
}

void expect_printed(ls_nest nest, const char *text) {
  char buffer[1000];
  assert_string_equal(ls_nest_print(nest, buffer, sizeof(buffer)), text);
}

ls_variable *variable_in(ls_strategy *strategy, variable_kind kind) {
  ls_variable *variable = NULL;
  LS_OWN(ls_array, initial) = NULL;
  expect_ok(
      ls_array_create(kind.dtype != LS_DTYPE_NONE ? kind.dtype : LS_DTYPE_F32,
                      LS_SCALAR, &initial));
  ls_array_set_f64(initial, 0, kind.initial);
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = kind.name != NULL ? kind.name : "v",
                               .initial_array = initial,
                               .synchronization = kind.synchronization,
                               .aggregation = kind.aggregation},
        &variable));
  }
  return variable;
}

void expect_components(ls_variable *variable, const double *values,
                       size_t count) {
  assert_int_equal(ls_variable_num_components(variable), count);
  for (size_t i = 0; i < count; ++i) {
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_variable_value(ls_variable_component(variable, i), &array));
    const double got = ls_array_f64(array, 0);
    if (got != values[i])
      fail_msg("component %zu of '%s' is %g, wanted %g", i,
               ls_variable_name(variable), got, values[i]);
  }
}

void set_components(ls_variable *variable, const double *values, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    ls_variable *component = ls_variable_component(variable, i);
    LS_OWN(ls_array, array) = NULL;
    expect_ok(ls_array_create(ls_variable_dtype(component), LS_SCALAR, &array));
    ls_array_set_f64(array, 0, values[i]);
    expect_ok(ls_variable_set_value(component, array));
  }
}

ls_nest strategy_results(ls_strategy *strategy, ls_callable callable,
                         ls_nest args) {
  ls_nest results = ls_none();
  expect_ok(ls_strategy_run(strategy, callable, args, &results));
  return results;
}

ls_nest run_on(ls_strategy *strategy, ls_callback callback, ls_nest args,
               void *user) {
  return strategy_results(strategy, ls_plain(callback, user), args);
}

ls_cross_device *to_one(void) {
  ls_cross_device *ops = NULL;
  expect_ok(ls_reduce_to_one_create(NULL, &ops));
  return ops;
}

ls_status mirrored_with(ls_mirrored_options options, ls_strategy **out) {
  return ls_mirrored_strategy_create(&options, out);
}

void expect_handle(ls_variable *v, ls_variable *wanted) {
  ls_variable *handle = NULL;
  const ls_status status = ls_variable_handle(v, &handle);
  if (wanted == NULL) {
    expect_status(status, LS_UNIMPLEMENTED, ls_variable_name(v));
    assert_null(handle);
  } else {
    expect_ok(status);
    assert_ptr_equal(handle, wanted);
  }
}

ls_tensor first_argument(ls_nest args) {
  ls_tensor x = ls_failed_tensor();
  expect_ok(ls_distributed_as_tensor(ls_nest_item(args, 0), &x));
  return x;
}

ls_tensor constant_argument(ls_nest args) {
  ls_array *array = ls_nest_as_array(ls_nest_item(args, 0));
  return array != NULL ? ls_constant(array) : ls_nest_tensor(args, 0);
}
