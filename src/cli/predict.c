// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/estimator.h"
#include "cli/serve/serve.h"

typedef struct predict_flags {
  cli_run run;
  const char *data, *features, *out;
  int64_t limit, top;
  bool logits;
  bool estimator;  // Ignored here: cli_find_estimator reads it.
} predict_flags;

// State of printing predictions.
typedef struct predictor {
  const predict_flags *flags;
  const ls_model_type *type;
  ls_model model;      // Zeroed: an export's
  cli_served *served;  // signature computes logits.
  const ls_serving_info *info;
  ls_nest logits;
  ls_iterator *iterator;
  ls_dataset *examples;
  ls_iterator *origins;  // The examples' files or rows; NULL: rows from 0 on.
  bool are_files;
  ls_function *function;
  ls_nest batch, results;
  const char *names;  // Names of classes, one per line; "": numbers.
  int64_t pixels;     // Number of classes of pixels; 0: of whole examples.
  int64_t done;       // Examples printed.
} predictor;

static void end_predictor(predictor *p) {
  ls_nest_release(p->logits);
  ls_nest_release(p->batch);
  ls_nest_release(p->results);
  ls_function_release(p->function);
  ls_iterator_release(p->iterator);
  ls_dataset_release(p->examples);
  ls_iterator_release(p->origins);
  ls_model_destroy(&p->model);
}
CLI_OWNED_STRUCT(predictor, end_predictor)

// ---- Computing -------------------------------------------------------------
// Makes the predictions of a batch, or of an export's logits.
static ls_nest predict_batch(ls_nest args, void *user) {
  const predictor *p = user;
  CLI_OWN(ls_nest, made) = ls_none();
  CLI_OWN(ls_nest, predictions) = ls_none();
  ls_tensor logits = ls_nest_tensor(args, 0);
  if (p->served == NULL) {
    made = p->type->logits(args, p->model.self);
    if (ls_nest_is_failed(made)) return cli_give(&made);
    logits = ls_nest_tensor(made, 0);
  }
  predictions = ls_model_type_task(p->type)->predictions(logits);
  const int64_t top = p->flags->top, most = p->type->num_classes;
  if (top == 0 && !p->flags->logits) return cli_give(&predictions);
  // Both are for classification alone.
  static const char *const all[] = {"class", "probability", "classes",
                                    "probabilities", "logits"};
  static const char *const alone[] = {"class", "probability", "logits"};
  const ls_op best =
      ls_top_k(ls_softmax(logits), top > 0 && top < most ? top : most);
  ls_nest items[] = {ls_leaf(ls_nest_tensor(predictions, 0)),
                     ls_leaf(ls_nest_tensor(predictions, 1)),
                     ls_leaf(ls_op_output(best, 1)),
                     ls_leaf(ls_op_output(best, 0)), ls_leaf(logits)};
  if (top == 0) items[2] = items[4];
  return ls_nest_dict("", top > 0 ? all : alone, items,
                      top == 0 || !p->flags->logits ? 3 + (top > 0) : 5);
}

// Returns an item of a nest of arrays, retained.
static ls_nest retain_item(ls_nest nest, size_t index) {
  const ls_array *array = ls_nest_as_array(ls_nest_item(nest, index));
  return ls_nest_array(ls_array_retain((ls_array *)(uintptr_t)array));
}

// Computes the predictions of the batch.
static ls_status compute_batch(predictor *p) {
  if (p->served == NULL)
    return ls_function_call(p->function, p->batch, &p->results);
  const ls_nest examples = retain_item(p->batch, 0);
  CLI_OWN(ls_nest, inputs) =
      ls_nest_dict("", &p->info->inputs[0].name, &examples, 1);
  LS_RETURN_IF_ERROR(
      ls_serving_run(p->served->serving, p->info->key, inputs, &p->logits));
  CLI_OWN(ls_nest, args) = LS_TUPLE(retain_item(p->logits, 0));
  return ls_function_call(p->function, args, &p->results);
}

// ---- Lines -----------------------------------------------------------------
static bool is_done(const predictor *p) {
  return p->flags->limit > 0 && p->done == p->flags->limit;
}

// Returns the file that an origin names; NULL: it has a row.
static const ls_bytes *file_of(ls_nest origin) {
  const ls_array *array = ls_nest_as_array(origin);
  return array != NULL && ls_array_dtype(array) == LS_DTYPE_STRING
             ? ls_array_data(array)
             : NULL;
}

void cli_print_origin(ls_nest origin, int64_t number) {
  const ls_bytes *file = file_of(origin);
  const ls_array *row = ls_nest_as_array(origin);
  if (file == NULL) {
    printf(",\"row\":%lld",
           (long long)(row != NULL ? ls_array_i64(row, 0) : number));
    return;
  }
  printf(",\"file\":");
  cli_print_json_bytes(file->data, file->size);
}

