// SPDX-License-Identifier: Apache-2.0
// Helpers for models of all tasks: creation and the training step. A model's
// struct begins with an ls_classifier.
#ifndef LS_MODELS_CLASSIFIER_H_
#define LS_MODELS_CLASSIFIER_H_

#include "lockstep/models.h"
#include "lockstep/nn.h"
#include "lockstep/tasks.h"

typedef struct ls_classifier {
  ls_allocator *allocator;
  ls_optimizer *optimizer;
  const ls_task *task;
  int64_t outputs;  // Numbers for each label of an example.
  ls_dtype dtype;
  bool metrics;
  ls_array *mean, *deviation;  // NULL: examples are used as they are.
} ls_classifier;

// ---- Making ----------------------------------------------------------------
// Makes a zeroed struct of `size` bytes, which `fill` completes; if `fill`
// fails, `destroy` releases it.
LS_MUST_USE ls_status ls_classifier_create(
    size_t size, const ls_model_options *options,
    ls_status (*fill)(void *self, const ls_model_options *options),
    void (*destroy)(void *self), void **out_self);
// Frees optimizer and struct, at the end of a `destroy`. Does not accept NULL.
void ls_classifier_free(ls_classifier *self);

// Sets the optimizer of the options, or SGD with this momentum; Adam for labels
// that are numbers.
LS_MUST_USE ls_status ls_classifier_use_sgd(ls_classifier *self,
                                            const ls_model_options *options,
                                            double momentum);
LS_MUST_USE ls_status ls_classifier_use_adam(ls_classifier *self,
                                             const ls_model_options *options);

// Returns the dtype of normalization variables: f32 if weights have 16 bits.
ls_dtype ls_classifier_norm_dtype(const ls_model_options *options);

// ---- Using -----------------------------------------------------------------
// Returns the examples among a step's arguments, in the dtype of the model, and
// normalized if it has a mean.
ls_tensor ls_classifier_examples(const ls_classifier *self, ls_nest args);
// Returns the result of a training step; see ls_model_type.train_step.
ls_nest ls_classifier_step(const ls_classifier *self, ls_tensor outputs,
                           ls_nest args);
// See ls_model_type.optimizer.
ls_optimizer *ls_classifier_optimizer(void *self);
// Copies up to `capacity` variables from `all`, and returns the number of all.
size_t ls_classifier_list(ls_variable *const *all, size_t count,
                          ls_variable **variables, size_t capacity);

// ---- The rows of the table of models ---------------------------------------
extern const ls_model_type ls_model_tiny;
extern const ls_model_type ls_model_mlp;
extern const ls_model_type ls_model_cnn;
extern const ls_model_type ls_model_resnet20;
extern const ls_model_type ls_model_unet;
extern const ls_model_type ls_model_gpt;

#endif  // LS_MODELS_CLASSIFIER_H_
