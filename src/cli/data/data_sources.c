// SPDX-License-Identifier: Apache-2.0
// Arrays, TFRecord files and folders of images as examples and labels.
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/data/data.h"
#include "lockstep/element_spec.h"
#include "lockstep/files.h"
#include "lockstep/image.h"

ls_status cli_first_element(ls_dataset *dataset, ls_nest *out) {
  ls_iterator *iterator = NULL;
  *out = ls_none();
  LS_RETURN_IF_ERROR(ls_iterator_create(
      dataset, &(ls_iterator_options){.prefetch = LS_SOME(0)}, &iterator));
  const ls_status status = ls_iterator_next(iterator, out);
  ls_iterator_release(iterator);
  return status;
}

// ---- Arrays ----------------------------------------------------------------
// Items of elements, which are arrays, as they are; lists of other structures
// become tuples.
static ls_status pair_items(ls_dataset *dataset, size_t example, size_t label,
                            ls_dataset **out) {
  ls_element_spec spec;
  ls_status status = ls_dataset_spec(dataset, &spec);
  if (!ls_status_is_ok(status)) {
    ls_dataset_release(dataset);
    return status;
  }
  const size_t leaf = (size_t)ls_nest_item(spec.structure, example).as.i64;
  const size_t labels = (size_t)ls_nest_item(spec.structure, label).as.i64;
  *out = cli_pair(dataset, &(cli_pairing){.first = example,
                                          .label = label,
                                          .example = spec.leaves[leaf].type,
                                          .labels = spec.leaves[labels].type});
  return ls_dataset_status(*out);
}

ls_status cli_open_columns(const cli_files *files, ls_dataset **out) {
  if (files->format == CLI_FORMAT_IDX) {
    *out = ls_dataset_idx(files->paths, files->count, NULL);
  } else if (files->count == 2) {
    ls_nest both =
        LS_TUPLE(ls_nest_dataset(ls_dataset_npy(files->paths[0], NULL)),
                 ls_nest_dataset(ls_dataset_npy(files->paths[1], NULL)));
    *out = ls_dataset_zip(both);
  }
  if (*out != NULL) LS_RETURN_IF_ERROR(ls_dataset_status(*out));
  ls_element_spec spec = {0};
  if (*out != NULL) LS_RETURN_IF_ERROR(ls_dataset_spec(*out, &spec));
  if (spec.count != 2)
    return ls_invalid_argument(
        "'%s' is one array; give two files, of examples and of labels: "
        "--data EXAMPLES,LABELS",
        files->text);
  // Whatever the order, labels have less dimensions.
  const bool turned =
      spec.leaves[0].type.shape.rank < spec.leaves[1].type.shape.rank;
  ls_dataset *dataset = *out;
  *out = NULL;
  return pair_items(dataset, turned, !turned, out);
}

ls_status cli_open_npz(const cli_files *files, const cli_features *features,
                       bool test, ls_dataset **out) {
  static const char *const known[][4] = {
      {"x_train", "y_train", "x_test", "y_test"},
      {"train_images", "train_labels", "test_images", "test_labels"},
      {"x", "y", NULL, NULL},
      {"images", "labels", NULL, NULL}};
  *out = NULL;
  LS_RETURN_IF_ERROR(cli_files_check_one(files));
  const char *named[2] = {0};
  if (features->count > 0) {
    if (test) return ls_ok();
    if (features->count != 2 || features->items[0].typed ||
        features->items[1].typed)
      return ls_invalid_argument("--features of '%s': two names of arrays, of "
                                 "examples and of labels, without types",
                                 files->first);
    for (int i = 0; i < 2; ++i)
      named[i] = features->items[i].name;
  }
  ls_status first = ls_ok();
  for (size_t k = 0; k < 4; ++k) {
    const char *const *names = named[0] != NULL ? named
                               : test           ? &known[k][2]
                                                : known[k];
    if (names[0] == NULL) continue;
    ls_dataset *dataset = ls_dataset_npz(files->first, names, 2, NULL);
    ls_status status = ls_dataset_status(dataset);
    if (ls_status_is_ok(status)) {
      ls_status_free(first);
      return pair_items(dataset, 0, 1, out);
    }
    ls_dataset_release(dataset);
    if (named[0] != NULL || ls_status_code(status) != LS_NOT_FOUND) {
      ls_status_free(first);
      return status;
    }
    if (ls_status_is_ok(first))
      first = status;
    else
      ls_status_free(status);
  }
  if (test) {
    ls_status_free(first);
    return ls_ok();
  }
  return ls_status_annotate(first,
                            "nor x and y, or images and labels: name them "
                            "with --features EXAMPLES,LABELS");
}

