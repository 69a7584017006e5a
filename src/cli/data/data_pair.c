// SPDX-License-Identifier: Apache-2.0
// Converts elements to pairs of an example and its label, and pairs to a
// model's types.
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/data/data.h"
#include "cli/language.h"

// ---- Pairs -----------------------------------------------------------------
static ls_status decode_image(const char *name, const ls_array *bytes,
                              ls_array *out) {
  const ls_bytes *file = ls_array_data(bytes);
  const ls_shape wanted = ls_array_shape(out);
  const ls_image_options options = {.channels = (int)wanted.dim[2],
                                    .name = name};
  ls_shape found = {0};
  LS_RETURN_IF_ERROR(ls_image_shape(file->data, file->size, &options, &found));
  if (ls_shape_equal(found, wanted))
    return ls_decode_image_into(file->data, file->size, &options, out);
  CLI_OWN(ls_array, image) = NULL;
  LS_RETURN_IF_ERROR(ls_decode_image(file->data, file->size, &options, &image));
  return ls_resize_image(image, NULL, out);
}

void cli_copy_item(ls_nest element, size_t item, void *out) {
  const ls_array *array = ls_nest_as_array(ls_nest_item(element, item));
  memcpy(out, ls_array_data(array), ls_array_size(array));
}

// Sets the 1 of a text among zeros.
static ls_status fill_text(const cli_pairing *self, const cli_part *part,
                           const ls_array *text, int64_t row, int64_t at,
                           ls_array *out) {
  int64_t number = 0;
  const ls_bytes *name = ls_array_data(text);
  CLI_OWN(ls_status, status) =
      cli_class_number(part->categories, *name, &number);
  if (ls_status_is_ok(status)) {
    ls_array_set_f64(out, at + number, 1);
    return ls_ok();
  }
  char texts[400];
  cli_class_list_print(part->categories, texts, sizeof(texts));
  return ls_invalid_argument(
      "'%s', row %lld: '%.*s' in column '%s' is none of its texts in the "
      "training set: %s",
      self->file, (long long)row + 1, name->size < 80 ? (int)name->size : 80,
      (const char *)name->data, part->column, texts);
}

static ls_status fill_parts(const cli_pairing *self, ls_nest element,
                            int64_t row, ls_array *out) {
  char *to = (char *)(uintptr_t)ls_array_data(out);
  const size_t size = ls_dtype_size(self->example.dtype);
  int64_t at = 0;
  memset(to, 0, ls_array_size(out));
  for (size_t i = 0; i < self->num_parts; ++i) {
    const cli_part *part = &self->parts[i];
    const ls_array *item = ls_nest_as_array(ls_nest_item(element, part->item));
    if (part->categories != NULL)
      LS_RETURN_IF_ERROR(fill_text(self, part, item, row, at, out));
    else
      memcpy(to + (size_t)at * size,
             (const char *)ls_array_data(item) + (size_t)part->from * size,
             (size_t)part->count * size);
    at += part->count;
  }
  return ls_ok();
}

// Copies the numbers of a label, which the task checks.
static ls_status copy_labels(const cli_pairing *self, ls_nest element,
                             int64_t number, float *out) {
  for (size_t i = 0; i < self->num_labels; ++i) {
    cli_copy_item(element, self->label_items[i], &out[i]);
    const bool is_binary = self->task->is_binary;
    if (is_binary ? out[i] == 0 || out[i] == 1 : isfinite(out[i])) continue;
    const ls_bytes name = cli_class_name(self->columns, (int64_t)i);
    return ls_invalid_argument(
        "label %g of example %lld, column '%.*s': labels of %s are %s",
        (double)out[i], (long long)number, (int)name.size,
        (const char *)name.data, self->task->name,
        is_binary ? "0 or 1" : "finite numbers");
  }
  return ls_ok();
}

// Sets the 1 of each text of a list among zeros.
static ls_status fill_list(const cli_pairing *self, ls_bytes text,
                           int64_t number, float *out) {
  ls_bytes name;
  int64_t at = 0;
  memset(out, 0, cli_class_list_count(self->classes) * sizeof(*out));
  while (cli_next_label(&text, &name)) {
    LS_RETURN_IF_ERROR(
        ls_status_annotate(cli_class_number(self->classes, name, &at),
                           "of example %lld", (long long)number));
    out[at] = 1;
  }
  return ls_ok();
}

