// SPDX-License-Identifier: Apache-2.0
//
// Hooks, estimators and their results, used and released while another runtime
// is current than the one that they were made under.
#include "estimator/own.h"
#include "lockstep/allocator.h"
#include "lockstep/early_stopping.h"
#include "support/counted.h"
#include "support/expect.h"
#include "support/fitted.h"
#include "support/waits.h"

static ls_status make_hooks(ls_hook **hooks) {
  const char *const names[] = {"loss", "rate"};
  LS_RETURN_IF_ERROR(ls_nan_hook_named("loss", LS_FLAG_ON, hooks++));
  LS_RETURN_IF_ERROR(ls_log_hook(
      &(ls_log_hook_options){
          .names = names, .num_values = 2, .every_steps = LS_SOME(1)},
      hooks++));
  LS_RETURN_IF_ERROR(ls_saver_hook(
      &(ls_saver_hook_options){.folder = "a", .every_steps = LS_SOME(1)},
      hooks++));
  LS_RETURN_IF_ERROR(ls_profiler_hook("a", LS_SOME(1), (ls_opt){0}, hooks++));
  LS_RETURN_IF_ERROR(ls_summary_hook(
      &(ls_summary_hook_options){.every_steps = LS_SOME(1)}, hooks++));
  return ls_hook_create(&(ls_hook_options){.name = "mine"}, hooks);
}

TEST(hooks_are_released_under_any_runtime) {
  LS_OWN(counted, c) = counted_begin(1);
  ls_hook *hooks[6] = {NULL};
  expect_ok(make_hooks(hooks));
  ls_runtime_make_current(c.outside);
  for (size_t i = 0; i < LS_COUNT_OF(hooks); ++i)
    ls_hook_release(hooks[i]);
  assert_ptr_equal(ls_runtime_make_current(c.runtime), c.outside);
}

TEST(estimators_and_their_results_are_released_under_any_runtime) {
  LS_OWN(counted, c) = counted_begin(1);
  fitted f = {
      .pod = "virtual:2x1,cores=1", .job = "red", .folder = "other", .y = 2};
  fitted_begin(&f);
  ls_train_and_evaluation end = {0};
  ls_exporter *exporter = NULL;
  char **names = NULL;
  size_t count = 0;
  expect_ok(ls_train_and_evaluate(
      f.estimator,
      &(ls_train_spec){.input = fitted_input(&f), .max_steps = LS_SOME(8)},
      &(ls_eval_spec){.input = fitted_input(&f), .steps = LS_SOME(1)}, &end));
  expect_ok(ls_exporter_create(
      &(ls_exporter_options){.name = "a", .receiver = {.call = waits_receive}},
      &exporter));
  expect_ok(ls_estimator_variable_names(f.estimator, &names, &count));
  assert_true(count > 0);
  ls_predictions *open = fitted_predict(&f);
  ls_runtime_make_current(c.outside);
  for (int i = 0; i < 20; ++i) {
    LS_OWN(ls_nest, row) = ls_none();
    expect_ok(ls_predictions_next(open, &row));
  }
  expect_ok(ls_predictions_close(open));
  ls_estimator_free_names(names, count);
  ls_train_and_evaluation_deinit(&end);
  ls_exporter_destroy(exporter);
  fitted_end(&f);
  assert_ptr_equal(ls_runtime_make_current(c.runtime), c.outside);
}
