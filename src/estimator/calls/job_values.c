// SPDX-License-Identifier: Apache-2.0
// What variables begin with: a checkpoint that was asked for, or another run's
// values.
#include <string.h>

#include "base/plain.h"
#include "base/text.h"
#include "estimator/calls/job.h"
#include "lockstep/saved_file.h"
#include "train/hooks/saved.h"

// A job's; lives as long as its scaffold.
static ls_status users_init(const ls_job *job, ls_session *session) {
  return job->init_fn == NULL ? ls_ok() : job->init_fn(job->init_user, session);
}

static bool has_pattern(const ls_value_choice *choice) {
  for (size_t i = 0; choice->only != NULL && i < choice->num_only; ++i)
    if (strpbrk(choice->only[i], "*?[") != NULL) return true;
  return false;
}

// Variables but the global step: `*variables` keeps the rest in its order.
static size_t without_step(ls_graph *graph, ls_variable **variables,
                           size_t count) {
  ls_variable *step = NULL;
  size_t kept = 0;
  ls_status_free(ls_global_step_get(graph, &step));
  for (size_t i = 0; i < count; ++i)
    if (variables[i] != step) variables[kept++] = variables[i];
  return kept;
}

// ---- Values alone ----------------------------------------------------------
// An export, or a file of values, has what a model is: what its optimizer keeps
// begins with its own values, unless the user says that nothing may be missing.
typedef struct values_alone {
  const ls_value_choice *users;
  ls_variable **trained;
  size_t num_trained;
  ls_status fault;  // The first that is trained, and not there.
  size_t others;    // Not there either; one of them is
  char other[128];
  const char *path;
} values_alone;

static bool is_trained(const values_alone *self, const char *name) {
  for (size_t i = 0; i < self->num_trained; ++i)
    if (strcmp(ls_variable_name(self->trained[i]), name) == 0) return true;
  return false;
}

static void job_values_look_at(void *user, const ls_value_note *note) {
  values_alone *self = user;
  const ls_value_choice *users = self->users;
  if (users->tell != NULL) users->tell(users->user, note);
  if (note->fate != LS_VALUE_MISSING) return;
  if (!is_trained(self, note->variable)) {
    if (self->others++ == 0)
      ls_format(self->other, sizeof(self->other), "%s", note->variable);
  } else if (ls_status_is_ok(self->fault)) {
    self->fault = ls_not_found(
        "'%s' holds no array '%s', which variable '%s' of %s needs", self->path,
        note->entry, note->variable,
        LS_SHAPE_TEXT(note->type.dtype, note->type.shape));
  }
}

// Whether `choice` is of all there is in a file without a checkpoint's notes.
static bool takes_values_alone(const ls_saved_info *info,
                               const ls_value_choice *choice) {
  return info->step < 0 && choice->only == NULL &&
         choice->missing == LS_FLAG_DEFAULT;
}

static ls_status restore_values(ls_job *job, const ls_saved_file *file,
                                const ls_saver *saver,
                                const ls_value_choice *choice) {
  ls_saved_info info;
  ls_value_report report;
  ls_saved_file_describe(file, &info);
  if (!takes_values_alone(&info, choice))
    return ls_saved_file_restore_part(file, saver, choice, &report);
  values_alone it = {.users = choice, .path = info.path};
  LS_RETURN_IF_ERROR(ls_collection_variables(job->graph,
                                             LS_COLLECTION_TRAINABLE_VARIABLES,
                                             &it.trained, &it.num_trained));
  ls_value_choice all = *choice;
  all.missing = LS_FLAG_ON;
  all.tell = job_values_look_at;
  all.user = &it;
  const ls_status status =
      ls_saved_file_restore_part(file, saver, &all, &report);
  ls_release(ls_current_allocator(), it.trained);
  if (it.others > 0)
    ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                   "'%s' has no values of %zu variables that are not trained, "
                   "'%s' the first: they begin with their own",
                   info.path, it.others, it.other);
  return ls_status_join(status, it.fault);
}

// What is restored from: an open file, or one of another run by its path.
static ls_status restore_from(ls_job *job, ls_session *session,
                              const ls_saved_file *file, const char *collection,
                              const ls_value_choice *choice, bool with_step) {
  ls_variable **variables = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_collection_variables(job->graph, collection, &variables, &count));
  if (!with_step) count = without_step(job->graph, variables, count);
  const ls_saver saver = {
      .variables = variables, .num_variables = count, .session = session};
  const ls_status status =
      with_step ? ls_saved_file_restore_part(file, &saver, choice, NULL)
                : restore_values(job, file, &saver, choice);
  ls_release(ls_current_allocator(), variables);
  return status;
}

static ls_status restore_others(ls_job *job, ls_session *session,
                                const ls_warm_start *warm) {
  ls_saved_file *file = NULL;
  const char *collection = has_pattern(&warm->values)
                               ? LS_COLLECTION_TRAINABLE_VARIABLES
                               : LS_COLLECTION_GLOBAL_VARIABLES;
  LS_RETURN_IF_ERROR(ls_saved_file_open(warm->path, &file));
  const ls_status status =
      restore_from(job, session, file, collection, &warm->values, false);
  ls_saved_file_close(file);
  return status;
}

static ls_status start_warm(void *user, ls_session *session) {
  ls_job *job = user;
  const ls_warm_start *warm = &job->estimator->warm_start;
  LS_RETURN_IF_ERROR(users_init(job, session));
  LS_RETURN_IF_ERROR(
      ls_status_annotate(restore_others(job, session, warm), "warm start"));
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "variables start with those of %s", warm->path);
  return ls_ok();
}

static ls_status restore_checkpoint(void *user, ls_session *session) {
  ls_job *job = user;
  static const ls_value_choice all;
  LS_RETURN_IF_ERROR(users_init(job, session));
  LS_RETURN_IF_ERROR(restore_from(job, session, job->checkpoint->file,
                                  LS_COLLECTION_GLOBAL_VARIABLES, &all, true));
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "restored %s", job->checkpoint->path);
  return ls_ok();
}

ls_status ls_job_set_values(ls_job *job) {
  const bool from_checkpoint =
      job->checkpoint != NULL && job->checkpoint->file != NULL;
  const ls_warm_start *warm = &job->estimator->warm_start;
  const ls_estimator_mode mode = job->calls.plan->mode;
  if (!from_checkpoint && mode != LS_MODE_TRAIN)
    ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                   "there is no checkpoint in %s: %s begins with %s",
                   job->estimator->model_dir, ls_estimator_mode_name(mode),
                   warm->path != NULL ? warm->path : "initial values");
  job->init_fn = job->scaffold.init_fn;
  job->init_user = job->scaffold.init_user;
  job->scaffold.init_user = job;
  if (from_checkpoint) {
    job->scaffold.init_fn = restore_checkpoint;
  } else if (warm->path != NULL) {
    job->scaffold.init_fn = start_warm;
  } else {
    job->scaffold.init_fn = job->init_fn;
    job->scaffold.init_user = job->init_user;
  }
  return ls_ok();
}
