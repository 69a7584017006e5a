// SPDX-License-Identifier: Apache-2.0
//
// An estimator on a TPU system of its own that learns one number: w with
// w x = y, where x is 1.
#ifndef LS_TESTS_SUPPORT_FITTED_H_
#define LS_TESTS_SUPPORT_FITTED_H_

#include "lockstep/estimator.h"

typedef struct fitted {
  const char *pod, *job, *folder;
  const char *local;  // The shape of the local system. Default: any.
  bool by_name;  // The job is tpu_job_name's, and the system is the master.
  double y;
  ls_tpu_resolver *resolver;
  ls_run_config *config;
  ls_estimator *estimator;
} fitted;

// Makes the estimator; begins with an empty folder.
void fitted_begin(fitted *f);
// Makes the estimator; goes on with what its folder holds.
ls_status fitted_open(fitted *f);
// Makes an estimator of a configuration of the caller's.
ls_status fitted_open_with(fitted *f, const ls_run_config_options *options);
void fitted_end(fitted *f);

ls_input_function fitted_input(fitted *f);
ls_status fitted_train(fitted *f, int64_t steps);
// Returns w as the newest checkpoint has it.
ls_status fitted_weight(const fitted *f, double *out_weight);
void expect_fitted(const fitted *f);

ls_predictions *fitted_predict(fitted *f);
// Expects that the next prediction is y.
void expect_prediction(const fitted *f, ls_predictions *predictions);

#endif  // LS_TESTS_SUPPORT_FITTED_H_
