// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "cli/models.h"

typedef struct predict_flags {
  const char *run_folder, *model, *data, *features, *math;
  int64_t threads, limit;
  bool estimator;  // Never here: others read it.
} predict_flags;

enum { BATCH = 256 };

// What prints a run's predictions.
typedef struct predictor {
  ls_model model;
  ls_dataset *test, *batches;
  ls_iterator *iterator;
  ls_function *function;
  ls_nest batch, results;
  const char *names;  // Of classes, one a line; "": they are numbers.
  int64_t left;       // Examples; -1: all.
} predictor;

// Of each example, or each of its places, the class and how sure that is.
static ls_nest predict_batch(ls_nest args, void *user) {
  const ls_model *model = user;
  const ls_nest result = model->type->logits(args, model->self);
  if (ls_nest_is_failed(result)) return result;
  const ls_tensor logits = ls_nest_tensor(result, 0);
  ls_nest_release(result);
  const int last = ls_tensor_shape(logits).rank - 1;
  const char *const names[] = {"class", "probability"};
  const ls_nest items[] = {
      ls_leaf(ls_argmax(logits, last)),
      ls_leaf(ls_reduce_max(ls_softmax(logits), LS_AXES(last)))};
  return ls_nest_dict("", names, items, 2);
}

// ---- Lines -----------------------------------------------------------------
static void print_name(const char *names, int64_t number) {
  for (; number > 0 && *names != '\0'; --number) {
    names += strcspn(names, "\n");
    if (*names == '\n') ++names;
  }
  cli_print_json_bytes(names, strcspn(names, "\n"));
}

static void print_batch(predictor *p) {
  const ls_array *classes = ls_nest_as_array(ls_nest_item(p->results, 0));
  const ls_shape shape = ls_array_shape(classes);
  for (int64_t i = 0; i < shape.dim[0] && p->left != 0; ++i) {
    cli_print_row(p->results, i);
    if (p->names[0] != '\0' && shape.rank == 1) {
      printf(",\"name\":");
      print_name(p->names, ls_array_i64(classes, i));
    }
    printf("}\n");
    if (p->left > 0) --p->left;
  }
}

static ls_status print_all(predictor *p) {
  ls_status status = ls_ok();
  while (p->left != 0 && ferror(stdout) == 0) {
    status = ls_iterator_next(p->iterator, &p->batch);
    if (!ls_status_is_ok(status)) break;
    LS_RETURN_IF_ERROR(ls_function_call(p->function, p->batch, &p->results));
    print_batch(p);
  }
  if (ls_status_code(status) != LS_OUT_OF_RANGE) return status;
  ls_status_free(status);  // There are no more.
  return ls_ok();
}

// ---- A run -----------------------------------------------------------------
static ls_status open(const predict_flags *flags, const ls_train_config *config,
                      const ls_model_type *type, predictor *p) {
  const bool other = flags->data != NULL;
  const char *data = other ? flags->data : config->data;
  const char *features = flags->features;
  if (features == NULL && cli_is_place(data)) features = config->features;
  cli_classes classes = {.names = config->classes};
  p->names = config->classes != NULL ? config->classes : "";
  LS_RETURN_IF_ERROR(ls_status_annotate(
      cli_open_data(&(cli_data){.data = data,
                                .test = other ? NULL : config->test,
                                .features = features,
                                .split = other ? 0 : config->split,
                                .whole = other,
                                .kept = other && flags->features == NULL,
                                .command = "predict",
                                .classes = &classes},
                    type, NULL, &p->test),
      "predict takes data as train does, examples with their labels; examples "
      "alone are not read yet"));
  LS_RETURN_IF_ERROR(ls_train_check_data(type, p->test));
  // The optimizer's schedule plays no part here, but it needs its steps.
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &p->model));
  LS_RETURN_IF_ERROR(ls_train_load(flags->run_folder, &p->model));
  p->batches = ls_dataset_batch(ls_train_examples(type, p->test, false),
                                &(ls_batch_options){.size = BATCH});
  LS_RETURN_IF_ERROR(ls_iterator_create(
      p->batches, &(ls_iterator_options){.name = "predict"}, &p->iterator));
  return ls_function_create(&(ls_function_options){.call = predict_batch,
                                                   .user = &p->model,
                                                   .name = "predict"},
                            &p->function);
}

static void close(predictor *p) {
  ls_nest_release(p->batch);
  ls_nest_release(p->results);
  ls_function_release(p->function);
  ls_iterator_release(p->iterator);
  ls_dataset_release(p->batches);
  ls_dataset_release(p->test);
  ls_model_destroy(&p->model);
}

static int predict_run(predict_flags *flags, const ls_train_config *config) {
  predictor p = {.left = flags->limit > 0 ? flags->limit : -1};
  if (!cli_run_model("predict", flags->run_folder, config->model, flags->model,
                     &flags->model))
    return CLI_USAGE;
  const ls_model_type *type = cli_find_model("predict", flags->model);
  if (type == NULL) return CLI_FAILED;
  ls_status status = open(flags, config, type, &p);
  if (ls_status_is_ok(status)) status = print_all(&p);
  close(&p);
  return ls_status_is_ok(status) ? CLI_OK : cli_report("predict", status);
}

int cli_predict(int argc, char **argv) {
  const ls_estimator_type *estimator = NULL;
  if (!cli_find_estimator("predict", argc, argv, &estimator)) return CLI_USAGE;
  if (estimator != NULL) return cli_estimator_predict(estimator, argc, argv);
  predict_flags flags = {0};
  const cli_option options[] = {
      CLI_RUN_MODEL_OPTIONS(&flags.model, &flags.estimator),
      {"data", CLI_TEXT, &flags.data, "NAME|PATH",
       "other data than the run's, all of what has no test set\n"
       "of its own; see 'lockstep train'",
       0},
      CLI_FEATURES_OPTION(&flags.features),
      {"limit", CLI_COUNT, &flags.limit, "N", "so many examples at most", 1},
      CLI_THREADS_OPTION(&flags.threads),
      {"math", CLI_TEXT, &flags.math, "NAME",
       "fast or direct (default: the run's); see 'lockstep\ntrain'", 0},
  };
  const cli_syntax syntax = {
      .command = "predict",
      .about = "Prints what the model that a run has saved makes of a test "
               "set: for each example a\nline of JSON with the class, or that "
               "of each place of a text, and its probability.",
      .options = options,
      .num_options = sizeof(options) / sizeof(options[0]),
      .operand_form = "RUN",
      .operand = &flags.run_folder};
  int code = CLI_OK;
  if (!cli_parse(&syntax, argc, argv, &code)) return code;
  if (!cli_check_math("predict", flags.math)) return CLI_USAGE;
  ls_runtime *runtime = NULL;
  ls_train_config *config = NULL;
  const ls_status status = cli_run_open(flags.run_folder, flags.threads,
                                        flags.math, &runtime, &config);
  code = ls_status_is_ok(status) ? predict_run(&flags, config)
                                 : cli_report("predict", status);
  ls_train_config_destroy(config);
  return cli_runtime_close("predict", runtime, code);
}
