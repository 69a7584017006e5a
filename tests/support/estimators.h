// SPDX-License-Identifier: Apache-2.0
// A small model and its input, as an estimator takes them, on every path.
#ifndef LS_TESTS_SUPPORT_ESTIMATORS_H_
#define LS_TESTS_SUPPORT_ESTIMATORS_H_

#include "base/memory/own.h"
#include "lockstep/estimator.h"
#include "lockstep/estimator_export.h"
#include "support/expect.h"
#include "support/spec.h"

// Where it runs.
typedef enum estimator_way { ON_CPU, ON_TPU, IN_STRATEGY } estimator_way;

enum { ESTIMATOR_WIDTH = 6, ESTIMATOR_CLASSES = 3, ESTIMATOR_IDS = 4096 };

typedef struct estimator_case {
  // Zero: its default, which is said behind it.
  estimator_way way;
  int replicas;            // 1
  int64_t batch;           // Of all replicas: 24
  int64_t examples;        // 96
  bool repeats;            // The data has no end.
  const char *iterations;  // A run, on TPUs: "2"
  // A host call of trainings, of a batch's labels, classes and losses, and in
  // which steps.
  ls_nest (*host_call)(ls_nest values, void *user);
  void *host_user;
  ls_opt host_call_every;
  bool any_batch;
  const char *folder;  // model_dir, below the test's; it is cleared first,
  bool goes_on;        //   but for one that goes on.
  ls_opt save_steps;   // Default: no checkpoints by steps.
  ls_estimator_options more;     // What else is set; not what is above.
  ls_run_config_options config;  // The same.
  // What came out.
  ls_estimator *estimator;
  ls_run_config *made_config;
  ls_strategy *strategy;
  int model_calls, input_calls;
  int64_t ids[ESTIMATOR_IDS];  // Of examples that were read, in order.
  int num_ids;
} estimator_case;

// Makes `estimator`, with the model and input below, whose `user` is the case.
void estimator_case_begin(estimator_case *c);
void estimator_case_end(estimator_case *c);
LS_OWNED_STRUCT(estimator_case, estimator_case_end)

ls_input_function estimator_input(estimator_case *c);
// A net of two layers; f32 features [ESTIMATOR_WIDTH] and i32 labels.
// Evaluation says "accuracy" and "mean", of the losses, predictions are
// "probabilities" [n, classes] and "classes" [n].
ls_model_function estimator_model(estimator_case *c);

// Trains up to that step.
ls_training_end estimator_case_train(estimator_case *c, int64_t max_steps);
// A metric's value.
double estimator_metric(ls_nest metrics, const char *name);
// All variables of the newest checkpoint are equal to the byte.
void estimator_cases_expect_equal(const estimator_case *a,
                                  const estimator_case *b, double tolerance);

// Receives what a served model is given: features of any number of rows.
ls_status estimator_receive(void *user, ls_serving_receiver *out);
// The train op of a cross-shard optimizer: SGD with momentum.
ls_status cross_shard_train_op(ls_tensor loss, ls_op *out);
// Evaluates on the case's input; the caller owns the metrics.
ls_nest estimator_evaluate(estimator_case *c, ls_opt steps);
// Predicts on the case's input; the caller owns the predictions.
ls_predictions *estimator_predict(estimator_case *c,
                                  ls_estimator_prediction prediction);

#endif  // LS_TESTS_SUPPORT_ESTIMATORS_H_
