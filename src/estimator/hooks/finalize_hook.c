// SPDX-License-Identifier: Apache-2.0
// Scaffolds are finalized behind what all hooks add to the graph, and nothing
// that is made then may reach into the program.
#include "estimator/calls/job.h"
#include "train/hooks/hook.h"

static ls_status begin(void *user) {
  ls_job *job = user;
  return ls_program_finalize(&job->scaffold, job->graph);
}

ls_status ls_job_finalize_hook(ls_job *job, ls_hook **out_hook) {
  // It asks for the step, so that nobody does behind it: the graph is frozen.
  return ls_hook_of_steps(&(ls_hook_options){.user = job, .begin = begin}, true,
                          out_hook);
}
