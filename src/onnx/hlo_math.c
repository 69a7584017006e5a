// SPDX-License-Identifier: Apache-2.0
//
// Makers of StableHLO's products, convolutions, reductions and windows.
#include <math.h>

#include "base/values/numbers.h"
#include "graph/make/make.h"
#include "onnx/hlo.h"

// ---- Products --------------------------------------------------------------
// Dimensions of an operand: batch, free and contracting ones.
typedef struct dot_side {
  int64_t batch[LS_MAX_RANK], contract[LS_MAX_RANK];
  int free[LS_MAX_RANK];
  int num_batch, num_contract, num_free;
  int tracked;  // Dimension of the model's batch, or -1.
  ls_shape shape;
} dot_side;

static bool find_free(dot_side *s) {
  bool used[LS_MAX_RANK] = {false};
  for (int i = 0; i < s->num_batch + s->num_contract; ++i) {
    const int64_t dim =
        i < s->num_batch ? s->batch[i] : s->contract[i - s->num_batch];
    if (dim < 0 || dim >= s->shape.rank || used[dim]) return false;
    used[dim] = true;
  }
  for (int i = 0; i < s->shape.rank; ++i)
    if (!used[i]) s->free[s->num_free++] = i;
  return true;
}

// Returns an operand as [batch, free, contracting], or with the last two
// swapped, each one dimension.
static ls_tensor dot_operand(ls_tensor x, const dot_side *s,
                             bool contract_first) {
  int order[LS_MAX_RANK], at = 0, rank = 0;
  int64_t sizes[3] = {1, 1, 1};
  ls_shape shape = {.rank = 3};
  const int free_place = contract_first ? 2 : 1;
  for (int i = 0; i < s->num_batch; ++i)
    order[at++] = (int)s->batch[i];
  for (int pass = 0; pass < 2; ++pass)
    if ((pass == 0) == contract_first)
      for (int i = 0; i < s->num_contract; ++i)
        order[at++] = (int)s->contract[i];
    else
      for (int i = 0; i < s->num_free; ++i)
        order[at++] = s->free[i];
  for (int i = 0; i < at; ++i) {
    const bool is_batch = i < s->num_batch;
    const int place = is_batch ? 0
                      : ls_hlo_has(s->contract, s->num_contract, order[i])
                          ? 3 - free_place
                          : free_place;
    sizes[place] = order[i] == s->tracked || sizes[place] < 0
                       ? -1
                       : sizes[place] * s->shape.dim[order[i]];
  }
  for (rank = 0; rank < 3; ++rank)
    shape.dim[rank] = sizes[rank];
  return ls_reshape(ls_hlo_transpose(x, order, at), shape);
}

// Returns the dimension of the result that is a free one of a side.
static int result_dim(const dot_side *s, int dim, int before) {
  for (int i = 0; i < s->num_batch; ++i)
    if (s->batch[i] == dim) return i;
  for (int i = 0; i < s->num_free; ++i)
    if (s->free[i] == dim) return s->num_batch + before + i;
  return -1;
}

// Makes the product of [..., k] and a matrix. Returns false for another one.
static bool make_matrix_product(ls_onnx_build *b, const dot_side *s) {
  const int last = s[0].shape.rank - 1;
  if (s[0].num_batch != 0 || s[0].num_contract != 1 || s[1].shape.rank != 2 ||
      last < 1 || s[0].contract[0] != last || s[1].tracked >= 0 ||
      s[0].tracked == last)
    return false;
  const ls_tensor x = ls_hlo_widened(b, 0, 1u << last);
  ls_hlo_give(
      b, 0,
      ls_matmul_transposed(x, false, ls_hlo_whole(b, 1), s[1].contract[0] == 1),
      s[0].tracked);
  return true;
}

