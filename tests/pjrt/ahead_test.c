// SPDX-License-Identifier: Apache-2.0
// Training runs on a device start steps before they read the losses of earlier
// ones: the same reports, errors and values as one by one.
#include <stdio.h>

#include "lockstep/hook.h"
#include "lockstep/train.h"
#include "support/expect.h"
#include "support/shim.h"

enum { EXAMPLES = 202, EPOCHS = 3, STEPS = EPOCHS * 26 };

typedef struct run {
  int64_t replicas;
  double learning_rate;
  bool one_by_one;  // A hook of the caller's runs after each step.
} run;

// What a run reports after each step, and its end.
typedef struct outcome {
  double losses[STEPS + EPOCHS], accuracies[STEPS + EPOCHS];
  int64_t steps[STEPS + EPOCHS];
  size_t count;
  ls_train_result result;
  ls_code code;
  char message[200];
} outcome;

static void note_report(void *user, const ls_train_report *report) {
  outcome *out = user;
  assert_true(out->count < LS_COUNT_OF(out->losses));
  out->losses[out->count] = report->loss;
  out->accuracies[out->count] = report->accuracy;
  out->steps[out->count++] = report->step;
}

static void note_status(ls_status status, outcome *out) {
  out->code = ls_status_code(status);
  snprintf(out->message, sizeof(out->message), "%s",
           ls_status_is_ok(status) ? "" : ls_status_message(status));
  ls_status_free(status);
}

static void train(const run *how, outcome *out) {
  const ls_model_type *type = ls_model_find("tiny");
  ls_dataset *data = ls_dataset_synthetic(
      &(ls_synthetic_options){.size = EXAMPLES,
                              .shape = type->example_shape,
                              .num_classes = type->num_classes});
  ls_strategy *strategy = NULL;
  ls_model model = {0};
  ls_hook *hook = NULL;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(how->replicas)},
      &strategy));
  expect_ok(ls_model_create(
      type,
      &(ls_model_options){.metrics = true, .learning_rate = how->learning_rate},
      &model));
  expect_ok(ls_stop_at_step_hook(LS_SOME(100000), (ls_opt){0}, &hook));
  note_status(ls_train(&(ls_train_options){.model = &model,
                                           .strategy = strategy,
                                           .train = data,
                                           .epochs = EPOCHS,
                                           .log_every = 10,
                                           .hooks = &hook,
                                           .num_hooks = how->one_by_one,
                                           .report = note_report,
                                           .report_user = out},
                       &out->result),
              out);
  ls_hook_release(hook);
  ls_model_destroy(&model);
  ls_strategy_release(strategy);
  ls_dataset_release(data);
}

static void expect_same(const outcome *a, const outcome *b) {
  assert_int_equal(a->code, b->code);
  assert_string_equal(a->message, b->message);
  assert_int_equal(a->result.steps, b->result.steps);
  assert_int_equal(a->count, b->count);
  for (size_t i = 0; i < a->count; ++i) {
    assert_int_equal(a->steps[i], b->steps[i]);
    assert_true(a->losses[i] == b->losses[i]);
    assert_true(a->accuracies[i] == b->accuracies[i]);
  }
}

static void expect_same_runs(run how, int num_devices, ls_code code) {
  outcome outcomes[2] = {{.count = 0}};
  for (int i = 0; i < 2; ++i) {
    LS_OWN(open_place, here) = plugin_runtime(num_devices);
    how.one_by_one = i == 1;
    train(&how, &outcomes[i]);
    assert_int_equal(outcomes[i].code, code);
  }
  expect_same(&outcomes[0], &outcomes[1]);
}

// The last batch of an epoch has two examples.
TEST(a_run_reports_the_losses_of_steps_run_one_by_one) {
  expect_same_runs((run){.replicas = 1}, 1, LS_OK);
  expect_same_runs((run){.replicas = 2}, 2, LS_OK);
}

TEST(a_loss_that_is_no_number_ends_the_run_at_its_step) {
  expect_same_runs((run){.replicas = 1, .learning_rate = 1e30}, 1,
                   LS_OUT_OF_RANGE);
}

TEST(a_device_that_fails_ends_the_run_with_its_error) {
  static const shim_fault faults[] = {SHIM_UPLOAD, SHIM_EXECUTE,
                                      SHIM_EXECUTE_LATE, SHIM_EXECUTE_EVENT,
                                      SHIM_DOWNLOAD_EVENT};
  for (size_t i = 0; i < LS_COUNT_OF(faults); ++i) {
    shim_state *shim = shim_begin();
    outcome out = {.count = 0};
    {
      LS_OWN(open_place, here) = shim_runtime(1);
      shim->fault = faults[i];
      shim->skip = 20;
      train(&(run){.replicas = 1}, &out);
    }
    if (out.code == LS_OK) fail_msg("fault %d is not reported", faults[i]);
    // Losses may arrive from launches that are reported as failed later.
    assert_in_range(out.result.steps, 1, STEPS - 1);
    assert_int_equal(shim->live_buffers, 0);
    assert_int_equal(shim->live_events, 0);
    assert_int_equal(shim->misuses, 0);
  }
}
