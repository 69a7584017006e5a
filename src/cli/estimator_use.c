// SPDX-License-Identifier: Apache-2.0
// `lockstep eval`, `predict` and `export` of a trained estimator.
#include <stdio.h>

#include "cli/data/data.h"
#include "cli/estimator.h"
#include "cli/ranks.h"

// A command that uses a trained estimator.
typedef struct use {
  const char *command;
  ls_estimator_mode mode;
  bool is_there;      // The type has the needed function,
  const char *needs;  // The function's name for messages.
  ls_status (*run)(const estimator_flags *flags, cli_estimator *e);
  bool exports;
} use;

static ls_status use_estimator(const use *used, const estimator_flags *flags,
                               const ls_estimator_type *type,
                               cli_estimator *e) {
  LS_RETURN_IF_ERROR(
      cli_estimator_open(used->command, flags, type, used->mode, e));
  if (flags->checkpoint == NULL)
    LS_RETURN_IF_ERROR(cli_estimator_was_trained(e));
  return used->run(flags, e);
}

// Takes the checkpoint of RUN@STEP, and refuses data for input functions.
static bool take_folder(const char *command, const ls_estimator_type *type,
                        estimator_flags *flags) {
  ls_opt step;
  const bool refused =
      !cli_is_linked(type) && (flags->data != NULL || flags->features != NULL);
  if (refused)
    cli_say(command,
            "--%s is not for estimators of shared libraries: '%s' has input "
            "functions of its own",
            flags->data != NULL ? "data" : "features", type->name);
  if (!cli_split_step(command, flags->folder, flags->room, &step)) return false;
  flags->folder = flags->room;
  if (step.set && flags->checkpoint != NULL)
    return cli_refuse(command, "RUN@STEP and --checkpoint each name a "
                               "checkpoint: give one of them");
  if (step.set) {
    snprintf(flags->saved, sizeof(flags->saved), "%s/model.ckpt-%lld",
             flags->room, (long long)step.value);
    flags->checkpoint = flags->saved;
  }
  return !refused;
}

// Parses a command's words and runs it.
static int run_use(const use *used, cli_syntax *syntax, estimator_flags *flags,
                   const ls_estimator_type *type, int argc, char **argv) {
  cli_estimator e;
  CLI_OWN(cli_kept_flags, kept) = {0};
  syntax->subject = type->name;
  syntax->description = type->description;
  syntax->refused = cli_use_refused_by_estimators;
  syntax->operand_form = "RUN";
  syntax->operand = &flags->folder;
  CLI_PARSE_OR_RETURN(syntax, argc, argv);
  if (!take_folder(used->command, type, flags)) return CLI_USAGE;
  if (!cli_estimator_check(used->command, flags, type)) return CLI_USAGE;
  if (used->exports &&
      !cli_check_export(flags->train.asked.batch_size, flags->stablehlo))
    return CLI_USAGE;
  if (!used->is_there)
    return cli_misuse(used->command, "estimator '%s' has no %s", type->name,
                      used->needs);
  int code =
      cli_estimator_recall(used->command, flags->folder, flags, type, &kept);
  if (code != CLI_OK) return code;
  const ls_status status =
      cli_estimator_note_batch(flags, use_estimator(used, flags, type, &e));
  code = cli_report(used->command, status);
  if (code == CLI_OK && cli_signals_first() != 0)
    code = CLI_SIGNAL + cli_signals_first();
  return cli_estimator_close(used->command, &e, code);
}

// Lets a signal end the call as soon as possible: there is nothing to save.
static const ls_train_stop *stop_at_once(void) {
  const ls_train_stop *stop = cli_signals_defer(0);
  cli_signals_saved();
  return stop;
}

// ---- Evaluation ------------------------------------------------------------
static ls_status evaluate_estimator(const estimator_flags *flags,
                                    cli_estimator *e) {
  const int64_t steps = flags->train.asked.steps > 0 ? flags->train.asked.steps
                                                     : e->type->eval_steps;
  CLI_OWN(ls_nest, metrics) = ls_none();
  LS_RETURN_IF_ERROR(ls_estimator_evaluate(
      e->estimator,
      &(ls_estimator_evaluation){.input = e->type->eval,
                                 .steps = steps > 0 ? (ls_opt)LS_SOME(steps)
                                                    : (ls_opt){0},
                                 .checkpoint = flags->checkpoint,
                                 .name = flags->name,
                                 .stop = stop_at_once(),
                                 .events_are_optional = true},
      &metrics));
  if (cli_signals_first() == 0) cli_print_metrics(metrics, flags->json);
  return ls_ok();
}

