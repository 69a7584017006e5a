// SPDX-License-Identifier: Apache-2.0
//
// Variables that are made without a value.
#include <string.h>
#include <unistd.h>

#include "base/runtime_internal.h"
#include "distribute/own.h"
#include "io/safetensors.h"
#include "lockstep/graph.h"
#include "lockstep/saver.h"
#include "support/function.h"
#include "support/replicas.h"

static const char path[] = "no-value-test.safetensors";

static void expect_one_entry(const char *name) {
  LS_OWN(ls_safetensors_file, file) = {0};
  expect_ok(ls_safetensors_open(ls_runtime_current(), path, &file));
  assert_int_equal(file.num_entries, 1);
  assert_non_null(ls_safetensors_entry_of(&file, name));
}

// Made without one, which every way to read it says, until it is written.
TEST(a_variable_may_be_made_without_a_value) {
  LS_SPEC("V124");
  LS_OWN(ls_strategy, strategy) = mirrored_of(2);
  const ls_variable_options options = {
      .name = "v", .dtype = LS_DTYPE_F32, .no_value = true};
  for (int mirrored = 0; mirrored < 2; ++mirrored) {
    LS_OWN(ls_variable, v) = NULL;
    if (mirrored) {
      LS_STRATEGY_SCOPE(strategy);
      expect_ok(ls_variable_create(&options, &v));
    } else
      expect_ok(ls_variable_create(&options, &v));
    ls_variable *all[] = {v, NULL};
    expect_ok(ls_variable_create(
        &(ls_variable_options){.name = "other", .dtype = LS_DTYPE_F32},
        &all[1]));
    const ls_saver saver = {.variables = all, .num_variables = 2};
    ls_array *value = NULL;
    expect_ok(ls_frame_begin());
    assert_true(ls_nest_number(ls_leaf(ls_variable_is_initialized(v, NULL))) ==
                0);
    expect_status(ls_variable_value(v, &value), LS_FAILED_PRECONDITION, "'v'");
    expect_status(ls_tensor_status(ls_variable_read(v)), LS_FAILED_PRECONDITION,
                  "'v'");
    if (mirrored) {
      expect_ok(ls_saver_save(&saver, path));
      expect_one_entry("other");
    } else {
      expect_status(ls_saver_save(&saver, path), LS_FAILED_PRECONDITION, "'v'");
    }
    expect_ok(
        ls_tensor_status(ls_variable_assign(v, ls_scalar(LS_DTYPE_F32, 3))));
    assert_true(ls_nest_number(ls_leaf(ls_variable_read(v))) == 3);
    assert_true(ls_nest_number(ls_leaf(ls_variable_is_initialized(v, NULL))) ==
                1);
    if (mirrored) expect_components(v, (double[]){3, 3}, 2);
    expect_ok(ls_saver_save(&saver, path));
    expect_ok(ls_frame_end(NULL));
    ls_variable_release(all[1]);
  }
}

TEST(one_without_a_value_has_nothing_to_start_with) {
  LS_SPEC("V124");
  ls_variable *v = NULL;
  expect_ok(ls_frame_begin());
  expect_status(
      ls_variable_create(
          &(ls_variable_options){.name = "v",
                                 .initial_value = ls_scalar(LS_DTYPE_F32, 1),
                                 .no_value = true},
          &v),
      LS_INVALID_ARGUMENT, "both no_value and an initial value");
  expect_status(ls_variable_create(
                    &(ls_variable_options){.name = "v", .no_value = true}, &v),
                LS_INVALID_ARGUMENT, "needs a dtype");
  expect_ok(ls_frame_end(NULL));
  LS_OWN(ls_graph, graph) = graph_named("g");
  {
    LS_GRAPH_SCOPE(graph);
    expect_status(ls_variable_create(
                      &(ls_variable_options){
                          .name = "v", .dtype = LS_DTYPE_F32, .no_value = true},
                      &v),
                  LS_INVALID_ARGUMENT, "until its initializer runs");
  }
}

TEST_FILE(.leaves = path)
