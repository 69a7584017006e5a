// SPDX-License-Identifier: Apache-2.0
//
// The table of StableHLO's ops, and those that rearrange elements.
#include "graph/make/make.h"
#include "lockstep/eager.h"
#include "onnx/hlo.h"

enum { ANY = 255 };
#define UNARY(type, maker)                                                     \
  { type, maker, NULL, NULL, 1, 1 }
#define BINARY(type, maker)                                                    \
  { type, NULL, maker, NULL, 2, 2 }
#define MAKE(type, noun, least, most)                                          \
  { type, NULL, NULL, ls_hlo_make_##noun, least, most }
static const ls_onnx_op ops[] = {
    UNARY("abs", ls_abs),
    UNARY("cbrt", ls_cbrt),
    UNARY("ceil", ls_ceil),
    UNARY("cosine", ls_cos),
    UNARY("count_leading_zeros", ls_count_leading_zeros),
    UNARY("erf", ls_erf),
    UNARY("erfc", ls_erfc),
    UNARY("exponential", ls_exp),
    UNARY("exponential_minus_one", ls_expm1),
    UNARY("floor", ls_floor),
    UNARY("is_finite", ls_is_finite),
    UNARY("log", ls_log),
    UNARY("log_plus_one", ls_log1p),
    UNARY("logistic", ls_sigmoid),
    UNARY("negate", ls_neg),
    UNARY("not", ls_not),
    UNARY("optimization_barrier", ls_identity),
    UNARY("popcnt", ls_popcount),
    UNARY("round_nearest_afz", ls_round_away),
    UNARY("round_nearest_even", ls_round),
    UNARY("rsqrt", ls_rsqrt),
    UNARY("sign", ls_sign),
    UNARY("sine", ls_sin),
    UNARY("sqrt", ls_sqrt),
    UNARY("square", ls_square),
    UNARY("tan", ls_tan),
    UNARY("tanh", ls_tanh),
    BINARY("add", ls_add),
    BINARY("and", ls_and),
    BINARY("atan2", ls_atan2),
    BINARY("divide", ls_div),
    BINARY("maximum", ls_maximum),
    BINARY("minimum", ls_minimum),
    BINARY("multiply", ls_mul),
    BINARY("or", ls_or),
    BINARY("power", ls_pow),
    BINARY("remainder", ls_remainder),
    BINARY("shift_left", ls_shift_left),
    BINARY("shift_right_arithmetic", ls_shift_right_arithmetic),
    BINARY("shift_right_logical", ls_shift_right_logical),
    BINARY("subtract", ls_sub),
    BINARY("xor", ls_xor),
    MAKE("bitcast_convert", bitcast, 1, 1),
    MAKE("broadcast_in_dim", broadcast, 1, 1),
    MAKE("case", choice, 2, ANY),
    MAKE("clamp", clamp, 3, 3),
    MAKE("compare", compare, 2, 2),
    MAKE("concatenate", concatenate, 1, ANY),
    MAKE("convert", convert, 1, 1),
    MAKE("convolution", convolution, 2, 2),
    MAKE("dot", dot, 2, 2),
    MAKE("dot_general", dot_general, 2, 2),
    MAKE("dynamic_slice", dynamic_slice, 1, LS_MAX_RANK + 1),
    MAKE("dynamic_update_slice", dynamic_update, 2, LS_MAX_RANK + 2),
    MAKE("gather", gather, 2, 2),
    MAKE("if", choice, 3, 3),
    MAKE("iota", iota, 0, 0),
    MAKE("pad", pad, 2, 2),
    MAKE("reduce", reduce, 2, 4),
    MAKE("reduce_window", reduce_window, 2, 2),
    MAKE("reshape", reshape, 1, 1),
    MAKE("reverse", reverse, 1, 1),
    MAKE("scatter", scatter, 3, 3),
    MAKE("select", select, 3, 3),
    MAKE("slice", slice, 1, 1),
    MAKE("sort", sort, 1, ANY),
    MAKE("top_k", top_k, 1, 1),
    MAKE("transpose", transpose, 1, 1),
};

const ls_onnx_op *ls_hlo_op_find(const char *domain, const char *type) {
  if (strcmp(domain, "stablehlo") != 0 && strcmp(domain, "chlo") != 0)
    return NULL;
  for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); ++i)
    if (strcmp(ops[i].type, type) == 0) return &ops[i];
  return NULL;
}

