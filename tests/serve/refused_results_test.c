// SPDX-License-Identifier: Apache-2.0
//
// Refused calls leave their results empty: none, NULL or zero.
#include "lockstep/serving.h"
#include "support/refused.h"

TEST(refused_calls_of_serving_leave_nothing) {
  REFUSED(char *, ls_serving_export(NULL, &out));
  REFUSED(ls_serving *, ls_serving_load(NULL, NULL, &out));
  REFUSED(ls_decoder *,
          ls_decoder_create(NULL, (ls_tensor){0}, (ls_tensor){0}, &out));
  REFUSED(ls_decoder *, ls_serving_create_decoder(NULL, NULL, NULL, &out));
  REFUSED(const ls_array *, ls_decoder_begin(NULL, NULL, 0, &out));
  REFUSED(const ls_array *, ls_decoder_next(NULL, 0, &out));
  REFUSED(const ls_array *, ls_decoder_run(NULL, NULL, &out));
  REFUSED(ls_serving_info, ls_serving_signature_info(NULL, 0, &out));
}
