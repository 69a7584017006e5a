// SPDX-License-Identifier: Apache-2.0
//
// A reference model's training step, built for one way of spreading it over
// the cores.
//
// The batch is dealt to lanes; each lane has a program that ends with the
// gradients of its examples. A second program adds the lanes' gradients in a
// binary tree and updates the parameters. Lanes that run on one thread share
// one frame, as only their gradients are kept.

#ifndef BENCH_ONE_REPLICA_MODEL_H_
#define BENCH_ONE_REPLICA_MODEL_H_

#include "base/threads/workers.h"
#include "one_replica/program.h"

enum { MAX_LANES = 16 };

typedef struct bench_model bench_model;

typedef struct bench_lane {
  bench_model *model;
  int index;
  size_t first, examples;  // Its part of the batch.
  size_t taken;            // Parameters handed out so far.
  float *gradients;
  float *losses;  // One a row of the logits.
  bench_program program;
} bench_lane;

// Appends the step of `lane` to its program.
typedef void build_fn(bench_lane *lane);

// A reference model.
typedef struct bench_recipe {
  const char *name;
  size_t examples;    // The batch.
  size_t rows;        // Of logits, an example.
  size_t parameters;  // At most.
  size_t frame;       // Bytes for the whole batch, at most.
  double gflops;      // A step, as the reference models are defined.
  bool adam;          // Else plain gradient descent.
  build_fn *build;
} bench_recipe;

extern const bench_recipe mlp_recipe, cnn_direct_recipe, cnn_winograd_recipe,
    gpt_recipe;

typedef struct model_options {
  int lanes, threads;
  bool vendor;  // oneDNN with its own threads.
} model_options;

struct bench_model {
  const bench_recipe *recipe;
  model_options options;
  bench_arena keep, frames[MAX_THREADS];
  size_t parameters;
  float *values, *means, *squares;  // State, one after the other.
  int64_t step;
  bench_lane *lanes[MAX_LANES];
  bench_program update;
  bench_worker workers[MAX_THREADS];
};

bench_model *model_create(const bench_recipe *recipe,
                          const model_options *options);
void model_destroy(bench_model *model);

typedef struct step_options {
  int threads;    // At most those that the model was built for.
  bool chains;    // See program_run_blocks.
  double *times;  // Of lane 0's program; NULL: not wanted.
} step_options;

// One training step. `pool` has options->threads workers; where the model is
// oneDNN's, OpenMP's threads are used instead.
void model_step(bench_model *model, ls_workers *pool,
                const step_options *options);
// The mean loss of the last step.
double model_loss(const bench_model *model);
double model_flops(const bench_model *model);

// Bytes of state, for model_save and model_load.
size_t model_state_size(const bench_model *model);
void model_save(const bench_model *model, void *state);
void model_load(bench_model *model, const void *state);

// ---- For build functions ---------------------------------------------------
typedef struct parameter {
  float *value, *gradient;
} parameter;

// The next `count` parameters, uniform in [-scale, scale].
parameter lane_parameter(bench_lane *lane, size_t count, float scale);
// An uninitialized buffer of the lane's frame.
float *lane_floats(bench_lane *lane, size_t count);
// Inputs: `width` floats in [-1, 1) or labels below `classes` for each of the
// lane's examples; the same data however the batch is dealt.
const float *lane_inputs(bench_lane *lane, size_t width);
const int32_t *lane_labels(bench_lane *lane, size_t width, int32_t classes);

#endif  // BENCH_ONE_REPLICA_MODEL_H_
