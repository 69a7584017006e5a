// SPDX-License-Identifier: Apache-2.0
//
// A NULL where something is needed is refused by name.
#include "lockstep/chain.h"
#include "lockstep/hook.h"
#include "lockstep/train.h"
#include "lockstep/training_parts.h"
#include "support/expect.h"

// Something that is not NULL; nobody looks at it before all are there.
static _Alignas(16) char place[512];
static void *const some = place;

TEST(calls_of_evaluation_refuse_null) {
  expect_null_argument(model, ls_evaluator_create, NULL, some, some);
  expect_null_argument(dataset, ls_evaluator_create, some, NULL, some);
  expect_null_argument(out_evaluator, ls_evaluator_create, some, some, NULL);
  expect_null_argument(evaluator, ls_evaluator_run, NULL, some, some);
  expect_null_argument(out_evaluation, ls_evaluator_run, some, some, NULL);
  expect_null_argument(type, ls_train_check_data, NULL, some);
  expect_null_argument(dataset, ls_train_check_data, some, NULL);
}

TEST(calls_of_training_refuse_null) {
  const ls_nest none = ls_none();
  expect_null_argument(strategy, ls_train_split, NULL, none, some);
  expect_null_argument(out_args, ls_train_split, some, none, NULL);
  expect_null_argument(out_mean, ls_train_mean, none, none, NULL);
  expect_null_argument(run_folder, ls_train_config_read, NULL, some);
  expect_null_argument(out_config, ls_train_config_read, some, NULL);
  expect_null_argument(config, ls_train_config_text, NULL, some);
  expect_null_argument(out_text, ls_train_config_text, some, NULL);
  expect_null_argument(run_folder, ls_train_load, NULL, some);
  expect_null_argument(model, ls_train_load, some, NULL);
  expect_null_argument(run_folder, ls_chain_check, NULL, NULL, some);
  expect_null_argument(out_result, ls_chain_check, some, NULL, NULL);
  expect_null_argument(run_folder, ls_chain_check_data, NULL, some, NULL, NULL,
                       some);
  expect_null_argument(train, ls_chain_check_data, some, NULL, NULL, NULL,
                       some);
  expect_null_argument(out_result, ls_chain_check_data, some, some, NULL, NULL,
                       NULL);
  expect_null_argument(options, ls_train, NULL, some);
  expect_null_argument(out_result, ls_train, some, NULL);
  assert_int_equal(ls_train_count_steps(NULL, 10, 0, 1, 0), 0);
  assert_int_equal(ls_train_count_steps(NULL, 10, 2, 0, 0), 0);
  assert_int_equal(ls_train_count_steps(NULL, 10, 2, 3, 0), 15);
}

TEST(calls_of_progress_refuse_null) {
  expect_null_argument(options, ls_progress_create, NULL, some);
  expect_null_argument(out_progress, ls_progress_create, some, NULL);
  expect_null(ls_progress_create(&(ls_progress_options){0}, some),
              "ls_progress_create: options->write is NULL");
}

// A model that was never made, or whose type lacks what the call is about.
TEST(models_without_what_is_needed_are_refused) {
  const ls_model_type type = {.name = "bare", .num_classes = 2};
  const ls_model zeroed = {0}, bare = {.type = &type};
  ls_train_result result;
  expect_null(ls_evaluator_create(&zeroed, some, some),
              "ls_evaluator_create: model->type is NULL");
  expect_null(ls_evaluator_create(&bare, some, some),
              "ls_evaluator_create: model->type->logits is NULL");
  expect_null(ls_train_load(some, &zeroed),
              "ls_train_load: model->type is NULL");
  expect_null(ls_train_load(some, &bare),
              "ls_train_load: model->type->variables is NULL");
  ls_train_options options = {.strategy = some, .train = some};
  expect_null(ls_train(&options, &result), "ls_train: options->model is NULL");
  options.model = &zeroed;
  expect_null(ls_train(&options, &result),
              "ls_train: options->model->type is NULL");
  options.model = &bare;
  expect_null(ls_train(&options, &result),
              "ls_train: options->model->type->train_step is NULL");
  ls_model_type steps = type;
  steps.train_step = ls_model_find("tiny")->train_step;
  options.model = &(ls_model){.type = &steps};
  expect_null(ls_train(&options, &result),
              "ls_train: options->model->type->variables is NULL");
  steps.name = NULL;
  expect_null(ls_train(&options, &result),
              "ls_train: options->model->type->name is NULL");
  options.strategy = NULL;
  expect_null(ls_train(&options, &result),
              "ls_train: options->strategy is NULL");
  options = (ls_train_options){.strategy = some};
  expect_null(ls_train(&options, &result), "ls_train: options->train is NULL");
}

TEST(calls_of_hooks_refuse_null) {
  double number = 0;
  expect_null_argument(context, ls_run_context_steps, NULL, some);
  expect_null(ls_run_context_number(NULL, "loss", &number),
              "ls_run_context_number: context is NULL");
}
