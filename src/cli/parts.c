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
  cli_say(command, "--%s is '%s', expected %s", flag, value, all);
  return false;
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

// ---- Model -----------------------------------------------------------------
static ls_status create_optimizer(const ls_train_config *config, int64_t steps,
                                  ls_optimizer **out_optimizer) {
  *out_optimizer = NULL;
  if (config->optimizer[0] == '\0') return ls_ok();
  const bool changes = strcmp(config->schedule, "constant") != 0;
  const bool cosine = strcmp(config->schedule, "cosine") == 0;
  // Schedules count steps of the optimizer, one for `accumulate` batches.
  if (config->accumulate > 1) steps /= config->accumulate;
  const int64_t rest = steps > config->warmup ? steps - config->warmup : 1;
  return ls_optimizer_create(
      config->optimizer,
      &(ls_optimizer_options){
          .learning_rate = config->learning_rate,
          .schedule = {.kind = !changes ? LS_SCHEDULE_CONSTANT
                               : cosine ? LS_SCHEDULE_COSINE
                                        : LS_SCHEDULE_LINEAR,
                       .steps = changes ? rest : 0,
                       .warmup = config->warmup},
          .clip = {.global_norm = config->clip_norm},
          .weight_decay = config->weight_decay,
          .accumulate = config->accumulate},
      out_optimizer);
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

ls_status cli_create_model(const ls_train_config *config,
                           const ls_model_type *type, int64_t steps,
                           ls_model *out_model) {
  *out_model = (ls_model){0};
  ls_model_options options = {.seed = config->seed, .metrics = true};
  LS_RETURN_IF_ERROR(cli_precision(config->precision, &options.dtype));
  if (config->optimizer[0] == '\0') {
    options.learning_rate = config->learning_rate;
    if (strcmp(config->schedule, "linear") == 0) options.decay_steps = steps;
  }
  CLI_OWN(ls_optimizer, optimizer) = NULL;
  LS_RETURN_IF_ERROR(create_optimizer(config, steps, &optimizer));
  options.optimizer = optimizer;
  LS_RETURN_IF_ERROR(ls_model_create(type, &options, out_model));
  return check_model(out_model, options.dtype, optimizer);
}
