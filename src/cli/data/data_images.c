// SPDX-License-Identifier: Apache-2.0
// Images: single files, and folders with one folder per class as examples and
// labels.
#define _GNU_SOURCE
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "cli/data/data.h"

// ---- Files -----------------------------------------------------------------
ls_status cli_read_bytes(const char *path, char **out_data, size_t *out_size) {
  struct stat info = {0};
  CLI_OWN(FILE, file) = NULL;
  LS_RETURN_IF_ERROR(cli_open_file(path, &file));
  const size_t size =
      fstat(fileno(file), &info) == 0 ? (size_t)info.st_size : 0;
  CLI_OWN_ARRAY_OR_RETURN(char, data, size + 1);
  const size_t got = fread(data, 1, size, file);
  if (got != size)
    return LS_STATUS(LS_DATA_LOSS, "'%s' has %zu bytes, %zu could be read",
                     path, got, size);
  *out_data = cli_give(&data);
  *out_size = size;
  return ls_ok();
}

ls_status cli_read_image(const char *path, const ls_image_options *options,
                         ls_array **out) {
  CLI_OWN_MEMORY(char, data) = NULL;
  size_t size = 0;
  ls_image_options named = *options;
  named.name = path;
  LS_RETURN_IF_ERROR(cli_read_bytes(path, &data, &size));
  return ls_decode_image(data, size, &named, out);
}

// Decodes a file, whose name is a string scalar; `channels` 0: the file's.
static ls_status decode_file(const ls_array *name, int channels,
                             ls_array **out) {
  const ls_bytes *text = ls_array_data(name);
  char path[PATH_MAX];
  snprintf(path, sizeof(path), "%.*s", (int)text->size, text->data);
  return cli_read_image(path, &(ls_image_options){.channels = channels}, out);
}

static ls_nest read_image(ls_nest element, const ls_map_call *call,
                          void *user) {
  (void)call;
  (void)user;
  ls_array *image = NULL;
  const ls_status status = decode_file(ls_nest_as_array(element), 0, &image);
  return ls_status_is_ok(status) ? ls_nest_array(image) : ls_fail(status);
}

static ls_status is_image(ls_nest element, const ls_map_call *call, void *user,
                          bool *out_keep) {
  (void)call;
  (void)user;
  const ls_bytes *name = ls_array_data(ls_nest_as_array(element));
  *out_keep = cli_is_image_name(name->data, name->size);
  return ls_ok();
}

ls_dataset *cli_list_images(const char *folder) {
  char pattern[2 * PATH_MAX];
  snprintf(pattern, sizeof(pattern), "%s/*", folder);
  return ls_dataset_filter(
      ls_dataset_files(pattern),
      &(ls_filter_options){.name = "image", .call = is_image});
}

// Lists the names of image files, or of those in a folder, sorted.
static ls_dataset *list_images(const cli_files *files) {
  if (files->format != NULL && files->format->is_folder != NULL)
    return cli_list_images(files->first);
  ls_dataset *names = NULL;
  for (size_t i = 0; i < files->count; ++i) {
    ls_dataset *some = ls_dataset_files(files->paths[i]);
    names = i == 0 ? some : ls_dataset_concatenate(names, some);
  }
  return names;
}

ls_dataset *cli_read_images(ls_dataset *names) {
  const ls_shape any = LS_SHAPE(LS_UNKNOWN_DIM, LS_UNKNOWN_DIM, LS_UNKNOWN_DIM);
  return ls_dataset_map(
      names, &(ls_map_options){.name = "image",
                               .call = read_image,
                               .result = ls_nest_spec(LS_DTYPE_U8, any)});
}

ls_status cli_image_files(const cli_files *files, ls_dataset **out) {
  *out = cli_read_images(list_images(files));
  return ls_ok();
}

// ---- Sizes -----------------------------------------------------------------
static int64_t find_root(int64_t n) {
  const int64_t root = (int64_t)llround(sqrt((double)n));
  return root * root == n ? root : 0;
}