// ---- The batch -------------------------------------------------------------
int ls_hlo_batch_of(const ls_onnx_build *b, size_t input) {
  return b->values[b->node->inputs[input]].batch - 1;
}

static int64_t batch_size(const ls_onnx_build *b) {
  return b->file->inputs[0].type.shape.dim[0];
}

void ls_hlo_refuse_batch(ls_onnx_build *b, const char *what) {
  LS_ONNX_REFUSE(b, "%s, for a batch of another size than %lld, the text's",
                 what, (long long)batch_size(b));
}

void ls_hlo_take_batch(ls_onnx_build *b) {
  const ls_onnx_file *file = b->file;
  bool is_other = false;
  for (size_t i = 0; i < file->num_inputs; ++i) {
    const ls_shape wanted = file->inputs[i].type.shape;
    const ls_tensor x = b->values[file->inputs[i].value].tensor;
    const ls_shape got = ls_tensor_shape(x);
    bool fits = true;
    for (int32_t k = 0; k < wanted.rank; ++k) {
      const bool is_batch = k == 0 && wanted.dim[0] == batch_size(b);
      fits =
          fits && (is_batch || got.dim[k] < 0 || got.dim[k] == wanted.dim[k]);
      is_other |= is_batch && got.dim[0] != wanted.dim[0];
    }
    if (!fits)
      ls_onnx_fail(
          b, ls_invalid_argument("input '%s' of '%s' is %s, got %s",
                                 file->inputs[i].name, file->path,
                                 LS_SHAPE_TEXT(ls_tensor_dtype(x), wanted),
                                 LS_SHAPE_TEXT(ls_tensor_dtype(x), got)));
  }
  const ls_onnx_port *first = NULL;
  for (size_t i = 0; is_other && i < file->num_inputs; ++i) {
    const ls_shape wanted = file->inputs[i].type.shape;
    ls_onnx_value *value = &b->values[file->inputs[i].value];
    if (wanted.rank < 1 || wanted.dim[0] != batch_size(b)) continue;
    if (first == NULL) first = &file->inputs[i];
    const ls_shape got = ls_tensor_shape(value->tensor);
    const ls_shape other = ls_tensor_shape(b->values[first->value].tensor);
    if (got.dim[0] != other.dim[0])
      ls_onnx_fail(b, ls_invalid_argument(
                          "inputs of '%s' must have one batch size: '%s' is "
                          "%s, '%s' %s",
                          file->path, first->name,
                          LS_SHAPE_TEXT(first->type.dtype, other),
                          file->inputs[i].name,
                          LS_SHAPE_TEXT(file->inputs[i].type.dtype, got)));
    ls_onnx_number sizes[LS_MAX_RANK];
    ls_onnx_dims(value->tensor, sizes);
    b->batch = sizes[0];
    value->batch = 1;
  }
}

// Returns true if the inputs have another batch size than the text's.
static bool has_other_batch(const ls_onnx_build *b) {
  bool is_other = false;
  for (size_t i = 0; i < b->file->num_inputs; ++i)
    is_other |= b->values[b->file->inputs[i].value].batch > 0;
  return is_other;
}

int ls_hlo_element_batch(ls_onnx_build *b) {
  int batch = -1;
  for (size_t i = 0; i < b->node->num_inputs; ++i) {
    const int own = ls_hlo_batch_of(b, i);
    if (own >= 0 && batch >= 0 && own != batch)
      ls_hlo_refuse_batch(b, "operands with the batch in two dimensions");
    if (own >= 0) batch = own;
  }
  return batch;
}

// ---- Values ----------------------------------------------------------------
// Broadcasts x to sizes of the text; `batch`: the dimension of the batch, or
// -1.
static ls_tensor broadcast_text(ls_onnx_build *b, ls_tensor x, ls_shape shape,
                                int batch) {
  ls_onnx_number sizes[LS_MAX_RANK];
  for (int32_t i = 0; i < shape.rank; ++i)
    sizes[i] = (ls_onnx_number){.value = shape.dim[i]};
  if (batch >= 0) {
    const int64_t unit = batch_size(b);
    const int64_t factor = unit > 0 ? shape.dim[batch] / unit : 0;
    sizes[batch] = b->batch;
    if (!b->batch.is_unknown)
      sizes[batch].value *= factor;
    else if (factor != 1)
      ls_hlo_refuse_batch(b, "a broadcast along a multiple of the batch");
  }
  return ls_onnx_sized(b, LS_OP_BROADCAST, x, sizes, shape.rank);
}

