// SPDX-License-Identifier: Apache-2.0
//
// A data-parallel training step by hand: gradients of each part of the batch,
// added by plain C along the canonical tree, and a plain update. What replicas
// must give byte for byte.
#ifndef LS_TESTS_SUPPORT_CANONICAL_H_
#define LS_TESTS_SUPPORT_CANONICAL_H_

#include "support/mlp.h"

enum { CANONICAL_MAX_REPLICAS = 1024 };

typedef struct canonical {
  mlp model;                                // Its own variables: f32.
  ls_function *gradients;                   // Of one part, on one replica.
  ls_nest results[CANONICAL_MAX_REPLICAS];  // Of the parts, in a step.
  float losses[CANONICAL_MAX_REPLICAS];     // Of the latest step.
} canonical;

// Creates the model with its first values. Destroy it also after a failure.
ls_status canonical_create(const mlp_shape *shape, canonical *out);
void canonical_destroy(canonical *self);

// One step on `replicas` equal parts of the batch.
ls_status canonical_step(canonical *self, ls_array *examples, ls_array *labels,
                         int64_t replicas);

#endif  // LS_TESTS_SUPPORT_CANONICAL_H_
