// SPDX-License-Identifier: Apache-2.0
// Files as data sets of what is in them, whether or not a model could learn
// from it.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/data/data.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"
#include "lockstep/image.h"

// ---- Images ----------------------------------------------------------------
static ls_status data_raw_read_file(const char *path, char **out_data,
                                    size_t *out_size) {
  struct stat info = {0};
  FILE *file = NULL;
  LS_RETURN_IF_ERROR(cli_open_file(path, &file));
  *out_size = fstat(fileno(file), &info) == 0 ? (size_t)info.st_size : 0;
  *out_data = cli_allocate(*out_size);
  const size_t got =
      *out_data != NULL ? fread(*out_data, 1, *out_size, file) : 0;
  fclose(file);
  if (*out_data == NULL) return ls_out_of_memory();
  if (got == *out_size) return ls_ok();
  return LS_STATUS(LS_DATA_LOSS, "'%s' has %zu bytes, %zu were there", path,
                   got, *out_size);
}

static ls_nest read_image(ls_nest element, const ls_map_call *call,
                          void *user) {
  (void)call;
  (void)user;
  const ls_bytes *name = ls_array_data(ls_nest_as_array(element));
  char path[PATH_MAX], *data = NULL;
  size_t size = 0;
  ls_array *image = NULL;
  snprintf(path, sizeof(path), "%.*s", (int)name->size, name->data);
  ls_status status = data_raw_read_file(path, &data, &size);
  if (ls_status_is_ok(status))
    status =
        ls_decode_image(data, size, &(ls_image_options){.name = path}, &image);
  cli_release(data);
  return ls_status_is_ok(status) ? ls_nest_array(image) : ls_fail(status);
}

static ls_dataset *open_images(const cli_files *files) {
  ls_dataset *names = NULL;
  for (size_t i = 0; i < files->count; ++i) {
    ls_dataset *some = ls_dataset_files(files->paths[i]);
    names = i == 0 ? some : ls_dataset_concatenate(names, some);
  }
  const ls_shape any = LS_SHAPE(LS_UNKNOWN_DIM, LS_UNKNOWN_DIM, LS_UNKNOWN_DIM);
  return ls_dataset_map(
      names, &(ls_map_options){.name = "image",
                               .call = read_image,
                               .result = ls_nest_spec(LS_DTYPE_U8, any)});
}

// ---- All -------------------------------------------------------------------
ls_status cli_open_raw(const cli_files *files, ls_dataset **out) {
  const char *const *paths = files->paths;
  switch (files->format) {
  case CLI_FORMAT_MNIST:
    *out = ls_dataset_fashion_mnist(files->first, true);
    break;
  case CLI_FORMAT_IDX:
    *out = ls_dataset_idx(paths, files->count, NULL);
    break;
  case CLI_FORMAT_NPY:
    LS_RETURN_IF_ERROR(cli_files_check_one(files));
    *out = ls_dataset_npy(files->first, NULL);
    break;
  case CLI_FORMAT_NPZ:
    *out = ls_dataset_npz(files->first, NULL, 0, NULL);
    break;
  case CLI_FORMAT_CSV:
    return cli_open_table(files, out);
  case CLI_FORMAT_TFRECORD:
    *out = ls_dataset_tfrecords(paths, files->count, NULL);
    break;
  case CLI_FORMAT_IMAGE:
    *out = open_images(files);
    break;
  case CLI_FORMAT_TEXT:
    *out = ls_dataset_lines(paths, files->count, NULL);
    break;
  default:
    return ls_invalid_argument(
        "'%s' is of no kind that is known: a folder of images by class or of "
        "MNIST's IDX files, or files .npz, .npy, .csv, .tfrecord, .png, .jpg, "
        "IDX or text",
        files->first);
  }
  return ls_dataset_status(*out);
}

ls_status cli_open_shown(const cli_files *files, const char *features_text,
                         ls_dataset **out) {
  cli_features features;
  LS_RETURN_IF_ERROR(cli_features_parse(features_text, &features));
  ls_status status = ls_ok();
  *out = NULL;
  switch (files->format) {
  case CLI_FORMAT_IMAGES:
    return cli_open_images(files, NULL, NULL, false, out);
  case CLI_FORMAT_NPZ:
    status = cli_open_npz(files, &features, false, out);
    break;
  case CLI_FORMAT_CSV:
    status = cli_open_csv(files, &features, NULL, NULL, out);
    break;
  case CLI_FORMAT_TFRECORD:
    status = cli_open_tfrecords(files, &features, NULL, out);
    break;
  case CLI_FORMAT_IDX:
  case CLI_FORMAT_NPY:
    if (features.count == 0 && files->count == 2)
      return cli_open_columns(files, out);
    // Falls through.
  default:
    if (features.count > 0)
      return ls_invalid_argument("--features is of .npz, .csv and .tfrecord "
                                 "files; '%s' is none",
                                 files->first);
    return cli_open_raw(files, out);
  }
  // What was asked for is told; else it is shown as it is.
  if (ls_status_is_ok(status) || features.count > 0) return status;
  ls_dataset_release(*out);
  *out = NULL;
  ls_status raw = cli_open_raw(files, out);
  if (ls_status_is_ok(raw)) {
    const char *why = ls_status_message(status);
    cli_say("data", "no examples with labels: %.*s", (int)strcspn(why, "\n"),
            why);
    ls_status_free(status);
    return ls_ok();
  }
  ls_status_free(raw);
  ls_dataset_release(*out);
  *out = NULL;
  return status;
}