static void make_product(ls_onnx_build *b, dot_side *s) {
  ls_tensor operands[2];
  int batch = -1;
  if (!find_free(&s[0]) || !find_free(&s[1]) ||
      s[0].num_batch != s[1].num_batch ||
      s[0].num_contract != s[1].num_contract) {
    ls_onnx_fail(b, ls_invalid_argument("dimensions that do not fit"));
    return;
  }
  if (make_matrix_product(b, s)) return;
  for (int i = 0; i < 2; ++i) {
    if (s[i].tracked < 0) continue;
    const int dim = result_dim(&s[i], s[i].tracked, i == 0 ? 0 : s[0].num_free);
    if (dim < 0 || dim >= ls_hlo_result_type(b).shape.rank ||
        (batch >= 0 && dim != batch)) {
      ls_hlo_refuse_batch(b, "a sum over the batch, or products of pairs");
      return;
    }
    batch = dim;
  }
  for (int i = 0; i < 2; ++i) {
    // An operand that is the same for the whole batch.
    const bool is_same =
        batch >= 0 && batch < s[i].num_batch && s[i].tracked < 0;
    if (is_same) s[i].tracked = (int)s[i].batch[batch];
    operands[i] =
        dot_operand(ls_hlo_batched(b, (size_t)i, s[i].tracked), &s[i], i == 1);
  }
  ls_hlo_give(b, 0,
              ls_hlo_reshape(ls_matmul(operands[0], operands[1]),
                             ls_hlo_result_type(b).shape, batch),
              batch);
}

void ls_hlo_make_dot_general(ls_onnx_build *b) {
  static const char *const names[2][2] = {
      {"batching_dims", "contracting_dims"},
      {"batching_dims2", "contracting_dims2"}};
  dot_side s[2] = {{.num_free = 0}, {.num_free = 0}};
  for (size_t i = 0; i < 2; ++i) {
    s[i].shape = ls_hlo_in_shape(b, i);
    s[i].tracked = ls_hlo_batch_of(b, i);
    s[i].num_batch = ls_hlo_ints(b, names[i][0], s[i].batch, LS_MAX_RANK);
    s[i].num_contract = ls_hlo_ints(b, names[i][1], s[i].contract, LS_MAX_RANK);
    if (s[i].num_batch < 0) s[i].num_batch = 0;
    if (s[i].num_contract < 0) s[i].num_contract = 0;
    if (s[i].num_batch + s[i].num_contract > s[i].shape.rank) {
      ls_onnx_fail(b, ls_invalid_argument("dimensions that do not fit"));
      return;
    }
  }
  make_product(b, s);
}

void ls_hlo_make_dot(ls_onnx_build *b) {
  dot_side s[2] = {{.num_contract = 1}, {.num_contract = 1}};
  for (size_t i = 0; i < 2; ++i) {
    s[i].shape = ls_hlo_in_shape(b, i);
    s[i].tracked = ls_hlo_batch_of(b, i);
  }
  s[0].contract[0] = s[0].shape.rank - 1;
  make_product(b, s);
}

// ---- Convolutions ----------------------------------------------------------
// Reads positions of dimensions: `first` and `second` are codes of letters,
// numbers are spatial dimensions. `order` gets those of first, spatial ones,
// second, or of spatial ones, first, second.
static bool read_places(ls_onnx_build *b, const char *name, int rank,
                        int64_t first, int64_t second, bool spatial_first,
                        int *order) {
  int64_t places[LS_MAX_RANK];
  bool fits = ls_hlo_ints(b, name, places, LS_MAX_RANK) == rank;
  uint32_t found = 0;
  for (int i = 0; fits && i < rank; ++i) {
    const int64_t p = places[i];
    const int to = p == second              ? rank - 1
                   : p == first             ? (spatial_first ? rank - 2 : 0)
                   : p >= 0 && p < rank - 2 ? (int)p + !spatial_first
                                            : -1;
    fits = to >= 0;
    if (!fits) break;
    order[to] = i;
    found |= 1u << to;
  }
  fits = fits && found == (1u << rank) - 1;
  if (!fits) ls_onnx_fail(b, ls_invalid_argument("damaged dim_numbers"));
  return fits;
}

