// SPDX-License-Identifier: Apache-2.0
//
// Steps of a program: a loop on each replica's core, and its state.
#ifndef LS_ESTIMATOR_LOOP_STEPS_H_
#define LS_ESTIMATOR_LOOP_STEPS_H_

#include "base/memory/own.h"
#include "estimator/loop/host_calls.h"
#include "estimator/loop/program.h"
#include "estimator/spec/calls.h"
#include "tpu/steps/step_loop.h"

// Indices of the loop's state. In a prediction: true if this step was the last.
// Else: the loss; with batches of any size, its number of examples, an i64; and
// then the cache.
//
// The loss is stored as an f64, which holds all float types exactly. Arithmetic
// with it is in the model's type, or in f32 if that has 16 bits.
enum { LS_STATE_STOPPING = 0, LS_STATE_LOSS = 0, LS_STATE_EXAMPLES = 1 };

// Steps being built.
typedef struct ls_model_steps {
  const ls_program_options *options;
  ls_allocator *allocator;
  ls_estimator_mode mode;
  int64_t num_replicas;
  ls_variable *iterations;  // Number of steps of a run; borrowed.
  ls_captured spec;         // Spec of the model function; holds a reference.
  ls_dtype loss_dtype;      // Set after the first loss.
  ls_host_calls host;
  ls_summary_writer *summaries;  // Training: skips the model's summaries,
  bool has_left_out;             // and has logged that.
  size_t cache_size;
} ls_model_steps;

LS_MUST_USE ls_status ls_model_steps_init(ls_model_steps *steps,
                                          const ls_program_options *options);
void ls_model_steps_deinit(ls_model_steps *steps);  // May be zeroed.
LS_OWNED_STRUCT(ls_model_steps, ls_model_steps_deinit)

static inline bool ls_model_steps_predict(const ls_model_steps *steps) {
  return steps->mode == LS_MODE_PREDICT;
}
static inline bool ls_model_steps_count_examples(const ls_model_steps *steps) {
  return !ls_model_steps_predict(steps) && steps->options->any_batch;
}

// Builds the computation of each replica, as a callback of ls_replicate: the
// loop, and the results from its last state, a list: the number of steps and,
// except in a prediction, the loss to report.
ls_nest ls_model_steps_compute(ls_nest args, void *steps);

// ---- Losses: reported_loss.c -----------------------------------------------
// Stores a step's loss in the state; an evaluation adds it to the earlier ones.
LS_MUST_USE ls_status ls_model_steps_add_loss(ls_model_steps *steps,
                                              ls_tensor loss,
                                              ls_tensor examples,
                                              ls_tensor *state);
// Returns the loss of all replicas, from the last state and the number of
// steps.
ls_tensor ls_reported_loss(const ls_model_steps *steps, const ls_tensor *state,
                           ls_tensor count);

#endif  // LS_ESTIMATOR_LOOP_STEPS_H_
