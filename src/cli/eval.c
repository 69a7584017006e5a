// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/data/data.h"
#include "cli/estimator.h"
#include "cli/look/report.h"

typedef struct eval_flags {
  cli_run run;
  const char *data, *features;
  bool json;
  bool estimator;  // Ignored here: cli_find_estimator reads it.
} eval_flags;

// Returns true if there is a line for each class.
static bool has_lines(const eval_flags *flags, const ls_model_type *type) {
  enum { MOST = 32 };
  return cli_has_classes(type) && (flags->json || type->num_classes <= MOST);
}

static ls_status evaluate(const eval_flags *flags,
                          const ls_train_config *config,
                          const ls_model_type *type,
                          ls_evaluation *out_evaluation,
                          cli_classes_result *out_classes) {
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
  LS_RETURN_IF_ERROR(ls_evaluator_run(evaluator, NULL, out_evaluation));
  return has_lines(flags, type) ? cli_count_classes(&model, test, out_classes)
                                : ls_ok();
}

// Prints how many examples of each class are predicted right; tells which never
// are.
static void print_classes(const cli_classes_result *result, const char *names,
                          bool json) {
  char never[300] = "";
  const int64_t count = result->num_classes;
  for (int64_t k = 0; k < count; ++k) {
    const int64_t all = cli_count_label(result, k);
    const int64_t right = result->counts[k * count + k];
    const ls_bytes named = cli_class_name(names, k);
    char name[64];
    snprintf(name, sizeof(name), "%lld", (long long)k);
    if (named.size > 0)
      snprintf(name, sizeof(name), "%.*s", (int)named.size, named.data);
    if (json) {
      printf("%s{\"class\":%lld", k == 0 ? ",\"classes\":[" : ",",
             (long long)k);
      if (named.size > 0) printf(",\"name\":");
      if (named.size > 0) cli_print_json_bytes(named.data, named.size);
      printf(",\"examples\":%lld,\"right\":%lld}%s", (long long)all,
             (long long)right, k + 1 == count ? "]" : "");
    } else if (all > 0) {
      fputs("class ", stdout);
      cli_print_clean(name);
      printf(": %lld of %lld right\n", (long long)right, (long long)all);
    }
    const size_t used = strlen(never);
    if (all > 0 && right == 0)
      snprintf(never + used, sizeof(never) - used, "%s%s", used > 0 ? ", " : "",
               name);
  }
  if (never[0] != '\0' && !json)
    cli_say("eval", "classes that are never predicted right: %s", never);
}

// Prints a line of a result; NaN without its sign, which means nothing.
static void print_number(const char *name, double value) {
  printf("test %s: %.4f\n", name, isnan(value) ? (double)NAN : value);
}

static ls_status print_evaluation(void *user, const ls_train_config *config,
                                  const ls_model_type *type) {
  const eval_flags *flags = user;
  ls_evaluation evaluation = {0};
  CLI_OWN(cli_classes_result, classes) = {.examples = 0};
  const bool is_text = type->example_dtype == LS_DTYPE_I32 &&
                       type->label_shape.rank > 0 &&
                       ls_model_type_task(type)->label_dtype == LS_DTYPE_I32;
  const char *metric = ls_model_type_task(type)->metric;
  LS_RETURN_IF_ERROR(evaluate(flags, config, type, &evaluation, &classes));
  if (!flags->json) {
    print_number("loss", evaluation.loss);
    print_number(metric, evaluation.accuracy);
    if (is_text) print_number("perplexity", exp(evaluation.loss));
    if (!isnan(evaluation.mean_iou))
      print_number("mean_iou", evaluation.mean_iou);
    print_classes(&classes, config->classes, false);
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
  print_classes(&classes, config->classes, true);
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
       "regression: mae), of a text also perplexity, of pixels mean_iou, of "
       "classes of examples each class, examples that have it, and how many "
       "of them are predicted right"},
  };
  const cli_syntax syntax = {
      .command = "eval",
      .about =
          "Evaluates a run's saved model on a test set, and prints the mean "
          "loss and the accuracy, and how many examples of each of up to 32 "
          "classes are predicted right; of regression the mean absolute error, "
          "mae: "
          "over examples, or over the tokens of a text, with its perplexity, "
          "or over pixels, with the mean intersection over union of their "
          "classes, mean_iou. RUN@STEP is the model of a checkpoint, "
          "RUN@best the best one's.",
      CLI_OPTIONS(options),
      .refused = cli_use_refused_by_models,
      .operand_form = "RUN",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_math("eval", flags.run.math)) return CLI_USAGE;
  return cli_with_run(&flags.run, print_evaluation, &flags);
}