// ---- TFRecord --------------------------------------------------------------
static const cli_feature *feature_of(ls_nest found, const cli_feature *named,
                                     const char *const *names, size_t count,
                                     cli_feature *guess) {
  if (named != NULL) return named;
  for (size_t i = 0; i < count; ++i) {
    if (ls_nest_find(found, names[i]).kind != LS_KIND_ARRAY) continue;
    *guess = (cli_feature){.name = names[i]};
    return guess;
  }
  return NULL;
}

// "image: 1 bytes of 784, label: 1 integers"
static void print_found(ls_nest found, char *buffer, size_t size) {
  buffer[0] = '\0';
  for (size_t i = 0; i < ls_nest_count(found); ++i) {
    const ls_array *values = ls_nest_as_array(ls_nest_item(found, i));
    const size_t used = strlen(buffer);
    if (used + 1 >= size) return;
    char type[200] = "nothing";
    if (values != NULL)
      ls_shape_print(ls_array_dtype(values), ls_array_shape(values), type,
                     sizeof(type));
    if (values != NULL && ls_array_dtype(values) == LS_DTYPE_STRING &&
        ls_array_num_elements(values) == 1)
      snprintf(type, sizeof(type), "%zu bytes",
               ((const ls_bytes *)ls_array_data(values))->size);
    snprintf(buffer + used, size - used, "%s%s (%s)", i == 0 ? "" : ", ",
             ls_nest_key(found, i), type);
  }
}

static bool data_sources_is_image(const ls_bytes *bytes) {
  return bytes->size > 4 && (memcmp(bytes->data, "\211PNG", 4) == 0 ||
                             memcmp(bytes->data, "\377\330\377", 3) == 0);
}

// What a feature is read as, where nobody has said, from its values in the
// first record. `elements`: how many numbers the model takes; 0: nobody knows.
static void guess_type(const ls_array *values, int64_t elements,
                       cli_feature *it) {
  const int64_t count = ls_array_num_elements(values);
  const ls_dtype has = ls_array_dtype(values);
  it->shaped = true;
  it->shape = count == 1 ? LS_SCALAR : LS_SHAPE(count);
  it->dtype = has;
  if (has == LS_DTYPE_STRING && count == 1) {
    const ls_bytes *bytes = ls_array_data(values);
    const int64_t size = (int64_t)bytes->size;
    it->image = data_sources_is_image(bytes);
    // Numbers as their bytes.
    it->dtype =
        elements > 0 && size == 4 * elements ? LS_DTYPE_F32 : LS_DTYPE_U8;
    it->shape = LS_SHAPE(it->dtype == LS_DTYPE_F32 ? elements : size);
  } else if (has == LS_DTYPE_I64 && count > 1) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = ls_array_i64(values, i);
      if (number < least) least = number;
      if (number > most) most = number;
    }
    if (cli_are_pixels(least, most)) it->dtype = LS_DTYPE_U8;
  }
}

