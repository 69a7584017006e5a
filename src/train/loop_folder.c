// SPDX-License-Identifier: Apache-2.0
// A run and its folder: beginning there, going on, saving.
#include <math.h>

#include "train/loop.h"
#include "train/warm_start.h"

// ---- Beginning -------------------------------------------------------------
static ls_status warm_up(ls_loop *it) {
  const ls_train_options *o = &it->plan.options;
  if (o->warm_start == NULL) return ls_ok();
  return ls_run_ranks_agree(
      &it->ranks, ls_warm_start_apply(it->runtime, o->model, o->warm_start));
}

static ls_status resume(ls_loop *it) {
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
  if (it->saves.saved < 0) LS_RETURN_IF_ERROR(warm_up(it));
  it->continues = writes;
  it->result->steps = it->resumed = steps;
  it->began -= (int64_t)(it->saves.seconds * 1e9);
  return ls_ok();
}

static ls_status start(ls_loop *it) {
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

static ls_status replace(ls_loop *it) {
  LS_RETURN_IF_ERROR(ls_run_events_clear(it->runtime, it->folder.path));
  return ls_run_folder_commit(&it->folder, &it->plan.config);
}

ls_status ls_loop_settle(ls_loop *it) {
  if (it->replaces) {
    LS_RETURN_IF_ERROR(ls_run_ranks_agree(
        &it->ranks, ls_run_ranks_writes(&it->ranks) ? replace(it) : ls_ok()));
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
  return it->plan.options.resume ? resume(it) : start(it);
}

// ---- Saving ----------------------------------------------------------------
static size_t list_metrics(const ls_loop *it, ls_checkpoint_metric *out) {
  const double examples = (double)it->kept.examples;
  const ls_evaluation *test = &it->result->test;
  size_t count = 0;
  if (it->kept.examples > 0) {
    out[count++] = (ls_checkpoint_metric){"loss", it->kept.loss / examples};
    if (!isnan(it->kept.accuracy))
      out[count++] =
          (ls_checkpoint_metric){"accuracy", it->kept.accuracy / examples};
  }
  if (it->tested == it->result->steps) {
    out[count++] = (ls_checkpoint_metric){"test_loss", test->loss};
    out[count++] = (ls_checkpoint_metric){"test_accuracy", test->accuracy};
  }
  return count;
}

ls_status ls_loop_save(ls_loop *it) {
  ls_checkpoint_metric metrics[LS_RUN_METRICS];
  const size_t count = list_metrics(it, metrics);
  const int64_t began = ls_span_begin(it->runtime);
  it->saves.seconds = ls_loop_seconds(it, it->began);
  const ls_status status =
      ls_saves_save(&it->saves, it->result->steps, metrics, count);
  it->kept = (ls_window){0};
  it->due = false;
  ls_loop_end_span(it, "save", began, it->result->steps);
  return status;
}

// Ranks have agreed on it beside the stop.
ls_status ls_loop_save_if_due(ls_loop *it) {
  if (it->ranks.trunk == NULL) {
    it->failed = ls_saves_have_failed(&it->saves);
    it->due = ls_saves_due(&it->saves, it->result->steps);
  }
  if (it->failed) LS_RETURN_IF_ERROR(ls_saves_wait(&it->saves));
  it->failed = false;
  return it->due && ls_saves_are_known(&it->saves) ? ls_loop_save(it) : ls_ok();
}

ls_status ls_loop_save_all(ls_loop *it) {
  if (it->saves.folder == NULL) return ls_ok();
  if (it->saves.saved != it->result->steps)
    LS_RETURN_IF_ERROR(ls_loop_save(it));
  LS_RETURN_IF_ERROR(ls_saves_wait(&it->saves));
  return ls_run_folder_save_model(&it->folder, it->plan.options.model,
                                  it->result->steps);
}