ls_status cli_take_whole(ls_dataset *rows, size_t item, cli_pairing *pairing) {
  CLI_OWN(ls_iterator, iterator) = NULL;
  CLI_OWN(ls_nest, element) = ls_none();
  bool are_whole = true;
  LS_RETURN_IF_ERROR(cli_begin_rows(rows, &iterator));
  for (int row = 0; row < CLI_LOOK_AT && are_whole; ++row) {
    CLI_NEXT_OR(break, iterator, &element);
    const double label =
        ls_array_f64(ls_nest_as_array(ls_nest_item(element, item)), 0);
    are_whole = label == floor(label) && fabs(label) < INT32_MAX;
  }
  pairing->are_whole = are_whole;
  if (are_whole) pairing->labels.dtype = LS_DTYPE_I64;
  return ls_ok();
}

// Copies a label that is a whole number.
static ls_status copy_whole(const cli_pairing *self, ls_nest element,
                            int64_t number, int64_t *out) {
  const double label =
      ls_array_f64(ls_nest_as_array(ls_nest_item(element, self->label)), 0);
  if (!(label == floor(label)) || fabs(label) >= INT32_MAX)
    return ls_invalid_argument("label %g of example %lld: labels of "
                               "classification are whole numbers; others are "
                               "learned by --task regression",
                               label, (long long)number);
  *out = (int64_t)label;
  return ls_ok();
}

static ls_status fill_pair(ls_nest element, ls_nest out,
                           const ls_map_call *call, void *user) {
  const cli_pairing *self = user;
  if (self->no_label) {
    memset(ls_nest_data(out, 1), 0,
           ls_array_size(ls_nest_as_array(ls_nest_item(out, 1))));
  } else if (self->num_labels > 0) {
    LS_RETURN_IF_ERROR(
        copy_labels(self, element, call->id, ls_nest_data(out, 1)));
  } else if (self->are_whole) {
    LS_RETURN_IF_ERROR(
        copy_whole(self, element, call->id, ls_nest_data(out, 1)));
  } else if (self->classes == NULL) {
    cli_copy_item(element, self->label, ls_nest_data(out, 1));
  } else {
    const ls_array *label =
        ls_nest_as_array(ls_nest_item(element, self->label));
    const ls_bytes *text = ls_array_data(label);
    LS_RETURN_IF_ERROR(
        self->are_lists
            ? fill_list(self, *text, call->id, ls_nest_data(out, 1))
            : cli_class_number(self->classes, *text, ls_nest_data(out, 1)));
  }
  if (self->num_parts > 0)
    return fill_parts(self, element, call->id,
                      ls_nest_as_array(ls_nest_item(out, 0)));
  if (!self->decode) {
    cli_copy_item(element, self->first, ls_nest_data(out, 0));
    return ls_ok();
  }
  return ls_status_annotate(
      decode_image(self->file,
                   ls_nest_as_array(ls_nest_item(element, self->first)),
                   ls_nest_as_array(ls_nest_item(out, 0))),
      "of element %lld", (long long)call->id);
}

// Releases what a pairing holds.
static void drop_pairing(const cli_pairing *self) {
  cli_class_list_release(self->classes);
  for (size_t i = 0; self->parts != NULL && i < self->num_parts; ++i) {
    cli_class_list_release(self->parts[i].categories);
    cli_release(self->parts[i].column);
  }
  cli_release(self->parts);
  cli_release(self->file);
  cli_release(self->columns);
}

static void release_pairing(void *user) {
  drop_pairing(user);
  cli_release(user);
}

ls_dataset *cli_pair(ls_dataset *dataset, const cli_pairing *pairing) {
  cli_pairing *self = cli_allocate(sizeof(*self));
  if (self == NULL) {
    drop_pairing(pairing);
    ls_dataset_release(dataset);
    return NULL;
  }
  *self = *pairing;
  return ls_dataset_map(
      dataset, &(ls_map_options){
                   .name = "pair",
                   .fill = fill_pair,
                   .user = self,
                   .release = release_pairing,
                   .result = LS_TUPLE(
                       ls_nest_spec(self->example.dtype, self->example.shape),
                       ls_nest_spec(self->labels.dtype, self->labels.shape))});
}

bool cli_has_numbers(const cli_pair_request *request) {
  return request->task != NULL && request->task->label_dtype == LS_DTYPE_F32;
}

ls_type cli_missing_labels(const cli_pair_request *request) {
  return (ls_type){LS_DTYPE_I64, request->type != NULL
                                     ? request->type->label_shape
                                     : LS_SCALAR};
}

// ---- Images ----------------------------------------------------------------
ls_status cli_view_image(const ls_array *array, ls_array **out) {
  const ls_shape shape = ls_array_shape(array);
  return ls_array_create_view(
      ls_array_dtype(array),
      shape.rank == 3 ? shape : LS_SHAPE(shape.dim[0], shape.dim[1], 1),
      (void *)(uintptr_t)ls_array_data(array), NULL, NULL, out);
}

