// SPDX-License-Identifier: Apache-2.0
// The chain of a training's folder: a listener of its saver adds lines.
#include <stdio.h>

#include "base/status_cause.h"
#include "engine/backend.h"
#include "estimator/calls/job.h"
#include "train/folder/saves.h"

// ---- Lines of metrics ------------------------------------------------------
// Adds the lines of metrics.jsonl that were written since.
static ls_status add_new_lines(ls_job_chain *self, const char *folder) {
  ls_text_clear(&self->path);
  ls_text_append_format(&self->path, "%s/metrics.jsonl", folder);
  LS_RETURN_IF_ERROR(ls_text_status(&self->path));
  return ls_status_unless(
      ls_part_add_file(&self->reader, ls_text_data(&self->path),
                       (int64_t)self->lines.bytes, -1, &self->lines),
      LS_NOT_FOUND);
}

// ---- The beginning ---------------------------------------------------------
static ls_status identify_data(ls_job_chain *self, ls_runtime *runtime) {
  uint64_t contents = 0;
  if (self->data != NULL)
    LS_RETURN_IF_ERROR(ls_train_identify_data(runtime, self->data, &contents));
  snprintf(self->identity, sizeof(self->identity), "%016llx",
           (unsigned long long)contents);
  return ls_ok();
}

// Begins the chain, or goes on with it from a step, whose lines of metrics are
// the last ones.
static ls_status begin_chain_at(ls_job *job, int64_t step) {
  ls_job_chain *self = &job->chain;
  ls_runtime *runtime = job->estimator->runtime;
  const ls_run_values *config = ls_estimator_run_values(job->estimator);
  ls_backend *backend = NULL;
  const bool resumes = self->goes_on;
  self->goes_on = true;
  self->step = step - 1;
  ls_part_begin(&self->lines);
  ls_chain_deinit(&self->chain);
  LS_RETURN_IF_ERROR(add_new_lines(self, job->estimator->model_dir));
  LS_RETURN_IF_ERROR(ls_runtime_backend(runtime, &backend));
  LS_RETURN_IF_ERROR(identify_data(self, runtime));
  return ls_chain_begin(
      &self->chain, runtime,
      &(ls_chain_start){.folder = job->estimator->model_dir,
                        .resumes = resumes,
                        .attest = self->attest,
                        .step = step,
                        .keep = config->keep_checkpoint_max.value,
                        .config = self->config,
                        .numerics = backend->vtable->numerics_id(backend),
                        .identity = self->identity,
                        .train = self->data,
                        .metrics = &self->lines.sha});
}

// The chain's line comes before hooks of the caller begin, which may write the
// configuration: killed after it, the run fits the line or the one before it.
static ls_status begin_chain(void *user) {
  ls_job *job = user;
  return begin_chain_at(job, job->chain.first_step);
}

// ---- Saves -----------------------------------------------------------------
// Begins again if a new session goes on from an earlier step.
static ls_status before_save(void *user, ls_session *session, int64_t step) {
  ls_job *job = user;
  ls_job_chain *self = &job->chain;
  (void)session;
  if (step <= self->step) LS_RETURN_IF_ERROR(begin_chain_at(job, step));
  self->step = step;
  LS_RETURN_IF_ERROR(add_new_lines(self, job->estimator->model_dir));
  self->chain.metrics = self->lines.sha;
  return ls_ok();
}

static ls_status after_save(void *user, ls_session *session, int64_t step,
                            bool *out_stop) {
  ls_chain *chain = &((ls_job *)user)->chain.chain;
  (void)session, (void)out_stop;
  return chain->runtime != NULL ? ls_chain_save(chain, step) : ls_ok();
}

static ls_status end_chain(void *user, ls_session *session, int64_t step) {
  ls_job *job = user;
  ls_job_chain *self = &job->chain;
  (void)session;
  LS_RETURN_IF_ERROR(add_new_lines(self, job->estimator->model_dir));
  return ls_chain_end(&self->chain, step, NULL, ls_job_is_stopped(job),
                      &self->lines.sha);
}

// ---- Calls -----------------------------------------------------------------
// Finds out if there is a chain. One of a run without a checkpoint, which was
// killed, is removed.
static ls_status find_chain(ls_job *job, bool goes_on, bool *out_has) {
  const ls_file_system *files = ls_runtime_files(job->estimator->runtime);
  ls_text *path = &job->chain.path;
  ls_text_clear(path);
  ls_text_append_format(path, "%s/" LS_CHAIN_FILE, job->estimator->model_dir);
  LS_RETURN_IF_ERROR(ls_text_status(path));
  LS_RETURN_IF_ERROR(files->exists(files->user, ls_text_data(path), out_has));
  if (goes_on || !*out_has) return ls_ok();
  *out_has = false;
  return files->remove(files->user, ls_text_data(path));
}

ls_status ls_job_attest(ls_job *job, const ls_training_lines *wanted,
                        int64_t saved) {
  ls_job_chain *self = &job->chain;
  bool has = false;
  if (!ls_plan_leads(job->calls.plan)) return ls_ok();
  self->path.allocator = ls_current_allocator();
  LS_RETURN_IF_ERROR(find_chain(job, saved >= 0, &has));
  if (!wanted->attest && !has) return ls_ok();
  self->reader.runtime = job->estimator->runtime;
  self->attest = wanted->attest;
  self->config = wanted->config != NULL ? wanted->config : "{}";
  self->goes_on = saved >= 0;
  self->first_step = saved > 0 ? saved : 0;
  if (job->num_iterators > 0)
    self->data = ls_iterator_dataset(job->iterators[0]);
  return ls_saver_hooks_add_listeners(
      job->hooks.hooks, job->hooks.count,
      &(ls_save_listener){.user = job,
                          .begin = begin_chain,
                          .before_save = before_save,
                          .after_save = after_save,
                          .end = end_chain},
      1);
}

void ls_job_chain_deinit(ls_job_chain *self) {
  ls_chain_deinit(&self->chain);
  ls_part_reader_deinit(&self->reader);
  if (self->path.allocator != NULL) ls_text_deinit(&self->path);
}
