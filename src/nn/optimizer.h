// SPDX-License-Identifier: Apache-2.0
// Optimizers, inside: what is common is in optimizer.c, and a rule says how one
// variable moves.
#ifndef LS_NN_OPTIMIZER_H_
#define LS_NN_OPTIMIZER_H_

#include "base/map.h"
#include "lockstep/nn.h"

enum { LS_MAX_SLOTS = 4 };

typedef struct ls_optimizer_rule {
  const char *name;  // Also the name scope of its ops.
  size_t num_slots;
  const char *slot_names[LS_MAX_SLOTS];  // Zeros at first, like the variable.
  // Adds the ops that move one variable and its slots along `gradient`, which
  // is the same on all replicas. `rate` is this step's learning rate, an f32
  // scalar, where it changes; else a failed tensor. Writes the assignments, one
  // for the variable and one for each slot, into `out_ops`.
  void (*update)(const ls_optimizer *optimizer, ls_tensor rate,
                 ls_variable *variable, ls_variable *const *slots,
                 ls_tensor gradient, ls_op *out_ops);
} ls_optimizer_rule;

struct ls_optimizer {
  ls_object object;
  ls_allocator *allocator;
  const ls_optimizer_rule *rule;
  ls_map slots;          // Id of a variable -> its ls_variable *[num_slots].
  double learning_rate;  // Of step 0.
  int64_t decay_steps;   // 0: the rate stays.
  ls_variable *step;     // Steps done, i64; NULL until it is needed.
  double momentum;
  bool nesterov;
};

// Creates an optimizer; the numbers of its rule are still to be set.
LS_MUST_USE ls_status ls_optimizer_make(const ls_optimizer_rule *rule,
                                        ls_optimizer **out_optimizer);

#endif  // LS_NN_OPTIMIZER_H_