// Reads a list for the spatial dimensions; without it all are `fallback`.
static bool read_spatial(ls_onnx_build *b, const char *name, int count,
                         int64_t fallback, int64_t *out) {
  const int found = ls_hlo_ints(b, name, out, 2 * LS_MAX_RANK);
  bool fits = found == count || found == -1;
  for (int i = 0; found != count && i < count; ++i)
    out[i] = found == 1 ? out[0] : fallback;
  for (int i = 0; i < count; ++i)
    fits = fits && out[i] > -INT32_MAX && out[i] < INT32_MAX;
  if (!fits && found != 1)
    ls_onnx_fail(b, ls_invalid_argument("%s must be %d numbers", name, count));
  return fits || found == 1;
}

static ls_tensor flip(ls_onnx_build *b, ls_tensor w, int rank) {
  int64_t flags[2 * LS_MAX_RANK];
  int axes[LS_MAX_RANK];
  size_t count = 0;
  if (!read_spatial(b, "reverse", rank, 0, flags)) return w;
  for (int i = 0; i < rank; ++i)
    if (flags[i] != 0) axes[count++] = i;
  return count > 0 ? ls_reverse(w, (ls_axes){.items = axes, .count = count})
                   : w;
}

void ls_hlo_make_convolution(ls_onnx_build *b) {
  const int all = ls_hlo_in_shape(b, 0).rank, rank = all - 2;
  int from[LS_MAX_RANK], weights[LS_MAX_RANK], to[LS_MAX_RANK],
      back[LS_MAX_RANK];
  int64_t pads[2 * LS_MAX_RANK], lists[3][2 * LS_MAX_RANK];
  const int batch = ls_hlo_batch_of(b, 0);
  if (rank < 1 || rank > 3 || ls_hlo_in_shape(b, 1).rank != all ||
      ls_hlo_result_type(b).shape.rank != all) {
    LS_ONNX_REFUSE(b, "a convolution of %d dimensions", all);
    return;
  }
  ls_convolution_options options = {
      .groups = ls_onnx_attr_int(b, "feature_group_count", 1)};
  if (!read_places(b, "dim_numbers", all, -1, -2, false, from) ||
      !read_places(b, "dim_numbers2", all, -3, -4, true, weights) ||
      !read_places(b, "dim_numbers3", all, -1, -2, false, to) ||
      !read_spatial(b, "stride", rank, 1, lists[0]) ||
      !read_spatial(b, "rhs_dilate", rank, 1, lists[1]) ||
      !read_spatial(b, "lhs_dilate", rank, 1, lists[2]) ||
      !read_spatial(b, "pad", 2 * rank, 0, pads))
    return;
  if (ls_onnx_attr_int(b, "batch_group_count", 1) != 1)
    LS_ONNX_REFUSE(b, "groups of the batch");
  if ((batch >= 0 && batch != from[0]) || ls_hlo_batch_of(b, 1) >= 0)
    ls_hlo_refuse_batch(b, "weights or channels made of the batch");
  ls_shape *const shapes[] = {&options.strides, &options.dilations,
                              &options.input_dilations};
  options.low.rank = options.high.rank = rank;
  for (int k = 0; k < 3; ++k) {
    shapes[k]->rank = rank;
    memcpy(shapes[k]->dim, lists[k], (size_t)rank * sizeof(int64_t));
  }
  for (int i = 0; i < rank; ++i) {
    options.low.dim[i] = pads[2 * i];
    options.high.dim[i] = pads[2 * i + 1];
    if (pads[2 * i] < 0 || pads[2 * i + 1] < 0)
      LS_ONNX_REFUSE(b, "a negative padding");
  }
  for (int i = 0; i < all; ++i)
    back[to[i]] = i;
  const ls_tensor w =
      flip(b, ls_hlo_transpose(ls_hlo_whole(b, 1), weights, all), rank);
  if (!ls_status_is_ok(b->status)) return;
  const ls_tensor y = ls_convolution(
      ls_hlo_transpose(ls_hlo_whole(b, 0), from, all), w, &options);
  ls_hlo_give(b, 0, ls_hlo_transpose(y, back, all), batch >= 0 ? to[0] : -1);
}

