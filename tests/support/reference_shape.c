// SPDX-License-Identifier: Apache-2.0
//
// The reference: sources, and ops that move elements.
#include "support/expect.h"
#include "support/reference_ops.h"

// ---- Sources ---------------------------------------------------------------
void ref_constant(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)in;
  const ls_attr *value = ls_node_attr(op->node, LS_ATTR_ID_VALUE);
  const void *data = ls_array_data(value->as.array);
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = ref_load(out->type.dtype, data, k);
}

void ref_iota(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)in;
  const int64_t axis = ref_int(op, "axis", 0);
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(out->type.shape, k, place);
    out->at[k].whole = place[axis];
    out->at[k].real = (double)place[axis];
  }
}

void ref_dim_size(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  out->at[0].whole = in->type.shape.dim[ref_int(op, "axis", 0)];
}

// ---- Moves -----------------------------------------------------------------
void ref_nothing(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)op;
  (void)in;
  (void)out;
}

void ref_copies(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (size_t i = 0; i < op->num_out; ++i)
    ref_copy(&in[i], &out[i]);
}

void ref_broadcast(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in->at[ref_aligned(in, out->type.shape, k)];
}

void ref_sum_to(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < in->count; ++k) {
    ref_number *to = &out->at[ref_aligned(out, in->type.shape, k)];
    *to = ref_sum(out->type.dtype, *to, in->at[k]);
  }
}

void ref_transpose(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t to[LS_MAX_RANK], from[LS_MAX_RANK];
    ref_place(out->type.shape, k, to);
    for (int32_t i = 0; i < out->type.shape.rank; ++i)
      from[ref_item(op, "permutation", i, 0)] = to[i];
    out->at[k] = in->at[ref_index(in->type.shape, from)];
  }
}

void ref_reverse(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const ls_shape shape = out->type.shape;
  for (int64_t k = 0; k < out->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(shape, k, place);
    for (int32_t i = 0; i < shape.rank; ++i)
      if (ref_lists(op, "axes", i)) place[i] = shape.dim[i] - 1 - place[i];
    out->at[k] = in->at[ref_index(shape, place)];
  }
}

// ---- Slices ----------------------------------------------------------------
// The element of `whole` where element `index` of a slice lies.
static int64_t sliced_from(const ref_op *op, ls_shape slice, ls_shape whole,
                           int64_t index) {
  int64_t place[LS_MAX_RANK];
  ref_place(slice, index, place);
  for (int32_t i = 0; i < slice.rank; ++i)
    place[i] =
        ref_item(op, "starts", i, 0) + place[i] * ref_item(op, "strides", i, 1);
  return ref_index(whole, place);
}

void ref_slice(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in->at[sliced_from(op, out->type.shape, in->type.shape, k)];
}

void ref_slice_grad(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (int64_t k = 0; k < in->count; ++k)
    out->at[sliced_from(op, in->type.shape, out->type.shape, k)] = in->at[k];
}

// The element of `whole` where element `index` of a part lies, whose starts,
// clamped, are the operands from `first` on.
static int64_t part_of(const ref_tensor *in, size_t first, ls_shape part,
                       ls_shape whole, int64_t index) {
  int64_t place[LS_MAX_RANK];
  ref_place(part, index, place);
  for (int32_t i = 0; i < part.rank; ++i) {
    const ref_tensor *start = &in[first + (size_t)i];
    const ref_number most = {.whole = whole.dim[i] - part.dim[i]};
    ref_number at = start->at[0];
    if (ref_order(start->type.dtype, at, (ref_number){.whole = 0}) < 0)
      at.whole = 0;
    if (ref_order(start->type.dtype, at, most) > 0) at = most;
    place[i] += at.whole;
  }
  return ref_index(whole, place);
}

void ref_dynamic_slice(const ref_op *op, const ref_tensor *in,
                       ref_tensor *out) {
  (void)op;
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in->at[part_of(in, 1, out->type.shape, in->type.shape, k)];
}

void ref_dynamic_update_slice(const ref_op *op, const ref_tensor *in,
                              ref_tensor *out) {
  (void)op;
  ref_copy(&in[0], out);
  for (int64_t k = 0; k < in[1].count; ++k)
    out->at[part_of(in, 2, in[1].type.shape, out->type.shape, k)] = in[1].at[k];
}

// ---- Pad, concatenate, split -----------------------------------------------
void ref_pad(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  for (int64_t k = 0; k < out->count; ++k)
    out->at[k] = in[1].at[0];
  for (int64_t k = 0; k < in->count; ++k) {
    int64_t place[LS_MAX_RANK];
    bool inside = true;
    ref_place(in->type.shape, k, place);
    for (int32_t i = 0; i < in->type.shape.rank; ++i) {
      place[i] = ref_item(op, "low", i, 0) +
                 place[i] * (1 + ref_item(op, "interior", i, 0));
      inside = inside && place[i] >= 0 && place[i] < out->type.shape.dim[i];
    }
    if (inside) out->at[ref_index(out->type.shape, place)] = in->at[k];
  }
}

// Copies a piece from or to where it lies in the whole along an axis.
static void move_piece(ref_tensor *whole, ref_tensor *piece, int64_t axis,
                       int64_t start, bool into) {
  for (int64_t k = 0; k < piece->count; ++k) {
    int64_t place[LS_MAX_RANK];
    ref_place(piece->type.shape, k, place);
    place[axis] += start;
    ref_number *there = &whole->at[ref_index(whole->type.shape, place)];
    if (into)
      *there = piece->at[k];
    else
      piece->at[k] = *there;
  }
}

void ref_concatenate(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  int64_t start = 0;
  for (size_t i = 0; i < op->num_in; ++i) {
    ref_tensor piece = in[i];
    move_piece(out, &piece, axis, start, true);
    start += piece.type.shape.dim[axis];
  }
}

void ref_split_like(const ref_op *op, const ref_tensor *in, ref_tensor *out) {
  const int64_t axis = ref_int(op, "axis", 0);
  ref_tensor whole = in[0];
  int64_t start = 0;
  for (size_t i = 0; i < op->num_out; ++i) {
    move_piece(&whole, &out[i], axis, start, false);
    start += out[i].type.shape.dim[axis];
  }
}
