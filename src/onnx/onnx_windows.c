// SPDX-License-Identifier: Apache-2.0
//
// Makers of convolutions, pools and normalizations, with channels last; pads
// and resizing.
#include "graph/make/make.h"
#include "onnx/onnx_build.h"

// ---- Positions of windows --------------------------------------------------
typedef struct window_list {
  ls_shape size, strides, dilations, low, high;
} window_list;

// Reads a list with an item for each spatial dimension.
static ls_shape read_list(ls_onnx_build *b, const char *name, int32_t rank,
                          int64_t fallback) {
  ls_shape out = {.rank = rank};
  const ls_onnx_known *list = ls_onnx_list_of(b, name, 0);
  if (list != NULL && list->count != rank)
    ls_onnx_fail(b, ls_invalid_argument("%s has %lld numbers, not %d", name,
                                        (long long)list->count, rank));
  for (int32_t i = 0; i < rank; ++i)
    out.dim[i] =
        list != NULL && list->count == rank ? list->items[i].value : fallback;
  return out;
}

static bool is_within(int64_t number, int64_t least) {
  return number >= least && number <= INT32_MAX;
}

// Returns the padding after a dimension with which the last window, that of
// ceil_mode, is whole; for an unknown size the most that it can take, if no
// window can begin in the padding after the input.
static int64_t ceil_padding(ls_onnx_build *b, const window_list *w, int i,
                            int64_t size) {
  const int64_t reach = (w->size.dim[i] - 1) * w->dilations.dim[i] + 1;
  if (size < 0 && w->strides.dim[i] > 1 &&
      w->high.dim[i] + w->strides.dim[i] > reach)
    LS_ONNX_REFUSE(b, "ceil_mode of an unknown size");
  if (size < 0) return w->strides.dim[i] - 1;
  const int64_t room = size + w->low.dim[i] + w->high.dim[i] - reach;
  int64_t count = room / w->strides.dim[i] + 1;
  // A window that begins in the padding after the input does not count.
  if (room % w->strides.dim[i] != 0 &&
      count * w->strides.dim[i] < size + w->low.dim[i])
    ++count;
  const int64_t extra = (count - 1) * w->strides.dim[i] - room;
  return extra < 0 ? 0 : extra;
}

// Reads the attributes of a window over the inner dimensions of `shape`.
static bool read_window(ls_onnx_build *b, ls_shape shape, const ls_shape *size,
                        window_list *w) {
  const int32_t rank = shape.rank - 2;
  const char *way = ls_onnx_attr_text(b, "auto_pad", "NOTSET");
  if (rank < 1 || rank > 3) {
    LS_ONNX_REFUSE(b, "windows of a value of %d dimensions", shape.rank);
    return false;
  }
  w->size = size != NULL ? *size : read_list(b, "kernel_shape", rank, 1);
  w->strides = read_list(b, "strides", rank, 1);
  w->dilations = read_list(b, "dilations", rank, 1);
  const bool is_lower = strcmp(way, "SAME_LOWER") == 0;
  const ls_shape pads = read_list(b, "pads", 2 * rank, 0);
  w->low = w->high = (ls_shape){.rank = rank};
  for (int32_t i = 0; i < rank; ++i) {
    if (!is_within(w->size.dim[i], 1) || !is_within(w->strides.dim[i], 1) ||
        !is_within(w->dilations.dim[i], 1) || !is_within(pads.dim[i], 0) ||
        !is_within(pads.dim[rank + i], 0)) {
      ls_onnx_fail(b, ls_invalid_argument("a window, stride, dilation or pad "
                                          "is out of range"));
      return false;
    }
    w->low.dim[i] = pads.dim[i];
    w->high.dim[i] = pads.dim[rank + i];
    if (strcmp(way, "SAME_UPPER") != 0 && !is_lower) continue;
    const int64_t n = shape.dim[i + 2], stride = w->strides.dim[i];
    if (n < 0 || !ls_status_is_ok(b->status)) {
      LS_ONNX_REFUSE(b, "padding %s of an unknown size", way);
      return false;
    }
    int64_t all = ((n + stride - 1) / stride - 1) * stride +
                  (w->size.dim[i] - 1) * w->dilations.dim[i] + 1 - n;
    if (all < 0) all = 0;
    w->low.dim[i] = (all + is_lower) / 2;
    w->high.dim[i] = all - w->low.dim[i];
  }
  return ls_status_is_ok(b->status);
}

