// SPDX-License-Identifier: Apache-2.0

#include "one_replica/model.h"

#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "one_replica/convolution.h"
#include "one_replica/loops.h"

#define KEEP_BYTES ((size_t)512 << 20)
#define UPDATE_BLOCK ((size_t)16384)
#define UPDATE_CHUNK ((size_t)512)  // Summed over the lanes in the L1 cache.

// ---- Data ------------------------------------------------------------------
// The i-th of a sequence of numbers in [0, 2^24).
static uint32_t mixed(uint64_t i) {
  uint64_t x = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  x ^= x >> 29;
  x *= UINT64_C(0xbf58476d1ce4e5b9);
  return (uint32_t)(x >> 40);
}

static float uniform(uint64_t i, float scale) {
  return ((float)mixed(i) * 0x1p-23f - 1.0f) * scale;
}

parameter lane_parameter(bench_lane *lane, size_t count, float scale) {
  bench_model *model = lane->model;
  const size_t at = lane->taken;
  lane->taken += (count + 15) / 16 * 16;
  if (lane->taken > model->recipe->parameters) die("too many parameters");
  if (lane->index == 0) {
    for (size_t i = 0; i < count; ++i) {
      model->values[at + i] = scale > 0 ? uniform(at + i, scale) : 0.0f;
    }
  }
  return (parameter){model->values + at, lane->gradients + at};
}

float *lane_floats(bench_lane *lane, size_t count) {
  return arena_floats(lane->program.frame, count);
}

const float *lane_inputs(bench_lane *lane, size_t width) {
  const size_t count = lane->examples * width, base = lane->first * width;
  float *data = arena_floats(&lane->model->keep, count);
  for (size_t i = 0; i < count; ++i)
    data[i] = uniform(base + i, 1.0f);
  return data;
}

const int32_t *lane_labels(bench_lane *lane, size_t width, int32_t classes) {
  const size_t count = lane->examples * width, base = lane->first * width;
  int32_t *data = arena_take(&lane->model->keep, count * sizeof *data);
  for (size_t i = 0; i < count; ++i) {
    data[i] = (int32_t)(mixed(base + i) % (uint32_t)classes);
  }
  return data;
}

// ---- The update ------------------------------------------------------------
typedef struct {
  bench_model *model;
} update_params;

// The sum of n gradients from `at`, of lanes [first, last), split at the
// largest power of two below their number. Returns where it is.
static const float *sum_lanes(const bench_model *model, float *dst, size_t at,
                              size_t n, int first, int last) {
  if (last == first + 1) return model->lanes[first]->gradients + at;
  int half = 1;
  while (2 * half < last - first)
    half *= 2;
  float right[UPDATE_CHUNK];
  const float *a = sum_lanes(model, dst, at, n, first, first + half);
  const float *b = sum_lanes(model, right, at, n, first + half, last);
  model->update.kernels->add(dst, a, b, n);
  return dst;
}

static void run_update(const void *params, int64_t begin, int64_t end,
                       const bench_worker *worker) {
  (void)worker;
  bench_model *model = ((const update_params *)params)->model;
  const double step = (double)model->step;
  const double correction =
      sqrt(1.0 - pow(0.999, step)) / (1.0 - pow(0.9, step));
  const float rate = (float)(1e-3 * correction);
  const size_t first = (size_t)begin * UPDATE_BLOCK;
  size_t last = (size_t)end * UPDATE_BLOCK;
  if (last > model->parameters) last = model->parameters;
  for (size_t at = first; at < last; at += UPDATE_CHUNK) {
    const size_t n = last - at < UPDATE_CHUNK ? last - at : UPDATE_CHUNK;
    float buffer[UPDATE_CHUNK];
    const float *gradient =
        sum_lanes(model, buffer, at, n, 0, model->options.lanes);
    float *value = model->values + at;
    if (model->recipe->adam) {
      loop_adam(value, model->means + at, model->squares + at, gradient, rate,
                n);
    } else {
      model->update.kernels->sgd(value, value, gradient, 0.1f, n);
    }
  }
}

// ---- Building --------------------------------------------------------------
static void *zeroed(size_t count, size_t size) {
  void *made = calloc(count, size);
  if (made == NULL) die("out of memory");
  return made;
}

static void build_lane(bench_model *model, int index) {
  const bench_recipe *recipe = model->recipe;
  const size_t lanes = (size_t)model->options.lanes, at = (size_t)index;
  const size_t thread = at * (size_t)model->options.threads / lanes;
  bench_lane *lane = zeroed(1, sizeof *lane);
  model->lanes[index] = lane;
  lane->model = model;
  lane->index = index;
  lane->first = recipe->examples * at / lanes;
  lane->examples = recipe->examples * (at + 1) / lanes - lane->first;
  lane->gradients = arena_floats(&model->keep, recipe->parameters);
  lane->losses = arena_floats(&model->keep, lane->examples * recipe->rows);
  lane->program.keep = &model->keep;
  lane->program.frame = &model->frames[thread];
  lane->program.frame->used = 0;
  lane->program.kernels = ls_cpu_kernels_best();
  lane->program.vendor = model->options.vendor;
  recipe->build(lane);
  model->parameters = lane->taken;
}

