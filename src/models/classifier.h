// SPDX-License-Identifier: Apache-2.0
// What classifiers have in common: memory, the optimizer's schedule, the step.
#ifndef LS_MODELS_CLASSIFIER_H_
#define LS_MODELS_CLASSIFIER_H_

#include "lockstep/models.h"
#include "lockstep/nn.h"

// Zeroed memory of the current runtime, to be released with *out_allocator.
LS_MUST_USE ls_status ls_classifier_allocate(size_t size,
                                             ls_allocator **out_allocator,
                                             void **out_memory);

// The rate falls in a line over options->decay_steps, or stays.
ls_schedule ls_classifier_schedule(const ls_model_options *options);

// The result of a training step; see ls_model_type.train_step.
ls_nest ls_classifier_step(ls_optimizer *optimizer, ls_tensor logits,
                           ls_tensor labels, bool metrics);

#endif  // LS_MODELS_CLASSIFIER_H_