static ls_convolution_options convolution_of(const window_list *w,
                                             int64_t groups) {
  return (ls_convolution_options){.strides = w->strides,
                                  .dilations = w->dilations,
                                  .low = w->low,
                                  .high = w->high,
                                  .groups = groups};
}

// Returns the weights with the two dimensions of channels last.
static ls_tensor weights_last(ls_tensor w) {
  int permutation[LS_MAX_RANK];
  const int32_t rank = ls_tensor_shape(w).rank;
  for (int i = 0; i + 2 < rank; ++i)
    permutation[i] = i + 2;
  permutation[rank - 2] = 1;
  permutation[rank - 1] = 0;
  return ls_transpose(w, permutation);
}

static bool read_conv(ls_onnx_build *b, window_list *w) {
  const ls_shape shape = ls_onnx_in_shape(b, 0),
                 weights = ls_tensor_shape(ls_onnx_in(b, 1));
  ls_shape size = {.rank = shape.rank - 2};
  if (weights.rank != shape.rank || shape.rank < 3) {
    ls_onnx_fail(b, ls_invalid_argument("weights of %d dimensions for a value "
                                        "of %d",
                                        weights.rank, shape.rank));
    return false;
  }
  memcpy(size.dim, weights.dim + 2, (size_t)size.rank * sizeof(int64_t));
  return read_window(b, shape, &size, w);
}

void ls_onnx_make_conv(ls_onnx_build *b) {
  window_list w;
  if (!read_conv(b, &w)) return;
  const ls_convolution_options options =
      convolution_of(&w, ls_onnx_attr_int(b, "group", 1));
  const ls_tensor x = ls_onnx_in_last(b, 0),
                  kernel = weights_last(ls_onnx_in(b, 1));
  ls_onnx_give_last(b, 0,
                    ls_onnx_has(b, 2)
                        ? ls_conv_bias_act(x, kernel, ls_onnx_in(b, 2),
                                           LS_ACTIVATION_NONE, &options)
                        : ls_convolution(x, kernel, &options));
}

// Makes the gradient of the convolution from the result to the operand.
void ls_onnx_make_conv_transpose(ls_onnx_build *b) {
  window_list w;
  if (!read_conv(b, &w)) return;
  const ls_tensor x = ls_onnx_in_last(b, 0);
  const int32_t rank = w.size.rank;
  const ls_shape more = read_list(b, "output_padding", rank, 0);
  const int64_t groups = ls_onnx_attr_int(b, "group", 1);
  ls_onnx_number dims[LS_MAX_RANK];
  ls_onnx_dims(x, dims);
  if (strncmp(ls_onnx_attr_text(b, "auto_pad", "NOTSET"), "SAME", 4) == 0 ||
      ls_onnx_attr_find(b->node, "output_shape") != NULL) {
    LS_ONNX_REFUSE(b, "auto_pad or output_shape of a transposed convolution");
    return;
  }
  for (int32_t i = 0; i < rank; ++i) {
    if (dims[i + 1].is_unknown || !is_within(dims[i + 1].value, 0) ||
        !is_within(more.dim[i], 0) || more.dim[i] >= w.strides.dim[i]) {
      LS_ONNX_REFUSE(b, "a transposed convolution of an unknown or too large "
                        "size, or with output_padding of the stride or more");
      return;
    }
    dims[i + 1].value = (dims[i + 1].value - 1) * w.strides.dim[i] +
                        (w.size.dim[i] - 1) * w.dilations.dim[i] + 1 -
                        w.low.dim[i] - w.high.dim[i] + more.dim[i];
  }
  const ls_tensor kernel = ls_onnx_in(b, 1);
  const int64_t width = ls_tensor_shape(kernel).dim[1];
  if (!is_within(groups, 1) || !is_within(width, 0)) {
    LS_ONNX_REFUSE(b, "a transposed convolution of an unknown or too large "
                      "number of channels");
    return;
  }
  dims[rank + 1].value = width * groups;
  const ls_tensor like = ls_onnx_sized(
      b, LS_OP_BROADCAST, ls_scalar(ls_tensor_dtype(x), 0), dims, rank + 2);
  const ls_convolution_options options = convolution_of(&w, groups);
  const ls_tensor y =
      ls_conv_grad_input(x, weights_last(kernel), like, &options);
  ls_onnx_give_last(b, 0, ls_onnx_has(b, 2) ? ls_add(y, ls_onnx_in(b, 2)) : y);
}

