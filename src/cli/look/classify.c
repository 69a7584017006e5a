// SPDX-License-Identifier: Apache-2.0
#include "cli/look/report.h"

#include <stdio.h>
#include <string.h>

#include "cli/data/data.h"

enum { MOST_CLASSES = 1024 };

// An evaluation: batches of examples and labels, and a function of the model.
typedef struct classifier {
  ls_model model;
  ls_dataset *test, *origins;  // See cli_open_examples.
  ls_iterator *batches;
  ls_function *function;
} classifier;

static void close_classifier(classifier *self) {
  ls_function_release(self->function);
  ls_iterator_release(self->batches);
  ls_dataset_release(self->test);
  ls_dataset_release(self->origins);
  ls_model_destroy(&self->model);
}
CLI_OWNED_STRUCT(classifier, close_classifier)

static ls_status begin_batches(classifier *self) {
  const ls_model_type *type = self->model.type;
  CLI_OWN(ls_dataset, batches) =
      ls_dataset_batch(ls_train_examples(type, self->test, false),
                       &(ls_batch_options){.size = cli_batch_of(type)});
  LS_RETURN_IF_ERROR(ls_iterator_create(
      batches, &(ls_iterator_options){.name = "report"}, &self->batches));
  return cli_create_prediction(&self->model, "report", &self->function);
}

static ls_status open_classifier(const ls_train_config *config,
                                 const ls_model_type *type, const char *folder,
                                 classifier *self) {
  LS_RETURN_IF_ERROR(cli_open_examples(config, NULL, NULL, NULL, type,
                                       &self->test, &self->origins));
  LS_RETURN_IF_ERROR(ls_train_check_data(type, self->test));
  LS_RETURN_IF_ERROR(cli_create_model(config, type, 1, &self->model));
  LS_RETURN_IF_ERROR(ls_train_load(folder, &self->model));
  return begin_batches(self);
}

// ---- Counting --------------------------------------------------------------
// Keeps a mistake if it is one of the surest so far.
static void note_mistake(cli_classes_result *out, const cli_mistake *mistake) {
  size_t at = out->num_mistakes;
  while (at > 0 && out->mistakes[at - 1].probability < mistake->probability)
    --at;
  if (at == CLI_MOST_MISTAKES) return;
  if (out->num_mistakes < CLI_MOST_MISTAKES) ++out->num_mistakes;
  memmove(&out->mistakes[at + 1], &out->mistakes[at],
          (out->num_mistakes - 1 - at) * sizeof(*mistake));
  out->mistakes[at] = *mistake;
}

static ls_status count_batch(ls_nest batch, ls_nest results, bool has_void,
                             int64_t limit, cli_classes_result *out) {
  const ls_array *labels = ls_nest_as_array(ls_nest_item(batch, 1));
  const ls_array *classes = ls_nest_as_array(ls_nest_item(results, 0));
  const ls_array *probabilities = ls_nest_as_array(ls_nest_item(results, 1));
  if (labels == NULL || classes == NULL || probabilities == NULL)
    return ls_internal("a batch has no labels or no classes");
  for (int64_t i = 0;
       i < ls_array_num_elements(classes) && out->examples < limit; ++i) {
    if (has_void && ls_array_i64(labels, i) == LS_VOID_LABEL) continue;
    const cli_mistake one = {.number = out->examples++,
                             .label = ls_array_i64(labels, i),
                             .predicted = ls_array_i64(classes, i),
                             .probability = ls_array_f64(probabilities, i)};
    if (one.label < 0 || one.label >= out->num_classes || one.predicted < 0 ||
        one.predicted >= out->num_classes)
      return ls_invalid_argument("example %lld has label %lld of %lld classes",
                                 (long long)one.number, (long long)one.label,
                                 (long long)out->num_classes);
    ++out->counts[one.label * out->num_classes + one.predicted];
    if (one.label == one.predicted)
      ++out->correct;
    else if (!out->pixels)
      note_mistake(out, &one);
  }
  return ls_ok();
}