static void build_update(bench_model *model) {
  bench_program *update = &model->update;
  update->keep = &model->keep;
  update->kernels = ls_cpu_kernels_best();
  const size_t blocks = (model->parameters + UPDATE_BLOCK - 1) / UPDATE_BLOCK;
  program_add(update, "update", run_update, &(update_params){model},
              sizeof(update_params), (int64_t)blocks);
}

static void make_workers(bench_model *model) {
  size_t scratch = 64;
  for (int i = 0; i < model->options.lanes; ++i) {
    const size_t wanted = model->lanes[i]->program.scratch;
    if (wanted > scratch) scratch = wanted;
  }
  for (int i = 0; i < model->options.threads; ++i) {
    model->workers[i] = (bench_worker){
        .index = i,
        .stream = convolution_stream(),
        .scratch = arena_take(&model->keep, scratch),
    };
  }
}

bench_model *model_create(const bench_recipe *recipe,
                          const model_options *options) {
  // Whoever makes a primitive decides how many threads it may use.
  omp_set_num_threads(options->vendor ? options->threads : 1);
  bench_model *model = zeroed(1, sizeof *model);
  model->recipe = recipe;
  model->options = *options;
  arena_init(&model->keep, KEEP_BYTES);
  for (int i = 0; i < options->threads; ++i) {
    arena_init(&model->frames[i], recipe->frame);
  }
  model->values = arena_floats(&model->keep, recipe->parameters);
  model->means = arena_floats(&model->keep, recipe->parameters);
  model->squares = arena_floats(&model->keep, recipe->parameters);
  for (int i = 0; i < options->lanes; ++i)
    build_lane(model, i);
  build_update(model);
  make_workers(model);
  omp_set_num_threads(1);
  const double gflops = model_flops(model) * 1e-9;
  if (fabs(gflops / recipe->gflops - 1.0) > 0.005) {
    die("a step of %s is %.3f Gflop, not %.3f", recipe->name, gflops,
        recipe->gflops);
  }
  return model;
}

void model_destroy(bench_model *model) {
  for (int i = 0; i < model->options.lanes; ++i)
    free(model->lanes[i]);
  for (int i = 0; i < model->options.threads; ++i) {
    dnnl_stream_destroy(model->workers[i].stream);
    arena_deinit(&model->frames[i]);
  }
  arena_deinit(&model->keep);
  free(model);
}

// ---- Running ---------------------------------------------------------------
typedef struct {
  bench_model *model;
  const step_options *options;
  bench_barrier barrier;
} step_job;

// One thread's part of a step.
static void run_part(void *user, int index) {
  step_job *job = user;
  const bench_model *model = job->model;
  const step_options *options = job->options;
  const bench_worker *worker = &model->workers[index];
  const int lanes = model->options.lanes, threads = options->threads;
  omp_set_num_threads(1);
  if (lanes == 1) {
    program_run_blocks(&model->lanes[0]->program, worker, threads,
                       &job->barrier, options->chains,
                       index == 0 ? options->times : NULL);
  } else {
    for (int i = lanes * index / threads; i < lanes * (index + 1) / threads;
         ++i) {
      program_run_alone(&model->lanes[i]->program, worker);
    }
    barrier_wait(&job->barrier);
  }
  program_run_blocks(&model->update, worker, threads, &job->barrier, false,
                     NULL);
}

void model_step(bench_model *model, ls_workers *pool,
                const step_options *options) {
  ++model->step;
  if (model->options.vendor) {
    const uint64_t mode = ls_float_mode_enter();
    omp_set_num_threads(options->threads);
    program_run_openmp(&model->lanes[0]->program, model->workers,
                       options->threads);
    program_run_openmp(&model->update, model->workers, options->threads);
    omp_set_num_threads(1);
    ls_float_mode_leave(mode);
    return;
  }
  step_job job = {
      .model = model, .options = options, .barrier.threads = options->threads};
  if (ls_workers_run(pool, run_part, &job) != NULL) die("no threads");
}

double model_loss(const bench_model *model) {
  const size_t rows = model->recipe->rows;
  double sum = 0;
  for (int i = 0; i < model->options.lanes; ++i) {
    const bench_lane *lane = model->lanes[i];
    for (size_t j = 0; j < lane->examples * rows; ++j)
      sum += lane->losses[j];
  }
  return sum / (double)(model->recipe->examples * rows);
}

double model_flops(const bench_model *model) {
  double sum = 0;
  for (int i = 0; i < model->options.lanes; ++i) {
    sum += model->lanes[i]->program.flops;
  }
  return sum;
}

// ---- State -----------------------------------------------------------------
size_t model_state_size(const bench_model *model) {
  return 3 * model->parameters * sizeof(float) + sizeof model->step;
}

void model_save(const bench_model *model, void *state) {
  const size_t size = model->parameters * sizeof(float);
  char *to = state;
  memcpy(to, model->values, size);
  memcpy(to + size, model->means, size);
  memcpy(to + 2 * size, model->squares, size);
  memcpy(to + 3 * size, &model->step, sizeof model->step);
}

void model_load(bench_model *model, const void *state) {
  const size_t size = model->parameters * sizeof(float);
  const char *from = state;
  memcpy(model->values, from, size);
  memcpy(model->means, from + size, size);
  memcpy(model->squares, from + 2 * size, size);
  memcpy(&model->step, from + 3 * size, sizeof model->step);
}