void ls_onnx_make_pool(ls_onnx_build *b) {
  const bool is_max = b->node->type[0] == 'M';
  const bool is_ceil = ls_onnx_attr_int(b, "ceil_mode", 0) != 0;
  const ls_shape shape = ls_onnx_in_shape(b, 0);
  window_list w;
  if (!read_window(b, shape, NULL, &w)) return;
  ls_window_options options = {
      .strides = w.strides,
      .dilations = w.dilations,
      .count_padding = ls_onnx_attr_int(b, "count_include_pad", 0) != 0};
  for (int i = 0; i < w.size.rank; ++i) {
    const int64_t extra =
        is_ceil ? ceil_padding(b, &w, i, shape.dim[i + 2]) : 0;
    if (extra > 0 && options.count_padding)
      LS_ONNX_REFUSE(b, "ceil_mode with count_include_pad");
    w.high.dim[i] += extra;
  }
  options.low = w.low;
  options.high = w.high;
  if (b->node->num_outputs > 1 && b->node->outputs[1] != 0)
    LS_ONNX_REFUSE(b, "the places of maxima");
  ls_onnx_give_last(b, 0,
                    ls_reduce_window(is_max ? LS_WINDOW_MAX : LS_WINDOW_MEAN,
                                     ls_onnx_in_last(b, 0), w.size, &options));
}

void ls_onnx_make_global_pool(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in_last(b, 0);
  const bool is_max = strcmp(b->node->type, "GlobalMaxPool") == 0;
  int axes[LS_MAX_RANK] = {0};
  size_t count = 0;
  for (int i = 1; i + 1 < ls_tensor_shape(x).rank; ++i)
    axes[count++] = i;
  ls_onnx_give_last(
      b, 0,
      ls_make_reduce(is_max ? LS_OP_REDUCE_MAX : LS_OP_REDUCE_MEAN, x,
                     (ls_axes){.items = axes, .count = count}, true));
}

// ---- Normalization ---------------------------------------------------------
// The moving mean and variance stay as they are, also while training.
void ls_onnx_make_batch_norm(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in_last(b, 0);
  if (ls_onnx_attr_int(b, "spatial", 1) == 0)
    LS_ONNX_REFUSE(b, "spatial = 0: a mean for each element");
  if (ls_onnx_attr_int(b, "training_mode", 0) != 0)
    LS_ONNX_REFUSE(b, "training_mode: export the model for inference");
  const ls_tensor variance = ls_onnx_in(b, 4), mean = ls_onnx_in(b, 3),
                  offset = ls_onnx_in(b, 2), scale = ls_onnx_in(b, 1);
  ls_onnx_give_last(
      b, 0,
      ls_batch_norm_inference(x, scale, offset, mean, variance,
                              ls_onnx_attr_real(b, "epsilon", 1e-5),
                              LS_ACTIVATION_NONE));
}

void ls_onnx_make_layer_norm(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in(b, 0), scale = ls_onnx_in(b, 1);
  const ls_shape shape = ls_tensor_shape(x);
  const int axis = ls_onnx_axis(b, ls_onnx_attr_int(b, "axis", -1), shape.rank);
  const ls_tensor zero = ls_scalar(ls_tensor_dtype(scale), 0);
  const ls_tensor offset =
      ls_onnx_has(b, 2) ? ls_onnx_in(b, 2) : ls_broadcast_like(zero, scale);
  const int64_t width = ls_onnx_product(shape, axis, shape.rank);
  if (width < 0 || ls_shape_num_elements(ls_tensor_shape(scale)) != width) {
    LS_ONNX_REFUSE(b, "a scale of another shape than the normalized part");
    return;
  }
  const ls_shape row = LS_SHAPE(width);
  const ls_tensor rows =
      axis < shape.rank - 1 ? ls_reshape(x, LS_SHAPE(-1, width)) : x;
  const ls_tensor offsets = ls_reshape(offset, row);
  const ls_tensor y = ls_layer_norm(rows, ls_reshape(scale, row), offsets,
                                    ls_onnx_attr_real(b, "epsilon", 1e-5));
  ls_onnx_give(b, 0, axis < shape.rank - 1 ? ls_reshape_like(y, x) : y);
}

