// SPDX-License-Identifier: Apache-2.0
// A run's data: what to learn from and what to test on.
#define _GNU_SOURCE
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data/data.h"
#include "lockstep/training_parts.h"

static const char synthetic[] = "synthetic";
static const char fashion_mnist[] = "fashion-mnist";

// Of a data set without a test set of its own, where nobody says.
static const double default_split = 0.1;

// ---- Names -----------------------------------------------------------------
bool cli_is_place(const char *data) {
  return strcmp(data, synthetic) != 0 && strcmp(data, fashion_mnist) != 0;
}

const char *cli_full_data(const char *data, char *buffer) {
  if (!cli_is_place(data) || data[0] == '\0') return data;
  if (realpath(data, buffer) != NULL) return buffer;
  // A pattern, or several: each with the folder in front.
  char here[PATH_MAX];
  size_t used = 0;
  if (getcwd(here, sizeof(here)) == NULL) return data;
  for (const char *at = data; at != NULL;) {
    const size_t length = strcspn(at, ",");
    const int put = snprintf(buffer + used, PATH_MAX - used, "%s%s%s%.*s",
                             used > 0 ? "," : "", *at == '/' ? "" : here,
                             *at == '/' ? "" : "/", (int)length, at);
    if (put < 0 || (size_t)put >= PATH_MAX - used) return data;
    used += (size_t)put;
    at = at[length] == ',' ? at + length + 1 : NULL;
  }
  return buffer;
}

// ---- What needs no file of the user's --------------------------------------
static ls_status check_alone(const cli_data *data, const char *what) {
  const char *flag = data->test[0] != '\0'                      ? "test"
                     : data->split != 0                         ? "split"
                     : data->features[0] != '\0' && !data->kept ? "features"
                                                                : NULL;
  if (flag == NULL) return ls_ok();
  return ls_invalid_argument("--%s has no place beside --data %s, %s", flag,
                             data->data, what);
}

static ls_status open_synthetic(const cli_data *data, const ls_model_type *type,
                                ls_dataset **train, ls_dataset **test) {
  LS_RETURN_IF_ERROR(check_alone(data, "which makes up both its parts"));
  ls_synthetic_options options = {.size = 8192,
                                  .dtype = type->example_dtype,
                                  .shape = type->example_shape,
                                  .num_classes = type->num_classes};
  if (train != NULL) *train = ls_dataset_synthetic(&options);
  options.size = 1024;
  options.sample = 1;
  if (test != NULL) *test = ls_dataset_synthetic(&options);
  return ls_ok();
}

