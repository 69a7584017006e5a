// SPDX-License-Identifier: Apache-2.0
// A linear model for programs of an estimator, and the same on a mirrored
// strategy.
#ifndef LS_TESTS_SUPPORT_LINEAR_MODEL_H_
#define LS_TESTS_SUPPORT_LINEAR_MODEL_H_

#include "support/programs.h"

typedef struct linear_model {
  ls_variable *w;  // [3, 1].
  ls_optimizer *optimizer;
} linear_model;

// In the current graph. `cross_shard`: its optimizer is one.
void linear_model_make(linear_model *m, bool cross_shard);
void linear_model_drop(linear_model *m);
// Made for a program: begins this, with the model, and builds it.
void linear_program_begin(programs *p, linear_model *m,
                          programs_options options);
ls_tensor linear_model_output(const linear_model *m, ls_nest features);
// The mean of squares over the examples; `mask` may be failed.
ls_tensor linear_model_loss(const linear_model *m, const ls_model_call *call);

// A mirrored strategy with the same first values.
typedef struct linear_reference {
  linear_model m;
  ls_strategy *strategy;
  ls_function *train, *evaluate;
  ls_nest results;
} linear_reference;
void linear_reference_begin(linear_reference *r, int replicas);
void linear_reference_end(linear_reference *r);
// A step on what the program's step is fed: the mean of the losses.
float linear_reference_train(linear_reference *r, const programs *p,
                             int64_t step);
// The loss of each replica.
void linear_reference_losses(linear_reference *r, const programs *p,
                             int64_t step, float *losses);

// The variable has in the program's session what it has there.
void linear_expect_same(programs *p, const linear_model *m,
                        const linear_reference *r);
// The canonical sum of so many.
float canonical_sum(const float *values, int count);

#endif  // LS_TESTS_SUPPORT_LINEAR_MODEL_H_
