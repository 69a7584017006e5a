// SPDX-License-Identifier: Apache-2.0
//
// A small transformer with dropout, of the layers and nothing else: what it
// drops depends on the seed, the step and the replica alone.
#include "support/expect.h"

#include <math.h>
#include <string.h>

#include "data/own.h"
#include "lockstep/data.h"
#include "lockstep/eager.h"
#include "lockstep/iterator.h"
#include "lockstep/nn.h"
#include "lockstep/train.h"
#include "support/place.h"
#include "support/replicas.h"
#include "support/values.h"

enum { TOKENS = 8, CLASSES = 16, WIDTH = 16, HEADS = 2, BATCH = 6 };
enum { STEPS = 12 };

typedef struct transformer {
  ls_embedding_layer *embedding;
  ls_norm_layer *norm1, *norm2;
  ls_attention_layer *attention;
  ls_dense_layer *up, *down;
  ls_optimizer *optimizer;
  double rate;  // Of dropout.
} transformer;

static void transformer_init(double rate, transformer *out) {
  *out = (transformer){.rate = rate};
  expect_ok(ls_embedding_layer_create(
      &(ls_embedding_options){.rows = CLASSES, .width = WIDTH},
      &out->embedding));
  expect_ok(ls_norm_layer_create(
      &(ls_norm_options){.name = "norm1", .channels = WIDTH}, &out->norm1));
  expect_ok(ls_norm_layer_create(
      &(ls_norm_options){.name = "norm2", .channels = WIDTH}, &out->norm2));
  expect_ok(ls_attention_layer_create(
      &(ls_attention_layer_options){
          .width = WIDTH, .num_heads = HEADS, .causal = true},
      &out->attention));
  expect_ok(ls_dense_layer_create(
      &(ls_dense_options){.name = "up", .inputs = WIDTH, .units = 4 * WIDTH},
      &out->up));
  expect_ok(ls_dense_layer_create(
      &(ls_dense_options){.name = "down", .inputs = 4 * WIDTH, .units = WIDTH},
      &out->down));
  expect_ok(ls_adam_create(&(ls_adam_options){.learning_rate = 0.01},
                           &out->optimizer));
}

static void transformer_deinit(transformer *self) {
  ls_embedding_layer_destroy(self->embedding);
  ls_norm_layer_destroy(self->norm1);
  ls_norm_layer_destroy(self->norm2);
  ls_attention_layer_destroy(self->attention);
  ls_dense_layer_destroy(self->up);
  ls_dense_layer_destroy(self->down);
  ls_optimizer_release(self->optimizer);
}

static ls_tensor drop(const transformer *self, ls_tensor x) {
  return ls_dropout(x, self->rate, true, NULL);
}

static ls_nest train_step(ls_nest args, void *user) {
  const transformer *self = user;
  ls_tensor x = drop(
      self, ls_embedding_layer_apply(self->embedding, ls_nest_tensor(args, 0)));
  ls_tensor y = ls_attention_layer_apply(self->attention,
                                         ls_norm_layer_apply(self->norm1, x));
  x = ls_add(x, drop(self, y));
  y = ls_dense_layer_apply(self->up, ls_norm_layer_apply(self->norm2, x));
  y = ls_dense_layer_apply(self->down, drop(self, ls_gelu(y)));
  x = ls_add(x, drop(self, y));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(
      ls_embedding_layer_logits(self->embedding, x), ls_nest_tensor(args, 1));
  ls_optimizer_minimize(self->optimizer, loss);
  return ls_leaf(loss);
}

// ---- Running ---------------------------------------------------------------
typedef struct job {
  double rate;
  int64_t seed;
  int replicas, threads;
} job;

typedef struct outcome {
  float losses[2 * STEPS];  // Of each step and replica.
  size_t num_losses;
  float table[CLASSES * WIDTH];  // The embedding's at the end.
} outcome;