static ls_status complete(const cli_files *files, ls_nest found,
                          const ls_model_type *type, cli_feature *example,
                          cli_feature *label) {
  cli_feature *const both[] = {example, label};
  const int64_t elements =
      type != NULL ? ls_shape_num_elements(type->example_shape) : 0;
  for (int i = 0; i < 2; ++i) {
    const ls_array *values =
        ls_nest_as_array(ls_nest_find(found, both[i]->name));
    if (values == NULL || ls_array_num_elements(values) == 0) {
      char has[600];
      print_found(found, has, sizeof(has));
      return ls_invalid_argument(
          "the first record of '%s' has no feature '%s'; it has %s",
          files->first, both[i]->name, has);
    }
    if (both[i]->shaped || both[i]->image) continue;
    cli_feature guess = *both[i];
    guess_type(values, i == 0 ? elements : 0, &guess);
    if (both[i]->typed && both[i]->dtype != LS_DTYPE_NONE &&
        guess.dtype != both[i]->dtype) {
      // Its bytes are as many numbers of the type that was named.
      const bool bytes = ls_array_dtype(values) == LS_DTYPE_STRING;
      const int64_t size = ls_shape_num_elements(guess.shape) *
                           (int64_t)ls_dtype_size(guess.dtype);
      if (bytes && ls_dtype_size(both[i]->dtype) > 0) {
        const int64_t count = size / (int64_t)ls_dtype_size(both[i]->dtype);
        guess.shape = count == 1 ? LS_SCALAR : LS_SHAPE(count);
      }
      guess.dtype = both[i]->dtype;
    }
    guess.image = guess.image && !both[i]->typed;
    *both[i] = guess;
  }
  // A label of one byte is a number.
  if (!label->typed && label->dtype == LS_DTYPE_U8 && label->shape.rank == 1 &&
      label->shape.dim[0] == 1)
    label->shape = LS_SCALAR;
  if (label->image)
    return ls_invalid_argument("feature '%s' of '%s' is an image; labels are "
                               "whole numbers",
                               label->name, files->first);
  return ls_ok();
}

// What images in bytes become: as the model takes them, or as the first is.
static ls_status shape_of_image(const cli_files *files, ls_nest found,
                                const ls_model_type *type,
                                cli_feature *example) {
  const ls_array *values = ls_nest_as_array(ls_nest_find(found, example->name));
  ls_shape shape = {0}, fits = {0};
  if (ls_array_dtype(values) != LS_DTYPE_STRING)
    return ls_invalid_argument("feature '%s' of '%s' has numbers, no image",
                               example->name, files->first);
  const ls_bytes *bytes = ls_array_data(values);
  LS_RETURN_IF_ERROR(ls_image_shape(bytes->data, bytes->size,
                                    &(ls_image_options){.name = files->first},
                                    &shape));
  if (type != NULL && cli_image_shape(type, shape.dim[0], shape.dim[1], &fits))
    shape = fits;
  example->shape = shape;
  example->dtype = LS_DTYPE_U8;
  return ls_ok();
}

static ls_status choose_features(const cli_files *files,
                                 const cli_features *features, ls_nest found,
                                 const ls_model_type *type,
                                 cli_feature *example, cli_feature *label) {
  static const char *const examples[] = {"image", "image_raw", "image/encoded",
                                         "x"};
  static const char *const labels[] = {"label", "y", "image/class/label"};
  if (features->count > 2)
    return ls_invalid_argument("--features of '%s': EXAMPLE,LABEL, or one of "
                               "them alone is not enough",
                               files->first);
  const bool named = features->count == 2;
  cli_feature guess[2];
  const cli_feature *a = feature_of(found, named ? &features->items[0] : NULL,
                                    examples, 4, &guess[0]);
  const cli_feature *b = feature_of(
      found, features->count > 0 ? &features->items[features->count - 1] : NULL,
      labels, 3, &guess[1]);
  if (a == NULL || b == NULL) {
    char has[600];
    print_found(found, has, sizeof(has));
    return ls_invalid_argument(
        "which features of '%s' are %s? The first record has %s; say it with "
        "--features EXAMPLE,LABEL",
        files->first, a == NULL ? "examples" : "labels", has);
  }
  *example = *a;
  *label = *b;
  LS_RETURN_IF_ERROR(complete(files, found, type, example, label));
  return example->image ? shape_of_image(files, found, type, example) : ls_ok();
}

ls_status cli_open_tfrecords(const cli_files *files,
                             const cli_features *features,
                             const ls_model_type *type, ls_dataset **out) {
  cli_feature example = {0}, label = {0};
  *out = NULL;
  const ls_nest found = ls_tfrecord_first_example(files->paths, files->count);
  ls_status status = ls_nest_status(found);
  if (ls_status_is_ok(status))
    status = choose_features(files, features, found, type, &example, &label);
  if (ls_status_is_ok(status)) {
    const ls_tfrecord_feature wanted[] = {
        {.name = example.name,
         .dtype = example.image ? LS_DTYPE_STRING : example.dtype,
         .shape = example.image ? LS_SCALAR : example.shape},
        {.name = label.name, .dtype = label.dtype, .shape = label.shape}};
    *out = cli_pair(
        ls_dataset_tfrecords(
            files->paths, files->count,
            &(ls_tfrecord_options){.features = wanted, .num_features = 2}),
        &(cli_pairing){.first = 0,
                       .label = 1,
                       .decode = example.image,
                       .example = {example.dtype, example.shape},
                       .labels = {label.dtype, label.shape}});
    status = ls_dataset_status(*out);
  }
  ls_nest_release(found);
  return status;
}

