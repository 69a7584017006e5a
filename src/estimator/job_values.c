// SPDX-License-Identifier: Apache-2.0
// What variables begin with: a checkpoint that was asked for, or another run's
// values.
#include <string.h>

#include "base/text.h"
#include "estimator/job.h"
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

static ls_status restore_from(ls_job *job, ls_session *session,
                              const char *path, const char *collection,
                              const ls_value_choice *choice, bool with_step) {
  ls_saved_file *file = NULL;
  ls_variable **variables = NULL;
  size_t count = 0;
  ls_value_report report;
  LS_RETURN_IF_ERROR(ls_saved_file_open(path, &file));
  ls_status status =
      ls_collection_variables(job->graph, collection, &variables, &count);
  if (ls_status_is_ok(status)) {
    if (!with_step) count = without_step(job->graph, variables, count);
    status = ls_saved_file_restore_part(file,
                                        &(ls_saver){.variables = variables,
                                                    .num_variables = count,
                                                    .session = session},
                                        choice, &report);
  }
  ls_release(ls_current_allocator(), variables);
  ls_saved_file_close(file);
  return status;
}

static ls_status start_warm(void *user, ls_session *session) {
  ls_job *job = user;
  const ls_warm_start *warm = &job->estimator->warm_start;
  LS_RETURN_IF_ERROR(users_init(job, session));
  const char *collection = has_pattern(&warm->values)
                               ? LS_COLLECTION_TRAINABLE_VARIABLES
                               : LS_COLLECTION_GLOBAL_VARIABLES;
  LS_RETURN_IF_ERROR(ls_status_annotate(
      restore_from(job, session, warm->path, collection, &warm->values, false),
      "warm start"));
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "variables start with those of %s", warm->path);
  return ls_ok();
}

static ls_status restore_checkpoint(void *user, ls_session *session) {
  ls_job *job = user;
  static const ls_value_choice all;
  LS_RETURN_IF_ERROR(users_init(job, session));
  LS_RETURN_IF_ERROR(restore_from(job, session, job->checkpoint,
                                  LS_COLLECTION_GLOBAL_VARIABLES, &all, true));
  ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                 "restored %s", job->checkpoint);
  return ls_ok();
}

ls_status ls_job_set_values(ls_job *job, bool from_checkpoint) {
  const ls_warm_start *warm = &job->estimator->warm_start;
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