bool cli_image_shape(const ls_model_type *type, int64_t height, int64_t width,
                     ls_shape *out_shape) {
  const ls_shape takes = type->example_shape;
  const int64_t count = ls_shape_num_elements(takes);
  *out_shape = (ls_shape){0};
  if (type->example_dtype == LS_DTYPE_I32) return false;
  if (takes.rank == 2) {
    *out_shape = LS_SHAPE(takes.dim[0], takes.dim[1], 1);
  } else if (takes.rank == 3 && takes.dim[2] <= 4) {
    *out_shape = takes;
  } else if (takes.rank == 1) {
    // For a model that takes vectors: keeps an image of that many numbers, or
    // resizes to a square, gray if possible.
    for (int64_t channels = 1; channels <= 3; channels += 2) {
      const int64_t pixels = count % channels == 0 ? count / channels : 0;
      const int64_t side = find_root(pixels);
      if (pixels > 0 && height * width == pixels) {
        *out_shape = LS_SHAPE(height, width, channels);
        return true;
      }
      if (side > 0 && out_shape->rank == 0)
        *out_shape = LS_SHAPE(side, side, channels);
    }
  }
  return out_shape->rank == 3;
}

// ---- Folders ---------------------------------------------------------------
bool cli_find_folder(const char *above, const char *const *names,
                     char path[PATH_MAX]) {
  struct stat info;
  for (; *names != NULL; ++names) {
    // Ignore a path that was truncated.
    const int length = snprintf(path, PATH_MAX, "%s/%s", above, *names);
    if (length < PATH_MAX && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
      return true;
  }
  return false;
}

bool cli_find_part(const char *folder, bool test, char path[PATH_MAX]) {
  static const char *const trains[] = {"train", "training", NULL};
  static const char *const tests[] = {"test",       "val",     "valid",
                                      "validation", "testing", NULL};
  return cli_find_folder(folder, test ? tests : trains, path);
}

const char *cli_colored_model(const ls_model_type *type) {
  size_t count = 0;
  const ls_model_type *const *types = ls_model_types(&count);
  for (size_t i = 0; i < count; ++i) {
    const ls_shape takes = types[i]->example_shape;
    if (takes.rank == 3 && takes.dim[2] == 3 &&
        types[i]->label_shape.rank == type->label_shape.rank)
      return types[i]->name;
  }
  return NULL;
}

// Returns true if a pixel of an image is no gray.
static bool has_colors(const ls_array *image) {
  const ls_shape shape = ls_array_shape(image);
  const unsigned char *at = ls_array_data(image);
  const int64_t channels = shape.rank == 3 ? shape.dim[2] : 1;
  if (channels < 3 || ls_array_dtype(image) != LS_DTYPE_U8) return false;
  for (int64_t i = 0; i < shape.dim[0] * shape.dim[1]; ++i, at += channels)
    if (at[0] != at[1] || at[0] != at[2]) return true;
  return false;
}

static int64_t count_classes(const ls_dataset *folder) {
  int64_t count = 0;
  while (ls_image_folder_class(folder, count) != NULL)
    ++count;
  return count;
}

ls_status cli_fit_first(const char *path, const cli_pair_request *request,
                        ls_dataset *images, ls_shape *out) {
  const ls_model_type *type = request->type;
  CLI_OWN(ls_dataset, native) = images;
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, first) = ls_none();
  LS_RETURN_IF_ERROR(cli_begin_rows(native, &iterator));
  LS_RETURN_IF_ERROR(ls_iterator_next(iterator, &first));
  const ls_array *image = ls_nest_as_array(
      first.kind == LS_KIND_ARRAY ? first : ls_nest_item(first, 0));
  const ls_shape has = ls_array_shape(image);
  ls_shape fits = has;
  if (type != NULL && !cli_image_shape(type, has.dim[0], has.dim[1], &fits))
    return ls_invalid_argument(
        "model '%s' takes examples %s, which are no images; '%s' has images, "
        "the first %lld x %lld",
        type->name,
        LS_SHAPE_TEXT(type->example_dtype == LS_DTYPE_NONE
                          ? LS_DTYPE_F32
                          : type->example_dtype,
                      type->example_shape),
        path, (long long)has.dim[0], (long long)has.dim[1]);
  if (request->command != NULL &&
      (fits.dim[0] != has.dim[0] || fits.dim[1] != has.dim[1]))
    cli_say(request->command,
            "the first image of '%s' is %lld x %lld; all are resized to %lld x "
            "%lld",
            path, (long long)has.dim[0], (long long)has.dim[1],
            (long long)fits.dim[0], (long long)fits.dim[1]);
  const char *colored = type != NULL ? cli_colored_model(type) : NULL;
  if (request->command != NULL && fits.dim[2] < 3 && has_colors(image))
    cli_say(request->command,
            "the first image of '%s' has colors, which are lost: model '%s' "
            "takes gray images%s%s%s",
            path, type->name, colored != NULL ? "; " : "",
            colored != NULL ? colored : "",
            colored != NULL ? " takes 3 channels" : "");
  *out = fits;
  return ls_ok();
}

