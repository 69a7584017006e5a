// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator, inside.
#ifndef LS_TPU_STEPS_STEPS_H_
#define LS_TPU_STEPS_STEPS_H_

#include "distribute/base/strategy.h"
#include "lockstep/steps.h"
#include "tpu/steps/step_context.h"

// Steps that are being built, by the rules of a kind of strategies. Functions
// get this; nests are the caller's.
typedef struct ls_steps_build ls_steps_build;
typedef struct ls_steps_kind {
  // Builds a step: the values of its outputs, then ops.
  ls_status (*build_step)(ls_steps_build *build, ls_nest *out_list);
  // Lists the initial values in the same form; `leaves` are the user's.
  ls_status (*list_initial)(const ls_steps_build *build, const ls_nest *leaves,
                            size_t count, ls_nest *out_list);
  // Gives the context what comes of the last step: leaves of such a list.
  ls_status (*give)(ls_steps_build *build, ls_nest *leaves, size_t count);
} ls_steps_kind;

struct ls_steps_build {
  const ls_steps_kind *kind;
  ls_strategy *strategy;
  const ls_steps *options;
  ls_step_context *context;
  ls_allocator *allocator;
  size_t num_replicas;
  ls_step_parts parts;  // Of the outputs, across replicas.
};

// Builds one step, or a loop of the options' iterations.
LS_MUST_USE ls_status ls_steps_build_all(ls_steps_build *build, bool is_loop);

// Steps that call the replicas themselves: built in the strategy's
// cross-replica context. (steps_across.c)
extern const ls_steps_kind ls_steps_across;

#endif  // LS_TPU_STEPS_STEPS_H_
