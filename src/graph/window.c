// SPDX-License-Identifier: Apache-2.0
#include "graph/window.h"

// Reads the numbers of `attr`, `each` per dimension, into out[dimension *
// each...].
static ls_status window_read_numbers(const ls_window *w, const ls_attr *attr,
                                     int32_t each, int64_t *out) {
  const int32_t count = w->rank * each;
  if (attr->as.ints.count != (size_t)count)
    return ls_invalid_argument("%s: '%s' must have %d whole numbers, %d for "
                               "each of %d spatial dimensions, has %zu",
                               w->op_name, attr->name, count, each, w->rank,
                               attr->as.ints.count);
  memcpy(out, attr->as.ints.items, (size_t)count * sizeof(*out));
  return ls_ok();
}

static ls_status read_padding(ls_window *w, const ls_attr *padding) {
  if (padding == NULL) return ls_ok();
  if (w->same)
    return ls_invalid_argument(
        "%s: it has 'padding' and is 'same', which pads as it needs",
        w->op_name);
  int64_t numbers[2 * LS_WINDOW_DIMS];
  LS_RETURN_IF_ERROR(window_read_numbers(w, padding, 2, numbers));
  for (int32_t i = 0; i < w->rank; ++i) {
    w->low[i] = numbers[2 * i];
    w->high[i] = numbers[2 * i + 1];
  }
  return ls_ok();
}

ls_status ls_window_read(const char *op_name, const ls_attr *attrs,
                         size_t num_attrs, int32_t rank,
                         ls_window *out_window) {
  ls_window *w = out_window;
  *w = (ls_window){.op_name = op_name, .rank = rank};
  if (rank < 1 || rank > LS_WINDOW_DIMS)
    return ls_invalid_argument("%s: %d spatial dimensions; with a batch before "
                               "and channels after them 1 to %d are possible",
                               op_name, rank, LS_WINDOW_DIMS);
  for (int32_t i = 0; i < rank; ++i) {
    w->taps[i] = LS_UNKNOWN_DIM;
    w->strides[i] = w->dilations[i] = w->input_dilations[i] = 1;
  }
  const struct {
    ls_attr_id id;
    int64_t *numbers;
  } lists[] = {{LS_ATTR_ID_WINDOW, w->taps},
               {LS_ATTR_ID_WINDOW_STRIDES, w->strides},
               {LS_ATTR_ID_DILATIONS, w->dilations},
               {LS_ATTR_ID_INPUT_DILATIONS, w->input_dilations}};
  for (size_t i = 0; i < LS_COUNT_OF(lists); ++i) {
    const ls_attr *attr = ls_attr_find(attrs, num_attrs, lists[i].id);
    if (attr != NULL)
      LS_RETURN_IF_ERROR(window_read_numbers(w, attr, 1, lists[i].numbers));
  }
  w->same = ls_attr_int(attrs, num_attrs, LS_ATTR_ID_SAME) != 0;
  return read_padding(w, ls_attr_find(attrs, num_attrs, LS_ATTR_ID_PADDING));
}

// Returns (count - 1) * distance + 1, or -1 if the result is too large.
static int64_t span_of(int64_t count, int64_t distance) {
  int64_t span;
  if (count == 0) return 0;
  if (__builtin_mul_overflow(count - 1, distance, &span) || span >= LS_MAX_SIZE)
    return -1;
  return span + 1;
}

ls_status ls_window_slide(ls_window *w, int32_t axis, int64_t size,
                          int64_t *out_size) {
  const int64_t taps = w->taps[axis], stride = w->strides[axis];
  *out_size = LS_UNKNOWN_DIM;
  if (taps == 0)
    return ls_invalid_argument(
        "%s: the window has size 0 along spatial dimension %d", w->op_name,
        axis);
  const int64_t have =
      size < 0 ? size : span_of(size, w->input_dilations[axis]);
  const int64_t want = taps < 0 ? taps : span_of(taps, w->dilations[axis]);
  if ((size >= 0 && have < 0) || (taps >= 0 && want < 0))
    return ls_invalid_argument("%s: %lld elements by a window of %lld along "
                               "spatial dimension %d are more than is possible",
                               w->op_name, (long long)size, (long long)taps,
                               axis);
  if (size < 0) return ls_ok();
  if (w->same) {
    *out_size = (have + stride - 1) / stride;
    if (taps < 0) return ls_ok();
    const int64_t missing = (*out_size - 1) * stride + want - have;
    const int64_t padding = *out_size > 0 && missing > 0 ? missing : 0;
    w->low[axis] = padding / 2;
    w->high[axis] = padding - padding / 2;
    return ls_ok();
  }
  if (taps < 0) return ls_ok();
  const int64_t room = w->low[axis] + have + w->high[axis] - want;
  if (room < 0)
    return ls_invalid_argument(
        "%s: along spatial dimension %d the window spans %lld elements, the "
        "input with its padding has %lld",
        w->op_name, axis, (long long)want, (long long)(room + want));
  *out_size = room / stride + 1;
  return ls_ok();
}

// ---- Convolutions with maxima ----------------------------------------------
bool ls_can_pool(ls_type y) {
  const ls_shape *s = &y.shape;
  return y.dtype == LS_DTYPE_F32 && s->rank == LS_POOL_RANK && s->dim[0] != 0 &&
         s->dim[1] >= LS_POOL_SIDE && s->dim[2] >= LS_POOL_SIDE &&
         s->dim[3] > 0;
}

bool ls_window_is(const ls_window *window, int64_t side, int64_t stride) {
  for (int32_t i = 0; i < window->rank; ++i)
    if (window->taps[i] != side || window->strides[i] != stride ||
        window->dilations[i] != 1 || window->input_dilations[i] != 1)
      return false;
  return true;
}

bool ls_can_join_pool(const ls_attr *attrs, size_t num_attrs, ls_shape w) {
  if (w.rank != LS_POOL_RANK || w.dim[2] < 1 ||
      ls_attr_int(attrs, num_attrs, LS_ATTR_ID_CHANNEL_GROUPS) != 1)
    return false;
  ls_window window;
  ls_status status = ls_window_read("", attrs, num_attrs, w.rank - 2, &window);
  const bool reads = ls_status_is_ok(status);
  ls_status_free(status);
  for (int32_t i = 0; reads && i < window.rank; ++i)
    window.taps[i] = w.dim[i];
  return reads && ls_window_is(&window, LS_POOL_TAPS, 1);
}
