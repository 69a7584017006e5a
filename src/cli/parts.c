// SPDX-License-Identifier: Apache-2.0
// Makes a run's optimizer and model from its configuration.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

// ---- Choices ---------------------------------------------------------------
bool cli_choose(const char *command, const char *flag, const char *value,
                const char *const *choices, size_t count) {
  char all[128] = "";
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(choices[i], value) == 0) return true;
    const size_t at = strlen(all);
    snprintf(all + at, sizeof(all) - at, "%s%s",
             i == 0 ? "" : (i + 1 == count ? " or " : ", "), choices[i]);
  }
  return cli_refuse(command, "--%s is '%s', expected %s", flag, value, all);
}

bool cli_check_task(const char *command, const char *task) {
  const char *names[8];
  size_t count = 0;
  const ls_task *const *tasks = ls_tasks(&count);
  for (size_t i = 0; i < count; ++i)
    names[i] = tasks[i]->name;
  return task == NULL || task[0] == '\0' ||
         cli_choose(command, "task", task, names, count);
}

bool cli_flagged_type(const char *command, const char *task, int64_t outputs,
                      const ls_model_type **type, ls_model_type *room) {
  ls_train_config config = {.task = task, .outputs = outputs};
  if (!cli_check_task(command, task)) return false;
  const bool numbers = cli_task_of(&config, *type)->label_dtype == LS_DTYPE_F32;
  if (outputs == 0 && numbers && (*type)->any_outputs) config.outputs = 1;
  const ls_status status = cli_run_type(&config, type, room);
  return cli_report(command, status) == CLI_OK;
}

bool cli_check_precision(const char *command, const char *precision) {
  static const char *const choices[] = {"f32", "f64", "bf16"};
  return cli_choose(command, "precision", precision, choices, 3);
}

ls_status cli_precision(const char *precision, ls_dtype *out_dtype) {
  *out_dtype = LS_DTYPE_F32;  // Only matrix products use bf16.
  if (strcmp(precision, "bf16") == 0) return ls_ok();
  return ls_dtype_parse(precision, out_dtype);
}

ls_status cli_check_batch(int64_t batch_size, int64_t examples) {
  if (batch_size <= examples) return ls_ok();
  return ls_invalid_argument(
      "--batch-size is %lld, but the data have %lld examples to train on: "
      "give %lld or less",
      (long long)batch_size, (long long)examples, (long long)examples);
}

bool cli_has_pixels(const ls_model_type *type) {
  return type->label_shape.rank == 2 &&
         ls_model_type_task(type)->label_dtype == LS_DTYPE_I32;
}

int64_t cli_batch_of(const ls_model_type *type) {
  enum { MOST = 256, MOST_LABELS = 1 << 16 };
  const int64_t fits = MOST_LABELS / ls_shape_num_elements(type->label_shape);
  return fits > MOST ? MOST : fits > 0 ? fits : 1;
}

// ---- Model -----------------------------------------------------------------
// Makes the schedule of an --optimizer for a run of `steps` steps.
static ls_schedule make_schedule(const ls_train_config *config, int64_t steps) {
  const bool changes = strcmp(config->schedule, "constant") != 0;
  const bool cosine = strcmp(config->schedule, "cosine") == 0;
  // Schedules count steps of the optimizer, one for `accumulate` batches.
  if (config->accumulate > 1) steps /= config->accumulate;
  const int64_t rest = steps > config->warmup ? steps - config->warmup : 1;
  return (ls_schedule){.kind = !changes ? LS_SCHEDULE_CONSTANT
                               : cosine ? LS_SCHEDULE_COSINE
                                        : LS_SCHEDULE_LINEAR,
                       .steps = changes ? rest : 0,
                       .warmup = config->warmup};
}

static ls_status create_optimizer(const ls_train_config *config,
                                  const ls_schedule *schedule,
                                  ls_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  const ls_optimizer_options options = {
      .learning_rate = config->learning_rate,
      .schedule = *schedule,
      .clip = {.global_norm = config->clip_norm},
      .weight_decay = config->weight_decay,
      .accumulate = config->accumulate};
  if (config->optimizer[0] == '\0') return ls_ok();
  if (!cli_is_library(config->optimizer))
    return ls_optimizer_create(config->optimizer, &options, out_optimizer);
  // A command that makes no steps does not need it, and has not loaded it.
  const ls_optimizer_rule *rule = cli_own_optimizer()->rule;
  if (rule == NULL) return ls_ok();
  return ls_optimizer_create_own(rule, NULL, &options, out_optimizer);
}

// Refuses a user's model that has ignored options.
static ls_status check_model(const ls_model *model, ls_dtype dtype,
                             const ls_optimizer *optimizer) {
  ls_variable *first = NULL;
  if (model->type->variables(model->self, &first, 1) > 0 &&
      ls_dtype_is_float(ls_variable_dtype(first)) &&
      ls_variable_dtype(first) != dtype)
    return ls_unimplemented(
        "model '%s' computes in %s, not in %s", model->type->name,
        ls_dtype_name(ls_variable_dtype(first)), ls_dtype_name(dtype));
  if (optimizer != NULL && model->type->optimizer(model->self) != optimizer)
    return ls_unimplemented("model '%s' supports only its own optimizer",
                            model->type->name);
  return ls_ok();
}