// Also makes GroupNormalization, whose scale is by channel from opset 21 on.
void ls_onnx_make_instance_norm(ls_onnx_build *b) {
  const ls_tensor x = ls_onnx_in_last(b, 0);
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t channels = shape.rank > 0 ? shape.dim[shape.rank - 1] : -1;
  const bool is_group = b->node->type[0] == 'G';
  if (ls_shape_num_elements(ls_tensor_shape(ls_onnx_in(b, 1))) != channels)
    LS_ONNX_REFUSE(b, "a scale for each group, not for each channel");
  ls_onnx_give_last(
      b, 0,
      ls_group_norm(x, ls_onnx_in(b, 1), ls_onnx_in(b, 2),
                    is_group ? ls_onnx_attr_int(b, "num_groups", 1) : channels,
                    ls_onnx_attr_real(b, "epsilon", 1e-5)));
}

// ---- Lookups along an axis -------------------------------------------------
enum { MOST_INDICES = 1 << 24 };

// Takes the slices of x at these indices.
static ls_tensor take(ls_onnx_build *b, ls_tensor x, const int64_t *indices,
                      int64_t count, int axis) {
  LS_OWN(ls_array, array) = NULL;
  ls_onnx_fail(
      b, ls_array_create_copy(LS_DTYPE_I64, LS_SHAPE(count), indices, &array));
  return array != NULL ? ls_gather(x, ls_constant(array), axis) : x;
}

// Returns the index that reflection or the nearest edge gives.
static int64_t padded_index(int64_t i, int64_t size, bool is_reflected) {
  if (is_reflected && i < 0) i = -i;
  if (is_reflected && i >= size) i = 2 * size - 2 - i;
  return i < 0 ? 0 : (i >= size ? size - 1 : i);
}

static ls_tensor pad_by_index(ls_onnx_build *b, ls_tensor x, int axis,
                              int64_t low, int64_t high, bool is_reflected) {
  const int64_t size = ls_tensor_shape(x).dim[axis];
  const int64_t count = size + low + high;
  if (low == 0 && high == 0) return x;
  int64_t *indices = NULL;
  if (size > 0 && low < MOST_INDICES && high < MOST_INDICES && count > 0 &&
      low > -MOST_INDICES && high > -MOST_INDICES && size < MOST_INDICES &&
      (!is_reflected || (low < size && high < size)))
    indices = ls_arena_new_array(b->memory, int64_t, (size_t)count);
  if (indices == NULL) {
    LS_ONNX_REFUSE(b, "padding by elements of an unknown size, or by more than "
                      "there are");
    return x;
  }
  for (int64_t i = 0; i < count; ++i)
    indices[i] = padded_index(i - low, size, is_reflected);
  return take(b, x, indices, count, axis);
}