// Writes the mask of a row's pixels, and prints the shares of their classes.
static ls_status print_pixels(const predictor *p, int64_t row,
                              const ls_bytes *file) {
  char image[PATH_MAX], path[CLI_MASK_PATH];
  const ls_array *classes = ls_nest_as_array(ls_nest_item(p->results, 0));
  if (file != NULL)
    snprintf(image, sizeof(image), "%.*s", (int)file->size, file->data);
  if (p->flags->out != NULL)
    LS_RETURN_IF_ERROR(cli_write_mask(p->flags->out,
                                      file != NULL ? image : NULL, p->done,
                                      classes, row, path));
  LS_RETURN_IF_ERROR(
      cli_write_shares(stdout, p->names, classes, row, p->pixels));
  if (p->flags->out != NULL) cli_print_text(',', "mask", path);
  return ls_ok();
}

// Prints the names of the best classes of a row.
static void print_top(const predictor *p, int64_t row) {
  const ls_array *classes =
      ls_nest_as_array(ls_nest_find(p->results, "classes"));
  if (classes == NULL || p->names[0] == '\0') return;
  const int64_t count = ls_array_shape(classes).dim[1];
  for (int64_t i = 0; i < count; ++i) {
    const ls_bytes name =
        cli_class_name(p->names, ls_array_i64(classes, row * count + i));
    fputs(i == 0 ? ",\"names\":[" : ",", stdout);
    cli_print_json_bytes(name.data, name.size);
  }
  putchar(']');
}

// Prints the line of the next example, row `row` of the results.
static ls_status print_example(predictor *p, int64_t row) {
  CLI_OWN(ls_nest, origin) = ls_none();
  if (p->origins != NULL)
    LS_RETURN_IF_ERROR(ls_iterator_next(p->origins, &origin));
  if (p->pixels > 0) {
    LS_RETURN_IF_ERROR(print_pixels(p, row, file_of(origin)));
  } else {
    cli_print_row(p->results, row);
    cli_write_names(stdout, p->names, p->results, row);
    print_top(p, row);
  }
  cli_print_origin(origin, p->done);
  printf("}\n");
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
        return !p->are_files ? cli_give(&status)
                             : LS_STATUS(ls_status_code(status), "%.*s",
                                         (int)strcspn(text, "\n"), text);
      alone = true;
      LS_RETURN_IF_ERROR(begin_batches(p, 1));
      continue;
    }
    LS_RETURN_IF_ERROR(compute_batch(p));
    const int64_t rows =
        ls_array_shape(ls_nest_as_array(ls_nest_item(p->results, 0))).dim[0];
    for (int64_t i = 0; i < rows && !is_done(p); ++i, ++p->done)
      LS_RETURN_IF_ERROR(print_example(p, i));
  }
  return ls_ok();
}

// ---- A run -----------------------------------------------------------------
static ls_status print_scores(void *user, cli_language *language) {
  const predict_flags *flags = user;
  CLI_OWN(cli_files, files) = {0};
  const char *flag = flags->features != NULL ? "features"
                     : flags->top > 0        ? "top"
                     : flags->logits         ? "logits"
                     : flags->out != NULL    ? "out"
                                             : NULL;
  if (flag != NULL)
    return ls_invalid_argument("--%s is not for texts, such as '%s'", flag,
                               flags->data);
  LS_RETURN_IF_ERROR(cli_files_open(flags->data, &files));
  return cli_language_score(language, &files, flags->limit);
}

// Checks that masks fit a model of pixels, and makes their folder.
static ls_status begin_masks(const char *folder, const ls_model_type *type) {
  bool made = false;
  if (folder == NULL) return ls_ok();
  if (!cli_has_pixels(type))
    return ls_invalid_argument(
        "--out is for classes of pixels; model '%s' has labels %s", type->name,
        LS_SHAPE_TEXT(ls_model_type_task(type)->label_dtype,
                      type->label_shape));
  if (type->num_classes > 256)
    return ls_unimplemented("--out writes masks of at most 256 classes; model "
                            "'%s' has %lld",
                            type->name, (long long)type->num_classes);
  return cli_make_folder(folder, &made);
}

// Prints the predictions of a run's model, or of an export's.
static ls_status print_data(predictor *p, const ls_train_config *config) {
  const predict_flags *flags = p->flags;
  const ls_model_type *type = p->type;
  CLI_OWN(ls_dataset, examples) = NULL;
  CLI_OWN(ls_dataset, origins) = NULL;
  const ls_task *task = ls_model_type_task(type);
  if ((flags->top > 0 || flags->logits) &&
      (task->label_dtype != LS_DTYPE_I32 || type->label_shape.rank > 0))
    return ls_invalid_argument(
        "--%s is for one class an example; model '%s' "
        "is for %s, with labels %s",
        flags->top > 0 ? "top" : "logits", type->name, task->name,
        LS_SHAPE_TEXT(task->label_dtype, type->label_shape));
  LS_RETURN_IF_ERROR(begin_masks(flags->out, type));
  LS_RETURN_IF_ERROR(cli_open_examples(config, flags->data, flags->features,
                                       "predict", type, &examples, &origins));
  LS_RETURN_IF_ERROR(ls_train_check_data(type, examples));
  if (p->served == NULL) {
    // The optimizer's schedule is not used here, but needs a number of steps.
    LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &p->model));
    LS_RETURN_IF_ERROR(cli_load_run(&flags->run, &p->model, NULL));
  }
  p->names = config->classes != NULL ? config->classes : "";
  p->examples = ls_train_examples(type, examples, false);
  p->pixels = cli_has_pixels(type) ? type->num_classes : 0;
  if (origins != NULL) {
    ls_element_spec spec;
    LS_RETURN_IF_ERROR(cli_begin_rows(origins, &p->origins));
    LS_RETURN_IF_ERROR(ls_dataset_spec(origins, &spec));
    p->are_files = spec.leaves[0].type.dtype == LS_DTYPE_STRING;
  }
  LS_RETURN_IF_ERROR(ls_function_create(
      &(ls_function_options){
          .call = predict_batch, .user = p, .name = "predict"},
      &p->function));
  return print_all(p, cli_batch_of(type));
}

