// SPDX-License-Identifier: Apache-2.0
#include "models/classifier.h"
#include "lockstep/allocator.h"

#include <string.h>

// ---- Making ----------------------------------------------------------------
ls_status ls_classifier_create(
    size_t size, const ls_model_options *options,
    ls_status (*fill)(void *self, const ls_model_options *options),
    void (*destroy)(void *self), void **out_self) {
  *out_self = NULL;
  ls_runtime *runtime = ls_runtime_current();
  if (runtime == NULL) return ls_out_of_memory();
  ls_allocator *allocator = ls_runtime_allocator(runtime);
  ls_classifier *self = allocator->allocate(allocator, size, 16);
  if (self == NULL) return ls_out_of_memory();
  memset(self, 0, size);
  self->allocator = allocator;
  self->task = ls_model_type_task(options->type);
  self->outputs = options->type->num_classes;
  self->dtype = options->dtype;
  self->metrics = options->metrics;
  self->mean = ls_array_retain(options->mean);
  self->deviation = ls_array_retain(options->deviation);
  const ls_status status = fill(self, options);
  if (!ls_status_is_ok(status))
    destroy(self);
  else
    *out_self = self;
  return status;
}

void ls_classifier_free(ls_classifier *self) {
  ls_optimizer_release(self->optimizer);
  ls_array_release(self->mean);
  ls_array_release(self->deviation);
  self->allocator->release(self->allocator, self);
}

// Returns the schedule of the options: their own, or the rate falls linearly
// over options->decay_steps, or is constant.
static ls_schedule schedule_of(const ls_model_options *options) {
  const ls_schedule *own = &options->schedule;
  if (own->kind != LS_SCHEDULE_CONSTANT || own->warmup > 0 ||
      own->custom != NULL)
    return *own;
  return (ls_schedule){.kind = options->decay_steps > 0 ? LS_SCHEDULE_LINEAR
                                                        : LS_SCHEDULE_CONSTANT,
                       .steps = options->decay_steps};
}

ls_status ls_classifier_use_sgd(ls_classifier *self,
                                const ls_model_options *options,
                                double momentum) {
  if (ls_task_has_numbers(self->task))
    return ls_classifier_use_adam(self, options);
  if (options->optimizer == NULL)
    return ls_sgd_create(
        &(ls_sgd_options){.learning_rate = options->learning_rate,
                          .schedule = schedule_of(options),
                          .momentum = momentum},
        &self->optimizer);
  self->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_ok();
}

ls_status ls_classifier_use_adam(ls_classifier *self,
                                 const ls_model_options *options) {
  if (options->optimizer == NULL)
    return ls_adam_create(
        &(ls_adam_options){.learning_rate = options->learning_rate,
                           .schedule = schedule_of(options)},
        &self->optimizer);
  self->optimizer = ls_optimizer_retain(options->optimizer);
  return ls_ok();
}

static bool is_16_bit(ls_dtype dtype) {
  return ls_dtype_size(dtype) < ls_dtype_size(LS_DTYPE_F32);
}

ls_dtype ls_classifier_norm_dtype(const ls_model_options *options) {
  return is_16_bit(options->dtype) ? LS_DTYPE_F32 : options->dtype;
}

// ---- Training --------------------------------------------------------------
ls_tensor ls_classifier_examples(const ls_classifier *self, ls_nest args) {
  const ls_tensor x = ls_convert(ls_nest_tensor(args, 0), self->dtype);
  if (self->mean == NULL) return x;
  const ls_tensor mean = ls_convert(ls_constant(self->mean), self->dtype);
  const ls_tensor deviation =
      ls_convert(ls_constant(self->deviation), self->dtype);
  return ls_div(ls_sub(x, mean), deviation);
}

ls_nest ls_classifier_step(const ls_classifier *self, ls_tensor outputs,
                           ls_nest args) {
  const ls_task *task = self->task;
  const ls_tensor labels = ls_nest_tensor(args, 1);
  // Uses f32 for the loss, since the mean of many rows needs more than 16 bits.
  if (is_16_bit(self->dtype)) outputs = ls_convert(outputs, LS_DTYPE_F32);
  const ls_tensor loss =
      ls_reduce_loss(task->losses(outputs, labels), LS_REDUCTION_MEAN);
  ls_optimizer_minimize(self->optimizer, loss);
  const char *const keys[] = {"loss", task->metric};
  ls_nest items[2] = {ls_leaf(loss)};
  if (self->metrics)
    items[1] =
        ls_leaf(ls_reduce_mean(task->scores(outputs, labels), LS_ALL_AXES));
  return ls_nest_dict("", keys, items, self->metrics ? 2 : 1);
}

ls_optimizer *ls_classifier_optimizer(void *self) {
  return ((ls_classifier *)self)->optimizer;
}

size_t ls_classifier_list(ls_variable *const *all, size_t count,
                          ls_variable **variables, size_t capacity) {
  for (size_t i = 0; i < count && i < capacity; ++i)
    variables[i] = all[i];
  return count;
}
