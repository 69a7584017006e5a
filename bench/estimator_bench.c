// SPDX-License-Identifier: Apache-2.0
//
// An estimator on the cores of a pod against ls_train on as many replicas: the
// same net of 784-512-512-10, the same data, batches of 256. Each training is
// timed between two of its steps, by a hook; both take turns.
//
// Usage: estimator_bench [-r REPLICAS] [-t THREADS] [-k ITERATIONS] [-n ROUNDS]
//                        [-s STEPS]

#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/machine.h"
#include "lockstep/full.h"

enum { BATCH = 256, CLASSES = 10, MOST_ROUNDS = 100, WARM = 200 };

typedef struct options {
  int replicas, threads, iterations, rounds, steps;
} options;

static void check(ls_status status) {
  if (ls_status_is_ok(status)) return;
  fprintf(stderr, "estimator_bench: %s\n", ls_status_message(status));
  exit(1);
}

// ---- The clock -------------------------------------------------------------
// Between the first run behind step WARM and the last.
typedef struct stopwatch {
  int64_t from_step, last_step, from, last, per_run;
} stopwatch;

static ls_status passed(void *user, ls_run_context *context, ls_nest results) {
  stopwatch *w = user;
  (void)context, (void)results;
  w->last_step += w->per_run;
  w->last = (int64_t)(machine_seconds() * 1e9);
  if (w->from == 0 && w->last_step >= WARM) {
    w->from = w->last;
    w->from_step = w->last_step;
  }
  return ls_ok();
}

static ls_hook *new_hook(stopwatch *w) {
  ls_hook *hook = NULL;
  check(ls_hook_create(
      &(ls_hook_options){.name = "clock", .user = w, .after_run = passed},
      &hook));
  return hook;
}

static double micros(const stopwatch *w) {
  return (double)(w->last - w->from) * 1e-3 /
         (double)(w->last_step - w->from_step);
}

static ls_dataset *data(void) {
  return ls_dataset_synthetic(&(ls_synthetic_options){
      .size = 16384, .shape = LS_SHAPE(784), .num_classes = CLASSES});
}

// ---- The estimator ---------------------------------------------------------
static ls_nest input(void *user, ls_input_call *call) {
  (void)user;
  ls_dataset *all = ls_dataset_shuffle(data(), NULL);
  all = ls_dataset_repeat(all, LS_INFINITE);
  return ls_nest_dataset(ls_dataset_batch(
      all, &(ls_batch_options){
               .size = ls_params_i64(call->params, "batch_size", BATCH),
               .remainder = LS_REMAINDER_DROP}));
}

static ls_status optimize(ls_tensor loss, ls_op *out) {
  ls_optimizer *inner = NULL, *outer = NULL;
  LS_RETURN_IF_ERROR(
      ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.1}, &inner));
  check(ls_cross_shard_create(&(ls_cross_shard_options){.optimizer = inner},
                              &outer));
  *out = ls_train_op(outer, loss);
  ls_optimizer_release(inner);
  ls_optimizer_release(outer);
  return ls_ok();
}

static ls_status model(void *user, ls_model_call *call,
                       ls_estimator_spec **out) {
  static const int64_t sizes[] = {784, 512, 512, CLASSES};
  static const char *const names[] = {"a", "b", "c"};
  ls_tensor x = call->features.as.tensor;
  ls_op step = {0};
  (void)user;
  for (int i = 0; i < 3; ++i) {
    ls_dense_layer *layer = NULL;
    check(ls_dense_layer_create(
        &(ls_dense_options){.name = names[i],
                            .inputs = sizes[i],
                            .units = sizes[i + 1],
                            .activation = i < 2 ? LS_ACTIVATION_RELU
                                                : LS_ACTIVATION_NONE},
        &layer));
    x = ls_dense_layer_apply(layer, x);
    ls_dense_layer_destroy(layer);
  }
  const ls_tensor loss =
      ls_mean_softmax_cross_entropy(x, call->labels.as.tensor);
  check(optimize(loss, &step));
  return ls_tpu_estimator_spec_create(
      &(ls_estimator_spec_options){
          .mode = call->mode, .loss = loss, .train_op = step},
      out);
}

