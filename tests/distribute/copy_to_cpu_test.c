// SPDX-License-Identifier: Apache-2.0
// Copies of variables on the CPU, for checkpoints beside a run.
#include "lockstep/export.h"
#include "lockstep/variable_parts.h"

#include "distribute/own.h"
#include "support/function.h"
#include "support/values.h"
#include "support/variables.h"

// ---- Copies on the CPU -----------------------------------------------------
static ls_nest copy_in_replica(ls_nest args, void *user) {
  LS_OWN(ls_variable, copy) = NULL;
  (void)args;
  const ls_status status = ls_variable_copy_to_cpu(user, &copy);
  return ls_status_is_ok(status) ? ls_none() : ls_fail(status);
}

TEST(a_copy_on_the_cpu_is_one_plain_variable) {
  LS_SPEC("V133");
  static const double wanted[] = {3, 3, 3, 3, 0, 7, 3.5};
  LS_OWN(ls_strategy, strategy) = NULL;
  static const char *const devices[] = {"/task:1/gpu:0", "/task:1/gpu:1"};
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.devices = devices, .num_devices = 2}, &strategy));
  for (size_t k = 0; k < NUM_KINDS; ++k) {
    ls_variable *v = pair_in(strategy, all_kinds[k]), *copy = NULL;
    if (wanted[k] == 0) {
      expect_status(ls_variable_copy_to_cpu(v, &copy), LS_INVALID_ARGUMENT,
                    "aggregation is NONE");
      assert_null(copy);
      ls_variable_release(v);
      continue;
    }
    for (int in_scope = 0; in_scope < 2; ++in_scope) {
      ls_scope scope = {0};
      if (in_scope) ls_strategy_scope_begin(&scope, strategy);
      expect_ok(ls_variable_copy_to_cpu(v, &copy));
      ls_scope_end(&scope);
      assert_int_equal(ls_variable_num_components(copy), 0);
      assert_null(ls_variable_strategy(copy));
      assert_string_equal(ls_variable_name(copy), "v");
      assert_int_equal(ls_variable_dtype(copy), LS_DTYPE_F32);
      assert_true(ls_shape_equal(ls_variable_shape(copy), LS_SCALAR));
      assert_int_equal(ls_variable_is_trainable(copy),
                       ls_variable_is_trainable(v));
      assert_int_equal(ls_variable_aggregation_of(copy),
                       all_kinds[k].aggregation);
      assert_string_equal(ls_variable_device(copy),
                          "/job:localhost/replica:0/task:1/device:CPU:0");
      expect_variable(copy, &wanted[k], 1, 0);
      if (in_scope == 0) {
        ls_variable_release(copy);
        copy = NULL;
      }
    }
    // It keeps what it has until it is filled again.
    ls_variable *const before = copy;
    set_components(v, (double[]){8, 8}, 2);
    expect_variable(copy, &wanted[k], 1, 0);
    expect_ok(ls_variable_copy_to_cpu(v, &copy));
    assert_ptr_equal(copy, before);
    const double now = all_kinds[k].synchronization == ON_READ &&
                               all_kinds[k].aggregation == SUM
                           ? 16
                           : 8;
    expect_variable(copy, &now, 1, 0);
    expect_components(v, (double[]){8, 8}, 2);
    ls_variable_release(copy);
    ls_variable_release(v);
  }
}

TEST(a_copy_of_what_has_no_one_value_is_refused) {
  LS_SPEC("V133");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  ls_variable *v = pair_in(strategy, (variable_kind){0}), *copy = NULL,
              *wide = variable_of("wide", LS_DTYPE_F32, LS_SHAPE(2),
                                  (double[]){1, 2});
  ls_nest out = ls_none();
  expect_status(
      ls_strategy_run(strategy, ls_plain(copy_in_replica, v), ls_none(), &out),
      LS_FAILED_PRECONDITION, "copying a variable");
  copy = wide;
  expect_status(ls_variable_copy_to_cpu(v, &copy), LS_INVALID_ARGUMENT,
                "'wide' of f32[2]");
  assert_ptr_equal(copy, wide);
  copy = v;
  expect_status(ls_variable_copy_to_cpu(wide, &copy), LS_INVALID_ARGUMENT,
                "plain eager variable");
  // Of a plain one it is the same.
  copy = NULL;
  expect_ok(ls_variable_copy_to_cpu(wide, &copy));
  expect_variable(copy, (double[]){1, 2}, 2, 0);
  ls_variable_release(copy);
  copy = NULL;
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    LS_OWN(ls_variable, built) = variable_in(strategy, (variable_kind){0});
    expect_status(ls_variable_copy_to_cpu(built, &copy), LS_UNIMPLEMENTED,
                  "graph 'g'");
  }
  ls_variable_release(wide);
  ls_variable_release(v);
}
