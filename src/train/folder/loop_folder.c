// SPDX-License-Identifier: Apache-2.0
// A run and its folder: beginning there, or going on.
#include "train/folder/warm_start.h"
#include "train/loop.h"

// ---- Beginning -------------------------------------------------------------
static ls_status warm_up(ls_loop *it) {
  const ls_train_options *o = &it->plan.options;
  if (o->warm_start == NULL) return ls_ok();
  return ls_run_ranks_agree(
      &it->ranks, ls_warm_start_apply(it->runtime, o->model, o->warm_start));
}

static ls_status loop_folder_resume(ls_loop *it) {
  const bool writes = ls_run_ranks_writes(&it->ranks);
  int64_t steps = 0;
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      &it->ranks, writes ? ls_run_folder_enter(&it->folder) : ls_ok()));
  LS_RETURN_IF_ERROR(ls_saves_resume(&it->saves, &it->ranks, &steps));
  if (steps > it->plan.num_steps)
    return ls_invalid_argument(
        "the run in '%s' is at step %lld already, beyond the %lld asked for",
        it->saves.folder, (long long)steps, (long long)it->plan.num_steps);
  // What a run began with is in what it has saved.
  if (it->saves.saving.saved < 0) LS_RETURN_IF_ERROR(warm_up(it));
  it->continues = writes;
  it->hooks.context.steps = it->resumed = steps;
  it->place.began -= (int64_t)(it->saves.seconds * 1e9);
  return ls_ok();
}

static ls_status loop_folder_start(ls_loop *it) {
  const bool writes = ls_run_ranks_writes(&it->ranks);
  int64_t replaces = 0, bits = 0;
  LS_RETURN_IF_ERROR(warm_up(it));
  LS_RETURN_IF_ERROR(ls_run_ranks_agree(
      &it->ranks, writes ? ls_run_folder_start(&it->folder, &it->plan.config,
                                               it->plan.options.overwrite)
                         : ls_ok()));
  LS_RETURN_IF_ERROR(
      ls_run_ranks_tell(&it->ranks, it->folder.replaces, &replaces, &bits));
  it->replaces = replaces != 0;
  return it->replaces ? ls_ok() : ls_saves_open(&it->saves, &it->ranks);
}

ls_status ls_loop_settle(ls_loop *it) {
  if (it->replaces) {
    LS_RETURN_IF_ERROR(ls_run_ranks_agree(
        &it->ranks, ls_run_ranks_writes(&it->ranks)
                        ? ls_run_folder_commit(&it->folder, &it->plan.config)
                        : ls_ok()));
    it->replaces = false;
    return ls_saves_open(&it->saves, &it->ranks);
  }
  if (!it->continues) return ls_ok();
  LS_RETURN_IF_ERROR(
      ls_run_folder_continue(&it->folder, &it->plan.config, it->resumed));
  it->continues = false;
  return ls_ok();
}

ls_status ls_loop_begin(ls_loop *it) {
  return it->plan.options.resume ? loop_folder_resume(it)
                                 : loop_folder_start(it);
}
