// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/require.h"
#include "lockstep/allocator.h"
#include "models/classifier.h"

// ---- Tasks ------------------------------------------------------------------
// The table of tasks, and types of models for them.

// ---- Classification --------------------------------------------------------
// Returns 1 for each row whose largest logit is at the label, else 0.
static ls_tensor score_classes(ls_tensor logits, ls_tensor labels) {
  const ls_tensor guess = ls_argmax(logits, -1);
  return ls_convert(ls_equal(guess, ls_convert(labels, LS_DTYPE_I64)),
                    LS_DTYPE_F32);
}

static ls_nest predict_classes(ls_tensor logits) {
  const int last = ls_tensor_shape(logits).rank - 1;
  const char *const names[] = {"class", "probability"};
  const ls_nest items[] = {
      ls_leaf(ls_argmax(logits, last)),
      ls_leaf(ls_reduce_max(ls_softmax(logits), LS_AXES(last)))};
  return ls_nest_dict("", names, items, 2);
}

const ls_task ls_task_classification = {.name = "classification",
                                        .label_dtype = LS_DTYPE_I32,
                                        .metric = "accuracy",
                                        .losses = ls_softmax_cross_entropy,
                                        .scores = score_classes,
                                        .predictions = predict_classes};

// ---- Classification of pixels ----------------------------------------------
// Returns true for labels that are not void.
static ls_tensor mark_counted(ls_tensor labels) {
  return ls_not_equal(labels,
                      ls_scalar_i64(ls_tensor_dtype(labels), LS_VOID_LABEL));
}

// Computes numbers of pixels without those of void ones. Their scale is exactly
// 1 for an example without any.
static ls_tensor count_pixels(ls_tensor logits, ls_tensor labels,
                              ls_tensor (*numbers)(ls_tensor logits,
                                                   ls_tensor labels)) {
  const ls_shape shape = ls_tensor_shape(logits);
  if (shape.rank != 4 || shape.dim[1] < 0 || shape.dim[2] < 0 ||
      shape.dim[3] > LS_VOID_LABEL)
    return numbers(logits, labels);
  const ls_tensor counted = mark_counted(labels);
  const ls_tensor values =
      numbers(logits, ls_select(counted, labels,
                                ls_scalar_i64(ls_tensor_dtype(labels), 0)));
  const ls_dtype dtype = ls_tensor_dtype(values);
  const ls_tensor count =
      ls_reduce_sum_keep(ls_convert(counted, dtype), LS_AXES(1, 2));
  const ls_tensor divisor = ls_maximum(count, ls_scalar(dtype, 1));
  const ls_tensor scale =
      ls_div(ls_scalar(dtype, (double)(shape.dim[1] * shape.dim[2])), divisor);
  return ls_mul(ls_select(counted, values, ls_scalar(dtype, 0)), scale);
}

static ls_tensor pixel_losses(ls_tensor logits, ls_tensor labels) {
  return count_pixels(logits, labels, ls_softmax_cross_entropy);
}

static ls_tensor score_pixels(ls_tensor logits, ls_tensor labels) {
  return count_pixels(logits, labels, score_classes);
}

const ls_task ls_task_pixels = {.name = "classification",
                                .label_dtype = LS_DTYPE_I32,
                                .metric = "accuracy",
                                .losses = pixel_losses,
                                .scores = score_pixels,
                                .predictions = predict_classes,
                                .has_void = true};

// ---- Regression ------------------------------------------------------------
static ls_tensor squared_errors(ls_tensor outputs, ls_tensor labels) {
  return ls_mean_squared_error(
      outputs, ls_convert(labels, ls_tensor_dtype(outputs)), LS_REDUCTION_NONE);
}

static ls_tensor absolute_errors(ls_tensor outputs, ls_tensor labels) {
  return ls_mean_absolute_error(
      outputs, ls_convert(labels, ls_tensor_dtype(outputs)), LS_REDUCTION_NONE);
}

static ls_nest predict_values(ls_tensor outputs) {
  const int last = ls_tensor_shape(outputs).rank - 1;
  const bool is_single = last > 0 && ls_tensor_shape(outputs).dim[last] == 1;
  const ls_nest value =
      ls_leaf(is_single ? ls_reduce_sum(outputs, LS_AXES(last)) : outputs);
  return ls_nest_dict("", &(const char *){"value"}, &value, 1);
}

const ls_task ls_task_regression = {.name = "regression",
                                    .label_dtype = LS_DTYPE_F32,
                                    .metric = "mae",
                                    .less_is_better = true,
                                    .losses = squared_errors,
                                    .scores = absolute_errors,
                                    .predictions = predict_values};