static ls_status print_predictions(void *user, const ls_train_config *config,
                                   const ls_model_type *type) {
  const predict_flags *flags = user;
  CLI_OWN(predictor, printed) = {.flags = flags, .type = type};
  if (flags->data != NULL && cli_is_language(type) && cli_is_text(flags->data))
    return cli_language_of_run(&flags->run, config, type, print_scores, user);
  return print_data(&printed, config);
}

// ---- An export -------------------------------------------------------------
// Finds the type of an export's model by its signatures.
static ls_status find_type(cli_served *served, const ls_serving_info **out_info,
                           ls_model_type *out) {
  cli_signature *found = NULL, *predictions = NULL;
  LS_RETURN_IF_ERROR(cli_served_find(served, NULL, &found));
  LS_RETURN_IF_ERROR(ls_status_annotate(
      cli_served_find(served, "predict", &predictions),
      "'lockstep export' of a model's run makes one; for an estimator's name "
      "the run itself, or use 'lockstep serve'"));
  const ls_serving_info *info = *out_info = &found->info;
  const char *first = predictions->info.outputs[0].name;
  const bool is_classifier = strcmp(first, "class") == 0;
  if (!found->batched || info->num_inputs != 1 || info->num_outputs != 1 ||
      info->outputs[0].type.shape.rank < 2)
    return ls_invalid_argument("'%s' has no signature from examples to logits, "
                               "such as 'lockstep export' makes",
                               served->folder);
  const ls_type takes = info->inputs[0].type, gives = info->outputs[0].type;
  *out = (ls_model_type){
      .name = served->name,
      .example_dtype =
          takes.dtype == LS_DTYPE_F32 ? LS_DTYPE_NONE : takes.dtype,
      .num_classes = gives.shape.dim[gives.shape.rank - 1],
      .task = is_classifier                 ? &ls_task_classification
              : strcmp(first, "value") == 0 ? &ls_task_regression
                                            : &ls_task_multi_label};
  out->example_shape.rank = takes.shape.rank - 1;
  memcpy(out->example_shape.dim, takes.shape.dim + 1,
         sizeof(int64_t) * (LS_MAX_RANK - 1));
  out->label_shape.rank = gives.shape.rank - 1 - is_classifier;
  memcpy(out->label_shape.dim, gives.shape.dim + 1,
         sizeof(int64_t) * (LS_MAX_RANK - 1));
  return ls_ok();
}

static ls_status print_of_export(void *user, cli_served *served) {
  const predict_flags *flags = user;
  ls_model_type type = {0};
  CLI_OWN(predictor,
          printed) = {.flags = flags, .type = &type, .served = served};
  const ls_train_config none = {.classes = served->classes};
  if (flags->data == NULL)
    return ls_invalid_argument("'%s' is an export, which has no data: name "
                               "them with --data",
                               served->folder);
  LS_RETURN_IF_ERROR(cli_language_find(served));
  if (served->language.decoder != NULL && cli_is_text(flags->data))
    return print_scores(user, &served->language);
  LS_RETURN_IF_ERROR(find_type(served, &printed.info, &type));
  return print_data(&printed, served->config != NULL ? served->config : &none);
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
      {"top", CLI_COUNT, &flags.top, "K",
       "of classification, also the K most likely classes, their probabilities "
       "and names"},
      {"logits", CLI_FLAG, &flags.logits, NULL,
       "of classification, also the logits of all classes"},
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
               "example's file or row in its data (from 0), or these for each "
               "position of a text; for each line of text files given by --data its loss "
               "and perplexity; for classes of pixels the share of each class; "
               "of regression the value; of several labels their "
               "probabilities, and the names of those above 0.5. Default: for "
               "the test set. RUN@STEP is the model of a checkpoint, RUN@best "
               "the best one's. An export needs --data, and no model.",
      CLI_OPTIONS(options),
      .refused = cli_use_refused_by_models,
      .operand_form = "RUN|EXPORT",
      .operand = &flags.run.folder};
  CLI_PARSE_OR_RETURN(&syntax, argc, argv);
  if (!cli_check_math("predict", flags.run.math)) return CLI_USAGE;
  return cli_is_export(flags.run.folder)
             ? cli_with_export(&flags.run, print_of_export, &flags)
             : cli_with_run(&flags.run, print_predictions, &flags);
}
