// SPDX-License-Identifier: Apache-2.0
//
// A TPU strategy's steps are a mirrored strategy's.
#include "lockstep/function_plan.h"
#include "lockstep/tpu_strategy.h"

#include <stdio.h>
#include <string.h>

#include "distribute/own.h"
#include "support/function.h"
#include "support/mlp.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"
#include "support/values.h"

static ls_strategy *mirrored_of(int replicas) {
  ls_strategy *strategy = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  return strategy;
}

// Some steps of mlp: the bytes of its variables, and the program's text.
typedef struct outcome {
  float bytes[4000];
  size_t count;
  char *text;
} outcome;

static void train(ls_strategy *strategy, outcome *out) {
  LS_OWN(mlp, model) = {0};
  LS_OWN(ls_array, examples) = NULL;
  LS_OWN(ls_array, labels) = NULL;
  ls_nest split[2], results = ls_none();
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(mlp_create(&mlp_tiny, LS_DTYPE_F32, &model));
  }
  expect_ok(mlp_batch(&mlp_tiny, LS_DTYPE_F32, 0, 16, &examples, &labels));
  expect_ok(ls_strategy_split(strategy, examples, &split[0]));
  expect_ok(ls_strategy_split(strategy, labels, &split[1]));
  LS_OWN(ls_function, f) = function_of(mlp_step, &model);
  LS_OWN(ls_nest, args) = ls_nest_sequence(LS_KIND_TUPLE, split, 2);
  for (int step = 0; step < 3; ++step)
    expect_ok(ls_strategy_run(strategy, ls_traced(f), args, &results));
  assert_int_equal(ls_function_num_traces(f), 1);
  expect_ok(ls_function_print_lowered(f, &out->text));
  out->count = 0;
  for (size_t i = 0; i < model.num_variables; ++i) {
    LS_OWN(ls_array, value) = NULL;
    expect_ok(ls_variable_value(model.variables[i], &value));
    const size_t count = (size_t)ls_array_num_elements(value);
    assert_true(out->count + count <= 4000);
    memcpy(out->bytes + out->count, ls_array_data(value),
           count * sizeof(float));
    out->count += count;
  }
  ls_nest_release(results);
}

TEST(a_step_is_the_mirrored_strategys) {
  LS_SPEC("T197");
  static outcome tpu, mirrored;
  for (int replicas = 1; replicas <= 8; replicas *= 2) {
    LS_OWN(ls_strategy, a) = tpu_strategy_of(replicas);
    LS_OWN(ls_strategy, b) = mirrored_of(replicas);
    train(a, &tpu);
    train(b, &mirrored);
    assert_int_equal(tpu.count, mirrored.count);
    assert_memory_equal(tpu.bytes, mirrored.bytes, tpu.count * sizeof(float));
    assert_string_equal(tpu.text, mirrored.text);
    ls_text_release(tpu.text);
    ls_text_release(mirrored.text);
  }
}