// ---- Several labels --------------------------------------------------------
static ls_tensor binary_losses(ls_tensor logits, ls_tensor labels) {
  return ls_sigmoid_cross_entropy_loss(
      logits, ls_convert(labels, ls_tensor_dtype(logits)), LS_REDUCTION_NONE);
}

// Returns 1 for each label that is predicted right, else 0.
static ls_tensor score_labels(ls_tensor logits, ls_tensor labels) {
  const ls_tensor is_set =
      ls_greater(logits, ls_scalar(ls_tensor_dtype(logits), 0));
  const ls_tensor wanted = ls_convert(labels, LS_DTYPE_F32);
  return ls_convert(ls_equal(ls_convert(is_set, LS_DTYPE_F32), wanted),
                    LS_DTYPE_F32);
}

static ls_nest predict_labels(ls_tensor logits) {
  const ls_nest probability = ls_leaf(ls_sigmoid(logits));
  return ls_nest_dict("", &(const char *){"probability"}, &probability, 1);
}

const ls_task ls_task_multi_label = {.name = "multi-label",
                                     .label_dtype = LS_DTYPE_F32,
                                     .is_binary = true,
                                     .metric = "accuracy",
                                     .losses = binary_losses,
                                     .scores = score_labels,
                                     .predictions = predict_labels};

// ---- The table -------------------------------------------------------------
static const ls_task *const tasks[] = {
    &ls_task_classification, &ls_task_regression, &ls_task_multi_label};
enum { NUM_TASKS = sizeof(tasks) / sizeof(tasks[0]) };

const ls_task *const *ls_tasks(size_t *out_count) {
  *out_count = NUM_TASKS;
  return tasks;
}

const ls_task *ls_task_find(const char *name) {
  if (name == NULL) return NULL;
  for (size_t i = 0; i < NUM_TASKS; ++i)
    if (strcmp(tasks[i]->name, name) == 0) return tasks[i];
  return NULL;
}

const ls_task *ls_model_type_task(const ls_model_type *type) {
  return type->task != NULL ? type->task : &ls_task_classification;
}

// Returns true if labels are numbers of any size. Steps of SGD grow with them,
// those of Adam do not.
static bool task_has_numbers(const ls_task *task) {
  return task->label_dtype == LS_DTYPE_F32 && !task->is_binary;
}

// ---- Types -----------------------------------------------------------------
static ls_status check_adaption(const ls_model_type *type, const ls_task *task,
                                int64_t inputs, int64_t outputs) {
  const char *has = ls_model_type_task(type)->name;
  if (inputs < 0 || (inputs > 0 && !type->any_inputs))
    return ls_invalid_argument("model '%s' takes examples of %s, not of %lld "
                               "elements",
                               type->name,
                               LS_SHAPE_TEXT(LS_DTYPE_F32, type->example_shape),
                               (long long)inputs);
  if (strcmp(task->name, has) != 0 && !type->any_task)
    return ls_invalid_argument("model '%s' is for %s, not for %s", type->name,
                               has, task->name);
  return outputs >= 0 && (outputs == 0 || outputs == type->num_classes ||
                          type->any_outputs)
             ? ls_ok()
             : ls_invalid_argument("model '%s' has %lld outputs, not %lld",
                                   type->name, (long long)type->num_classes,
                                   (long long)outputs);
}

ls_status ls_model_type_adapt(const ls_model_type *type, const ls_task *task,
                              int64_t inputs, int64_t outputs,
                              ls_model_type *out_type) {
  const ls_model_type none = {0};
  const ls_model_type from = type != NULL ? *type : none;
  LS_REQUIRE_OUT(out_type);  // It may be `type`.
  LS_REQUIRE(type);
  const ls_task *has = ls_model_type_task(&from);
  if (task == NULL || strcmp(task->name, has->name) == 0) task = has;
  LS_RETURN_IF_ERROR(check_adaption(&from, task, inputs, outputs));
  *out_type = from;
  out_type->task = task;
  if (inputs > 0) out_type->example_shape = LS_SHAPE(inputs);
  if (outputs > 0) out_type->num_classes = outputs;
  if (!ls_shape_equal(out_type->example_shape, from.example_shape) ||
      out_type->num_classes != from.num_classes)
    out_type->flops_per_example = 0;
  if (task_has_numbers(task) && task != has) out_type->learning_rate = 1e-3;
  // Labels of classes have one dimension less than the outputs, others as many.
  ls_shape *labels = &out_type->label_shape;
  if (has->label_dtype == LS_DTYPE_F32 && labels->rank > 0) --labels->rank;
  if (task->label_dtype == LS_DTYPE_F32)
    labels->dim[labels->rank++] = out_type->num_classes;
  return ls_ok();
}

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
  if (task_has_numbers(self->task))
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
