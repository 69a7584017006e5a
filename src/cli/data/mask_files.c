// SPDX-License-Identifier: Apache-2.0
// Predicted classes of pixels: their shares of an image, and masks as files.
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data/data.h"

ls_status cli_masks_begin(const char *folder) {
  if (mkdir(folder, 0777) == 0 || errno == EEXIST) return ls_ok();
  return LS_STATUS(LS_UNAVAILABLE, "cannot make folder '%s': %s", folder,
                   strerror(errno));
}

// ---- Shares ----------------------------------------------------------------
static void write_share(FILE *to, const char *names, int64_t number,
                        double share) {
  const ls_bytes name = cli_class_name(names != NULL ? names : "", number);
  if (name.size > 0)
    cli_write_json(to, name.data, name.size);
  else
    fprintf(to, "\"%lld\"", (long long)number);
  putc(':', to);
  cli_write_real(to, share, 6);
}

ls_status cli_write_shares(FILE *to, const char *names, const ls_array *classes,
                           int64_t row, int64_t num_classes) {
  const ls_shape shape = ls_array_shape(classes);
  const int64_t pixels = shape.dim[1] * shape.dim[2];
  const char *separator = "";
  CLI_OWN_ARRAY_OR_RETURN(int64_t, counts, (size_t)num_classes);
  memset(counts, 0, (size_t)num_classes * sizeof(*counts));
  for (int64_t i = row * pixels; i < (row + 1) * pixels; ++i)
    ++counts[ls_array_i64(classes, i)];
  fputs("{\"shares\":{", to);
  for (int64_t k = 0; k < num_classes; ++k) {
    if (counts[k] == 0) continue;
    fputs(separator, to);
    write_share(to, names, k, (double)counts[k] / (double)pixels);
    separator = ",";
  }
  putc('}', to);
  return ls_ok();
}

// ---- Files -----------------------------------------------------------------
// Prints the path of a mask: the name of its image, or the example's number.
static void print_path(const char *folder, const char *image, int64_t number,
                       char *path, size_t size) {
  const char *name = image != NULL ? strrchr(image, '/') : NULL;
  if (image == NULL) {
    snprintf(path, size, "%s/%lld.png", folder, (long long)number);
    return;
  }
  name = name != NULL ? name + 1 : image;
  const char *end = strrchr(name, '.');
  snprintf(path, size, "%s/%.*s.png", folder,
           (int)(end != NULL ? (size_t)(end - name) : strlen(name)), name);
}

// Finds the size of an image file.
static ls_status find_size(const char *image, ls_shape *out) {
  CLI_OWN_MEMORY(char, bytes) = NULL;
  size_t size = 0;
  LS_RETURN_IF_ERROR(cli_read_bytes(image, &bytes, &size));
  return ls_image_shape(bytes, size, &(ls_image_options){.name = image}, out);
}

// Copies the classes of a row to bytes.
static ls_status copy_row(const ls_array *classes, int64_t row,
                          ls_array **out) {
  const ls_shape shape = ls_array_shape(classes);
  const int64_t pixels = shape.dim[1] * shape.dim[2];
  LS_RETURN_IF_ERROR(ls_array_create(
      LS_DTYPE_U8, LS_SHAPE(shape.dim[1], shape.dim[2], 1), out));
  unsigned char *to = ls_array_mutable_data(*out);
  for (int64_t i = 0; i < pixels; ++i)
    to[i] = (unsigned char)ls_array_i64(classes, row * pixels + i);
  return ls_ok();
}

ls_status cli_write_mask(FILE *to, const char *folder, const char *image,
                         int64_t number, const ls_array *classes, int64_t row) {
  char path[2 * PATH_MAX];
  CLI_OWN(ls_array, small) = NULL;
  CLI_OWN(ls_array, mask) = NULL;
  print_path(folder, image, number, path, sizeof(path));
  if (access(path, F_OK) == 0)
    return ls_failed_precondition(
        "'%s' exists: of a prediction before, or of another image of this "
        "name; give another --out",
        path);
  LS_RETURN_IF_ERROR(copy_row(classes, row, &small));
  ls_shape size = ls_array_shape(small);
  if (image != NULL) LS_RETURN_IF_ERROR(find_size(image, &size));
  size.dim[2] = 1;
  LS_RETURN_IF_ERROR(ls_array_create(LS_DTYPE_U8, size, &mask));
  cli_sample_classes(small, mask);
  LS_RETURN_IF_ERROR(ls_png_write(path, mask));
  fputs(",\"mask\":", to);
  cli_write_json(to, path, strlen(path));
  return ls_ok();
}
