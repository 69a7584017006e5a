// SPDX-License-Identifier: Apache-2.0
//
// An epoch whose batches make one step together, the last of them short, is a
// step of one batch with all its examples (ruling 56): step by step, in loops
// on the device, on one replica and several.
#include <math.h>

#include "base/memory/allocator.h"
#include "lockstep/lockstep.h"
#include "nn/own.h"
#include "support/expect.h"
#include "support/tpu_strategies.h"
#include "support/training.h"
#include "support/values.h"

enum { WIDTH = 6, CLASSES = 3, EXAMPLES = 36, BATCH = 16, EPOCHS = 2 };
enum { CALLS = (EXAMPLES + BATCH - 1) / BATCH, WEIGHTS = WIDTH * CLASSES };

// ---- A model ---------------------------------------------------------------
typedef struct line {
  ls_dense_layer *logits;
  ls_optimizer *optimizer;
} line;
static line the_line;  // One at a time.

static void destroy_line(void *self) {
  line *n = self;
  if (n == NULL) return;
  ls_dense_layer_destroy(n->logits);
  ls_optimizer_release(n->optimizer);
  *n = (line){0};
}

static ls_status create_line(const ls_model_options *options, void **out_self) {
  line *n = *out_self = &the_line;
  n->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_dense_layer_create(
      &(ls_dense_options){.name = "logits", .inputs = WIDTH, .units = CLASSES},
      &n->logits);
}

static ls_nest line_logits(ls_nest args, void *self) {
  return ls_leaf(
      ls_dense_layer_apply(((line *)self)->logits, ls_nest_tensor(args, 0)));
}

static ls_nest train_line(ls_nest args, void *self) {
  const line *n = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits =
      ls_dense_layer_apply(n->logits, ls_nest_tensor(args, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(n->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static size_t line_variables(void *self, ls_variable **out, size_t capacity) {
  return ls_dense_layer_variables(((line *)self)->logits, out, capacity);
}

static ls_optimizer *line_optimizer(void *self) {
  return ((line *)self)->optimizer;
}

static const ls_model_type line_type = {
    .name = "line",
    .batch_size = BATCH,
    .epochs = EPOCHS,
    .example_shape = {.rank = 1, .dim = {WIDTH}},
    .num_classes = CLASSES,
    .create = create_line,
    .destroy = destroy_line,
    .train_step = train_line,
    .logits = line_logits,
    .variables = line_variables,
    .optimizer = line_optimizer,
};

// ---- A run -----------------------------------------------------------------
typedef struct way {
  int replicas;
  bool on_cores, by_arguments;
  int64_t iterations;
} way;

static void train(const way *w, int64_t batch, int64_t calls,
                  double weights[WEIGHTS]) {
  LS_OWN(ls_strategy, strategy) = NULL;
  LS_OWN(ls_optimizer, optimizer) = NULL;
  LS_OWN(ls_model, model) = {0};
  ls_train_result result;
  ls_variable *all[2] = {NULL};
  LS_OWN(ls_dataset, data) = ls_dataset_synthetic(&(ls_synthetic_options){
      .size = EXAMPLES, .shape = LS_SHAPE(WIDTH), .num_classes = CLASSES});
  if (w->on_cores)
    strategy = tpu_strategy_of(w->replicas);
  else
    expect_ok(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas = LS_SOME(w->replicas)},
        &strategy));
  expect_ok(ls_sgd_create(&(ls_sgd_options){.learning_rate = 0.5,
                                            .clip = {.global_norm = 0.2},
                                            .accumulate = calls},
                          &optimizer));
  expect_ok(ls_model_create(
      &line_type, &(ls_model_options){.optimizer = optimizer, .seed = 2},
      &model));
  expect_ok(ls_train(
      &(ls_train_options){.model = &model,
                          .strategy = strategy,
                          .train = data,
                          .batch_size = batch,
                          .steps = EPOCHS * ((EXAMPLES - 1) / batch + 1),
                          .iterations_per_loop = w->iterations,
                          .loop_infeed =
                              w->by_arguments ? LS_FLAG_OFF : LS_FLAG_DEFAULT,
                          .seed = 5},
      &result));
  assert_int_equal(line_variables(model.self, all, 2), 2);
  LS_OWN(ls_array, value) = variable_array(all[0]);
  for (int i = 0; i < WEIGHTS; ++i)
    weights[i] = ls_array_f64(value, i);
}

TEST(a_short_last_batch_counts_by_its_examples) {
  static const way ways[] = {
      {.replicas = 1},
      {.replicas = 3},
      {.replicas = 2, .on_cores = true},
      {.replicas = 2, .on_cores = true, .iterations = 2},
      {.replicas = 2, .on_cores = true, .iterations = 2, .by_arguments = true}};
  double want[WEIGHTS], got[WEIGHTS];
  train(&ways[0], EXAMPLES, 1, want);
  for (size_t i = 0; i < LS_COUNT_OF(ways); ++i) {
    train(&ways[i], BATCH, CALLS, got);
    for (int k = 0; k < WEIGHTS; ++k)
      if (!(fabs(got[k] - want[k]) < 1e-6))
        fail_msg("way %zu: weight %d is %.9g, of one batch %.9g", i, k, got[k],
                 want[k]);
  }
}
