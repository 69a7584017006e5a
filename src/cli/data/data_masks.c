// SPDX-License-Identifier: Apache-2.0
// Folders of images with a mask each, images/NAME.jpg and masks/NAME.png, whose
// pixels are numbers of classes.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/data/data.h"

// Room for the path of a file in a folder of a folder.
enum { ROOM = PATH_MAX + 300 };

typedef struct masked_folder {
  char path[PATH_MAX];
  int64_t classes;  // Number of classes, which masks must not exceed.
  bool has_void;    // Masks may also have LS_VOID_LABEL.
  bool no_labels;   // Labels are 0, and masks are not read.
} masked_folder;

bool cli_has_masks(const char *folder) {
  static const char *const images[] = {"images", NULL};
  static const char *const masks[] = {"masks", NULL};
  char train[PATH_MAX], path[PATH_MAX];
  const char *part = cli_find_part(folder, false, train) ? train : folder;
  return cli_find_folder(part, images, path) &&
         cli_find_folder(part, masks, path);
}

// ---- Names -----------------------------------------------------------------
static void print_image_path(const char *folder, ls_bytes name,
                             char path[ROOM]) {
  snprintf(path, ROOM, "%s/images/%.*s", folder, (int)name.size, name.data);
}

static void print_mask_path(const char *folder, ls_bytes name,
                            char path[ROOM]) {
  const char *end = memrchr(name.data, '.', name.size);
  snprintf(path, ROOM, "%s/masks/%.*s.png", folder, (int)(end - name.data),
           name.data);
}

// Lists the paths of a folder's images, sorted, as an array of strings.
static ls_status list_paths(const char *folder, ls_array **out) {
  char images[ROOM], pattern[ROOM];
  snprintf(images, sizeof(images), "%s/images", folder);
  snprintf(pattern, sizeof(pattern), "%s/images/*", folder);
  CLI_OWN(ls_dataset, files) = ls_dataset_files(pattern);
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, all) = ls_none();
  const int64_t most = ls_dataset_cardinality(files);
  CLI_OWN(ls_dataset, batch) =
      ls_dataset_batch(cli_list_images(images),
                       &(ls_batch_options){.size = most > 0 ? most : 1});
  LS_RETURN_IF_ERROR(cli_begin_rows(batch, &iterator));
  CLI_OWN(ls_status, status) = ls_iterator_next(iterator, &all);
  if (ls_status_code(status) == LS_OUT_OF_RANGE)
    return ls_not_found("folder '%s' has no .png, .jpg or .jpeg files", images);
  if (!ls_status_is_ok(status)) return cli_give(&status);
  *out = ls_array_retain(ls_nest_as_array(all));
  return ls_ok();
}

// Removes the folder from paths, so that data that have moved stay the same.
static ls_status cut_names(const char *folder, const ls_array *paths,
                           ls_array **out) {
  const size_t head = strlen(folder) + strlen("/images/");
  const ls_bytes *path = ls_array_data(paths);
  const size_t count = (size_t)ls_array_num_elements(paths);
  CLI_OWN_ARRAY_OR_RETURN(ls_bytes, names, count);
  for (size_t i = 0; i < count; ++i)
    names[i] = (ls_bytes){path[i].data + head, path[i].size - head};
  return ls_array_create_copy(LS_DTYPE_STRING, ls_array_shape(paths), names,
                              out);
}

// Checks that each image has a mask.
static ls_status check_masks(const char *folder, const ls_array *names) {
  const ls_bytes *name = ls_array_data(names);
  char image[ROOM], mask[ROOM];
  struct stat info;
  for (int64_t i = 0; i < ls_array_num_elements(names); ++i) {
    print_image_path(folder, name[i], image);
    print_mask_path(folder, name[i], mask);
    if (stat(mask, &info) != 0)
      return ls_not_found("image '%s' has no mask: there is no '%s'", image,
                          mask);
  }
  return ls_ok();
}

// ---- Masks -----------------------------------------------------------------
static ls_status check_classes(const masked_folder *self, const char *path,
                               const ls_array *mask) {
  const unsigned char *numbers = ls_array_data(mask);
  const int64_t width = ls_array_shape(mask).dim[1];
  for (int64_t i = 0; i < ls_array_num_elements(mask); ++i) {
    if (numbers[i] < self->classes ||
        (self->has_void && numbers[i] == LS_VOID_LABEL))
      continue;
    return ls_invalid_argument(
        "mask '%s' has class %d in column %lld of row %lld; the model has %lld "
        "classes, which count from 0%s",
        path, numbers[i], (long long)(i % width), (long long)(i / width),
        (long long)self->classes,
        numbers[i] == LS_VOID_LABEL
            ? "; pixels to ignore need a type with ls_task_pixels"
            : "");
  }
  return ls_ok();
}

