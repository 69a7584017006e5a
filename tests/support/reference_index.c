// SPDX-License-Identifier: Apache-2.0
//
// The reference: lookups by index, scans and orders.
#include "support/expect.h"
#include "support/reference_ops.h"

// Index `at` of `indices`, or a number out of range that is as far out as any.
static int64_t index_of(const ref_tensor *indices, int64_t at) {
  const int64_t index = indices->at[at].whole;
  const bool large = indices->type.dtype == LS_DTYPE_U64 && index < 0;
  return large ? INT64_MAX : index;
}

static int64_t clamped(int64_t index, int64_t size) {
  if (index >= size) index = size - 1;
  return index < 0 ? 0 : index;
}

// ---- Slices at indices -----------------------------------------------------
void ref_gather(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const int64_t picks = in[1].count;
  for (int64_t k = 0; k < out->count; ++k) {
    const int64_t pick = k / inner % picks, outer = k / inner / picks;
    const int64_t at = clamped(index_of(&in[1], pick), size);
    out->at[k] = in->at[(outer * size + at) * inner + k % inner];
  }
}

static ref_number combined(const ref_op *op, ls_dtype dtype, ref_number x,
                           ref_number update) {
  static const struct {
    const char *name;
    uint16_t type;
  } rows[] = {{"add", LS_OP_ADD},     {"sub", LS_OP_SUB},
              {"mul", LS_OP_MUL},     {"div", LS_OP_DIV},
              {"min", LS_OP_MINIMUM}, {"max", LS_OP_MAXIMUM}};
  for (size_t i = 0; i < LS_COUNT_OF(rows); ++i)
    if (ref_is(op, "combine", rows[i].name))
      return ref_binary_number(rows[i].type, dtype, x, update);
  return update;
}

void ref_scatter(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const ls_dtype dtype = out->type.dtype;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const int64_t outers = ref_outer(shape, axis), picks = in[1].count;
  ref_copy(&in[0], out);
  for (int64_t outer = 0; outer < outers; ++outer)
    for (int64_t pick = 0; pick < picks; ++pick) {
      const int64_t at = index_of(&in[1], pick);
      if (at < 0 || at >= size) continue;
      for (int64_t i = 0; i < inner; ++i) {
        ref_number *to = &out->at[(outer * size + at) * inner + i];
        const ref_number update = in[2].at[(outer * picks + pick) * inner + i];
        *to = ref_stored(dtype, combined(op, dtype, *to, update));
      }
    }
}

// Zeros with the slices added; 16-bit floats are rounded at the end.
void ref_indexed_slices(const ref_op *op, const ref_tensor *in,
                        ref_tensor *out) {
  const int64_t inner = ref_inner(out->type.shape, 0);
  (void)op;
  for (int64_t k = 0; k < in[1].count; ++k) {
    const int64_t at = index_of(&in[0], k / inner);
    if (at < 0 || at >= out->type.shape.dim[0]) continue;
    ref_number *to = &out->at[at * inner + k % inner];
    *to = ref_sum(out->type.dtype, *to, in[1].at[k]);
  }
}

// ---- Line by line ----------------------------------------------------------
void ref_take_along(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(out->type.shape, k, place);
    place[axis] = clamped(index_of(&in[1], k), in->type.shape.dim[axis]);
    out->at[k] = in->at[ref_index(in->type.shape, place)];
  }
}

void ref_add_along(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  const ls_dtype dtype = out->type.dtype;
  ref_copy(&in[0], out);
  for (int64_t k = 0; k < in[1].count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(in[1].type.shape, k, place);
    place[axis] = index_of(&in[1], k);
    if (place[axis] < 0 || place[axis] >= in->type.shape.dim[axis]) continue;
    ref_number *to = &out->at[ref_index(out->type.shape, place)];
    *to = ref_stored(dtype,
                     ref_binary_number(LS_OP_ADD, dtype, *to, in[2].at[k]));
  }
}

// ---- Scans -----------------------------------------------------------------
static ref_number scanned(const ref_op *op, ls_dtype dtype, ref_number so_far,
                          const ref_tensor *in, int64_t at) {
  if (op->type == LS_OP_CUMSUM) return ref_sum(dtype, so_far, in->at[at]);
  if (op->type == LS_OP_CUMPROD) return ref_product(dtype, so_far, in->at[at]);
  return ref_sum(dtype, ref_product(dtype, so_far, in[0].at[at]), in[1].at[at]);
}