int cli_estimator_eval(const ls_estimator_type *type, int argc, char **argv) {
  estimator_flags flags = {.train = {.asked = {.seed = -1, .keep = -1}}};
  const cli_option options[] = {
      CLI_ESTIMATOR_OPTIONS(&flags),
      CLI_LINKED_DATA_OPTIONS(&flags),
      CLI_PARAM_OPTION(&flags.params),
      CLI_TPU_OPTION(&flags.train.tpu),
      {"replicas", CLI_COUNT, &flags.train.asked.replicas, "N",
       "replicas of a mirrored strategy that share each batch"},
      CLI_THREADS_OPTION(&flags.train.asked.threads),
      CLI_DEVICE_OPTIONS,
      {"batch-size", CLI_COUNT, &flags.train.asked.batch_size, "N",
       "global batch size (default: the estimator's)"},
      {"steps", CLI_COUNT, &flags.train.asked.steps, "N",
       "batches (default: the estimator's, else all of the input)"},
      CLI_CHECKPOINT_OPTION(&flags.checkpoint),
      {"name", CLI_TEXT, &flags.name, "NAME",
       "event files go to RUN/eval_NAME (default: RUN/eval)"},
      CLI_MATH_OPTION(&flags.train.asked.math),
      {"json", CLI_FLAG, &flags.json, NULL, "print one line of JSON"},
  };
  cli_syntax syntax = {.command = "eval",
                       .about = "Evaluates a trained estimator on its "
                                "evaluation input, and prints the metrics.",
                       CLI_OPTIONS(options)};
  return run_use(&(use){"eval", LS_MODE_EVAL, type->eval.call != NULL,
                        "input to evaluate with (its field 'eval')",
                        evaluate_estimator, false},
                 &syntax, &flags, type, argc, argv);
}

// ---- Prediction ------------------------------------------------------------
// Prints a batch of a model of the library as 'lockstep predict' does.
static ls_status print_batch(ls_nest batch, int64_t limit, int64_t *done) {
  const int64_t rows =
      ls_array_shape(ls_nest_as_array(ls_nest_item(batch, 0))).dim[0];
  for (int64_t row = 0; row < rows && (limit == 0 || *done < limit); ++row) {
    cli_print_row(batch, row);
    cli_write_names(stdout, cli_linked_config()->classes, batch, row);
    LS_RETURN_IF_ERROR(cli_linked_print_origin((*done)++));
    puts("}");
  }
  return ls_ok();
}

static ls_status print_rows(const estimator_flags *flags, bool whole,
                            ls_predictions *predictions) {
  CLI_OWN(ls_nest, row) = ls_none();
  for (int64_t count = 0; flags->limit == 0 || count < flags->limit;) {
    CLI_OWN(ls_status, status) = ls_predictions_next(predictions, &row);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) break;
    if (!ls_status_is_ok(status)) return cli_give(&status);
    if (ferror(stdout) != 0) break;
    if (whole) {
      LS_RETURN_IF_ERROR(print_batch(row, flags->limit, &count));
      continue;
    }
    cli_print_values(row);
    putchar('\n');
    ++count;
  }
  return ls_ok();
}

static ls_status predict(const estimator_flags *flags, cli_estimator *e) {
  CLI_OWN(cli_words, keys) = {0};
  ls_predictions *predictions = NULL;
  const bool whole = cli_is_linked(e->type);
  if (!cli_words_open("predict", "keys", flags->keys, NULL, &keys))
    return ls_out_of_memory();
  LS_RETURN_IF_ERROR(ls_estimator_predict(
      e->estimator,
      &(ls_estimator_prediction){.input = e->type->predict,
                                 .keys = keys.items,
                                 .num_keys = keys.count,
                                 .checkpoint = flags->checkpoint,
                                 .batches = whole,
                                 .stop = stop_at_once()},
      &predictions));
  const ls_status status = print_rows(flags, whole, predictions);
  return ls_status_join(status, ls_predictions_close(predictions));
}

