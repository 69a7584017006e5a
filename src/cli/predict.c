// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/estimator.h"
#include "cli/language.h"

typedef struct predict_flags {
  cli_run run;
  const char *data, *features;
  int64_t limit;
  bool estimator;  // Ignored here: cli_find_estimator reads it.
} predict_flags;

enum { BATCH = 256 };

// State of printing a run's predictions.
typedef struct predictor {
  ls_iterator *iterator;
  ls_iterator *files;  // Names of the examples' files; NULL: rows.
  ls_function *function;
  ls_nest batch, results;
  const char *names;  // Names of classes, one per line; "": numbers.
  int64_t done;       // Examples printed,
  int64_t limit;      // and their largest number; 0: all.
} predictor;

static void end_predictor(predictor *p) {
  ls_nest_release(p->batch);
  ls_nest_release(p->results);
  ls_function_release(p->function);
  ls_iterator_release(p->iterator);
  ls_iterator_release(p->files);
}
CLI_OWNED_STRUCT(predictor, end_predictor)

ls_nest cli_predictions_of(ls_tensor logits) {
  const int last = ls_tensor_shape(logits).rank - 1;
  const char *const names[] = {"class", "probability"};
  const ls_nest items[] = {
      ls_leaf(ls_argmax(logits, last)),
      ls_leaf(ls_reduce_max(ls_softmax(logits), LS_AXES(last)))};
  return ls_nest_dict("", names, items, 2);
}

static ls_nest predict_batch(ls_nest args, void *user) {
  const ls_model *model = user;
  const ls_nest result = model->type->logits(args, model->self);
  if (ls_nest_is_failed(result)) return result;
  const ls_tensor logits = ls_nest_tensor(result, 0);
  ls_nest_release(result);
  return cli_predictions_of(logits);
}

// ---- Lines -----------------------------------------------------------------
static bool is_done(const predictor *p) {
  return p->limit > 0 && p->done == p->limit;
}

// Prints the file of the next example, or its number.
static ls_status print_origin(predictor *p) {
  CLI_OWN(ls_nest, file) = ls_none();
  if (p->files == NULL) {
    printf(",\"row\":%lld", (long long)p->done);
    return ls_ok();
  }
  LS_RETURN_IF_ERROR(ls_iterator_next(p->files, &file));
  const ls_bytes *name = ls_array_data(ls_nest_as_array(file));
  printf(",\"file\":");
  cli_print_json_bytes(name->data, name->size);
  return ls_ok();
}

static ls_status print_batch(predictor *p) {
  const ls_array *classes = ls_nest_as_array(ls_nest_item(p->results, 0));
  const ls_shape shape = ls_array_shape(classes);
  for (int64_t i = 0; i < shape.dim[0] && !is_done(p); ++i, ++p->done) {
    cli_print_row(p->results, i);
    if (p->names[0] != '\0' && shape.rank == 1) {
      const ls_bytes name = cli_class_name(p->names, ls_array_i64(classes, i));
      printf(",\"name\":");
      cli_print_json_bytes(name.data, name.size);
    }
    LS_RETURN_IF_ERROR(print_origin(p));
    printf("}\n");
  }
  return ls_ok();
}

static ls_status print_all(predictor *p) {
  while (!is_done(p) && ferror(stdout) == 0) {
    CLI_OWN(ls_status, status) = ls_iterator_next(p->iterator, &p->batch);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) break;
    if (!ls_status_is_ok(status)) return cli_give(&status);
    LS_RETURN_IF_ERROR(ls_function_call(p->function, p->batch, &p->results));
    LS_RETURN_IF_ERROR(print_batch(p));
  }
  return ls_ok();
}

// ---- A run -----------------------------------------------------------------
static ls_status print_scores(void *user, cli_language *language) {
  const predict_flags *flags = user;
  CLI_OWN(cli_files, files) = {0};
  if (flags->features != NULL)
    return ls_invalid_argument("--features is not for texts, such as '%s'",
                               flags->data);
  LS_RETURN_IF_ERROR(cli_files_open(flags->data, &files));
  return cli_language_score(language, &files, flags->limit);
}

static ls_status print_predictions(void *user, const ls_train_config *config,
                                   const ls_model_type *type) {
  const predict_flags *flags = user;
  CLI_OWN(ls_model, model) = {0};
  CLI_OWN(ls_dataset, examples) = NULL;
  CLI_OWN(ls_dataset, files) = NULL;
  if (flags->data != NULL && cli_is_language(type) && cli_is_text(flags->data))
    return cli_language_of_run(&flags->run, config, type, print_scores, user);
  LS_RETURN_IF_ERROR(cli_open_examples(config, flags->data, flags->features,
                                       type, &examples, &files));
  LS_RETURN_IF_ERROR(ls_train_check_data(type, examples));
  // The optimizer's schedule is not used here, but needs a number of steps.
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &model));
  LS_RETURN_IF_ERROR(cli_load_run(&flags->run, &model));
  CLI_OWN(ls_dataset, batches) =
      ls_dataset_batch(ls_train_examples(type, examples, false),
                       &(ls_batch_options){.size = BATCH});
  CLI_OWN(predictor,
          printed) = {.names = config->classes != NULL ? config->classes : "",
                      .limit = flags->limit};
  LS_RETURN_IF_ERROR(ls_iterator_create(
      batches, &(ls_iterator_options){.name = "predict"}, &printed.iterator));
  if (files != NULL)
    LS_RETURN_IF_ERROR(ls_iterator_create(
        files, &(ls_iterator_options){.name = "files", .prefetch = LS_SOME(0)},
        &printed.files));
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){
          .call = predict_batch, .user = &model, .name = "predict"},
      &printed.function));
  return print_all(&printed);
}

int cli_predict(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("predict", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_predict(estimator, argc, argv);
  predict_flags flags = {.run = {.command = "predict"}};
  const cli_option options[] = {
      CLI_RUN_MODEL_OPTIONS(&flags.run.model, &flags.estimator),
      {"data", CLI_TEXT, &flags.data, "NAME|PATH",
       "other data than the run's, with or without labels: images,\n"
       "a folder of them, or files as in 'lockstep train'; all of\n"
       "it if it has no test set of its own; -: standard input",
       0},
      CLI_FEATURES_OPTION(&flags.features),
      {"limit", CLI_COUNT, &flags.limit, "N", "largest number of examples", 1},
      CLI_THREADS_OPTION(&flags.run.threads),
      CLI_DEVICE_OPTIONS,
      {"math", CLI_TEXT, &flags.run.math, "NAME",
       "fast or direct (default: the run's); see 'lockstep\ntrain'", 0},
  };
  const cli_syntax syntax = {.command = "predict",
                             .about =
                                 "Prints the predictions of a run's saved "
                                 "model: a line of JSON per example, with\n"
                                 "the class, its probability and name, and "
                                 "the example's file or row (from 0), or\n"
                                 "these for each position of a text; for each "
                                 "line of text files given by --data\n"
                                 "its loss and perplexity. Default: for the "
                                 "test set.\n"
                                 "RUN@STEP is the model of a checkpoint.",
                             CLI_OPTIONS(options),
                             .operand_form = "RUN",
                             .operand = &flags.run.folder};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (!cli_check_math("predict", flags.run.math)) return CLI_USAGE;
  return cli_with_run(&flags.run, print_predictions, &flags);
}