// ---- Makers of values ------------------------------------------------------
const ls_onnx_node *ls_hlo_maker(const ls_onnx_file *file, size_t first,
                                 uint32_t value, const char *type) {
  for (size_t i = file->num_nodes; i-- > first;) {
    const ls_onnx_node *node = &file->nodes[i];
    for (size_t k = 0; k < node->num_outputs; ++k)
      if (node->outputs[k] == value)
        return strcmp(node->type, type) == 0 ? node : NULL;
  }
  return NULL;
}

bool ls_hlo_number(const ls_onnx_file *file, uint32_t value, double *out) {
  for (size_t i = file->num_initializers; i-- > 0;) {
    const ls_onnx_initializer *constant = &file->initializers[i];
    if (constant->value != value) continue;
    const bool is_one = !constant->is_variable && constant->array != NULL &&
                        ls_array_num_elements(constant->array) == 1;
    if (is_one) *out = ls_array_f64(constant->array, 0);
    return is_one;
  }
  return false;
}

static bool is_zero(const ls_onnx_file *file, uint32_t value) {
  double number = 0;
  return ls_hlo_number(file, value, &number) && number == 0;
}

// ---- Reductions ------------------------------------------------------------
static const struct reducer {
  const char *name;
  uint16_t op;
  ls_tensor (*combine)(ls_tensor x, ls_tensor y);
  double neutral;
  bool is_logical;
} reducers[] = {{"add", LS_OP_REDUCE_SUM, ls_add, 0, false},
                {"multiply", LS_OP_REDUCE_PRODUCT, ls_mul, 1, false},
                {"maximum", LS_OP_REDUCE_MAX, ls_maximum, -HUGE_VAL, false},
                {"minimum", LS_OP_REDUCE_MIN, ls_minimum, HUGE_VAL, false},
                {"and", LS_OP_REDUCE_AND, ls_and, 1, true},
                {"or", LS_OP_REDUCE_OR, ls_or, 0, true}};

static const struct reducer *find_reducer(ls_onnx_build *b) {
  const char *region = ls_onnx_attr_text(b, "region", "");
  const ls_dtype dtype = ls_hlo_result_type(b).dtype;
  for (size_t i = 0; i < sizeof(reducers) / sizeof(reducers[0]); ++i)
    if (strcmp(region, reducers[i].name) == 0 &&
        (!reducers[i].is_logical || dtype == LS_DTYPE_BOOL))
      return &reducers[i];
  LS_ONNX_REFUSE(b, "a region that computes '%s' of %s", region,
                 ls_dtype_name(dtype));
  return NULL;
}

// Returns true if the initial value is known to change nothing.
static bool starts_neutral(const ls_onnx_build *b, const struct reducer *way) {
  const ls_array *array = ls_onnx_array_in(b, 1);
  return array != NULL && ls_array_num_elements(array) == 1 &&
         ls_array_f64(array, 0) == way->neutral;
}

// Combines a result with the initial value, unless that changes nothing.
static ls_tensor with_initial(ls_onnx_build *b, const struct reducer *way,
                              ls_tensor x) {
  return starts_neutral(b, way) ? x : way->combine(x, ls_onnx_in(b, 1));
}

// Returns true if a value is the least of its type, or the most.
static bool is_end(const ls_array *array, bool is_least) {
  const double all = is_least ? -HUGE_VAL : HUGE_VAL;
  uint64_t end = 0;
  if (array == NULL || ls_array_num_elements(array) != 1) return false;
  ls_values_from_f64(ls_array_dtype(array), &all, 1, &end);
  return memcmp(&end, ls_array_data(array), ls_array_size(array)) == 0;
}