static bool has_task(const ls_train_config *config) {
  return config->task != NULL && config->task[0] != '\0';
}

const ls_task *cli_task_of(const ls_train_config *config,
                           const ls_model_type *type) {
  const ls_task *task = has_task(config) ? ls_task_find(config->task) : NULL;
  return task != NULL ? task : ls_model_type_task(type);
}

ls_status cli_run_type(const ls_train_config *config,
                       const ls_model_type **type, ls_model_type *room) {
  if (config->inputs == 0 && config->outputs == 0 && !has_task(config))
    return ls_ok();
  if (has_task(config) && ls_task_find(config->task) == NULL)
    return ls_invalid_argument("there is no task '%s'", config->task);
  LS_RETURN_IF_ERROR(ls_model_type_adapt(*type, cli_task_of(config, *type),
                                         config->inputs, config->outputs,
                                         room));
  *type = room;
  return ls_ok();
}

// Creates a model with the rate and the optimizer of the configuration.
static ls_status create_model(const ls_train_config *config,
                              const ls_model_type *type,
                              const ls_schedule *schedule,
                              ls_model_options *options, ls_model *out_model) {
  *out_model = (ls_model){0};
  options->seed = config->seed;
  options->inputs = config->inputs;
  LS_RETURN_IF_ERROR(cli_precision(config->precision, &options->dtype));
  ls_optimizer *const given = options->optimizer;
  if (config->optimizer[0] == '\0' && given == NULL)
    options->learning_rate = config->learning_rate;
  CLI_OWN(ls_array, mean) = NULL;
  CLI_OWN(ls_array, deviation) = NULL;
  CLI_OWN(ls_optimizer, optimizer) = NULL;
  LS_RETURN_IF_ERROR(
      cli_read_normalization(type, config->normalize, &mean, &deviation));
  options->mean = mean;
  options->deviation = deviation;
  if (given == NULL)
    LS_RETURN_IF_ERROR(create_optimizer(config, schedule, &optimizer));
  options->optimizer = given != NULL ? given : optimizer;
  LS_RETURN_IF_ERROR(ls_model_create(type, options, out_model));
  return check_model(out_model, options->dtype, options->optimizer);
}

static ls_status create_falling(const ls_train_config *config,
                                const ls_model_type *type, int64_t steps,
                                ls_model_options *options,
                                ls_model *out_model) {
  const ls_schedule schedule = make_schedule(config, steps);
  const bool is_own =
      config->optimizer[0] == '\0' && options->optimizer == NULL;
  const bool falls = is_own && strcmp(config->schedule, "linear") == 0;
  options->decay_steps = falls ? steps : 0;
  return create_model(config, type, &schedule, options, out_model);
}

ls_status cli_create_model(const ls_train_config *config,
                           const ls_model_type *type, int64_t steps,
                           ls_model *out_model) {
  ls_model_options options = {.metrics = true};
  return create_falling(config, type, steps, &options, out_model);
}

ls_status cli_create_model_by(const ls_train_config *config,
                              const ls_model_type *type, int64_t steps,
                              ls_optimizer *optimizer, ls_model *out_model) {
  ls_model_options options = {.optimizer = optimizer};
  return create_falling(config, type, steps, &options, out_model);
}

static ls_nest predict_batch(ls_nest args, void *user) {
  const ls_model *model = user;
  const ls_nest result = model->type->logits(args, model->self);
  if (ls_nest_is_failed(result)) return result;
  const ls_tensor logits = ls_nest_tensor(result, 0);
  ls_nest_release(result);
  return ls_model_type_task(model->type)->predictions(logits);
}

ls_status cli_create_prediction(ls_model *model, const char *name,
                                ls_function **out_function) {
  return ls_function_create(&(ls_function_options){.call = predict_batch,
                                                   .user = model,
                                                   .name = name},
                            out_function);
}

ls_status cli_create_scheduled(const ls_train_config *config,
                               const ls_model_type *type,
                               const ls_schedule *schedule,
                               ls_model *out_model) {
  ls_model_options options = {.metrics = true};
  if (config->optimizer[0] == '\0') options.schedule = *schedule;
  LS_RETURN_IF_ERROR(create_model(config, type, schedule, &options, out_model));
  const ls_optimizer *optimizer = type->optimizer(out_model->self);
  const ls_schedule has =
      optimizer != NULL ? ls_optimizer_schedule(optimizer) : (ls_schedule){0};
  if (has.kind == schedule->kind && has.steps == schedule->steps &&
      has.factor == schedule->factor)
    return ls_ok();
  return ls_unimplemented("model '%s' ignores the schedule of its learning "
                          "rate: give an --optimizer",
                          type->name);
}
