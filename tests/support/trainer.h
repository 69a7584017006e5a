// SPDX-License-Identifier: Apache-2.0
// A model with all that a step of it needs, to be run again and again.
#ifndef LS_TESTS_SUPPORT_TRAINER_H_
#define LS_TESTS_SUPPORT_TRAINER_H_

#include "lockstep/session.h"
#include "lockstep/strategy.h"
#include "support/mlp.h"

typedef enum trainer_way {
  TRAINER_FUNCTION,
  TRAINER_STRATEGY,  // On `replicas` of them.
  TRAINER_SESSION,
  TRAINER_EAGER,
} trainer_way;

typedef struct trainer_options {
  const mlp_shape *shape;
  trainer_way way;
  int64_t batch;
  int replicas;
} trainer_options;

// Zeroed: nothing to destroy.
typedef struct trainer {
  trainer_options options;
  mlp model;
  ls_array *examples, *labels;
  ls_nest result;  // Of the latest step; filled in place by the next.
  // For functions and strategies.
  ls_function *step;
  ls_strategy *strategy;
  ls_nest args;
  // For sessions.
  ls_graph *graph;
  ls_session *session;
  ls_nest fetches;
  ls_feed feeds[2];
} trainer;

// Makes model and batch under the current runtime. Destroy it also after a
// failure.
ls_status trainer_create(const trainer_options *options, trainer *out);
void trainer_destroy(trainer *self);

// The same with TRAINER_STRATEGY, on replicas on these devices.
ls_status trainer_create_on(const trainer_options *options,
                            const char *const *devices, trainer *out);

// One training step.
ls_status trainer_step(trainer *self);
// The latest loss, that of replica 0.
float trainer_loss(const trainer *self);

#endif  // LS_TESTS_SUPPORT_TRAINER_H_
