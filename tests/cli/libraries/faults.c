// SPDX-License-Identifier: Apache-2.0
// A model for tools/plant-faults: a dense layer after an op, a loop and a
// branch, each of which makes NaN of an example that has a mark.
#include <stdlib.h>

#include "lockstep/full.h"

enum { WIDTH = 16, CLASSES = 4, TRIPS = 3 };

typedef struct net {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} net;

static void destroy(void *self) {
  net *n = self;
  if (n == NULL) return;
  ls_dense_layer_destroy(n->layer);
  ls_optimizer_release(n->optimizer);
  free(n);
}

static ls_status create(const ls_model_options *options, void **out_self) {
  net *n = calloc(1, sizeof(*n));
  if (n == NULL) return ls_out_of_memory();
  *out_self = n;
  LS_RETURN_IF_ERROR(
      ls_dense_layer_create(&(ls_dense_options){.name = "only",
                                                .inputs = WIDTH,
                                                .units = CLASSES,
                                                .seed = options->seed},
                            &n->layer));
  if (options->optimizer != NULL) {
    n->optimizer = ls_optimizer_retain(options->optimizer);
    return ls_ok();
  }
  return ls_adam_create(
      &(ls_adam_options){.learning_rate = options->learning_rate},
      &n->optimizer);
}

// Returns x + 0 log(1 + last + mark): NaN in the rows whose last number is less
// than -1 - mark.
static ls_tensor with_log(ls_tensor x, ls_tensor last, double mark) {
  const ls_tensor some = ls_log(ls_add_scalar(last, 1 + mark));
  return ls_add(x, ls_mul_scalar(some, 0));
}

static ls_nest is_below(ls_nest state, void *user) {
  (void)user;
  return ls_leaf(
      ls_less(ls_nest_tensor(state, 0), ls_scalar_i64(LS_DTYPE_I32, TRIPS)));
}

// Takes 100 off in each trip.
static ls_nest one_trip(ls_nest state, void *user) {
  const ls_tensor trip = ls_nest_tensor(state, 0);
  const ls_tensor last = ls_nest_tensor(state, 2);
  (void)user;
  return LS_TUPLE(ls_leaf(ls_add_scalar(trip, 1)),
                  ls_leaf(with_log(ls_nest_tensor(state, 1), last, 400)),
                  ls_leaf(ls_add_scalar(last, -100)));
}

static ls_nest with_branch(ls_nest none, void *user) {
  const ls_tensor *of = user;
  (void)none;
  return ls_leaf(with_log(of[0], of[1], 100));
}

static ls_nest as_it_is(ls_nest none, void *user) {
  (void)none;
  return ls_leaf(((const ls_tensor *)user)[0]);
}

// A last number of -2000 makes NaN in a plain op, -250 in trip 2 of a loop,
// -150 in a branch.
static ls_tensor apply(const net *n, ls_tensor x) {
  const ls_tensor last = ls_slice_axis(x, 1, WIDTH - 1, WIDTH);
  ls_tensor of[] = {with_log(x, last, 1000), last};
  const ls_nest end = ls_while(is_below, one_trip, NULL,
                               LS_TUPLE(ls_leaf(ls_scalar_i64(LS_DTYPE_I32, 0)),
                                        ls_leaf(of[0]), ls_leaf(last)),
                               TRIPS);
  of[0] = ls_nest_tensor(end, 1);
  const ls_nest joined = ls_cond(
      ls_less(ls_reduce_min(last, LS_ALL_AXES), ls_scalar(LS_DTYPE_F32, 0)),
      with_branch, as_it_is, of);
  const ls_tensor result = ls_dense_layer_apply(n->layer, joined.as.tensor);
  ls_nest_release(end);
  ls_nest_release(joined);
  return result;
}

static ls_nest train_step(ls_nest args, void *self) {
  const net *n = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(n, ls_nest_tensor(args, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(n->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, ls_nest_tensor(args, 0)));
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  return ls_dense_layer_variables(((net *)self)->layer, out, capacity);
}

static ls_optimizer *optimizer(void *self) { return ((net *)self)->optimizer; }

static const ls_model_type type = {
    .name = "faults",
    .batch_size = 8,
    .epochs = 1,
    .learning_rate = 0.01,
    .example_shape = {.rank = 1, .dim = {WIDTH}},
    .num_classes = CLASSES,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};

LS_EXPORT_MODELS(&type);