// ---- Files without labels --------------------------------------------------
static ls_status fill_image(ls_nest element, ls_nest out,
                            const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  ls_array *image = ls_nest_as_array(ls_nest_item(out, 0));
  CLI_OWN(ls_array, decoded) = NULL;
  memset(ls_nest_data(out, 1), 0,
         ls_array_size(ls_nest_as_array(ls_nest_item(out, 1))));
  LS_RETURN_IF_ERROR(decode_file(ls_nest_as_array(element),
                                 (int)ls_array_shape(image).dim[2], &decoded));
  return ls_resize_image(decoded, NULL, image);
}

ls_status cli_unlabeled_images(const cli_files *files,
                               const cli_pair_request *request,
                               ls_dataset **out) {
  ls_shape shape = {0};
  const ls_shape labels = cli_missing_labels(request).shape;
  ls_dataset *images = NULL;
  LS_RETURN_IF_ERROR(cli_image_files(files, &images));
  LS_RETURN_IF_ERROR(cli_fit_first(files->first, request, images, &shape));
  *request->names = list_images(files);
  *out = ls_dataset_map(
      ls_dataset_retain(*request->names),
      &(ls_map_options){.name = "image",
                        .fill = fill_image,
                        .result =
                            LS_TUPLE(ls_nest_spec(LS_DTYPE_U8, shape),
                                     ls_nest_spec(LS_DTYPE_I32, labels))});
  return ls_dataset_status(*out);
}

// ---- Folders by class ------------------------------------------------------
static ls_nest name_file(void *user, int64_t index) {
  char path[PATH_MAX] = "";
  ls_array *name = NULL;
  ls_image_folder_file(user, index, path, sizeof(path));
  const ls_bytes text = {path, strlen(path)};
  const ls_status status =
      ls_array_create_copy(LS_DTYPE_STRING, LS_SCALAR, &text, &name);
  return ls_status_is_ok(status) ? ls_nest_array(name) : ls_fail(status);
}

static void release_folder(void *user) { ls_dataset_release(user); }

static ls_dataset *name_files(ls_dataset *folder) {
  return ls_dataset_from_function(
      &(ls_index_options){.name = "files",
                          .size = ls_dataset_cardinality(folder),
                          .element = ls_nest_spec(LS_DTYPE_STRING, LS_SCALAR),
                          .make = name_file,
                          .user = ls_dataset_retain(folder),
                          .release = release_folder});
}

// Opens all images of a folder in a size for the model, found by the first.
static ls_status open_folder(const char *path, const cli_pair_request *request,
                             ls_dataset **out) {
  ls_shape fits = {0};
  LS_RETURN_IF_ERROR(
      cli_fit_first(path, request, ls_dataset_image_folder(path, NULL), &fits));
  *out = ls_dataset_image_folder(
      path, &(ls_image_folder_options){.height = fits.dim[0],
                                       .width = fits.dim[1],
                                       .channels = (int)fits.dim[2]});
  LS_RETURN_IF_ERROR(ls_dataset_status(*out));
  if (request->names != NULL) *request->names = name_files(*out);
  return ls_ok();
}

// Checks that the model has as many classes as the folder.
static ls_status check_count(const char *path, const ls_model_type *type,
                             const ls_dataset *folder) {
  const int64_t classes = count_classes(folder);
  if (type == NULL || classes == type->num_classes) return ls_ok();
  if (ls_model_type_task(type)->label_dtype != LS_DTYPE_I32)
    return ls_invalid_argument("'%s' has a folder of images for each class, "
                               "which are no labels of --task %s",
                               path, ls_model_type_task(type)->name);
  return ls_invalid_argument("'%s' has %lld folders of classes, model '%s' has "
                             "%lld classes: it needs one folder per class",
                             path, (long long)classes, type->name,
                             (long long)type->num_classes);
}

