// SPDX-License-Identifier: Apache-2.0
// The place in the input, as part of checkpoints: behind the steps that were
// made, and behind the last at the end of the data, where the next epoch
// begins.
#include <stdio.h>

#include "estimator/calls/job.h"

enum { NAME_ROOM = 32 };

static ls_status input_state_save(void *self, ls_record *record) {
  const ls_job *job = self;
  char name[NAME_ROOM];
  const size_t count = job->num_iterators;
  if (job->device_hook != NULL) ls_device_hook_settle(job->device_hook);
  LS_RETURN_IF_ERROR(ls_record_set_i64(record, "count", (int64_t)count));
  for (size_t i = 0; i < count; ++i) {
    ls_record *one = NULL;
    if (job->input_ended)
      LS_RETURN_IF_ERROR(ls_iterator_restart(job->iterators[i]));
    snprintf(name, sizeof(name), "%zu", i);
    LS_RETURN_IF_ERROR(ls_record_add(record, name, &one));
    LS_RETURN_IF_ERROR(ls_iterator_save(job->iterators[i], one));
  }
  return ls_ok();
}

static ls_status input_state_restore_all(const ls_job *job,
                                         const ls_record *record) {
  char name[NAME_ROOM];
  const size_t count = job->num_iterators;
  int64_t saved = 0;
  LS_RETURN_IF_ERROR(ls_record_get_i64(record, "count", &saved));
  if (saved != (int64_t)count)
    return ls_invalid_argument("the checkpoint has places in %lld data sets, "
                               "the input has %zu",
                               (long long)saved, count);
  for (size_t i = 0; i < count; ++i) {
    const ls_record *one = NULL;
    snprintf(name, sizeof(name), "%zu", i);
    LS_RETURN_IF_ERROR(ls_record_find(record, name, &one));
    LS_RETURN_IF_ERROR(ls_iterator_restore(job->iterators[i], one));
  }
  return ls_ok();
}

// What says that the place is in another input: it is not there, or not of
// this one. Of anything else nobody knows which input it was.
static bool is_of_another(const ls_status status) {
  const ls_code code = ls_status_code(status);
  return code == LS_INVALID_ARGUMENT || code == LS_NOT_FOUND;
}

// Training goes on with another input from its start: users may mean that.
static ls_status input_state_restore(void *self, const ls_record *record) {
  ls_job *job = self;
  const ls_status status = input_state_restore_all(job, record);
  const bool refused = !ls_status_is_ok(status);
  job->restored = !refused;
  if (refused && !is_of_another(status)) return status;
  if (refused)
    ls_runtime_log(job->estimator->runtime, LS_LOG_WARNING, "estimator",
                   "the input is another one than at the checkpoint, and "
                   "begins anew: %s",
                   ls_status_message(status));
  ls_status_free(status);
  if (refused)
    for (size_t i = 0; i < job->num_iterators; ++i)
      LS_RETURN_IF_ERROR(ls_iterator_seek_epoch(job->iterators[i], 0));
  else if (job->afresh)
    for (size_t i = 0; i < job->num_iterators; ++i)
      LS_RETURN_IF_ERROR(ls_iterator_restart(job->iterators[i]));
  return ls_ok();
}

void ls_job_set_state(ls_job *job) {
  job->state = (ls_saveable){.name = "input",
                             .self = job,
                             .save = input_state_save,
                             .restore = input_state_restore};
}
