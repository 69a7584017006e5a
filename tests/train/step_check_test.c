// SPDX-License-Identifier: Apache-2.0
//
// Models that are not as they must be: a line says what is wrong with them.
#include <string.h>

#include "base/memory/allocator.h"
#include "distribute/own.h"
#include "lockstep/layers.h"
#include "lockstep/losses.h"
#include "lockstep/train.h"
#include "support/expect.h"

enum { FEATURES = 3, CLASSES = 4, EXAMPLES = 6 };

// A model of one layer, with one thing wrong.
typedef enum fault {
  NOTHING,
  BARE_LOSS,
  NO_LOSS,
  NO_ACCURACY,
  NO_STEP,
  NO_VARIABLES,
  MOST_FAULTS,
} fault;

typedef struct net {
  fault fault;
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static net the_net;

static ls_status create(const ls_model_options *options, void **out_self) {
  (void)options;
  *out_self = &the_net;
  LS_RETURN_IF_ERROR(ls_dense_layer_create(
      &(ls_dense_options){.inputs = FEATURES, .units = CLASSES},
      &the_net.layer));
  return ls_sgd_create(NULL, &the_net.optimizer);
}

static void destroy(void *self) {
  if (self == NULL) return;
  ls_dense_layer_destroy(the_net.layer);
  ls_optimizer_release(the_net.optimizer);
}

static ls_nest logits(ls_nest args, void *self) {
  const net *n = self;
  return ls_leaf(ls_dense_layer_apply(n->layer, ls_nest_tensor(args, 0)));
}

static ls_nest train_step(ls_nest args, void *self) {
  const net *n = self;
  const ls_tensor y = ls_nest_tensor(logits(args, self), 0);
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(y, labels);
  if (n->fault != NO_STEP) ls_optimizer_minimize(n->optimizer, loss);
  if (n->fault == BARE_LOSS) return ls_leaf(loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(y, labels))};
  const size_t first = n->fault == NO_LOSS ? 1 : 0;
  const size_t limit = n->fault == NO_ACCURACY ? 1 : 2;
  return ls_nest_dict("", keys + first, items + first, limit - first);
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  const net *n = self;
  return n->fault == NO_VARIABLES
             ? 0
             : ls_dense_layer_variables(n->layer, out, capacity);
}

static ls_optimizer *optimizer(void *self) { return ((net *)self)->optimizer; }

static const ls_model_type type = {
    .name = "net",
    .batch_size = 4,
    .epochs = 1,
    .learning_rate = 0.1,
    .example_shape = {.rank = 1, .dim = {FEATURES}},
    .num_classes = CLASSES + 1,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};

static ls_dataset *examples(int32_t last_label) {
  float x[EXAMPLES * FEATURES] = {0};
  int32_t y[EXAMPLES] = {0, 1, 2, 3, 0, last_label};
  ls_array *rows = NULL, *labels = NULL;
  expect_ok(ls_array_create_copy(LS_DTYPE_F32, LS_SHAPE(EXAMPLES, FEATURES), x,
                                 &rows));
  expect_ok(ls_array_create_copy(LS_DTYPE_I32, LS_SHAPE(EXAMPLES), y, &labels));
  return ls_dataset_from_arrays(
      LS_TUPLE(ls_nest_array(rows), ls_nest_array(labels)));
}

static ls_status train(fault wrong, int64_t replicas, int32_t last_label) {
  LS_OWN(ls_strategy, strategy) = NULL;
  ls_model model = {0};
  ls_train_result result;
  LS_OWN(ls_dataset, dataset) = examples(last_label);
  the_net.fault = wrong;
  expect_ok(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)}, &strategy));
  {
    LS_STRATEGY_SCOPE(strategy);
    expect_ok(ls_model_create(&type, NULL, &model));
  }
  const ls_status status = ls_train(&(ls_train_options){.model = &model,
                                                        .strategy = strategy,
                                                        .train = dataset,
                                                        .batch_size = 3},
                                    &result);
  ls_model_destroy(&model);
  return status;
}

TEST(a_step_that_is_none_is_refused_in_a_line) {
  static const char *const says[MOST_FAULTS] = {
      [BARE_LOSS] = "the training step of model 'net' returns no \"loss\"",
      [NO_LOSS] = "the training step of model 'net' returns no \"loss\"",
      [NO_ACCURACY] =
          "the training step of model 'net' returns no \"accuracy\"",
      [NO_STEP] = "changes no trainable variable",
      [NO_VARIABLES] = "model 'net' lists no variables",
  };
  for (int64_t replicas = 1; replicas <= 3; ++replicas) {
    expect_ok(train(NOTHING, replicas, 0));
    for (fault wrong = BARE_LOSS; wrong < MOST_FAULTS; ++wrong) {
      const ls_status status = train(wrong, replicas, 0);
      assert_null(strchr(ls_status_message(status), '\n'));
      expect_status(status, LS_INVALID_ARGUMENT, says[wrong]);
    }
  }
}

// The type promises a class more than the model has logits for.
TEST(a_label_without_a_logit_is_named) {
  for (int64_t replicas = 1; replicas <= 3; ++replicas)
    expect_status(train(NOTHING, replicas, CLASSES), LS_INVALID_ARGUMENT,
                  "label 4 is none of the 4 classes, 0 to 3");
}