void cli_sample_classes(const ls_array *from, ls_array *to) {
  const ls_shape has = ls_array_shape(from), wanted = ls_array_shape(to);
  const size_t size = ls_dtype_size(ls_array_dtype(to));
  const char *classes = ls_array_data(from);
  char *at = ls_array_mutable_data(to);
  for (int64_t y = 0; y < wanted.dim[0]; ++y) {
    const int64_t row = (2 * y + 1) * has.dim[0] / (2 * wanted.dim[0]);
    for (int64_t x = 0; x < wanted.dim[1]; ++x, at += size) {
      const int64_t column = (2 * x + 1) * has.dim[1] / (2 * wanted.dim[1]);
      memcpy(at, classes + (size_t)(row * has.dim[1] + column) * size, size);
    }
  }
}

static ls_status resize_pair(ls_nest element, ls_nest out,
                             const ls_map_call *call, void *user) {
  (void)call;
  (void)user;
  CLI_OWN(ls_array, from) = NULL;
  CLI_OWN(ls_array, resized) = NULL;
  const ls_array *labels = ls_nest_as_array(ls_nest_item(element, 1));
  if (ls_array_shape(labels).rank == 2)
    cli_sample_classes(labels, ls_nest_as_array(ls_nest_item(out, 1)));
  else
    cli_copy_item(element, 1, ls_nest_data(out, 1));
  LS_RETURN_IF_ERROR(
      cli_view_image(ls_nest_as_array(ls_nest_item(element, 0)), &from));
  LS_RETURN_IF_ERROR(
      cli_view_image(ls_nest_as_array(ls_nest_item(out, 0)), &resized));
  return ls_resize_image(from, NULL, resized);
}

// Returns true if the examples are images of a size other than the model's.
static bool is_other_size(const ls_type *example, const ls_shape *takes) {
  const ls_shape *has = &example->shape;
  const bool numbers =
      example->dtype == LS_DTYPE_U8 || example->dtype == LS_DTYPE_F32;
  if (!numbers || !ls_shape_is_known(*has) || has->rank < 2 || has->rank > 3 ||
      takes->rank < 2 || takes->rank > 3)
    return false;
  const int64_t channels = has->rank == 3 ? has->dim[2] : 1;
  const int64_t wanted = takes->rank == 3 ? takes->dim[2] : 1;
  return channels == wanted && channels <= 4 &&
         (has->dim[0] != takes->dim[0] || has->dim[1] != takes->dim[1]);
}

// ---- Tokens ----------------------------------------------------------------
typedef struct token_range {
  int64_t least, most;
} token_range;

// Copies tokens, which no conversion may wrap around.
static ls_status fill_tokens(ls_nest element, ls_nest out,
                             const ls_map_call *call, void *user) {
  const token_range *range = user;
  const ls_array *from = ls_nest_as_array(ls_nest_item(element, 0));
  int32_t *to = ls_nest_data(out, 0);
  for (int64_t i = 0; i < ls_array_num_elements(from); ++i) {
    const int64_t token = ls_array_i64(from, i);
    if (token < range->least || token > range->most)
      return ls_invalid_argument(
          "number %lld of example %lld is %lld: the model's tokens are %lld to "
          "%lld",
          (long long)i + 1, (long long)call->id, (long long)token,
          (long long)range->least, (long long)range->most);
    to[i] = (int32_t)token;
  }
  cli_copy_item(element, 1, ls_nest_data(out, 1));
  return ls_ok();
}

// Checks the tokens of pairs for a model: those of a language model are
// classes. Takes over the data set.
static ls_dataset *take_tokens(ls_dataset *made, const ls_model_type *type,
                               const ls_type *example, const ls_type *label) {
  const bool is_language = cli_is_language(type);
  if (!ls_dtype_is_integer(example->dtype) ||
      !ls_shape_is_known(example->shape) || !ls_shape_is_known(label->shape) ||
      (example->dtype == LS_DTYPE_U8 && type->num_classes > UINT8_MAX) ||
      (example->dtype == LS_DTYPE_I32 && !is_language))
    return made;
  token_range *range = cli_allocate(sizeof(*range));
  if (range == NULL) {
    ls_dataset_release(made);
    return NULL;
  }
  *range = is_language ? (token_range){0, type->num_classes - 1}
                       : (token_range){INT32_MIN, INT32_MAX};
  return ls_dataset_map(
      made, &(ls_map_options){
                .name = "tokens",
                .fill = fill_tokens,
                .user = range,
                .release = cli_release,
                .result = LS_TUPLE(ls_nest_spec(LS_DTYPE_I32, example->shape),
                                   ls_nest_spec(label->dtype, label->shape))});
}