static ls_status fill_labels(const masked_folder *self, ls_bytes name,
                             const char *image, ls_shape size,
                             ls_array *labels) {
  char path[ROOM];
  CLI_OWN(ls_array, mask) = NULL;
  print_mask_path(self->path, name, path);
  LS_RETURN_IF_ERROR(
      cli_read_image(path, &(ls_image_options){.indices = true}, &mask));
  const ls_shape has = ls_array_shape(mask);
  if (has.dim[0] != size.dim[0] || has.dim[1] != size.dim[1])
    return ls_invalid_argument(
        "mask '%s' is %lld x %lld, its image '%s' %lld x %lld", path,
        (long long)has.dim[0], (long long)has.dim[1], image,
        (long long)size.dim[0], (long long)size.dim[1]);
  LS_RETURN_IF_ERROR(check_classes(self, path, mask));
  cli_sample_classes(mask, labels);
  return ls_ok();
}

static ls_status fill_masked(ls_nest element, ls_nest out,
                             const ls_map_call *call, void *user) {
  (void)call;
  const masked_folder *self = user;
  const ls_bytes *name = ls_array_data(ls_nest_as_array(element));
  ls_array *image = ls_nest_as_array(ls_nest_item(out, 0));
  ls_array *labels = ls_nest_as_array(ls_nest_item(out, 1));
  char path[ROOM];
  CLI_OWN(ls_array, photo) = NULL;
  print_image_path(self->path, *name, path);
  LS_RETURN_IF_ERROR(cli_read_image(
      path, &(ls_image_options){.channels = (int)ls_array_shape(image).dim[2]},
      &photo));
  LS_RETURN_IF_ERROR(ls_resize_image(photo, NULL, image));
  if (!self->no_labels)
    return fill_labels(self, *name, path, ls_array_shape(photo), labels);
  memset(ls_array_mutable_data(labels), 0, ls_array_size(labels));
  return ls_ok();
}

// ---- Names of classes ------------------------------------------------------
static ls_dataset *dataset_of(ls_array *array) {
  return ls_dataset_from_arrays(ls_nest_array(ls_array_retain(array)));
}

// Reads names of classes from classes.txt, one per line.
static ls_status read_names(const char *path, const ls_model_type *type,
                            cli_classes *classes) {
  size_t size = 0;
  CLI_OWN_MEMORY(char, names) = NULL;
  LS_RETURN_IF_ERROR(cli_read_bytes(path, &names, &size));
  size_t kept = 0;
  for (size_t i = 0; i < size; ++i)
    if (names[i] != '\r') names[kept++] = names[i];
  while (kept > 0 && names[kept - 1] == '\n')
    --kept;
  names[kept] = '\0';
  if (type != NULL && cli_classes_count(names) > type->num_classes)
    return ls_invalid_argument("'%s' names %lld classes, model '%s' has %lld",
                               path, (long long)cli_classes_count(names),
                               type->name, (long long)type->num_classes);
  return cli_classes_keep(cli_give(&names), path, classes);
}

// Finds the largest class of a mask.
static ls_status fill_largest(ls_nest element, ls_nest out,
                              const ls_map_call *call, void *user) {
  (void)call;
  char path[ROOM];
  const masked_folder all = {.classes = 255, .has_void = true};
  int32_t *largest = ls_nest_data(out, 0);
  CLI_OWN(ls_array, mask) = NULL;
  print_mask_path(
      user, *(const ls_bytes *)ls_array_data(ls_nest_as_array(element)), path);
  LS_RETURN_IF_ERROR(
      cli_read_image(path, &(ls_image_options){.indices = true}, &mask));
  LS_RETURN_IF_ERROR(check_classes(&all, path, mask));
  const unsigned char *numbers = ls_array_data(mask);
  *largest = 0;
  for (int64_t i = 0; i < ls_array_num_elements(mask); ++i)
    if (numbers[i] > *largest && numbers[i] != LS_VOID_LABEL)
      *largest = numbers[i];
  return ls_ok();
}

// Reads all masks, and names the classes from 0 to the largest one by their
// numbers.
static ls_status count_names(const char *folder, ls_array *names,
                             cli_classes *classes) {
  int32_t largest = 0;
  CLI_OWN(ls_nest, element) = ls_none();
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_dataset, counts) = ls_dataset_map(
      dataset_of(names),
      &(ls_map_options){.name = "classes of masks",
                        .fill = fill_largest,
                        .user = (void *)(uintptr_t)folder,
                        .result =
                            LS_TUPLE(ls_nest_spec(LS_DTYPE_I32, LS_SCALAR))});
  LS_RETURN_IF_ERROR(ls_iterator_create(counts, NULL, &iterator));
  for (;;) {
    CLI_NEXT_OR(break, iterator, &element);
    const int32_t number = *(const int32_t *)ls_nest_data(element, 0);
    if (number > largest) largest = number;
  }
  char text[5 * 256], *at = text;
  for (int32_t i = 0; i <= largest; ++i)
    at += sprintf(at, "%s%d", i > 0 ? "\n" : "", (int)i);
  const size_t size = (size_t)(at - text) + 1;
  CLI_NEW_ARRAY_OR_RETURN(char, kept, size);
  memcpy(kept, text, size);
  return cli_classes_keep(kept, folder, classes);
}