// Returns true for a dimension that a broadcast has added.
static bool is_thin(ls_shape got, ls_shape wanted, int i, int batch) {
  return i != batch && got.dim[i] == 1 && wanted.dim[i] != 1;
}

static ls_tensor widen(ls_onnx_build *b, uint32_t value, uint32_t dims) {
  const ls_tensor x = ls_onnx_tensor(b, value);
  const ls_shape got = ls_tensor_shape(x), wanted = b->file->types[value].shape;
  const int batch = b->values[value].batch - 1;
  ls_shape shape = wanted;
  bool changes = false;
  for (int32_t i = 0; x.ref != 0 && i < wanted.rank; ++i) {
    if (!is_thin(got, wanted, i, batch)) continue;
    const bool is_asked = (dims >> i & 1) != 0;
    changes |= is_asked;
    if (!is_asked) shape.dim[i] = 1;
  }
  return changes ? broadcast_text(b, x, shape, batch) : x;
}

ls_tensor ls_hlo_whole(ls_onnx_build *b, size_t input) {
  return widen(b, b->node->inputs[input], UINT32_MAX);
}

ls_tensor ls_hlo_batched(ls_onnx_build *b, size_t input, int batch) {
  const ls_tensor x = ls_onnx_in(b, input);
  if (batch < 0 || ls_hlo_batch_of(b, input) >= 0 || x.ref == 0)
    return ls_hlo_whole(b, input);
  if (ls_tensor_shape(x).dim[batch] != 1)
    ls_hlo_refuse_batch(b, "an operand with the batch in its sizes");
  return broadcast_text(b, x, ls_hlo_in_shape(b, input), batch);
}

ls_tensor ls_hlo_output(ls_onnx_build *b, uint32_t value) {
  const ls_shape shape = b->file->types[value].shape;
  if (has_other_batch(b) && b->values[value].batch == 0 && shape.rank > 0 &&
      shape.dim[0] == batch_size(b))
    ls_hlo_refuse_batch(b, "rows that do not depend on the examples");
  return widen(b, value, UINT32_MAX);
}

ls_tensor ls_hlo_widened(ls_onnx_build *b, size_t input, uint32_t dims) {
  return widen(b, b->node->inputs[input], dims);
}

bool ls_hlo_has(const int64_t *dims, int count, int dim) {
  for (int i = 0; i < count; ++i)
    if (dims[i] == dim) return true;
  return false;
}

ls_tensor ls_hlo_transpose(ls_tensor x, const int *order, int rank) {
  bool moves = false;
  for (int i = 0; i < rank; ++i)
    moves |= order[i] != i;
  return moves ? ls_transpose(x, order) : x;
}

ls_tensor ls_hlo_reshape(ls_tensor x, ls_shape shape, int batch) {
  if (batch >= 0) shape.dim[batch] = -1;
  return ls_reshape(x, shape);
}

// Returns true if dimension `batch` has the size that the batch gives it.
static bool has_batch(const ls_onnx_build *b, ls_shape got, ls_shape wanted,
                      int batch) {
  const int64_t unit = batch_size(b), size = got.dim[batch];
  return size < 0 || (!b->batch.is_unknown && unit > 0 &&
                      size == b->batch.value * (wanted.dim[batch] / unit));
}

void ls_hlo_give(ls_onnx_build *b, size_t output, ls_tensor x, int batch) {
  const uint32_t value = b->node->outputs[output];
  const ls_type wanted = b->file->types[value];
  ls_onnx_give(b, output, x);
  if (x.ref != 0 && ls_tensor_dtype(x) == LS_DTYPE_NONE)
    ls_onnx_fail(b, ls_tensor_status(x));
  if (x.ref == 0 || !ls_status_is_ok(b->status)) return;
  const ls_shape got = ls_tensor_shape(x);
  bool fits =
      got.rank == wanted.shape.rank && ls_tensor_dtype(x) == wanted.dtype;
  for (int32_t i = 0; fits && i < got.rank; ++i)
    fits = got.dim[i] == wanted.shape.dim[i] || got.dim[i] == 1 || i == batch;
  if (fits && batch >= 0 && !has_batch(b, got, wanted.shape, batch))
    ls_hlo_refuse_batch(b, "an operand with the batch in its sizes");
  if (!fits)
    ls_onnx_fail(
        b, ls_invalid_argument("it makes %s, but its type is %s",
                               LS_SHAPE_TEXT(ls_tensor_dtype(x), got),
                               LS_SHAPE_TEXT(wanted.dtype, wanted.shape)));
  b->values[value].batch = batch + 1;
}

