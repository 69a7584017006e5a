// SPDX-License-Identifier: Apache-2.0
// Shared by classifiers: how they are made and what a step gives. A
// classifier's struct begins with an ls_classifier.
#ifndef LS_MODELS_CLASSIFIER_H_
#define LS_MODELS_CLASSIFIER_H_

#include "lockstep/models.h"
#include "lockstep/nn.h"

typedef struct ls_classifier {
  ls_allocator *allocator;
  ls_optimizer *optimizer;
  ls_dtype dtype;
  bool metrics;
} ls_classifier;

// ---- Making ----------------------------------------------------------------
// Makes a zeroed struct of this size, which `fill` completes; `destroy` takes
// it back where that fails.
LS_MUST_USE ls_status ls_classifier_create(
    size_t size, const ls_model_options *options,
    ls_status (*fill)(void *self, const ls_model_options *options),
    void (*destroy)(void *self), void **out_self);
// The end of a `destroy`: the optimizer and the struct. NULL is not fine.
void ls_classifier_free(ls_classifier *self);

// The optimizer of the options, or the model's own.
LS_MUST_USE ls_status ls_classifier_use_sgd(ls_classifier *self,
                                            const ls_model_options *options,
                                            double momentum);
LS_MUST_USE ls_status ls_classifier_use_adam(ls_classifier *self,
                                             const ls_model_options *options);

// Returns the type of variables of norms: they are f32 beside 16-bit weights.
ls_dtype ls_classifier_norm_dtype(const ls_model_options *options);

// ---- Using -----------------------------------------------------------------
// The examples of a step's arguments, in the type that the model computes in.
ls_tensor ls_classifier_examples(const ls_classifier *self, ls_nest args);
// The result of a training step; see ls_model_type.train_step.
ls_nest ls_classifier_step(const ls_classifier *self, ls_tensor logits,
                           ls_nest args);
// See ls_model_type.optimizer.
ls_optimizer *ls_classifier_optimizer(void *self);
// Copies as many of `all` as there is room for, and returns their number.
size_t ls_classifier_list(ls_variable *const *all, size_t count,
                          ls_variable **variables, size_t capacity);

// ---- The rows of the table of models ----------------------------------------
extern const ls_model_type ls_model_tiny;
extern const ls_model_type ls_model_mlp;
extern const ls_model_type ls_model_cnn;
extern const ls_model_type ls_model_resnet20;
extern const ls_model_type ls_model_gpt;

#endif  // LS_MODELS_CLASSIFIER_H_