static ls_status count_all(classifier *self, int64_t limit,
                           cli_classes_result *out) {
  while (out->examples < limit) {
    CLI_OWN(ls_nest, batch) = ls_none();
    CLI_OWN(ls_nest, results) = ls_none();
    CLI_NEXT_OR(break, self->batches, &batch);
    LS_RETURN_IF_ERROR(ls_function_call(self->function, batch, &results));
    LS_RETURN_IF_ERROR(count_batch(
        batch, results, ls_model_type_task(self->model.type)->has_void, limit,
        out));
  }
  return ls_ok();
}

bool cli_has_classes(const ls_model_type *type) {
  return ls_model_type_task(type)->label_dtype == LS_DTYPE_I32 &&
         type->label_shape.rank == 0 && type->num_classes >= 2 &&
         type->num_classes <= MOST_CLASSES;
}

ls_status cli_count_classes(const ls_model *model, ls_dataset *test,
                            cli_classes_result *out) {
  CLI_OWN(classifier, self) = {.model = *model,
                               .test = ls_dataset_retain(test)};
  out->num_classes = model->type->num_classes;
  out->counts = cli_allocate((size_t)(out->num_classes * out->num_classes) *
                             sizeof(*out->counts));
  ls_status status =
      out->counts != NULL ? begin_batches(&self) : ls_out_of_memory();
  if (ls_status_is_ok(status)) status = count_all(&self, INT64_MAX, out);
  self.model = (ls_model){0};  // Lent.
  return status;
}

// Reads the examples of the mistakes, as the data have them, and their rows.
static ls_status read_mistakes(const classifier *self,
                               cli_classes_result *out) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_iterator, origins) = NULL;
  int64_t last = -1;
  for (size_t k = 0; k < out->num_mistakes; ++k)
    if (out->mistakes[k].number > last) last = out->mistakes[k].number;
  LS_RETURN_IF_ERROR(ls_iterator_create(
      self->test, &(ls_iterator_options){.name = "mistakes"}, &iterator));
  if (self->origins != NULL)
    LS_RETURN_IF_ERROR(cli_begin_rows(self->origins, &origins));
  for (int64_t i = 0; i <= last; ++i) {
    CLI_OWN(ls_nest, element) = ls_none();
    CLI_OWN(ls_nest, origin) = ls_none();
    LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &element));
    if (origins != NULL) LS_RETURN_IF_ERROR(ls_iterator_next(origins, &origin));
    const ls_array *row = ls_nest_as_array(origin);
    const bool has_row = row != NULL && ls_array_dtype(row) == LS_DTYPE_I64;
    for (size_t k = 0; k < out->num_mistakes; ++k) {
      cli_mistake *mistake = &out->mistakes[k];
      const ls_array *example = ls_nest_as_array(ls_nest_item(element, 0));
      if (mistake->number != i) continue;
      mistake->row = has_row ? ls_array_i64(row, 0) : i;
      if (example != NULL)
        LS_RETURN_IF_ERROR(cli_picture_make(example, &mistake->picture));
    }
  }
  return ls_ok();
}

// ---- A run -----------------------------------------------------------------
static const char fashion_names[] = "T-shirt/top\nTrouser\nPullover\nDress\n"
                                    "Coat\nSandal\nShirt\nSneaker\nBag\n"
                                    "Ankle boot";

static ls_status copy_names(const ls_train_config *config,
                            cli_classes_result *out) {
  const char *names = config->classes;
  if (names[0] == '\0' && strcmp(config->data, "fashion-mnist") == 0)
    names = fashion_names;
  out->names = cli_copy_text(names, strlen(names));
  return out->names != NULL ? ls_ok() : ls_out_of_memory();
}