int ls_hlo_ints(ls_onnx_build *b, const char *name, int64_t *out, int most) {
  const ls_onnx_attr *attr = ls_onnx_attr_find(b->node, name);
  if (attr == NULL || (attr->kind != LS_ONNX_INTS && attr->array == NULL))
    return -1;
  const int64_t count = attr->array != NULL ? ls_array_num_elements(attr->array)
                                            : (int64_t)attr->count;
  for (int64_t i = 0; i < count && i < most; ++i)
    out[i] =
        attr->array != NULL ? ls_array_i64(attr->array, i) : attr->numbers[i];
  return count <= most ? (int)count : -1;
}

// Reads a list with an item for each dimension; refuses another one.
static bool read_dims(ls_onnx_build *b, const char *name, int64_t *out,
                      int count, int64_t low, int64_t end) {
  bool fits = ls_hlo_ints(b, name, out, LS_MAX_RANK) == count;
  for (int i = 0; fits && i < count; ++i)
    fits = out[i] >= low && out[i] < end;
  if (!fits)
    ls_onnx_fail(
        b, ls_invalid_argument("%s must be %d numbers from %lld to %lld", name,
                               count, (long long)low, (long long)end - 1));
  return fits;
}

void ls_hlo_make_node(ls_onnx_build *b, const ls_onnx_op *op) {
  if (op->make != NULL) {
    op->make(b);
    return;
  }
  const ls_tensor x = ls_onnx_in(b, 0);
  ls_hlo_give(
      b, 0, op->unary != NULL ? op->unary(x) : op->binary(x, ls_onnx_in(b, 1)),
      ls_hlo_element_batch(b));
}

// ---- Elementwise -----------------------------------------------------------
void ls_hlo_make_convert(ls_onnx_build *b) {
  const ls_dtype dtype = ls_hlo_result_type(b).dtype;
  const ls_tensor x = ls_onnx_in(b, 0);
  ls_hlo_give(b, 0,
              dtype == LS_DTYPE_BOOL
                  ? ls_not_equal(x, ls_scalar(ls_tensor_dtype(x), 0))
                  : ls_convert(x, dtype),
              ls_hlo_batch_of(b, 0));
}

void ls_hlo_make_bitcast(ls_onnx_build *b) {
  ls_hlo_give(b, 0, ls_bitcast(ls_onnx_in(b, 0), ls_hlo_result_type(b).dtype),
              ls_hlo_batch_of(b, 0));
}

void ls_hlo_make_compare(ls_onnx_build *b) {
  static ls_tensor (*const makers[])(ls_tensor x, ls_tensor y) = {
      ls_equal,      ls_not_equal, ls_less,
      ls_less_equal, ls_greater,   ls_greater_equal};
  const char *way = ls_onnx_attr_text(b, "word", "");
  for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); ++i)
    if (strcmp(ls_hlo_directions[i], way) == 0) {
      const ls_tensor y = ls_onnx_in(b, 1);
      ls_hlo_give(b, 0, makers[i](ls_onnx_in(b, 0), y),
                  ls_hlo_element_batch(b));
      return;
    }
  ls_onnx_fail(b, ls_invalid_argument("a comparison without a direction"));
}

void ls_hlo_make_select(ls_onnx_build *b) {
  const ls_tensor otherwise = ls_onnx_in(b, 2), x = ls_onnx_in(b, 1);
  ls_hlo_give(b, 0, ls_select(ls_onnx_in(b, 0), x, otherwise),
              ls_hlo_element_batch(b));
}

void ls_hlo_make_choice(ls_onnx_build *b) {
  const size_t last = b->node->num_inputs - 1;
  const int batch = ls_hlo_element_batch(b);
  const ls_tensor index = ls_onnx_in(b, 0);
  ls_tensor y = ls_hlo_batched(b, last, batch);
  for (size_t k = last - 1; k > 0; --k)
    y = ls_select(ls_tensor_dtype(index) == LS_DTYPE_BOOL
                      ? index
                      : ls_equal(index, ls_scalar_i64(ls_tensor_dtype(index),
                                                      (int64_t)k - 1)),
                  ls_hlo_batched(b, k, batch), y);
  ls_hlo_give(b, 0, y, batch);
}