static ls_nest make_args(ls_strategy *strategy) {
  LS_OWN(ls_iterator, iterator) = NULL;
  ls_nest args = {0};
  LS_OWN(ls_dataset, dataset) = ls_dataset_parts(
      ls_dataset_batch(ls_dataset_synthetic(
                           &(ls_synthetic_options){.size = BATCH,
                                                   .dtype = LS_DTYPE_I32,
                                                   .shape = LS_SHAPE(TOKENS),
                                                   .num_classes = CLASSES}),
                       &(ls_batch_options){.size = BATCH}),
      ls_strategy_num_replicas(strategy));
  expect_ok(ls_iterator_create(dataset, NULL, &iterator));
  expect_ok(ls_iterator_next(iterator, &args));
  return args;
}

static void add_losses(ls_nest loss, int replicas, outcome *out) {
  for (int r = 0; r < replicas; ++r) {
    const ls_nest one =
        replicas > 1 ? ls_distributed_component(loss, (size_t)r) : loss;
    out->losses[out->num_losses++] =
        (float)ls_array_f64(ls_nest_as_array(one), 0);
  }
}

static void train(const job *work, outcome *out) {
  transformer model;
  ls_function *step = NULL;
  ls_nest loss = {0};
  memset(out, 0, sizeof(*out));
  transformer_init(work->rate, &model);
  ls_strategy *strategy = mirrored_of(work->replicas);
  expect_ok(ls_function_create(&(ls_function_options){.call = train_step,
                                                      .user = &model,
                                                      .seed = work->seed},
                               &step));
  const ls_nest args = make_args(strategy);
  for (int i = 0; i < STEPS; ++i) {
    expect_ok(ls_strategy_run(strategy, ls_traced(step), args, &loss));
    add_losses(loss, work->replicas, out);
  }
  ls_variable *table = NULL;
  assert_int_equal(ls_embedding_layer_variables(model.embedding, &table, 1), 1);
  ls_array *value = variable_array(table);
  assert_int_equal(ls_array_size(value), sizeof(out->table));
  memcpy(out->table, ls_array_data(value), sizeof(out->table));
  ls_array_release(value);
  ls_nest_release(args);
  ls_nest_release(loss);
  ls_function_release(step);
  ls_strategy_release(strategy);
  transformer_deinit(&model);
}

// Under a runtime of its own.
static outcome outcome_of(job work) {
  outcome out;
  LS_OWN(open_place, home) =
      runtime_begin((ls_runtime_options){.threads = work.threads});
  train(&work, &out);
  return out;
}

// ---- What it gives ---------------------------------------------------------
static void expect_same(const outcome *a, const outcome *b) {
  assert_memory_equal(a->losses, b->losses, sizeof(a->losses));
  assert_memory_equal(a->table, b->table, sizeof(a->table));
}

TEST(one_seed_gives_the_same_bits_whatever_the_threads) {
  for (int replicas = 1; replicas <= 2; ++replicas) {
    const outcome want = outcome_of((job){0.2, 7, replicas, 1});
    for (int threads = 1; threads <= 3; ++threads) {
      const outcome got = outcome_of((job){0.2, 7, replicas, threads});
      expect_same(&want, &got);
    }
  }
}

TEST(another_seed_drops_others) {
  for (int replicas = 1; replicas <= 2; ++replicas) {
    const outcome a = outcome_of((job){0.2, 7, replicas, 1});
    const outcome b = outcome_of((job){0.2, 8, replicas, 1});
    for (size_t i = 0; i < a.num_losses; ++i)
      assert_true(a.losses[i] != b.losses[i]);
    assert_memory_not_equal(a.table, b.table, sizeof(a.table));
    // Without dropout there is nothing that the seed could change.
    const outcome c = outcome_of((job){0, 7, replicas, 1});
    const outcome d = outcome_of((job){0, 8, replicas, 1});
    expect_same(&c, &d);
  }
}

TEST(it_learns_all_the_same) {
  const outcome run = outcome_of((job){0.2, 7, 1, 2});
  for (size_t i = 0; i < run.num_losses; ++i)
    assert_true(isfinite(run.losses[i]));
  assert_true(run.losses[STEPS - 1] < run.losses[0] - 0.1F);
}
