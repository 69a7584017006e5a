// SPDX-License-Identifier: Apache-2.0
//
// Variables as their values, and scopes in which bf16 is stored as f32.
#include <string.h>

#include "lockstep/eager.h"
#include "lockstep/graph_ops.h"
#include "lockstep/ops.h"
#include "lockstep/variable_parts.h"
#include "runtime/own.h"
#include "support/computation.h"
#include "support/function.h"
#include "support/spec.h"

static ls_nest third_of_bf16(ls_nest args, void *user) {
  (void)args, (void)user;
  return ls_leaf(ls_scalar(LS_DTYPE_BF16, 1.0 / 3));
}

// The ways to say what a variable begins with: 1/3, rounded to bf16.
enum { BY_ARRAY, BY_TENSOR, BY_CALLBACK, NUM_WAYS_TO_BEGIN };
static const double third = 0.333984375;

static ls_tensor make(int how, ls_dtype dtype, ls_variable **variable) {
  ls_tensor value;
  LS_OWN(ls_array, array) =
      array_of(dtype, LS_SCALAR, (const double[]){1.0 / 3});
  ls_variable_options options = {.name = "w"};
  if (how == BY_ARRAY) options.initial_array = array;
  if (how == BY_TENSOR) options.initial_value = ls_scalar(dtype, 1.0 / 3);
  if (how == BY_CALLBACK) {
    options.dtype = dtype;
    options.initializer = third_of_bf16;
  }
  expect_ok(ls_get_variable(&options, variable, &value));
  return value;
}

static double number_of(computation *c, ls_tensor value) {
  const ls_tensor wide = ls_convert(value, LS_DTYPE_F32);
  if (c != NULL) return computation_fetch(c, wide);
  LS_OWN(ls_array, array) = tensor_array(wide);
  return ls_array_f64(array, 0);
}

// `c` NULL: in eager.
static void store_wide(computation *c) {
  for (int how = 0; how < NUM_WAYS_TO_BEGIN; ++how) {
    LS_BFLOAT16_SCOPE(NULL);
    LS_OWN(ls_variable, w) = NULL;
    const ls_tensor value = make(how, LS_DTYPE_BF16, &w);
    assert_int_equal(ls_variable_dtype(w), LS_DTYPE_F32);
    assert_int_equal(ls_tensor_dtype(value), LS_DTYPE_BF16);
    if (c != NULL) computation_initialize(c, w);
    assert_true(number_of(c, value) == third);
    // What bf16 would lose adds up.
    const ls_tensor sum = ls_variable_assign_add(w, f32_of(1e-5));
    assert_true(number_of(c, sum) > third);
  }
}

TEST(bf16_is_stored_as_f32_and_read_as_bf16) {
  LS_SPEC("O203");
  store_wide(NULL);
  LS_OWN_BEGUN(computation, c, computation_open);
  store_wide(&c);
}

static ls_nest read_in_function(ls_nest args, void *user) {
  (void)args;
  LS_BFLOAT16_SCOPE("net");
  return ls_leaf(make(BY_CALLBACK, LS_DTYPE_BF16, user));
}

TEST(a_function_makes_such_variables_where_it_stands) {
  LS_SPEC("O203");
  LS_OWN(ls_variable, w) = NULL;
  LS_OWN(ls_function, f) = function_of(read_in_function, &w);
  LS_OWN(ls_nest, result) = call_results(f, ls_none());
  assert_int_equal(ls_array_dtype(ls_nest_as_array(result)), LS_DTYPE_BF16);
  assert_true(ls_nest_number(result) == third);
  assert_int_equal(ls_variable_dtype(w), LS_DTYPE_F32);
}

TEST(names_have_the_scopes_prefix) {
  LS_SPEC("O203");
  LS_OWN_BEGUN(computation, c, computation_open);
  ls_variable *variables[3] = {NULL};
  {
    LS_NAME_SCOPE("around");
    {
      LS_BFLOAT16_SCOPE("");
      make(BY_ARRAY, LS_DTYPE_BF16, &variables[0]);
      assert_string_equal(ls_name_scope_current(), "around/");
    }
    LS_BFLOAT16_SCOPE("half");
    assert_string_equal(ls_name_scope_current(), "around/half/");
    make(BY_ARRAY, LS_DTYPE_BF16, &variables[1]);
    assert_string_equal(ls_op_name(ls_tensor_op(ls_neg(f32_of(1)))),
                        "around/half/neg");
  }
  assert_string_equal(ls_variable_name(variables[0]), "around/w");
  assert_string_equal(ls_variable_name(variables[1]), "around/half/w");
  // Outside of it nothing is changed.
  make(BY_ARRAY, LS_DTYPE_BF16, &variables[2]);
  assert_int_equal(ls_variable_dtype(variables[2]), LS_DTYPE_BF16);
  for (int i = 0; i < 3; ++i)
    ls_variable_release(variables[i]);
}

TEST(other_types_are_as_they_are) {
  LS_SPEC("O203");
  static const ls_dtype dtypes[] = {LS_DTYPE_F32, LS_DTYPE_F64, LS_DTYPE_F16};
  LS_BFLOAT16_SCOPE(NULL);
  for (size_t i = 0; i < sizeof(dtypes) / sizeof(*dtypes); ++i)
    for (int how = 0; how < BY_CALLBACK; ++how) {
      LS_OWN(ls_variable, w) = NULL;
      const ls_tensor value = make(how, dtypes[i], &w);
      assert_int_equal(ls_variable_dtype(w), dtypes[i]);
      assert_int_equal(ls_tensor_dtype(value), dtypes[i]);
    }
  // One that is made otherwise too.
  LS_OWN(ls_variable, plain) = NULL;
  expect_ok(ls_variable_create(&(ls_variable_options){.dtype = LS_DTYPE_BF16},
                               &plain));
  assert_int_equal(ls_variable_dtype(plain), LS_DTYPE_BF16);
}

TEST(what_cannot_be_made_is_refused) {
  ls_variable *w = NULL;
  ls_tensor value;
  LS_BFLOAT16_SCOPE(NULL);
  expect_status(ls_get_variable(NULL, &w, &value), LS_INVALID_ARGUMENT,
                "dtype");
  assert_null(w);
  assert_true(ls_tensor_is_failed(value));
}
