// SPDX-License-Identifier: Apache-2.0
// A few steps of a reference model on its made-up batch, to be compared with
// the same taken in another way.
#ifndef LS_TESTS_SUPPORT_TRAINING_H_
#define LS_TESTS_SUPPORT_TRAINING_H_

#include <stdbool.h>

#include "base/memory/own.h"
#include "lockstep/models.h"
#include "lockstep/strategy.h"

LS_OWNED_STRUCT(ls_model, ls_model_destroy)

enum { TRAINING_MOST_STEPS = 50, TRAINING_MOST_VARIABLES = 256 };

typedef struct training_job {
  const char *model;
  const ls_model_type *type;  // Of no table. NULL: `model`'s.
  int64_t batch;
  int steps;
  int replicas;  // 0: one.
  int threads;   // Of a runtime of its own. 0: the current one.
  ls_model_options options;
  // What must not matter.
  bool more_results;   // The step also gives the logits after the update.
  const char *before;  // This model is made and run first, and stays.
  // Of the runtime of its own.
  ls_math math;
  const char *isa;    // The value of LS_ISA. NULL: the environment's.
  const char *lanes;  // The same of LS_LANES.
} training_job;

typedef struct training {
  int steps;
  double losses[TRAINING_MOST_STEPS];  // The mean over the replicas.
  // Of the model's variables and then of its optimizer's, at the end; they
  // outlive the job's runtime.
  ls_array *values[TRAINING_MOST_VARIABLES];
  size_t num_values;
} training;

// A model, its batch and a compiled step, under the current runtime. Zeroed:
// nothing to destroy.
typedef struct training_setup {
  ls_model model;
  ls_nest args, results;
  ls_function *function;
  ls_strategy *strategy;
  bool more_results;
} training_setup;
// Of a job's model, batch, replicas, options and results.
void training_setup_create(const training_job *job, training_setup *out);
ls_status training_setup_step(training_setup *self);
double training_setup_loss(const training_setup *self);  // Of the last step.
void training_setup_destroy(training_setup *self);

// A small job on one thread and one replica for each reference model, smaller
// where a sanitizer makes it slow. `before` is another model.
enum { TRAINING_MODELS = 6 };
training_job training_small_job(size_t index);

void training_run(const training_job *job, training *out);
void training_deinit(training *self);
LS_OWNED_STRUCT(training, training_deinit)

// Losses that are numbers, and get smaller.
void expect_learnt(const training *self);
// The same bytes of all losses and variables.
void expect_same_training(const training *a, const training *b);
// The same bytes again from a job that differs by what must not matter.
void expect_same_outcome(const training *want, const training_job *job);
// The same bytes on one thread and on each of these numbers of them.
void expect_any_threads(training_job job, const int *threads, size_t count);

#endif  // LS_TESTS_SUPPORT_TRAINING_H_
