// SPDX-License-Identifier: Apache-2.0
#include "cli/estimator.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- Flags -----------------------------------------------------------------
// Parses "12" as an integer, "0.5" as a real number; returns an empty nest for
// other texts.
static ls_nest parse_number(const char *text) {
  char *end = NULL;
  errno = 0;
  const long long whole = strtoll(text, &end, 10);
  if (*end == '\0' && errno == 0) return ls_nest_i64(whole);
  const double real = strtod(text, &end);
  return *end == '\0' && isfinite(real) ? ls_nest_f64(real) : ls_none();
}

static bool open_params(const char *command, const char *text, cli_words *out) {
  return cli_words_open(command, "param", text, "NAME=N", out);
}

bool cli_params_check(const char *command, const char *text,
                      const ls_estimator_type *type) {
  CLI_OWN(cli_words, words) = {0};
  if (!open_params(command, text, &words)) return false;
  for (size_t i = 0; i < words.count; ++i) {
    const ls_name_map *param = &words.maps[i];
    if (parse_number(param->to).kind == LS_KIND_NONE)
      return cli_refuse(command, "--param has '%s=%s', expected a number",
                        param->from, param->to);
    if (!cli_linked_takes(command, type, param)) return false;
  }
  return true;
}

bool cli_estimator_check(const char *command, const estimator_flags *flags,
                         const ls_estimator_type *type) {
  if (strcmp(command, "train") != 0 &&
      !cli_check_math(command, flags->train.asked.math))
    return false;
  if (flags->train.tpu != NULL && flags->train.asked.replicas != 0)
    return cli_refuse(
        command,
        "--replicas is for runs without --tpu, which has one replica per core");
  if (flags->iterations != NULL && flags->train.tpu == NULL)
    return cli_refuse(command, "--iterations-per-loop is for runs with --tpu");
  return cli_params_check(command, flags->params, type) &&
         cli_words_read(command, "keys", flags->keys, NULL);
}

// ---- Opening ---------------------------------------------------------------
ls_status cli_params_read(const char *command, const char *text,
                          ls_nest *params) {
  CLI_OWN(cli_words, words) = {0};
  if (!open_params(command, text, &words)) return ls_out_of_memory();
  for (size_t i = 0; i < words.count; ++i)
    LS_RETURN_IF_ERROR(ls_params_set(params, words.maps[i].from,
                                     parse_number(words.maps[i].to)));
  return ls_ok();
}

static ls_opt optional(int64_t count) {
  return count > 0 ? (ls_opt)LS_SOME(count) : (ls_opt){0};
}

bool cli_estimator_tests(const estimator_flags *flags) {
  const ls_train_config *asked = &flags->train.asked;
  return flags->eval_seconds > 0 || asked->stop_early != NULL ||
         (asked->keep_best != NULL && strcmp(asked->keep_best, "loss") != 0);
}

static ls_status make_config(const estimator_flags *flags, cli_estimator *e) {
  ls_tpu_config tpu = e->type->tpu;
  const cli_again *again = flags->train.again;
  if (flags->iterations != NULL) tpu.iterations_per_loop = flags->iterations;
  // --find-spike and --find-lr look at each step.
  if (again == NULL ? flags->train.spike != 0
                    : again->schedule.kind != LS_SCHEDULE_CONSTANT)
    tpu.iterations_per_loop = "1";
  if (flags->train.asked.replicas > 0)
    LS_RETURN_IF_ERROR(ls_mirrored_strategy_create(
        &(ls_mirrored_options){.num_replicas =
                                   LS_SOME(flags->train.asked.replicas)},
        &e->strategy));
  int64_t steps = flags->train.asked.save_every_steps;
  // An epoch of data that are known ends with a test.
  if (steps == 0 && flags->train.asked.save_every == 0 &&
      flags->eval_seconds == 0 && cli_estimator_tests(flags) &&
      cli_is_linked(e->type))
    steps = cli_linked_epoch();
  return ls_tpu_run_config_create(
      &(ls_run_config_options){
          .model_dir = flags->folder,
          .master = flags->train.tpu,
          .random_seed = flags->train.asked.seed >= 0
                             ? (ls_opt)LS_SOME(flags->train.asked.seed)
                             : (ls_opt){0},
          .save_checkpoints_steps = optional(steps),
          .save_checkpoints_secs =
              steps > 0 ? (ls_opt){0}
                        : (ls_opt)LS_SOME(flags->train.asked.save_every > 0
                                              ? flags->train.asked.save_every
                                              : 60),
          .keep_checkpoint_max = flags->train.asked.keep >= 0
                                     ? (ls_opt)LS_SOME(flags->train.asked.keep)
                                     : (ls_opt){0},
          .keep_checkpoint_every_n_hours =
              optional((int64_t)flags->train.asked.keep_every_hours),
          .train_distribute = e->strategy,
          .eval_distribute = e->strategy,
          .tpu = &tpu},
      &e->config);
}