static ls_status open_text(const cli_data *data, const ls_model_type *type,
                           ls_dataset **train, ls_dataset **test) {
  LS_RETURN_IF_ERROR(check_alone(data, "a text, of which the last tenth is for "
                                       "the test"));
  ls_text_options options = {.length =
                                 ls_shape_num_elements(type->example_shape)};
  if (train != NULL) *train = ls_dataset_text(data->data, &options);
  options.test = true;
  if (test != NULL) *test = ls_dataset_text(data->data, &options);
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
static ls_status data_open_refuse(const cli_files *files,
                                  const ls_model_type *type) {
  return ls_invalid_argument(
      "model '%s' learns from images or numbers, '%s' has none that are known: "
      "give it a folder of images by class or of MNIST's IDX files, or files "
      ".npz, .csv, .tfrecord, or IDX or .npy as EXAMPLES,LABELS",
      type->name, files->first);
}

static ls_status open_csv(const cli_data *data, const cli_files *files,
                          const cli_features *features,
                          const ls_model_type *type, ls_dataset **out) {
  LS_RETURN_IF_ERROR(
      cli_open_csv(files, features, data->classes, data->command, out));
  const int64_t count =
      data->classes != NULL ? cli_classes_count(data->classes->names) : 0;
  if (count <= type->num_classes) return ls_ok();
  return ls_invalid_argument(
      "model '%s' has %lld classes, the labels of '%s' are %lld texts",
      type->name, (long long)type->num_classes, files->first, (long long)count);
}

// Pairs of one of the two parts; `*out` stays NULL where files have no test
// set.
static ls_status open_part(const cli_data *data, const cli_files *files,
                           const ls_model_type *type, bool test,
                           ls_dataset **out) {
  cli_features features;
  LS_RETURN_IF_ERROR(cli_features_parse(data->features, &features));
  const bool named = files->format == CLI_FORMAT_NPZ ||
                     files->format == CLI_FORMAT_CSV ||
                     files->format == CLI_FORMAT_TFRECORD;
  if (!named && data->kept) features.count = 0;
  if (features.count > 0 && !named)
    return ls_invalid_argument("--features is of .npz, .csv and .tfrecord "
                               "files; '%s' is none",
                               files->first);
  switch (files->format) {
  case CLI_FORMAT_IMAGES:
    return cli_open_images(files, type, data->command, test, out);
  case CLI_FORMAT_NPZ:
    return cli_open_npz(files, &features, test, out);
  case CLI_FORMAT_IDX:
  case CLI_FORMAT_NPY:
    return test ? ls_ok() : cli_open_columns(files, out);
  case CLI_FORMAT_CSV:
    return test ? ls_ok() : open_csv(data, files, &features, type, out);
  case CLI_FORMAT_TFRECORD:
    return test ? ls_ok() : cli_open_tfrecords(files, &features, type, out);
  case CLI_FORMAT_MNIST:
    *out = ls_dataset_fashion_mnist(files->first, !test);
    return ls_ok();
  default:
    return data_open_refuse(files, type);
  }
}

static ls_status fit(const cli_data *data, const cli_files *files,
                     const ls_model_type *type, ls_dataset **pairs) {
  *pairs = cli_fit(*pairs, type, files->first, data->command);
  LS_RETURN_IF_ERROR(ls_dataset_status(*pairs));
  return ls_status_annotate(ls_train_check_data(type, *pairs), "of '%s'",
                            files->first);
}

// The test set of files that --test names: their own, else all of them.
static ls_status open_test(const cli_data *whole, const char *text,
                           const ls_model_type *type, ls_dataset **out) {
  cli_files files;
  cli_data part = *whole, *data = &part;
  // Files of another kind need no names.
  part.kept |= text != whole->data;
  ls_status status = cli_files_open(text, &files);
  if (ls_status_is_ok(status))
    status = open_part(data, &files, type, true, out);
  if (ls_status_is_ok(status) && *out == NULL)
    status = open_part(data, &files, type, false, out);
  if (ls_status_is_ok(status)) status = fit(data, &files, type, out);
  cli_files_close(&files);
  return status;
}

static ls_status open_files(const cli_data *data, const cli_files *files,
                            const ls_model_type *type, ls_dataset **train,
                            ls_dataset **test) {
  ls_dataset *all = NULL, *own = NULL;
  if (data->test[0] != '\0') {
    if (data->split != 0)
      return ls_invalid_argument("--split has no place beside --test, which "
                                 "names the test set");
    // First what classes are learnt from.
    if (train != NULL) {
      LS_RETURN_IF_ERROR(open_part(data, files, type, false, train));
      LS_RETURN_IF_ERROR(fit(data, files, type, train));
    }
    return test != NULL ? open_test(data, data->test, type, test) : ls_ok();
  }
  ls_status status = open_part(data, files, type, true, &own);
  if (ls_status_is_ok(status) && own != NULL && data->split != 0)
    status = ls_invalid_argument("--split has no place: '%s' has a test set",
                                 files->first);
  if (ls_status_is_ok(status) && (own == NULL || train != NULL))
    status = open_part(data, files, type, false, &all);
  if (ls_status_is_ok(status) && own != NULL)
    status = fit(data, files, type, &own);
  if (ls_status_is_ok(status) && all != NULL)
    status = fit(data, files, type, &all);
  if (ls_status_is_ok(status) && own == NULL)
    status = cli_hold_out(all, data->split != 0 ? data->split : default_split,
                          files->first, train, test);
  else if (train != NULL)
    *train = ls_dataset_retain(all);
  if (own != NULL && test != NULL) *test = ls_dataset_retain(own);
  ls_dataset_release(all);
  ls_dataset_release(own);
  return status;
}

static bool is_text_data(const cli_files *files) {
  return files->format != CLI_FORMAT_NPZ && files->format != CLI_FORMAT_NPY &&
         files->format != CLI_FORMAT_TFRECORD;
}

static ls_status open_place(const cli_data *data, const cli_files *files,
                            const ls_model_type *type, ls_dataset **train,
                            ls_dataset **test) {
  const cli_format format = files->format;
  const bool folder = format == CLI_FORMAT_MNIST || format == CLI_FORMAT_IMAGES;
  if (type->example_dtype == LS_DTYPE_I32) {
    if (folder)
      return ls_invalid_argument(
          "model '%s' learns from text, '%s' has images; give it a file, or "
          "synthetic",
          type->name, data->data);
    if (is_text_data(files)) return open_text(data, type, train, test);
  }
  if (format == CLI_FORMAT_MNIST && data->test[0] == '\0') {
    LS_RETURN_IF_ERROR(open_mnist(data, files->first, train, test));
    const ls_status status = ls_dataset_status(train != NULL ? *train : *test);
    return ls_status_code(status) != LS_NOT_FOUND
               ? status
               : ls_status_annotate(status, "nor has it a folder with images "
                                            "for each class");
  }
  if (data->whole && test != NULL && train == NULL)
    return open_test(data, data->data, type, test);
  return open_files(data, files, type, train, test);
}

ls_status cli_open_data(const cli_data *given, const ls_model_type *type,
                        ls_dataset **train, ls_dataset **test) {
  cli_data data = *given;
  if (data.test == NULL) data.test = "";
  if (data.features == NULL) data.features = "";
  ls_status status = ls_ok();
  if (strcmp(data.data, synthetic) == 0) {
    status = open_synthetic(&data, type, train, test);
  } else if (strcmp(data.data, fashion_mnist) == 0) {
    if (type->example_dtype == LS_DTYPE_I32)
      return ls_invalid_argument(
          "model '%s' learns from text, '%s' has images; give it a file, or "
          "synthetic",
          type->name, data.data);
    status = open_mnist(&data, NULL, train, test);
  } else {
    cli_files files;
    status = cli_files_open(data.data, &files);
    if (ls_status_is_ok(status))
      status = open_place(&data, &files, type, train, test);
    cli_files_close(&files);
  }
  LS_RETURN_IF_ERROR(status);
  if (train != NULL) LS_RETURN_IF_ERROR(ls_dataset_status(*train));
  return test != NULL ? ls_dataset_status(*test) : ls_ok();
}