void ls_hlo_make_clamp(ls_onnx_build *b) {
  const ls_tensor most = ls_onnx_in(b, 2), least = ls_onnx_in(b, 0);
  ls_hlo_give(b, 0, ls_minimum(ls_maximum(ls_onnx_in(b, 1), least), most),
              ls_hlo_element_batch(b));
}

// ---- Shapes ----------------------------------------------------------------
void ls_hlo_make_iota(ls_onnx_build *b) {
  const ls_type type = ls_hlo_result_type(b);
  const int64_t axis = ls_onnx_attr_int(b, "dim", -1);
  ls_shape shape = type.shape;
  if (axis < 0 || axis >= shape.rank) {
    ls_onnx_fail(b, ls_invalid_argument("an iota along dimension %lld",
                                        (long long)axis));
    return;
  }
  for (int32_t i = 0; i < shape.rank; ++i)
    if (i != axis && shape.dim[i] > 0) shape.dim[i] = 1;
  ls_hlo_give(b, 0, ls_iota(type.dtype, shape, (int)axis), -1);
}

void ls_hlo_make_broadcast(ls_onnx_build *b) {
  const ls_shape wanted = ls_hlo_result_type(b).shape,
                 own = ls_hlo_in_shape(b, 0);
  int64_t dims[LS_MAX_RANK];
  ls_shape shape = {.rank = wanted.rank};
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape got = ls_tensor_shape(x);
  const int batch = ls_hlo_batch_of(b, 0);
  bool fits = read_dims(b, "dims", dims, own.rank, 0, wanted.rank);
  for (int32_t i = 0; i < wanted.rank; ++i)
    shape.dim[i] = 1;
  for (int32_t i = 0; fits && i < own.rank; ++i) {
    shape.dim[dims[i]] = got.dim[i];
    fits = (own.dim[i] == 1 || own.dim[i] == wanted.dim[dims[i]]) &&
           (i == 0 || dims[i - 1] < dims[i]) &&
           (i != batch || own.dim[i] == wanted.dim[dims[i]]);
  }
  if (!fits || x.ref == 0) {
    LS_ONNX_REFUSE(b, "dimensions out of order, or of other sizes");
    return;
  }
  const int to = batch >= 0 ? (int)dims[batch] : -1;
  ls_hlo_give(b, 0, own.rank == wanted.rank ? x : ls_hlo_reshape(x, shape, to),
              to);
  // JAX passes initial values through it.
  if (wanted.rank == 0)
    b->values[b->node->outputs[0]].array = b->values[b->node->inputs[0]].array;
}

// Returns where dimension `d` of the old sizes is in the new ones, alone or
// with those that follow it; -1: nowhere.
static int moved_dim(ls_shape old, ls_shape wanted, int d, int64_t unit) {
  int64_t before = 1, now = 1;
  for (int i = 0; i < d; ++i)
    before *= old.dim[i];
  for (int e = 0; e < wanted.rank; now *= wanted.dim[e++]) {
    const int64_t size = wanted.dim[e];
    const bool is_same = size == old.dim[d];
    if (now == before &&
        (is_same ||
         (unit > 1 && size > 0 && old.dim[d] > 0 && size % unit == 0 &&
          (size % old.dim[d] == 0 || old.dim[d] % size == 0))))
      return e;
  }
  return -1;
}

void ls_hlo_make_reshape(ls_onnx_build *b) {
  const ls_shape old = ls_hlo_in_shape(b, 0);
  ls_shape wanted = ls_hlo_result_type(b).shape;
  ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape got = ls_tensor_shape(x);
  const int batch = ls_hlo_batch_of(b, 0);
  int thin = -1, num_thin = 0;
  for (int32_t i = 0; x.ref != 0 && i < old.rank; ++i)
    if (is_thin(got, old, i, batch)) thin = i, ++num_thin;
  const int to = batch >= 0 ? moved_dim(old, wanted, batch, batch_size(b)) : -1;
  const int thin_to = num_thin == 1 ? moved_dim(old, wanted, thin, 0) : -1;
  if (batch >= 0 && to < 0) {
    ls_hlo_refuse_batch(b, "a reshape that mixes the batch with others");
    return;
  }
  if (num_thin > 0 && ls_shape_num_elements(got) == 1)
    for (int32_t i = 0; i < wanted.rank; ++i)
      wanted.dim[i] = 1;
  else if (thin_to >= 0 && thin_to != to)
    wanted.dim[thin_to] = 1;
  else if (num_thin > 0)
    x = ls_hlo_whole(b, 0);
  ls_hlo_give(b, 0, ls_hlo_reshape(x, wanted, to), to);
}

