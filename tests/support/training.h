// SPDX-License-Identifier: Apache-2.0
// A few steps of a reference model on its made-up batch, to be compared with
// the same taken in another way.
#ifndef LS_TESTS_SUPPORT_TRAINING_H_
#define LS_TESTS_SUPPORT_TRAINING_H_

#include "lockstep/models.h"

enum { TRAINING_MOST_STEPS = 8, TRAINING_MOST_VARIABLES = 128 };

typedef struct training_job {
  const char *model;
  int64_t batch;
  int steps;
  int replicas;  // 0: one.
  int threads;   // Of a runtime of its own. 0: the current one.
  ls_model_options options;
} training_job;

typedef struct training {
  int steps;
  double losses[TRAINING_MOST_STEPS];  // The mean over the replicas.
  // Of the model's variables at the end; they outlive the job's runtime.
  ls_array *values[TRAINING_MOST_VARIABLES];
  size_t num_values;
} training;

void training_run(const training_job *job, training *out);
void training_deinit(training *self);

// Losses that are numbers, and get smaller.
void expect_learnt(const training *self);
// The same bytes of all losses and variables.
void expect_same_training(const training *a, const training *b);

#endif  // LS_TESTS_SUPPORT_TRAINING_H_
