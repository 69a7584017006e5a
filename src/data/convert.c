// SPDX-License-Identifier: Apache-2.0
// Convert: changes the type of a leaf, such as bytes to numbers from 0 to 1.
#include "base/memory/own.h"
#include "base/require.h"
#include "base/values/array_internal.h"
#include "base/values/nest_internal.h"
#include "base/values/numbers.h"
#include "data/dataset.h"
#include "data/streams.h"
#include "lockstep/element_spec.h"

typedef struct convert_dataset {
  ls_dataset base;
  size_t leaf;
  ls_convert_options options;  // `shape` is NULL: the spec has the shape.
  bool clamps;                 // Clamps integers to those of i32.
} convert_dataset;

// ---- Numbers ---------------------------------------------------------------
// Loops for the pairs of types that loaders of images and texts need.
static void u8_to_f32(const uint8_t *from, float *to, size_t count, float scale,
                      float offset) {
  for (size_t i = 0; i < count; ++i)
    to[i] = (float)from[i] * scale + offset;
}

static void u8_to_i32(const uint8_t *from, int32_t *to, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = from[i];
}

static void f32_to_f32(const float *from, float *to, size_t count, float scale,
                       float offset) {
  for (size_t i = 0; i < count; ++i)
    to[i] = from[i] * scale + offset;
}

static bool is_wide(ls_dtype dtype) {
  return dtype == LS_DTYPE_F64 ||
         (ls_dtype_is_integer(dtype) && ls_dtype_size(dtype) >= 4);
}

// Converts any other pair through doubles, or through i64 if both are integers.
enum { SOME = 256 };

static void convert_some(const convert_dataset *self, ls_dtype from_type,
                         const void *from, void *to, size_t count) {
  const ls_convert_options *options = &self->options;
  const float scale = (float)options->scale, offset = (float)options->offset;
  double values[SOME];
  ls_values_to_f64(from_type, from, count, values);
  if (is_wide(from_type) || is_wide(options->dtype)) {
    for (size_t i = 0; i < count; ++i)
      values[i] = values[i] * options->scale + options->offset;
  } else {
    for (size_t i = 0; i < count; ++i)
      values[i] = (double)((float)values[i] * scale + offset);
  }
  ls_values_from_f64(options->dtype, values, count, to);
}

static void move_some(const convert_dataset *self, ls_dtype from_type,
                      const void *from, void *to, size_t count) {
  int64_t values[SOME];
  ls_values_to_i64(from_type, from, count, values);
  for (size_t i = 0; self->clamps && i < count; ++i)
    values[i] = values[i] > INT32_MAX   ? INT32_MAX
                : values[i] < INT32_MIN ? INT32_MIN
                                        : values[i];
  ls_values_from_i64(self->options.dtype, values, count, to);
}

static void convert_any(const convert_dataset *self, ls_dtype from_type,
                        const void *from, void *to, size_t count) {
  const ls_convert_options *options = &self->options;
  const bool same = options->scale == 1 && options->offset == 0;
  const bool integers = same && ls_dtype_is_integer(from_type) &&
                        ls_dtype_is_integer(options->dtype);
  const size_t from_size = ls_dtype_size(from_type);
  const size_t to_size = ls_dtype_size(options->dtype);
  for (size_t i = 0; i < count; i += SOME) {
    const size_t some = count - i < SOME ? count - i : SOME;
    const char *in = (const char *)from + i * from_size;
    char *out = (char *)to + i * to_size;
    if (integers)
      move_some(self, from_type, in, out, some);
    else
      convert_some(self, from_type, in, out, some);
  }
}

static void convert_values(const convert_dataset *self, const void *from,
                           void *to, size_t count) {
  const ls_convert_options *options = &self->options;
  const ls_dtype type = self->base.inputs[0]->leaves[self->leaf].type.dtype;
  const float scale = (float)options->scale, offset = (float)options->offset;
  const bool same = options->scale == 1 && options->offset == 0;
  if (type == options->dtype && same)
    memcpy(to, from, count * ls_dtype_size(type));
  else if (type == LS_DTYPE_U8 && options->dtype == LS_DTYPE_F32)
    u8_to_f32(from, to, count, scale, offset);
  else if (type == LS_DTYPE_U8 && options->dtype == LS_DTYPE_I32 && same)
    u8_to_i32(from, to, count);
  else if (type == LS_DTYPE_F32 && options->dtype == LS_DTYPE_F32)
    f32_to_f32(from, to, count, scale, offset);
  else
    convert_any(self, type, from, to, count);
}