// ---- Images ----------------------------------------------------------------
static bool find_folder(const char *above, const char *const *names,
                        char *path) {
  struct stat info;
  for (; *names != NULL; ++names) {
    // A path that was cut is none.
    const int length = snprintf(path, PATH_MAX, "%s/%s", above, *names);
    if (length < PATH_MAX && stat(path, &info) == 0 && S_ISDIR(info.st_mode))
      return true;
  }
  return false;
}

static int64_t count_classes(const ls_dataset *folder) {
  int64_t count = 0;
  while (ls_image_folder_class(folder, count) != NULL)
    ++count;
  return count;
}

// The first image of a folder, of these channels, and then all in a size for
// the model.
static ls_status open_folder(const char *path, const ls_model_type *type,
                             const char *command, ls_dataset **out) {
  ls_nest first = ls_none();
  ls_dataset *native = ls_dataset_image_folder(path, NULL);
  ls_status status = cli_first_element(native, &first);
  ls_dataset_release(native);
  if (!ls_status_is_ok(status)) return status;
  const ls_shape has = ls_array_shape(ls_nest_as_array(ls_nest_item(first, 0)));
  ls_nest_release(first);
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
  if (command != NULL &&
      (fits.dim[0] != has.dim[0] || fits.dim[1] != has.dim[1]))
    cli_say(command,
            "the first image of '%s' is %lld x %lld; all are resized to %lld x "
            "%lld",
            path, (long long)has.dim[0], (long long)has.dim[1],
            (long long)fits.dim[0], (long long)fits.dim[1]);
  *out = ls_dataset_image_folder(
      path, &(ls_image_folder_options){.height = fits.dim[0],
                                       .width = fits.dim[1],
                                       .channels = (int)fits.dim[2]});
  return ls_dataset_status(*out);
}

// A model has as many classes as it was made with.
static ls_status data_sources_check_count(const char *path,
                                          const ls_model_type *type,
                                          const ls_dataset *folder) {
  const int64_t classes = count_classes(folder);
  if (type == NULL || classes == type->num_classes) return ls_ok();
  return ls_invalid_argument(
      "'%s' has %lld folders of classes, model '%s' has %lld classes: it takes "
      "one folder for each",
      path, (long long)classes, type->name, (long long)type->num_classes);
}

static ls_status open_counted(const char *path, const ls_model_type *type,
                              const char *command, ls_dataset **out) {
  LS_RETURN_IF_ERROR(open_folder(path, type, command, out));
  return data_sources_check_count(path, type, *out);
}

// The classes of two parts are the same.
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

ls_status cli_open_images(const cli_files *files, const ls_model_type *type,
                          const char *command, bool test, ls_dataset **out) {
  static const char *const trains[] = {"train", "training", NULL};
  static const char *const tests[] = {"test",       "val",     "valid",
                                      "validation", "testing", NULL};
  char train[PATH_MAX], held[PATH_MAX];
  *out = NULL;
  LS_RETURN_IF_ERROR(cli_files_check_one(files));
  if (!find_folder(files->first, trains, train))
    return test ? ls_ok() : open_counted(files->first, type, command, out);
  const bool has_test = find_folder(files->first, tests, held);
  if (!test) return open_counted(train, type, command, out);
  if (!has_test) return ls_ok();
  LS_RETURN_IF_ERROR(open_folder(held, type, command, out));
  ls_dataset *other = ls_dataset_image_folder(train, NULL);
  ls_status status = ls_dataset_status(other);
  if (ls_status_is_ok(status)) status = check_classes(train, other, held, *out);
  ls_dataset_release(other);
  return status;
}
