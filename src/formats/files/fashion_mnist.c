// SPDX-License-Identifier: Apache-2.0
// Fashion-MNIST (Xiao, Rasul, Vollgraf 2017), read from its original files.
#include <stdio.h>
#include <string.h>

#include "base/memory/own.h"
#include "base/runtime_internal.h"
#include "base/text.h"
#include "formats/bytes/idx.h"
#include "lockstep/data.h"

static const char debian_directory[] = "/usr/share/datasets/fashion-mnist";

// Reports a missing file; names the folder, too, if the caller chose it.
static ls_status fashion_mnist_missing(ls_runtime *runtime,
                                       const char *directory,
                                       const char *name) {
  if (strcmp(directory, debian_directory) == 0)
    return ls_not_found("there is no '%s/%s.gz'; Debian has it in the package "
                        "dataset-fashion-mnist",
                        directory, name);
  const ls_file_system *files = ls_runtime_files(runtime);
  bool found = false;
  LS_RETURN_IF_ERROR(files->exists(files->user, directory, &found));
  if (!found) return ls_not_found("there is no folder '%s'", directory);
  return ls_not_found("there is no '%s/%s', nor the same with .gz", directory,
                      name);
}

// Reads `directory`/`name`.gz, or without the .gz.
static ls_status read_either(ls_runtime *runtime, const char *directory,
                             const char *name, ls_array **out_array) {
  const ls_file_system *files = ls_runtime_files(runtime);
  LS_OWN(ls_text, path) = {.allocator = ls_runtime_allocator(runtime)};
  bool found = false;
  for (int plain = 0; plain < 2 && !found; ++plain) {
    ls_text_clear(&path);
    ls_text_append_format(&path, "%s/%s%s", directory, name,
                          plain ? "" : ".gz");
    LS_RETURN_IF_ERROR(ls_text_status(&path));
    LS_RETURN_IF_ERROR(files->exists(files->user, ls_text_data(&path), &found));
    if (found)
      LS_RETURN_IF_ERROR(ls_idx_read(runtime, ls_text_data(&path), out_array));
  }
  if (!found)
    LS_RETURN_IF_ERROR(fashion_mnist_missing(runtime, directory, name));
  return ls_ok();
}

static ls_status fashion_mnist_check(const char *directory, const char *name,
                                     const ls_array *array, int rank) {
  const ls_shape shape = ls_array_shape(array);
  if (ls_array_dtype(array) == LS_DTYPE_U8 && shape.rank == rank)
    return ls_ok();
  return ls_invalid_argument("'%s/%s' holds %s, expected %s", directory, name,
                             LS_SHAPE_TEXT(ls_array_dtype(array), shape),
                             rank == 1 ? "labels u8[n]"
                                       : "images u8[n,height,width]");
}

// Reads both files of a part as a tuple of arrays.
static ls_status fashion_mnist_read_part(ls_runtime *runtime,
                                         const char *directory,
                                         const char *part,
                                         ls_nest *out_arrays) {
  char image_name[32], label_name[32];
  snprintf(image_name, sizeof(image_name), "%s-images-idx3-ubyte", part);
  snprintf(label_name, sizeof(label_name), "%s-labels-idx1-ubyte", part);
  LS_OWN(ls_array, images) = NULL;
  LS_OWN(ls_array, labels) = NULL;
  LS_RETURN_IF_ERROR(read_either(runtime, directory, label_name, &labels));
  LS_RETURN_IF_ERROR(fashion_mnist_check(directory, label_name, labels, 1));
  LS_RETURN_IF_ERROR(read_either(runtime, directory, image_name, &images));
  LS_RETURN_IF_ERROR(fashion_mnist_check(directory, image_name, images, 3));
  *out_arrays = LS_TUPLE(ls_nest_array(ls_array_retain(images)),
                         ls_nest_array(ls_array_retain(labels)));
  return ls_ok();
}

ls_dataset *ls_dataset_fashion_mnist(const char *directory, bool train) {
  if (directory == NULL) directory = debian_directory;
  ls_runtime *runtime = ls_runtime_current();
  ls_nest arrays = ls_none();
  const ls_status status =
      runtime == NULL
          ? ls_out_of_memory()
          : fashion_mnist_read_part(runtime, directory,
                                    train ? "train" : "t10k", &arrays);
  if (!ls_status_is_ok(status))
    arrays = ls_fail(ls_status_annotate(status, "while reading the %s set",
                                        train ? "training" : "test"));
  return ls_dataset_from_arrays(arrays);
}
