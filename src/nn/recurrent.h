// SPDX-License-Identifier: Apache-2.0
// The steps of a recurrent layer, whose weights may be any tensors.
#ifndef LS_NN_RECURRENT_H_
#define LS_NN_RECURRENT_H_

#include "lockstep/layers.h"

// Values that all steps share.
typedef struct ls_recurrent_steps {
  ls_recurrent_kind kind;
  int64_t units;
  int64_t unrolled;  // See ls_recurrent_options.
  ls_allocator *allocator;
  ls_tensor kernel, bias;  // Apply to the state; the bias may be a failed one.
} ls_recurrent_steps;

// Runs over the steps of `projected`, [batch, steps, gates units]: the product
// of x and the kernel, with its bias. Returns h after each step, and sets the
// state, which is the initial one, to the final one.
ls_tensor ls_recurrent_run(const ls_recurrent_steps *steps, ls_tensor projected,
                           ls_recurrent_state *state);

#endif  // LS_NN_RECURRENT_H_
