// SPDX-License-Identifier: Apache-2.0
// Initial values of a job's variables, from a checkpoint or another run; and
// the position in the input, as part of checkpoints.
#include <stdio.h>
#include <string.h>

#include "base/plain.h"
#include "estimator/calls/job.h"
#include "lockstep/saved_file.h"
#include "state/own.h"
#include "state/record.h"
#include "train/hooks/saving.h"

static ls_status users_init(const ls_job *job, ls_session *session) {
  return job->init_fn == NULL ? ls_ok() : job->init_fn(job->init_user, session);
}

static bool has_pattern(const ls_value_choice *choice) {
  for (size_t i = 0; choice->only != NULL && i < choice->num_only; ++i)
    if (strpbrk(choice->only[i], "*?[") != NULL) return true;
  return false;
}

// Removes the global step from `variables`, whose order stays; returns the
// number of those left.
static size_t without_step(ls_graph *graph, ls_variable **variables,
                           size_t count) {
  ls_variable *step = NULL;
  size_t kept = 0;
  ls_status_free(ls_global_step_get(graph, &step));
  for (size_t i = 0; i < count; ++i)
    if (variables[i] != step) variables[kept++] = variables[i];
  return kept;
}

// ---- Values without a checkpoint -------------------------------------------
// State of restoring from an export or a file of values, which has only a
// model's values. The optimizer's variables keep their initial values, unless
// the user forbids missing values.
typedef struct values_alone {
  const ls_value_choice *users;
  ls_variable **trained;
  size_t num_trained;
  ls_status fault;  // The first trained variable that is missing.
  size_t others;    // Number of other missing variables; one of them is
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
    self->fault =
        ls_not_found("'%s' has no array '%s', which variable '%s' of %s needs",
                     self->path, note->entry, note->variable,
                     LS_SHAPE_TEXT(note->type.dtype, note->type.shape));
  }
}

static ls_status restore_values(ls_job *job, const ls_saved_file *file,
                                const ls_saver *saver,
                                const ls_value_choice *choice) {
  ls_saved_info info;
  ls_value_report report;
  ls_saved_file_describe(file, &info);
  // All variables may be wanted from a file that is no checkpoint.
  if (info.step >= 0 || choice->only != NULL ||
      choice->missing != LS_FLAG_DEFAULT)
    return ls_saved_file_restore_part(file, saver, choice, &report);
  values_alone values = {.users = choice, .path = info.path};
  LS_RETURN_IF_ERROR(
      ls_collection_variables(job->graph, LS_COLLECTION_TRAINABLE_VARIABLES,
                              &values.trained, &values.num_trained));
  ls_value_choice all = *choice;
  all.missing = LS_FLAG_ON;
  all.tell = job_values_look_at;
  all.user = &values;
  const ls_status status =
      ls_saved_file_restore_part(file, saver, &all, &report);
  ls_release(ls_current_allocator(), values.trained);
  if (values.others > 0)
    ls_runtime_log(job->estimator->runtime, LS_LOG_INFO, "estimator",
                   "'%s' has no values of %zu variables that are not trained, "
                   "'%s' the first: they begin with their own",
                   info.path, values.others, values.other);
  return ls_status_join(status, values.fault);
}

// Restores variables from an open file.
static ls_status restore_from(ls_job *job, ls_session *session,
                              const ls_saved_file *file, const char *collection,
                              const ls_value_choice *choice, bool with_step) {
  LS_OWN_MEMORY(ls_current_allocator(), ls_variable *, variables) = NULL;
  size_t count = 0;
  LS_RETURN_IF_ERROR(
      ls_collection_variables(job->graph, collection, &variables, &count));
  if (!with_step) count = without_step(job->graph, variables, count);
  const ls_saver saver = {
      .variables = variables, .num_variables = count, .session = session};
  return with_step ? ls_saved_file_restore_part(file, &saver, choice, NULL)
                   : restore_values(job, file, &saver, choice);
}

static ls_status restore_others(ls_job *job, ls_session *session,
                                const ls_warm_start *warm) {
  LS_OWN(ls_saved_file, file) = NULL;
  const char *collection = has_pattern(&warm->values)
                               ? LS_COLLECTION_TRAINABLE_VARIABLES
                               : LS_COLLECTION_GLOBAL_VARIABLES;
  LS_RETURN_IF_ERROR(ls_saved_file_open(warm->path, &file));
  return restore_from(job, session, file, collection, &warm->values, false);
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
  if (!from_checkpoint && warm->path == NULL) return ls_ok();
  job->scaffold.init_fn = from_checkpoint ? restore_checkpoint : start_warm;
  job->scaffold.init_user = job;
  return ls_ok();
}

// ---- The position in the input ---------------------------------------------
// Saves the position after the steps made so far. At the end of the data, that
// is the start of the next epoch.
enum { NAME_ROOM = 32 };