static double run_estimator(const options *o) {
  char master[40], length[20], folder[] = "/tmp/estimator_bench.XXXXXX";
  ls_run_config *config = NULL;
  ls_estimator *estimator = NULL;
  stopwatch w = {.per_run = o->iterations};
  snprintf(master, sizeof(master), "virtual:%dx1,cores=1", o->replicas);
  snprintf(length, sizeof(length), "%d", o->iterations);
  if (mkdtemp(folder) == NULL) exit(1);
  check(ls_tpu_run_config_create(
      &(ls_run_config_options){
          .model_dir = folder,
          .master = master,
          .tpu = &(ls_tpu_config){.iterations_per_loop = length}},
      &config));
  check(ls_estimator_create(
      &(ls_estimator_options){.model_fn = {.call = model},
                              .config = config,
                              .train_batch_size = LS_SOME(BATCH)},
      &estimator));
  ls_hook *hook = new_hook(&w);
  check(ls_estimator_train(
      estimator,
      &(ls_estimator_training){.input = {.call = input},
                               .max_steps = LS_SOME(WARM + o->steps),
                               .hooks = &hook,
                               .num_hooks = 1},
      NULL));
  ls_hook_release(hook);
  ls_estimator_destroy(estimator);
  ls_run_config_release(config);
  return micros(&w);
}

// ---- ls_train --------------------------------------------------------------
static double run_training(const options *o) {
  char folder[] = "/tmp/estimator_bench.XXXXXX";
  ls_strategy *strategy = NULL;
  ls_model net = {0};
  stopwatch w = {.per_run = 1};
  if (mkdtemp(folder) == NULL) exit(1);
  check(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(o->replicas)}, &strategy));
  LS_STRATEGY_SCOPE(strategy);
  check(ls_model_create(ls_model_find("mlp"),
                        &(ls_model_options){.metrics = true}, &net));
  ls_dataset *train = data();
  ls_hook *hook = new_hook(&w);
  check(ls_train(&(ls_train_options){.model = &net,
                                     .strategy = strategy,
                                     .train = train,
                                     .batch_size = BATCH,
                                     .steps = WARM + o->steps,
                                     .run_folder = folder,
                                     .overwrite = true,
                                     .hooks = &hook,
                                     .num_hooks = 1},
                 &(ls_train_result){0}));
  ls_hook_release(hook);
  ls_dataset_release(train);
  ls_model_destroy(&net);
  ls_strategy_release(strategy);
  return micros(&w);
}

// ---- Both ------------------------------------------------------------------
static void rounds(const options *o) {
  double estimator[MOST_ROUNDS], training[MOST_ROUNDS], ratio[MOST_ROUNDS];
  for (int i = 0; i < o->rounds; ++i) {
    training[i] = run_training(o);
    estimator[i] = run_estimator(o);
    ratio[i] = estimator[i] / training[i];
  }
  const size_t count = (size_t)o->rounds;
  printf("estimator %.1f us a step, ls_train %.1f, ratio %.3f\n",
         machine_median(estimator, count), machine_median(training, count),
         machine_median(ratio, count));
}

int main(int argc, char **argv) {
  options o = {8, 2, 100, 5, 2000};
  for (int c; (c = getopt(argc, argv, "r:t:k:n:s:")) != -1;) {
    const int value = atoi(optarg != NULL ? optarg : "1");
    if (c == 'r')
      o.replicas = value;
    else if (c == 't')
      o.threads = value;
    else if (c == 'k')
      o.iterations = value;
    else if (c == 'n')
      o.rounds = value < MOST_ROUNDS ? value : MOST_ROUNDS;
    else if (c == 's')
      o.steps = value;
    else
      return 2;
  }
  ls_runtime *runtime = NULL;
  check(
      ls_runtime_create(&(ls_runtime_options){.threads = o.threads}, &runtime));
  ls_runtime_make_current(runtime);
  rounds(&o);
  ls_runtime_make_current(NULL);
  check(ls_runtime_destroy(runtime));
  return 0;
}
