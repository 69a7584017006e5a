// SPDX-License-Identifier: Apache-2.0
#include "lockstep/function_plan.h"
#include "runtime/function.h"
#include "train/evaluator.h"
#include "train/own_hooks.h"

static ls_status own_tests_run(ls_own_tests *self, ls_run_context *context) {
  ls_run_place *place = self->place;
  ls_evaluation evaluation;
  const int64_t began = ls_span_begin(place->runtime);
  const uint64_t calls =
      ls_function_steps(ls_evaluator_function(self->evaluator));
  const ls_status status =
      ls_evaluator_run(self->evaluator, place->plan->options.stop, &evaluation);
  ls_run_end_span(place, "evaluate", began, ls_run_steps(place));
  if (ls_status_code(status) == LS_CANCELLED) {
    ls_status_free(status);
    ls_run_context_request_stop(context);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(status);
  place->test = evaluation;
  place->tested = ls_run_steps(place);
  place->tested_from = calls;
  return ls_ok();
}

// A run that goes on at the end of an epoch may have been stopped before its
// evaluation.
static ls_status own_tests_create(void *state, ls_run_context *context) {
  ls_own_tests *self = state;
  return self->evaluator != NULL && self->place->again
             ? own_tests_run(self, context)
             : ls_ok();
}

// All ranks ask whether they stop, also those without a test set.
static ls_status own_tests_after(void *state, ls_run_context *context,
                                 ls_nest results) {
  ls_own_tests *self = state;
  const ls_run_place *place = self->place;
  (void)results;
  if (!ls_run_epoch_is_over(place) || place->stops(place->loop)) return ls_ok();
  return self->evaluator != NULL ? own_tests_run(self, context) : ls_ok();
}

const ls_hook_type ls_own_tests_of_epochs = {.name = "",
                                             .after_create_session =
                                                 own_tests_create,
                                             .after_run = own_tests_after};