void ls_hlo_make_transpose(ls_onnx_build *b) {
  const ls_shape shape = ls_hlo_in_shape(b, 0);
  int64_t order[LS_MAX_RANK];
  int permutation[LS_MAX_RANK], batch = -1;
  if (!read_dims(b, "dims", order, shape.rank, 0, shape.rank)) return;
  for (int i = 0; i < shape.rank; ++i) {
    permutation[i] = (int)order[i];
    if (order[i] == ls_hlo_batch_of(b, 0)) batch = i;
  }
  ls_hlo_give(b, 0, ls_transpose(ls_onnx_in(b, 0), permutation), batch);
}

// Slices the first input; the batch and added dimensions must be whole.
static void give_slice(ls_onnx_build *b, const int64_t *starts,
                       const int64_t *limits, const int64_t *strides) {
  const ls_shape shape = ls_hlo_in_shape(b, 0);
  const int batch = ls_hlo_batch_of(b, 0);
  ls_shape from = {.rank = shape.rank}, to = from, by = from;
  const ls_tensor x = ls_onnx_in(b, 0);
  const ls_shape got = ls_tensor_shape(x);
  uint32_t partial = 0;
  for (int32_t i = 0; x.ref != 0 && i < shape.rank; ++i) {
    const bool is_whole =
        starts[i] == 0 && limits[i] == shape.dim[i] && strides[i] == 1;
    if (i == batch && !is_whole) ls_hlo_refuse_batch(b, "a slice of the batch");
    if (is_thin(got, shape, i, batch) && !is_whole) partial |= 1u << i;
    from.dim[i] = starts[i];
    to.dim[i] = is_whole ? -1 : limits[i];
    by.dim[i] = strides[i];
  }
  ls_hlo_give(b, 0, ls_slice(ls_hlo_widened(b, 0, partial), from, to, by),
              batch);
}

void ls_hlo_make_slice(ls_onnx_build *b) {
  const int32_t rank = ls_hlo_in_shape(b, 0).rank;
  int64_t ranges[3 * LS_MAX_RANK], lists[3][LS_MAX_RANK];
  const bool is_short =
      ls_hlo_ints(b, "ranges", ranges, 3 * LS_MAX_RANK) == 3 * rank;
  for (int i = 0; is_short && i < 3 * rank; ++i)
    lists[i % 3][i / 3] = ranges[i];
  if (!is_short &&
      !(read_dims(b, "start_indices", lists[0], rank, 0, INT32_MAX) &&
        read_dims(b, "limit_indices", lists[1], rank, 0, INT32_MAX) &&
        read_dims(b, "strides", lists[2], rank, 1, INT32_MAX)))
    return;
  give_slice(b, lists[0], lists[1], lists[2]);
}

void ls_hlo_make_dynamic_slice(ls_onnx_build *b) {
  const ls_shape shape = ls_hlo_in_shape(b, 0);
  int64_t sizes[LS_MAX_RANK], starts[LS_MAX_RANK], limits[LS_MAX_RANK],
      strides[LS_MAX_RANK];
  ls_tensor at[LS_MAX_RANK];
  ls_shape part = {.rank = shape.rank};
  bool is_known = true;
  if (b->node->num_inputs != (size_t)shape.rank + 1) {
    ls_onnx_fail(b, ls_invalid_argument("%zu operands", b->node->num_inputs));
    return;
  }
  if (!read_dims(b, "sizes", sizes, shape.rank, 0, INT32_MAX)) return;
  for (int32_t i = 0; i < shape.rank; ++i) {
    const ls_array *array = ls_onnx_array_in(b, (size_t)i + 1);
    const bool is_one = array != NULL && ls_array_num_elements(array) == 1;
    const bool is_whole = sizes[i] == shape.dim[i];
    int64_t start = is_one ? ls_array_i64(array, 0) : 0;
    if (start > shape.dim[i] - sizes[i]) start = shape.dim[i] - sizes[i];
    starts[i] = start < 0 ? 0 : start;
    limits[i] = starts[i] + sizes[i];
    strides[i] = 1;
    is_known = is_known && (is_whole || is_one);
    part.dim[i] = sizes[i];
  }
  if (is_known) {
    give_slice(b, starts, limits, strides);
    return;
  }
  if (ls_hlo_batch_of(b, 0) >= 0)
    ls_hlo_refuse_batch(b, "a slice at positions that are values");
  for (int32_t i = 0; i < shape.rank; ++i)
    at[i] = ls_onnx_in(b, (size_t)i + 1);
  ls_hlo_give(b, 0, ls_dynamic_slice(ls_hlo_whole(b, 0), at, part), -1);
}