// ---- Rows ------------------------------------------------------------------
static const size_t most_bytes = 64 << 10;

static size_t convert_elements_of(const ls_type *type) {
  return (size_t)ls_shape_num_elements(type->shape);
}

// Reads the input's rows of that leaf through a temporary buffer.
static ls_status read_converted(const ls_dataset *dataset, ls_fetch *fetch,
                                const int64_t *indices, size_t count,
                                void *const *rows) {
  const convert_dataset *self = (const convert_dataset *)dataset;
  const ls_dataset *input = dataset->inputs[0];
  const size_t leaf = self->leaf;
  const size_t width = convert_elements_of(&dataset->leaves[leaf].type);
  size_t block = most_bytes / (input->row_sizes[leaf] + 1) + 1;
  if (block > count) block = count;
  LS_OWN(ls_fetch_mark, mark) = ls_fetch_begin(fetch);
  LS_ROOM_OR_RETURN(fetch, char, between, block * input->row_sizes[leaf]);
  LS_ROOM_OR_RETURN(fetch, void *, at, dataset->num_leaves);
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t some = count - begin < block ? count - begin : block;
    ls_rows_at(dataset, rows, begin, at);
    void *to = at[leaf];
    at[leaf] = between;
    LS_RETURN_IF_ERROR(
        ls_dataset_read(input, fetch, indices + begin, some, at));
    convert_values(self, between, to, some * width);
  }
  return ls_ok();
}

// ---- Elements of any shape -------------------------------------------------
static ls_nest convert_leaf(const convert_dataset *self, ls_nest leaf) {
  ls_array *from = ls_nest_as_array(leaf), *to = NULL;
  if (from == NULL)
    return LS_FAIL(LS_INVALID_ARGUMENT, "convert of a leaf that is no array");
  const ls_type *type = &self->base.leaves[self->leaf].type;
  const ls_shape shape =
      ls_shape_is_known(type->shape) ? type->shape : ls_array_shape(from);
  LS_RETURN_FAILED_IF_ERROR(ls_array_create_unwritten(type->dtype, shape, &to));
  convert_values(self, ls_array_data(from), ls_array_mutable_data(to),
                 (size_t)ls_array_num_elements(from));
  return ls_nest_array(to);
}

static ls_status convert_element(const convert_dataset *self, ls_nest from,
                                 ls_nest *element) {
  const size_t count = self->base.num_leaves;
  LS_OWN_ARRAY_OR_RETURN(self->base.allocator, ls_nest, leaves, count);
  ls_nest_flatten(from, leaves, count);
  for (size_t i = 0; i < count; ++i)
    leaves[i] = i == self->leaf ? convert_leaf(self, leaves[i])
                                : ls_nest_retain(leaves[i]);
  const ls_nest made = ls_nest_pack(from, leaves, count);
  return ls_element_replace(made, element);
}

static ls_status get_converted(const ls_dataset *dataset, ls_fetch *fetch,
                               int64_t index, ls_nest *element) {
  LS_OWN(ls_nest, from) = ls_none();
  LS_RETURN_IF_ERROR(ls_dataset_get(dataset->inputs[0], fetch, index, &from));
  return convert_element((const convert_dataset *)dataset, from, element);
}

// ---- Streams ---------------------------------------------------------------
typedef struct convert_stage {
  ls_stage stage;
  ls_nest input;  // Reused for the input's elements.
} convert_stage;

static ls_status next_converted(ls_stage *stage, ls_nest *element) {
  convert_stage *self = (convert_stage *)stage;
  LS_RETURN_IF_ERROR(ls_stage_next(stage->inputs[0], &self->input));
  return convert_element((const convert_dataset *)stage->dataset, self->input,
                         element);
}

static void close_converted(ls_stage *stage) {
  ls_nest_release(((convert_stage *)stage)->input);
}

static const ls_stage_class convert_stage_class = {.size =
                                                       sizeof(convert_stage),
                                                   .next = next_converted,
                                                   .skip = ls_stage_skip_inputs,
                                                   .close = close_converted};

// ---- Making ----------------------------------------------------------------
static void describe_convert(const ls_dataset *dataset, ls_text *text) {
  const convert_dataset *self = (const convert_dataset *)dataset;
  ls_text_append_format(text, "%zu, %s", self->leaf,
                        LS_SHAPE_TEXT(self->options.dtype,
                                      dataset->leaves[self->leaf].type.shape));
  if (self->options.scale != 1)
    ls_text_append_format(text, ", scale=%.17g", self->options.scale);
  if (self->options.offset != 0)
    ls_text_append_format(text, ", offset=%.17g", self->options.offset);
}

