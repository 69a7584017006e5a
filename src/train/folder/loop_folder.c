// SPDX-License-Identifier: Apache-2.0
// A run and its folder: beginning there, or going on.
#include "train/folder/warm_start.h"
#include "train/loop.h"

// ---- Beginning -------------------------------------------------------------
static ls_status warm_up(ls_loop *loop) {
  const ls_train_options *o = &loop->plan.options;
  if (o->warm_start == NULL) return ls_ok();
  return ls_run_ranks_agree(
      &loop->ranks,
      ls_warm_start_apply(loop->runtime, o->model, o->warm_start));
}

static ls_status loop_folder_resume(ls_loop *loop) {
  const bool writes = ls_run_ranks_writes(&loop->ranks);
  int64_t steps = 0;
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      &loop->ranks, writes ? ls_run_folder_enter(&loop->folder) : ls_ok()));
  LS_RETURN_IF_ERROR(ls_saves_resume(&loop->saves, &loop->ranks, &steps));
  if (steps > loop->plan.num_steps)
    return ls_invalid_argument(
        "the run in '%s' is at step %lld already, beyond the %lld asked for",
        loop->saves.folder, (long long)steps, (long long)loop->plan.num_steps);
  // What a run began with is in what it has saved.
  if (loop->saves.saving.saved < 0) LS_RETURN_IF_ERROR(warm_up(loop));
  loop->continues = writes;
  loop->hooks.context.steps = loop->resumed = steps;
  loop->began -= (int64_t)(loop->saves.seconds * 1e9);
  return ls_ok();
}

static ls_status loop_folder_start(ls_loop *loop) {
  const bool writes = ls_run_ranks_writes(&loop->ranks);
  int64_t replaces = 0, bits = 0;
  LS_RETURN_IF_ERROR(warm_up(loop));
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      &loop->ranks, writes
                        ? ls_run_folder_start(&loop->folder, &loop->plan.config,
                                              loop->plan.options.overwrite)
                        : ls_ok()));
  LS_RETURN_IF_ERROR(
      ls_run_ranks_tell(&loop->ranks, loop->folder.replaces, &replaces, &bits));
  loop->replaces = replaces != 0;
  return loop->replaces ? ls_ok() : ls_saves_open(&loop->saves, &loop->ranks);
}

ls_status ls_loop_settle(ls_loop *loop) {
  if (loop->replaces) {
    LS_RETURN_IF_ERROR(ls_run_ranks_agree(
        &loop->ranks,
        ls_run_ranks_writes(&loop->ranks)
            ? ls_run_folder_commit(&loop->folder, &loop->plan.config)
            : ls_ok()));
    loop->replaces = false;
    return ls_saves_open(&loop->saves, &loop->ranks);
  }
  if (!loop->continues) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_run_folder_continue(&loop->folder, &loop->plan.config, loop->resumed));
  loop->continues = false;
  return ls_ok();
}

ls_status ls_loop_begin(ls_loop *loop) {
  return loop->plan.options.resume ? loop_folder_resume(loop)
                                   : loop_folder_start(loop);
}
