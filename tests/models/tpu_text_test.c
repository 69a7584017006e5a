// SPDX-License-Identifier: Apache-2.0
//
// What the steps of models are lowered to: on a TPU strategy, the text of the
// mirrored strategy with as many replicas, but for the graph's name.
//
// LS_TEST_TEXT=all also has gpt on 64 replicas, which takes seconds.
#include <stdlib.h>
#include <string.h>

#include "base/memory/own.h"
#include "lockstep/function_plan.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"
#include "support/expect.h"
#include "support/function.h"
#include "support/replicas.h"
#include "support/spec.h"
#include "support/tpu_strategies.h"

// The text of a step with an example for each replica, and its first values.
static char *text_of(const ls_model_type *type, ls_strategy *strategy) {
  ls_model model = {0};
  ls_nest batch = ls_none(), results = ls_none(), parts[2];
  char *text = NULL;
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_model_create(type, NULL, &model));
  }
  expect_ok(ls_model_synthetic_batch(type, ls_strategy_num_replicas(strategy),
                                     &batch));
  for (size_t i = 0; i < 2; ++i)
    expect_ok(ls_strategy_split(
        strategy, ls_nest_as_array(ls_nest_item(batch, i)), &parts[i]));
  const ls_nest args = LS_TUPLE(parts[0], parts[1]);
  ls_function *step = function_of(type->train_step, model.self);
  expect_ok(ls_strategy_run(strategy, ls_traced(step), args, &results));
  expect_ok(ls_function_print_lowered(step, &text));
  ls_function_release(step);
  ls_nest_release(results);
  ls_nest_release(args);
  ls_nest_release(batch);
  ls_model_destroy(&model);
  ls_strategy_release(strategy);
  return text;
}

// From the second line on: the first has the graph's name.
static const char *behind_name(const char *text) {
  const char *end = strchr(text, '\n');
  assert_non_null(end);
  return end;
}

static void compare(const char *model, int replicas) {
  const ls_model_type *type = ls_model_find(model);
  assert_non_null(type);
  ls_strategy *mirrored = mirrored_of(replicas);
  LS_OWN(printed, ours) = text_of(type, tpu_strategy_of(replicas));
  LS_OWN(printed, theirs) = text_of(type, mirrored);
  assert_true(strlen(ours) > 1000);
  assert_string_equal(behind_name(ours), behind_name(theirs));
}

TEST(lowered_steps_are_the_mirrored_strategys) {
  LS_SPEC("T197");
  const char *wish = getenv("LS_TEST_TEXT");
  const bool all = wish != NULL && strcmp(wish, "all") == 0;
  static const int counts[] = {2, 8, 64};
  static const char *const models[] = {"mlp", "cnn", "gpt"};
  for (size_t m = 0; m < 3; ++m)
    for (size_t i = 0; i < 3; ++i)
      if (all || m < 2 || i == 0) compare(models[m], counts[i]);
}