// Makes a maximum or minimum and its place, the first of equal ones and of
// NaNs, of a reduction of x and its places, an iota.
static void make_place(ls_onnx_build *b, const int *axes, int count,
                       ls_tensor x, int batch) {
  static const char rest[] =
      " compare NE or compare EQ compare LT and or select select";
  const ls_onnx_file *file = b->file;
  const ls_onnx_node *node = b->node;
  const char *region = ls_onnx_attr_text(b, "region", "");
  const bool is_max = strncmp(region, "compare GT", 10) == 0;
  const ls_onnx_node *places = ls_hlo_maker(file, 0, node->inputs[2], "iota");
  const ls_onnx_attr *along =
      places != NULL ? ls_onnx_attr_find(places, "dim") : NULL;
  if (node->num_inputs != 4 ||
      (!is_max && strncmp(region, "compare LT", 10) != 0) ||
      strcmp(region + 10, rest) != 0 || count != 1 || along == NULL ||
      along->number != axes[0] || node->num_outputs != 2 ||
      !is_end(ls_onnx_array_in(b, 1), is_max) ||
      !is_zero(file, node->inputs[3])) {
    LS_ONNX_REFUSE(b, "a reduction of several operands, other than the first "
                      "place of a maximum or minimum");
    return;
  }
  const ls_dtype dtype = file->types[node->outputs[1]].dtype;
  const uint16_t op = is_max ? LS_OP_REDUCE_MAX : LS_OP_REDUCE_MIN;
  const ls_tensor at = is_max ? ls_argmax(x, axes[0]) : ls_argmin(x, axes[0]);
  ls_hlo_give(b, 0, ls_make_reduce(op, x, LS_AXES(axes[0]), false), batch);
  ls_hlo_give(b, 1, ls_convert(at, dtype), batch);
}

void ls_hlo_make_reduce(ls_onnx_build *b) {
  int64_t dims[LS_MAX_RANK];
  int axes[LS_MAX_RANK], batch = ls_hlo_batch_of(b, 0), before = 0;
  const int rank = ls_hlo_in_shape(b, 0).rank;
  const int count = ls_hlo_ints(b, "dims", dims, LS_MAX_RANK);
  uint32_t reduced = 0;
  if (count < 0) ls_onnx_fail(b, ls_invalid_argument("no dimensions"));
  for (int i = 0; i < count; ++i) {
    axes[i] = ls_onnx_axis(b, dims[i], rank);
    before += axes[i] < batch;
    reduced |= 1u << axes[i];
    if (batch >= 0 && axes[i] == batch)
      ls_hlo_refuse_batch(b, "a reduction of the batch");
  }
  if (batch >= 0) batch -= before;
  if (!ls_status_is_ok(b->status)) return;
  ls_tensor x = ls_hlo_widened(b, 0, reduced);
  if (b->node->num_inputs > 2) {
    make_place(b, axes, count, x, batch);
    return;
  }
  const struct reducer *way = find_reducer(b);
  if (way == NULL) return;
  if (count > 0)
    x = ls_make_reduce(way->op, x,
                       (ls_axes){.items = axes, .count = (size_t)count}, false);
  ls_hlo_give(b, 0, with_initial(b, way, x), batch);
}

// ---- Windows ---------------------------------------------------------------
typedef struct window {
  int64_t size[2 * LS_MAX_RANK], stride[2 * LS_MAX_RANK],
      dilation[2 * LS_MAX_RANK], pads[2 * LS_MAX_RANK];
} window;

static bool is_single(const window *w, int i) {
  return w->size[i] == 1 && w->stride[i] == 1 && w->pads[2 * i] == 0 &&
         w->pads[2 * i + 1] == 0;
}

// Slides a window over dimensions 1 to rank - 2 of x.
static ls_tensor slide(const struct reducer *way, ls_tensor x, const window *w,
                       const int *order, int rank) {
  ls_shape sizes = {.rank = rank - 2};
  ls_window_options options = {
      .strides = sizes, .dilations = sizes, .low = sizes, .high = sizes};
  for (int i = 0; i + 2 < rank; ++i) {
    const int from = order[i + 1];
    sizes.dim[i] = w->size[from];
    options.strides.dim[i] = w->stride[from];
    options.dilations.dim[i] = w->dilation[from];
    options.low.dim[i] = w->pads[2 * from];
    options.high.dim[i] = w->pads[2 * from + 1];
  }
  if (way->op == LS_OP_REDUCE_SUM)
    return ls_reduce_window(LS_WINDOW_SUM, x, sizes, &options);
  if (way->op == LS_OP_REDUCE_MAX)
    return ls_reduce_window(LS_WINDOW_MAX, x, sizes, &options);
  return ls_neg(ls_reduce_window(LS_WINDOW_MAX, ls_neg(x), sizes, &options));
}

