// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/estimator.h"
#include "cli/language.h"

typedef struct predict_flags {
  cli_run run;
  const char *data, *features, *out;
  int64_t limit;
  bool estimator;  // Ignored here: cli_find_estimator reads it.
} predict_flags;

// State of printing a run's predictions.
typedef struct predictor {
  ls_iterator *iterator;
  ls_dataset *examples;
  ls_iterator *files;  // Names of the examples' files; NULL: rows.
  ls_function *function;
  ls_nest batch, results;
  const char *names;  // Names of classes, one per line; "": numbers.
  const char *masks;  // Folder for masks; NULL: none.
  int64_t pixels;     // Number of classes of pixels; 0: of whole examples.
  int64_t done;       // Examples printed,
  int64_t limit;      // and their largest number; 0: all.
} predictor;

static void end_predictor(predictor *p) {
  ls_nest_release(p->batch);
  ls_nest_release(p->results);
  ls_function_release(p->function);
  ls_iterator_release(p->iterator);
  ls_dataset_release(p->examples);
  ls_iterator_release(p->files);
}
CLI_OWNED_STRUCT(predictor, end_predictor)

// ---- Lines -----------------------------------------------------------------
static bool is_done(const predictor *p) {
  return p->limit > 0 && p->done == p->limit;
}

// Prints the file of an example, or its number.
static void print_origin(const predictor *p, const ls_bytes *file) {
  if (file == NULL) {
    printf(",\"row\":%lld", (long long)p->done);
    return;
  }
  printf(",\"file\":");
  cli_print_json_bytes(file->data, file->size);
}

// Prints the shares of the classes of a row's pixels, and writes their mask.
static ls_status print_pixels(const predictor *p, int64_t row,
                              const ls_bytes *file) {
  char image[PATH_MAX];
  const ls_array *classes = ls_nest_as_array(ls_nest_item(p->results, 0));
  LS_RETURN_IF_ERROR(
      cli_write_shares(stdout, p->names, classes, row, p->pixels));
  if (p->masks == NULL) return ls_ok();
  if (file != NULL)
    snprintf(image, sizeof(image), "%.*s", (int)file->size, file->data);
  return cli_write_mask(stdout, p->masks, file != NULL ? image : NULL, p->done,
                        classes, row);
}

// Prints the line of the next example, row `row` of the results.
static ls_status print_example(predictor *p, int64_t row) {
  CLI_OWN(ls_nest, origin) = ls_none();
  const ls_bytes *file = NULL;
  if (p->files != NULL) {
    LS_RETURN_IF_ERROR(ls_iterator_next(p->files, &origin));
    file = ls_array_data(ls_nest_as_array(origin));
  }
  if (p->pixels > 0) {
    LS_RETURN_IF_ERROR(print_pixels(p, row, file));
  } else {
    cli_print_row(p->results, row);
    cli_write_names(stdout, p->names, p->results, row);
  }
  print_origin(p, file);
  printf("}\n");
  return ls_ok();
}

static ls_status print_batch(predictor *p) {
  const int64_t rows =
      ls_array_shape(ls_nest_as_array(ls_nest_item(p->results, 0))).dim[0];
  for (int64_t i = 0; i < rows && !is_done(p); ++i, ++p->done)
    LS_RETURN_IF_ERROR(print_example(p, i));
  return ls_ok();
}

// Begins to read the examples that are not yet printed, in batches.
static ls_status begin_batches(predictor *p, int64_t size) {
  CLI_OWN(ls_dataset, batches) =
      ls_dataset_batch(ls_dataset_skip(ls_dataset_retain(p->examples), p->done),
                       &(ls_batch_options){.size = size});
  ls_iterator_release(p->iterator);
  p->iterator = NULL;
  return ls_iterator_create(batches, &(ls_iterator_options){.name = "predict"},
                            &p->iterator);
}