void ls_onnx_make_pad(ls_onnx_build *b) {
  const ls_onnx_known *pads = ls_onnx_list_of(b, "pads", 1),
                      *axes = ls_onnx_list_of(b, "axes", 3);
  const char *mode = ls_onnx_attr_text(b, "mode", "constant");
  ls_tensor x = ls_onnx_in(b, 0);
  const int32_t rank = ls_tensor_shape(x).rank;
  ls_shape low = {.rank = rank}, high = {.rank = rank};
  const int64_t count = axes != NULL ? axes->count : rank;
  if (pads == NULL || pads->count != 2 * count) {
    LS_ONNX_REFUSE(b, "a list of pads of another length than the dimensions");
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    const int axis =
        ls_onnx_axis(b, axes != NULL ? axes->items[i].value : i, rank);
    low.dim[axis] = pads->items[i].value;
    high.dim[axis] = pads->items[count + i].value;
  }
  const ls_tensor given =
      ls_onnx_has(b, 2)
          ? ls_reshape(ls_onnx_in(b, 2), LS_SCALAR)
          : ls_scalar(ls_tensor_dtype(x), ls_onnx_attr_real(b, "value", 0));
  if (strcmp(mode, "constant") == 0) {
    ls_onnx_give(b, 0, ls_pad(x, given, low, high, LS_SCALAR));
    return;
  }
  const bool is_reflected = strcmp(mode, "reflect") == 0;
  if (!is_reflected && strcmp(mode, "edge") != 0)
    LS_ONNX_REFUSE(b, "mode '%s'", mode);
  for (int i = 0; i < rank; ++i)
    x = pad_by_index(b, x, i, low.dim[i], high.dim[i], is_reflected);
  ls_onnx_give(b, 0, x);
}

// ---- Resizing --------------------------------------------------------------
typedef struct resizing {
  const char *coordinates, *nearest;
  bool is_linear;
} resizing;

// Computes in floats, as elsewhere, so that the nearest elements are the same.
static float source_of(const resizing *r, int64_t i, int64_t from, int64_t to,
                       float scale) {
  const float at = (float)i;
  if (strcmp(r->coordinates, "asymmetric") == 0) return at / scale;
  if (strncmp(r->coordinates, "tf_", 3) == 0) return (at + 0.5F) / scale;
  if (strcmp(r->coordinates, "align_corners") == 0)
    return to > 1 ? at * (float)(from - 1) / (float)(to - 1) : 0;
  if (strcmp(r->coordinates, "pytorch_half_pixel") == 0 && to == 1) return 0;
  return (at + 0.5F) / scale - 0.5F;
}

static int64_t floor_of(double x) {
  const int64_t whole = (int64_t)x;
  return whole - ((double)whole > x);
}

static int64_t nearest_of(const resizing *r, double x) {
  if (strcmp(r->nearest, "floor") == 0) return floor_of(x);
  if (strcmp(r->nearest, "ceil") == 0) return -floor_of(-x);
  if (strcmp(r->nearest, "round_prefer_ceil") == 0) return floor_of(x + 0.5);
  return -floor_of(0.5 - x);
}

// Makes floats of integers that are blended, as onnxruntime does.
static ls_tensor resize_axis(ls_onnx_build *b, const resizing *r, ls_tensor x,
                             int axis, int64_t to, float scale) {
  if (r->is_linear && !ls_dtype_is_float(ls_tensor_dtype(x)))
    x = ls_convert(x, LS_DTYPE_F32);
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t from = shape.dim[axis];
  LS_OWN(ls_array, parts) = NULL;
  int64_t *first = ls_arena_new_array(b->memory, int64_t, (size_t)to);
  int64_t *second = ls_arena_new_array(b->memory, int64_t, (size_t)to);
  ls_shape line = {.rank = shape.rank};
  for (int i = 0; i < shape.rank; ++i)
    line.dim[i] = i == axis ? to : 1;
  ls_onnx_fail(b, ls_array_create(LS_DTYPE_F32, line, &parts));
  if (first == NULL || second == NULL || parts == NULL) return x;
  for (int64_t i = 0; i < to; ++i) {
    const double at = source_of(r, i, from, to, scale);
    const int64_t low = floor_of(at);
    first[i] =
        padded_index(r->is_linear ? low : nearest_of(r, at), from, false);
    second[i] = padded_index(low + 1, from, false);
    ls_array_set_f64(parts, i, at - (double)low);
  }
  const ls_tensor near = take(b, x, first, to, axis);
  if (!r->is_linear) return near;
  const ls_tensor part = ls_convert(ls_constant(parts), ls_tensor_dtype(x));
  const ls_tensor next = take(b, x, second, to, axis);
  return ls_add(near, ls_mul(part, ls_sub(next, near)));
}

