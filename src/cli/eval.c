// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>

#include "cli/estimator.h"

typedef struct eval_flags {
  cli_run run;
  const char *data, *features;
  bool json;
  bool estimator;  // Ignored here: cli_find_estimator reads it.
} eval_flags;

static ls_status evaluate(const eval_flags *flags,
                          const ls_train_config *config,
                          const ls_model_type *type,
                          ls_evaluation *out_evaluation) {
  CLI_OWN(ls_dataset, test) = NULL;
  CLI_OWN(ls_model, model) = {0};
  CLI_OWN(ls_evaluator, evaluator) = NULL;
  LS_RETURN_IF_ERROR(cli_open_run_test(config, flags->data, flags->features,
                                       flags->json ? NULL : "eval", type,
                                       &test));
  // The optimizer's schedule is not used here, but needs a number of steps.
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &model));
  LS_RETURN_IF_ERROR(cli_load_run(&flags->run, &model, NULL));
  LS_RETURN_IF_ERROR(ls_evaluator_create(&model, test, &evaluator));
  return ls_evaluator_run(evaluator, NULL, out_evaluation);
}

static ls_status print_evaluation(void *user, const ls_train_config *config,
                                  const ls_model_type *type) {
  const eval_flags *flags = user;
  ls_evaluation evaluation = {0};
  const bool is_text = type->example_dtype == LS_DTYPE_I32 &&
                       type->label_shape.rank > 0 &&
                       ls_model_type_task(type)->label_dtype == LS_DTYPE_I32;
  const char *metric = ls_model_type_task(type)->metric;
  LS_RETURN_IF_ERROR(evaluate(flags, config, type, &evaluation));
  if (!flags->json) {
    printf("test loss: %.4f\ntest %s: %.4f\n", evaluation.loss, metric,
           evaluation.accuracy);
    if (is_text) printf("test perplexity: %.4f\n", exp(evaluation.loss));
    if (!isnan(evaluation.mean_iou))
      printf("test mean_iou: %.4f\n", evaluation.mean_iou);
    return ls_ok();
  }
  cli_print_text('{', "model", flags->run.model);
  cli_print_text(',', "data", flags->data != NULL ? flags->data : config->data);
  printf(",\"examples\":%lld", (long long)evaluation.examples);
  cli_print_member(',', "loss", evaluation.loss, 9);
  cli_print_member(',', metric, evaluation.accuracy, 9);
  if (is_text) cli_print_member(',', "perplexity", exp(evaluation.loss), 9);
  if (!isnan(evaluation.mean_iou))
    cli_print_member(',', "mean_iou", evaluation.mean_iou, 9);
  puts("}");
  return ls_ok();
}

int cli_eval(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("eval", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_eval(estimator, argc, argv);
  eval_flags flags = {.run = {.command = "eval"}};
  const cli_option options[] = {
      CLI_RUN_MODEL_OPTIONS(&flags.run.model, &flags.estimator),
      {"data", CLI_TEXT, &flags.data, "NAME|PATH",
       "other data than the run's; all of it if it has no test set of its own; "
       "see 'lockstep train'"},
      CLI_FEATURES_OPTION(&flags.features),
      CLI_THREADS_OPTION(&flags.run.threads),
      CLI_DEVICE_OPTIONS,
      {"math", CLI_TEXT, &flags.run.math, "NAME",
       "fast or direct (default: the run's); see 'lockstep train'"},
      {"json", CLI_FLAG, &flags.json, NULL,
       "print one line of JSON: model, data, examples, loss, accuracy (of "
       "regression: mae), of a text also perplexity, of pixels mean_iou"},
  };
  const cli_syntax syntax = {
      .command = "eval",
      .about =
          "Evaluates a run's saved model on a test set, and prints the mean "
          "loss and the accuracy, of regression the mean absolute error, mae: "
          "over examples, or over the tokens of a text, with its perplexity, "
          "or over pixels, with the mean intersection over union of their "
          "classes, mean_iou. RUN@STEP is the model of a checkpoint.",
      CLI_OPTIONS(options),
      .refused = cli_use_refused_by_models,
      .operand_form = "RUN",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_math("eval", flags.run.math)) return CLI_USAGE;
  return cli_with_run(&flags.run, print_evaluation, &flags);
}
