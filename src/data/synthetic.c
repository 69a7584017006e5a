// SPDX-License-Identifier: Apache-2.0
// Synthetic examples. Numbers: class c has a fixed random pattern; example i is
// of class i mod classes: half its pattern, half its own noise. With several
// labels the four parts of example i are of this class and the next three.
// Texts: most tokens are followed by one fixed token.
#include "base/values/random.h"
#include "lockstep/data.h"

enum { STREAM_PATTERN = 1, STREAM_NOISE = 2 };

static uint32_t draw_bits(const ls_random_source *source, int64_t index) {
  uint32_t bits[4];
  ls_random_source_bits(source, (uint64_t)index / 4, bits);
  return bits[index % 4];
}

// Numbers of a source, which makes four at a time: the last four.
typedef struct number_source {
  ls_random_source source;
  int64_t block;  // -1: none yet.
  uint32_t bits[4];
} number_source;

// Draws number `index`.
static float draw_number(number_source *self, int64_t index) {
  if (index / 4 != self->block) {
    self->block = index / 4;
    ls_random_source_bits(&self->source, (uint64_t)self->block, self->bits);
  }
  return ls_random_uniform_f32(self->bits[index % 4]);
}

static ls_random_source source_of(const ls_synthetic_options *options,
                                  uint64_t stream, int64_t id) {
  const bool noise = stream == STREAM_NOISE;
  return ls_random_source_make(
      &(ls_random_key){.seed = (uint64_t)options->seed,
                       .stream = stream,
                       .step = noise ? (uint64_t)options->sample : 0,
                       .id = (uint64_t)id});
}

static void fill_patterns(const ls_synthetic_options *options,
                          ls_array *example_array, ls_array *label_array) {
  float *examples = ls_array_mutable_data(example_array);
  int32_t *labels = ls_array_mutable_data(label_array);
  const int64_t width = ls_shape_num_elements(options->shape);
  const int64_t count = ls_shape_num_elements(options->label_shape);
  const int64_t per_label = width / count;
  for (int64_t i = 0; i < options->size; ++i) {
    number_source noise = {source_of(options, STREAM_NOISE, i), -1, {0}};
    for (int64_t j = 0; j < count; ++j) {
      const int64_t label = (i + 4 * j / count) % options->num_classes;
      number_source pattern = {
          source_of(options, STREAM_PATTERN, label), -1, {0}};
      for (int64_t k = 0; k < per_label; ++k)
        *examples++ = 0.5F * draw_number(&pattern, k) +
                      0.5F * draw_number(&noise, j * per_label + k);
      *labels++ = (int32_t)label;
    }
  }
}

// Returns the token after `before`: three of four times as the language, drawn
// from the source of patterns, says.
static int32_t next_token(const ls_synthetic_options *options,
                          const ls_random_source *language,
                          const ls_random_source *noise, int64_t place,
                          int32_t before) {
  const uint32_t classes = (uint32_t)options->num_classes;
  const bool follows = draw_bits(noise, 2 * place) % 4 != 0;
  const uint32_t bits =
      follows ? draw_bits(language, before) : draw_bits(noise, 2 * place + 1);
  return (int32_t)(bits % classes);
}

static void fill_texts(const ls_synthetic_options *options,
                       ls_array *example_array, ls_array *label_array) {
  int32_t *examples = ls_array_mutable_data(example_array);
  int32_t *labels = ls_array_mutable_data(label_array);
  const int64_t length = ls_shape_num_elements(options->shape);
  const uint32_t classes = (uint32_t)options->num_classes;
  const ls_random_source language = source_of(options, STREAM_PATTERN, 0);
  for (int64_t i = 0; i < options->size; ++i) {
    const ls_random_source noise = source_of(options, STREAM_NOISE, i);
    int32_t token = (int32_t)(draw_bits(&noise, 2 * length) % classes);
    for (int64_t k = 0; k < length; ++k) {
      examples[i * length + k] = token;
      token = next_token(options, &language, &noise, k, token);
      labels[i * length + k] = token;
    }
  }
}

static ls_status synthetic_check(const ls_synthetic_options *options) {
  const int64_t width = ls_shape_num_elements(options->shape);
  if (options->dtype != LS_DTYPE_F32 && options->dtype != LS_DTYPE_I32)
    return ls_invalid_argument("synthetic data are f32 or i32, got %s",
                               ls_dtype_name(options->dtype));
  const int64_t labels = ls_shape_is_known(options->label_shape)
                             ? ls_shape_num_elements(options->label_shape)
                             : 0;
  if (ls_shape_is_known(options->shape) &&
      (labels < 1 || width % labels != 0 ||
       (options->dtype == LS_DTYPE_I32 && options->label_shape.rank > 0 &&
        !ls_shape_equal(options->label_shape, options->shape))))
    return ls_invalid_argument(
        "synthetic examples %s have a label, or for numbers one for each n "
        "elements, for texts one for each token; got labels %s",
        LS_SHAPE_TEXT(options->dtype, options->shape),
        LS_SHAPE_TEXT(LS_DTYPE_I32, options->label_shape));
  if (options->size >= 1 && options->num_classes >= 1 &&
      options->num_classes <= INT32_MAX - 1 &&
      ls_shape_is_known(options->shape) && options->shape.rank < LS_MAX_RANK &&
      options->label_shape.rank < LS_MAX_RANK &&
      (options->dtype == LS_DTYPE_F32 || width > 0))
    return ls_ok();
  return ls_invalid_argument(
      "synthetic data need at least one example, 1 to 2147483646 classes and a "
      "known shape of at most %d dimensions, for texts of at least one token; "
      "got "
      "%lld examples %s of %lld classes",
      LS_MAX_RANK - 1, (long long)options->size,
      LS_SHAPE_TEXT(options->dtype, options->shape),
      (long long)options->num_classes);
}

static ls_shape rows_of(int64_t size, ls_shape shape) {
  ls_shape rows = {.rank = shape.rank + 1, .dim = {size}};
  for (int i = 0; i < shape.rank; ++i)
    rows.dim[i + 1] = shape.dim[i];
  return rows;
}

// Makes the arrays of all examples and labels, as a tuple.
static ls_nest draw_all(const ls_synthetic_options *options) {
  const bool texts = options->dtype == LS_DTYPE_I32;
  ls_nest all = LS_TUPLE(
      ls_nest_zeros(options->dtype, rows_of(options->size, options->shape)),
      ls_nest_zeros(LS_DTYPE_I32,
                    rows_of(options->size,
                            texts ? options->shape : options->label_shape)));
  if (all.kind == LS_KIND_TUPLE)
    (texts ? fill_texts
           : fill_patterns)(options, ls_nest_as_array(ls_nest_item(all, 0)),
                            ls_nest_as_array(ls_nest_item(all, 1)));
  return all;
}

ls_dataset *ls_dataset_synthetic(const ls_synthetic_options *options) {
  ls_synthetic_options opts =
      options != NULL ? *options : (ls_synthetic_options){0};
  if (opts.size == 0) opts.size = 1024;
  if (opts.num_classes == 0) opts.num_classes = 2;
  if (opts.dtype == LS_DTYPE_NONE) opts.dtype = LS_DTYPE_F32;
  const ls_status status = synthetic_check(&opts);
  return ls_dataset_from_arrays(ls_status_is_ok(status) ? draw_all(&opts)
                                                        : ls_fail(status));
}