// Copies the record of one rank, which is full there, to all.
static ls_status share_record(ls_ranks *ranks, int32_t from,
                              ls_record *record) {
  const bool own = (int32_t)ls_ranks_own(ranks) == from;
  ls_allocator *allocator = ranks->allocator;
  LS_OWN(ls_record, read) = NULL;
  LS_OWN_MEMORY(allocator, char, text) = NULL;
  char *printed = NULL;
  size_t size = 0;
  if (own) LS_RETURN_IF_ERROR(ls_record_to_text(record, &printed, &size));
  const ls_status status = ls_ranks_send_text(ranks, from, printed, &text);
  ls_text_release(printed);
  if (!ls_status_is_ok(status) || own) return status;
  LS_RETURN_IF_ERROR(
      ls_record_from_text("an input", text, strlen(text), &read));
  return ls_record_copy(record, read);
}

// Returns true if this rank draws from an iterator.
static bool draws(const ls_job *job, size_t i) {
  return job->ranks.communicator == NULL ||
         job->feed.ranks[i] == (int32_t)ls_ranks_own(&job->ranks);
}

// Saves the position of an iterator, on the rank that draws from it.
static ls_status save_iterator(ls_job *job, size_t i, ls_record *record) {
  ls_iterator *iterator = job->iterators[i];
  if (draws(job, i) && job->input_ended && !job->restarted)
    LS_RETURN_IF_ERROR(ls_iterator_restart(iterator));
  if (draws(job, i)) LS_RETURN_IF_ERROR(ls_iterator_save(iterator, record));
  return job->ranks.communicator == NULL
             ? ls_ok()
             : share_record(&job->ranks, job->feed.ranks[i], record);
}

static ls_status input_state_save(void *self, ls_record *record) {
  ls_job *job = self;
  char name[NAME_ROOM];
  const size_t count = job->num_iterators;
  if (job->device_hook != NULL) ls_device_hook_settle(job->device_hook);
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "count", (int64_t)count));
  for (size_t i = 0; i < count; ++i) {
    ls_record *one = NULL;
    snprintf(name, sizeof(name), "%zu", i);
    LS_RETURN_IF_ERROR(ls_record_add(record, name, &one));
    LS_RETURN_IF_ERROR(save_iterator(job, i, one));
  }
  job->restarted = job->input_ended;
  return ls_ok();
}

static ls_status input_state_restore_all(const ls_job *job,
                                         const ls_record *record) {
  char name[NAME_ROOM];
  const size_t count = job->num_iterators;
  int64_t saved = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "count", &saved));
  if (saved != (int64_t)count)
    return ls_invalid_argument(
        "the checkpoint has places in %lld data sets, the input has %zu",
        (long long)saved, count);
  for (size_t i = 0; i < count; ++i) {
    const ls_record *one = NULL;
    if (!draws(job, i)) continue;
    snprintf(name, sizeof(name), "%zu", i);
    LS_RETURN_IF_ERROR(ls_record_find(record, name, &one));
    LS_RETURN_IF_ERROR(ls_iterator_restore(job->iterators[i], one));
  }
  return ls_ok();
}

// Returns true if an error means that the saved position is of another input.
// Other errors do not concern the input.
static bool is_of_another(const ls_status status) {
  const ls_code code = ls_status_code(status);
  return code == LS_INVALID_ARGUMENT || code == LS_NOT_FOUND;
}

// Restores the position in the input. If the input has changed, it starts from
// its beginning, because the user may have changed it on purpose; so it does
// after a checkpoint of another program, whose record is empty.
static ls_status input_state_restore(void *self, const ls_record *record) {
  ls_job *job = self;
  const bool is_saved = ls_map_count(&record->entries) > 0;
  const ls_status status =
      is_saved ? input_state_restore_all(job, record)
               : ls_not_found("the checkpoint has no position in the input");
  bool refused = !ls_status_is_ok(status);
  if (refused && !is_of_another(status)) return status;
  LS_OWN(ls_status, asked) = ls_ranks_any(&job->ranks, refused, &refused);
  job->restored = !refused;
  if (!ls_status_is_ok(status))
    ls_runtime_log(job->estimator->runtime, LS_LOG_WARNING, "estimator",
                   "the input starts from the beginning: %s%s",
                   is_saved ? "it differs from that of the checkpoint: " : "",
                   ls_status_message(status));
  ls_status_free(status);
  for (size_t i = 0; i < job->num_iterators; ++i) {
    if (!draws(job, i)) continue;
    if (refused)
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(job->iterators[i], 0));
    else if (job->afresh)
      LS_RETURN_IF_ERROR(ls_iterator_restart(job->iterators[i]));
  }
  return ls_give(&asked);
}

void ls_job_set_state(ls_job *job) {
  job->state = (ls_saveable){.name = "input",
                             .self = job,
                             .save = input_state_save,
                             .restore = input_state_restore};
}