static ls_nest renumber_label(ls_nest element, const ls_map_call *call,
                              void *user) {
  const int32_t *numbers = user;
  const int32_t label = numbers[*(const int32_t *)ls_nest_data(element, 1)];
  ls_array *image = ls_nest_as_array(ls_nest_item(element, 0)), *made = NULL;
  (void)call;
  const ls_status status =
      ls_array_create_copy(LS_DTYPE_I32, LS_SCALAR, &label, &made);
  return ls_status_is_ok(status)
             ? LS_TUPLE(ls_nest_array(ls_array_retain(image)),
                        ls_nest_array(made))
             : ls_fail(status);
}

// Gives images the numbers that their folders' names have among known ones.
static ls_status renumber(const char *path, const char *names,
                          ls_dataset **folder) {
  CLI_OWN(cli_class_list, list) = NULL;
  const int64_t count = count_classes(*folder);
  CLI_OWN_ARRAY_OR_RETURN(int32_t, numbers, (size_t)count);
  bool is_same = true;
  LS_RETURN_IF_ERROR(cli_class_list_make(names, &list));
  for (int64_t i = 0; i < count; ++i) {
    const char *name = ls_image_folder_class(*folder, i);
    int64_t number = 0;
    CLI_OWN(ls_status, status) =
        cli_class_number(list, (ls_bytes){name, strlen(name)}, &number);
    if (!ls_status_is_ok(status))
      return ls_invalid_argument("'%s' has a folder '%s', which is none of the "
                                 "run's %zu classes",
                                 path, name, cli_class_list_count(list));
    numbers[i] = (int32_t)number;
    is_same &= number == i;
  }
  if (is_same) return ls_ok();
  *folder =
      ls_dataset_map(*folder, &(ls_map_options){.name = "classes",
                                                .call = renumber_label,
                                                .user = cli_give(&numbers),
                                                .release = cli_release});
  return ls_dataset_status(*folder);
}

static ls_status open_counted(const char *path, const cli_pair_request *request,
                              ls_dataset **out) {
  LS_RETURN_IF_ERROR(open_folder(path, request, out));
  if (request->no_labels) return ls_ok();
  const cli_classes *known = request->classes;
  if (request->is_other && known != NULL && cli_classes_count(known->names) > 0)
    return renumber(path, known->names, out);
  LS_RETURN_IF_ERROR(check_count(path, request->type, *out));
  // Stores the names of a folder's classes, or compares them with known ones.
  if (request->classes == NULL) return ls_ok();
  size_t size = 0;
  const char *name = NULL;
  for (int64_t i = 0; (name = ls_image_folder_class(*out, i)) != NULL; ++i)
    size += strlen(name) + 1;
  char *names = cli_allocate(size + 1), *at = names;
  if (names == NULL) return ls_out_of_memory();
  for (int64_t i = 0; (name = ls_image_folder_class(*out, i)) != NULL; ++i)
    at += sprintf(at, "%s%s", i > 0 ? "\n" : "", name);
  return cli_classes_keep(names, path, request->classes);
}

// Checks that both parts have the same classes.
static ls_status check_classes(const char *train, const ls_dataset *a,
                               const char *test, const ls_dataset *b) {
  for (int64_t i = 0;; ++i) {
    const char *x = ls_image_folder_class(a, i);
    const char *y = ls_image_folder_class(b, i);
    if (x == NULL && y == NULL) return ls_ok();
    if (x != NULL && y != NULL && strcmp(x, y) == 0) continue;
    return ls_invalid_argument(
        "class %lld is '%s' in '%s' and '%s' in '%s': both need a folder of "
        "each class",
        (long long)i, x != NULL ? x : "", train, y != NULL ? y : "", test);
  }
}

ls_status cli_image_folder_pairs(const cli_files *files,
                                 const cli_pair_request *request,
                                 ls_dataset **out) {
  char train[PATH_MAX], held[PATH_MAX];
  *out = NULL;
  LS_RETURN_IF_ERROR(cli_files_check_one(files));
  if (!cli_find_part(files->first, false, train))
    return request->test ? ls_ok() : open_counted(files->first, request, out);
  const bool has_test = cli_find_part(files->first, true, held);
  if (!request->test) return open_counted(train, request, out);
  if (!has_test) return ls_ok();
  if (request->is_other) return open_counted(held, request, out);
  LS_RETURN_IF_ERROR(open_folder(held, request, out));
  if (request->no_labels) return ls_ok();
  CLI_OWN(ls_dataset, other) = ls_dataset_image_folder(train, NULL);
  LS_RETURN_IF_ERROR(ls_dataset_status(other));
  return check_classes(train, other, held, *out);
}