static ls_dataset *make_convert(ls_dataset *dataset, int leaf,
                                const ls_convert_options *options, bool clamps);

static ls_dataset *remake_convert(const ls_dataset *dataset,
                                  ls_dataset **inputs) {
  const convert_dataset *self = (const convert_dataset *)dataset;
  ls_convert_options options = self->options;
  const ls_shape shape = dataset->leaves[self->leaf].type.shape;
  if (ls_shape_is_known(shape)) options.shape = &shape;
  return make_convert(inputs[0], (int)self->leaf, &options, self->clamps);
}

static bool convert_bounds(const ls_dataset *dataset, size_t leaf,
                           int64_t *out_least, int64_t *out_most) {
  const convert_dataset *self = (const convert_dataset *)dataset;
  const bool same = self->options.scale == 1 && self->options.offset == 0;
  return (leaf != self->leaf || same) &&
         ls_dataset_bounds(dataset->inputs[0], leaf, out_least, out_most);
}

static const ls_dataset_class convert_class = {.name = "convert",
                                               .is_quick = true,
                                               .describe = describe_convert,
                                               .remake = remake_convert,
                                               .get_other = get_converted,
                                               .read = read_converted,
                                               .bounds = convert_bounds,
                                               .stage = &convert_stage_class};

static bool convert_is_number(ls_dtype dtype) {
  return ls_dtype_is_float(dtype) || ls_dtype_is_integer(dtype) ||
         dtype == LS_DTYPE_BOOL;
}

static ls_status fill_convert(convert_dataset *self, int leaf,
                              const ls_convert_options *options) {
  ls_dataset *base = &self->base;
  if (leaf < 0 || (size_t)leaf >= base->num_leaves ||
      base->leaves[leaf].kind != LS_LEAF_DENSE)
    return ls_invalid_argument(
        "convert of leaf %d: elements have %zu dense ones, counted from 0",
        leaf, base->num_leaves);
  ls_type *type = &base->leaves[leaf].type;
  self->leaf = (size_t)leaf;
  self->options = *options;
  self->options.shape = NULL;
  if (self->options.dtype == LS_DTYPE_NONE) self->options.dtype = type->dtype;
  if (self->options.scale == 0) self->options.scale = 1;
  const ls_shape shape = options->shape != NULL ? *options->shape : type->shape;
  if (!convert_is_number(type->dtype) ||
      !convert_is_number(self->options.dtype))
    return ls_invalid_argument("leaf %d, %s, cannot be converted to %s", leaf,
                               LS_SHAPE_TEXT(type->dtype, type->shape),
                               ls_dtype_name(self->options.dtype));
  if (options->shape != NULL &&
      (!ls_shape_is_known(shape) || shape.rank > LS_MAX_RANK ||
       ls_shape_num_elements(shape) != ls_shape_num_elements(type->shape)))
    return ls_invalid_argument("leaf %d, %s, cannot be made %s", leaf,
                               LS_SHAPE_TEXT(type->dtype, type->shape),
                               LS_SHAPE_TEXT(self->options.dtype, shape));
  LS_OWN_ARRAY_OR_RETURN(base->allocator, ls_leaf_spec, leaves,
                         base->num_leaves);
  memcpy(leaves, base->leaves, base->num_leaves * sizeof(*leaves));
  leaves[leaf].type = (ls_type){self->options.dtype, shape};
  return ls_dataset_set_leaves(base, ls_nest_retain(base->structure), leaves,
                               base->num_leaves);
}

static ls_dataset *make_convert(ls_dataset *dataset, int leaf,
                                const ls_convert_options *options,
                                bool clamps) {
  convert_dataset *self =
      LS_DATASET_NEW(convert_dataset, &convert_class, &dataset, 1, ls_ok());
  if (self == NULL || !ls_status_is_ok(self->base.failure))
    return (ls_dataset *)self;
  self->clamps = clamps;
  const ls_convert_options none = {0};
  return ls_dataset_fail(
      &self->base, fill_convert(self, leaf, options != NULL ? options : &none));
}

ls_dataset *ls_dataset_convert(ls_dataset *dataset, int leaf,
                               const ls_convert_options *options) {
  return make_convert(dataset, leaf, options, false);
}

ls_dataset *ls_dataset_convert_labels(ls_dataset *dataset, int leaf,
                                      const ls_convert_options *options) {
  return make_convert(dataset, leaf, options, options->dtype == LS_DTYPE_I32);
}
