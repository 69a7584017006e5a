// SPDX-License-Identifier: Apache-2.0
// Programs of cores: the loop of steps, and the work of the hosts.
#ifndef LS_ESTIMATOR_LOOP_PROGRAM_H_
#define LS_ESTIMATOR_LOOP_PROGRAM_H_

#include "base/memory/own.h"
#include "estimator/config/plan.h"
#include "estimator/input/input.h"
#include "estimator/spec/calls.h"
#include "lockstep/estimator_spec.h"
#include "tpu/steps/steps.h"

// Limit of the size of all predictions of a run, in bytes.
#define LS_ONE_GIGABYTE 1073741824

typedef struct ls_program_options {
  const ls_estimator_calls *calls;
  const ls_input_feed *feed;
  ls_cache_function cache;  // Zeroed if not set.
  bool any_batch;
  bool replica_0_loss;  // True to report replica 0's loss instead of the mean.
} ls_program_options;

typedef struct ls_estimator_program {
  // The op that runs everything except the work of the hosts: the loop, then
  // checks of variables; an evaluation also counts its steps. A prediction
  // checks variables by an op of its own, once for all runs.
  ls_op run, check;
  // Mean loss over all examples: of the last step in a training, of all steps
  // in an evaluation. Failed if the mode has no loss. Its op waits for the loop
  // alone or, in an evaluation without metrics, for `run`.
  ls_tensor loss;
  ls_tensor steps;  // Number of steps the run has made, i64.
  bool reduces;     // True if the program contains ls_cross_replica_sum.
  ls_tensor compile_status;  // A string: see ls_split_compile_and_replicate.
  ls_estimator_spec *spec;   // Spec of the model function. Holds a reference.
  // Work of the hosts: a list of ops to run once a step (in a training with
  // host_call_every_n_steps n: once every n steps of a run), and the results of
  // the host call. The stop signal of a prediction waits for them.
  ls_nest host_ops, host_results;
  // Evaluation: a dict of (value, update op), none without metrics. The update
  // op is `run`. Values may be read after the hosts have handled all steps.
  ls_nest metrics;
  // Prediction of all replicas: a dict with all rows, and the rows' padding.
  ls_nest predictions;
  // A bool scalar; an i32 vector, or failed if nothing is padded.
  ls_tensor stopping, padding;
} ls_estimator_program;

// Builds the program for the calls' mode in the current graph, a build graph
// with a global step.
LS_MUST_USE ls_status ls_program_build(const ls_program_options *options,
                                       ls_estimator_program *out_program);
void ls_program_drop(ls_estimator_program *program);  // May be zeroed.

// ---- Host calls ------------------------------------------------------------
// Tensors that steps send to their hosts. Each replica's first core sends them
// as one tuple a step; the hosts join them and call functions with them.

enum { LS_MOST_HOST_CALLS = 3 };

typedef struct ls_recorded_call {
  const char *name;           // Static text.
  ls_host_function function;  // Holds references to its tensors in the step.
  size_t first, count;        // Range of the function's tensors in the tuple.
} ls_recorded_call;

typedef struct ls_host_calls {
  ls_allocator *allocator;
  // The plan tells if replicas' parts are joined, or one replica's tensors are
  // taken because each replica has the whole batch.
  const ls_plan *plan;
  ls_recorded_call calls[LS_MOST_HOST_CALLS];
  size_t num_calls;
  ls_tensor *tensors;  // Tensors of a step; later the tensors on the hosts.
  size_t count, capacity;
  ls_op taken;  // An op that waits until the hosts have a step's tuples.
} ls_host_calls;

void ls_host_calls_init(ls_host_calls *calls, const ls_plan *plan);
void ls_host_calls_deinit(ls_host_calls *calls);  // May be zeroed.

// In a step: records a host function under a name. Without a `call` the
// function returns its tensors. A zeroed function is ignored.
//   LS_FAILED_PRECONDITION  a scalar, where replicas' parts are joined
LS_MUST_USE ls_status ls_host_calls_record(ls_host_calls *calls,
                                           const char *name,
                                           const ls_host_function *function);
// In a step, after all functions are recorded: if none has tensors, sends an
// element without meaning, so that hosts call the functions once a step and
// notice the end.
LS_MUST_USE ls_status ls_host_calls_pace(ls_host_calls *calls);
// In a step: sends the tensors of all recorded functions, if `*condition` is
// true (NULL: always); `*out_op` is no op (id 0) if there are none.
LS_MUST_USE ls_status ls_host_calls_enqueue(ls_host_calls *calls,
                                            const ls_tensor *condition,
                                            ls_op *out_op);

// On the hosts: takes each replica's tuple on its host, and joins them on
// replica 0's host. `*out_ops`: a list of the dequeues.
LS_MUST_USE ls_status ls_host_calls_take(ls_host_calls *calls,
                                         ls_nest *out_ops);
// On the hosts: calls the function of this name; the result is none if no such
// function was recorded.
LS_MUST_USE ls_status ls_host_calls_call(const ls_host_calls *calls,
                                         const char *name, ls_nest *out_made);

// ---- Steps -----------------------------------------------------------------
// Steps of a program: the loop on each replica's core, and its state.

// Indices of the values in the loop's state, which a prediction does not have:
// the loss; with batches of any size, its number of examples, an i64; then the
// cache.
//
// The loss is stored as an f64, which holds all float types exactly. Arithmetic
// with it is done in the model's type, or in f32 if the model's type has 16
// bits.
enum { LS_STATE_LOSS, LS_STATE_EXAMPLES };

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
  // Training: replaces the writer of the model's summaries.
  ls_summary_writer *summaries;
  bool has_left_out;  // True if skipped summaries were logged.
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
// loop, then the results, computed from the loop's last state. The results are
// a list: the number of steps and, except in a prediction, the loss to report.
ls_nest ls_model_steps_compute(ls_nest args, void *steps);

#endif  // LS_ESTIMATOR_LOOP_PROGRAM_H_