// ---- Converting for a model ------------------------------------------------
ls_dataset *cli_fit(ls_dataset *made, const ls_model_type *type,
                    const char *name, const char *command) {
  ls_element_spec spec;
  const ls_status status = ls_dataset_spec(made, &spec);
  const bool is_pair = ls_status_is_ok(status) && spec.count == 2 &&
                       spec.structure.kind == LS_KIND_TUPLE;
  ls_status_free(status);
  if (!is_pair) return made;  // Training reports the fault.
  const ls_type example = spec.leaves[0].type, label = spec.leaves[1].type;
  const ls_dtype wanted =
      type->example_dtype != LS_DTYPE_NONE ? type->example_dtype : LS_DTYPE_F32;
  const ls_shape takes = type->example_shape, scalar = LS_SCALAR;
  if (is_other_size(&example, &takes)) {
    if (command != NULL)
      cli_say(command, "'%s' has images %lld x %lld, resized to %lld x %lld",
              name, (long long)example.shape.dim[0],
              (long long)example.shape.dim[1], (long long)takes.dim[0],
              (long long)takes.dim[1]);
    // Classes of pixels are resized with their image.
    const bool pixels = label.shape.rank == 2 &&
                        label.shape.dim[0] == example.shape.dim[0] &&
                        label.shape.dim[1] == example.shape.dim[1];
    const ls_shape labels =
        pixels ? LS_SHAPE(takes.dim[0], takes.dim[1]) : label.shape;
    made = ls_dataset_map(
        made, &(ls_map_options){
                  .name = "resize",
                  .fill = resize_pair,
                  .result = LS_TUPLE(ls_nest_spec(example.dtype, takes),
                                     ls_nest_spec(label.dtype, labels))});
  }
  if (label.shape.rank == 1 && label.shape.dim[0] == 1 &&
      type->label_shape.rank == 0)
    made = ls_dataset_convert(made, 1, &(ls_convert_options){.shape = &scalar});
  if (wanted == LS_DTYPE_I32) return take_tokens(made, type, &example, &label);
  const bool number =
      ls_dtype_is_integer(example.dtype) || ls_dtype_is_float(example.dtype);
  if (number && example.dtype != LS_DTYPE_U8 && example.dtype != wanted)
    made = ls_dataset_convert(made, 0, &(ls_convert_options){.dtype = wanted});
  return made;
}

// ---- Parts -----------------------------------------------------------------
typedef struct part {
  double split;
  bool test;
} part;

// Hashes an element's number to [0, 1) (SplitMix64), and compares that with the
// part.
static ls_status is_of_part(ls_nest element, const ls_map_call *call,
                            void *user, bool *out_keep) {
  (void)element;
  const part *self = user;
  uint64_t z = (uint64_t)call->id * UINT64_C(0x9E3779B97F4A7C15) +
               UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  z ^= z >> 31;
  *out_keep = ((double)(z >> 11) * 0x1p-53 < self->split) == self->test;
  return ls_ok();
}

static ls_dataset *stream_part(ls_dataset *dataset, double split, bool test) {
  part *self = cli_allocate(sizeof(*self));
  if (self == NULL) return NULL;
  *self = (part){split, test};
  return ls_dataset_filter(ls_dataset_retain(dataset),
                           &(ls_filter_options){.name = "part",
                                                .call = is_of_part,
                                                .user = self,
                                                .release = cli_release});
}

ls_status cli_hold_out(ls_dataset *dataset, double split, bool last,
                       const char *name, ls_dataset **train,
                       ls_dataset **test) {
  LS_RETURN_IF_ERROR(ls_dataset_status(dataset));
  const int64_t size = ls_dataset_cardinality(dataset);
  if (!ls_dataset_is_indexed(dataset) || size < 0) {
    if (train != NULL) *train = stream_part(dataset, split, false);
    if (test != NULL) *test = stream_part(dataset, split, true);
    return ls_ok();
  }
  int64_t held = (int64_t)llround((double)size * split);
  if (held < 1) held = 1;
  if (size - held < 1)
    return ls_invalid_argument("'%s' has %lld examples, too few for a test "
                               "set of %g of them: name one with --test",
                               name, (long long)size, split);
  if (last) {
    if (train != NULL)
      *train = ls_dataset_take(ls_dataset_retain(dataset), size - held);
    if (test != NULL)
      *test = ls_dataset_skip(ls_dataset_retain(dataset), size - held);
    return ls_ok();
  }
  const ls_shuffle_options order = {.seed = 1, .fixed = true};
  if (train != NULL)
    *train = ls_dataset_skip(
        ls_dataset_shuffle(ls_dataset_retain(dataset), &order), held);
  if (test != NULL)
    *test = ls_dataset_take(
        ls_dataset_shuffle(ls_dataset_retain(dataset), &order), held);
  return ls_ok();
}
