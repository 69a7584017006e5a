// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/models.h"

typedef struct eval_flags {
  const char *run_folder, *model, *data, *features, *math;
  bool other;  // Not the run's data.
  bool kept;   // The features are the run's.
  int64_t threads;
  bool json;
  bool estimator;  // Never here: others read it.
} eval_flags;

static ls_status evaluate(const ls_model *model, ls_dataset *test,
                          ls_evaluation *out_evaluation) {
  ls_evaluator *evaluator = NULL;
  ls_status status = ls_evaluator_create(model, test, &evaluator);
  if (ls_status_is_ok(status))
    status = ls_evaluator_run(evaluator, NULL, out_evaluation);
  ls_evaluator_destroy(evaluator);
  return status;
}

static ls_status load_and_evaluate(const eval_flags *flags,
                                   const ls_train_config *config,
                                   const ls_model_type *type,
                                   ls_evaluation *out_evaluation) {
  ls_dataset *test = NULL;
  ls_model model = {0};
  cli_classes classes = {.names = config->classes};
  ls_status status =
      cli_open_data(&(cli_data){.data = flags->data,
                                .test = flags->other ? NULL : config->test,
                                .features = flags->features,
                                .split = flags->other ? 0 : config->split,
                                .whole = flags->other,
                                .kept = flags->other && flags->kept,
                                .command = flags->json ? NULL : "eval",
                                .classes = &classes},
                    type, NULL, &test);
  // The optimizer's schedule plays no part here, but it needs its steps.
  if (ls_status_is_ok(status))
    status = cli_create_model(config, type, 1, &model);
  if (ls_status_is_ok(status))
    status = ls_train_load(flags->run_folder, &model);
  if (ls_status_is_ok(status)) status = evaluate(&model, test, out_evaluation);
  ls_model_destroy(&model);
  ls_dataset_release(test);
  return status;
}

static void eval_print(const eval_flags *flags,
                       const ls_evaluation *evaluation) {
  if (!flags->json) {
    printf("test loss: %.4f\ntest accuracy: %.4f\n", evaluation->loss,
           evaluation->accuracy);
    return;
  }
  printf("{\"model\":");
  cli_print_json(flags->model);
  printf(",\"data\":");
  cli_print_json(flags->data);
  printf(",\"examples\":%lld,\"loss\":%.9g,\"accuracy\":%.9g}\n",
         (long long)evaluation->examples, evaluation->loss,
         evaluation->accuracy);
}

static int eval_run(eval_flags *flags, const ls_train_config *config) {
  if (!cli_run_model("eval", flags->run_folder, config->model, flags->model,
                     &flags->model))
    return CLI_USAGE;
  const ls_model_type *type = cli_find_model("eval", flags->model);
  if (type == NULL) return CLI_FAILED;
  flags->other = flags->data != NULL;
  if (flags->data == NULL) flags->data = config->data;
  flags->kept = flags->features == NULL;
  if (flags->kept && cli_is_place(flags->data))
    flags->features = config->features;
  ls_evaluation evaluation = {0};
  const ls_status status = load_and_evaluate(flags, config, type, &evaluation);
  if (!ls_status_is_ok(status)) return cli_report("eval", status);
  eval_print(flags, &evaluation);
  return CLI_OK;
}

int cli_eval(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("eval", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_eval(estimator, argc, argv);
  eval_flags flags = {0};
  const cli_option options[] = {
      CLI_RUN_MODEL_OPTIONS(&flags.model, &flags.estimator),
      {"data", CLI_TEXT, &flags.data, "NAME|PATH",
       "other data than the run's, all of what has no test set\n"
       "of its own; see 'lockstep train'",
       0},
      CLI_FEATURES_OPTION(&flags.features),
      CLI_THREADS_OPTION(&flags.threads),
      {"math", CLI_TEXT, &flags.math, "NAME",
       "fast or direct (default: the run's); see 'lockstep\ntrain'", 0},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON: model, data, examples, loss,\naccuracy", 0},
  };
  const cli_syntax syntax = {
      .command = "eval",
      .about = "Evaluates the model that a run has saved on a test set, of a "
               "text on its last\ntenth, and prints the mean loss and the "
               "accuracy: of examples, or of tokens.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "RUN",
      .operand = &flags.run_folder};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (!cli_check_math("eval", flags.math)) return CLI_USAGE;
  ls_runtime *runtime = NULL;
  ls_train_config *config = NULL;
  const ls_status status = cli_run_open(flags.run_folder, flags.threads,
                                        flags.math, &runtime, &config);
  code = ls_status_is_ok(status) ? eval_run(&flags, config)
                                 : cli_report("eval", status);
  ls_train_config_destroy(config);
  return cli_runtime_close("eval", runtime, code);
}
