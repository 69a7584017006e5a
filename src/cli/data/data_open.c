// SPDX-License-Identifier: Apache-2.0
// A run's data: training and test sets.
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data/data.h"

static const char synthetic[] = "synthetic";
static const char fashion_mnist[] = "fashion-mnist";
static const char no_test[] = "none";  // --test none.

// Default fraction held out of data without a test set.
static const double default_split = 0.1;

// ---- Names -----------------------------------------------------------------
bool cli_is_place(const char *data) {
  return strcmp(data, synthetic) != 0 && strcmp(data, fashion_mnist) != 0 &&
         strcmp(data, no_test) != 0;
}

// Writes the paths of a pattern or list, each after the current folder.
static ls_status put_full_paths(const char *data, char *buffer) {
  char here[PATH_MAX];
  size_t used = 0;
  if (getcwd(here, sizeof(here)) == NULL)
    return LS_STATUS(LS_UNAVAILABLE, "the current folder: %s", strerror(errno));
  for (const char *at = data; at != NULL;) {
    const size_t length = strcspn(at, ",");
    const bool is_full = *at == '/';
    if (!is_full && strchr(here, ',') != NULL)
      return ls_invalid_argument(
          "'%s' in folder '%s': a run keeps patterns and lists as absolute "
          "paths, which a comma separates: rename the folder",
          data, here);
    const int put = snprintf(buffer + used, PATH_MAX - used, "%s%s%s%.*s",
                             used > 0 ? "," : "", is_full ? "" : here,
                             is_full ? "" : "/", (int)length, at);
    if (put < 0 || (size_t)put >= PATH_MAX - used)
      return ls_invalid_argument("'%.40s...' is a list that has more than %d "
                                 "bytes with absolute paths: give a pattern",
                                 data, PATH_MAX - 1);
    used += (size_t)put;
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  return ls_ok();
}

ls_status cli_full_data(const char **data, char *buffer) {
  if (!cli_is_place(*data) || *data[0] == '\0') return ls_ok();
  if (realpath(*data, buffer) == NULL)
    LS_RETURN_IF_ERROR(put_full_paths(*data, buffer));
  *data = buffer;
  return ls_ok();
}

// ---- Data without files ----------------------------------------------------
static ls_status check_alone(const cli_data *data, const char *noun) {
  const char *flag = data->test[0] != '\0'                      ? "test"
                     : data->split != 0                         ? "split"
                     : data->features[0] != '\0' && !data->kept ? "features"
                     : data->classes != NULL && data->classes->may_find &&
                             data->classes->missing != NULL &&
                             data->classes->missing[0] != '\0'
                         ? "missing"
                         : NULL;
  if (flag == NULL) return ls_ok();
  return ls_invalid_argument("--%s cannot be given with --data %s, %s", flag,
                             data->data, noun);
}

static ls_status open_synthetic(const cli_data *data, const ls_model_type *type,
                                ls_dataset **train, ls_dataset **test) {
  LS_RETURN_IF_ERROR(check_alone(data, "which generates both parts"));
  const ls_task *task = ls_model_type_task(type);
  // Images with a class for each pixel are larger.
  const int64_t scale = type->label_shape.rank == 2 ? 8 : 1;
  ls_synthetic_options options = {
      .size = 8192 / scale,
      .dtype = type->example_dtype,
      .shape = type->example_shape,
      .num_classes = task->label_dtype == LS_DTYPE_I32 ? type->num_classes : 2,
      .label_shape = type->label_shape};
  if (train != NULL) *train = ls_dataset_synthetic(&options);
  options.size = 1024 / scale;
  options.sample = 1;
  if (test != NULL) *test = ls_dataset_synthetic(&options);
  return ls_ok();
}

static ls_status open_mnist(const cli_data *data, const char *folder,
                            ls_dataset **train, ls_dataset **test) {
  LS_RETURN_IF_ERROR(check_alone(data, "which has a test set"));
  if (train != NULL) *train = ls_dataset_fashion_mnist(folder, true);
  if (test != NULL) *test = ls_dataset_fashion_mnist(folder, false);
  return ls_ok();
}

// ---- Files -----------------------------------------------------------------
// Returns true if a model of tokens reads files as a text: files without arrays
// of tokens, and folders of .txt files.
static bool are_texts(const cli_files *files) {
  const cli_format *format = files->format;
  return format == NULL ||
         (format->is_folder != NULL ? cli_has_texts(files->first)
                                    : !format->has_tokens);
}

bool cli_is_text(const char *data) {
  CLI_OWN(cli_files, files) = {0};
  if (!cli_is_place(data)) return false;
  CLI_OWN(ls_status, status) = cli_files_open(data, &files);
  return ls_status_is_ok(status) && are_texts(&files);
}

static ls_status open_named(const char *text, const ls_model_type *type,
                            cli_files *out) {
  LS_RETURN_IF_ERROR(cli_files_open(text, out));
  if (type->example_dtype != LS_DTYPE_I32) return ls_ok();
  if (are_texts(out))
    out->format = &cli_text_format;
  else if (out->format->is_folder != NULL)
    return ls_invalid_argument(
        "model '%s' learns from text, folder '%s' has no .txt file", type->name,
        text);
  return ls_ok();
}

// Opens pairs of the training or test set; `*out` stays NULL if the files have
// no test set.
static ls_status open_part(const cli_data *data, const cli_files *files,
                           const ls_model_type *type, bool test,
                           ls_dataset **out) {
  cli_features features;
  LS_RETURN_IF_ERROR(cli_features_parse(data->features, &features));
  // The run's --features does not apply to files of a format without names.
  const bool has_names = files->format != NULL && files->format->has_features;
  if (!has_names && data->kept) features.count = 0;
  return cli_open_pairs(
      files,
      &(cli_pair_request){.features = &features,
                          .type = type,
                          .task = type != NULL ? ls_model_type_task(type)
                                               : data->task,
                          .classes = data->classes,
                          .command = data->command,
                          .test = test,
                          .is_other = data->whole,
                          .no_labels = data->no_labels,
                          .names = data->names},
      out);
}

static ls_status fit_pairs(const cli_data *data, const cli_files *files,
                           const ls_model_type *type, ls_dataset **pairs) {
  ls_element_spec spec;
  *pairs = cli_fit(*pairs, type, files->first, data->command);
  LS_RETURN_IF_ERROR(ls_dataset_spec(*pairs, &spec));
  char hint[80] = "";
  const ls_shape shape = spec.leaves[0].type.shape;
  const ls_shape labels = spec.leaves[spec.count - 1].type.shape;
  const char *colored = cli_colored_model(type);
  if (shape.rank == 3 && shape.dim[2] == 3 && colored != NULL)
    snprintf(hint, sizeof(hint), "; model '%s' takes 3 channels", colored);
  else if (labels.rank == 1 && type->label_shape.rank == 0)
    snprintf(hint, sizeof(hint),
             "; several labels of 0 or 1 are learned by --task multi-label");
  return ls_status_annotate(ls_train_check_data(type, *pairs), "of '%s'%s",
                            files->first, hint);
}

// Opens the test set for --test: that of the files it names, else all of them.
static ls_status open_test(const cli_data *data, const char *text,
                           const ls_model_type *type, ls_dataset **out) {
  CLI_OWN(cli_files, files) = {0};
  cli_data part = *data;
  // Does not require --features for files of another kind.
  part.kept |= text != data->data;
  LS_RETURN_IF_ERROR(open_named(text, type, &files));
  LS_RETURN_IF_ERROR(open_part(&part, &files, type, true, out));
  if (*out == NULL)
    LS_RETURN_IF_ERROR(open_part(&part, &files, type, false, out));
  return fit_pairs(&part, &files, type, out);
}

static ls_status open_named_test(const cli_data *data, const cli_files *files,
                                 const ls_model_type *type, ls_dataset **train,
                                 ls_dataset **test) {
  if (data->split != 0)
    return ls_invalid_argument(
        "--split cannot be given with --test, which names the test set");
  // Opens the training set first, which defines the classes.
  if (train != NULL) {
    LS_RETURN_IF_ERROR(open_part(data, files, type, false, train));
    LS_RETURN_IF_ERROR(fit_pairs(data, files, type, train));
  }
  if (test == NULL) return ls_ok();
  cli_classes *classes = data->classes;
  const bool may_find = classes != NULL && classes->may_find;
  // A test set numbers no texts if the training set has numbers.
  if (may_find && train != NULL) classes->may_find = false;
  const ls_status status = open_test(data, data->test, type, test);
  if (may_find) classes->may_find = true;
  return status;
}

// Numbers the rows of a data set, which may be a stream.
static ls_dataset *number_rows(ls_dataset *all) {
  const int64_t size = ls_dataset_cardinality(all);
  return ls_dataset_is_indexed(all) && size >= 0
             ? ls_dataset_range(0, size, 1)
             : ls_dataset_repeat(ls_dataset_range(0, INT64_MAX, 1),
                                 LS_INFINITE);
}

// Holds out a test set, and the files or rows of its examples.
static ls_status hold_out(const cli_data *data, ls_dataset *all,
                          const cli_files *files, ls_dataset **train,
                          ls_dataset **test) {
  const bool is_text = files->format == &cli_text_format;
  const double split = data->split != 0 ? data->split : default_split;
  if (data->names != NULL) {
    CLI_OWN(ls_dataset, names) =
        *data->names != NULL ? *data->names : number_rows(all);
    *data->names = NULL;
    LS_RETURN_IF_ERROR(
        cli_hold_out(names, split, is_text, files->first, NULL, data->names));
  }
  LS_RETURN_IF_ERROR(
      cli_hold_out(all, split, is_text, files->first, train, test));
  const int64_t left = train != NULL ? ls_dataset_cardinality(*train) : -1;
  if (left >= 0 && data->command != NULL)
    cli_say(data->command,
            "%lld examples to train on, %lld held out to test (--split %g)",
            (long long)left, (long long)(ls_dataset_cardinality(all) - left),
            split);
  else if (train != NULL && data->command != NULL)
    cli_say(data->command,
            "a part of %g of the examples is held out to test (--split)",
            split);
  return ls_ok();
}

static ls_status open_files(const cli_data *data, const cli_files *files,
                            const ls_model_type *type, ls_dataset **train,
                            ls_dataset **test) {
  if (data->test[0] != '\0')
    return open_named_test(data, files, type, train, test);
  CLI_OWN(ls_dataset, all) = NULL;
  CLI_OWN(ls_dataset, held) = NULL;
  if (data->untested) {
    LS_RETURN_IF_ERROR(open_part(data, files, type, false, train));
    return fit_pairs(data, files, type, train);
  }
  LS_RETURN_IF_ERROR(open_part(data, files, type, true, &held));
  if (held != NULL && data->split != 0)
    return ls_invalid_argument("--split cannot be given: '%s' has a test set",
                               files->first);
  if (held == NULL || train != NULL)
    LS_RETURN_IF_ERROR(open_part(data, files, type, false, &all));
  if (held != NULL) LS_RETURN_IF_ERROR(fit_pairs(data, files, type, &held));
  if (all != NULL) LS_RETURN_IF_ERROR(fit_pairs(data, files, type, &all));
  if (held == NULL) return hold_out(data, all, files, train, test);
  if (train != NULL) *train = cli_give(&all);
  if (test != NULL) *test = cli_give(&held);
  return ls_ok();
}

static ls_status open_place(const cli_data *data, const ls_model_type *type,
                            ls_dataset **train, ls_dataset **test) {
  CLI_OWN(cli_files, files) = {0};
  LS_RETURN_IF_ERROR(open_named(data->data, type, &files));
  const cli_format *format = files.format;
  if (format != NULL && format->is_complete && data->test[0] == '\0') {
    LS_RETURN_IF_ERROR(open_mnist(data, files.first, train, test));
    const ls_status status = ls_dataset_status(train != NULL ? *train : *test);
    return ls_status_code(status) != LS_NOT_FOUND
               ? status
               : ls_status_annotate(
                     status, "and it has no folder with images for each class");
  }
  if (data->whole && test != NULL && train == NULL)
    return open_test(data, data->data, type, test);
  return open_files(data, &files, type, train, test);
}

static ls_status open_parts(const cli_data *data, const ls_model_type *type,
                            ls_dataset **train, ls_dataset **test) {
  if (strcmp(data->data, synthetic) == 0)
    return open_synthetic(data, type, train, test);
  if (strcmp(data->data, fashion_mnist) != 0)
    return open_place(data, type, train, test);
  if (type->example_dtype == LS_DTYPE_I32)
    return ls_invalid_argument(
        "model '%s' learns from text, '%s' has images; give it files of text, "
        "a folder of .txt files, or synthetic",
        type->name, data->data);
  return open_mnist(data, NULL, train, test);
}

// Opens the pairs of files as they are, to see what they have. Classes that are
// found are kept, so that they need not be found again. NULL: there are no rows.
static ls_status open_unchanged(const cli_data *given, const ls_task *task,
                                ls_dataset **out) {
  CLI_OWN(cli_files, files) = {0};
  cli_data data = *given;
  *out = NULL;
  data.task = task;
  if (data.features == NULL) data.features = "";
  LS_RETURN_IF_ERROR(cli_files_open(data.data, &files));
  const cli_format *format = files.format;
  return format == NULL || format->open_pairs == NULL || format->is_complete
             ? ls_ok()
             : open_part(&data, &files, NULL, false, out);
}

// Returns the number of classes of pairs by their labels; 0: unknown.
static int64_t count_classes(const ls_task *task, const ls_dataset *pairs) {
  int64_t least = 0, most = -1;
  return ls_dataset_bounds(pairs, 1, &least, &most) && least >= 0 &&
                 !(task->has_void && most == LS_VOID_LABEL)
             ? most + 1
             : 0;
}

static ls_status fit_sizes(const cli_data *data, const ls_model_type *type,
                           const ls_task *task, const ls_dataset *pairs,
                           ls_train_config *config) {
  ls_element_spec spec;
  LS_RETURN_IF_ERROR(ls_dataset_spec(pairs, &spec));
  if (spec.count != 2) return ls_ok();
  const ls_shape shape = spec.leaves[0].type.shape;
  const ls_shape labels = spec.leaves[1].type.shape;
  if (type->any_inputs && shape.rank == 1 && shape.dim[0] > 0 &&
      shape.dim[0] != ls_shape_num_elements(type->example_shape))
    config->inputs = shape.dim[0];
  if (config->outputs != 0 || !type->any_outputs) return ls_ok();
  if (task->label_dtype == LS_DTYPE_F32) {
    if (ls_shape_is_known(labels))
      config->outputs = ls_shape_num_elements(labels);
    return ls_ok();
  }
  const int64_t named =
      data->classes != NULL ? cli_classes_count(data->classes->names) : 0;
  const int64_t least =
      named < data->least_outputs ? data->least_outputs : named;
  const int64_t classes = named > 0 ? least : count_classes(task, pairs);
  // Texts and folders are all classes, and masks are all read; other data may
  // lack some.
  const bool is_exact = named > 0 || labels.rank == 2;
  if (classes > type->num_classes ||
      (is_exact && classes > 0 && classes != type->num_classes))
    config->outputs = classes;
  return ls_ok();
}

ls_status cli_find_sizes(const cli_data *data, const ls_model_type *type,
                         ls_train_config *config) {
  CLI_OWN(ls_dataset, pairs) = NULL;
  const ls_task *task = cli_task_of(config, type);
  if (cli_is_place(data->data) && (type->any_inputs || type->any_outputs)) {
    LS_RETURN_IF_ERROR(open_unchanged(data, task, &pairs));
    if (pairs != NULL)
      LS_RETURN_IF_ERROR(fit_sizes(data, type, task, pairs, config));
  }
  // Data of the library have one label for each example.
  if (config->outputs == 0 && type->any_outputs &&
      task->label_dtype == LS_DTYPE_F32)
    config->outputs = 1;
  return ls_ok();
}

ls_status cli_open_data(const cli_data *given, const ls_model_type *type,
                        ls_dataset **train, ls_dataset **test) {
  cli_data data = *given;
  if (data.test == NULL) data.test = "";
  if (data.features == NULL) data.features = "";
  if (strcmp(data.test, no_test) == 0) {
    if (train == NULL)
      return ls_invalid_argument(
          "the run has no test set (--test none): name data with --data");
    if (data.split != 0)
      return ls_invalid_argument(
          "--split cannot be given with --test none, which holds out nothing");
    data.untested = true;
    data.test = "";
    test = NULL;
  }
  LS_RETURN_IF_ERROR(open_parts(&data, type, train, test));
  const cli_classes *classes = data.classes;
  if (classes != NULL && classes->may_find && classes->one_hot != NULL &&
      classes->one_hot[0] != '\0' && classes->found_categories == NULL)
    return ls_invalid_argument(
        "--one-hot is for columns of .csv and .jsonl files; '%s' has none",
        data.data);
  if (train != NULL) LS_RETURN_IF_ERROR(ls_dataset_status(*train));
  return test != NULL ? ls_dataset_status(*test) : ls_ok();
}

ls_status cli_note_moved(ls_status status) {
  return ls_status_code(status) != LS_NOT_FOUND
             ? status
             : ls_status_annotate(status, "the data of the run: --data, or "
                                          "--test, gives its new place");
}

// Opens the test set of a run, or of other data; `request` has the fields that
// neither has.
static ls_status open_run_data(const cli_data *request,
                               const ls_train_config *config,
                               const ls_model_type *type, ls_dataset **test) {
  const bool is_other = request->data != NULL;
  const bool kept = request->features == NULL;
  cli_classes classes = {.names = config->classes,
                         .one_hot = config->one_hot,
                         .missing = config->missing,
                         .categories = config->categories,
                         .columns = config->columns,
                         .bytes = config->bytes};
  cli_data data = *request;
  if (!is_other) data.data = config->data;
  if (kept && cli_is_place(data.data)) data.features = config->features;
  if (!is_other) data.test = config->test;
  if (!is_other) data.split = config->split;
  data.whole = is_other;
  data.kept = is_other && kept;
  data.classes = &classes;
  const ls_status status = cli_open_data(&data, type, NULL, test);
  return is_other ? status : cli_note_moved(status);
}

ls_status cli_open_run_test(const ls_train_config *config, const char *data,
                            const char *features, const char *command,
                            const ls_model_type *type, ls_dataset **test) {
  return open_run_data(
      &(cli_data){.data = data, .features = features, .command = command},
      config, type, test);
}

ls_status cli_open_examples(const ls_train_config *config, const char *data,
                            const char *features, const char *command,
                            const ls_model_type *type, ls_dataset **out,
                            ls_dataset **out_origins) {
  return open_run_data(&(cli_data){.data = data,
                                   .features = features,
                                   .command = command,
                                   .no_labels = data != NULL,
                                   .names = out_origins},
                       config, type, out);
}