// Prints all examples before the first that cannot be read: those of its batch
// one by one.
static ls_status print_all(predictor *p, int64_t batch_size) {
  bool alone = false;
  LS_RETURN_IF_ERROR(begin_batches(p, batch_size));
  while (!is_done(p) && ferror(stdout) == 0) {
    CLI_OWN(ls_status, status) = ls_iterator_next(p->iterator, &p->batch);
    if (ls_status_code(status) == LS_OUT_OF_RANGE) break;
    if (!ls_status_is_ok(status)) {
      // The message names the file; a note about the data set adds nothing.
      const char *text = ls_status_message(status);
      if (alone)
        return p->files == NULL ? cli_give(&status)
                                : LS_STATUS(ls_status_code(status), "%.*s",
                                            (int)strcspn(text, "\n"), text);
      alone = true;
      LS_RETURN_IF_ERROR(begin_batches(p, 1));
      continue;
    }
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

// Checks that masks fit a model of pixels, and makes their folder.
static ls_status begin_masks(const char *folder, const ls_model_type *type) {
  if (folder == NULL) return ls_ok();
  if (!cli_has_pixels(type))
    return ls_invalid_argument(
        "--out is for classes of pixels; model '%s' has labels %s", type->name,
        LS_SHAPE_TEXT(LS_DTYPE_I32, type->label_shape));
  if (type->num_classes > 256)
    return ls_unimplemented("--out writes masks of at most 256 classes; model "
                            "'%s' has %lld",
                            type->name, (long long)type->num_classes);
  return cli_masks_begin(folder);
}

static ls_status print_predictions(void *user, const ls_train_config *config,
                                   const ls_model_type *type) {
  const predict_flags *flags = user;
  CLI_OWN(ls_model, model) = {0};
  CLI_OWN(ls_dataset, examples) = NULL;
  CLI_OWN(ls_dataset, files) = NULL;
  if (flags->data != NULL && cli_is_language(type) && cli_is_text(flags->data))
    return cli_language_of_run(&flags->run, config, type, print_scores, user);
  LS_RETURN_IF_ERROR(begin_masks(flags->out, type));
  LS_RETURN_IF_ERROR(cli_open_examples(config, flags->data, flags->features,
                                       type, &examples, &files));
  LS_RETURN_IF_ERROR(ls_train_check_data(type, examples));
  // The optimizer's schedule is not used here, but needs a number of steps.
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &model));
  LS_RETURN_IF_ERROR(cli_load_run(&flags->run, &model, NULL));
  CLI_OWN(predictor,
          printed) = {.names = config->classes != NULL ? config->classes : "",
                      .masks = flags->out,
                      .examples = ls_train_examples(type, examples, false),
                      .pixels = cli_has_pixels(type) ? type->num_classes : 0,
                      .limit = flags->limit};
  if (files != NULL)
    LS_RETURN_IF_ERROR(ls_iterator_create(
        files, &(ls_iterator_options){.name = "files", .prefetch = LS_SOME(0)},
        &printed.files));
  LS_RETURN_IF_ERROR(
      cli_create_prediction(&model, "predict", &printed.function));
  return print_all(&printed, cli_batch_of(type));
}

int cli_predict(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("predict", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_predict(estimator, argc, argv);
  predict_flags flags = {.run = {.command = "predict"}};
  const cli_option options[] = {
      CLI_RUN_MODEL_OPTIONS(&flags.run.model, &flags.estimator),
      {"data", CLI_TEXT, &flags.data, "NAME|PATH",
       "other data than the run's, with or without labels: images, a folder of "
       "them, or files as in 'lockstep train'; all of it if it has no test set "
       "of its own; -: standard input"},
      CLI_FEATURES_OPTION(&flags.features),
      {"limit", CLI_COUNT, &flags.limit, "N", "largest number of examples"},
      {"out", CLI_TEXT, &flags.out, "FOLDER",
       "of a model of pixels, also write masks: FOLDER/NAME.png of each "
       "image's size and name, a class for each pixel"},
      CLI_THREADS_OPTION(&flags.run.threads),
      CLI_DEVICE_OPTIONS,
      {"math", CLI_TEXT, &flags.run.math, "NAME",
       "fast or direct (default: the run's); see 'lockstep train'"},
  };
  const cli_syntax syntax = {
      .command = "predict",
      .about = "Prints the predictions of a run's saved model: a line of JSON "
               "per example, with the class, its probability and name, and the "
               "example's file or row (from 0), or these for each position of "
               "a text; for each line of text files given by --data its loss "
               "and perplexity; for classes of pixels the share of each class; "
               "of regression the value; of several labels their "
               "probabilities, and the names of those above 0.5. Default: for "
               "the test set. RUN@STEP is the model of a checkpoint.",
      CLI_OPTIONS(options),
      .refused = cli_use_refused_by_models,
      .operand_form = "RUN",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_math("predict", flags.run.math)) return CLI_USAGE;
  return cli_with_run(&flags.run, print_predictions, &flags);
}
