// SPDX-License-Identifier: Apache-2.0
// The rows of the table of models, one or more a file.
#ifndef LS_MODELS_TYPES_H_
#define LS_MODELS_TYPES_H_

#include "lockstep/models.h"

extern const ls_model_type ls_model_tiny;
extern const ls_model_type ls_model_mlp;
extern const ls_model_type ls_model_cnn;
extern const ls_model_type ls_model_resnet20;
extern const ls_model_type ls_model_gpt;

#endif  // LS_MODELS_TYPES_H_