static ls_status classify_test(const ls_train_config *config,
                               const ls_model_type *type, const char *folder,
                               int64_t limit, cli_classes_result *out) {
  CLI_OWN(classifier, self) = {0};
  snprintf(out->data, sizeof(out->data), "%s", config->data);
  if (ls_model_type_task(type)->label_dtype != LS_DTYPE_I32)
    return ls_unimplemented("a matrix is for classification, and the model is "
                            "for %s",
                            ls_model_type_task(type)->name);
  out->pixels = cli_has_pixels(type);
  if (type->label_shape.rank != 0 && !out->pixels)
    return ls_unimplemented("the model labels positions, not whole examples");
  if (type->num_classes < 2 || type->num_classes > MOST_CLASSES)
    return ls_unimplemented("the model has %lld classes; a matrix is for 2 to "
                            "%d",
                            (long long)type->num_classes, MOST_CLASSES);
  out->num_classes = type->num_classes;
  CLI_SET_ARRAY_OR_RETURN(out->counts,
                          (size_t)(type->num_classes * type->num_classes));
  LS_RETURN_IF_ERROR(copy_names(config, out));
  LS_RETURN_IF_ERROR(open_classifier(config, type, folder, &self));
  const int64_t per_row = ls_shape_num_elements(type->label_shape);
  limit = limit < INT64_MAX / per_row ? limit * per_row : INT64_MAX;
  LS_RETURN_IF_ERROR(count_all(&self, limit, out));
  return read_mistakes(&self, out);
}

// Finds the run's model. A shared library is code, and loaded only if named; a
// model file is none, and named only if it has moved.
static ls_status find_type(const char *command, const char *named,
                           const ls_train_config *config,
                           const ls_model_type **out_type) {
  const bool library = cli_is_library(config->model);
  if (library && named == NULL)
    return ls_failed_precondition(
        "the run's model is in a shared library, which is loaded only if you "
        "name it: --model %s",
        config->model);
  const bool onnx = cli_is_model_file(config->model);
  const bool is_moved = onnx && named != NULL && cli_is_model_file(named);
  const char *model = library || is_moved ? named : config->model;
  *out_type =
      library || onnx ? cli_find_model(command, model) : ls_model_find(model);
  if (*out_type != NULL) return ls_ok();
  return ls_not_found("there is no model '%s'", model);
}

static ls_status classify_run(const char *command, const char *folder,
                              const char *model, int64_t threads, int64_t limit,
                              ls_runtime **runtime, cli_classes_result *out) {
  CLI_OWN(ls_train_config, config) = NULL;
  const ls_model_type *type = NULL;
  ls_model_type room;
  LS_RETURN_IF_ERROR(cli_run_open(folder, threads, NULL, runtime, &config));
  LS_RETURN_IF_ERROR(find_type(command, model, config, &type));
  LS_RETURN_IF_ERROR(cli_run_type(config, &type, &room));
  return classify_test(config, type, folder, limit, out);
}

void cli_classify(const char *command, const char *folder, const char *model,
                  int64_t threads, int64_t limit, cli_classes_result *out) {
  *out = (cli_classes_result){.examples = 0};
  if (limit <= 0) {
    snprintf(out->reason, sizeof(out->reason), "--examples 0 was given");
    return;
  }
  ls_runtime *runtime = NULL;
  ls_status status =
      classify_run(command, folder, model, threads, limit, &runtime, out);
  if (!ls_status_is_ok(status))
    snprintf(out->reason, sizeof(out->reason), "%s", ls_status_message(status));
  else if (out->examples == 0)
    snprintf(out->reason, sizeof(out->reason), "the test set is empty");
  ls_status_free(status);
  (void)cli_runtime_close(command, runtime, CLI_OK);
}

int64_t cli_count_label(const cli_classes_result *result, int64_t label) {
  int64_t count = 0;
  for (int64_t k = 0; k < result->num_classes; ++k)
    count += result->counts[label * result->num_classes + k];
  return count;
}

void cli_classes_close(cli_classes_result *result) {
  for (size_t i = 0; i < result->num_mistakes; ++i)
    cli_picture_close(&result->mistakes[i].picture);
  cli_release(result->counts);
  cli_release(result->names);
  *result = (cli_classes_result){.examples = 0};
}