static ls_status make_estimator(const estimator_flags *flags,
                                ls_estimator_mode mode, cli_estimator *e) {
  ls_estimator_options options = e->type->options;
  ls_opt *const batch = mode == LS_MODE_TRAIN  ? &options.train_batch_size
                        : mode == LS_MODE_EVAL ? &options.eval_batch_size
                                               : &options.predict_batch_size;
  // In an export --batch-size belongs to --stablehlo.
  if (flags->train.asked.batch_size > 0 && !flags->stablehlo)
    *batch = optional(flags->train.asked.batch_size);
  options.config = e->config;
  options.params = e->params;
  options.use_tpu = flags->train.tpu != NULL ? LS_FLAG_ON : LS_FLAG_OFF;
  if (flags->train.tpu == NULL) options.eval_on_tpu = LS_FLAG_OFF;
  options.warm_start = e->warm.start.path != NULL ? &e->warm.start : NULL;
  return ls_estimator_create(&options, &e->estimator);
}

ls_status cli_estimator_open(const char *command, const estimator_flags *flags,
                             const ls_estimator_type *type,
                             ls_estimator_mode mode, cli_estimator *out) {
  *out = (cli_estimator){.type = type};
  cli_show_warnings_alone();  // Others repeat the progress line.
  LS_RETURN_IF_ERROR(cli_runtime_open(flags->train.asked.threads,
                                      flags->train.asked.math, &out->runtime));
  LS_RETURN_IF_ERROR(
      cli_trace_begin(out->runtime, flags->train.trace, &out->trace));
  LS_RETURN_IF_ERROR(cli_watch_begin(out->runtime));
  if (cli_is_linked(type))
    LS_RETURN_IF_ERROR(cli_linked_open(command, flags, mode));
  LS_RETURN_IF_ERROR(cli_params_read(command, flags->params, &out->params));
  LS_RETURN_IF_ERROR(cli_warm_open(&flags->train.asked, &out->warm));
  LS_RETURN_IF_ERROR(make_config(flags, out));
  return make_estimator(flags, mode, out);
}

ls_status cli_estimator_note_batch(const estimator_flags *flags,
                                   ls_status status) {
  const ls_code code = ls_status_code(status);
  if (flags->train.asked.batch_size == 0 || code != LS_RESOURCE_EXHAUSTED)
    return status;
  return ls_status_annotate(
      status, "--batch-size is %lld: give one that fits into memory",
      (long long)flags->train.asked.batch_size);
}

int cli_estimator_close(const char *command, cli_estimator *e, int code) {
  cli_watch_end();
  ls_estimator_destroy(e->estimator);
  ls_run_config_release(e->config);
  ls_strategy_release(e->strategy);
  ls_nest_release(e->params);
  cli_linked_close();
  cli_warm_close(&e->warm);
  code = cli_trace_end(command, e->trace, code);
  return cli_runtime_close(command, e->runtime, code);
}

// ---- Trained runs ----------------------------------------------------------
ls_status cli_estimator_was_trained(const cli_estimator *e) {
  bool has_run = false;
  LS_RETURN_IF_ERROR(
      cli_has_checkpoints(ls_estimator_model_dir(e->estimator), &has_run));
  return has_run ? ls_ok()
                 : LS_STATUS(LS_FAILED_PRECONDITION,
                             "there is no run of an estimator in '%s': it has "
                             "no checkpoint",
                             ls_estimator_model_dir(e->estimator));
}

// ---- Metrics ---------------------------------------------------------------
void cli_print_metrics(ls_nest metrics, bool json) {
  if (json) {
    cli_print_values(metrics);
    putchar('\n');
    return;
  }
  for (size_t i = 0; i < ls_nest_count(metrics); ++i) {
    const ls_nest value = ls_nest_item(metrics, i);
    const ls_array *array = ls_nest_as_array(value);
    const bool is_real =
        array != NULL && ls_array_shape(array).rank == 0
            ? ls_dtype_is_float(ls_array_dtype(array))
            : value.kind == LS_KIND_SCALAR && ls_dtype_is_float(value.dtype);
    printf("%s: ", ls_nest_key(metrics, i));
    if (is_real)
      printf("%.4f", ls_nest_number(value));
    else
      cli_print_values(value);
    putchar('\n');
  }
}
