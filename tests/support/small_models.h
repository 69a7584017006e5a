// SPDX-License-Identifier: Apache-2.0
// Models like the reference models mlp, cnn and gpt, small enough for many
// steps in many ways, and large enough that 64 examples give threads something
// to share.
#ifndef LS_TESTS_SUPPORT_SMALL_MODELS_H_
#define LS_TESTS_SUPPORT_SMALL_MODELS_H_

#include "lockstep/models.h"

// 8x8 images: dense layers of 256, 128 and 10; SGD with momentum.
extern const ls_model_type small_mlp;
// 8x8 images: two convolutions, a pool and two dense layers, with dropout in
// front of each of these; Adam.
extern const ls_model_type small_cnn;
// Texts of 8 tokens: width 32, two causal blocks of two heads; Adam.
extern const ls_model_type small_gpt;

#endif  // LS_TESTS_SUPPORT_SMALL_MODELS_H_