// Returns the one axis along which a window computes running sums; -1: none.
static int axis_of_sums(ls_onnx_build *b, const struct reducer *way,
                        const window *w, int rank) {
  int axis = -1, count = 0;
  for (int i = 0; i < rank; ++i) {
    if (is_single(w, i)) continue;
    axis = i;
    ++count;
  }
  const bool sums = count == 1 && way->op == LS_OP_REDUCE_SUM &&
                    w->stride[axis] == 1 && w->dilation[axis] == 1 &&
                    w->pads[2 * axis + 1] == 0 &&
                    w->size[axis] == ls_hlo_in_shape(b, 0).dim[axis] &&
                    w->pads[2 * axis] == w->size[axis] - 1;
  return sums ? axis : -1;
}

static void make_window(ls_onnx_build *b, const struct reducer *way,
                        const window *w, int rank) {
  int order[LS_MAX_RANK], back[LS_MAX_RANK], singles[2] = {-1, -1}, at = 1;
  const int batch = ls_hlo_batch_of(b, 0);
  const int axis = axis_of_sums(b, way, w, rank);
  if (axis >= 0) {
    const ls_tensor x = ls_hlo_widened(b, 0, 1u << axis);
    ls_hlo_give(b, 0, with_initial(b, way, ls_cumsum(x, axis, false, false)),
                batch);
    return;
  }
  for (int i = 0; i < rank; ++i)
    if (is_single(w, i)) singles[singles[0] >= 0] = i;
  if (rank < 3 || rank > 5)
    LS_ONNX_REFUSE(b, "a window over a tensor of %d dimensions, not 3 to 5",
                   rank);
  else if (singles[0] < 0 || singles[1] < 0)
    LS_ONNX_REFUSE(b, "a window over more than %d of %d dimensions", rank - 2,
                   rank);
  if (!ls_status_is_ok(b->status)) return;
  for (int i = 0; i < rank; ++i)
    if (i != singles[0] && i != singles[1]) order[at++] = i;
  order[0] = singles[0];
  order[rank - 1] = singles[1];
  for (int i = 0; i < rank; ++i)
    back[order[i]] = i;
  const uint32_t singles_only = 1u << singles[0] | 1u << singles[1];
  const ls_tensor x =
      ls_hlo_transpose(ls_hlo_widened(b, 0, ~singles_only), order, rank);
  ls_hlo_give(
      b, 0,
      with_initial(b, way,
                   ls_hlo_transpose(slide(way, x, w, order, rank), back, rank)),
      batch);
}

void ls_hlo_make_reduce_window(ls_onnx_build *b) {
  const int rank = ls_hlo_in_shape(b, 0).rank;
  const int batch = ls_hlo_batch_of(b, 0);
  int64_t base[2 * LS_MAX_RANK];
  window w;
  const struct reducer *way = find_reducer(b);
  if (way == NULL || !read_spatial(b, "window_dimensions", rank, 1, w.size) ||
      !read_spatial(b, "stride", rank, 1, w.stride) ||
      !read_spatial(b, "window_dilations", rank, 1, w.dilation) ||
      !read_spatial(b, "base_dilations", rank, 1, base) ||
      !read_spatial(b, "pad", 2 * rank, 0, w.pads))
    return;
  bool fits = way->op == LS_OP_REDUCE_SUM || way->op == LS_OP_REDUCE_MAX ||
              (way->op == LS_OP_REDUCE_MIN &&
               ls_dtype_is_float(ls_hlo_result_type(b).dtype));
  bool is_padded = false;
  for (int i = 0; i < rank; ++i) {
    fits = fits && base[i] == 1;
    is_padded |= (w.pads[2 * i] | w.pads[2 * i + 1]) != 0;
  }
  if (!fits) LS_ONNX_REFUSE(b, "a window of this kind, or a dilated input");
  if (way->op == LS_OP_REDUCE_SUM && is_padded && !starts_neutral(b, way))
    LS_ONNX_REFUSE(b, "sums in windows with a padding other than zeros");
  if (batch >= 0 && !is_single(&w, batch))
    ls_hlo_refuse_batch(b, "a window over the batch");
  if (ls_status_is_ok(b->status)) make_window(b, way, &w, rank);
}