void ref_scan(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = out->type.shape;
  const ls_dtype dtype = out->type.dtype;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const bool reverse = ref_int(op, "reverse", 0) != 0;
  const bool exclusive = ref_int(op, "exclusive", 0) != 0;
  for (int64_t line = 0; line < ref_outer(shape, axis) * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    ref_number so_far = {0};
    if (op->type == LS_OP_CUMPROD) so_far = ref_one(dtype);
    for (int64_t i = 0; i < size; ++i) {
      const int64_t at = first + (reverse ? size - 1 - i : i) * inner;
      const ref_number before = so_far;
      so_far = scanned(op, dtype, so_far, in, at);
      out->at[at] = exclusive ? before : so_far;
    }
  }
}

// ---- Orders ----------------------------------------------------------------
// The places of `size` numbers, `step` apart, in their stable order: each is
// put behind those that are not after it.
static void order_line(ls_dtype dtype, const ref_number *line, int64_t step,
                       int64_t size, bool descending, int64_t *out) {
  for (int64_t i = 0; i < size; ++i) {
    int64_t low = 0, high = i;
    while (low < high) {
      const int64_t middle = low + (high - low) / 2;
      const int order =
          ref_order(dtype, line[out[middle] * step], line[i * step]);
      if (descending ? order >= 0 : order <= 0)
        low = middle + 1;
      else
        high = middle;
    }
    memmove(out + low + 1, out + low, (size_t)(i - low) * sizeof(*out));
    out[low] = i;
  }
}

void ref_sort(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const bool descending = ref_int(op, "descending", 0) != 0;
  int64_t *order = ref_allocate(op->run, (size_t)size, sizeof(*order));
  for (int64_t line = 0; line < ref_outer(shape, axis) * inner; ++line) {
    const int64_t first = line / inner * size * inner + line % inner;
    order_line(in->type.dtype, in->at + first, inner, size, descending, order);
    for (int64_t i = 0; i < size; ++i) {
      for (size_t n = 0; n < op->num_in; ++n)
        out[n].at[first + i * inner] = in[n].at[first + order[i] * inner];
      out[op->num_in].at[first + i * inner].whole = order[i];
    }
  }
}

void ref_top_k(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_shape shape = in->type.shape;
  const int64_t size = shape.dim[shape.rank - 1], k = ref_int(op, "k", 0);
  int64_t *order = ref_allocate(op->run, (size_t)size, sizeof(*order));
  for (int64_t line = 0; line < ref_outer(shape, shape.rank - 1); ++line) {
    order_line(in->type.dtype, in->at + line * size, 1, size, true, order);
    for (int64_t i = 0; i < k; ++i) {
      out[0].at[line * k + i] = in->at[line * size + order[i]];
      out[1].at[line * k + i].whole = order[i];
    }
  }
}

void ref_one_hot(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int64_t depth = ref_int(op, "depth", 0);
  for (int64_t k = 0; k < in->count; ++k) {
    const int64_t at = index_of(in, k);
    if (at >= 0 && at < depth)
      out->at[k * depth + at] = ref_one(out->type.dtype);
  }
}

void ref_argmax(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int32_t axis = (int32_t)ref_int(op, "axis", 0);
  const ls_shape shape = in->type.shape;
  const ls_dtype dtype = in->type.dtype;
  const int64_t inner = ref_inner(shape, axis), size = shape.dim[axis];
  const int sign = op->type == LS_OP_ARGMAX ? 1 : -1;
  for (int64_t line = 0; line < out->count; ++line) {
    const ref_number *x = in->at + line / inner * size * inner + line % inner;
    int64_t best = 0;
    for (int64_t i = 1; i < size; ++i) {
      const ref_number a = x[i * inner], b = x[best * inner];
      if (b.real != b.real) break;  // The first nan stays.
      if (a.real != a.real || sign * ref_order(dtype, a, b) > 0) best = i;
    }
    out->at[line].whole = best;
  }
}
