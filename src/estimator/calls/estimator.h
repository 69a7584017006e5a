// SPDX-License-Identifier: Apache-2.0
// An estimator inside.
#ifndef LS_ESTIMATOR_CALLS_ESTIMATOR_H_
#define LS_ESTIMATOR_CALLS_ESTIMATOR_H_

#include "base/memory/own.h"
#include "estimator/spec/calls.h"
#include "lockstep/estimator.h"
#include "lockstep/saved_file.h"
#include "lockstep/training_parts.h"

struct ls_estimator {
  ls_runtime *runtime;
  ls_model_function model_fn;
  ls_cache_function caches[LS_NUM_MODES];  // Zeroed: none.
  char *model_dir;
  // With log_step_count_steps unset: what it was is `log_steps`.
  ls_run_config *config;
  ls_opt log_steps;
  ls_nest params;
  bool has_params;
  ls_plans *plans;
  int64_t *batch_axis;
  size_t num_batch_axes;
  bool exports_to_tpu, replica_0_loss, input_end_fails;
  ls_warm_start warm_start;  // Lent; path NULL: none.
  bool has_predictions;      // Some are open.
  char *compile_error;       // Of the last program; NULL: none.
};

LS_OWNED_POINTER(ls_estimator, ls_estimator_destroy)
LS_OWNED_POINTER(ls_run_config, ls_run_config_release)

static inline const ls_run_values *
ls_estimator_run_values(const ls_estimator *self) {
  return ls_run_config_values(self->config);
}

// The steps of the checkpoints in the model's folder: the newest, by its name
// alone; -1: there is none.
LS_MUST_USE ls_status ls_estimator_newest_step(const ls_estimator *self,
                                               int64_t *out_step);
// The newest of which every byte is as it was written; `tells`: the log is told
// of newer ones that are passed over. -1: there is none.
//   LS_DATA_LOSS  there are some, and none is whole.
LS_MUST_USE ls_status ls_estimator_whole_step(const ls_estimator *self,
                                              bool tells, int64_t *out_step);

// The checkpoint with which a call begins: the one that its caller names, which
// is never passed over, or the newest that is whole. Zeroed: there is none.
typedef struct ls_estimator_checkpoint {
  ls_saved_file *file;
  char *path;
} ls_estimator_checkpoint;
LS_MUST_USE ls_status
ls_estimator_checkpoint_open(const ls_estimator *self, const char *given,
                             ls_estimator_checkpoint *out_checkpoint);
void ls_estimator_checkpoint_close(ls_estimator_checkpoint *checkpoint);

#endif  // LS_ESTIMATOR_CALLS_ESTIMATOR_H_