// ---- Softmax at the end ----------------------------------------------------
// Follows broadcasts back from `value` to what they repeat. `dims`, of the
// value, become those of what is returned, -1 where elements are repeated.
static uint32_t follow_broadcasts(const ls_onnx_file *file, uint32_t value,
                                  int *dims, int count) {
  enum { MOST_BROADCASTS = 8 };
  for (int k = 0; k < MOST_BROADCASTS; ++k) {
    const ls_onnx_node *wide = ls_hlo_maker(file, 0, value, "broadcast_in_dim");
    ls_onnx_build b = {.file = file, .node = wide};
    int64_t to[LS_MAX_RANK];
    if (wide == NULL) break;
    const ls_shape shape = file->types[value].shape;
    const ls_shape own = ls_hlo_in_shape(&b, 0);
    if (ls_hlo_ints(&b, "dims", to, LS_MAX_RANK) != own.rank) break;
    for (int i = 0; i < count; ++i) {
      int from = -1;
      for (int d = 0; dims[i] >= 0 && d < own.rank; ++d)
        if (to[d] == dims[i] && own.dim[d] == shape.dim[to[d]]) from = d;
      dims[i] = from;
    }
    value = wide->inputs[0];
  }
  return value;
}

// Returns true if `value` is x summed along the last dimension, and repeated
// along it.
static bool is_sum_of(const ls_onnx_file *file, uint32_t value, uint32_t x) {
  const int rank = file->types[x].shape.rank;
  int dims[LS_MAX_RANK];
  int64_t summed[LS_MAX_RANK];
  for (int i = 0; i < rank; ++i)
    dims[i] = i;
  if (rank < 1 ||
      !ls_shape_equal(file->types[value].shape, file->types[x].shape))
    return false;
  value = follow_broadcasts(file, value, dims, rank);
  const ls_onnx_node *sum = ls_hlo_maker(file, 0, value, "reduce");
  ls_onnx_build b = {.file = file, .node = sum};
  bool fits = sum != NULL && sum->inputs[0] == x &&
              is_zero(file, sum->inputs[1]) &&
              strcmp(ls_onnx_attr_text(&b, "region", ""), "add") == 0 &&
              ls_hlo_ints(&b, "dims", summed, LS_MAX_RANK) == 1 &&
              summed[0] == rank - 1 && dims[rank - 1] < 0;
  for (int i = 0; fits && i < rank - 1; ++i)
    fits = dims[i] == i;
  return fits;
}

// Finds x in exp(x - c) / sum(exp(x - c)), where c, a maximum in practice, is
// the same along the last dimension.
uint32_t ls_hlo_logits(const ls_onnx_file *file, uint32_t value) {
  const ls_shape shape = file->types[value].shape;
  const ls_onnx_node *quotient = ls_hlo_maker(file, 0, value, "divide");
  if (quotient == NULL) return value;
  const ls_onnx_node *power =
      ls_hlo_maker(file, 0, quotient->inputs[0], "exponential");
  if (power == NULL ||
      !is_sum_of(file, quotient->inputs[1], quotient->inputs[0]))
    return value;
  const ls_onnx_node *shifted =
      ls_hlo_maker(file, 0, power->inputs[0], "subtract");
  int last = shape.rank - 1;
  if (shifted == NULL ||
      !ls_shape_equal(file->types[shifted->inputs[0]].shape, shape) ||
      !ls_shape_equal(file->types[shifted->inputs[1]].shape, shape))
    return power->inputs[0];
  follow_broadcasts(file, shifted->inputs[1], &last, 1);
  return last < 0 ? shifted->inputs[0] : power->inputs[0];
}
