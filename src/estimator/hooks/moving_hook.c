// SPDX-License-Identifier: Apache-2.0
#include "estimator/hooks/moving_hook.h"

#include "train/hooks/hook.h"

// Runs in a row that may leave the step as it is: a train op of a user's may
// count once in several runs, as one that adds gradients up does.
enum { MOST_STEPS = 100, LEAST_RUNS = 2 };

typedef struct moving {
  const char *train_op;
  int64_t most, runs;  // Without a move.
  int64_t step;
} moving;

static ls_status moving_hook_after_create(void *state,
                                          ls_run_context *context) {
  moving *self = state;
  self->runs = 0;
  self->step = context->steps;
  return ls_ok();
}

static ls_status moving_hook_after_run(void *state, ls_run_context *context,
                                       ls_nest results) {
  moving *self = state;
  int64_t step = context->steps;
  (void)results;
  if (step == self->step && ++self->runs < self->most) return ls_ok();
  // What was read in the run may be from before its step.
  if (step == self->step)
    LS_RETURN_IF_ERROR(ls_run_context_steps(context, &step));
  const bool moves = step != self->step;
  self->step = step;
  if (!moves)
    return ls_invalid_argument(
        "the train op '%s' was run %lld times, and the global step is still "
        "%lld: a training would never end; give what ls_train_op makes as the "
        "spec's train_op, or add 1 to the global step",
        self->train_op, (long long)self->runs, (long long)step);
  self->runs = 0;
  return ls_ok();
}

static const ls_hook_type moving_type = {.name = "guard of the global step",
                                         .size = sizeof(moving),
                                         .counts = true,
                                         .after_create_session =
                                             moving_hook_after_create,
                                         .after_run = moving_hook_after_run};

ls_status ls_moving_step_hook(const char *train_op, int64_t steps_per_run,
                              ls_hook **out_hook) {
  const int64_t runs = MOST_STEPS / (steps_per_run > 0 ? steps_per_run : 1);
  return ls_hook_make(&moving_type,
                      &(moving){.train_op = train_op,
                                .most = runs > LEAST_RUNS ? runs : LEAST_RUNS},
                      out_hook);
}