void ls_hlo_make_dynamic_update(ls_onnx_build *b) {
  const ls_shape shape = ls_hlo_in_shape(b, 0), part = ls_hlo_in_shape(b, 1);
  const int own = ls_hlo_batch_of(b, 0), batch = ls_hlo_batch_of(b, 1);
  ls_tensor at[LS_MAX_RANK];
  if (b->node->num_inputs != (size_t)shape.rank + 2 ||
      part.rank != shape.rank) {
    ls_onnx_fail(b, ls_invalid_argument("%zu operands", b->node->num_inputs));
    return;
  }
  if ((own >= 0 && own != batch) ||
      (batch >= 0 && part.dim[batch] != shape.dim[batch]))
    ls_hlo_refuse_batch(b, "an update of a part of the batch");
  for (int32_t i = 0; i < shape.rank; ++i)
    at[i] = ls_onnx_in(b, (size_t)i + 2);
  const ls_tensor x = ls_hlo_batched(b, 0, batch);
  ls_hlo_give(b, 0, ls_dynamic_update_slice(x, ls_hlo_whole(b, 1), at), batch);
}

void ls_hlo_make_pad(ls_onnx_build *b) {
  const int32_t rank = ls_hlo_in_shape(b, 0).rank;
  const int batch = ls_hlo_batch_of(b, 0);
  ls_shape low = {.rank = rank}, high = low, interior = low;
  if (!read_dims(b, "low", low.dim, rank, -INT32_MAX, INT32_MAX) ||
      !read_dims(b, "high", high.dim, rank, -INT32_MAX, INT32_MAX) ||
      !read_dims(b, "interior", interior.dim, rank, 0, INT32_MAX))
    return;
  if (batch >= 0 &&
      (low.dim[batch] | high.dim[batch] | interior.dim[batch]) != 0)
    ls_hlo_refuse_batch(b, "padding of the batch");
  const ls_tensor value = ls_onnx_in(b, 1);
  ls_hlo_give(b, 0, ls_pad(ls_hlo_whole(b, 0), value, low, high, interior),
              batch);
}

void ls_hlo_make_concatenate(ls_onnx_build *b) {
  const int64_t axis = ls_onnx_attr_int(b, "dim", -1);
  const size_t count = b->node->num_inputs;
  ls_tensor *parts = ls_arena_new_array(b->memory, ls_tensor, count);
  const int batch = ls_hlo_element_batch(b);
  if (parts == NULL) ls_onnx_fail(b, ls_out_of_memory());
  if (batch >= 0 && axis == batch)
    ls_hlo_refuse_batch(b, "a concatenation of batches");
  for (size_t i = 0; parts != NULL && i < count; ++i)
    parts[i] = ls_hlo_batched(b, i, batch);
  if (parts != NULL && ls_status_is_ok(b->status))
    ls_hlo_give(b, 0, ls_concatenate(parts, count, (int)axis), batch);
}

void ls_hlo_make_reverse(ls_onnx_build *b) {
  int64_t dims[LS_MAX_RANK];
  int items[LS_MAX_RANK];
  const int count = ls_hlo_ints(b, "dims", dims, LS_MAX_RANK);
  const int batch = ls_hlo_batch_of(b, 0);
  for (int i = 0; i < count; ++i) {
    items[i] = (int)dims[i];
    if (dims[i] == batch && batch >= 0)
      ls_hlo_refuse_batch(b, "a reversed batch");
  }
  const ls_axes axes = {.items = items, .count = count > 0 ? (size_t)count : 0};
  ls_hlo_give(b, 0,
              count > 0 ? ls_reverse(ls_onnx_in(b, 0), axes) : ls_onnx_in(b, 0),
              batch);
}