int cli_estimator_predict(const ls_estimator_type *type, int argc,
                          char **argv) {
  estimator_flags flags = {.train = {.asked = {.seed = -1, .keep = -1}}};
  const cli_option options[] = {
      CLI_ESTIMATOR_OPTIONS(&flags),
      CLI_LINKED_DATA_OPTIONS(&flags),
      CLI_PARAM_OPTION(&flags.params),
      CLI_TPU_OPTION(&flags.train.tpu),
      CLI_THREADS_OPTION(&flags.train.asked.threads),
      CLI_DEVICE_OPTIONS,
      {"batch-size", CLI_COUNT, &flags.train.asked.batch_size, "N",
       "batch size (default: the estimator's)"},
      {"keys", CLI_TEXT, &flags.keys, "A,B",
       "only these predictions (default: all)"},
      {"limit", CLI_COUNT, &flags.limit, "N", "largest number of examples"},
      CLI_CHECKPOINT_OPTION(&flags.checkpoint),
      CLI_MATH_OPTION(&flags.train.asked.math),
  };
  cli_syntax syntax = {
      .command = "predict",
      .about = "Prints a trained estimator's predictions for its prediction "
               "input: a line of JSON per example.",
      CLI_OPTIONS(options)};
  return run_use(&(use){"predict", LS_MODE_PREDICT, type->predict.call != NULL,
                        "input to predict with (its field 'predict')", predict,
                        false},
                 &syntax, &flags, type, argc, argv);
}

// ---- Export ----------------------------------------------------------------
static ls_status export_trained(const estimator_flags *flags,
                                cli_estimator *e) {
  CLI_OWN(text, path) = NULL;
  char kept[PATH_MAX + 16];
  const ls_serving_asset asset = {"estimator.json", kept};
  // Lets 'lockstep serve' compute as the run did.
  snprintf(kept, sizeof(kept), "%s/%s", flags->folder, asset.name);
  // A signal while the folder is made waits until it is whole.
  (void)stop_at_once();
  LS_RETURN_IF_ERROR(ls_estimator_export(
      e->estimator,
      &(ls_estimator_exporting){
          .base = flags->out != NULL ? flags->out : flags->folder,
          .receiver = e->type->receiver,
          .checkpoint = flags->checkpoint,
          .assets = &asset,
          .num_assets = cli_exists(kept),
          .onnx = flags->onnx ? LS_FLAG_ON : LS_FLAG_OFF,
          .stablehlo = flags->stablehlo ? LS_FLAG_ON : LS_FLAG_OFF,
          .batch_size = flags->train.asked.batch_size},
      &path));
  printf("%s\n", path);
  return ls_ok();
}

int cli_estimator_export(const ls_estimator_type *type, int argc, char **argv) {
  estimator_flags flags = {.train = {.asked = {.seed = -1, .keep = -1}}};
  const cli_option options[] = {
      CLI_ESTIMATOR_OPTIONS(&flags),
      CLI_PARAM_OPTION(&flags.params),
      CLI_TPU_OPTION(&flags.train.tpu),
      {"out", CLI_TEXT, &flags.out, "FOLDER",
       "folder in which to make the export's (default: RUN)"},
      CLI_CHECKPOINT_OPTION(&flags.checkpoint),
      CLI_EXPORT_OPTIONS(&flags.onnx, &flags.stablehlo,
                         &flags.train.asked.batch_size),
  };
  cli_syntax syntax = {
      .command = "export",
      .about = "Exports a trained estimator with its receiver function: graphs "
               "as text, and the values of their variables; with --tpu one "
               "that computes there, too. Prints the folder, which is named by "
               "the second.",
      CLI_OPTIONS(options)};
  return run_use(&(use){"export", LS_MODE_PREDICT, type->receiver.call != NULL,
                        "receiver function (its field 'receiver')",
                        export_trained, true},
                 &syntax, &flags, type, argc, argv);
}
