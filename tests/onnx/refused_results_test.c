// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/onnx.h"
#include "support/refused.h"

TEST(refused_calls_of_onnx_leave_nothing) {
  REFUSED(ls_onnx *, ls_onnx_load(NULL, NULL, &out));
  REFUSED(ls_onnx *, ls_onnx_load("nowhere.onnx", NULL, &out));
  REFUSED(ls_model_type *, ls_onnx_type_create(NULL, &out));
  REFUSED(ls_model_type *, ls_onnx_type_create("nowhere.onnx", &out));
}
