// SPDX-License-Identifier: Apache-2.0
//
// The steps of a program: a loop on each replica's core, and what goes round in
// it.
#ifndef LS_ESTIMATOR_LOOP_STEPS_H_
#define LS_ESTIMATOR_LOOP_STEPS_H_

#include "estimator/loop/host_calls.h"
#include "estimator/loop/program.h"
#include "estimator/spec/captured.h"

// What goes round: how many steps were made, an i64; of a prediction whether
// this was the last; else the loss, with batches of any size how many examples
// it is of, an i64, and the cache.
//
// The loss goes round as f64, which holds all float types exactly. What is
// computed with it is in the model's type, or f32 where that has 16 bits.
typedef struct ls_carried {
  ls_tensor count, stopping, loss, examples;
  ls_tensor *cache;
} ls_carried;

// A loop under way.
typedef struct ls_step_loop {
  const ls_program_options *options;
  ls_allocator *allocator;
  ls_estimator_mode mode;
  int64_t replicas;
  ls_variable *iterations;  // How many steps a run makes; lent.
  ls_tensor limit;          // The same, in the computation: an i64.
  ls_captured spec;         // Of the model function; counted.
  ls_dtype loss_dtype;      // Once there is one.
  ls_host_calls host;
  ls_summary_writer *summaries;  // Of a training: leaves the model's out,
  bool summary_left_out;         // and has said so.
  size_t cache_size;
  ls_dtype *cache_dtypes;
} ls_step_loop;

LS_MUST_USE ls_status ls_step_loop_init(ls_step_loop *steps,
                                        const ls_program_options *options);
void ls_step_loop_deinit(ls_step_loop *steps);  // Zeroed is fine.

// The computation of each replica, a callback of ls_replicate: the loop, and
// what is made of its final values, a list: the steps made, and where there is
// one, the loss that is reported.
ls_nest ls_step_loop_compute(ls_nest args, void *steps);

// ---- What goes round: carried.c --------------------------------------------
static inline bool ls_step_loop_predict(const ls_step_loop *steps) {
  return steps->mode == LS_MODE_PREDICT;
}
// The values that a run begins with, a list: those of a training, an evaluation
// or a prediction.
LS_MUST_USE ls_status ls_carried_begin(ls_step_loop *steps,
                                       ls_nest *out_values);
// `cache` has room for steps->cache_size.
void ls_carried_read(const ls_step_loop *steps, ls_nest values,
                     ls_carried *out);
ls_nest ls_carried_list(const ls_step_loop *steps, const ls_carried *carried);
size_t ls_carried_size(const ls_step_loop *steps);  // Of such a list.
// A list of what the model is given, or none.
ls_nest ls_carried_cache(const ls_step_loop *steps, const ls_carried *carried);
// What it has given takes the place.
//   LS_INVALID_ARGUMENT  another number of tensors, or other types.
LS_MUST_USE ls_status ls_carried_set_cache(
    const ls_step_loop *steps, const ls_estimator_spec_options *spec,
    ls_carried *carried);

// ---- Losses: reported_loss.c -----------------------------------------------
// A step's loss in the place of the one before, or added to it.
LS_MUST_USE ls_status ls_carried_add_loss(ls_step_loop *steps, ls_tensor loss,
                                          ls_tensor examples,
                                          ls_carried *carried);
// Of all replicas, from the values that a run ends with.
ls_tensor ls_reported_loss(const ls_step_loop *steps, const ls_carried *last);

#endif  // LS_ESTIMATOR_LOOP_STEPS_H_
