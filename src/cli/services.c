// SPDX-License-Identifier: Apache-2.0
// What the commands share: messages, the runtime, models.
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"

// ---- Messages --------------------------------------------------------------
void cli_say(const char *command, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  fprintf(stderr, "lockstep%s%s: ", command != NULL ? " " : "",
          command != NULL ? command : "");
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
  va_end(arguments);
}

// A status is one line here, its notes in parentheses.
int cli_report(const char *command, ls_status status) {
  const char *text = ls_status_message(status);
  const size_t first = strcspn(text, "\n");
  fprintf(stderr, "lockstep %s: %.*s", command, (int)first, text);
  for (const char *at = text + first; *at != '\0';) {
    ++at;
    const size_t size = strcspn(at, "\n");
    fprintf(stderr, " (%.*s)", (int)size, at);
    at += size;
  }
  fputc('\n', stderr);
  ls_status_free(status);
  return CLI_FAILED;
}

// ---- Runtime ---------------------------------------------------------------
static void write_log(void *user, const ls_log_line *line) {
  static const char *const levels[] = {"error", "warning", "info", "debug"};
  (void)user;
  fprintf(stderr, "lockstep: %s: %s: %s\n", levels[line->level], line->source,
          line->text);
}

ls_status cli_runtime_open(int64_t threads, ls_runtime **out_runtime) {
  LS_RETURN_IF_ERROR(ls_runtime_create(
      &(ls_runtime_options){.log = write_log, .threads = (int)threads},
      out_runtime));
  ls_runtime_make_current(*out_runtime);
  return ls_ok();
}

int cli_runtime_close(const char *command, ls_runtime *runtime, int code) {
  ls_runtime_make_current(NULL);
  if (runtime == NULL) return code;
  ls_status status = ls_runtime_destroy(runtime);
  return ls_status_is_ok(status) ? code : cli_report(command, status);
}

// ---- Models ----------------------------------------------------------------
const ls_model_type *cli_find_model(const char *command, const char *name) {
  const ls_model_type *type = ls_model_find(name);
  if (type != NULL) return type;
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  char all[256] = "";
  for (size_t i = 0; i < count; ++i) {
    const size_t at = strlen(all);
    snprintf(all + at, sizeof(all) - at, "%s%s", i > 0 ? ", " : "",
             types[i]->name);
  }
  cli_say(command, "there is no model '%s'; there are: %s", name, all);
  return NULL;
}

static ls_status fill_step(const ls_model_type *type, int64_t replicas,
                           int64_t batch_size, cli_step *step) {
  LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
      &(ls_mirrored_options){.num_replicas = LS_SOME(replicas)},
      &step->strategy));
  LS_RETURN_IF_ERROR(ls_model_create(type, NULL, &step->model));
  LS_RETURN_IF_ERROR(
      ls_function_create(&(ls_function_options){.call = type->train_step,
                                                .user = step->model.self,
                                                .name = "train_step"},
                         &step->function));
  ls_nest batch = {0};
  LS_RETURN_IF_ERROR(ls_model_synthetic_batch(type, batch_size, &batch));
  const ls_status status = ls_train_split(step->strategy, batch, &step->args);
  ls_nest_release(batch);
  return status;
}

ls_status cli_step_open(const ls_model_type *type, int64_t replicas,
                        int64_t batch_size, cli_step *out_step) {
  *out_step = (cli_step){0};
  const int64_t batch = batch_size != 0 ? batch_size : type->batch_size;
  if (batch % replicas != 0)
    return ls_invalid_argument(
        "a batch of %lld cannot be shared evenly by %lld replicas; %lld can",
        (long long)batch, (long long)replicas,
        (long long)((batch / replicas + 1) * replicas));
  const ls_status status = fill_step(type, replicas, batch, out_step);
  if (!ls_status_is_ok(status)) cli_step_close(out_step);
  return status;
}

void cli_step_close(cli_step *step) {
  ls_nest_release(step->args);
  ls_function_release(step->function);
  ls_model_destroy(&step->model);
  ls_strategy_release(step->strategy);
  *step = (cli_step){0};
}