// Reads how to resize; refuses other ways.
static resizing read_resizing(ls_onnx_build *b, bool is_old) {
  static const char *const coordinates[] = {
      "half_pixel",    "pytorch_half_pixel",   "asymmetric",
      "align_corners", "tf_half_pixel_for_nn", NULL};
  static const char *const roundings[] = {"floor", "ceil", "round_prefer_ceil",
                                          "round_prefer_floor", NULL};
  const char *mode = ls_onnx_attr_text(b, "mode", "nearest");
  const resizing r = {
      .coordinates = ls_onnx_attr_text(b, "coordinate_transformation_mode",
                                       is_old ? "asymmetric" : "half_pixel"),
      .nearest = ls_onnx_attr_text(b, "nearest_mode",
                                   is_old ? "floor" : "round_prefer_floor"),
      .is_linear = strcmp(mode, "linear") == 0};
  if ((!r.is_linear && strcmp(mode, "nearest") != 0) ||
      !ls_onnx_is_one_of(r.coordinates, coordinates) ||
      !ls_onnx_is_one_of(r.nearest, roundings) ||
      ls_onnx_attr_int(b, "antialias", 0) != 0 ||
      strcmp(ls_onnx_attr_text(b, "keep_aspect_ratio_policy", "stretch"),
             "stretch") != 0)
    LS_ONNX_REFUSE(b,
                   "mode '%s' with coordinates '%s', rounding '%s', "
                   "antialiasing or a policy",
                   mode, r.coordinates, r.nearest);
  return r;
}

// Returns the scales, of an input or, before opset 9, an attribute; NULL: none.
static const double *scales_of(ls_onnx_build *b, size_t input, int64_t count) {
  const ls_array *array = ls_onnx_array_in(b, input);
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, "scales");
  if (attr != NULL && attr->kind == LS_ONNX_FLOATS &&
      (int64_t)attr->count == count)
    return attr->reals;
  if (array == NULL || ls_array_num_elements(array) != count) return NULL;
  double *scales = ls_arena_new_array(b->memory, double, (size_t)count);
  for (int64_t i = 0; scales != NULL && i < count; ++i)
    scales[i] = ls_array_f64(array, i);
  return scales;
}

// Inputs are x, scales (Upsample), or x, a region, scales, sizes.
void ls_onnx_make_resize(ls_onnx_build *b) {
  const bool is_old =
      strcmp(b->node->type, "Upsample") == 0 || b->file->opset < 11;
  const resizing r = read_resizing(b, is_old);
  const ls_onnx_known *axes = ls_onnx_list_of(b, "axes", 0),
                      *sizes = ls_onnx_known_in(b, 3);
  ls_tensor x = ls_onnx_in(b, 0);
  const ls_tensor given = x;
  const ls_shape shape = ls_tensor_shape(x);
  const int64_t count = axes != NULL ? axes->count : shape.rank;
  const double *scales = scales_of(b, is_old ? 1 : 2, count);
  if (scales == NULL && (sizes == NULL || sizes->count != count))
    LS_ONNX_REFUSE(b, "no scales or sizes, or those of other dimensions");
  for (int64_t k = 0; k < count && ls_status_is_ok(b->status); ++k) {
    const int i = axes != NULL
                      ? ls_onnx_axis(b, axes->items[k].value, shape.rank)
                      : (int)k;
    const ls_onnx_number *wanted = scales != NULL ? NULL : &sizes->items[k];
    const float size = (float)shape.dim[i];
    const float scale =
        scales != NULL ? (float)scales[k] : (float)wanted->value / size;
    const bool is_large = !(scale > 0 && size * scale < MOST_INDICES);
    const int64_t to = is_large         ? 0
                       : wanted == NULL ? (int64_t)(size * scale)
                                        : wanted->value;
    // An unknown first size, the batch, is taken to be x's.
    const bool is_same = wanted == NULL ? scale == 1
                         : wanted->is_unknown
                             ? i == 0 || ls_onnx_is_size_of(wanted, given, i)
                             : to == shape.dim[i];
    if (!is_same &&
        (shape.dim[i] < 1 || to < 1 || (wanted != NULL && wanted->is_unknown)))
      LS_ONNX_REFUSE(b, "resizing of or to an unknown size, or to nothing");
    else if (!is_same)
      x = resize_axis(b, &r, x, i, to, scale);
  }
  ls_onnx_give(b, 0, ls_convert(x, ls_tensor_dtype(given)));
}
