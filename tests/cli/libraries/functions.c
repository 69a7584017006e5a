// SPDX-License-Identifier: Apache-2.0
// A user's model that computes every elementary function in its step, and keeps
// an exponential average of its weights.
#include <stdlib.h>

#include "lockstep/full.h"

enum { INPUTS = 16, UNITS = 32, CLASSES = 4, WEIGHTS = 4 };

typedef struct functions {
  ls_dense_layer *first, *last;
  ls_optimizer *optimizer;
  ls_average *average;
  ls_dtype dtype;
} functions;

static size_t weights(const functions *self, ls_variable **out) {
  const size_t first = ls_dense_layer_variables(self->first, out, WEIGHTS);
  return first +
         ls_dense_layer_variables(self->last, out + first, WEIGHTS - first);
}

static void destroy(void *object) {
  functions *self = object;
  if (self == NULL) return;
  ls_average_destroy(self->average);
  ls_dense_layer_destroy(self->first);
  ls_dense_layer_destroy(self->last);
  ls_optimizer_release(self->optimizer);
  free(self);
}

static ls_status create_parts(functions *self,
                              const ls_model_options *options) {
  self->dtype = options->dtype;
  LS_RETURN_IF_ERROR(
      ls_dense_layer_create(&(ls_dense_options){.name = "first",
                                                .inputs = INPUTS,
                                                .units = UNITS,
                                                .dtype = options->dtype,
                                                .seed = options->seed},
                            &self->first));
  LS_RETURN_IF_ERROR(
      ls_dense_layer_create(&(ls_dense_options){.name = "last",
                                                .inputs = UNITS,
                                                .units = CLASSES,
                                                .dtype = options->dtype,
                                                .seed = options->seed + 1},
                            &self->last));
  if (options->optimizer != NULL)
    self->optimizer = ls_optimizer_retain(options->optimizer);
  else
    LS_RETURN_IF_ERROR(ls_adam_create(
        &(ls_adam_options){
            .learning_rate = 0.01,
            .schedule = {.kind = LS_SCHEDULE_COSINE, .steps = 100}},
        &self->optimizer));
  ls_variable *variables[WEIGHTS];
  const size_t count = weights(self, variables);
  return ls_average_create(&(ls_average_options){.variables = variables,
                                                 .count = count,
                                                 .decay = 0.9},
                           &self->average);
}

static ls_status create(const ls_model_options *options, void **out_self) {
  functions *self = calloc(1, sizeof(*self));
  if (self == NULL) return ls_out_of_memory();
  const ls_status status = create_parts(self, options);
  if (!ls_status_is_ok(status))
    destroy(self);
  else
    *out_self = self;
  return status;
}

static ls_tensor hidden(const functions *self, ls_tensor x) {
  const ls_tensor z =
      ls_dense_layer_apply(self->first, ls_convert(x, self->dtype));
  const ls_tensor square = ls_square(z), above_one = ls_add_scalar(square, 1);
  const ls_tensor terms[] = {
      ls_tanh(z),
      ls_sin(z),
      ls_cos(z),
      ls_tan(ls_mul_scalar(ls_tanh(z), 0.5)),
      ls_exp(ls_neg(square)),
      ls_expm1(ls_mul_scalar(ls_tanh(z), 0.5)),
      ls_log(above_one),
      ls_log1p(square),
      ls_erf(z),
      ls_erfc(z),
      ls_pow(above_one, ls_tanh(z)),
      ls_atan2(z, above_one),
      ls_cbrt(above_one),
      ls_remainder(z, above_one),
      ls_softplus(z),
      ls_gelu(z),
      ls_sigmoid(z),
      ls_rsqrt(above_one),
  };
  return ls_mul_scalar(ls_add_n(terms, sizeof(terms) / sizeof(*terms)), 0.1);
}

static ls_tensor compute_logits(const functions *self, ls_tensor x) {
  return ls_dense_layer_apply(self->last, hidden(self, x));
}

static ls_nest train_step(ls_nest args, void *object) {
  const functions *self = object;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  const ls_tensor logits = compute_logits(self, ls_nest_tensor(args, 0));
  const ls_tensor loss = ls_mean_softmax_cross_entropy(logits, labels);
  ls_optimizer_minimize(self->optimizer, loss);
  ls_average_update(self->average);
  const char *const keys[] = {"loss", "accuracy"};
  const ls_nest items[] = {ls_leaf(loss), ls_leaf(ls_accuracy(logits, labels))};
  return ls_nest_dict("", keys, items, 2);
}

static ls_nest logits(ls_nest args, void *object) {
  return ls_leaf(compute_logits(object, ls_nest_tensor(args, 0)));
}

static size_t variables(void *object, ls_variable **out, size_t capacity) {
  const functions *self = object;
  ls_variable *own[WEIGHTS];
  const size_t count = weights(self, own);
  for (size_t i = 0; i < count && i < capacity; ++i)
    out[i] = own[i];
  const size_t room = capacity > count ? capacity - count : 0;
  return count + ls_average_variables(self->average,
                                      room > 0 ? out + count : NULL, room);
}

static ls_optimizer *optimizer(void *object) {
  return ((functions *)object)->optimizer;
}

static const ls_model_type type = {
    .name = "functions",
    .description = "16 inputs, dense 32, every elementary function, dense 4; "
                   "Adam with a cosine schedule, weights averaged",
    .batch_size = 60,
    .epochs = 1,
    .learning_rate = 0.01,
    .example_shape = {.rank = 1, .dim = {INPUTS}},
    .num_classes = CLASSES,
    .create = create,
    .destroy = destroy,
    .train_step = train_step,
    .logits = logits,
    .variables = variables,
    .optimizer = optimizer,
};

LS_EXPORT_MODELS(&type);
