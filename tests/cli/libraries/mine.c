// SPDX-License-Identifier: Apache-2.0
// A model of a user's, with public headers only: one dense layer with dropout.
#ifdef TELLS
#define _POSIX_C_SOURCE 200809L
#endif
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "lockstep/lockstep.h"

typedef struct mine {
  ls_dense_layer *layer;
  ls_optimizer *optimizer;
} mine;

static void destroy(void *self) {
  mine *net = self;
  if (net == NULL) return;
  ls_dense_layer_destroy(net->layer);
  ls_optimizer_release(net->optimizer);
  free(net);
}

#ifdef OWN_RULE
static void update_momentum(ls_update *update, void *user) {
  (void)user;
  const ls_tensor v = ls_add(ls_mul_scalar(ls_update_read(update, 0), 0.9),
                             ls_update_gradient(update));
  ls_update_slot(update, 0, v);
  ls_update_move(update, ls_update_rate(update, v));
}

static const ls_optimizer_rule rule = {.name = "own",
                                       .learning_rate = 0.01,
                                       .slots = {{.name = "momentum"}},
                                       .update = update_momentum};
#endif

static ls_status fill(mine *net, const ls_model_options *options) {
  LS_RETURN_IF_ERROR(ls_dense_layer_create(
      &(ls_dense_options){
          .name = "only", .inputs = 16, .units = 4, .seed = options->seed},
      &net->layer));
#ifdef OWN_RATE
  if (options->optimizer == NULL)
    return ls_adam_create(
        &(ls_adam_options){
            .learning_rate = 0.02,
            .schedule = {.kind = LS_SCHEDULE_COSINE, .steps = 100}},
        &net->optimizer);
#endif
#ifdef OWN_RULE
  if (options->optimizer == NULL)
    return ls_optimizer_create_own(&rule, NULL, NULL, &net->optimizer);
#endif
  if (options->optimizer == NULL)
    return ls_adam_create(
        &(ls_adam_options){.learning_rate = options->learning_rate},
        &net->optimizer);
  net->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_ok();
}

static ls_status create(const ls_model_options *options, void **out_self) {
  mine *net = calloc(1, sizeof(*net));
  if (net == NULL) return ls_out_of_memory();
  const ls_status status = fill(net, options);
  if (!ls_status_is_ok(status))
    destroy(net);
  else
    *out_self = net;
  return status;
}

static ls_tensor apply(const mine *net, ls_tensor x, bool training) {
  return ls_dense_layer_apply(net->layer, ls_dropout(x, 0.25, training, NULL));
}

static ls_nest train_step(ls_nest args, void *self) {
  const mine *net = self;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = apply(net, ls_nest_tensor(args, 0), true);
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(net->optimizer, loss);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest logits(ls_nest args, void *self) {
  return ls_leaf(apply(self, ls_nest_tensor(args, 0), false));
}

static size_t variables(void *self, ls_variable **out, size_t capacity) {
  const mine *net = self;
  return ls_dense_layer_variables(net->layer, out, capacity);
}

static ls_optimizer *optimizer(void *self) { return ((mine *)self)->optimizer; }

static const ls_model_type line = {
    .name = "line",
    .description = "16 inputs, dropout, dense 4; Adam",
    .batch_size = 8,
    .epochs = 2,
    .learning_rate = 0.01,
    .example_shape = {.rank = 1, .dim = {16}},
    .num_classes = 4,
    .flops_per_example = 2.0 * 2 * 16 * 4,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};

#ifdef ANOTHER
static const ls_model_type curve = {
    .name = "curve",
    .batch_size = 8,
    .epochs = 1,
    .example_shape = {.rank = 1, .dim = {16}},
    .num_classes = 4,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};
#endif

#ifdef TELLS
// Code that runs when the library is loaded: says so, changes the program's
// language, and takes its time if that is asked for.
__attribute__((constructor)) static void tell(void) {
  FILE *file = fopen("was-loaded", "w");
  if (file != NULL) (void)fclose(file);
  if (getenv("LOCPATH") != NULL) (void)setlocale(LC_NUMERIC, "comma");
  for (int i = 0; i < 600 && access("be-slow", F_OK) == 0; ++i)
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}
#endif

#if defined(NO_MODELS)
LS_API int something_else;
int something_else = 1;
void *unused_here = (void *)&line;
#elif defined(OTHER_VERSION)
static const ls_model_type *const types[] = {&line};
const ls_model_table ls_exported_models = {sizeof(ls_model_table),
                                           LS_MODEL_TABLE_VERSION + 1,
                                           sizeof(ls_model_type), 1, types};
#elif defined(SMALL)
static const ls_model_type *const types[] = {&line};
const ls_model_table ls_exported_models = {sizeof(ls_model_table),
                                           LS_MODEL_TABLE_VERSION,
                                           sizeof(ls_model_type) - 8, 1, types};
#elif defined(ANOTHER)
LS_EXPORT_MODELS(&line, &curve);
#else
LS_EXPORT_MODELS(&line);
#endif
