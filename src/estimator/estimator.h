// SPDX-License-Identifier: Apache-2.0
// An estimator inside.
#ifndef LS_ESTIMATOR_ESTIMATOR_H_
#define LS_ESTIMATOR_ESTIMATOR_H_

#include "estimator/calls.h"
#include "lockstep/estimator.h"

struct ls_estimator {
  ls_runtime *runtime;
  ls_model_function model_fn;
  ls_cache_function train_cache, eval_cache;
  char *model_dir;
  // With log_step_count_steps unset: what it was is `log_steps`.
  ls_run_config *config;
  ls_opt log_steps;
  ls_nest params;
  bool has_params;
  ls_estimator_context context;
  int64_t *batch_axis;
  size_t num_batch_axes;
  bool exports_to_tpu, any_batch, replica_0_loss, input_end_fails;
  ls_warm_start warm_start;  // Lent; path NULL: none.
  bool has_predictions;      // Some are open.
  char *compile_error;       // Of the last program; NULL: none.
};

static inline const ls_run_values *
ls_estimator_run_values(const ls_estimator *self) {
  return ls_run_config_values(self->config);
}

// The step of the newest checkpoint in the model's folder; -1: there is none.
LS_MUST_USE ls_status ls_estimator_saved_step(const ls_estimator *self,
                                              int64_t *out_step);
// That of the newest of which every byte is as it was written.
//   LS_DATA_LOSS  there is none like that.
LS_MUST_USE ls_status ls_estimator_whole_step(const ls_estimator *self,
                                              int64_t *out_step);
// That with which a call begins: the one given, or the newest, whose path is
// written to `newest`; NULL: there is none.
LS_MUST_USE ls_status ls_estimator_find_checkpoint(const ls_estimator *self,
                                                   const char *given,
                                                   char *newest,
                                                   size_t capacity,
                                                   const char **out_path);
// Adds to what is said of a damaged one which of the model's is whole.
LS_MUST_USE ls_status ls_estimator_tell_whole(const ls_estimator *self,
                                              const char *checkpoint,
                                              ls_status status);

#endif  // LS_ESTIMATOR_ESTIMATOR_H_
