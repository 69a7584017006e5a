// SPDX-License-Identifier: Apache-2.0
// TFRecord files of tf.Examples: finds the features that are examples and
// labels.
#define _GNU_SOURCE
#include <string.h>

#include "cli/data/data.h"

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

// Prints "image: 1 bytes of 784, label: 1 integers".
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

// Guesses the type of a feature from its values in the first record.
// `elements`: the model's number of inputs; 0: unknown. `classes`: of the run,
// if it is the example.
static void guess_type(const ls_array *values, int64_t elements,
                       cli_classes *classes, cli_feature *feature) {
  const int64_t count = ls_array_num_elements(values);
  const ls_dtype has = ls_array_dtype(values);
  feature->shaped = true;
  feature->shape = count == 1 ? LS_SCALAR : LS_SHAPE(count);
  feature->dtype = has;
  if (has == LS_DTYPE_STRING && count == 1) {
    const ls_bytes *bytes = ls_array_data(values);
    const int64_t size = (int64_t)bytes->size;
    feature->image = data_sources_is_image(bytes);
    // The bytes are raw numbers: f32 if the size fits, otherwise u8.
    feature->dtype =
        elements > 0 && size == 4 * elements ? LS_DTYPE_F32 : LS_DTYPE_U8;
    feature->shape = LS_SHAPE(feature->dtype == LS_DTYPE_F32 ? elements : size);
  } else if (has == LS_DTYPE_I64 && count > 1) {
    int64_t least = INT64_MAX, most = INT64_MIN;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t number = ls_array_i64(values, i);
      if (number < least) least = number;
      if (number > most) most = number;
    }
    if (cli_are_bytes(classes, cli_are_pixels(least, most)))
      feature->dtype = LS_DTYPE_U8;
  }
}

// Completes the types of the example and of the label, which may be NULL.
static ls_status complete(const cli_files *files, ls_nest found,
                          const cli_pair_request *request, cli_feature *example,
                          cli_feature *label) {
  const ls_model_type *type = request->type;
  cli_feature *const both[] = {example, label};
  const int64_t elements =
      type != NULL ? ls_shape_num_elements(type->example_shape) : 0;
  for (int i = 0; i < 2 && both[i] != NULL; ++i) {
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
    guess_type(values, i == 0 ? elements : 0,
               i == 0 && !guess.typed ? request->classes : NULL, &guess);
    if (both[i]->typed && both[i]->dtype != LS_DTYPE_NONE &&
        guess.dtype != both[i]->dtype) {
      // The bytes of a string are an array of the given type.
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
  if (label == NULL) return ls_ok();
  // A label of one byte is a scalar.
  if (!label->typed && label->dtype == LS_DTYPE_U8 && label->shape.rank == 1 &&
      label->shape.dim[0] == 1)
    label->shape = LS_SCALAR;
  if (!label->typed && label->dtype == LS_DTYPE_U8 && label->shape.rank == 1 &&
      type != NULL && type->label_shape.rank == 0 && !cli_has_numbers(request))
    return ls_invalid_argument("feature '%s' of '%s' is a text or other bytes; "
                               "labels are whole numbers",
                               label->name, files->first);
  if (label->image)
    return ls_invalid_argument("feature '%s' of '%s' is an image; labels are "
                               "whole numbers",
                               label->name, files->first);
  return ls_ok();
}

// Chooses the shape of encoded images: the model's, or the first image's.
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
                                 const cli_pair_request *request, ls_nest found,
                                 cli_feature *example, cli_feature *label) {
  static const char *const examples[] = {"image", "image_raw", "image/encoded",
                                         "x"};
  static const char *const labels[] = {"label", "y", "image/class/label"};
  const cli_features *features = request->features;
  if (features->count > 2)
    return ls_invalid_argument(
        "--features of '%s' names %zu: a TFRecord has one feature of examples "
        "and one of labels, EXAMPLE,LABEL; columns of numbers, one each, are "
        "read from .csv and .jsonl files",
        files->first, features->count);
  const bool named = features->count == 2;
  cli_feature guess[2];
  const cli_feature *a = feature_of(found, named ? &features->items[0] : NULL,
                                    examples, 4, &guess[0]);
  const cli_feature *b = feature_of(
      found, features->count > 0 ? &features->items[features->count - 1] : NULL,
      labels, 3, &guess[1]);
  if (a == NULL || (b == NULL && !request->no_labels)) {
    char has[600];
    print_found(found, has, sizeof(has));
    return ls_invalid_argument(
        "which features of '%s' are %s? The first record has %s; name them by "
        "--features EXAMPLE,LABEL",
        files->first, a == NULL ? "examples" : "labels", has);
  }
  *example = *a;
  if (!request->no_labels) *label = *b;
  LS_RETURN_IF_ERROR(complete(files, found, request, example,
                              request->no_labels ? NULL : label));
  return example->image ? shape_of_image(files, found, request->type, example)
                        : ls_ok();
}

ls_status cli_tfrecord_pairs(const cli_files *files,
                             const cli_pair_request *request,
                             ls_dataset **out) {
  cli_feature example = {0}, label = {0};
  *out = NULL;
  CLI_OWN(ls_nest, found) =
      ls_tfrecord_first_example(files->paths, files->count);
  LS_RETURN_IF_ERROR(ls_nest_status(found));
  LS_RETURN_IF_ERROR(choose_features(files, request, found, &example, &label));
  if (request->no_labels) {
    const ls_type missing = cli_missing_labels(request);
    label.dtype = missing.dtype;
    label.shape = missing.shape;
  }
  const ls_tfrecord_feature wanted[] = {
      {.name = example.name,
       .dtype = example.image ? LS_DTYPE_STRING : example.dtype,
       .shape = example.image ? LS_SCALAR : example.shape},
      {.name = label.name, .dtype = label.dtype, .shape = label.shape}};
  const size_t num_wanted = request->no_labels ? 1 : 2;
  CLI_OWN_MEMORY(char, file) = cli_copy_text(files->text, strlen(files->text));
  if (file == NULL) return ls_out_of_memory();
  *out = cli_pair(
      ls_dataset_tfrecords(files->paths, files->count,
                           &(ls_tfrecord_options){.features = wanted,
                                                  .num_features = num_wanted}),
      &(cli_pairing){.first = 0,
                     .label = 1,
                     .no_label = request->no_labels,
                     .decode = example.image,
                     .file = cli_give(&file),
                     .example = {example.dtype, example.shape},
                     .labels = {label.dtype, label.shape}});
  return ls_dataset_status(*out);
}
