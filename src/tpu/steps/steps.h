// SPDX-License-Identifier: Apache-2.0
//
// Steps on an iterator, private part.
#ifndef LS_TPU_STEPS_STEPS_H_
#define LS_TPU_STEPS_STEPS_H_

#include "distribute/base/strategy.h"
#include "lockstep/steps.h"
#include "tpu/steps/step_context.h"

// The functions by which a kind of strategy builds steps. The caller releases
// the nests they return.
typedef struct ls_steps_build ls_steps_build;
typedef struct ls_steps_kind {
  // Builds a step: lists its outputs' values, then its ops.
  ls_status (*build_step)(ls_steps_build *build, ls_nest *out_list);
  // Lists the initial values in the same form; `leaves` are the user's values.
  ls_status (*list_initial)(const ls_steps_build *build, const ls_nest *leaves,
                            size_t count, ls_nest *out_list);
  // Stores the last step's values in the context; `leaves` are in that form.
  ls_status (*give)(ls_steps_build *build, ls_nest *leaves, size_t count);
} ls_steps_kind;

struct ls_steps_build {
  const ls_steps_kind *kind;
  ls_strategy *strategy;
  const ls_steps *options;
  ls_step_context *context;
  ls_allocator *allocator;
  size_t num_replicas;
  ls_step_parts parts;  // Outputs across replicas.
};

// Builds one step, or a loop of as many as the options say.
LS_MUST_USE ls_status ls_steps_build_all(ls_steps_build *build, bool is_loop);

// Steps that call the replicas themselves, built in the strategy's
// cross-replica context (steps_across.c).
extern const ls_steps_kind ls_steps_across;

#endif  // LS_TPU_STEPS_STEPS_H_
