// SPDX-License-Identifier: Apache-2.0
//
// The steps of a program: a loop on each replica's core, and its state.
#ifndef LS_ESTIMATOR_LOOP_STEPS_H_
#define LS_ESTIMATOR_LOOP_STEPS_H_

#include "base/memory/own.h"
#include "estimator/loop/host_calls.h"
#include "estimator/loop/program.h"
#include "estimator/spec/calls.h"
#include "tpu/steps/step_loop.h"

// The loop's state: of a prediction, whether this step was the last. Else the
// loss; with batches of any size how many examples it is of, an i64; and the
// cache.
//
// The loss is an f64 there, which holds all float types exactly. What is
// computed with it is in the model's type, or f32 where that has 16 bits.
enum { LS_STATE_STOPPING = 0, LS_STATE_LOSS = 0, LS_STATE_EXAMPLES = 1 };

// Steps that are being built.
typedef struct ls_model_steps {
  const ls_program_options *options;
  ls_allocator *allocator;
  ls_estimator_mode mode;
  int64_t num_replicas;
  ls_variable *iterations;  // How many steps a run makes; lent.
  ls_captured spec;         // Of the model function; counted.
  ls_dtype loss_dtype;      // Once there is one.
  ls_host_calls host;
  ls_summary_writer *summaries;  // Of a training: leaves the model's out,
  bool has_left_out;             // and has said so.
  size_t cache_size;
} ls_model_steps;

LS_MUST_USE ls_status ls_model_steps_init(ls_model_steps *steps,
                                          const ls_program_options *options);
void ls_model_steps_deinit(ls_model_steps *steps);  // Zeroed is fine.
LS_OWNED_STRUCT(ls_model_steps, ls_model_steps_deinit)

static inline bool ls_model_steps_predict(const ls_model_steps *steps) {
  return steps->mode == LS_MODE_PREDICT;
}
static inline bool ls_model_steps_count_examples(const ls_model_steps *steps) {
  return !ls_model_steps_predict(steps) && steps->options->any_batch;
}

// Builds the computation of each replica, a callback of ls_replicate: the loop,
// and what is made of its last state, a list: the number of steps and, unless
// it predicts, the loss that is reported.
ls_nest ls_model_steps_compute(ls_nest args, void *steps);

// ---- Losses: reported_loss.c -----------------------------------------------
// Puts a step's loss in the place of the earlier one, or adds it.
LS_MUST_USE ls_status ls_model_steps_add_loss(ls_model_steps *steps,
                                              ls_tensor loss,
                                              ls_tensor examples,
                                              ls_tensor *state);
// The loss of all replicas, from the last state and the number of steps.
ls_tensor ls_reported_loss(const ls_model_steps *steps, const ls_tensor *state,
                           ls_tensor count);

#endif  // LS_ESTIMATOR_LOOP_STEPS_H_