// ---- Opening ---------------------------------------------------------------
static ls_status check_model(const char *folder, const ls_model_type *type,
                             ls_shape labels) {
  if (type == NULL || ls_shape_equal(type->label_shape, labels)) return ls_ok();
  return ls_invalid_argument(
      "'%s' has masks, a class for each pixel; model '%s' has labels %s of an "
      "image: unet has such labels",
      folder, type->name,
      LS_SHAPE_TEXT(ls_model_type_task(type)->label_dtype, type->label_shape));
}

// Returns true for names that count_names made.
static bool are_numbers(const char *names) {
  const int64_t count = cli_classes_count(names);
  for (int64_t i = 0; i < count; ++i) {
    const ls_bytes name = cli_class_name(names, i);
    char number[24];
    const int size = snprintf(number, sizeof(number), "%lld", (long long)i);
    if (name.size != (size_t)size || memcmp(name.data, number, name.size) != 0)
      return false;
  }
  return count > 0;
}

// Finds the names of classes, or compares known ones: those of the file, if
// there is one; without a model, which needs their number, by the masks.
static ls_status find_names(const char *file, const char *folder,
                            ls_array *names, const cli_pair_request *request) {
  cli_classes *classes = request->classes;
  struct stat info;
  if (classes == NULL || request->no_labels || are_numbers(classes->names))
    return ls_ok();
  if (stat(file, &info) == 0) return read_names(file, request->type, classes);
  return request->type == NULL && classes->may_find
             ? count_names(folder, names, classes)
             : ls_ok();
}

// Opens a folder, whose classes a file may name.
static ls_status open_masked(const char *folder, const char *classes,
                             const cli_pair_request *request,
                             ls_dataset **out) {
  ls_shape shape = {0};
  const ls_model_type *type = request->type;
  CLI_OWN(ls_array, paths) = NULL;
  CLI_OWN(ls_array, names) = NULL;
  LS_RETURN_IF_ERROR(list_paths(folder, &paths));
  LS_RETURN_IF_ERROR(cut_names(folder, paths, &names));
  LS_RETURN_IF_ERROR(cli_fit_first(folder, request,
                                   cli_read_images(dataset_of(paths)), &shape));
  ls_shape labels = LS_SHAPE(shape.dim[0], shape.dim[1]);
  if (request->no_labels && type != NULL)
    labels = type->label_shape;
  else
    LS_RETURN_IF_ERROR(check_masks(folder, names));
  LS_RETURN_IF_ERROR(find_names(classes, folder, names, request));
  LS_RETURN_IF_ERROR(check_model(folder, type, labels));
  CLI_NEW_ARRAY_OR_RETURN(masked_folder, self, 1);
  *self = (masked_folder){.classes = type != NULL ? type->num_classes : 256,
                          .has_void = type != NULL &&
                                      ls_model_type_task(type)->has_void,
                          .no_labels = request->no_labels};
  snprintf(self->path, sizeof(self->path), "%s", folder);
  if (request->names != NULL) *request->names = dataset_of(paths);
  *out = ls_dataset_map(
      dataset_of(names),
      &(ls_map_options){.name = "masked images",
                        .fill = fill_masked,
                        .user = self,
                        .release = cli_release,
                        .result = LS_TUPLE(ls_nest_spec(LS_DTYPE_U8, shape),
                                           ls_nest_spec(LS_DTYPE_U8, labels))});
  return ls_dataset_status(*out);
}

ls_status cli_masked_pairs(const cli_files *files,
                           const cli_pair_request *request, ls_dataset **out) {
  char part[PATH_MAX], classes[ROOM];
  *out = NULL;
  LS_RETURN_IF_ERROR(cli_files_check_one(files));
  const bool found = cli_find_part(files->first, request->test, part);
  if (!found && request->test) return ls_ok();
  snprintf(classes, sizeof(classes), "%s/classes.txt", files->first);
  return open_masked(found ? part : files->first, classes, request, out);
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

ls_status cli_write_mask(const char *folder, const char *image, int64_t number,
                         const ls_array *classes, int64_t row,
                         char path[CLI_MASK_PATH]) {
  CLI_OWN(ls_array, small) = NULL;
  CLI_OWN(ls_array, mask) = NULL;
  print_path(folder, image, number, path, CLI_MASK_PATH);
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
  return ls_png_write(path, mask);
}
